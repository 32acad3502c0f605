"""Products of layers: what remains of a stack when its entries share one law over depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from deeplimit.common import randomness
from deeplimit.trained.diagnosis.stacks import Stack

TWINS, STRANGERS = 0.9, 0.6
"""Cosine from which layers are nearly copies, and up to which they are none."""
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
        replicates: products of each network (L, L), where `products` is the mean over several.
    """

    products: np.ndarray
    entries: int
    groups: tuple[int, ...] = ()
    replicates: tuple[np.ndarray, ...] = ()

    @classmethod
    def pooled(cls, grams: Sequence[LayerGram]) -> LayerGram:
        """Return the products of networks of one form, of equal weight, as if they were one with all entries.

        Not checked: that they have as many layers, and the same groups.
        """
        if len(grams) == 1:
            return grams[0]
        sizes = [float(np.trace(each.products)) / len(each.products) or 1.0 for each in grams]
        replicates = tuple(each.products / size for each, size in zip(grams, sizes, strict=True))
        entries = sum(each.entries for each in grams)
        return cls(np.mean(replicates, axis=0), entries, grams[0].groups, replicates)

    def each(self) -> tuple[LayerGram, ...]:
        """Return the products of every network."""
        return tuple(LayerGram(one, self.entries, self.groups) for one in self.replicates) or (self,)

    def shuffled(self, seed: int) -> LayerGram:
        """Return the same layers in a random order within groups, another one in each network."""
        stream = randomness.generator(seed, randomness.Purpose.LAYER_ORDER)
        labels = np.asarray(self.groups or (0,) * len(self.products))
        slots = np.argsort(labels, kind="stable")
        found = []
        for one in self.each():
            order = np.empty(len(labels), dtype=int)
            keys = torch.rand(len(labels), generator=stream, dtype=torch.float64).numpy()
            order[slots] = np.argsort(keys + labels)
            found.append(LayerGram(one.products[np.ix_(order, order)], one.entries, self.groups))
        return LayerGram.pooled(found)

    @classmethod
    def of(cls, stack: Stack) -> LayerGram:
        """Return the products of a stack's layers, accumulated in float64 over chunks of entries."""
        depth = stack.depth
        flat = stack.values.reshape(depth, -1)
        entries = flat.shape[1]
        products = torch.zeros(depth, depth, dtype=torch.float64)
        width = max(1, CHUNK // depth)
        for begin in range(0, entries, width):
            # A copy: the last bits of a product depend on where its factors lie in memory.
            part = flat[:, begin : begin + width].to(torch.float64, copy=True).contiguous()
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


def copied_groups(gram: LayerGram) -> list[list[int]]:
    """Return the groups of layers, from 0, that are nearly copies, if layers come in copies; else none.

    Half of all layers or more then have a twin, copies of at least three kinds there are, and layers of two
    groups are far from alike: the layers of a smooth trend are not.

    Examples:
        >>> import numpy as np
        >>> copied_groups(LayerGram(np.kron(np.eye(3), np.ones((2, 2))), 9))
        [[0, 1], [2, 3], [4, 5]]
    """
    cosine = cosines(gram)
    left, groups = set(range(len(cosine))), []
    while left:
        group, near = set[int](), {min(left)}
        while near:
            group |= near
            near = {int(k) for each in near for k in np.flatnonzero(cosine[each] >= TWINS)} - group
        left -= group
        groups.append(sorted(group))
    labels = np.empty(len(cosine), dtype=int)
    for number, members in enumerate(groups):
        labels[members] = number
    apart = np.not_equal.outer(labels, labels)
    twins = [group for group in groups if len(group) > 1]
    many = len(twins) >= 3 and 2 * sum(map(len, twins)) >= len(cosine)
    return twins if many and float(cosine[apart].max(initial=-1.0)) <= STRANGERS else []


def copies(gram: LayerGram) -> list[int]:
    """Return the layers, from 0, that hold the numbers of an earlier one, or nothing but zeros."""
    sizes = np.diagonal(gram.products)
    largest = np.maximum(np.maximum.outer(sizes, sizes), 1e-300)
    apart = (np.add.outer(sizes, sizes) - 2 * gram.products) / largest  # |a - b|² over the larger square
    earlier = np.tril(apart < 1e-12, -1)
    return [int(k) for k in np.flatnonzero(earlier.any(axis=1) | (sizes == 0))]


def repeated(networks: Sequence[Mapping[Any, LayerGram]]) -> tuple[int, int] | None:
    """Return the places of two networks whose layers have the same products, to the last bit; or None."""
    for later, other in enumerate(networks):
        for place, first in enumerate(networks[:later]):
            both = first.keys() & other.keys()
            if both and all(np.array_equal(first[key].products, other[key].products) for key in both):
                return place, later
    return None
