"""Trained networks against the limit of the deepest: known orders, and wrong limits that must be caught."""

import dataclasses

import pytest
import torch

from deeplimit.driving import Trend
from deeplimit.trained.diagnosis.fitted_limit import Interpolated, fitted_limit

DEPTHS = (16, 32, 64, 128, 256, 512)


def weights_of(beta, alpha, *, size=0.15, seed=0, turned=0.0, noise=0.0, offset=0.0, depths=DEPTHS):
    """Return weights L^-β Ā((k + offset)/L), factors L^-α; `turned` gives every depth another Ā."""
    generator = torch.Generator().manual_seed(seed)
    first, second, third = (torch.randn(4, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    bias = torch.randn(4, generator=generator, dtype=torch.float64)
    found = {}
    for depth in depths:
        times = ((torch.arange(depth, dtype=torch.float64) + offset) / depth)[:, None, None]
        shape = first + torch.sin(3 * times) * second + torch.cos(2 * times + turned * depth) * third
        rough = noise * torch.randn(depth, 4, 4, generator=generator, dtype=torch.float64) * depth**-0.5
        found[depth] = {
            "A": size * (shape * depth**-beta + rough),
            "b": size * (1 + times[:, :, 0]) * bias * depth**-beta,
            "delta": torch.tensor(float(depth) ** -alpha, dtype=torch.float64),
        }
    return found


@pytest.mark.parametrize(
    ("activation", "beta", "order"), [("tanh", 0.5, 1.0), ("identity", 0.3, 1.0), ("scaled_silu", 0.5, 0.5)]
)
def test_networks_with_one_trend_approach_the_linear_ode_at_the_order_of_theorem_4_3(activation, beta, order):
    fitted = fitted_limit(weights_of(beta, 1 - beta), activation)
    report = fitted.compare(paths=64)
    assert fitted.depths == DEPTHS[:-1]
    assert report.verdict == "converges"
    assert report.rate == pytest.approx(order, abs=0.05)
    assert report.rate_interval[0] < order < report.rate_interval[1]


@pytest.mark.parametrize("offset", [0.5, 1.0])
@pytest.mark.parametrize("depths", [(16, 32, 64, 128, 256), (12, 30, 75, 180, 400)])
def test_layers_may_stand_for_the_middle_or_the_end_of_their_interval(offset, depths):
    """A limit that is shifted by half a layer of the deepest network is a floor for the others."""
    report = fitted_limit(weights_of(0.5, 0.5, offset=offset, depths=depths)).compare(paths=64)
    assert report.verdict == "converges"
    assert report.rate == pytest.approx(1.0, abs=0.05)
    turned = weights_of(0.5, 0.5, offset=offset, depths=depths, turned=1.0)
    assert fitted_limit(turned).compare(paths=64).verdict != "converges"


@pytest.mark.parametrize("factor", [1.01, 0.95])
def test_a_slope_of_another_size_is_not_the_networks_limit(factor):
    fitted = fitted_limit(weights_of(0.5, 0.5))
    wrong = dataclasses.replace(fitted.limit, slope=factor)
    report = dataclasses.replace(fitted, limit=wrong).compare(paths=64)
    assert report.verdict != "converges"


@pytest.mark.parametrize(
    "wrong",
    [{"turned": 1.0}, pytest.param({"noise": 0.3}, marks=pytest.mark.nightly)],
    ids=["turned", "noise"],
)
def test_networks_that_share_no_trend_do_not_approach_the_limit_of_the_deepest(wrong):
    weights = weights_of(0.5, 0.5, depths=(8, 16, 32, 64), **wrong)
    assert fitted_limit(weights).compare(paths=64).verdict != "converges"


def test_a_neural_ode_is_the_limit_of_weights_that_keep_their_size():
    weights = weights_of(0.0, 1.0, size=0.5)
    report = fitted_limit(weights, "tanh", regime="neural-ode").compare(paths=64)
    assert report.verdict == "converges"
    assert report.rate == pytest.approx(1.0, abs=0.1)
    assert fitted_limit(weights, "tanh").compare(paths=64).verdict != "converges"


def test_factors_keep_their_signs_and_may_differ_between_layers():
    """h - L^-1 A h, once with the sign in A and once in δ, are one network."""
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    own = {L: {"A": turn.expand(L, 2, 2), "delta": torch.full((L,), -1.0 / L)} for L in (8, 16, 32)}
    other = {L: {"A": -turn.expand(L, 2, 2), "delta": torch.tensor(1.0 / L)} for L in (8, 16, 32)}
    first, second = (fitted_limit(each, "identity").compare(paths=8) for each in (own, other))
    assert first.errors == pytest.approx(second.errors, rel=1e-6)
    assert first.errors[-1] < 0.2


def test_interpolation_has_the_layers_values_at_their_times():
    function = Interpolated(torch.tensor([[1.0], [3.0], [7.0], [7.5]]))
    assert [float(function(t)) for t in (0.0, 0.125, 0.25, 0.5, 1.0)] == [1.0, 2.0, 3.0, 7.0, 7.5]
    assert isinstance(Trend(function), Trend)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"weights": [1]}, TypeError, "weights"),
        ({"regime": "sde"}, ValueError, "'sde'"),
        ({"activation": "relu"}, ValueError, "relu"),
        ({"weights": {8: {"A": torch.ones(8, 2, 3)}, 16: {"A": torch.ones(16, 2, 3)}}}, ValueError, "depths"),
        (
            {"weights": {L: {"A": torch.arange(L * 6.0).reshape(L, 2, 3)} for L in (8, 16, 32)}},
            ValueError,
            r"\(2, 3\)",
        ),
    ],
    ids=["kind", "regime", "kink", "two depths", "not square"],
)
def test_what_has_no_such_limit_is_refused(change, error, said):
    given = {"weights": weights_of(0.5, 0.5), "activation": "tanh", **change}
    with pytest.raises(error, match=said):
        fitted_limit(given.pop("weights"), given.pop("activation"), **given)
