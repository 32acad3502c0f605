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


def laws(network, limit=None, **how):
    return dl.compare_laws(network, limit, **{"depths": (4, 8, 16), "draws": 300} | how)


def symmetric(shape, generator):
    return torch.empty(shape).uniform_(-(3**0.5), 3**0.5, generator=generator)


def skewed(shape, generator):
    return torch.empty(shape).exponential_(generator=generator) - 1


ONES = torch.ones(1, 3)
LAWS = {
    "res-3": lambda: laws(dl.res3(3), tolerance=0.4),
    "wrong rate": lambda: laws(dl.res3(3), dl.IsotropicSDE(3, rate=4.0), draws=2000),
    "an SDE": lambda: laws(dl.res1(3, "tanh"), steps=32, depths=(2, 4, 8, 16)),
    "skewed": lambda: laws(dl.res1(2, "tanh", weights=dl.IID(skewed)), steps=16, seed=2, dtype="float64"),
    "symmetric": lambda: laws(dl.res1(2, "tanh", weights=dl.IID(symmetric)), steps=16, depths=(2, 4, 8)),
    "inputs": lambda: laws(dl.res3(3), x=ONES * torch.tensor([[1.0], [-2.0]])),
    "covariances": lambda: laws(dl.shaped_mlp(2, depth_to_width=0.2), depths=(2, 4, 8)),
    "attention": lambda: laws(dl.attention(3, tokens=2), depths=(2, 4, 8), steps=16),
    "swallowed": lambda: laws(dl.res1(2, "tanh"), x=1e9 * ONES[:, :2], steps=16),
    "pre-norm": lambda: laws(dl.ResidualNetwork(dl.PreNorm("tanh", "rms"), 3), steps=16),
    "radial": lambda: laws(dl.res2(3, "tanh"), steps=16),
}


@pytest.mark.parametrize("name", LAWS)
def test_what_is_said_of_laws_stays(name):
    report = LAWS[name]()
    # One test function does not vary there, and matplotlib warns of axes without width.
    same(f"law: {name}", report, with_picture=name not in ("attention", "swallowed"))
    one = report.path(0)
    kept_numbers.check("blocks", f"one draw: {name}", kept_numbers.said(str(one)), kept_numbers.ABOUT)
