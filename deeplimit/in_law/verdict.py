"""From differences at each depth to one of three verdicts, with the reason in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SAME = "same law"
ANOTHER = "another law"
CANNOT_TELL = "cannot tell"
KEPT = 0.5
"""Another law is said of a difference of which at least this share of the deepest network's remains at
infinite depth.
"""
FLAT = 0.25
"""Nor may it change by more than this share of itself, beyond noise, over the last factor of 4 in depth: at
small depths a right limit's differences may rise before they fall, or change their sign.
"""
SHALLOW = 64
"""Below this depth no expansion can be relied on: only a difference that is clear is said to be another
law's.
"""
CLEAR = 0.3
"""What is clear; also, differences that no expansion fits are another law's if they only grow, to at least
this.
"""
FALLEN = 0.5
"""A test may reject the deepest network where its distance is at most this share of the coarsest network's.
"""


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on: K test functions, m depths, T statistics.

    Attributes:
        names: Of the test functions.
        depths: Of the networks, (m,).
        differences, errors: Network minus limit and its standard error, (K, m).
        floors, margins: The same at infinite depth, and half the simultaneous intervals' widths, (K,).
        fits: Whether the expansion in powers of 1/depth describes each test function, (K,).
        multiple: Of a standard error, in simultaneous intervals.
        distances, rejected: Of the tests, (T, m): how far apart, and whether that is beyond chance.
        statistics: The names of the tests.
        tolerance: What is negligible.
        lost: Draws of networks and limit that were not finite.
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


def judge(evidence: Evidence) -> tuple[str, str]:
    """Return the verdict and why."""
    e = evidence
    if e.lost:
        return (
            CANNOT_TELL,
            f"{e.lost} draws were not finite; dtype='float64' or shallower networks would help",
        )
    deepest, its_error = e.differences[:, -1], e.multiple * e.errors[:, -1]
    apart = np.abs(e.floors) > e.margins
    seen = (np.abs(deepest) > its_error) & (np.sign(deepest) == np.sign(e.floors))
    kept = np.abs(e.floors) >= KEPT * np.abs(deepest)
    flat = _flat(e)
    deep = (e.depths[-1] >= SHALLOW) | (np.abs(e.floors) - e.margins > CLEAR)
    wrong = apart & seen & kept & flat & deep & e.fits
    if wrong.any():
        worst = int(np.argmax(np.where(wrong, np.abs(e.floors) / e.margins, 0.0)))
        return (
            ANOTHER,
            (
                f"at infinite depth the {e.names[worst]} would still be off the limit's by"
                f" {e.floors[worst]:.3g} ± {e.margins[worst]:.2g}"
            ),
        )
    before = e.differences[:, :-1] * np.sign(deepest)[:, None]
    grown = (np.abs(deepest) - its_error > (np.abs(before) + e.multiple * e.errors[:, :-1]).max(axis=1)) & (
        np.abs(deepest) > CLEAR
    )
    grown &= (before > -e.multiple * e.errors[:, :-1]).all(axis=1)
    if (grown & ~e.fits).any():
        worst = int(np.argmax(np.where(grown & ~e.fits, np.abs(deepest), 0.0)))
        return ANOTHER, f"the difference of the {e.names[worst]} grows with depth, to {deepest[worst]:.3g}"
    if not e.fits.all():
        worst = int(np.argmin(e.fits))
        return (
            CANNOT_TELL,
            (
                f"the difference of the {e.names[worst]} does not fall like a power of 1/depth: deeper"
                " networks would tell"
            ),
        )
    if apart.any():
        worst = int(np.argmax(np.where(apart, np.abs(e.floors) / e.margins, 0.0)))
        if not deep[worst]:
            return (
                CANNOT_TELL,
                (
                    f"the {e.names[worst]} seems to differ by {e.floors[worst]:.3g} ± {e.margins[worst]:.2g}"
                    f" at infinite depth, but from depths below {SHALLOW} that is a guess: deeper networks"
                    " would tell"
                ),
            )
        if not flat[worst]:
            return (
                CANNOT_TELL,
                (
                    f"the difference of the {e.names[worst]} still changes with depth, to"
                    f" {deepest[worst]:.3g} at the deepest: deeper networks would tell"
                ),
            )
        return (
            CANNOT_TELL,
            (
                f"the {e.names[worst]} seems to differ by {e.floors[worst]:.3g} ± {e.margins[worst]:.2g} at"
                " infinite depth, which the deepest network does not show clearly: more draws or deeper"
                " networks would decide"
            ),
        )
    reach = np.abs(e.floors) + e.margins
    if (reach > e.tolerance).any():
        worst = int(np.argmax(reach))
        return (
            CANNOT_TELL,
            (
                f"no difference is found, but the {e.names[worst]} is only known to ± {reach[worst]:.2g}"
                f" (tolerance {e.tolerance:g}): about {_times(reach[worst], e.tolerance)} as many draws"
                " would do"
            ),
        )
    unfallen = e.rejected[:, -1] & (e.distances[:, -1] > FALLEN * e.distances[:, 0])
    if unfallen.any():
        worst = int(np.argmax(unfallen))
        return (
            CANNOT_TELL,
            (
                f"mean, spread and shape agree, but the laws of {e.statistics[worst]} differ at every depth"
                " in a way these do not see"
            ),
        )
    return (
        SAME,
        (
            f"at infinite depth no difference is found, and none can be more than {reach.max():.2g} of the"
            " limit's standard deviation in location, or the like in spread and shape"
        ),
    )


def _flat(e: Evidence) -> np.ndarray:
    """Whether the differences have ceased to change: over the last factor of 4 in depth, or over all depths
    if they span less.
    """
    late = e.depths >= max(e.depths[0], e.depths[-1] / 4)
    change = np.abs(e.differences[:, late] - e.differences[:, -1:])
    noise = np.sqrt(np.maximum(e.errors[:, late] ** 2 + e.errors[:, -1:] ** 2, 0.0))
    return np.asarray((change <= FLAT * np.abs(e.differences[:, -1:]) + noise).all(axis=1))


def _times(reach: float, tolerance: float) -> str:
    return f"{max(2.0, np.ceil((reach / tolerance) ** 2)):g} times"
