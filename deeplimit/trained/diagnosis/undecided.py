"""What is known of layers whose verdict is "cannot tell", and what would decide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, final

import numpy as np
from scipy import stats

from deeplimit.common.fields import Interval
from deeplimit.trained.diagnosis import correlations

WIDENED = 1.75
"""95 % intervals, widened to 3.4 standard errors: several objects are then right at once."""
MOST_NETWORKS = 24
"""More networks than this are not worth training for a verdict; other depths tell more."""


class Examined(Protocol):
    """What is read of one object, of those that `network_report.Examined` has."""

    @property
    def verdict(self) -> str: ...
    @property
    def correlation(self) -> str: ...
    @property
    def depth(self) -> int: ...
    @property
    def p_value(self) -> float: ...
    @property
    def noise(self) -> float: ...
    @property
    def noise_interval(self) -> Interval | None: ...
    @property
    def hurst(self) -> float: ...
    @property
    def hurst_interval(self) -> Interval: ...


Reading = Literal["few layers", "shared", "like independent", "mixed"]


@final
@dataclass(frozen=True)
class Known:
    """What objects that cannot tell say nevertheless.

    Attributes:
        reading: "few layers" where neighbours are as alike, or as unlike, as in no other order of so few;
            "shared" where layers surely share a part with their neighbours, "like independent" where
            independent layers are not excluded in any object, "mixed" otherwise.
        noise: share of noise in a layer, over all such objects and their intervals; None without intervals.
        hurst: the same of the Hurst index.
        networks: about how many networks of other seeds, all together, would decide most of these objects;
            None where that is more than MOST_NETWORKS, or no number of them would.
        order: whether an order is seen in one of them, so that only smooth or rough is open.
        layers: how many layers the shallowest of them has.
    """

    reading: Reading
    noise: Interval | None
    hurst: Interval
    networks: int | None
    order: bool
    layers: int


def known(objects: Sequence[Examined], replicates: int, level: float) -> Known | None:
    """Return what is known where some objects cannot tell; None where all can.

    Args:
        objects: all objects of the network.
        replicates: how many networks were pooled.
        level: at which the order of one object is called real.
    """
    left_open = [each for each in objects if each.verdict == "cannot tell"]
    if not left_open:
        return None
    noise = [each.noise_interval for each in left_open if each.noise_interval is not None]
    needed = [_networks(each, level) for each in left_open]
    number = replicates * float(np.median(needed))
    return Known(
        _reading(objects, left_open),
        (min(low for low, _ in noise), max(high for _, high in noise)) if noise else None,
        (
            min(each.hurst_interval[0] for each in left_open),
            max(each.hurst_interval[1] for each in left_open),
        ),
        max(replicates + 1, math.ceil(number)) if number <= MOST_NETWORKS else None,
        any(each.correlation == "decaying" for each in left_open),
        min(each.depth for each in left_open),
    )


def _reading(objects: Sequence[Examined], left_open: Sequence[Examined]) -> Reading:
    """Return whether so few layers could say no more, or share a part in all objects, or in none."""
    if all(each.p_value <= _least_p(each.depth) for each in left_open):
        return "few layers"
    if all(map(_shares, left_open)) and not any(each.correlation == "none" for each in objects):
        return "shared"
    apart = not any(map(_shares, objects)) and all(
        each.correlation in ("none", "cannot tell") for each in objects
    )
    apart = apart and all(each.hurst_interval[0] <= 0.5 + correlations.RESOLUTION for each in left_open)
    return "like independent" if apart else "mixed"


def _least_p(layers: int) -> float:
    """Return the least p-value of an order and its reverse among all orders, on two sides, and round-off."""
    return (1 + 1e-9) * 4.0 / math.factorial(min(layers, 20))


def _shares(each: Examined) -> bool:
    """Whether less than all of a layer is noise, so that neighbours share the rest."""
    if each.noise_interval is None:
        return False
    high = each.noise_interval[1]
    return high < 1.0 and each.noise + WIDENED * (high - each.noise) < 1.0


def _networks(each: Examined, level: float) -> float:
    """Return how many times as many networks would show an order, or rule it out; infinity if none would.

    Test statistics grow like the square root of their number, and intervals shrink like it.
    """
    if each.correlation != "cannot tell":
        return math.inf
    towards, wanted = (float(stats.norm.isf(p)) for p in (each.p_value, level))
    seen = (wanted / towards) ** 2 if towards > 0 else math.inf
    low, high = each.hurst_interval
    room = correlations.RESOLUTION - abs(each.hurst - 0.5)
    absent = ((high - low) / 2 / room) ** 2 if room > 0 else math.inf
    return seen if each.p_value <= correlations.DOUBT else min(seen, absent)
