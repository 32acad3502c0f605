"""Rows on attention: orders with intervals, wrong limits caught, and where there is no theorem."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from scipy import stats

import deeplimit as dl
from deeplimit.layers import Recursion
from deeplimit.layers.attention import polar, projected
from deeplimit.papers.cases.attention import WithoutProjection
from deeplimit.theory import gradients_of

DEPTHS = [16, 32, 64, 128, 256]
UNIT = dl.Trend(lambda t: torch.eye(3))
SMOOTH = dl.SmoothGaussian(0.3)


def rate(network, limit=None, **knobs):
    report = dl.compare(network, limit, depths=DEPTHS, seed=3, confidence=0.999, **knobs)
    assert report.verdict == "converges", str(report)
    return report


@pytest.mark.parametrize(("weights", "paths"), [(UNIT, 64), (SMOOTH, 64)], ids=["V = I", "random V"])
def test_the_clustering_ode_is_reached_at_order_one(weights, paths):
    report = rate(dl.attention(3, tokens=4, inverse_temperature=2.0, weights=weights), paths=paths)
    low, high = report.rate_interval
    assert low - 0.02 <= 1.0 <= high + 0.02
    assert high - low < 0.2
    assert "Geshkovski" in report.theorem


def test_gradients_of_attention_depend_on_no_activation():
    regime = gradients_of(dl.attention(3, tokens=2, weights=SMOOTH))
    assert (regime.rate, regime.not_checked) == (1.0, ())
    assert gradients_of(dl.attention(3, tokens=2)).rate is None


@pytest.mark.statistical
def test_the_noisy_transformer_is_reached_at_order_one_half():
    report = rate(dl.attention(3, tokens=2), paths=1500)
    low, high = report.rate_interval
    assert low < 0.5 < high
    assert high - low < 0.15
    assert "Fedorov" in report.theorem


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("weights", "exponent", "order"),
    [(dl.Brownian(), 0.8, 0.3), (dl.IID("uniform"), 0.9, 0.4), (SMOOTH, 1.5, 0.5)],
)
def test_above_the_critical_exponents_tokens_stop_at_the_predicted_order(weights, exponent, order):
    network = dl.attention(3, tokens=2, weights=weights, exponent=exponent)
    assert network.regime().name == "identity"
    assert network.regime().rate == pytest.approx(order)
    report = rate(network, paths=1000 if order < 0.5 else 200)
    low, high = report.rate_interval
    assert low - 0.02 <= order <= high + 0.02
    assert high - low < 0.2


@dataclass(frozen=True)
class Projecting(Recursion):
    """‖h_i‖ N(u_i + L^-β P_i V m_i): the update is projected on the sphere before it is added."""

    name: ClassVar[str] = "projecting"
    formula: ClassVar[dl.Formula] = dl.Formula("‖h_i‖ N(u_i + L^-{exponent} P_i V m_i)")
    weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("V"),)
    attention: ClassVar[dl.Attention] = dl.Attention(2)

    def state_shape(self, width):
        return self.attention.state_shape(width)

    def residual(self, h, layers, exponent):
        size, u = polar(h)
        moved = projected(u, layers[0].apply(self.attention.mean_field(u), exponent))
        return size * polar(u + moved)[1] - h


@pytest.mark.statistical
@pytest.mark.parametrize("weights", [UNIT, dl.Brownian()], ids=["ODE", "SDE"])
def test_leaving_the_projection_out_of_the_layer_is_no_control(weights):
    """Normalisation projects by itself: with and without it networks have one limit, at one order."""
    without = dl.attention(3, tokens=2, weights=weights)
    network = dl.ResidualNetwork(Projecting("identity"), 3, (weights,), without.exponent)
    report = rate(network, without.limit(), paths=1000)
    low, high = report.rate_interval
    assert low - 0.02 <= without.exponent <= high + 0.02


def test_leaving_the_projection_out_of_the_equation_is_caught():
    network = dl.attention(3, tokens=2, weights=UNIT)
    report = dl.compare(network, WithoutProjection(network.recursion), depths=DEPTHS, paths=64)
    assert report.verdict == "does not converge"


@pytest.mark.parametrize(
    ("weights", "exponent"),
    [
        (dl.Brownian(), 0.4),
        (SMOOTH, 0.9),
        (dl.FractionalBrownian(0.7), 0.7),
        (dl.AR1(0.5), 0.5),
    ],
)
def test_elsewhere_attention_has_no_theorem(weights, exponent):
    network = dl.attention(3, tokens=2, weights=weights, exponent=exponent)
    assert network.regime().name == "no theorem"
    with pytest.raises(dl.NoTheoremError, match="attention"):
        network.limit()


def test_values_that_are_only_holder_functions_bound_the_order_and_name_no_theorem():
    rough = dl.Trend(lambda t: abs(t - 0.5) ** 0.5 * torch.eye(3), holder=0.5)
    regime = dl.attention(3, tokens=2, weights=rough).regime()
    assert (regime.theorem, regime.rate, regime.rate_is_bound) == (None, 0.5, True)
    assert any("Hölder" in sentence for sentence in regime.not_checked)


def test_other_laws_have_the_same_limit_in_law():
    network = dl.attention(3, tokens=2, weights=dl.IID("uniform"))
    regime = network.regime()
    assert (regime.name, regime.rate, regime.convergence) == ("sde", None, "in law")
    assert network.limit().has_the_law_of(dl.attention(3, tokens=2).limit())
    assert not network.limit().has_the_law_of(dl.attention(3, tokens=3).limit())


@pytest.mark.statistical
def test_two_drawn_tokens_have_the_cosine_of_the_one_dimensional_equation():
    """ρ solves dρ = [-(d-1)qρ + (d-2+ρ²)c]/d dt + √(2(a²+b²)/d)(1-ρ²) dw (the page Attention). Level 1e-5.

    At twice the inverse temperature it has another law.
    """
    d, kappa, steps, paths = 4, 1.5, 100, 3000
    rng = torch.Generator().manual_seed(5)
    start = torch.zeros(paths, 2, d, dtype=torch.float64)
    start[:, 0, 0], start[:, 1, 0], start[:, 1, 1] = 2.0, 0.1, 0.99**0.5
    rho = torch.full((paths,), float(start[0, 1, 0] / start[0, 1].norm()), dtype=torch.float64)
    twice = rho.clone()
    end = dl.attention(d, tokens=2, inverse_temperature=kappa).limit().draw_end(start, rng, steps)
    for _ in range(steps):
        noise = torch.randn(paths, generator=rng, dtype=torch.float64) / steps**0.5
        rho = cosine_step(rho, kappa, d, 1 / steps, noise)
        twice = cosine_step(twice, 2 * kappa, d, 1 / steps, noise)
    found = torch.cosine_similarity(end[:, 0], end[:, 1], dim=1).numpy()
    assert stats.ks_2samp(found, rho.numpy()).pvalue > 1e-5
    assert stats.ks_2samp(found, twice.numpy()).pvalue < 1e-5
    torch.testing.assert_close(end.norm(dim=2), start.norm(dim=2))


def cosine_step(rho, kappa, d, step, noise):
    a = 1 / (1 + torch.exp(kappa * (rho - 1)))
    b = 1 - a
    q, c = a**2 + b**2 + 2 * a * b * rho, (a**2 + b**2) * rho + 2 * a * b
    drift = (-(d - 1) * q * rho + (d - 2 + rho**2) * c) / d
    moved = rho + drift * step + (2 * (a**2 + b**2) / d).sqrt() * (1 - rho**2) * noise
    return moved.clamp(-1.0, 1.0)
