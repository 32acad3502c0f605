"""Limits of attention against what is known in closed form: equiangular tokens, and pairs under noise."""

import numpy as np
import pytest
import torch
from refusals import assert_refused
from scipy.integrate import solve_ivp

import deeplimit as dl
from deeplimit.driving import Layer, layers_in_law
from deeplimit.equations.solvers import solve

PAIRS = 40


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def unit(*shape, seed=0):
    return torch.nn.functional.normalize(normal(*shape, seed=seed), dim=-1)


def clustering(tokens, kappa):
    """Attention with V = I on as many orthonormal tokens as there are dimensions, and these tokens."""
    identity = dl.Trend(lambda t: torch.eye(tokens))
    network = dl.attention(tokens, tokens=tokens, inverse_temperature=kappa, weights=identity)
    return network, torch.eye(tokens, dtype=torch.float64)[None]


def angle(tokens, kappa):
    """γ(1) of dγ/dt = 2 e^{κγ} (1 - γ) ((n-1) γ + 1) / (e^κ + (n-1) e^{κγ}), γ(0) = 0."""

    def slope(t, gamma):
        heat, others = np.exp(kappa * gamma), tokens - 1
        return 2 * heat * (1 - gamma) * (others * gamma + 1) / (np.exp(kappa) + others * heat)

    return solve_ivp(slope, (0.0, 1.0), [0.0], rtol=1e-12, atol=1e-12).y[0, -1]


@pytest.mark.parametrize(("tokens", "kappa"), [(2, 1.0), (8, 1.0), (5, 4.0), (3, 0.0)])
def test_orthogonal_tokens_stay_equiangular_at_the_known_angle(tokens, kappa):
    network, x = clustering(tokens, kappa)
    (_, end) = solve(network.limit(), x, torch.tensor([0.0, 1.0], dtype=torch.float64), 1e-11)
    cosines = (end[0] @ end[0].T)[~torch.eye(tokens, dtype=bool)]
    np.testing.assert_allclose(cosines, angle(tokens, kappa), atol=1e-8)
    assert abs(angle(tokens, 2.0 * kappa + 1.0) - angle(tokens, kappa)) > 1e-2


@pytest.mark.parametrize(("tokens", "kappa"), [(8, 1.0), (5, 4.0)])
def test_networks_reach_the_known_angle_at_order_one(tokens, kappa):
    network, x = clustering(tokens, kappa)
    identity, errors = torch.eye(tokens, dtype=torch.float64)[None], []
    for depth in (64, 128, 256):
        h, layer = x, Layer(identity, depth, 0.0, 1.0)
        for _ in range(depth):
            h = network.recursion.advance(h, (layer,), 1.0)
        errors.append(abs((h[0, 0] @ h[0, 1]).item() - angle(tokens, kappa)))
    slopes = np.diff(np.log2(errors))
    np.testing.assert_allclose(slopes, -1.0, atol=0.05)
    assert abs(slopes[1] + 1.0) < abs(slopes[0] + 1.0)


def cosine(pair):
    return (pair[:, 0] * pair[:, 1]).sum(dim=1)


def known(rho, kappa, d):
    """Drift and squared diffusion of ρ = ⟨U_1, U_2⟩: the page Attention."""
    a = 1.0 / (1.0 + torch.exp(kappa * (rho - 1.0)))
    b = 1.0 - a
    q, c = a**2 + b**2 + 2 * a * b * rho, (a**2 + b**2) * rho + 2 * a * b
    drift = (-(d - 1) * q * rho + (d - 2 + rho**2) * c) / d
    return drift, 2.0 * (a**2 + b**2) / d * (1.0 - rho**2) ** 2


@pytest.mark.parametrize(("d", "kappa"), [(2, 1.0), (3, 0.0), (8, 3.0)])
def test_ito_calculus_on_the_limit_gives_the_equation_of_two_tokens(d, kappa):
    sde = dl.attention(d, tokens=2, inverse_temperature=kappa).limit()
    pairs = unit(PAIRS, 2, d)
    f = sde.f(0.0, pairs)
    g = sde.g(0.0, pairs.flatten(1)).reshape(PAIRS, 2, d, -1)
    along = (g * pairs[:, [1, 0], :, None]).sum(dim=(1, 2))  # what dB moves ρ by
    drift = (f * pairs[:, [1, 0]]).sum(dim=(1, 2)) + (g[:, 0] * g[:, 1]).sum(dim=(1, 2))
    expected = known(cosine(pairs), kappa, d)
    torch.testing.assert_close(drift, expected[0])
    torch.testing.assert_close(along.square().sum(dim=1), expected[1])


@pytest.mark.parametrize(("d", "kappa"), [(2, 1.0), (5, 2.0)])
def test_ito_calculus_on_the_limit_keeps_every_norm(d, kappa):
    sde = dl.attention(d, tokens=3, inverse_temperature=kappa).limit()
    h = normal(PAIRS, 3, d)
    g = sde.g(0.0, h.flatten(1)).reshape(PAIRS, 3, d, -1)
    torch.testing.assert_close((g * h[..., None]).sum(dim=2), torch.zeros_like(g[:, :, 0]))
    growth = 2.0 * (sde.f(0.0, h) * h).sum(dim=2) + g.square().sum(dim=(2, 3))
    torch.testing.assert_close(growth, torch.zeros_like(growth), atol=1e-12, rtol=0.0)


@pytest.mark.statistical
def test_one_layer_has_the_drift_and_the_variance_of_two_tokens():
    """One layer of depth 400 on one pair, 200000 draws in pairs V, -V: each within 5 standard errors."""
    count, depth, d, kappa = 100_000, 400, 3, 2.0
    recursion, pair = dl.Attention(2, kappa), unit(1, 2, d, seed=4)
    values = normal(count, d, d, seed=5)
    before = cosine(pair)
    one, other = (
        cosine(recursion.advance(pair.expand(count, 2, d), (Layer(sign * values, depth, 0.0, d**-0.5),), 0.5))
        - before
        for sign in (1.0, -1.0)
    )
    drift, variance = (value.item() for value in known(before, kappa, d))
    mean = 0.5 * depth * (one + other)
    assert abs(mean.mean().item() - drift) < 5.0 * mean.std().item() / count**0.5 + 2.0 / depth
    square = depth * one.square()
    assert abs(square.mean().item() - variance) < 5.0 * square.std().item() / count**0.5 + 2.0 / depth
    assert abs(drift) > 0.1
    assert variance > 0.1


def growth(d, kappa, sign, depth=100, pairs=2000):
    """Mean and standard error of the growth of log(1 + sign·ρ) over unit time, started at 1e-6."""
    network = dl.attention(d, tokens=2, inverse_temperature=kappa)
    generator = torch.Generator().manual_seed(int(100 * kappa) + d)
    one = unit(pairs, d, seed=1)
    aside = torch.nn.functional.normalize(normal(pairs, d, seed=2), dim=1)
    aside = torch.nn.functional.normalize(aside - (aside * one).sum(1, keepdim=True) * one, dim=1)
    h = torch.stack([one, torch.nn.functional.normalize(1e-3 * aside - sign * one, dim=1)], dim=1)

    def left(h):
        return (h[:, 0] + sign * h[:, 1]).square().sum(dim=1).log()  # log 2(1 + sign·ρ)

    start = left(h)
    law = network.weights[0]
    for layer in layers_in_law(law, depth, (d, d), pairs, generator, torch.float64):
        h = network.recursion.advance(h, (layer,), 0.5)
    grown = left(h) - start
    return grown.mean().item(), grown.std().item() / pairs**0.5


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.parametrize(("d", "kappa"), [(8, 0.4), (8, 3.0), (3, 1.0)])
def test_networks_grow_at_the_lyapunov_exponents(d, kappa):
    """Within 5 standard errors and 2/L, L = 100. Opposite pairs meet at κ = 3, and part at κ = 0.4."""
    network = dl.attention(d, tokens=2, inverse_temperature=kappa)
    for exponent, sign in zip(network.limit().lyapunov_exponents, (-1.0, 1.0), strict=True):
        mean, error = growth(d, kappa, sign)
        assert abs(mean - exponent) < 5.0 * error + 0.02
        assert abs(exponent) > 5.0 * error + 0.02, "a test of the sign, too"


def test_lyapunov_exponents_follow_from_the_equation_of_the_cosine():
    """At an end where 1 ∓ ρ = ε: the drift's slope less half the squared slope of the diffusion."""
    step = 1e-6
    for d in (2, 3, 8):
        for kappa in (0.0, 0.7, 3.0):
            expected = []
            for end in (1.0, -1.0):
                drift, variance = known(torch.tensor(end * (1.0 - step), dtype=torch.float64), kappa, d)
                expected.append(-end * drift.item() / step - 0.5 * variance.item() / step**2)
            found = dl.attention(d, tokens=2, inverse_temperature=kappa).limit().lyapunov_exponents
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_bad_calls_are_refused():
    three = dl.attention(3, tokens=3).limit()
    assert_refused(lambda: three.lyapunov_exponents, ValueError, "lyapunov_exponents", "3")
    laws = (dl.Brownian(),)
    assert_refused(lambda: dl.AttentionSDE(dl.Res1("tanh"), laws, 3), TypeError, "recursion", "Res1")
    assert_refused(lambda: dl.AttentionSDE(dl.Attention(2), (), 3), TypeError, "weights", "()")
    assert_refused(lambda: dl.AttentionSDE(dl.Attention(2), laws, 1), ValueError, "width", "1")


@pytest.mark.statistical
def test_one_token_is_drawn_from_brownian_motion_on_the_sphere():
    """At time 1/d: E⟨U_0, U_1⟩ = e^{-(d-1)/2d}, with its length. Level: five standard errors and 1/steps."""
    start = 3.0 * unit(1, 1, 4).expand(3000, 1, 4)
    end = dl.attention(4, tokens=1).limit().draw_end(start, torch.Generator().manual_seed(0), 32)
    torch.testing.assert_close(end.norm(dim=-1), start.norm(dim=-1))
    along = (start * end).sum(dim=-1) / 9.0
    error = float(along.std()) / len(along) ** 0.5
    assert abs(float(along.mean()) - np.exp(-3 / 8)) < 5 * error + 1 / 32
    assert error < 0.01
