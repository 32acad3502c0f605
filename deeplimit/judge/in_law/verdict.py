"""From differences at each depth to one of three verdicts: a list of rules, the first that holds decides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deeplimit.common import verdict
from deeplimit.common.verdict import Judgement, LawVerdict

SAME, ANOTHER, CANNOT_TELL = LawVerdict
KEPT = 0.5
"""The law is another one only if at least this share of the deepest network's difference remains at infinite
depth.
"""
FLAT = 0.25
"""A difference that remains may change by at most this share of itself, beyond noise, over the last factor of
4
in depth: at small depths a right limit's differences may rise before they fall, or change their sign.
"""
SHALLOW = 64
"""Below this depth no expansion can be relied on: only a clear difference is another law's."""
CLEAR = 0.3
"""A difference above this is clear. Differences that no expansion fits are another law's if they only grow,
to at least this.
"""
COARSE = 2.0
"""Layers may be that many times too coarse where a difference is `CLEAR`: differences of right limits at
tanh(4x) and tanh(5x), 1.6 and 2.6 times, are 0.04 and 0.27 above their margins, of wrong ones 0.6.
"""
FALLEN = 0.5
"""A test may reject the deepest network where its distance is at most this share of the coarsest network's.
"""


def more_draws(reach: float, tolerance: float) -> float:
    """Return how many times as many draws bring down to the tolerance what a difference may be.

    Margins are sampling error for the most part, which four times as many draws halve.
    """
    return max(4.0, float(np.ceil((reach / tolerance) ** 2)))


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on: K test functions, m depths, T statistics.

    Attributes:
        names: names of the test functions.
        depths: numbers of layers (m,).
        differences, errors: network minus limit and its standard error (K, m).
        floors, margins: differences at infinite depth, and half the simultaneous intervals' widths (K,).
        fits: whether the expansion in powers of 1/depth describes each test function (K,).
        multiple: standard errors to either side in simultaneous intervals.
        distances, rejected: how far apart each test finds the laws, and whether that is beyond chance (T, m).
        statistics: names of the tests.
        tolerance: what is negligible.
        lost: draws of networks and limit that were not finite.
        rounding: round-off over the spread of the networks' draws; 0 where neither matters.
        coarse: by how much the deepest networks' layers are coarser than expansions allow for, and the depth
            from which they would not be; known where another law is in sight.
    """

    names: tuple[str, ...]
    depths: np.ndarray
    differences: np.ndarray
    errors: np.ndarray
    floors: np.ndarray
    margins: np.ndarray
    fits: np.ndarray
    multiple: float
    distances: np.ndarray
    rejected: np.ndarray
    statistics: tuple[str, ...]
    tolerance: float
    lost: int
    rounding: float = 0.0
    coarse: tuple[float, int] = (0.0, 0)

    @cached_property
    def deepest(self) -> np.ndarray:
        """Differences of the deepest network (K,)."""
        return self.differences[:, -1]

    @cached_property
    def deepest_error(self) -> np.ndarray:
        """Half the simultaneous interval's width of `deepest` (K,)."""
        return np.asarray(self.multiple * self.errors[:, -1])

    @cached_property
    def apart(self) -> np.ndarray:
        """Whether the difference at infinite depth is not 0 (K,)."""
        return np.asarray(np.abs(self.floors) > self.margins)

    @cached_property
    def deep(self) -> np.ndarray:
        """Whether the expansion may be relied on: networks are deep, or the difference is clear (K,)."""
        clear = np.abs(self.floors) - self.margins > CLEAR
        return np.asarray((self.depths[-1] >= SHALLOW) | clear)

    @cached_property
    def flat(self) -> np.ndarray:
        """Whether differences have ceased to change over the last factor of 4 in depth (K,).

        Over all depths, if they span less.
        """
        late = self.depths >= max(self.depths[0], self.depths[-1] / 4)
        change = np.abs(self.differences[:, late] - self.differences[:, -1:])
        noise = np.sqrt(np.maximum(self.errors[:, late] ** 2 + self.errors[:, -1:] ** 2, 0.0))
        return np.asarray((change <= FLAT * np.abs(self.differences[:, -1:]) + noise).all(axis=1))

    @cached_property
    def remains(self) -> np.ndarray:
        """Whether a difference surely remains at infinite depth, and the deepest network shows it (K,)."""
        seen = (np.abs(self.deepest) > self.deepest_error) & (np.sign(self.deepest) == np.sign(self.floors))
        kept = np.abs(self.floors) >= KEPT * np.abs(self.deepest)
        return np.asarray(self.apart & seen & kept & self.flat & self.deep & self.fits)

    @cached_property
    def grown(self) -> np.ndarray:
        """Whether the deepest difference is clear, the largest, and of the same sign as those before (K,)."""
        before = self.differences[:, :-1] * np.sign(self.deepest)[:, None]
        noise = self.multiple * self.errors[:, :-1]
        largest = np.abs(self.deepest) - self.deepest_error > (np.abs(before) + noise).max(axis=1)
        return np.asarray(largest & (np.abs(self.deepest) > CLEAR) & (before > -noise).all(axis=1))

    @cached_property
    def reach(self) -> np.ndarray:
        """How large the difference at infinite depth may be (K,)."""
        return np.asarray(np.abs(self.floors) + self.margins)

    @cached_property
    def growing(self) -> np.ndarray:
        """Which differences only grow, and follow no expansion (K,)."""
        return np.asarray(self.grown & ~self.fits)

    @cached_property
    def unfallen(self) -> np.ndarray:
        """Which tests reject the deepest network at a distance that has not fallen (T,)."""
        return np.asarray(self.rejected[:, -1] & (self.distances[:, -1] > FALLEN * self.distances[:, 0]))

    @cached_property
    def farthest(self) -> int:
        """Which test function is the most significant of those that seem to differ at infinite depth."""
        return self.most_significant(self.apart)

    def most_significant(self, among: np.ndarray) -> int:
        """Return which of the test functions marked in `among` (K,) is the most significant."""
        return int(np.argmax(np.where(among, np.abs(self.floors) / self.margins, 0.0)))


def rules(e: Evidence) -> verdict.RuleByRule[LawVerdict]:
    """Yield the rules on differences of means at several depths."""
    # Means over the others would mislead.
    yield CANNOT_TELL, "draws_were_lost", e.lost > 0
    # Layers change the inputs by nothing, or by little more than round-off.
    yield CANNOT_TELL, "is_swallowed_by_rounding", e.rounding > e.tolerance
    # Layers are so coarse that expansions in powers of 1/depth, as of all differences here, are not in sight.
    clear = bool((np.abs(e.floors) - e.margins > CLEAR).any())
    yield CANNOT_TELL, "layers_are_coarse", e.coarse[0] > (COARSE if clear else 1.0)
    # A difference surely remains.
    yield ANOTHER, "differs_at_infinite_depth", bool(e.remains.any())
    # A difference that no expansion fits only grows.
    yield ANOTHER, "grows_with_depth", bool(e.growing.any())
    # Extrapolation means nothing.
    yield CANNOT_TELL, "follows_no_expansion", not e.fits.all()
    # Extrapolation from small depths is a guess.
    yield CANNOT_TELL, "differs_at_small_depth", bool(e.apart.any() and not e.deep[e.farthest])
    # The difference may yet come down.
    yield CANNOT_TELL, "still_changes", bool(e.apart.any() and not e.flat[e.farthest])
    # Extrapolation has a difference that the deepest network does not.
    yield CANNOT_TELL, "is_not_shown_clearly", bool(e.apart.any())
    # A difference larger than the tolerance is not excluded.
    yield CANNOT_TELL, "is_too_uncertain", bool((e.reach > e.tolerance).any())
    # A test still rejects the deepest network, and its distance has not fallen.
    yield CANNOT_TELL, "differs_in_another_way", bool(e.unfallen.any())
    # What remains: no difference, and none that the draws could have missed.
    yield SAME, "agrees", True


def judge(evidence: Evidence) -> Judgement[LawVerdict]:
    """Return the judgement of the first rule that holds."""
    return verdict.judge(rules, evidence)
