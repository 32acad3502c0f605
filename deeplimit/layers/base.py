"""What a recursion is: the weights of a layer, what the layer adds to the state, and its formula.

What it must say and return is checked when a network is made of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.global_state import alone
from deeplimit.driving import Layer, Shape
from deeplimit.layers import activations
from deeplimit.layers.activations import Activation
from deeplimit.layers.one_product import Form, OneProductForm, one_product, operand_of, residual_of
from deeplimit.layers.plain_pass import PlainPass
from deeplimit.layers.stacked import AutogradPass, StackedPass

T = TypeVar("T")


class Side(Enum):
    """Where a weight matrix stands in h + α V σ(W h + b)."""

    OUTER = "outside σ"
    INNER = "inside σ"


@dataclass(frozen=True)
class Weight:
    """One weight of a layer: its name in formulas, its shape in letters, and its side of σ.

    The shape is written in letters that `Recursion.sizes` gives numbers to: "d d" is a matrix of the width,
    "d" a vector, "" a number.
    """

    name: str
    shape: str = "d d"
    side: Side | None = None

    def __post_init__(self) -> None:
        validation.text(self.name, "name")
        validation.instance(self.shape, "shape", str, "letters with spaces between them, such as 'd d'")
        validation.instance(self.side, "side", (Side, NoneType), "Side.INNER, Side.OUTER or None")


@dataclass(frozen=True)
class Formula:
    """What a layer does, as data for a terminal and for LaTeX, for the network and for its limit.

    Attributes:
        network: The right-hand side of h_{k+1} = …, in Unicode; `{exponent}` and `{W}` stand for letters
            that papers choose differently. Every other letter is written as it is.
        field: The right-hand side of dH/dt = … for weights that are functions of time at exponent 1; a sum
            stands in parentheses.
        network_latex, field_latex: The same in LaTeX; `network_latex` with `%(exponent)s` and `%(W)s`.

    Raises:
        ValueError: For a formula that asks for another letter.
    """

    network: str
    field: str = ""
    network_latex: str = ""
    field_latex: str = ""

    def __post_init__(self) -> None:
        text, latex = (lambda: self.text({})), (lambda: self.latex({}))
        check_written("network", self.network, text, "{exponent} and {W}")
        check_written("network_latex", self.network_latex, latex, "%(exponent)s and %(W)s")

    def text(self, letters: dict[str, str]) -> str:
        """Return `network` with these letters; β and W where none are given."""
        return self.network.format(**{"exponent": "β", "W": "W", **letters})

    def latex(self, letters: dict[str, str]) -> str:
        """Return `network_latex` with these letters."""
        return self.network_latex % {"exponent": r"\beta", "W": "W", **letters}


@dataclass(frozen=True)
class Recursion(FinalWhereMarked, ABC):
    """h_{k+1} = h_k + residual(h_k, the weights of layer k + 1).

    A user's recursion is a frozen dataclass with `name`, `formula`, `weights` and `residual`;
    `deeplimit.testing.check_recursion` holds it to the contract. States are (P, *state_shape), P paths. One
    that overrides `advance` returns `advance(h) - h` as its residual.
    """

    activation: Activation
    name: ClassVar[str]
    formula: ClassVar[Formula]
    weights: ClassVar[tuple[Weight, ...]]
    is_euler: ClassVar[bool] = False
    """Whether the residual is linear in the weights, and so a step of the Euler-Maruyama scheme."""
    takes_bias: ClassVar[bool] = False
    """Whether the residual reads `Layer.bias`."""
    takes_exponent: ClassVar[bool] = True
    """Whether the residual depends on the exponent; blocks of a module scale themselves."""
    needs_one_product: ClassVar[bool] = False
    """Whether it needs of its one weight matrix nothing but the product with `operand(h)`."""

    is_plain: ClassVar[bool] = False
    """Whether the residual is α V σ(W h + b) with V or W left out, so that `sides` and σ say all of it."""
    form: ClassVar[Form | None] = None
    """The form that compiled loops know this residual as; None where they do not know it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activations.resolve(self.activation))

    def check(self, width: int) -> None:
        """Raise where no network of this width can be made of this recursion; called once, when it is made.

        `residual` is tried on ones, on the CPU. Raises TypeError for a class that lacks its name, formula or
        weights, and for a residual that returns no tensor; ValueError for a residual of another shape than
        the states.
        """
        owner = type(self).__name__
        for attribute, kind, example in (
            ("name", str, "'gated'"),
            ("formula", Formula, "Formula('h + L^-{exponent} h∘σ({W} h)')"),
            ("weights", tuple, "(Weight('W'),)"),
        ):
            said = getattr(self, attribute, None)
            if not isinstance(said, kind) or not said:
                raise TypeError(
                    f"recursion {owner} has no {attribute}: got {said!r}. Give the class one, such as"
                    f" {attribute} = {example}."
                )
        for weight in self.weights:
            if not isinstance(weight, Weight):
                raise TypeError(
                    f"recursion {owner} has weights that hold {weight!r}; make each a Weight, such as"
                    " Weight('W', shape='d d')."
                )
        check_shapes(owner, self.weights, self.sizes(width))
        shapes = self.state_shape(width), self.weight_shapes(width)
        check_residual(owner, self.residual, *shapes, self.takes_bias)

    @property
    def is_homogeneous(self) -> bool:
        """Whether a layer without bias scales its update with its state.

        Then `stability` keeps the size of states as a logarithm.
        """
        return self.is_plain and activations.slopes(self.activation) is not None

    @property
    def activation_in_words(self) -> str:
        """Return the activation, for the line of text that describes a network."""
        return f"σ = {self.activation.name}"

    def width_in_words(self, width: int) -> str:
        """Return the size of a state, for the line of text that describes a network."""
        return f"d = {width}"

    @abstractmethod
    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        """Return what the layer adds to h (P, *state_shape), the factor depth**-exponent included."""

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        """Return the state after the layer."""
        return h + self.residual(h, layers, exponent)

    def vector_field(self, h: Tensor, layers: tuple[Layer, ...]) -> Tensor:
        """Return dH/dt of the limit at exponent 1, for the values of functions of time as layers of depth 1.

        That is what depth times the residual tends to: the residual itself, unless `advance` bends it.
        """
        return self.residual(h, layers, 0.0)

    def powers_in_law(self, exponent: float) -> tuple[float, float]:
        """Return the first two powers of 1/L in which the law at depth L differs from that of the limit.

        For weights with symmetric laws; others bring L^-1/2.
        """
        return 1.0, 2.0

    def vjp(self, h: Tensor, layers: tuple[Layer, ...], exponent: float, gradient: Tensor) -> Tensor:
        """Return the gradient with respect to h, from that with respect to the state after the layer.

        By automatic differentiation, unless a recursion knows better.
        """
        with torch.enable_grad():
            state = h.detach().requires_grad_()
            after = self.advance(state, layers, exponent)
            (before,) = torch.autograd.grad(after, state, gradient)
        return before

    def stacked_pass(self, library: ArrayLibrary) -> StackedPass:
        """Return what runs all layers of several networks forward and backward, for training.

        By automatic differentiation, unless a recursion knows better.
        """
        names = tuple(weight.name for weight in self.weights)
        if self.is_plain:
            return PlainPass(*self.sides(names), None, self.activation, library)
        return AutogradPass(self.advance, names, library)

    def state_shape(self, width: int) -> Shape:
        """Return the shape of one state."""
        return (width,)

    def sizes(self, width: int) -> dict[str, int]:
        """Return the number that each letter in the weights' shapes stands for."""
        return {"d": width}

    def weight_shapes(self, width: int) -> tuple[Shape, ...]:
        """Return the shape of each weight at this width."""
        sizes = self.sizes(width)
        return tuple(tuple(sizes[letter] for letter in weight.shape.split()) for weight in self.weights)

    def sides(self, of_weights: Sequence[T]) -> tuple[T | None, T | None]:
        """Return what `of_weights` has for the matrix outside σ and for the one inside."""
        by_side = {weight.side: item for weight, item in zip(self.weights, of_weights, strict=True)}
        return by_side.get(Side.OUTER), by_side.get(Side.INNER)

    def operand(self, h: Tensor) -> Tensor | None:
        """Return the vector (P, d) that the one matrix multiplies; None if unknown before the layer."""
        return None

    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        """Return the residual for the unscaled product of the layer's matrix with `operand(h)`."""
        raise NotImplementedError(f"{type(self).__name__} has no `finish`: its needs_one_product is False.")

    def one_product_at(self, width: int) -> OneProductForm | None:
        """Return what is known of the one product that it needs of its one matrix, as it states or by trial.

        None where it needs more of its weights. A trial gives no bias, so that no form with one is known.
        """
        if self.needs_one_product:
            return OneProductForm(self.form)
        if self.weight_shapes(width) != ((width, width),) or self.state_shape(width) != (width,):
            return None
        try:
            found = tried_once(self, width)
        except TypeError:  # a field that has no hash
            found = tried(self, width)
        return OneProductForm(None) if found is not None and self.takes_bias else found

    def multiplied(self, h: Tensor, layer: Layer, exponent: float) -> Tensor:
        """Return the vector (P, d) that its one matrix multiplies at states h."""
        operand = self.operand(h) if self.needs_one_product else None
        return operand_of(self.residual, h, layer, exponent) if operand is None else operand

    def with_product(self, h: Tensor, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        """Return the residual (P, d) at states h, given the matrix's unscaled product with `multiplied`."""
        if self.needs_one_product:
            return self.finish(product, layer, exponent)
        return residual_of(self.residual, h, product, layer, exponent)


@dataclass(frozen=True)
class OneProduct(Recursion):
    """A recursion with one weight matrix, of which it needs only the product with `operand(h)`.

    `operand` and `finish` act entry by entry.
    """

    needs_one_product: ClassVar[bool] = True

    @abstractmethod
    def operand(self, h: Tensor) -> Tensor:
        """Return the vector that the weight matrix multiplies."""

    @abstractmethod
    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        """Return the residual from the matrix's unscaled product with `operand(h)`."""

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (layer,) = layers
        return self.finish(layer.product(self.operand(h)), layer, exponent)


def tried(recursion: Recursion, width: int) -> OneProductForm | None:
    """Return what is known of a recursion with one matrix by trying its residual."""
    return one_product(recursion.residual, recursion.activation, width)


tried_once = lru_cache(maxsize=64)(tried)
"""The same, kept: every depth of every block asks."""


MOST_NUMBERS = 2**22
"""Residuals with larger weights are not tried, so that making a network stays cheap."""


def check_written(name: str, text: str, write: Callable[[], str], letters: str) -> None:
    """Raise ValueError for a formula that `write` cannot write out, such as one with an unknown letter."""
    try:
        write()
    except KeyError as error:
        wrong = f"the letter {error.args[0]!r} is unknown"
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        wrong = str(error)
    else:
        return
    raise ValueError(
        f"{name}={text!r} cannot be written out: {wrong}. Only {letters} are filled in; write every other"
        " letter as it is, and double literal braces or %."
    )


def check_shapes(owner: str, weights: Any, sizes: Mapping[str, int]) -> None:
    """Raise ValueError for two weights of one name, and for a letter of a shape that has no number."""
    names = [weight.name for weight in weights]
    if len(set(names)) < len(names):
        raise ValueError(f"recursion {owner} has weights of one name, {', '.join(names)}; give each another.")
    for weight in weights:
        for letter in weight.shape.split():
            if letter not in sizes:
                raise ValueError(
                    f"recursion {owner} has the weight {weight.name} of shape {weight.shape!r}, but"
                    f" sizes() gives {letter!r} no number; its letters are {', '.join(map(repr, sizes))}."
                )


def check_residual(
    owner: str, residual: Callable[..., Any], state: Shape, weights: tuple[Shape, ...], has_bias: bool
) -> None:
    """Try a residual on ones, on the CPU, for two paths; raise TypeError or ValueError in words.

    Args:
        owner: the recursion's name, for the message.
        residual: the method of the recursion.
        state: the shape of one state.
        weights: the shape of each weight.
        has_bias: whether layers carry a bias.
    """
    sizes = [math.prod(shape) for shape in (state, *weights)]
    if max(sizes) > MOST_NUMBERS:
        return
    paths = 3 if state[:1] == (2,) else 2  # so that a transposed result is told apart
    shape = (paths, *state)
    try:
        added = _tried(residual, shape, weights, has_bias)
    except Exception as error:
        kind = TypeError if type(error) is TypeError else ValueError
        raise kind(
            f"recursion {owner} has a residual that cannot be called: on states h of shape {shape} and"
            f" weights of shapes {[(paths, *one) for one in weights]} it raised {type(error).__name__}:"
            f" {str(error)[:160].rstrip('.')}. deeplimit.testing.check_recursion names what it breaks."
        ) from error
    if not isinstance(added, Tensor):
        raise TypeError(
            f"recursion {owner} has a residual that returns {validation.named(added)}; return a tensor of"
            f" the shape of the states, here {shape}."
        )
    if tuple(added.shape) != shape:
        raise ValueError(
            f"recursion {owner} has a residual of shape {tuple(added.shape)} for states h of shape {shape}:"
            " return what the layer adds to h, one number for each of its entries."
        )


@torch.no_grad()
def _tried(residual: Callable[..., Any], shape: Shape, weights: tuple[Shape, ...], has_bias: bool) -> Any:
    """Return the residual of ones in layers of ones and depth 2.

    States are float64, or float32 where float64 raises, as constants may have either.
    """
    for dtype in (torch.float64, torch.float32):
        h, one = torch.ones(shape, dtype=dtype, device="cpu"), torch.ones((), dtype=dtype, device="cpu")
        biases = [one.expand(shape[0], each[0]) if has_bias and each else None for each in weights]
        layers = tuple(
            Layer(one.expand(shape[0], *each), 2, 0.0, 1.0, bias)
            for each, bias in zip(weights, biases, strict=True)
        )
        try:
            with alone(keeping=True):
                return residual(h, layers, 1.0)
        except Exception:
            if dtype is torch.float32:
                raise
    return None
