"""An explosion of σ that does not saturate is exponential, and γ is that of log(1 + x); else that of x."""

import numpy as np
import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

DEPTHS = [25, 50, 100, 200]


class Block(nn.Module):
    def __init__(self, scale, width=12):
        super().__init__()
        self.inner, self.outer = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.scale = scale
        for linear in (self.inner, self.outer):
            nn.init.normal_(linear.weight, std=width**-0.5)

    def forward(self, h):
        return h + self.scale * self.outer(nn.functional.gelu(self.inner(h)))


def blocks(exponent):
    return lambda depth: nn.Sequential(*(Block(depth**-exponent) for _ in range(depth)))


def slope(logs):
    return np.polyfit(np.log(DEPTHS), logs, 1)[0]


def of_logarithms(report):
    return slope(np.log(np.logaddexp(0.0, 2 * report.log_hidden_change).mean(axis=1)))


def of_changes(report):
    return slope((2 * report.log_hidden_change).mean(axis=1))


def near(growth, value):
    low, high = growth.interval
    return low - 0.1 < value < high + 0.1


@pytest.mark.parametrize(
    "network",
    [
        dl.inner(12, "gelu", exponent=0.25),
        dl.res1(12, "silu", weights=dl.SmoothGaussian(0.3), exponent=0.5),
    ],
    ids=str,
)
def test_an_exponential_explosion_has_the_growth_of_its_logarithm(network):
    report = dl.stability(network, DEPTHS, draws=60, progress=False)
    assert report.hidden_growth.verdict == "explosion"
    assert near(report.hidden_growth, of_logarithms(report))
    assert not near(report.hidden_growth, of_changes(report))  # the twin


def test_so_have_the_blocks_of_a_module_which_have_no_exponent():
    with seeded(0):
        batch = torch.randn(4, 12)
    report = dl.stability(blocks(0.25), [10, 25, 60, 150], draws=40, x=batch, progress=False)
    low, high = report.hidden_growth.interval
    assert low < 0.5 < high < 2.0  # 1 - 2β
    assert np.isnan(report.exponent)


def test_where_the_activation_saturates_it_is_a_power():
    network = dl.res1(12, "tanh", weights=dl.SmoothGaussian(0.3), exponent=0.5)
    report = dl.stability(network, DEPTHS, draws=60, progress=False)
    assert near(report.hidden_growth, of_changes(report))
    assert not near(report.hidden_growth, of_logarithms(report))
