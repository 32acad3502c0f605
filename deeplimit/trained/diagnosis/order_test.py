"""Is the order of layers real? An exact test that permutes layers and needs their products only.

Layers that are alike whatever their distance, as in an ensemble, pass as unordered. So do layers that share
spikes, which a test against independent layers would reject.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import torch

from deeplimit.common import randomness
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines

ALL = 40320
"""Number of orders of eight layers, 8!: all orders are tried of eight layers or fewer."""
MORE = 10
"""Factor by which the number of drawn orders grows where fewer than SEEN of them are as extreme."""
SEEN = 10
"""A p-value from fewer random orders at least as extreme is that of a tail, which is fitted."""
TAIL = 250
"""Random orders beyond the tail's threshold: the choice of Knijnenburg et al. (2009)."""
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
        permutations: how many orders were tried.
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
    is at most p with probability at most p, exactly, for any law of the layers. Up to eight layers all orders
    are tried. Of more layers, a p-value too small for the random orders that are drawn is read off an
    exponential tail: the law's tail is lighter, so the p-value is too large rather than too small.

    Args:
        gram: products of layers; permutations stay within its groups. Several networks are permuted apart,
            and the mean over them is tested.
        seed: which random orders are drawn.
        permutations: how many, at least.

    Raises:
        ValueError: where no two layers of a group are neighbours among the layers of that group.

    Not checked: that groups hold all layers that are alike by construction. Where they do not, layers that
    are merely of one sort read as ordered.

    Examples:
        >>> import numpy as np
        >>> walk = np.random.default_rng(1).standard_normal((12, 50)).cumsum(axis=0)
        >>> order_test(LayerGram(walk @ walk.T / 50, 50)).p_smooth < 1e-4
        True
    """
    depth = len(gram.products)
    groups = np.asarray(gram.groups or (0,) * depth)
    slots = np.argsort(groups, kind="stable")
    together = groups[slots][1:] == groups[slots][:-1]
    here, after = slots[:-1][together], slots[1:][together]
    if len(here) == 0:
        raise ValueError(
            f"the order of layers needs a group of two or more layers, got groups {gram.groups}; give layers"
            " that are alike the same number in groups=."
        )
    networks = [cosines(each) for each in gram.each()]
    observed = float(np.mean([cosine[here, after].mean() for cosine in networks]))
    sizes = np.unique(groups, return_counts=True)[1]
    orders = math.prod(math.factorial(int(size)) for size in sizes)
    if orders <= ALL and len(networks) == 1:
        order = _every_order(tuple(groups.tolist()))
        chance, whole = networks[0][order[:, here], order[:, after]].mean(axis=1), True
    else:
        generator = randomness.generator(seed, randomness.Purpose.LAYER_ORDER)
        draws = [_drawn(each, slots, here, after, groups, generator, permutations) for each in networks]
        chance, whole = np.mean(draws, axis=0), False
        fewest = min((chance >= observed).sum(), (chance <= observed).sum())
        if fewest < SEEN and permutations >= 4 * TAIL and permutations * depth <= NUMBERS_AT_ONCE:
            more = (MORE - 1) * permutations
            draws = [_drawn(each, slots, here, after, groups, generator, more) for each in networks]
            chance = np.concatenate([chance, np.mean(draws, axis=0)])
    # Sums in another order differ by rounding; equal ones must count on both sides.
    slack = 1e-12 * max(1.0, abs(observed))
    # An order and its reverse, group by group, have the same neighbours.
    least = math.exp(len(networks) * sum(math.log(2 - (size < 2)) - math.lgamma(size + 1) for size in sizes))

    def p_value(sign: int) -> float:
        extreme = int((sign * chance >= sign * observed - slack).sum())
        if whole:
            return extreme / len(chance)
        drawn = (1 + extreme) / (1 + len(chance))
        if extreme >= SEEN or len(chance) < 4 * TAIL:
            return drawn
        return min(drawn, max(least, _tail(sign * chance, sign * observed)))

    return OrderTest(
        observed,
        float(np.mean([_mean_within(cosine, groups) for cosine in networks])),
        p_value(1),
        p_value(-1),
        len(chance),
    )


@lru_cache(maxsize=4)
def _every_order(groups: tuple[int, ...]) -> np.ndarray:
    """Return all orders of layers within their groups (orders, L)."""
    labels = np.asarray(groups)
    inside = [itertools.permutations(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    every = np.array([list(itertools.chain(*each)) for each in itertools.product(*inside)])
    order = np.empty_like(every)
    order[:, np.argsort(labels, kind="stable")] = every
    return order


def _tail(chance: np.ndarray, observed: float) -> float:
    """Return the probability beyond a value by an exponential law of the largest draws.

    Its mean is raised by two standard errors.
    """
    largest = np.sort(chance)[-TAIL - 1 :]
    excess = float((largest[1:] - largest[0]).mean()) * (1 + 2 / math.sqrt(TAIL))
    if excess <= 0:
        return 1.0
    return TAIL / len(chance) * math.exp(-max(0.0, observed - largest[0]) / excess)


def _drawn(
    cosine: np.ndarray,
    slots: np.ndarray,
    here: np.ndarray,
    after: np.ndarray,
    groups: np.ndarray,
    generator: torch.Generator,
    permutations: int,
) -> np.ndarray:
    """Return the mean cosine of neighbours in random orders (permutations,)."""
    depth, drawn, done = len(cosine), [], 0
    while done < permutations:
        count = min(permutations - done, max(1, NUMBERS_AT_ONCE // depth))
        keys = torch.rand(count, depth, generator=generator, dtype=torch.float64).numpy()
        order = np.empty((count, depth), dtype=np.int64)
        order[:, slots] = np.argsort(keys + groups, axis=1)
        drawn.append(cosine[order[:, here], order[:, after]].mean(axis=1))
        done += count
    return np.concatenate(drawn)


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
