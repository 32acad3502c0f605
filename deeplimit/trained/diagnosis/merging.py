"""How well a layer is replaced by its neighbours: merged with the next one, or interpolated between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np

from deeplimit.common.fields import Shape
from deeplimit.trained.diagnosis.layer_gram import LayerGram


@final
@dataclass(frozen=True, eq=False)
class Merging:
    """Relative squared errors of updates when layers are replaced.

    Attributes:
        pairs: error of two neighbouring layers that both become their mean, over both squares (L - 1,). It is
            0 for equal layers, 1/2 for independent ones of one size, 1 for opposite ones.
        inside: error of a layer that becomes the mean of its two neighbours, over its square (L - 2,). It is
            3/2 for independent ones: three halves of the noise share, plus what the trend's curvature adds.
    """

    pairs: Annotated[np.ndarray, Shape("pairs")]
    inside: Annotated[np.ndarray, Shape("pairs-1")]

    def cheapest(self, count: int) -> tuple[int, ...]:
        """Return the pairs (k, k + 1) with the smallest errors by their first layer, cheapest first."""
        return tuple(int(place) for place in np.argsort(self.pairs, kind="stable")[:count])


def merging(gram: LayerGram) -> Merging:
    """Return the errors of replacing layers, from products of layers alone.

    Args:
        gram: products of what layers add, or of their weights, with L layers.

    Not checked: what the network makes of the error. A replaced layer also changes what later ones are given.

    Examples:
        >>> merging(LayerGram(np.eye(4), 9)).pairs
        array([0.5, 0.5, 0.5])
    """
    products = gram.products
    squares, next_ = np.diagonal(products), np.diagonal(products, 1)
    both = squares[:-1] + squares[1:]
    pairs = (both - 2 * next_) / 2
    second = np.diagonal(products, 2)
    inside = squares[1:-1] - next_[:-1] - next_[1:] + (squares[:-2] + squares[2:] + 2 * second) / 4
    return Merging(_over(pairs, both), _over(inside, squares[1:-1]))


def _over(errors: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return errors relative to squares; a layer that adds nothing has no error."""
    relative: np.ndarray = np.divide(errors.clip(0.0), squares, out=np.zeros_like(errors), where=squares > 0)
    return relative
