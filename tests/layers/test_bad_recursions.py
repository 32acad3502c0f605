"""A recursion that cannot be printed or added to its states is refused when a network is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl


@dataclass(frozen=True)
class Gated(dl.Recursion):
    """A user's recursion that can be used; its children each break one rule."""

    name: ClassVar[str] = "gated"
    formula: ClassVar[dl.Formula] = dl.Formula("h + L^-{exponent} h∘σ({W} h)")
    weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("W"),)

    def residual(self, h, layers, exponent):
        return layers[0].apply(h * self.activation(h), exponent)


def lacking(name):
    """A recursion without one of its three declarations."""
    parts = {"name": "lacking", "formula": Gated.formula, "weights": Gated.weights}
    del parts[name]
    residual = {"residual": lambda self, h, layers, exponent: 0.0 * h}
    return dataclass(frozen=True)(type(f"Without{name}", (dl.Recursion,), parts | residual))


class FormulaInText(Gated):
    formula = "h + W h"


class UnknownLetter(Gated):
    weights = (dl.Weight("W", "d e"),)


class OneName(Gated):
    weights = (dl.Weight("W"), dl.Weight("W"))


class Transposed(Gated):
    def residual(self, h, layers, exponent):
        return super().residual(h, layers, exponent).T


class Summed(Gated):
    def residual(self, h, layers, exponent):
        return float(h.sum())


class ToTheWrongWidth(Gated):
    def residual(self, h, layers, exponent):
        return layers[0].apply(h[:, 1:], exponent)


class TwoOfOne(Gated):
    def residual(self, h, layers, exponent):
        first, second = layers
        return second.apply(first.apply(h), exponent)


class WithArgument(Gated):
    def residual(self, h, layers):
        return layers[0].apply(h)


def refused(kind, error, *pins):
    return row(kind.__name__, lambda: dl.ResidualNetwork(kind("tanh"), 4), error, "recursion", *pins)


@pytest.mark.parametrize(
    ("call", "error", "pins"),
    [
        *(
            refused(lacking(name), TypeError, f"Without{name}", name, "None")
            for name in ("name", "formula", "weights")
        ),
        refused(FormulaInText, TypeError, "FormulaInText", "formula", "'h + W h'"),
        refused(UnknownLetter, ValueError, "UnknownLetter", "W", "'d e'", "'e'", "'d'"),
        refused(OneName, ValueError, "OneName", "weights", "W, W"),
        refused(Transposed, ValueError, "Transposed", "residual", "(4, 2)", "(2, 4)"),
        refused(Summed, TypeError, "Summed", "residual", "float"),
        refused(ToTheWrongWidth, ValueError, "ToTheWrongWidth", "residual", "(2, 4)", "RuntimeError"),
        refused(TwoOfOne, ValueError, "TwoOfOne", "residual", "(2, 4)", "ValueError"),
        refused(WithArgument, TypeError, "WithArgument", "residual", "(2, 4)", "TypeError"),
    ],
)
def test_a_recursion_that_cannot_be_used_is_refused_when_a_network_is_made(call, error, pins):
    assert_refused(call, error, *pins)


@pytest.mark.parametrize(
    ("call", "error", "pins"),
    [
        row("letter", lambda: dl.Formula("h + {V} h"), ValueError, "network", "{V}", "'V'", "{exponent}"),
        row("brace", lambda: dl.Formula("h + {W h"), ValueError, "network", "{W h", "{exponent}"),
        row(
            "latex letter",
            lambda: dl.Formula("h", network_latex="%(V)s h"),
            ValueError,
            "network_latex",
            "%(V)s h",
            "'V'",
            "%(exponent)s",
        ),
        row(
            "percent",
            lambda: dl.Formula("h", network_latex="100% h"),
            ValueError,
            "network_latex",
            "100% h",
            "%(exponent)s",
        ),
    ],
)
def test_a_formula_that_cannot_be_written_out_is_refused_when_it_is_made(call, error, pins):
    assert_refused(call, error, *pins)


def test_one_dtype_is_enough_for_a_residual():
    mask = torch.eye(4)

    class Single(Gated):
        def residual(self, h, layers, exponent):
            return super().residual(h, layers, exponent) @ mask

    assert dl.ResidualNetwork(Single("tanh"), 4).width == 4


def test_trying_a_residual_leaves_global_generators_alone():
    class Moody(Gated):
        def residual(self, h, layers, exponent):
            return super().residual(h, layers, exponent) * torch.rand(())

    before = torch.get_rng_state()
    dl.ResidualNetwork(Moody("tanh"), 4)
    assert torch.equal(torch.get_rng_state(), before)
