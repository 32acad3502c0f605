"""Is the order of layers real? An exact test that permutes layers and needs their products only.

Layers that are alike whatever their distance, as in an ensemble, pass as unordered. So do layers that share
spikes, which a test against independent layers would reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from deeplimit.common import randomness
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines

NUMBERS_AT_ONCE = 2**22
"""So many places of permuted layers are held at a time."""


@final
@dataclass(frozen=True)
class OrderTest:
    """Whether neighbouring layers are more, or less, alike than layers in a random order.

    Attributes:
        likeness: mean cosine of neighbouring layers of one group.
        by_chance: the same in a random order, within groups.
        p_smooth: p-value of neighbours that are more alike than by chance.
        p_rough: p-value of neighbours that are less alike.
        permutations: how many random orders were drawn.
    """

    likeness: float
    by_chance: float
    p_smooth: float
    p_rough: float
    permutations: int

    @property
    def p_value(self) -> float:
        """P-value of any order, twice the smaller of the two."""
        return min(1.0, 2 * min(self.p_smooth, self.p_rough))


def order_test(gram: LayerGram, seed: int = 0, permutations: int = 9999) -> OrderTest:
    """Return the permutation test of a stack's order.

    Under the hypothesis that all orders of the layers within their groups are equally likely, each p-value
    is at most p with probability at most p, exactly, for any law of the layers.

    Args:
        gram: products of layers; permutations stay within its groups.
        seed: which random orders are drawn.
        permutations: how many.

    Raises:
        ValueError: where no two layers of a group are neighbours among the layers of that group.

    Not checked: that groups hold all layers that are alike by construction. Where they do not, layers that
    are merely of one sort read as ordered.

    Examples:
        >>> import numpy as np
        >>> walk = np.random.default_rng(1).standard_normal((12, 50)).cumsum(axis=0)
        >>> order_test(LayerGram(walk @ walk.T / 50, 50)).p_smooth
        0.0001
    """
    cosine = cosines(gram)
    depth = len(cosine)
    groups = np.asarray(gram.groups or (0,) * depth)
    slots = np.argsort(groups, kind="stable")
    together = groups[slots][1:] == groups[slots][:-1]
    here, after = slots[:-1][together], slots[1:][together]
    if len(here) == 0:
        raise ValueError(
            f"the order of layers needs a group of two or more layers, got groups {gram.groups}; give layers"
            " that are alike the same number in groups=."
        )
    observed = cosine[here, after].mean()
    generator = randomness.generator(seed, randomness.Purpose.LAYER_ORDER)
    drawn: list[np.ndarray] = []
    done = 0
    while done < permutations:
        count = min(permutations - done, max(1, NUMBERS_AT_ONCE // depth))
        keys = torch.rand(count, depth, generator=generator, dtype=torch.float64).numpy()
        order = np.empty((count, depth), dtype=np.int64)
        order[:, slots] = np.argsort(keys + groups, axis=1)
        drawn.append(cosine[order[:, here], order[:, after]].mean(axis=1))
        done += count
    chance = np.concatenate(drawn)
    # Sums in another order differ by rounding; equal ones must count on both sides.
    slack = 1e-12 * max(1.0, abs(float(observed)))
    at_least = int((chance >= observed - slack).sum())
    at_most = int((chance <= observed + slack).sum())
    return OrderTest(
        float(observed),
        _mean_within(cosine, groups),
        (1 + at_least) / (1 + permutations),
        (1 + at_most) / (1 + permutations),
        permutations,
    )


def _mean_within(cosine: np.ndarray, groups: np.ndarray) -> float:
    """Return the mean over random orders, exactly: each group's mean pair, weighed by its neighbours."""
    total, count = 0.0, 0
    for group in np.unique(groups):
        inside = np.flatnonzero(groups == group)
        size = len(inside)
        if size > 1:
            block = cosine[np.ix_(inside, inside)]
            total += (block.sum() - np.trace(block)) / size
            count += size - 1
    return float(total / count)
