"""The noise itself: sampled increments of every kind of covariance against the covariance and Q that they
must have.

Every statistical test holds at level 1e-5: z-scores are compared with the quantile divided among all
comparisons.
"""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from noises import (
    CASES,
    DEPENDENCES,
    flat,
    increments_at_x,
    mixed_up,
    quantile,
    randn,
    random_case,
    random_psd,
    root_of,
    score_of_squares,
)

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("dependence", DEPENDENCES)
@given(**CASES)
def test_increments_are_symmetric_roots_of_the_covariance_times_the_brownian_motions(dependence, **drawn):
    """The contract that lets a user drive the limit: B^A row by row, then B^b, then v's; rates and drifts at
    the step's start.
    """
    case = random_case(dependence=dependence, **drawn)
    motions = case.noise.motions(case.width)
    path = case.noise.start(case.width, 3, torch.Generator().manual_seed(0), torch.float64)
    for index, (time, step) in enumerate(((0.0, 0.25), (0.25, 0.5), (0.75, 0.25))):
        v = None if path.v is None else path.v.clone()
        brownian = step**0.5 * randn(3, motions, seed=drawn["seed"] + index)
        moved = path.move(time, step, brownian)
        x = randn(case.width, seed=drawn["seed"] + 9)
        q = case.noise.Q(time, x.expand(1 if v is None else 3, -1), v)
        torch.testing.assert_close(q, case.q(time, x, v), rtol=1e-9, atol=1e-12)
        joint = case.joint(time, v)
        own = brownian[:, : joint.shape[-1]]
        expected = torch.stack([root_of(joint[p % len(joint)]) @ own[p] for p in range(3)])
        # Roots of singular covariances are known to half the digits only.
        torch.testing.assert_close(flat(moved), expected, rtol=1e-6, atol=1e-6)
        for mine, theirs in zip(moved.rate.dense(), case.parts(time, v), strict=True):
            if mine is not None:
                torch.testing.assert_close(
                    mine.expand(3, *theirs.shape[1:]), theirs.expand(3, *theirs.shape[1:])
                )


@pytest.mark.statistical
def test_drawn_increments_have_q_and_not_that_of_rows_and_columns_exchanged():
    """Level 1e-5; the twin ΔW = C^½ Z R^½ has another Q."""
    width = 3
    R, C = random_psd(width, 1) + torch.diag(torch.arange(width).double()), random_psd(width, 5)
    x = randn(width, seed=3)
    right, wrong = (dl.Ito(A=dl.Kronecker(*pair), b=0.2) for pair in ((R, C), (C, R)))
    step = right.start(width, 20_000, torch.Generator().manual_seed(0), torch.float64).step(0.0, 0.1)
    values = increments_at_x(step, x)
    assert score_of_squares(values, 0.1, right.Q(0.0, x[None])) < quantile(width)
    assert score_of_squares(values, 0.1, wrong.Q(0.0, x[None])) > 3 * quantile(width)


@pytest.mark.statistical
def test_a_cross_covariance_transposed_or_left_out_is_caught_by_the_same_score():
    noise = dl.Ito(A=1.0, b=0.5, cross=(cross := mixed_up(1.0, 0.5)))
    x = torch.tensor([1.0, -0.5], dtype=torch.float64)
    step = noise.start(2, 20_000, torch.Generator().manual_seed(0), torch.float64).step(0.0, 0.1)
    values = increments_at_x(step, x)
    assert score_of_squares(values, 0.1, noise.Q(0.0, x[None])) < quantile(2)
    for twin in (dl.Ito(A=1.0, b=0.5), dl.Ito(A=1.0, b=0.5, cross=cross.transpose(0, 1).contiguous())):
        assert score_of_squares(values, 0.1, twin.Q(0.0, x[None])) > 3 * quantile(2)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_the_same_seed_draws_the_same_noise_and_another_seed_another(device, seed):
    noise = dl.stochastic_volatility(A=0.3, b=0.2)
    draws = [
        flat(noise.start(2, 4, torch.Generator(device).manual_seed(given_seed), torch.float64).step(0.0, 0.1))
        for given_seed in (seed, seed, seed + 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
