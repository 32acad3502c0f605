"""Orders, floors and remainders of synthetic errors of every kind are the numbers that they were.

Other files say why these are right; here no constant, weight or boundary moves without being seen.
"""

import dataclasses
import functools

import kept_numbers
import numpy as np
import pytest
from analysing import Analysing, analysed

from deeplimit.statistics import consecutive, differences, power_law, solver_errors
from deeplimit.statistics.adaptive_sampling import Asks, SampleSizeRequest, Size, next_sizes
from deeplimit.statistics.consecutive import Corrections, Differences
from deeplimit.statistics.crossing import crossing, crossing_of_mean
from deeplimit.statistics.extrapolation import extrapolate
from deeplimit.statistics.power_law import ErrorEstimates

QUANTILES = (0.0005, 0.025, 0.5, 0.975)
DEPTHS = np.array([16, 32, 64, 128, 256])
UNEVEN = np.array([10, 16, 40, 64, 200])
same = functools.partial(kept_numbers.check, "statistics")


def mixed(coherent, martingale, *, depths=DEPTHS, paths=256, tail=0.0, power=1.0, seed=0):
    """Return errors (P, m, 2): L^-power along a path's direction, a martingale's, and heavy-tailed sizes."""
    rng = np.random.default_rng(seed)
    away = rng.standard_normal((paths, 1, 2)) * coherent * (depths / 16.0)[None, :, None] ** -power
    steps = np.sqrt(1.0 / depths - np.append(1.0 / depths[1:], 0.0))
    fresh = rng.standard_normal((paths, len(depths), 2)) * steps[None, :, None]
    sizes = np.exp(tail * rng.standard_normal((paths, 1, 1)) ** 2)
    return sizes * (away + martingale * fresh[:, ::-1].cumsum(axis=1)[:, ::-1])


def moved(errors, depths=DEPTHS, **given):
    moves = np.diff(errors, axis=1)
    squares = (moves**2).sum(axis=2)
    products = (moves[:, 1:] * moves[:, :-1]).sum(axis=2)
    return Differences(depths, np.sqrt(squares), squares, products, **given)


def lost(errors):
    changed = errors.copy()
    changed[:3, 0] = np.inf
    return changed


def still(errors):
    """Some paths that do not move at some level."""
    changed = errors.copy()
    changed[:5, 1] = changed[:5, 0]
    return changed


DEEP = 2 ** np.arange(3, 11)
CASES = {
    "martingale": lambda: (mixed(0.0, 1.0), DEPTHS, {}),
    "coherent": lambda: (mixed(1.0, 0.0), DEPTHS, {}),
    "coherent of order 1/4": lambda: (mixed(1.0, 0.0, power=0.25), DEPTHS, {}),
    "small martingale": lambda: (mixed(1.0, 0.1), DEPTHS, {}),
    "large martingale": lambda: (mixed(1.0, 1.0), DEPTHS, {}),
    "coherent part takes over": lambda: (mixed(2.0, 1.0, power=0.1), DEPTHS, {}),
    "uneven martingale": lambda: (mixed(0.0, 1.0, depths=UNEVEN), UNEVEN, {}),
    "uneven and coherent": lambda: (mixed(1.0, 0.0, depths=UNEVEN), UNEVEN, {}),
    "uneven and mixed": lambda: (mixed(1.0, 0.3, depths=UNEVEN), UNEVEN, {}),
    "few paths": lambda: (mixed(0.5, 1.0, paths=9), DEPTHS, {}),
    "longer tails": lambda: (mixed(0.0, 1.0, tail=0.35, seed=2), DEPTHS, {}),
    "long tails": lambda: (mixed(0.0, 1.0, tail=0.6), DEPTHS, {}),
    "longest tails": lambda: (mixed(0.3, 1.0, tail=2.0), DEPTHS, {}),
    "lost paths": lambda: (lost(mixed(0.0, 1.0)), DEPTHS, {}),
    "paths that stand still": lambda: (still(mixed(0.0, 1.0)), DEPTHS, {}),
    "round-off": lambda: (mixed(0.0, 1.0), DEPTHS, {"resolution": 0.0035}),
    "more round-off": lambda: (mixed(0.0, 1.0), DEPTHS, {"resolution": 0.007}),
    "nothing but round-off": lambda: (mixed(0.0, 1.0), DEPTHS, {"resolution": 1.0}),
    "nothing moves": lambda: (mixed(0.0, 1.0) * 0.0 + 1.0, DEPTHS, {}),
    "many lost paths": lambda: (lost(mixed(0.0, 1.0, paths=25)), DEPTHS, {}),
    "three levels": lambda: (mixed(0.0, 1.0, depths=DEPTHS[:3]), DEPTHS[:3], {}),
    "exact": lambda: (mixed(1.0, 0.0, paths=3), DEPTHS, {"exact": True}),
    "no power law": lambda: (
        mixed(1.0, 0.0, depths=DEEP, power=4.0) + 1e-3 * mixed(1.0, 0.0, depths=DEEP),
        DEEP,
        {"exact": True},
    ),
    "steep then flat": lambda: (
        mixed(1.0, 0.0, depths=DEEP, power=4.0) + 1e-2 * mixed(0.0, 1.0, depths=DEEP, seed=1),
        DEEP,
        {},
    ),
}


def told(order):
    """Return what an order says."""
    if order is None:
        return None
    kept = {field.name: getattr(order, field.name) for field in dataclasses.fields(order)}
    quantiles = [kept["orders"].quantile(each) for each in QUANTILES]
    return kept | {"orders": quantiles, "remaining": order.remaining, "rate": order.rate}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_orders_and_floors_of_consecutive_differences_stay(name):
    errors, depths, given = CASES[name]()
    found = moved(errors, depths, **given)
    orders = [
        consecutive.fit_order(found, corrections)
        for corrections in (None, Corrections((0.5, 1.0, 2.0), 0.25), Corrections((1.0,), 1.0))
    ]
    floors = [
        consecutive.paired_floor(
            depths, np.linalg.norm(errors + floor, axis=2), found.sizes, orders[0], **how
        )
        for floor in (0.0, 0.05, 0.5)
        for how in ({}, {"exact": True}, {"rate": 0.5})
        if orders[0] is not None and len(found.sizes) > 8
    ]
    tails = consecutive.rests_on_few_paths(found.sizes), consecutive.share_of_the_largest(found.sizes)
    same(f"consecutive, {name}", {"orders": [*map(told, orders)], "floors": floors, "tails": tails})


@pytest.mark.parametrize(
    "name", [name for name in CASES if not set(name.split()) & {"lost", "three", "nothing"}]
)
def test_orders_of_errors_of_solvers_stay(name):
    errors, depths, given = CASES[name]()
    sizes = np.linalg.norm(errors, axis=2)
    found = []
    for floor in (0.0, 0.03, 0.3):
        fit = solver_errors.fit_errors(np.hypot(sizes, floor), depths, exact="exact" in given)
        found.append({**vars(fit), "orders": [fit.orders.quantile(each) for each in QUANTILES]})
    steepest = [solver_errors.steepest_falls(depths, each) for each in (sizes, sizes[:6], sizes - sizes[0])]
    same(f"errors of solvers, {name}", {"fits": found, "steepest": steepest})


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("bend", [0.0, -20.0, 6.0])
def test_weak_orders_stay(order, bend):
    steps = np.array([8.0, 16.0, 32.0, 64.0])
    means = steps**-order * (1.0 + bend / steps)
    noise = np.random.default_rng(3).standard_normal((200, 4))
    found = [
        solver_errors.fit_means(sign * means + size * noise, steps, confidence)
        for sign in (1.0, -1.0)
        for size in (1e-4, 1e-2, 1.0)
        for confidence in (0.9, 0.99)
    ]
    same(f"weak, order {order}, bend {bend}", found)


def test_weak_orders_of_means_that_turn_or_are_lost_in_noise_stay():
    """Correlated noise of other sizes at every level, and means of either sign, of one to nine errors."""
    rng, steps, found = np.random.default_rng(5), np.array([8.0, 16.0, 32.0, 64.0]), []
    for _ in range(120):
        noise = rng.standard_normal((40, 4)) @ (np.tril(rng.uniform(0.0, 1.5, (4, 4))) + 0.2 * np.eye(4))
        sizes = rng.uniform(1.0, 9.0) * steps ** -rng.uniform(-0.2, 2.0) * steps[0] / 6.0
        means = sizes * rng.choice([-1.0, 1.0], 4) * rng.choice([1.0, 0.2], 4)
        found.append(solver_errors.fit_means(means + noise - noise.mean(axis=0), steps, 0.9))
    same("weak, turning", [(each.resolved, each.rate, each.high) for each in found])


def estimates(logs, **given):
    covariance = 1e-4 * (np.diag([1.0, 1.5, 2.0, 2.5, 3.0]) + 0.5)
    bias = np.log1p(-DEPTHS / 4096.0) * given.pop("biased", 0.0)
    return ErrorEstimates(DEPTHS, logs + bias, covariance, bias, given.pop("count", 300), **given)


FALLS = {
    "half": -0.5 * np.log(DEPTHS),
    "bent": -0.5 * np.log(DEPTHS) + 2.0 / DEPTHS,
    "two parts": 0.5 * np.log(1.0 / DEPTHS + 16.0 / DEPTHS**2.0),
    "floor": 0.5 * np.log(1.0 / DEPTHS + 0.004),
    "turned": np.log(np.abs(1.0 / DEPTHS - 0.011) + 1e-4),
}
KINDS = {
    "plain": {},
    "heavy tails": {"kurtosis": 400.0},
    "few": {"count": 15, "resolution": 0.002},
    "Euler": {"is_euler": True, "biased": 1.0},
    "second": {"second_orders": (0.5,), "corrections": (0.5, 1.0)},
    "interfering": {"second_orders": (0.25, 0.5), "interfere": True, "biased": 1.0},
}


@pytest.mark.parametrize("fall", FALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_rates_and_corrected_errors_stay(fall, kind):
    of = estimates(FALLS[fall], **KINDS[kind])
    fits = [power_law.fit_rate(of), power_law.fit_rate(of, 1.0 / DEPTHS)]
    floor = power_law.Floor(0.3, 0.1, 0.5, 0.2)
    shown = power_law.above_uncertain_floor(of, floor)
    found = {
        "rates": [(fit.rate, fit.interval(0.95), fit.reach, fit.log_constant) for fit in fits],
        "noise": of.noise,
        "slopes": power_law.local_slopes(of),
        "shown": (shown.log_errors - shown.log_bias, shown.covariance),
    }
    same(f"rate, {fall}, {kind}", found)


@pytest.mark.parametrize("fall", FALLS)
@pytest.mark.parametrize(
    ("predicted", "how"),
    [
        (0.5, {}),
        (1.0, {"coherent": True}),
        (None, {"large": 0.25}),
        (0.5, {"is_bound": True}),
        (0.5, {"measured": (0.4, 0.55)}),
        (0.5, {"measured": (0.4, 0.55), "is_bound": True}),
    ],
)
def test_floors_stay(fall, predicted, how):
    of = estimates(FALLS[fall])
    same(f"floor, {fall}, {predicted}, {how}", power_law.fit_floor(of, predicted, **how))


def vectors(terms):
    """Return products of Σ size · L^-power · a direction."""
    directions = np.random.default_rng(1).normal(size=(len(terms), 5))
    found = sum(
        size * np.outer((DEPTHS / 16.0) ** -power, direction / np.linalg.norm(direction))
        for (power, size), direction in zip(terms, directions, strict=True)
    )
    return found @ found.T


@pytest.mark.parametrize(
    "terms",
    [
        [(1.0, 1.0), (2.0, 0.5)],
        [(0.0, 0.1), (1.0, 1.0)],
        [(0.5, 1.0), (1.0, -1.0), (1.5, 0.7)],
        [(0.3, 1.0), (0.32, -0.9)],
        [(0.8, 1.0)],
        [(1.0, 1.0), (1.02, 2.0), (3.0, 5.0)],
    ],
)
@pytest.mark.parametrize("corrections", [(1.0,), (0.5, 1.0), (0.02, 1.0)])
def test_remainders_and_orders_of_differences_stay(terms, corrections):
    products = vectors(terms)
    zeros = np.zeros((5, 5))
    of = ErrorEstimates(DEPTHS, 0.5 * np.log(np.diag(products)), zeros, np.zeros(5), 10**6, 0.0, corrections)
    found = differences.remainder(DEPTHS, products, np.array([0.5, 1.0, 1.5, 2.0, 2.5]))
    fits = [differences.fit_order(of, products, most) for most in (1.0, 2.0)]
    parts = [(fit.rate, fit.interval(0.95), fit.reach, fit.log_constant) for fit in fits]
    known = (found, found.floor(), found.is_certain, found.is_small, parts)
    same(f"differences, {terms}, {corrections}", known, tolerance=1e-4)


@pytest.mark.parametrize("count", [3, 4, 5, 7])
@pytest.mark.parametrize("level", [1e-6, 0.05, 0.5])
def test_extrapolated_differences_stay(count, level):
    depths = 8.0 * 2.0 ** np.arange(count)
    noise = np.random.default_rng(count).standard_normal(count) * 1e-3
    values = 0.1 + 1.0 / depths - 3.0 / depths**2 + 20.0 / depths**3 + noise
    variances = 1e-6 * (1.0 + np.arange(count))
    found = [
        extrapolate(depths, values, variances, 1e-7, powers, level) for powers in ((1.0, 2.0), (0.5, 1.0))
    ]
    same(f"extrapolated, {count}, {level}", found)


def test_crossings_stay():
    grid = np.array([0.0, 0.2, 0.5, 0.9, 1.5])
    draws = np.random.default_rng(4).standard_normal((5, 6)) + np.array([[40.0, 3.0, 1.0, -2.0, -9.0]]).T
    found = [
        crossing_of_mean(grid, draws[:, :count] - shift, confidence, straight)
        for count in (2, 3, 6)
        for shift in (0.0, 30.0, 50.0)
        for confidence, straight in ((0.95, 1.0), (0.5, 0.1))
    ]
    several = [
        crossing(grid, np.array(each)) for each in ([3, -1, 2, -4, 5], [1, 2, 3, 4, 5], [3, 0, 0, -1, 2])
    ]
    same("crossings", (found, several))


SIZES = [Size((8, 16, 32), 100), Size((4, 6), 2**21), Size((2**14, 2**15), 7), Size((1, 2, 3, 4, 5, 6, 7), 9)]
ORDERS = [(Asks.DEPTH,), (Asks.COUNT,), (Asks.DEPTH, Asks.COUNT), (Asks.COUNT, Asks.DEPTH), ()]


def test_sizes_of_next_analyses_stay():
    found = [
        next_sizes(size, SampleSizeRequest(order, times), depth_is_free=deeper, count_is_free=more, least=2)
        for size in SIZES
        for order in ORDERS
        for times in (1.0, 3.0, 5.0, 1e3)
        for deeper in (True, False)
        for more in (True, False)
    ]
    requests = [
        SampleSizeRequest.of(asks, noise).after(raised)
        for asks in Asks
        for noise in (0.4, 0.5, 0.6)
        for raised in (None, Asks.DEPTH, Asks.COUNT)
    ]
    same("next sizes", (found, requests, Size((5,), 3).deeper(2), SIZES[0].ratio))


@pytest.mark.parametrize("budget", [0.02, 0.3, 3.0, 1e3])
@pytest.mark.parametrize("noise", [0.2, 0.8])
def test_sequences_of_analyses_stay(budget, noise):
    """What is run, in which order, with a clock that only blocks move."""
    study = Analysing((SampleSizeRequest.of(Asks.EITHER, noise),))
    study.clock.now = 7.0
    seen = []
    report = analysed(study, budget=budget, progress=seen.append)
    fixed = analysed(Analysing((SampleSizeRequest((Asks.DEPTH,)),)), depths=(8, 16, 32), budget=budget)
    blocks = sorted((str(key), count) for key, count in study.clock.blocks.items())
    runs = [(each.looks, each.needs, each.seconds) for each in (report, fixed)]
    same(f"sequence, {budget}, {noise}", (runs, len(blocks), sum(count for _, count in blocks), seen))
