"""Phase diagrams: the boundary is found where it is known, intervals cover it, and exponents share their
draws.
"""

import functools

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl

LEVEL = 1e-5
GRID = np.linspace(0.0, 1.3, 14)


def diagram(network=dl.res3, width=5, depth=40, **knobs):
    return dl.phase_diagram(
        network,
        width,
        depth,
        **({"hurst": [0.3, 0.8], "exponents": [0.2, 0.6, 1.0], "draws": 3, "inputs": 2} | knobs),
    )


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
        300,
        hurst=[0.5, 0.9],
        exponents=[0.2, 0.4, 0.6, 0.8, 1.0, 1.2],
        draws=30,
        inputs=4,
        confidence=0.9999,
    )


@pytest.mark.nightly
def test_the_boundary_of_independent_layers_covers_one_half():
    made = measured()
    for at, (low, high) in (
        (made.boundary[0], made.boundary_interval[0]),
        (made.gradient_boundary[0], made.gradient_boundary_interval[0]),
    ):
        assert low - 0.02 < 0.5 < high + 0.02  # depths 30 and 300 are not infinity
        assert abs(at - 0.5) < 0.06
        assert not low < 0.62 < high


@pytest.mark.nightly
def test_the_boundary_of_persistent_layers_is_clearly_above_one_half():
    made = measured()
    assert made.boundary_interval[1, 0] > 0.65
    assert abs(made.boundary[1] - 0.9) < 0.15
    assert np.array_equal(made.critical, [0.5, 0.9])


@pytest.mark.nightly
def test_changes_fall_with_the_exponent_and_means_are_those_of_the_draws():
    made = measured()
    for mean, draws in ((made.hidden, made.hidden_draws), (made.gradient, made.gradient_draws)):
        assert (np.diff(mean, axis=1) < 0).all()
        np.testing.assert_allclose(mean, draws.mean(axis=2))
    assert (made.hidden[:, 0] > 1).all()
    assert (made.hidden[:, -1] < 0).all()


@pytest.mark.parametrize("factory", [dl.res3, functools.partial(dl.inner, activation="sin")])
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


@pytest.mark.statistical
@pytest.mark.nightly
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


def test_the_map_of_one_hurst_index_is_a_curve_that_crosses_at_the_boundary():
    made = diagram(hurst=[0.5], exponents=[0.2, 0.4, 0.6, 1.0])
    for of, values, boundary in (
        ("hidden", made.hidden, made.boundary),
        ("gradient", made.gradient, made.gradient_boundary),
    ):
        axes = made.plot(of=of, compact=True)
        lines = {line.get_label(): line for line in axes.lines}
        assert lines["L = 40"].get_xdata() == pytest.approx(made.exponents)
        assert lines["L = 40"].get_ydata() == pytest.approx(values[0], abs=1e-6)
        apart = lines["L = 40"].get_ydata() - lines[f"L = {made.shallow_depth}"].get_ydata()
        assert apart[made.exponents < boundary[0]].min() > 0 > apart[made.exponents > boundary[0]].max()
        assert axes.get_xlabel() == "residual exponent β"
        assert not axes.collections


def test_a_diagram_of_several_indices_is_a_map_and_one_of_a_single_index_a_curve():
    several, one = diagram(), diagram(hurst=[0.5], exponents=[0.2, 0.4, 0.6, 1.0])
    for of in ("hidden", "gradient"):
        assert several.plot(of=of).collections
        assert not one.plot(of=of, compact=True).collections


def test_a_gradients_boundary_below_theorys_is_said_to_be_one_of_these_depths():
    """Behind softplus a mean part levels off beside one that falls as L^-1/2; behind tanh is one part."""
    how = {"width": 20, "depth": 200, "hurst": [0.8], "draws": 6, "exponents": [0.5, 0.7, 0.8, 0.9, 1.0, 1.1]}
    said = {
        name: [
            text
            for text in dl.phase_diagram(functools.partial(dl.inner, activation=name), **how).reservations
            if "gradient" in text
        ]
        for name in ("softplus", "tanh")
    }
    assert len(said["softplus"]) == 1
    assert said["tanh"] == []


@pytest.mark.parametrize(("exponents", "side"), [([0.1, 0.2, 0.3], "above 0.3"), ([0.9, 1.1], "below 0.9")])
def test_a_boundary_beyond_all_exponents_is_said_to_lie_on_its_side(exponents, side):
    beyond = diagram(hurst=[0.5], exponents=exponents, depth=200, draws=4)
    within = diagram(hurst=[0.5], exponents=[0.2, 0.8], depth=200, draws=4)
    assert np.isnan(beyond.boundary).all()
    assert sum(side in each for each in beyond.reservations) == 2  # the signal's, and the gradient's
    assert not any("lies above" in each or "lies below" in each for each in within.reservations)
