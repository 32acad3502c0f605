"""Every weight law keeps the contract, and a law that lies in one fact, or breaks one rule, is told which."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

import deeplimit as dl
from deeplimit.driving import (
    Dependence,
    Facts,
    FreshBlocks,
    FunctionLaw,
    SampledFunction,
    SpaceTimeBrownian,
    WeightLaw,
)
from deeplimit.driving.independent import IncrementPath
from deeplimit.driving.normal_blocks import NormalBlocks
from deeplimit.trained.diagnosis.layer_functions import GivenLayers

TURN = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.5]], dtype=torch.float64)
WAVE = dl.Trend(lambda t: TURN * math.cos(t), lambda t: TURN[0] * t)
NOISE = dl.Ito(A=0.05, b=0.1)

LAWS = {
    "Brownian": dl.Brownian(),
    "Gaussian draws": dl.IID("gaussian"),
    "uniform": dl.IID("uniform"),
    "Rademacher": dl.IID("rademacher"),
    "a sampler": dl.IID(lambda shape, generator: torch.randn(shape, generator=generator)),
    "an autoregressive chain": dl.AR1(0.5),
    "an alternating chain": dl.AR1(-0.9),
    "a moving average": dl.MovingAverage((1, 0.6, 0.3)),
    "fractional, rough": dl.FractionalBrownian(0.3),
    "fractional, smooth": dl.FractionalBrownian(0.7),
    "smooth": dl.SmoothGaussian(0.1),
    "given functions": WAVE,
    "recorded": dl.Recorded({L: TURN.expand(L, 3, 3) / L for L in (4, 8, 16)}),
    "a trend that shrinks": dl.TrendAndNoise(WAVE, None, 0.5),
    "noise": dl.TrendAndNoise(None, NOISE, 1.0),
    "both": dl.TrendAndNoise(dl.SmoothGaussian(0.3), NOISE, 1.0),
    "random volatility": dl.TrendAndNoise(None, dl.stochastic_volatility(A=0.05), 1.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_every_law_of_the_library_keeps_the_contract(name):
    dl.testing.check_law(LAWS[name])


def concrete(kind):
    for each in kind.__subclasses__():
        if not each.__abstractmethods__ and each.__module__.startswith("deeplimit."):
            yield each
        yield from concrete(each)


def test_no_law_of_the_library_is_left_out():
    # Blocks of modules hold no values that a check could read: tests/networks/test_module_networks.py. Layers
    # of hidden units hold more of them in deeper networks: tests/driving/test_hidden_units.py.
    # A weight of pairs has its own test: tests/driving/test_space_time.py. Given layers are functions:
    # tests/trained/test_fitted_limit.py.
    apart = {FreshBlocks, NormalBlocks, dl.HiddenUnits, SpaceTimeBrownian, GivenLayers}
    assert set(concrete(WeightLaw)) - apart == {type(law) for law in LAWS.values()}


HONEST = dl.Brownian().facts


def standard(shape, generator):
    return torch.empty(shape).normal_(generator=generator)


@dataclass(frozen=True)
class Twin(dl.IndependentLaw):
    """Independent draws of a sampler, with whatever facts and path it is told to have."""

    stated: Facts = HONEST
    sample: Callable = standard
    walks: type = IncrementPath
    words: str = "a twin"
    exponent: float = 0.5

    @property
    def facts(self):
        return self.stated

    @property
    def layer_exponent(self):
        return self.exponent

    def draw(self, step, out, generator):
        out.copy_(self.sample(tuple(out.shape), generator)).mul_(step**0.5)

    def path(self, shape, grid, paths, generator, dtype):
        return self.walks(self, grid.depths, shape, paths, generator, dtype)

    def describe(self):
        return self.words


def twin(**lies):
    return Twin(stated=dataclasses.replace(HONEST, **lies))


def drawn_by(sample, **lies):
    stated = {"gaussian": False, "symmetric": False, "independent_entries": None, "unit_variance": False}
    return Twin(stated=dataclasses.replace(HONEST, **(stated | lies)), sample=sample)


def row_shared(shape, generator):
    """Entries of one row have one size."""
    if len(shape) < 3:
        return standard(shape, generator)
    sizes = 0.5 + torch.empty((*shape[:-1], 1)).exponential_(generator=generator)
    return standard(shape, generator) * sizes / 5**0.5


class OneDraw(IncrementPath):
    """All layers of a path are one draw."""

    held = None

    def advance(self, index):
        if self.held is None:
            self.law.draw(1.0, self.drawn, self.generator)
            self.held = self.drawn.clone()
        self.drawn.copy_(self.held * float(self.steps[index]) ** 0.5)
        self.sums.add(self.drawn)

    def rewind(self):
        super().rewind()
        self.held = None


class EachDepthAlone(IncrementPath):
    def layer(self, j):
        value = torch.empty_like(self.drawn)
        self.law.draw(1.0 / self.depths[j], value, self.generator)
        return dl.Layer(value, self.depths[j], self.law.layer_exponent, self.scale)


class Forgetful(IncrementPath):
    def rewind(self):
        self.sums.forget()


class Stiff(IncrementPath):
    def __init__(self, law, depths, shape, paths, generator, dtype):
        super().__init__(law, depths, shape, paths, generator, torch.float64)


class OnePathFewer(IncrementPath):
    def __init__(self, law, depths, shape, paths, generator, dtype):
        super().__init__(law, depths, shape, paths - 1, generator, dtype)


class Unscaled(IncrementPath):
    def layer(self, j):
        return dl.Layer(self.sums.take(j), self.depths[j], 0.0, self.scale)


class Biased(IncrementPath):
    def layer(self, j):
        layer = super().layer(j)
        return dataclasses.replace(layer, bias=layer.values[:, :, 0] if layer.values.ndim == 3 else None)


class AnotherMotion(IncrementPath):
    @property
    def brownian(self):
        return 2.0 * super().brownian


class NoMotion(IncrementPath):
    brownian = None


@dataclass(frozen=True)
class Rough(SampledFunction):
    signs: torch.Tensor  # (P, *shape)
    moved: float

    def at(self, times):
        return torch.stack([self.signs * (1.0 if float(t) > self.moved else -1.0) for t in times])


@dataclass(frozen=True)
class Jump(FunctionLaw):
    """A function of time with a jump, said to be Lipschitz."""

    moved: float = 0.37

    def sample(self, shape, paths, generator, dtype, device):
        return Rough(torch.randn(paths, *shape, generator=generator, dtype=dtype), self.moved)

    def describe(self):
        return "a jump"


@dataclass(frozen=True)
class OfTheDepth(Jump):
    """Said to be one function of time, but other layers at every depth."""

    def path(self, shape, grid, paths, generator, dtype):
        path = super().path(shape, grid, paths, generator, dtype)
        layer = path.layer
        path.layer = lambda j: dataclasses.replace(layer(j), values=layer(j).values * grid.depths[j])
        return path


@dataclass(frozen=True)
class Diffusive(FunctionLaw):
    """Functions of time, said to be of natural exponent 1/2."""

    @property
    def facts(self):
        return dataclasses.replace(super().facts, natural_exponent=0.5)

    sample = dl.SmoothGaussian(0.5).sample
    held_per_path = dl.SmoothGaussian(0.5).held_per_path

    def describe(self):
        return "functions"


@dataclass(frozen=True)
class WrongHurst(WeightLaw):
    hurst: float = 0.3

    @property
    def facts(self):
        return dl.FractionalBrownian(self.hurst).facts

    @property
    def layer_exponent(self):
        return 0.7

    def path(self, *arguments):
        return dl.FractionalBrownian(0.7).path(*arguments)

    def describe(self):
        return "fractional weights"


def from_the_global_generator(shape, generator):
    return torch.randn(shape)


STATES_NOTHING = Facts(Dependence.INDEPENDENT)

BROKEN = {
    "a mean": (drawn_by(lambda s, g: standard(s, g) + 0.2, symmetric=True), "symmetric", "mean"),
    "a variance": (drawn_by(lambda s, g: 1.1 * standard(s, g), unit_variance=True), "variance", "1.21"),
    "a power of the depth": (Twin(exponent=0.4), "unit_variance", "instead of 1"),
    "skewness": (
        drawn_by(lambda s, g: torch.empty(s).exponential_(generator=g) - 1.0, symmetric=True),
        "symmetric",
        "skewed",
    ),
    "tails": (
        drawn_by(lambda s, g: torch.empty(s).uniform_(-(3**0.5), 3**0.5, generator=g), gaussian=True),
        "gaussian",
        "not normal",
    ),
    "entries": (drawn_by(row_shared, independent_entries=True), "independent_entries", "sizes"),
    "layers": (Twin(stated=STATES_NOTHING, walks=OneDraw), "independent", "layers"),
    "randomness": (twin(deterministic=True), "deterministic", "another seed"),
    "the Hurst index": (WrongHurst(), "hurst 0.3", "correlation"),
    "continuity": (Jump(), "holder 1", "largest step"),
    "one function for all depths": (OfTheDepth(), "one value at one time", "depth 4"),
    "the natural exponent": (Diffusive(), "natural_exponent 0.5", "explode"),
    "sums": (Twin(walks=EachDepthAlone), "sums of the fine increments", "depth 4"),
    "rewinding": (Twin(walks=Forgetful), "rewind", "again"),
    "the dtype": (Twin(walks=Stiff), "dtype torch.float32", "float64"),
    "the number of paths": (Twin(walks=OnePathFewer), "(5, 1)", "got (4,"),
    "the scale": (Twin(walks=Unscaled), "scale", "layer_exponent"),
    "a bias": (Twin(walks=Biased), "bias", "facts do not state biased"),
    "the motion's size": (Twin(walks=AnotherMotion), "variance t", "4"),
    "the motion": (Twin(walks=NoMotion), "channels(()) state 1 Brownian channels", "None"),
    "global state": (Twin(sample=from_the_global_generator), "torch's global generator", "given"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_law_that_breaks_one_rule_is_told_which(name):
    law, *told = BROKEN[name]
    with torch.random.fork_rng(), pytest.raises(AssertionError) as error:
        dl.testing.check_law(law)
    assert all(words in str(error.value) for words in (type(law).__name__, *told)), error.value


def test_the_twin_of_all_these_keeps_the_contract_itself():
    dl.testing.check_law(Twin())


def test_depths_that_a_law_does_not_have_are_asked_for_by_name():
    with pytest.raises(AssertionError, match=r"\[2, 4\].*depths="):
        dl.testing.check_law(LAWS["recorded"], depths=[2, 4])


def test_what_is_no_law_is_refused():
    with pytest.raises(TypeError, match=r"law .*Brownian"):
        dl.testing.check_law(dl.Brownian)
