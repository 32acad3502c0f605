"""Assertions on orders of convergence, by an interval instead of a tolerance."""

from __future__ import annotations

from typing import Any

from deeplimit.common import validation
from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.common.verdict import ConvergenceVerdict, OrderVerdict
from deeplimit.judge.convergence import compare
from deeplimit.judge.solver import order as order_of

APART = 0.5
"""Orders of schemes are multiples of this: an interval that contains two of them asserts nothing."""


@by_default
def assert_order(errors: Any, steps: Any, order: float, *, confidence: float = 0.999) -> None:
    """Raise AssertionError unless errors fall at this order, by an interval that excludes the next ones.

    Args:
        errors: distances (P, m) of P paths at m numbers of steps, or (m,) without sampling noise, as in
            `dl.order`.
        steps: numbers of steps (m,), increasing.
        order: the order that is claimed.
        confidence: level of the interval. A right solver fails with at most one minus this, once per seed,
            and where its paths are too few to tell its order from the next one.

    Raises:
        AssertionError: where the interval does not contain the order, where it contains an order half away
            too, and where errors level off or say nothing; the message is the report.
        TypeError, ValueError: as `dl.order`.

    NOT checked: as in `dl.order`.

    Examples:
        >>> import numpy as np, deeplimit as dl
        >>> steps = np.array([16, 32, 64, 128, 256])
        >>> paths = np.abs(np.random.default_rng(0).standard_normal((500, 1)))
        >>> dl.testing.assert_order(paths / steps, steps, 1.0)
    """
    claimed = validation.real(order, "order", above=0.0)
    report = order_of(errors, steps, confidence=confidence)
    low, high = report.rate_interval
    if report.verdict is not OrderVerdict.POWER_LAW:
        raise AssertionError(f"errors were to fall at order {claimed:g}.\n{report}")
    last, before = report.local_slopes[-1], report.local_slopes[0]
    leaves = "slopes_keep_drifting" in report.caveats and abs(last - claimed) > abs(before - claimed)
    if not low <= claimed <= high or leaves:
        raise AssertionError(
            f"errors do not fall at order {claimed:g}: it is [{low:.3f}, {high:.3f}].\n{report}"
        )
    if low <= claimed - APART or high >= claimed + APART:
        raise AssertionError(
            f"the interval [{low:.3f}, {high:.3f}] is too wide to assert order {claimed:g}: it contains an"
            f" order {APART:g} away. Take more paths or a wider range of steps.\n{report}"
        )


@by_default
def assert_converges(network: Any, limit: Any = None, *, rate: float | None = None, **settings: Any) -> None:
    """Raise AssertionError unless a network converges to a limit, at this rate if one is given.

    Args:
        network: network, as `compare` takes it.
        limit: its limit; None for `network.limit()`.
        rate: order that the interval must contain; None for the one that theory predicts, if any.
        settings: further arguments of `compare`, such as `depths`, `paths` and `seed`.

    Raises:
        AssertionError: for any other verdict than "converges", and for an interval that excludes the rate;
            the message is the report.
        TypeError, ValueError: as `compare`.

    NOT checked: as in `compare`. One seed in 20 misses the rate of a right limit, at most: the analyses of
    depths="auto" share that twentieth, so that the report's own `confidence` is higher.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.res1(width=4, activation="tanh")
        >>> dl.testing.assert_converges(network, rate=0.5, depths=[16, 32, 64, 128], paths=256)
    """
    expected = None if rate is None else validation.real(rate, "rate", above=0.0)
    report = compare(network, limit, **settings)
    if report.verdict is not ConvergenceVerdict.CONVERGES:
        raise AssertionError(f"the network was to converge.\n{report}")
    expected = report.predicted_rate if expected is None else expected
    low, high = report.rate_interval
    if expected is not None and not low <= expected:
        raise AssertionError(
            f"the network converges at [{low:.3f}, {high:.3f}], not at {expected:g}.\n{report}"
        )
    bound = rate is None and report.predicted_is_bound
    if expected is not None and not bound and not expected <= high:
        raise AssertionError(
            f"the network converges at [{low:.3f}, {high:.3f}], not at {expected:g}.\n{report}"
        )
