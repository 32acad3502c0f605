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
    score_of_products,
    score_of_squares,
)

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.statistical
@pytest.mark.parametrize("dependence", DEPENDENCES)
@given(**CASES, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_sampled_increments_have_the_covariance_and_q_that_the_noise_says(device, dependence, dtype, **drawn):
    """Level 1e-5 over all entries and examples. The second step: v has moved, and time is not 0."""
    case = random_case(dependence=dependence, **drawn)
    paths = 2500 if case.noise.auxiliary is not None else 20_000
    path = case.noise.start(case.width, paths, torch.Generator(device).manual_seed(drawn["seed"]), dtype)
    path.step(0.0, 0.3)
    v = None if path.v is None else path.v.double().cpu().clone()
    step = path.step(0.3, 0.4)
    x = randn(case.width, seed=drawn["seed"] + 9)
    q = case.noise.Q(0.3, x.expand(1 if v is None else paths, -1), v)
    torch.testing.assert_close(q, case.q(0.3, x, v), rtol=1e-9, atol=1e-12)
    assert score_of_squares(increments_at_x(step, x), 0.4, q) < quantile(case.width)
    values, covariance = flat(step), case.joint(0.3, v)
    assert score_of_products(values, 0.4, covariance) < quantile(values.shape[1] ** 2)


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
@pytest.mark.parametrize("width", [2, 3, 4])
def test_rows_and_columns_exchanged_are_caught_by_the_same_score(width):
    """The twin: ΔW = C^½ Z R^½ has another Q; a test that cannot tell would prove nothing."""
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
