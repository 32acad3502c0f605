"""A change read as a time, where the answer is known: short and long times, linear layers, simulations."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import deeplimit as dl
from deeplimit.layers.activations import resolve
from deeplimit.signal.layer_time import ByEnergy, Start, _curve, curves_of
from deeplimit.signal.radial_law import log_change_by_energy


def change(width, energy):
    """Return E log(1 + x) at an energy."""
    return np.exp(log_change_by_energy(width)(np.log(energy)))


@pytest.mark.parametrize("width", [2, 3, 8, 40])
def test_a_short_change_is_the_energy_and_a_long_one_twice_the_log_of_the_norm(width):
    """E|H_τ - H_0|² = (e^τ - 1)|H_0|², and E log|H_τ|/|H_0| = ½τ(1 - 2/d)."""
    assert change(width, 1e-4) == pytest.approx(1e-4, rel=2e-3)
    if width > 2:
        assert change(width, 3e4) == pytest.approx(3e4 * (1 - 2 / width), rel=2e-3)


@pytest.mark.parametrize(("width", "energy"), [(2, 3.0), (3, 0.3), (8, 3.0)])
def test_a_change_in_between_is_that_of_simulated_paths(width, energy):
    """Layers h + |h| √(τ/(dL)) z, at a level of 1e-5 and half a percent for L = 400 and the beta law."""
    paths, layers = 8000, 400
    random = np.random.default_rng(3)
    state = np.zeros((paths, width))
    state[:, 0] = 1.0
    start = state
    for _ in range(layers):
        norm = np.linalg.norm(state, axis=1, keepdims=True)
        state = state + norm * np.sqrt(energy / width / layers) * random.standard_normal(state.shape)
    logs = np.log1p(((state - start) ** 2).sum(axis=1))
    error = stats.norm.isf(0.5e-5) * logs.std() / np.sqrt(paths)
    assert change(width, energy) == pytest.approx(logs.mean(), abs=error + 0.005 * logs.mean())


@pytest.mark.parametrize("depth", [1, 4, 1000])
def test_layers_compound_to_the_energy_that_is_read(depth):
    """(1 + q)^L = e^τ: the time is L q, however large a layer is."""
    for per_layer in (1e-3, 0.5, 2.0):
        energy = depth * np.log1p(per_layer)
        time = ByEnergy(8, 0.0).log_times(np.log(change(8, energy))[None], np.array([depth]))
        assert np.exp(time) == pytest.approx(depth * per_layer, rel=1e-6)


@pytest.mark.parametrize(("activation", "squares", "slopes"), [("identity", 1.0, 1.0), ("relu", 0.5, 0.5)])
def test_in_mean_field_the_variance_of_linear_layers_grows_exponentially(activation, squares, slopes):
    """dx/dT = c (1 + x) for E σ² = c (1 + x), and the gradient's energy is E σ'² T."""
    log_time, log_change, log_energy = _curve(resolve(activation), Start(None, 1.0))
    near = np.abs(log_change) < np.log(1e4)
    known = np.log(np.log1p(np.exp(log_change[near])) / squares)
    np.testing.assert_allclose(log_time[near], known, atol=2e-3)
    np.testing.assert_allclose(log_energy - log_time, np.log(slopes), atol=1e-6)


def test_curves_of_tanh_start_with_its_mean_squares():
    """x = T E σ², of the gradient T E σ'², and the exponent is 1 - 2β."""
    curves = curves_of(dl.res1(8, "tanh", exponent=0.4), None)
    assert curves.exponent == pytest.approx(0.2)
    small = np.array([np.log(1e-5)])
    for curve, function in (
        (curves.hidden, lambda z: np.tanh(z) ** 2),
        (curves.gradient, lambda z: np.cosh(z) ** -4.0),
    ):
        mean = integrate.quad(lambda z, f=function: f(z) * stats.norm.pdf(z), -9, 9)[0]
        read = curve.log_times(small, np.array([1000]))
        assert read == pytest.approx(small - np.log(mean), abs=2e-3)


def test_curves_are_as_uncertain_as_the_width_is_small():
    narrow, wide = (curves_of(dl.res1(width, "tanh"), None) for width in (4, 40))
    assert narrow.hidden.uncertainty == pytest.approx(10 * wide.hidden.uncertainty)
    assert 0.0 < wide.gradient.uncertainty < 0.05
    assert curves_of(dl.res3(4), None).hidden.uncertainty == 0.0  # its law is known


def test_curves_of_several_inputs_are_averaged():
    """Logs of changes are; where these are proportional to the time, so are logs of times."""
    x = torch.tensor([[1.0, 1.0], [9.0, 9.0]]).repeat(1, 4)
    small = np.array([np.log(1e-4)])
    one, other, both = (
        curves_of(dl.inner(8, "tanh", weights=dl.Brownian()), given).hidden.log_times(small, np.array([100]))
        for given in (x[:1], x[1:], x)
    )
    assert both == pytest.approx((one + other) / 2, abs=1e-3)
    assert abs(one - other) > 0.1


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_the_gradients_energy_rises_like_the_root_of_a_long_time(name):
    """E σ'² falls like the inverse of the state's size, which grows like the root of the time."""
    curve = curves_of(dl.res1(8, name, exponent=0.0), None).gradient
    times = curve.time(np.array([20.0, 40.0]))  # of log energies
    assert 0.4 < 20.0 / (times[1] - times[0]) < 0.6
