"""Limits state their equation, also for recursions whose formula has no field."""

from dataclasses import dataclass
from typing import ClassVar

import deeplimit as dl
from deeplimit.equations import NeuralODE


def test_a_formula_without_a_field_shows_the_network_in_the_equation():
    @dataclass(frozen=True)
    class Gated(dl.Recursion):
        name: ClassVar[str] = "gated"
        formula: ClassVar[dl.Formula] = dl.Formula("h + L^-{exponent} h∘σ({W} h)")
        weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("W"),)

        def residual(self, h, layers, exponent):
            (layer,) = layers
            return h * self.activation(layer.apply(h)) * layer.depth**-exponent

    limit = NeuralODE(Gated("tanh"), (dl.SmoothGaussian(),), 4)
    assert limit.equation == (
        "dH = F(t, H) dt, F the branch of h + L^-β h∘σ(W h) without its power of L, σ = tanh, d = 4"
    )
