"""One depth, or one layer of every depth, that was built otherwise bends no exponent."""

import pytest
import torch
from torch import nn

import deeplimit as dl

DEPTHS = (4, 8, 16, 32)
WIDTH = 16


class Block(nn.Module):
    """h + factor · linear(tanh(norm(h)))."""

    def __init__(self, factor):
        super().__init__()
        self.norm, self.linear, self.factor = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), factor

    def forward(self, h):
        return h + self.factor * self.linear(torch.tanh(self.norm(h)))


def checked(factors):
    def factory(depth):
        factor = factors.get(depth, 1.0) * depth**-0.5
        return nn.Sequential(*(Block(factor) for _ in range(depth)))

    batch = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(2))
    (branch,) = dl.check_depth(factory, DEPTHS, batch=batch, expected=0.5).branches
    return branch.odd


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_an_odd_depth_is_named(depth, factor):
    place, found, exponent = checked({depth: factor})
    assert place == DEPTHS.index(depth)
    assert found == pytest.approx(factor, rel=0.15)
    assert exponent == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("factors", [{}, {4: 3.0, 16: 3.0}, {4: 1.05}])
def test_no_depth_is_named_where_all_or_several_or_none_clearly_are_off(factors):
    assert checked(factors) is None


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize(("power", "verdict"), [(0.5, "as expected"), (0.0, "not as expected")])
def test_one_large_layer_of_every_depth_bends_no_exponent(place, power, verdict):
    def factory(depth):
        factors = [depth**-power] * depth
        factors[place] *= 10
        return nn.Sequential(*map(Block, factors))

    batch = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(2))
    report = dl.check_depth(factory, DEPTHS, batch=batch, expected=0.5)
    (branch,) = report.branches
    assert report.verdict == verdict
    assert branch.exponent == pytest.approx(power, abs=0.1)
    assert branch.layered > 5
