"""`identify` where exponents are nearly 1/2: no SDE is named whose own exponent is surely another one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.verdict import BlockLimitVerdict
from deeplimit.judge.block_limit.scaling import Power
from deeplimit.judge.block_limit.verdict import Evidence

X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.layer, self.scale = nn.Linear(8, 8, bias=False), scale
        nn.init.normal_(self.layer.weight, std=8**-0.5)

    def forward(self, x):
        return x + self.scale * self.layer(torch.tanh(x))


def identified(scale, seed):
    """`scale` is a function of the depth and of the layer's time."""
    return dl.identify(
        lambda depth: [Block(scale(depth, (place + 1) / depth)) for place in range(depth)],
        X,
        seed=seed,
        depths=(4, 8, 16, 32),
        draws=24,
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("exponent", [0.4, 0.6])
def test_another_exponent_than_that_of_an_sde_leads_to_none(exponent, seed):
    """At 0.4 the state explodes slowly, at 0.6 it stands still in the end."""
    report = identified(lambda depth, t: depth**-exponent, seed)
    assert report.limit != "isotropic SDE"
    assert abs(report.exponent - exponent) < 0.03


@pytest.mark.parametrize("seed", [0, 1])
def test_its_twin_is_an_sde_with_and_without_a_profile(seed):
    """Sizes 1 + t make a sum over steps, whose error is nearly such a power at small depths."""
    for profile in (lambda t: 1, lambda t: 1 + t, lambda t: 0.2 + t):
        scale = lambda depth, t, profile=profile: profile(t) * depth**-0.5  # noqa: E731
        report = identified(scale, seed)
        assert report.verdict == BlockLimitVerdict.ISOTROPIC_SDE


def test_an_exponent_that_is_nearly_one_half_is_named():
    report = dl.identify(lambda depth: [Block(depth**-0.43) for _ in range(depth)], X, depths=(8, 16, 32, 64))
    assert report.rule == "has_another_exponent"
    assert report.verdict == "cannot tell"


@pytest.mark.parametrize(
    ("slopes", "creeps"),
    [((0.06, 0.06, 0.06), True), ((0.08, 0.06, 0.04), False), ((0.02, 0.02, 0.02), False)],
)
def test_a_wrong_exponent_stays_where_the_error_of_a_sum_over_steps_falls(slopes, creeps):
    """Slopes are powers of the sum between 4, 8, 16 and 32 layers; their mean is known to 0.01."""
    sizes = np.exp(np.cumsum([0, *slopes]) * np.log(2))
    taken = tuple(SimpleNamespace(blocks=4 * 2**k, apart=np.full(9, s**2)) for k, s in enumerate(sizes))
    mean = float(np.mean(slopes)) - 0.5
    seen = SimpleNamespace(size=Power(mean, mean - 0.01, mean + 0.01), is_independent=True, taken=taken)
    assert Evidence.noise_creeps.fget(seen) == creeps
