"""An nn.Sequential of a stem, blocks and a head: the blocks are the layers."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

WIDTH = 8


class Block(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.map, self.scale = nn.Linear(WIDTH, WIDTH), depth**-0.5
        nn.init.normal_(self.map.weight, std=WIDTH**-0.5)

    def forward(self, x):
        return x + self.scale * self.map(torch.tanh(x))


def numbers(depth):
    ends = nn.Linear(3, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2)
    return nn.Sequential(*ends[:2], *(Block(depth) for _ in range(depth)), ends[2])


def tokens(depth):
    ends = nn.Embedding(9, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 9)
    return nn.Sequential(ends[0], *(Block(depth) for _ in range(depth)), *ends[1:])


def blocks_alone(depth):
    return nn.Sequential(*(Block(depth) for _ in range(depth)))


def made(factory, depth):
    with seeded(depth):
        return factory(depth).double()


GIVEN = {
    numbers: torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    tokens: torch.arange(5),
}


@pytest.mark.parametrize("factory", GIVEN)
def test_a_limit_is_fitted_to_the_blocks_between_stem_and_head(factory):
    models = {depth: made(factory, depth) for depth in (4, 8, 16)}
    found = dl.fitted_limit(models, batch=GIVEN[factory])
    assert found.depths == (4, 8)
    stem = models[16][:2] if factory is numbers else models[16][:1]
    torch.testing.assert_close(found.states, stem(GIVEN[factory]))
    assert "tensor(" not in repr(found)


@pytest.mark.parametrize("factory", GIVEN)
def test_controls_replace_the_blocks_and_leave_stem_and_head(factory):
    def evaluate(model):
        with torch.no_grad():
            return float(model(GIVEN[factory]).square().mean())

    report = dl.depth_controls(made(factory, 8), evaluate, batch=GIVEN[factory])
    assert report.original == evaluate(made(factory, 8).eval())
    assert report.depth == 8


def test_a_limit_is_identified_from_the_blocks_alone():
    x = GIVEN[numbers].float()
    how = {"depths": (4, 8, 16), "draws": 16}
    found = dl.identify(numbers, x, **how)
    alone = dl.identify(blocks_alone, made(numbers, 4)[:2](x.double()).detach().float(), **how)
    assert abs(found.exponent - 0.5) < 0.1
    assert abs(found.exponent - alone.exponent) < 0.1


def test_a_chain_that_changes_its_shape_in_every_layer_is_refused():
    shapes = [3, 4, 5, 6, 7, 8]

    def chain(depth):
        return nn.Sequential(*(nn.Linear(shapes[k], shapes[k + 1]) for k in range(depth)))

    with pytest.raises(ValueError, match="Linear"):
        dl.identify(chain, torch.ones(2, 3), depths=(3, 4, 5), draws=16)
