"""What is said of small stacks of blocks, and of laws, is what it was."""

import functools

import kept_numbers
import pytest
import torch
from block_stacks import (
    WIDTH,
    PostNorm,
    Residual,
    Whole,
    copies,
    directed,
    moving_average,
    plain,
    prenorm,
    relu_last,
    stable,
    stack,
    tanh_first,
    turning,
    two_layers,
)

import deeplimit as dl

same = functools.partial(kept_numbers.same_report, "blocks", tolerance=1e-3)
STACKS = {
    "tanh": stack(tanh_first, 0.5),
    "pre-norm": stack(prenorm, 0.5),
    "directed": stack(directed, 0.5),
    "post-norm": stack(tanh_first, 0.5, kind=PostNorm),
    "copies": copies(two_layers, 1.0),
    "smooth": turning(tanh_first, 1.0),
    "a mean": stack(relu_last, 1.0),
    "independent": stack(two_layers, 1.0),
    "nothing moves": lambda depth: [Residual(tanh_first(), 0.0) for _ in range(depth)],
    "explodes": stack(two_layers, 0.0),
    "heavy tails": stack(stable, 1 / 1.5),
    "moving average": moving_average,
    "decays": stack(tanh_first, 0.5, lambda depth: 0.9),
    "no residual": plain,
}


@pytest.mark.parametrize("name", STACKS)
def test_what_is_said_of_stacks_stays(name):
    x = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(5))
    how = {"confidence": 0.8} if name == "tanh" else {}
    same(name, dl.identify(STACKS[name], x, depths=(2, 4, 8), draws=16, seed=3, **how))


def test_what_is_said_of_a_model_stays():
    x = torch.randn(2, 5, generator=torch.Generator().manual_seed(5))
    same("a model", dl.identify(lambda depth: Whole(depth, 0.5), x, depths=(2, 4, 8), draws=16, seed=3))
