"""Sums and activations in place, on what a normalisation returns."""

import pytest
import torch
from hooked_updates import assert_as_hooked
from torch import nn

import deeplimit as dl

CHANNELS = 8
pytestmark = pytest.mark.usefixtures("one_thread")


class Residual(nn.Module):
    """nnU-Net's residual block: instance norm returns a view, to which the skip is added in place."""

    def __init__(self, inplace):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1) for _ in range(2))
        self.norm1, self.norm2 = (nn.InstanceNorm2d(CHANNELS, affine=True) for _ in range(2))
        self.nonlin1, self.nonlin2 = (nn.LeakyReLU(inplace=inplace) for _ in range(2))

    def forward(self, x):
        out = self.norm2(self.conv2(self.nonlin1(self.norm1(self.conv1(x)))))
        out += x
        return self.nonlin2(out)


class Encoder(nn.Module):
    def __init__(self, depth, inplace=True):
        super().__init__()
        self.stem = nn.Conv2d(1, CHANNELS, 3, 1, 1)
        self.blocks = nn.Sequential(*(Residual(inplace) for _ in range(depth)))

    def forward(self, x):
        return self.blocks(self.stem(x))


def scans():
    return torch.randn(2, 1, 12, 12, generator=torch.Generator().manual_seed(0))


def test_in_place_sums_after_instance_norm_make_one_stream():
    found = assert_as_hooked(
        lambda: Encoder(3), scans(), lambda model: [block.norm2 for block in model.blocks]
    )
    assert {(branch.kind, branch.stream) for branch in found} == {("blocks.*", 0)}
    here, elsewhere = (
        dl.check_depth(lambda depth: Encoder(depth, inplace), [2, 4, 8], batch=scans())  # noqa: B023
        for inplace in (True, False)
    )
    assert [kind.counts for kind in here.branches] == [(2, 4, 8)]
    assert here.branches[0].exponent == pytest.approx(elsewhere.branches[0].exponent, abs=1e-6)
    assert here.branches[0].ratios == pytest.approx(elsewhere.branches[0].ratios, rel=1e-6)
