"""Orders from consecutive differences, and floors held against them, of data with known answers."""

import dataclasses

import numpy as np
import pytest
from scipy import special

from deeplimit.statistics.consecutive import (
    Coherence,
    Differences,
    apart_by_paths,
    fit_order,
    paired_floor,
)

DEPTHS = np.array([16, 32, 64, 128, 256])
PATHS = 512


def errors(coherent, martingale, depths=DEPTHS, seed=0):
    """Return errors (P, m, 3): c L^-1 along a direction of the path's, and a martingale's of order 1/2."""
    rng = np.random.default_rng(seed)
    away = rng.standard_normal((PATHS, 1, 3)) * coherent / depths[None, :, None]
    steps = np.sqrt(1.0 / depths - np.append(1.0 / depths[1:], 0.0))
    fresh = rng.standard_normal((PATHS, len(depths), 3)) * steps[None, :, None]
    return away + martingale * fresh[:, ::-1].cumsum(axis=1)[:, ::-1]


def differences(found, depths=DEPTHS):
    moves = np.diff(found, axis=1)
    squares = (moves**2).sum(axis=2)
    return Differences(depths, np.sqrt(squares), squares, (moves[:, 1:] * moves[:, :-1]).sum(axis=2))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("coherent", "martingale", "order", "coherence"),
    [
        (0.0, 1.0, 0.5, Coherence.ORTHOGONAL),
        (1.0, 0.0, 1.0, Coherence.STEADY),
        (1.0, 0.01, 0.5, Coherence.MARTINGALE_TAKES_OVER),
        (1.0, 0.05, 0.5, Coherence.MARTINGALE_TAKES_OVER),
    ],
)
def test_the_order_is_that_of_the_part_that_takes_over(coherent, martingale, order, coherence):
    """The truth lies within 1.5 lengths of the middle of intervals at 95 %: right ones miss once in 1e6."""
    found = fit_order(differences(errors(coherent, martingale)))
    low, high = found.interval(0.95)
    assert found.coherence is coherence
    assert low - (high - low) < order < high + (high - low)
    assert high - low < 0.3


@pytest.mark.statistical
def test_depths_that_do_not_double_have_the_same_order():
    depths = np.array([16, 24, 64, 96, 256])
    found = fit_order(differences(errors(0.0, 1.0, depths), depths))
    low, high = found.interval(0.95)
    assert low - (high - low) < 0.5 < high + (high - low)


@pytest.mark.parametrize("share", [1e-3, 1e-2])
def test_the_deepest_levels_say_the_order_where_all_of_them_follow_no_power_law(share):
    depths = 2 ** np.arange(3, 11)
    found = fit_order(
        dataclasses.replace(differences(directed(share / depths + 10.0 * depths**-4.0), depths), exact=True)
    )
    low, high = found.interval(0.95)
    assert not found.uncertain
    assert low < 1.0 < high < low + 0.5
    assert len(found.slopes) == len(depths) - 2


def test_what_is_left_is_bounded_where_no_power_law_is_in_sight():
    sizes = 1e-4 / DEPTHS + 10.0 * DEPTHS**-4.0
    found = fit_order(dataclasses.replace(differences(directed(sizes)), exact=True))
    assert found.uncertain
    assert sizes[-1] < found.remaining < 100 * sizes[-1]


def directed(sizes):
    """Return errors (P, m, 3) of these sizes (m,) along a direction of the path's."""
    return np.random.default_rng(0).standard_normal((PATHS, 1, 3)) * sizes[None, :, None]


def test_a_few_lost_paths_call_for_medians_and_many_have_no_order():
    found = errors(0.0, 1.0)
    found[0, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        one_lost = fit_order(differences(found))
        found[: PATHS // 8, 0, 0] = np.inf
        assert fit_order(differences(found)) is None
    assert one_lost is not None
    assert one_lost.medians
    assert fit_order(differences(np.zeros((PATHS, 5, 3)))) is None


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.0, 0.6, 0.9])
def test_a_floor_of_distances_is_found_and_none_where_there_is_none(share):
    """f² is this share of the deepest square, within the model's 0.1; its sampling error is 0.02."""
    found = errors(0.0, 1.0)
    deepest = (found[:, -1] ** 2).sum(axis=1).mean()
    floor = np.zeros(3)
    floor[0] = np.sqrt(deepest * share / (1 - share))
    distances = np.linalg.norm(found + floor, axis=2)
    measured = differences(found)
    result = paired_floor(DEPTHS, distances, measured.sizes, fit_order(measured))
    assert result.share == pytest.approx(share, abs=0.2)
    assert (result.probability > 0.5) == (share > 0.5)
    assert result.probability < 0.05 or share > 0.5


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_distances_are_held_against_what_differences_leave_of_them(factor):
    """At order 1 the sum of all further differences is the last one, so right distances are once as large."""
    found = directed(1.0 / DEPTHS)
    measured = dataclasses.replace(differences(found), exact=True)
    distances = factor * np.linalg.norm(found, axis=2)
    order = fit_order(measured)
    assert apart_by_paths(distances, measured.sizes, order, 1.0) == pytest.approx(factor)
    # Twice as slow an order leaves 1 / (2^½ - 1) of the last difference; a faster one is not what is seen.
    assert apart_by_paths(distances, measured.sizes, order, 0.5) == pytest.approx(factor * (2**0.5 - 1))
    assert apart_by_paths(distances, measured.sizes, order, 2.0) == 0.0
    assert apart_by_paths(distances[:29], measured.sizes[:29], order, 1.0) == 0.0
    distances[0, 0] = np.inf
    assert apart_by_paths(distances, measured.sizes, order, 1.0) == 0.0


def test_paths_that_scatter_make_distances_less_surely_large():
    """The lower end of a ratio whose logarithm has a standard error of 1 / 30^½, at 99.75 %."""
    found = directed(1.0 / DEPTHS)[:30]
    measured = dataclasses.replace(differences(found), exact=True)
    luck = np.exp(np.random.default_rng(3).permutation([-1.0, 1.0] * 15))
    distances = 3.0 * luck[:, None] * np.linalg.norm(found, axis=2)
    found = apart_by_paths(distances, measured.sizes, fit_order(measured), 1.0)
    assert 3.0 * np.exp(-2.81 * 1.3 / 30**0.5) < found < 3.0


def test_m_differences_need_m_plus_three_paths():
    """Of a covariance of m logarithms; one path is enough of what another run repeats."""
    found = errors(0.0, 1.0)

    def of(paths, exact=False):
        return fit_order(dataclasses.replace(differences(found[:paths]), exact=exact))

    assert of(len(DEPTHS) - 1 + 2) is None
    assert of(len(DEPTHS) - 1 + 3).levels == len(DEPTHS) - 1
    assert of(1, exact=True).levels == len(DEPTHS) - 1


def test_the_coherent_share_is_that_of_the_coarsest_differences():
    """Cosines of 0.997, 0.999 and 0.9999: differences that turn less and less, all but parallel."""
    angles = np.cumsum([0.0, *np.arccos([0.997, 0.999, 0.9999])])
    falls = 1.0 / DEPTHS[:-1]
    moves = falls[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sizes = np.random.default_rng(0).uniform(0.5, 2.0, (PATHS, 1, 1))
    at = np.concatenate([np.zeros((PATHS, 1, 2)), np.cumsum(sizes * moves, axis=1)], axis=1)
    found = fit_order(differences(at))
    assert found.coherence is Coherence.STEADY
    assert found.coherent_share == pytest.approx(0.997, abs=1e-9)


def geometric(seed, *, noise, drift=0.0, milstein=False):
    """Return the largest differences of Euler's or Milstein's scheme for dX = drift X dt + noise X dW."""
    rng = np.random.default_rng(seed)
    fine = rng.standard_normal((PATHS, DEPTHS[-1])) * noise / DEPTHS[-1] ** 0.5
    start = np.linalg.norm(rng.standard_normal((PATHS, 3)), axis=1)
    paths = []
    for depth in DEPTHS:
        moved = fine.reshape(PATHS, depth, -1).sum(axis=2)
        factors = 1.0 + drift / depth + moved + milstein * 0.5 * (moved**2 - noise**2 / depth)
        paths.append(factors.reshape(PATHS, DEPTHS[0], -1).prod(axis=2).cumprod(axis=1) * start[:, None])
    moves = np.diff(np.stack(paths), axis=0)
    last = moves[:, :, -1].T
    return Differences(DEPTHS, np.abs(moves).max(axis=2).T, last**2, last[:, 1:] * last[:, :-1])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("equation", "order"),
    [
        ({"noise": 0.8, "milstein": True}, 1.0),
        ({"noise": 0.3, "drift": -2.0}, 0.5),
        ({"noise": 0.1, "drift": -0.5}, 0.5),
    ],
)
def test_intervals_hold_the_order_of_a_scheme_with_geometric_noise(equation, order):
    """Of 60 intervals at 95 %, 46 or fewer hold the truth once in 1e5."""
    intervals = [fit_order(geometric(seed, **equation)).interval(0.95) for seed in range(60)]
    assert sum(low <= order <= high for low, high in intervals) > 46
    assert np.median([high - low for low, high in intervals]) < 0.4


def shaped(shapes):
    """Return orthogonal differences with E|d|^½ of order 1, |d| of a gamma law with a shape per level."""
    rng, shapes = np.random.default_rng(0), np.array(shapes)
    units = np.exp(special.gammaln(shapes + 0.5) - special.gammaln(shapes)) ** 2
    moves = rng.gamma(shapes, size=(4000, 4)) / units / DEPTHS[:-1] * rng.choice([-1.0, 1.0], size=(4000, 4))
    return Differences(DEPTHS, np.abs(moves), moves**2, moves[:, 1:] * moves[:, :-1])


def test_an_interval_is_longer_where_other_moments_have_another_order():
    """The law's shape changes from level to level in the first alone."""
    lengths = [
        -np.subtract(*fit_order(shaped(shapes)).interval(0.95))
        for shapes in ([1.4, 1.0, 0.7, 0.5], [1.0] * 4)
    ]
    assert lengths[0] > 3 * lengths[1]
