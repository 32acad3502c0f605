"""Layers too coarse for an expansion in powers of 1/depth: no law is called another one at such depths."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.judge.in_law.coarseness import RARE, STEEP, coarseness
from deeplimit.judge.in_law.simulation import Plan

START = torch.full((1, 1), 0.7)

FIXED = {"depths": (8, 16, 32, 64, 128), "draws": 16384}


def sparse(share):
    def drawn(shape, generator):
        chance = torch.rand(shape, generator=generator)
        return (
            (chance < share / 2).float() - ((chance >= share / 2) & (chance < share)).float()
        ) / share**0.5

    return dl.IID(drawn)


def steep(slope):
    return dl.res1(1, lambda h: torch.tanh(slope * h))


def coarse(network, start=START, depth=128):
    plan = Plan(network, network.limit(), (depth,), 2 * depth, start, 1, 1, 0, torch.float32)
    return coarseness(plan)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("network", "start"),
    [
        (steep(5.0), START),
        (dl.res1(1, lambda h: torch.sin(20 * h)), START),
        (dl.res1(2, "tanh", weights=sparse(1e-3)), None),
    ],
    ids=["steep", "turning", "sparse"],
)
def test_the_limit_of_proposition_11_is_no_other_law_of_coarse_layers(network, start, seed):
    """tanh(5x) was called another law in 6 of 6 calls, sparse weights in 14 of 15; deeper networks agree."""
    report = dl.compare_laws(network, x=start, seed=seed, **FIXED)
    assert report.verdict == "cannot tell"


@pytest.mark.parametrize("wrong", [lambda h: 1.2 * torch.tanh(h), torch.relu])
@pytest.mark.parametrize("width", [1, 4])
def test_another_law_of_usual_layers_is_told(wrong, width):
    report = dl.compare_laws(dl.res1(width, "tanh"), dl.res1(width, wrong).limit(), **FIXED)
    assert report.verdict == "another law"


def test_layers_become_finer_with_depth():
    shallow, deep = coarse(steep(5.0), depth=64), coarse(steep(5.0), depth=512)
    assert shallow.steepness > 4 * deep.steepness
    assert shallow.steepness > STEEP
    assert shallow.needed >= 256
    few, many = (
        coarse(dl.res1(2, "tanh", weights=sparse(0.02)), torch.ones(1, 2), depth) for depth in (64, 1024)
    )
    assert few.rarity > RARE > 3 * many.rarity


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu", "identity"])
@pytest.mark.parametrize("width", [1, 2, 16])
def test_usual_layers_are_fine_enough(activation, width):
    found = coarse(dl.res1(width, activation), torch.ones(1, width))
    assert found.excess < 0.5
    assert found.needed == 128


def test_a_slope_is_that_of_the_layer():
    """Of the identity, a layer moves apart by V alone: |V v|² is χ²_d/(dL), its upper 1 % point known."""
    found = coarse(dl.res1(1, "identity"), depth=256)
    assert found.steepness == pytest.approx(6.635 / 256, rel=0.1)
    assert 3 < 256 * found.rarity < 9  # the fourth moment of a normal number, and of states that grow


def test_modules_have_slopes_too():
    class Block(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3) / (3 * depth) ** 0.5)

        def forward(self, h):
            return h + torch.tanh(9 * h) @ self.weight.T

    network = dl.module_network(lambda depth: [Block(depth) for _ in range(depth)], 3)
    plan = Plan(network, dl.res1(3, "tanh").limit(), (16,), 32, torch.ones(1, 3) / 9, 1, 1, 0, torch.float32)
    assert coarseness(plan).steepness > STEEP


def test_a_sampler_whose_weights_are_nearly_all_zero_is_tried():
    """None of the trial entries at width 1 was drawn, and a kurtosis of 0/0 was asked for."""
    assert dl.compare_laws(dl.res1(1, "tanh", weights=sparse(1e-3)), draws=256).verdict != "another law"


def test_a_root_of_many_is_kept_by_layers_of_shaped_networks():
    """Their neighbours are roots of that kind: of others a layer is far, and seemed 19 times too coarse."""
    start = torch.tensor([[[1.0, 0.0], [0.6, 0.8]]])
    network = dl.shaped_mlp(2, slopes=(1.0, -1.0))
    assert coarse(network, start).steepness < STEEP
