"""What compiled loops are told of an equation: its numbers, or None where they do not know it."""

import dataclasses

import pytest
import torch

import deeplimit as dl
from deeplimit.equations.base import Motion

NOISE = dl.Ito(A=0.2, b=0.3)  # variances of an entry per unit of time


def step(**given):
    limit = dl.inner(2, "scaled_silu", noise=NOISE, alpha=0.0, beta=1.0, **given).limit()
    return limit, limit.stepper(torch.ones(5, 2)).compiled_step()


def test_an_ito_step_has_the_numbers_of_its_equation():
    _, found = step()
    assert (found.motion, found.activation) == (Motion.ITO, None)
    assert found.product == pytest.approx(0.2**0.5)
    assert found.bias.tolist() == pytest.approx([0.3**0.5] * 2)
    assert (found.outer, found.energy) == pytest.approx((0.5, 0.2))  # half of σ''(0), and its factor |h|²
    assert found.spread.tolist() == pytest.approx([0.3] * 2)


def test_a_step_with_a_trend_or_another_correction_is_not_one_that_they_know():
    limit, found = step(trend=dl.Trend(lambda t: torch.eye(2) * t))
    assert found is None
    other = dataclasses.replace(limit, trend=None, other_quadratic=lambda rate, h: 0 * h)
    assert other.stepper(torch.ones(5, 2)).compiled_step() is None
