"""The gain before a weight is read off the forward, whatever modules are called."""

import pytest
import torch
from stacks import BatchNormed, Transformer, images, make, tokens
from torch import nn

from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.trace.branches import record
from deeplimit.trained.diagnosis.normalisations import Before, batch_norms_after, norms_before


class ByHand(nn.Module):
    """A normalisation by the root mean square, as it is often written."""

    def __init__(self, width, first=True):
        super().__init__()
        self.weight, self.first = nn.Parameter(torch.ones(width)), first

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype) if self.first else y.to(x.dtype) * self.weight


def gains(network, batch):
    trace = record(network, as_batch(network, batch))
    found = norms_before(trace, batch_norms_after(trace).values())
    return {name: each.gain for name, each in found.items()}


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm, ByHand, lambda width: ByHand(width, first=False)])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_the_gain_of_a_normalisation_is_found(norm, shape):
    with seeded(0):
        network = nn.Sequential(norm(4), nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
    assert gains(network, torch.ones(shape)) == {"1.weight": "0.weight"}


@pytest.mark.parametrize("multiply", [torch.bmm, lambda x, weight: torch.einsum("htd,hdk->htk", x, weight)])
def test_a_gain_lies_along_what_one_matrix_for_each_head_reads(multiply):
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.weight = nn.LayerNorm(4), nn.Parameter(torch.ones(2, 4, 5))

        def forward(self, x):
            return multiply(self.norm(x), self.weight)

    network = Heads()
    found = norms_before(record(network, as_batch(network, torch.ones(2, 3, 4))))
    assert found == {"weight": Before("norm.weight", along=True, bent=False)}


def test_a_normalisation_without_a_gain_has_none():
    with seeded(0):
        network = nn.Sequential(nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 8))
    assert gains(network, torch.ones(2, 4)) == {}


def test_gains_are_told_apart_from_those_behind_an_activation():
    assert gains(make(BatchNormed), images()) == {}
    found = gains(make(Transformer, depth=2), tokens())
    assert found == {f"blocks.{k}.mlp.0.weight": f"blocks.{k}.between.weight" for k in range(2)} | {
        f"blocks.{k}.attention.in_proj_weight": f"blocks.{k}.before.weight" for k in range(2)
    }
