"""Q and its integral: every form of one covariance alike, known integrals, and what squares along paths
add up to.
"""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from noises import (
    MATRIX_KINDS,
    dense_matrix,
    mixed_up,
    q_by_hand,
    randn,
    random_matrix_covariance,
    random_psd,
    times,
)

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


@given(width=st.integers(1, 4), kind=st.sampled_from(MATRIX_KINDS), seed=st.integers(0, 2**31))
def test_every_form_of_one_covariance_has_the_same_q(width, kind, seed):
    """A structure and the full tensor that equals it; x scaled; sums of covariances; coordinates renamed."""
    a, x = random_matrix_covariance(kind, width, seed), randn(5, width, seed=seed + 7)
    dense = dense_matrix(a, width)
    q = dl.Ito(A=a).Q(0.5, x)
    torch.testing.assert_close(q, dl.Ito(A=dense).Q(0.5, x))
    torch.testing.assert_close(q, torch.stack([q_by_hand(dense, None, None, state) for state in x]))
    torch.testing.assert_close(dl.Ito(A=a).Q(0.5, -3.0 * x), 9.0 * q)
    torch.testing.assert_close(dl.Ito(A=times(a, 4.0)).Q(0.5, x), 4.0 * q)
    torch.testing.assert_close(dl.Ito(A=a, b=0.7).Q(0.5, x), q + 0.7)
    other = random_psd(width**2, seed + 8).reshape((width,) * 4)
    torch.testing.assert_close(dl.Ito(A=dense + other).Q(0.5, x), q + dl.Ito(A=other).Q(0.5, x))
    order = torch.randperm(width, generator=torch.Generator().manual_seed(seed))
    renamed = dense[order][:, order][:, :, order][:, :, :, order]
    torch.testing.assert_close(dl.Ito(A=renamed).Q(0.5, x[:, order]), q[:, order])
    if isinstance(a, dl.Kronecker):  # only the product R ⊗ C matters
        torch.testing.assert_close(dl.Ito(A=dl.Kronecker(2.0 * a.R, a.C / 2.0)).Q(0.5, x), q)


def test_q_where_it_can_be_done_in_the_head():
    """Rows have variances R_ii: the first unit moves four times as much as the second; columns weigh the
    state's entries.
    """
    noise = dl.Ito(
        A=dl.Kronecker(torch.diag(torch.tensor([4.0, 1.0])), torch.diag(torch.tensor([1.0, 0.0]))),
        b=[0.5, 0.0],
    )
    q = noise.Q(0.0, torch.tensor([[3.0, 100.0]]))
    torch.testing.assert_close(q, torch.tensor([[36.5, 9.0]], dtype=torch.float64))
    entries = dl.Ito(A=torch.tensor([[1.0, 2.0], [0.0, 3.0]])).Q(0.0, torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(entries, torch.tensor([[9.0, 12.0]], dtype=torch.float64))
    opposed = (
        torch.zeros(1, 1, 1) - 1.0
    )  # W^b = -W^A: nothing moves where x = 1, everything twice where x = -1
    q = dl.Ito(A=1.0, b=1.0, cross=opposed).Q(0.0, torch.tensor([[1.0], [-1.0]]))
    torch.testing.assert_close(q, torch.tensor([[0.0], [4.0]], dtype=torch.float64))


def wave(t):
    return 1.0 + 0.5 * math.sin(5.0 * t)


def wave_until(t):
    """∫_0^t wave."""
    return t + 0.1 * (1.0 - math.cos(5.0 * t))


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_quadratic_variation_is_the_integral_of_the_rates(t):
    """Against integrals known in closed form."""
    R, C, b, cross = random_psd(2, 1), random_psd(2, 4), random_psd(2, 7), mixed_up(1.0, 0.5)
    total = dl.Ito(A=lambda s: dl.Kronecker(wave(s) * R, C), b=lambda s: s**3 * b).quadratic_variation(t)
    torch.testing.assert_close(total.A, wave_until(t) * dense_matrix(dl.Kronecker(R, C), 2))
    torch.testing.assert_close(total.b, t**4 / 4 * b)
    assert total.cross is None
    total = dl.Ito(A=2.0, b=lambda s: 0.5 + s, cross=lambda s: s**2 * cross).quadratic_variation(t)
    torch.testing.assert_close(total.A, t * dense_matrix(2.0, 2))
    torch.testing.assert_close(total.b, (t / 2 + t**2 / 2) * torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(total.cross, t**3 / 3 * cross)
    constant = dl.Ito(b=random_psd(3, 2)).quadratic_variation(t)
    torch.testing.assert_close(constant.b, t * random_psd(3, 2))
    assert constant.A is None


def test_quadratic_variation_needs_a_width_or_a_shape_and_a_rate_that_is_not_random():
    numbers = dl.Ito(A=0.5, b=lambda t: t)
    assert numbers.quadratic_variation(width=5).A.shape == (5, 5, 5, 5)
    with pytest.raises(ValueError, match="quadratic_variation\\(t, width=4\\)"):
        numbers.quadratic_variation()
    with pytest.raises(ValueError, match="random"):
        dl.stochastic_volatility(A=0.5).quadratic_variation(width=2)
