"""Layers of attention: what they compute, what they keep, and what tokens share."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from refusals import assert_refused

import deeplimit as dl
from deeplimit.driving import Layer, layers_in_law
from deeplimit.driving.path import matvec
from deeplimit.judge.in_law.simulation import last_states

PATHS = 5


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def a_layer(width, depth=1, paths=PATHS, seed=7):
    return (Layer(normal(paths, width, width, seed=seed), depth, 0.0, width**-0.5),)


def published(x, matrix, beta):
    """x_i + V Σ_j e^{β⟨x_i, x_j⟩} x_j / Z_i, divided by its norm, token by token as the papers write it."""
    moved = np.empty_like(x)
    for i, token in enumerate(x):
        weights = np.array([np.exp(beta * token @ other) for other in x])
        moved[i] = (
            token + matrix @ sum(w * other for w, other in zip(weights, x, strict=True)) / weights.sum()
        )
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


@pytest.mark.parametrize("beta", [0.0, 1.0, 6.0])
def test_on_the_unit_sphere_a_layer_is_the_published_transformer(beta):
    recursion = dl.Attention(4, beta)
    x = torch.nn.functional.normalize(normal(PATHS, 4, 3), dim=2)
    (layer,) = a_layer(3, depth=9)
    after = recursion.advance(x, (layer,), 0.5)
    for path in range(PATHS):
        matrix = (layer.values[path] * layer.scale(0.5)).numpy()
        np.testing.assert_allclose(after[path], published(x[path].numpy(), matrix, beta), rtol=1e-12)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.integers(2, 5), st.floats(0.0, 20.0), st.floats(1e-3, 1e3))
def test_every_token_keeps_its_norm_and_scaling_the_state_scales_the_update(tokens, width, kappa, size):
    recursion, h = dl.Attention(tokens, kappa), normal(PATHS, tokens, width)
    after = recursion.advance(h, a_layer(width), 0.0)
    torch.testing.assert_close(after.norm(dim=2), h.norm(dim=2))
    torch.testing.assert_close(recursion.advance(size * h, a_layer(width), 0.0), size * after)


def test_tokens_in_another_order_or_turned_together_are_moved_alike():
    recursion, h, (layer,) = dl.Attention(4, 2.0), normal(PATHS, 4, 3), a_layer(3)
    after, order = recursion.advance(h, (layer,), 0.0), torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(recursion.advance(h[:, order], (layer,), 0.0), after[:, order])
    turn, _ = torch.linalg.qr(normal(3, 3, seed=1))
    turned = Layer(turn @ layer.values @ turn.T, 1, 0.0, layer.entry_scale)
    torch.testing.assert_close(recursion.advance(h @ turn.T, (turned,), 0.0), after @ turn.T)


def test_a_token_that_is_zero_stays_zero_and_nothing_becomes_nan():
    network = dl.attention(3, tokens=2)
    x = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 2.0, 2.0]]])
    report = dl.compare(network, x=x, depths=[4, 8], paths=4)
    assert np.isfinite(report.errors).all()
    assert not report.path(0).states[8][:, 0].any()
    assert not report.path(0).limit_states[:, 0].any()


def test_the_vector_field_is_what_normalisation_leaves_of_a_thin_layer():
    recursion, h = dl.Attention(4, 2.0), normal(PATHS, 4, 3)
    field = recursion.vector_field(h, a_layer(3))
    torch.testing.assert_close((field * h).sum(dim=2), torch.zeros(PATHS, 4, dtype=torch.float64))
    apart = [(L * recursion.residual(h, a_layer(3, L), 1.0) - field).norm().item() for L in (1000, 2000)]
    assert apart[0] / apart[1] == pytest.approx(2.0, rel=1e-2)


def test_a_matrix_acts_on_every_token_of_a_state():
    for matrix in (normal(PATHS, 4, 3), normal(1, 4, 3)):
        states = normal(PATHS, 6, 3, seed=1)
        singly = torch.stack([matvec(matrix, states[:, i]) for i in range(6)], dim=1)
        torch.testing.assert_close(matvec(matrix, states), singly)


@pytest.mark.parametrize("law", [dl.Brownian(), dl.IID("uniform")], ids=["Gaussian", "uniform"])
def test_all_tokens_of_a_draw_in_law_are_moved_by_one_matrix(law):
    """Two tokens that start as one stay one. Products drawn token by token would tear them apart."""
    network = dl.attention(3, tokens=3, weights=law)
    h0 = normal(PATHS, 3, 3)
    h0[:, 1] = h0[:, 0]
    end = last_states(network, 16, h0, torch.Generator().manual_seed(0))
    torch.testing.assert_close(end[:, 1], end[:, 0])
    assert (end - h0).norm() > 1.0


def test_products_in_law_have_the_second_moments_of_one_gaussian_matrix():
    """E (V a)_i (V b)_k = ⟨a, b⟩ δ_ik/L for two tokens a, b; 40000 draws, each entry within 6 errors."""
    count, depth = 40_000, 4
    a, b = normal(2, 3, seed=3)
    states = torch.stack([a, b]).expand(count, 2, 3)
    layers = layers_in_law(
        dl.Brownian(), depth, (3, 3), count, torch.Generator().manual_seed(1), torch.float64
    )
    product = next(layers).product(states)
    products = product[:, 0, :, None] * product[:, 1, None, :] * depth
    error = products.std(dim=0) / count**0.5
    assert ((products.mean(dim=0) - (a @ b) * torch.eye(3)).abs() < 6.0 * error).all()


def test_stability_differentiates_attention_automatically():
    """Norms stay, and the gradient's growth does not depend on the depth at the critical exponent."""
    report = dl.stability(dl.attention(3, tokens=3), depths=[8, 32], draws=40)
    np.testing.assert_allclose(report.hidden_ratio, 1.0, rtol=1e-4)
    assert 0.3 < np.exp(np.log(report.gradient_ratio).mean()) < 3.0
    assert report.critical_exponent is None


def test_bad_calls_are_refused():
    assert_refused(lambda: dl.attention(1, tokens=2), ValueError, "width", "1")
    assert_refused(lambda: dl.attention(3, tokens=0), ValueError, "tokens", "0")
    assert_refused(lambda: dl.attention(3, tokens=2.5), TypeError, "tokens", "2.5")
    assert_refused(
        lambda: dl.attention(3, tokens=2, inverse_temperature=-1.0), ValueError, "inverse_temperature", "-1"
    )
    assert_refused(lambda: dl.attention(3, tokens=2, weights=3), TypeError, "weights", "3")
    biased = dl.Trend(lambda t: torch.eye(3), lambda t: torch.ones(3))
    assert_refused(lambda: dl.attention(3, tokens=2, weights=biased), ValueError, "attention", "bias")


def test_limits_of_other_states_are_refused():
    network = dl.attention(3, tokens=2)
    other = dl.attention(3, tokens=4).limit()
    assert_refused(lambda: dl.compare(network, other, depths=[2, 4], paths=8), ValueError, "limit", "(4, 3)")
