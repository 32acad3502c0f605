"""Every recursion keeps the contract, and one that breaks a rule is told which."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import deeplimit as dl
from deeplimit import layers as recursions
from deeplimit.layers import OneProduct, Recursion, Side
from deeplimit.networks.scheme_network import SchemeSteps
from deeplimit.papers.figures.trained_classifier_figures import Res1WithBias
from deeplimit.simulation.simulate import Waiting

LIBRARY = {
    "res1": recursions.Res1("tanh"),
    "res1 with kinks": recursions.Res1("relu"),
    "res2": recursions.Res2("sin"),
    "res3": recursions.Res3("relu"),
    "inner": recursions.Inner("tanh"),
    "modified res1": recursions.ModifiedRes1("tanh"),
    "pre-norm": recursions.PreNorm("tanh"),
    "pre-norm, centred": recursions.PreNorm("relu", "layer"),
    "fully connected": recursions.FullyConnected("tanh"),
    "res1 with bias, of a figure": Res1WithBias("relu"),
    "two-layer": recursions.TwoLayer("tanh", hidden=4),
    "attention": recursions.Attention(4, 2.0),
    "convolutional": recursions.Convolutional("tanh", size=(4, 5)),
    "with shortcut": recursions.ConvolutionalWithShortcut("tanh", size=(4, 5)),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_every_recursion_of_the_library_keeps_the_contract(name):
    dl.testing.check_recursion(LIBRARY[name])


def concrete(kind):
    for each in kind.__subclasses__():
        if not each.__abstractmethods__ and each.__module__.startswith("deeplimit."):
            yield each
        yield from concrete(each)


def test_no_recursion_of_the_library_is_left_out():
    found = {each for each in concrete(Recursion) if not each.__name__.startswith("_")}
    # Blocks of modules are no tensors that a check could make up: tests/networks/test_module_networks.py. The
    # exponent of a shaped network is that of its slopes, not of what a layer adds: test_shaped.py.
    # A scheme's steps read an equation, and have tests with it: tests/judge/test_guests.py. States that wait
    # stand in for a network that nobody asked for: tests/simulation/test_simulate.py.
    assert found - {
        recursions.ModuleBlocks,
        recursions.LinearBlocks,
        recursions.ShapedMLP,
        SchemeSteps,
        Waiting,
    } == {type(each) for each in LIBRARY.values()}


@dataclass(frozen=True)
class Gated(Recursion):
    """h + L^-β δ h∘tanh(W h + b): keeps the contract; the twins below break one rule each."""

    name: ClassVar[str] = "gated"
    formula: ClassVar[dl.Formula] = dl.Formula("h + L^-{exponent} δ h∘σ({W} h)")
    weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("W"), dl.Weight("δ", ""))

    def residual(self, h, layers, exponent):
        matrix, delta = layers
        return delta.apply(h * self.activation(matrix.apply(h)), exponent)


def test_the_twin_of_all_these_keeps_the_contract_itself():
    dl.testing.check_recursion(Gated("tanh"))


class WithLetters(Gated):
    weights = (dl.Weight("W", "c d"), dl.Weight("δ", ""))


class SameNames(Gated):
    weights = (dl.Weight("W"), dl.Weight("W", ""))


class NoFormula(Gated):
    formula = "h + δ h∘tanh(W h)"


class NoName(Gated):
    name = ""


class InPlace(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h.mul_(2.0), layers, exponent)


class ChangesWeights(Gated):
    def residual(self, h, layers, exponent):
        layers[0].values.mul_(0.5)
        return super().residual(h, layers, exponent)


class Moody(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h, layers, exponent) * torch.rand(())


class Narrow(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h, layers, exponent)[:, :1]


class Wide(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h, layers, exponent).double()


class Batched(Gated):
    """Centres over paths, as batch normalisation does."""

    def residual(self, h, layers, exponent):
        return super().residual(h - h.mean(dim=0), layers, exponent)


class WithoutFactor(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h, layers, 0.0)


class Squared(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h, layers, 2.0 * exponent)


class WrongField(Gated):
    def vector_field(self, h, layers):
        return 1.1 * self.residual(h, layers, 0.0)


class WrongGradient(Gated):
    def vjp(self, h, layers, exponent, gradient):
        return gradient


class Detached(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h.detach(), layers, exponent) + 0.0 * h


class SaysLinear(Gated):
    is_euler = True


class SaysBias(Gated):
    takes_bias = True


class HiddenBias(Gated):
    def residual(self, h, layers, exponent):
        added = super().residual(h, layers, exponent)
        return added if layers[0].bias is None else added + layers[0].bias * layers[0].depth ** -exponent


class SaysPlain(Gated):
    is_plain = True
    weights = (dl.Weight("W", side=Side.INNER), dl.Weight("δ", ""))


class TwoProducts(Gated):
    needs_one_product = True


@dataclass(frozen=True)
class One(OneProduct):
    """h + L^-β V σ(h)."""

    name: ClassVar[str] = "one"
    formula: ClassVar[dl.Formula] = dl.Formula("h + L^-{exponent} V σ(h)")
    weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("V"),)

    def operand(self, h):
        return self.activation(h)

    def finish(self, product, layer, exponent):
        return product * layer.scale(exponent)


class Mixing(One):
    def operand(self, h):
        return h.cumsum(dim=1)


class ReadsMatrix(One):
    def finish(self, product, layer, exponent):
        values = layer.values
        return (product if values is None else product + values[:, 0]) * layer.scale(exponent)


class OtherResidual(One):
    def residual(self, h, layers, exponent):
        return 2.0 * super().residual(h, layers, exponent)


@dataclass(frozen=True, eq=False)
class ByIdentity(Gated):
    extra: object = dataclasses.field(default_factory=object)

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)


BROKEN = {
    WithLetters: ("weight W", "'c'"),
    SameNames: ("different names",),
    NoFormula: ("formula must be a Formula", "tanh"),
    NoName: ("name", "text"),
    InPlace: ("state h in place",),
    ChangesWeights: ("weights W in place",),
    Moody: ("torch's global generator",),
    Narrow: ("shape (5, 3)", "(5, 1)"),
    Wide: ("dtype torch.float32", "float64"),
    Batched: ("paths must be independent",),
    WithoutFactor: ("depth**-exponent",),
    Squared: ("depth**-exponent",),
    WrongField: ("vector_field", "depth times the residual"),
    WrongGradient: ("vjp", "automatic differentiation"),
    Detached: ("vjp", "finite differences"),
    SaysLinear: ("is_euler", "linear"),
    SaysBias: ("takes_bias is True",),
    HiddenBias: ("takes_bias is False",),
    SaysPlain: ("is_plain",),
    TwoProducts: ("needs_one_product", "2"),
    Mixing: ("operand", "entry by entry"),
    ReadsMatrix: ("finish", "matrix"),
    OtherResidual: ("finish", "must be the residual"),
    ByIdentity: ("copy", "not equal"),
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_recursion_that_breaks_one_rule_is_told_which(kind):
    with torch.random.fork_rng(), pytest.raises(AssertionError) as error:
        dl.testing.check_recursion(kind("tanh"))
    assert all(words in str(error.value) for words in (kind.__name__, *BROKEN[kind])), error.value


def test_what_is_no_recursion_is_refused():
    with pytest.raises(TypeError, match=r"recursion .*Res1"):
        dl.testing.check_recursion(recursions.Res1)
