"""Products of layers: what remains of a stack when its entries share one law over depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from deeplimit.trained.diagnosis.stacks import Stack

CHUNK = 2**22
"""So many entries of all layers together are turned into float64 at a time."""


@final
@dataclass(frozen=True, eq=False)
class LayerGram:
    """Mean products of layers' entries, sufficient where entries share one law over depth.

    Attributes:
        products: mean over entries of layer k's times layer l's (L, L), float64.
        entries: how many entries a layer has.
        groups: number of each layer's group (L,); empty where all layers are alike.
    """

    products: np.ndarray
    entries: int
    groups: tuple[int, ...] = ()

    @classmethod
    def of(cls, stack: Stack) -> LayerGram:
        """Return the products of a stack's layers, accumulated in float64 over chunks of entries."""
        depth = stack.depth
        flat = stack.values.reshape(depth, -1)
        entries = flat.shape[1]
        products = torch.zeros(depth, depth, dtype=torch.float64)
        width = max(1, CHUNK // depth)
        for begin in range(0, entries, width):
            part = flat[:, begin : begin + width].to(torch.float64)
            products += part @ part.T
        return cls((products / entries).numpy(), entries, stack.groups)


def cosines(gram: LayerGram) -> np.ndarray:
    """Return cosines of all pairs of layers (L, L); those with a layer that is zero are 0.

    Examples:
        >>> import numpy as np
        >>> cosines(LayerGram(np.array([[4.0, 1.0], [1.0, 1.0]]), 9))[0, 1].item()
        0.5
    """
    sizes = np.sqrt(np.diagonal(gram.products))
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    scaled: np.ndarray = gram.products * inverse * inverse[:, None]
    return scaled
