"""What a batch or a loss makes impossible is said of the batch or the loss, not of the weights."""

import math
from types import SimpleNamespace

import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.modules.trace.batches import _image_size


class Bare(torch.nn.Module):
    """Without biases, so that zeros stay zeros."""

    def __init__(self, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4, bias=False) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(torch.tanh(x))
        return x


class Biased(Bare):
    """With biases, so that states are zero before the first branch alone."""

    def __init__(self, depth):
        super().__init__(depth)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(depth))


class Queries(Bare):
    """A stream that begins with zeros, as the queries of a detection transformer do."""

    def forward(self, x):
        stream = torch.zeros_like(x)
        for layer in self.layers:
            stream = stream + layer(torch.tanh(stream + x))
        return stream


def adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def test_a_batch_of_zeros_is_blamed_and_not_the_weights():
    """Also where biases make a state of it, later than the first branch."""
    zeros = torch.zeros(2, 4)
    assert_refused(lambda: dl.check_depth(Bare, [2, 4], batch=zeros), ValueError, "batch", "zero")
    assert_refused(lambda: dl.check_depth(Biased, [2, 4], batch=zeros), ValueError, "batch", "zero")


def test_a_stream_that_begins_with_zeros_is_measured():
    report = dl.check_depth(Queries, [2, 4, 8], batch=torch.ones(2, 4))
    assert report.branches[0].layers[1] > 0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_refused(value):
    def loss(output):
        return output.sum() * value

    batch = torch.ones(2, 4)
    assert_refused(lambda: dl.check_depth(Bare, [2, 4], batch=batch, loss=loss), ValueError, "loss", "finite")
    assert_refused(
        lambda: dl.check_training(Bare, [2, 4], optimizer=adam, batch=batch, loss=loss, seeds=2, steps=(1,)),
        ValueError,
        "loss",
        "finite",
    )


@pytest.mark.parametrize(
    ("said", "pretrained", "size"),
    [
        (32, {}, (32, 32)),
        ([32, 48], {}, (32, 48)),
        (None, {"fixed_input_size": True, "input_size": (3, 40, 56)}, (40, 56)),
        (None, {"input_size": (3, 224, 224)}, (64, 64)),  # it takes any
    ],
)
def test_images_are_as_large_as_a_model_says(said, pretrained, size):
    model = SimpleNamespace(patch_embed=SimpleNamespace(img_size=said))
    assert _image_size(model, pretrained) == size
