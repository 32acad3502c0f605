"""Layers that add nothing before training: residual factors of 0 (ReZero), zero last weights (Fixup)."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

WIDTH, DEPTH = 10, 20
X = torch.randn(12, WIDTH, generator=torch.Generator().manual_seed(1))


class Block(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x):
        return x + self.factor * self.second(torch.tanh(self.first(x)))


def rezero(factor=0.0, depth=DEPTH):
    return nn.Sequential(*(Block(factor) for _ in range(depth)))


def fixup(depth=DEPTH):
    model = rezero(1.0, depth)
    for block in model:
        nn.init.zeros_(block.second.weight)
        nn.init.zeros_(block.second.bias)
    return model


def made(factory, *args):
    with seeded(0):
        return factory(*args)


WEIGHTS = ["*: product", "*: read Gram", "*: write Gram"]


def test_factors_of_zero_are_left_out():
    silent, loud = dl.diagnose(made(rezero), batch=X), dl.diagnose(made(rezero, 1.0), batch=X)
    assert [found.name for found in silent.objects] == WEIGHTS
    for one, other in zip(silent.objects, loud.objects, strict=False):
        assert one.verdict == other.verdict
        assert one.hurst == pytest.approx(other.hurst, rel=1e-6)
    assert {"*: residual factors"} <= {*silent.left_out}


def test_of_zero_weights_what_reads_remains():
    report = dl.diagnose(made(fixup), batch=X)
    assert [found.name for found in report.objects] == ["*: read Gram"]
    assert report.objects[0].verdict in {"independent", "cannot tell"}
    assert {"*: weights that write to the stream"} <= {*report.left_out}


@pytest.mark.parametrize("null", [rezero, fixup])
def test_a_silent_null_is_in_the_table(null):
    report = dl.diagnose(made(rezero, 0.5), batch=X, null=null)
    assert report.untrained


def test_a_null_of_copies_is_said_to_be_missing():
    def tied():
        block = Block(0.5)
        return nn.Sequential(*(block for _ in range(DEPTH)))

    report = dl.diagnose(made(rezero, 0.5), batch=X, null=tied)
    assert not report.untrained
    assert any(caveat.startswith("null:") for caveat in report.reservations)
    assert "null=" not in str(report)
