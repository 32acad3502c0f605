"""Optimisers against those of torch, and when training stops."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.trained.training.stop import Ending

FLOAT64 = ArrayLibrary(dtype=torch.float64)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (dl.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (
            dl.SGD(0.1, momentum=0.9, weight_decay=0.01),
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        ),
        (dl.Adam(0.02), lambda p: torch.optim.Adam(p, 0.02)),
        (dl.Adam(0.02, weight_decay=0.1), lambda p: torch.optim.Adam(p, 0.02, weight_decay=0.1)),
        (dl.AdamW(0.02, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.1)),
    ],
    ids=["SGD", "SGD with momentum", "Adam", "Adam with decay", "AdamW"],
)
def test_twenty_steps_are_those_of_torch(ours, theirs):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64)
    gradients = torch.randn(20, 3, 2, 4, generator=generator, dtype=torch.float64)
    value = {"A": start.clone().numpy()}
    memory = ours.begin(value, FLOAT64)
    parameter = start.clone().requires_grad_()
    optimizer = theirs([parameter])
    for count, gradient in enumerate(gradients, 1):
        ours.step(value, {"A": gradient.numpy()}, memory, ours.rate(8, 0), count, FLOAT64)
        parameter.grad = gradient.clone()
        optimizer.step()
    np.testing.assert_allclose(value["A"], parameter.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_the_step_size_follows_depth_and_schedule():
    optimizer = dl.SGD(0.5, depth_exponent=1.0, every=5, factor=0.1)
    assert optimizer.rate(10, 4) == 5.0
    assert optimizer.rate(10, 5) == pytest.approx(0.5)
    assert optimizer.rate(10, 14) == pytest.approx(0.05)
    falling = dl.SGD(0.5, cosine=10)
    assert [falling.rate(10, epoch) for epoch in (0, 5, 10, 12)] == pytest.approx([0.5, 0.25, 0.0, 0.0])


def test_training_stops_by_loss_patience_or_divergence():
    assert dl.Stop(loss=0.1).ending([0.2]) is None
    assert dl.Stop(loss=0.1).ending([0.2, 0.09]) is Ending.LOSS
    stop = dl.Stop(patience=3)
    assert stop.ending([1.0, 0.995, 0.994]) is None
    assert stop.ending([1.0, 0.995, 0.994, 0.993]) is Ending.PATIENCE
    assert stop.ending([1.0, 0.995, 0.994, 0.98]) is None
    assert dl.Stop().ending([1.0, float("inf")]) is Ending.DIVERGED
    assert dl.Stop().ending([1.0, float("nan")]) is Ending.DIVERGED
