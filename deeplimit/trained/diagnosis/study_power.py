"""What a study can decide, from its depths, seeds and objects alone: before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.verdict import RegimeVerdict
from deeplimit.trained.diagnosis import correlations, hypotheses, slopes
from deeplimit.trained.diagnosis.network_report import LEVEL
from deeplimit.trained.diagnosis.norms import LEAST_LAYERS

SCATTERS = (0.0, 0.03, 0.1)
"""Relative scatters of a size among networks, for which widths are printed: none is the best case."""
DOUBLINGS = 4
"""How many depths are proposed at most. Each is twice the one before: the last is 16 times as deep."""
MOST_SEEDS = 1000
"""More networks per depth than any study has; widths are computed from a matrix of all of them."""
DRAWS = 9
"""Draws of scattered sizes, whose median width is given."""


@final
@dataclass(frozen=True)
class StudyPower:
    """What `study` can decide with some depths and seeds, at best.

    Attributes:
        depths: numbers of layers.
        seeds: networks per depth.
        objects: weights or products per network whose order is tested.
        steps: checkpoints per training.
        order_level: p-value at which the order of one object counts as real: 1 % over all objects, depths and
            steps together, and at most 0.3 %.
        order_floors: smallest p-value that the order of layers can have, by depth.
    """

    depths: tuple[int, ...]
    seeds: int
    objects: int
    steps: int
    order_level: float
    order_floors: dict[int, float]

    def half_width(self, scatter: float = 0.0) -> float:
        """Return half the 99 % interval of an exponent, where sizes scatter so much among networks.

        The scatter is relative, 0 in the best case. NaN for fewer than three different depths.

        Raises:
            TypeError, ValueError: for a scatter that is no number, or below 0.
        """
        return _half_width(self._networks, validation.real(scatter, "scatter", minimum=0.0))

    @property
    def _noise_half_width(self) -> float:
        return _half_width(self._networks, of_noise=True)

    @property
    def _networks(self) -> tuple[int, ...]:
        return tuple(depth for depth in self.depths for _ in range(self.seeds))

    @property
    def orders(self) -> tuple[int, ...]:
        """Depths at which the order of layers can be called real."""
        return tuple(depth for depth, floor in self.order_floors.items() if floor <= self.order_level)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Verdicts over depths that are within reach; "cannot tell" always is."""
        width = self.half_width()
        if math.isnan(width):
            return (str(RegimeVerdict.CANNOT_TELL),)
        reach = {
            RegimeVerdict.LINEAR_ODE: width < 1.0,  # β is below 1, and must be seen to be above 0
            RegimeVerdict.SDE: self._noise_half_width <= hypotheses.STEADY,
            RegimeVerdict.NEURAL_ODE: width < hypotheses.NEURAL,
            RegimeVerdict.NO_TREND: True,
            RegimeVerdict.SPARSE: width < 1.0 + hypotheses.SPARSE,  # a few layers have slope -1
            RegimeVerdict.CANNOT_TELL: True,
        }
        return tuple(str(word) for word, within in reach.items() if within)

    @property
    def lacks(self) -> tuple[str, ...]:
        """What cannot be decided, why, and what would help; empty where all is within reach."""
        found = []
        for depth in self.depths:
            if depth not in self.orders:
                seeds = next(n for n in range(2, 1000) if _order_floor(depth, n) <= self.order_level)
                found.append(
                    f"no order of {depth} layers can be called real: the smallest p-value of"
                    f" {_count(self.seeds, 'seed')} is {self.order_floors[depth]:.2g}, the level"
                    f" {self.order_level:.2g}. Give {seeds} seeds, or more layers"
                )
        width, words = self.half_width(), self.verdicts
        if math.isnan(width):
            return (*found, "no verdict over depths: it needs at least three different depths")
        for word, what, half in (
            (RegimeVerdict.SDE, "noise", self._noise_half_width),
            (RegimeVerdict.NEURAL_ODE, "sizes", width),
            (RegimeVerdict.LINEAR_ODE, "sizes", width),
        ):
            if word not in words:
                found.append(
                    f'"{word}" cannot be found: the exponent of {what} is known to ±{half:.2f} at best. Give'
                    " more depths, further apart"
                )
        return tuple(found)

    def __str__(self) -> str:
        """Return what can be decided, and what cannot."""
        depths = ", ".join(map(str, self.depths))
        lines = [
            f"{_count(self.seeds, 'seed')} at depths {depths}, {_count(self.objects, 'object')},"
            f" {_count(self.steps, 'checkpoint')}",
            f"order of layers: can be real at L = {', '.join(map(str, self.orders)) or 'no depth'}"
            f" (level {self.order_level:.2g})",
            f"verdicts over depths within reach, where networks scatter little: {', '.join(self.verdicts)}",
        ]
        if not math.isnan(self.half_width()):
            widths = (f"±{self.half_width(scatter):.2f} at {scatter:.0%}" for scatter in SCATTERS)
            lines.append(f"exponents, by how sizes scatter among networks: {', '.join(widths)}")
        return "\n".join([*lines, *(f"- {each}." for each in self.lacks)])


@by_default
def study_power(depths: Sequence[int], seeds: int = 3, *, objects: int = 1, steps: int = 0) -> StudyPower:
    """Return what a study of these depths and seeds can decide at best, before anything is trained.

    Args:
        depths: numbers of layers L, at least 6 each.
        seeds: how many networks per depth.
        objects: how many weights or products of a network are tested: rows per depth in the table of `study`.
        steps: how many checkpoints a training has.

    Returns:
        A `StudyPower`; printing it gives the answer in words.

    Raises:
        TypeError: for arguments of another kind.
        ValueError: for values out of range.

    Not checked: that effects are large enough. What is within reach is found only where the order of layers
    is clear and networks scatter little. Layers of several kinds have fewer orders than are counted here.

    Examples:
        >>> import deeplimit as dl
        >>> power = dl.study_power([6, 12, 24], seeds=1)
        >>> power.orders, power.verdicts
        ((12, 24), ('linear-ode', 'sde', 'no trend', 'sparse', 'cannot tell'))
    """
    levels = tuple(
        validation.integer(depth, "every one of depths", minimum=LEAST_LAYERS)
        for depth in validation.depths(depths, at_least=1)
    )
    count = validation.integer(seeds, "seeds", minimum=1, maximum=MOST_SEEDS)
    tested = validation.integer(objects, "objects", minimum=1)
    taken = validation.integer(steps, "steps", minimum=0)
    return StudyPower(
        depths=levels,
        seeds=count,
        objects=tested,
        steps=taken,
        order_level=min(correlations.LEVEL, LEVEL / (tested * len(levels) * max(taken, 1))),
        order_floors={depth: _order_floor(depth, count) for depth in levels},
    )


def depths_that_tell(power: StudyPower, scatter: float) -> StudyPower | None:
    """Return the design with the fewest depths added, each twice the last, that tells a size that stays.

    None where DOUBLINGS of them are not enough.
    """
    depths = power.depths
    for _ in range(DOUBLINGS):
        depths = (*depths, 2 * max(depths))
        deeper = study_power(depths, power.seeds, objects=power.objects, steps=power.steps)
        if deeper.half_width(scatter) < hypotheses.NEURAL:
            return deeper
    return None


def _order_floor(depth: int, seeds: int) -> float:
    """Return the smallest p-value of a test with two sides: an order and its reverse are one."""
    return min(1.0, 2 * math.exp(seeds * (math.log(2) - math.lgamma(depth + 1))))


@lru_cache(maxsize=16)
def _half_width(networks: tuple[int, ...], scatter: float = 0.0, of_noise: bool = False) -> float:
    """Return half the interval on which verdicts rest, the median over draws of the networks' scatter."""
    draws = np.random.default_rng(0).standard_normal((DRAWS if scatter else 1, len(networks)))
    variances = np.zeros(len(networks)) if of_noise else None
    allowed = slopes.OF_NOISE if of_noise else slopes.OF_TRENDS
    fits = [
        slopes.fit(networks, np.exp(scatter * draw), slopes.SURE, variances, corrections=allowed)
        for draw in draws
    ]
    return float(np.median([(found.sure[1] - found.sure[0]) / 2 for found in fits]))


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
