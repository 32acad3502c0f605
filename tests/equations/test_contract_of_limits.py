"""Every limit keeps the contract, and one that breaks a rule is told which."""

import dataclasses
import itertools
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from chains import chain_sde

import deeplimit as dl
from deeplimit.equations import ODE, SDE, Limit, covariance, isotropic
from deeplimit.trained.diagnosis.layer_functions import BetweenLayers

TREND = dl.Trend(lambda t: t * torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.5]]))
NOISE = dl.Ito(A=0.05, b=0.1)


class Diagonal:
    sde_type, noise_type = "ito", "diagonal"

    def f(self, t, y):
        return -y

    def g(self, t, y):
        return 0.1 * y


class Products:
    sde_type, noise_type = "ito", "general"

    def f(self, t, y):
        return -y

    def g(self, t, y):
        return 0.1 * y.unsqueeze(2)

    def g_prod(self, t, y, v):
        return 0.1 * y * v


def decay(t, h):
    return -h


LIMITS = {
    "neural SDE": dl.res1(3, "tanh").limit(),
    "neural ODE": dl.res2(3, "tanh", weights=dl.SmoothGaussian()).limit(),
    "clustering ODE": dl.attention(3, tokens=4, weights=TREND).limit(),
    "noisy attention": dl.attention(3, tokens=4).limit(),
    "linear ODE": dl.inner(3, "tanh", trend=TREND, alpha=0.5, beta=0.5).limit(),
    "corrected SDE": dl.inner(3, "scaled_silu", noise=NOISE).limit(),
    "corrected SDE with a trend": dl.inner(3, "tanh", trend=TREND, noise=NOISE).limit(),
    "identity": dl.Identity(),
    "Young": dl.res1(3, "tanh", weights=dl.FractionalBrownian(0.7)).limit(),
    "coloured noise": dl.res1(3, "tanh", weights=dl.AR1(0.5)).limit(),
    "noise outside": dl.res2(3, "tanh", weights=(dl.Brownian(), TREND)).limit(),
    "in law": dl.IsotropicSDE(3, 0.5),
    "in law, with a general activation": dl.res2(3, "tanh").limit(),
    "averaged": dl.inner(3, "softplus", exponent=1.0).limit(),
    "covariances in law": dl.CovarianceSDE(3, 0.5),
    "between given layers": BetweenLayers((lambda h: h + 0.1 * torch.tanh(h), lambda h: 0.9 * h), 0.5),
    "a user's torchsde object": Diagonal(),
    "one with products": Products(),
    "a user's function": decay,
    "a user's SDELimit": chain_sde("tanh", 0.5, 3),
}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_of_the_library_keeps_the_contract(name, monkeypatch):
    monkeypatch.setattr(covariance, "STEPS", 16)
    monkeypatch.setattr(isotropic, "STEPS", 16)
    dl.testing.check_limit(LIMITS[name], width=3)


def concrete(kind):
    for each in kind.__subclasses__():
        if not each.__abstractmethods__ and each.__module__.startswith("deeplimit."):
            yield each
        yield from concrete(each)


def test_no_limit_of_the_library_is_left_out():
    wrapped = {SDE, ODE}  # made of the users' objects above
    ours = {each for each in concrete(Limit) if "cases" not in each.__module__}  # those are wrong limits
    assert ours - wrapped == {type(LIMITS[name]) for name in list(LIMITS)[:16]}


@dataclass(frozen=True)
class Line(dl.SDELimit):
    """dH = -H dt + 0.3 H dβ: keeps the contract; the twins below break one rule each."""

    equation: ClassVar[str] = "dH = -H dt + 0.3 H dβ"

    def noise_size(self, h):
        return h.shape[1]

    def increment(self, time, step, h, noise):
        return -h * step + 0.3 * h * noise


@dataclass(frozen=True)
class Scaled(dl.LawLimit):
    """h_0 times a log-normal number: keeps the contract."""

    equation: ClassVar[str] = "H_1 = h_0 exp(0.2 ξ)"

    def draw(self, h0, generator):
        drawn = torch.empty(len(h0), 1, dtype=torch.float64).normal_(generator=generator)
        return h0 * torch.exp(0.2 * drawn).to(h0.dtype)


@pytest.mark.parametrize("kind", [Line, Scaled])
def test_the_twins_of_all_these_keep_the_contract_themselves(kind):
    dl.testing.check_limit(kind(), width=3)


NUMBERS = itertools.count()


class Drifting(Line):
    """Adds something over a step of no length."""

    def increment(self, time, step, h, noise):
        return super().increment(time, step, h, noise) + 0.01


class Together(Line):
    """Moves towards the mean of all paths."""

    def increment(self, time, step, h, noise):
        return super().increment(time, step, h, noise) + (h.mean(dim=0) - h) * step * torch.arange(3.0)


class RootOfStep(Line):
    """Forgets that a drift is multiplied by the step, not by its root."""

    def increment(self, time, step, h, noise):
        return -h * step**0.5 * 0.3 + 0.3 * h * noise


class Quadratic(Line):
    def increment(self, time, step, h, noise):
        return -h * step + 0.3 * h * noise.square()


class Doubled(Line):
    def increment(self, time, step, h, noise):
        return super().increment(time, step, h, noise).double()


class Global(Line):
    def increment(self, time, step, h, noise):
        return -h * step + 0.3 * h * torch.randn(h.shape, dtype=h.dtype) * step**0.5


class Peeking(Line):
    """Reads the network's increments though nothing is shared."""

    def solver(self, drive):
        return super().solver(dataclasses.replace(drive, sharing=dl.Sharing(increments=True)))


class OneSolution(Line):
    def solver(self, drive):
        return super().solver(dataclasses.replace(drive, twice=False))


class Counting(Line):
    """Takes another stream at every call."""

    def solver(self, drive):
        fresh = dataclasses.replace(drive, stream=lambda index: torch.Generator().manual_seed(next(NUMBERS)))
        return super().solver(fresh)


class OfTheStep(Line):
    """Another equation on fine grids."""

    def increment(self, time, step, h, noise):
        added = super().increment(time, step, h, noise)
        return added if step > 0.005 else added + h * step


class Numbered(Line):
    def noise_size(self, h):
        return 3.5


class Disagreeing(Line):
    sde_type, noise_type = "ito", "diagonal"

    def f(self, t, y):
        return y

    def g_prod(self, t, y, v):
        return 0.3 * y * v


class WrongProduct(Products):
    def g_prod(self, t, y, v):
        return 0.2 * y * v


class SharedRows(Scaled):
    def draw(self, h0, generator):
        return h0 * torch.exp(0.2 * torch.randn((), generator=generator))


class PairedRows(Scaled):
    def draw(self, h0, generator):
        drawn = torch.randn(-(-len(h0) // 2), generator=generator).repeat_interleave(2)[: len(h0), None]
        return h0 * torch.exp(0.2 * drawn).to(h0.dtype)


class OrderedRows(Scaled):
    """Every row starts where the first does."""

    def draw(self, h0, generator):
        return super().draw(h0[:1].expand(len(h0), -1) if len(h0) > 5000 else h0, generator) * (
            1.0 + torch.arange(len(h0), dtype=h0.dtype)[:, None] / len(h0)
        )


class InPlaceRows(Scaled):
    def draw(self, h0, generator):
        return h0.mul_(1.0 + torch.randn(len(h0), 1, dtype=h0.dtype, generator=generator))


BROKEN = {
    Drifting: ("no length", "add"),
    Together: ("paths must be independent",),
    RootOfStep: ("twice the length",),
    Quadratic: ("linear in the noise",),
    Doubled: ("torch.float32", "float64"),
    Global: ("torch's global generator",),
    Peeking: ("reads path.", "shares nothing"),
    OneSolution: ("twice", "None"),
    Counting: ("same streams",),
    OfTheStep: ("halving of its steps",),
    Numbered: ("noise_size", "3.5"),
    Disagreeing: ("increment", "f times the step"),
    WrongProduct: ("g_prod", "g(t, y)"),
    SharedRows: ("all rows are the same",),
    PairedRows: ("rows", "share their noise"),
    OrderedRows: ("every row by its own start",),
    InPlaceRows: ("in place",),
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_limit_that_breaks_one_rule_is_told_which(kind):
    with torch.random.fork_rng(), pytest.raises(AssertionError) as error:
        dl.testing.check_limit(kind(), width=3)
    assert all(words in str(error.value) for words in (kind.__name__, *BROKEN[kind])), error.value


def test_what_is_no_limit_or_has_another_width_is_refused():
    with pytest.raises(ValueError, match=r"width .*3.*4"):
        dl.testing.check_limit(LIMITS["neural SDE"], width=4)
    with pytest.raises(TypeError, match=r"limit .*3"):
        dl.testing.check_limit(3, width=2)


def test_a_limit_shows_itself_as_its_equation():
    networks = (
        dl.res1(2, "tanh"),
        dl.res1(2, "tanh", weights=dl.SmoothGaussian()),
        dl.res3(2),
        dl.inner(3, "tanh", trend=TREND, noise=NOISE),
    )
    for limit in [network.limit() for network in networks] + [
        ODE(lambda t, h: -h),
        SDE(Diagonal().f, Diagonal().g),
    ]:
        assert repr(limit) == str(limit) == limit.equation
    assert dl.res1(2, "tanh").limit().equation.startswith("dH = ")
