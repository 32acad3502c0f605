"""Gradients clipped at a norm, network by network."""

from __future__ import annotations

import numpy as np
import torch

from deeplimit.common.arrays import Array, ArrayLibrary

Arrays = dict[str, Array]
SMALL = 1e-6
"""What torch.nn.utils.clip_grad_norm_ adds to the norm before it divides by it."""


def clipped(gradients: Arrays, most: float, library: ArrayLibrary) -> Arrays:
    """Return gradients (L, S, ...) scaled so that the Euclidean norm of each network's is at most `most`.

    The formula is that of torch.nn.utils.clip_grad_norm_. A norm that is not finite leaves no finite
    gradient.
    """
    networks = next(iter(gradients.values())).shape[1]
    squares = np.zeros(networks)
    for place in range(networks):
        for value in gradients.values():
            # One network after the other: the order of a sum must not depend on how many there are.
            one = library.tensor(library.copy(value[:, place])).to(torch.float64)
            squares[place] += float(one.square().sum())
    factors = library.array(torch.from_numpy(np.minimum(most / (np.sqrt(squares) + SMALL), 1.0)))
    return {
        name: value * factors.reshape(1, networks, *[1] * (value.ndim - 2))
        for name, value in gradients.items()
    }
