"""Phase diagrams: the boundary is found where it is known, intervals cover it, and exponents share their
draws.
"""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats

import deeplimit as dl
from deeplimit.signal.phase_report import boundary, crossing

LEVEL = 1e-5
GRID = np.linspace(0.0, 1.3, 14)


def diagram(network=dl.res3, width=5, depth=40, **knobs):
    return dl.phase_diagram(
        network,
        width,
        depth,
        **({"hurst": [0.3, 0.8], "exponents": [0.2, 0.6, 1.0], "draws": 3, "inputs": 2} | knobs),
    )


@given(at=st.floats(0.01, 1.29), slope=st.floats(0.1, 10.0))
def test_the_crossing_of_a_line_is_exact(at, slope):
    assert crossing(GRID, -slope * (GRID - at)) == pytest.approx(at, abs=1e-12)


def test_the_last_crossing_counts_and_none_is_nan():
    assert crossing(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, -1.0, 1.0, -3.0])) == 2.25
    assert crossing(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == 1.0
    for values in ([1.0, 2.0], [-1.0, -2.0], [-1.0, 1.0], [np.nan, -1.0]):
        assert np.isnan(crossing(np.array([0.0, 1.0]), np.array(values)))


def synthetic(truth, draws, generator, grid=GRID):
    """Changes of two depths with a difference that passes 0 at `truth`; a draw's noise is shared by
    neighbouring exponents.
    """
    noise = generator.normal(size=(2, 1, draws)) + 0.03 * generator.normal(size=(2, len(grid), draws))
    deep, shallow = noise * 0.2
    return deep - 2 * (grid[:, None] - truth), shallow - (grid[:, None] - truth)


@pytest.mark.parametrize("draws", [3, 5, 20])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_of_the_boundary_cover_it_as_often_as_they_say(draws, confidence):
    generator, trials = np.random.default_rng(draws), 2000
    covered, elsewhere = 0, 0
    for _ in range(trials):
        at, (low, high) = boundary(GRID, *synthetic(0.63, draws, generator), confidence)
        assert low < at < high
        covered += low <= 0.63 <= high
        elsewhere += low <= 1.5 <= high
    # A finite grid is not quite the Student case: two per cent are allowed for.
    assert stats.binom.cdf(covered, trials, confidence - 0.02) > LEVEL
    assert stats.binom.sf(covered - 1, trials, confidence + 0.02) > LEVEL
    assert elsewhere < 0.5 * covered


def test_the_interval_is_students_over_the_slope_and_what_the_grid_leaves_open():
    apart = np.array([-1.0, 0.5, 1.1, -0.4, 0.3])
    line = -3.0 * (GRID[:, None] - 0.5) + apart
    at, (low, high) = boundary(GRID, line, np.zeros_like(line), 0.9)
    straight = 0.5 + apart.mean() / 3
    assert at == pytest.approx(straight, abs=0.005)
    half = stats.t.isf(0.05, 4) * apart.std(ddof=1) / 5**0.5 / 3 + abs(at - straight)
    assert (low, high) == (pytest.approx(at - half), pytest.approx(at + half))


def test_a_coarse_grid_does_not_give_a_narrow_interval_elsewhere():
    """Below the boundary the change explodes: a straight line from there passes 0 next to the upper grid
    point.
    """
    coarse = np.array([0.0, 0.65, 1.3])
    steep = np.array([30.0, -0.15, -0.8])[:, None] + 0.01 * np.arange(-2, 3)  # truly at 0.5
    at, (low, high) = boundary(coarse, steep, np.zeros_like(steep), 0.95)
    assert abs(at - 0.5) < 0.1
    assert low < 0.5 < high


@pytest.mark.parametrize("draws", [1, 2])
def test_too_few_draws_leave_no_interval_and_say_so(draws):
    made = diagram(draws=draws)
    assert np.isnan(made.boundary_interval).all()
    assert f"{draws} weight draws are too few for intervals" in str(made)
    assert "(no interval)" in str(made) or "not within" in str(made)
    assert not any("too few" in text for text in diagram().reservations)


@functools.cache
def measured():
    """H = 0.5 and 0.9; deep enough for the boundary to be near its limit."""
    return dl.phase_diagram(
        dl.res3,
        12,
        500,
        hurst=[0.5, 0.9],
        exponents=np.linspace(0.2, 1.2, 11).tolist(),
        draws=30,
        inputs=8,
        confidence=0.9999,
    )


def test_the_boundary_of_independent_layers_covers_one_half():
    made = measured()
    for at, (low, high) in (
        (made.boundary[0], made.boundary_interval[0]),
        (made.gradient_boundary[0], made.gradient_boundary_interval[0]),
    ):
        assert low - 0.02 < 0.5 < high + 0.02  # depths 50 and 500 are not infinity
        assert abs(at - 0.5) < 0.06
        assert not low < 0.62 < high


def test_the_boundary_of_persistent_layers_is_clearly_above_one_half():
    made = measured()
    assert made.boundary_interval[1, 0] > 0.65
    assert abs(made.boundary[1] - 0.9) < 0.15
    assert np.array_equal(made.critical, [0.5, 0.9])


def test_changes_fall_with_the_exponent_and_means_are_those_of_the_draws():
    made = measured()
    for mean, draws in ((made.hidden, made.hidden_draws), (made.gradient, made.gradient_draws)):
        assert (np.diff(mean, axis=1) < 0).all()
        np.testing.assert_allclose(mean, draws.mean(axis=2))
    assert (made.hidden[:, 0] > 1).all()
    assert (made.hidden[:, -1] < 0).all()


@pytest.mark.parametrize(
    "factory",
    [dl.res3, functools.partial(dl.res1, activation="tanh"), functools.partial(dl.inner, activation="sin")],
)
def test_an_exponents_column_is_what_a_run_of_it_alone_would_give(factory):
    """All exponents share their draws: dropping or adding one changes no other."""
    together = diagram(factory, exponents=[0.2, 0.5, 0.9, 1.3])
    for pair in ([0, 1], [1, 3], [2, 3]):
        alone = diagram(factory, exponents=together.exponents[pair].tolist())
        for name in ("hidden_draws", "gradient_draws", "hidden_shallow_draws", "gradient_shallow_draws"):
            np.testing.assert_allclose(
                getattr(together, name)[:, pair], getattr(alone, name), rtol=1e-4, atol=1e-5
            )
    other = diagram(factory, exponents=[0.2, 0.5, 0.9, 1.3], seed=1)
    assert not np.isclose(other.hidden_draws, together.hidden_draws, rtol=1e-4).any()


def test_draws_and_depths_do_not_repeat_each_other():
    made = diagram(draws=4, hurst=[0.5, 0.5])
    columns = np.concatenate([made.hidden_draws, made.hidden_shallow_draws], axis=2)[:, 0].ravel()
    assert len(np.unique(columns)) == 16


def test_results_are_the_same_bits_whatever_runs_them():
    one = diagram(workers=1)
    with ThreadPoolExecutor(2) as pool:
        others = [diagram(workers=3), diagram(executor=pool)]
    for name in ("hidden_draws", "gradient_draws", "hidden_shallow_draws", "boundary", "boundary_interval"):
        assert all(
            np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for other in others
        )


def test_a_cell_is_the_mean_logarithm_that_stability_measures(device):
    """The same law by the other entry: Hurst index 1/2 is i.i.d. Gaussian."""
    cells = diagram(width=6, hurst=[0.5], exponents=[0.5, 1.0], draws=150, inputs=1, device=device)
    for column, exponent in enumerate((0.5, 1.0)):
        values = dl.stability(
            dl.res3(6, exponent=exponent), [40], draws=2000, device=device
        ).log_hidden_change[0] / np.log(10)
        assert stats.ks_2samp(cells.hidden_draws[0, column], values).pvalue > LEVEL
        assert stats.ks_2samp(cells.hidden_draws[0, 1 - column], values).pvalue < LEVEL


def test_inputs_given_are_those_of_every_draw():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    made = diagram(x=x, inputs=99)
    assert made.inputs == 3
    np.testing.assert_allclose(diagram(x=2 * x).hidden, made.hidden, rtol=1e-5)
    assert not np.isclose(diagram(x=x.flip(1)).hidden, made.hidden, rtol=1e-3).any()


def test_a_diagram_survives_its_file(tmp_path):
    made = diagram(exponents=[0.9, 1.0], draws=2)
    assert np.isnan(made.boundary_interval).all()
    made.save(tmp_path / "m.json")
    loaded = dl.load_report(tmp_path / "m.json")
    assert str(loaded) == str(made)
    assert loaded.to_dict() == made.to_dict()
    for name, value in vars(made).items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(getattr(loaded, name), value, equal_nan=True)
            assert getattr(loaded, name).dtype == value.dtype


def test_a_stability_report_survives_its_file(tmp_path):
    for network in (dl.res3(8), dl.res1(3, "tanh", exponent=100.0), dl.res1(64, "identity")):
        made = dl.stability(network, [3, 20, 60], draws=20)
        made.save(tmp_path / "s.json")
        loaded = dl.load_report(tmp_path / "s.json")
        assert str(loaded) == str(made)
        assert loaded.to_dict() == made.to_dict()
        assert np.array_equal(loaded.hidden_change, made.hidden_change)


def test_both_reports_draw_what_they_say(tmp_path):
    axes = dl.stability(dl.res3(4), [3, 20, 60], draws=20).plot()
    assert "critical 0.5" in axes.get_title()
    made = diagram()
    for of in ("hidden", "gradient"):
        made.plot(tmp_path / f"{of}.png", of=of)
        assert (tmp_path / f"{of}.png").stat().st_size > 1000
