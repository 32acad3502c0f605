"""Trained networks against the limit of the deepest: known orders, and wrong limits that must be caught."""

import dataclasses
import math

import pytest
import torch
from residual_stacks import made
from torch import nn

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


class Layer(nn.Module):
    """h + V tanh(W h)/L, hidden units in any order."""

    def __init__(self, inner, outer, depth, order):
        super().__init__()
        self.inner, self.outer = nn.Parameter(inner[order]), nn.Parameter(outer[:, order])
        self.scale = 1 / depth

    def forward(self, h):
        return h + self.scale * torch.tanh(h @ self.inner.mT) @ self.outer.mT


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.entry, self.layers, self.head = nn.Linear(3, 4), nn.ModuleList(layers), nn.Linear(4, 2)

    def forward(self, x):
        h = self.entry(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(h)


def models(depths, *, turned=0.0, factor=1.0):
    """Return models with functions of depth that are smooth; `turned` gives every depth others."""
    draws = torch.Generator().manual_seed(0)
    first, second, third, fourth = (torch.randn(6, 4, generator=draws) for _ in range(4))
    found = {}
    for depth in depths:
        times = [(k + 0.5) / depth for k in range(depth)]
        inner = [first * math.cos(2 * t + turned * depth) + second * math.sin(3 * t) for t in times]
        outer = [0.4 * factor * (third * math.sin(2 * t) + fourth * t).mT for t in times]
        orders = [torch.randperm(6, generator=draws) for _ in times]
        layers = [Layer(w, v, depth, order) for w, v, order in zip(inner, outer, orders, strict=True)]
        found[depth] = made(Model, layers)
    return found


def kernel(k, depth):
    built = made(nn.Conv2d, 2, 2, 3, padding=1)
    draws = torch.Generator().manual_seed(0)
    for parameter in built.parameters():
        ends = torch.randn(2, *parameter.shape, generator=draws)
        parameter.data = (ends[0] * math.cos(2 * k / depth) + ends[1] * math.sin(2 * k / depth)) / 2
    return built


class Convolution(nn.Module):
    def __init__(self, k, depth):
        super().__init__()
        self.kernel, self.scale = kernel(k, depth), 1 / depth

    def forward(self, h):
        return h + self.scale * torch.tanh(self.kernel(h))


MODULE_DEPTHS = (8, 16, 32, 64, 128, 256)


@pytest.fixture(scope="module")
def batch():
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.usefixtures("one_thread")
def test_layers_of_modules_are_functions_whatever_the_order_of_hidden_units(batch):
    fitted = fitted_limit(models(MODULE_DEPTHS), batch=batch)
    report = fitted.compare()
    assert (fitted.depths, fitted.limit.offset) == (MODULE_DEPTHS[:-1], 0.5)
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 1.0 < report.rate_interval[1]
    entry = models((8,))[8].entry
    assert torch.allclose(fitted.states.float(), entry(batch), atol=1e-6)
    assert fitted.compare(fitted.states[:2], paths=32).verdict == "converges"


@pytest.mark.usefixtures("one_thread")
def test_modules_whose_functions_differ_between_depths_have_no_limit(batch):
    assert fitted_limit(models(MODULE_DEPTHS, turned=1.0), batch=batch).compare().verdict != "converges"
    fitted = fitted_limit(models(MODULE_DEPTHS), batch=batch)
    wrong = fitted_limit(models(MODULE_DEPTHS[-3:], factor=0.8), batch=batch).limit
    assert dataclasses.replace(fitted, limit=wrong).compare().verdict == "does not converge"


@pytest.mark.usefixtures("one_thread")
def test_convolutions_and_whole_networks_of_blocks_have_a_limit():
    stacks = {L: nn.Sequential(*(Convolution(k, L) for k in range(L))) for L in MODULE_DEPTHS[:-1]}
    images = torch.randn(4, 2, 5, 5, generator=torch.Generator().manual_seed(1))
    report = fitted_limit(stacks, batch=images).compare()
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 1.0 < report.rate_interval[1]


@pytest.mark.usefixtures("one_thread")
def test_the_untrained_control_is_built_by_its_factory(batch):
    seen = []

    def factory(depth):
        seen.append(depth)
        return models((depth,), turned=1.0)[depth]

    fitted = fitted_limit(models((8, 16, 32, 64)), batch=batch, null=factory)
    assert seen == [8, 16, 32, 64]
    assert fitted.null.null is None
    assert fitted.null.compare().verdict != "converges"


class Single(nn.Module):
    def __init__(self):
        super().__init__()
        self.held, self.gain = torch.eye(3), nn.Parameter(torch.ones(()))

    def forward(self, h):
        return h + self.gain * (h @ self.held)


class Mixing(nn.Module):
    def forward(self, h):
        return h + 0.1 * (h - h.mean(0))


class Unknown(nn.Module):
    def forward(self, h):
        return h + torch.tanh(h) * math.nan


MIXING, SINGLE, UNKNOWN = (
    {L: nn.Sequential(*(kind() for _ in range(L))) for L in (4, 8, 16)} for kind in (Mixing, Single, Unknown)
)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"weights": {4: SINGLE[4], 8: {"A": torch.ones(8, 3, 3)}}}, TypeError, "beside modules"),
        ({"weights": models((8, 16))}, ValueError, "at least three"),
        ({"weights": {L + 1: MIXING[L] for L in MIXING}}, ValueError, "4 blocks"),
        ({"weights": dict.fromkeys((4, 8, 16), nn.Tanh())}, ValueError, "longer"),
        ({"weights": MIXING, "batch": torch.arange(15.0).reshape(5, 3)}, ValueError, "one by one"),
        ({"weights": SINGLE}, ValueError, "buffers"),
        ({"weights": weights_of(0.5, 0.5), "batch": torch.ones(5, 3)}, ValueError, "batch"),
        ({"weights": weights_of(0.5, 0.5), "null": Model}, ValueError, "null"),
        ({"null": 3}, TypeError, "null"),
        ({"weights": {L: [Mixing()] for L in (4, 8, 16)}}, TypeError, "at depth 4"),
        ({"weights": UNKNOWN, "batch": torch.ones(5, 3)}, ValueError, "finite"),
    ],
    ids=[
        "both kinds",
        "two depths",
        "other depths",
        "no list",
        "mixing",
        "float32",
        "batch",
        "null of stacks",
        "null",
        "lists",
        "not finite",
    ],
)
def test_modules_without_such_a_limit_are_refused(change, error, said, batch):
    given = {"weights": models((8, 16, 32)), "batch": batch, **change}
    if "null" in change:
        given["batch"] = None
    with pytest.raises(error, match=said):
        fitted_limit(**given)
