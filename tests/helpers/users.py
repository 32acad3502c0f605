"""What a user brings: recursions, weight laws and samplers, with the theorems' assumptions or without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

import deeplimit as dl
from deeplimit.driving import IndependentLaw
from deeplimit.layers import OneProduct, Recursion, Res1


@dataclass(frozen=True)
class Gated(Recursion):
    """A user's recursion: one matrix per layer, and the state multiplies its own activation."""

    name: ClassVar[str] = "gated"
    formula: ClassVar[dl.Formula] = dl.Formula("h + L^-{exponent} h∘tanh({W} h)", field="H∘tanh(W_t H)")
    weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("W", side=dl.Side.INNER),)

    def residual(self, h, layers, exponent):
        (w,) = layers
        return h * torch.tanh(w.apply(h)) * float(w.depth) ** -exponent


@dataclass(frozen=True)
class Louder(OneProduct):
    """A user's recursion that differs from res-1 by a factor."""

    name: ClassVar[str] = "louder"
    formula: ClassVar[dl.Formula] = Res1.formula
    weights: ClassVar[tuple[dl.Weight, ...]] = Res1.weights

    def operand(self, h):
        return self.activation(h)

    def finish(self, product, layer, exponent):
        return 2.0 * product * layer.scale(exponent)


@dataclass(frozen=True)
class OneMatrix(IndependentLaw):
    """A user's law: every layer of a network is the same Gaussian matrix."""

    @property
    def facts(self):
        return dl.Facts(dl.Dependence.STATIONARY, symmetric=True, unit_variance=True)

    def draw(self, step, out, generator):
        one = torch.empty(out.shape[1:], dtype=out.dtype).normal_(generator=generator)
        out.copy_(one.mul_(step**0.5).expand_as(out))

    def describe(self):
        return "one matrix for all layers"


def orthogonal(shape, generator):
    """√d times uniformly distributed orthogonal matrices: entries are uncorrelated, and dependent."""
    q, r = torch.linalg.qr(torch.randn(shape, generator=generator))
    signs = torch.diagonal(r, dim1=-2, dim2=-1).sign()
    return q * signs.unsqueeze(-2) * shape[-1] ** 0.5


def shared_in_a_row(shape, generator):
    return torch.randn((*shape[:-1], 1), generator=generator).expand(shape).clone()


def shared_in_a_column(shape, generator):
    return torch.randn((*shape[:-2], 1, shape[-1]), generator=generator).expand(shape).clone()


def symmetric(shape, generator):
    draws = torch.randn(shape, generator=generator)
    return draws.tril() + draws.tril(-1).mT


def one_up_to_its_sign(shape, generator):
    """One matrix of ±1, and a random sign for every layer."""
    one = torch.randint(0, 2, shape[-2:], generator=generator) * 2.0 - 1.0
    return one * (torch.randint(0, 2, (*shape[:-2], 1, 1), generator=generator) * 2.0 - 1.0)


def the_same_in_every_call(shape, generator):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def on_the_diagonal(shape, generator):
    return torch.randn(shape, generator=generator) * torch.eye(shape[-1]) * shape[-1] ** 0.5


def signed_hadamard(shape, generator):
    """±1 with random signs of rows and columns: entries and their sizes are uncorrelated."""
    count = torch.arange(shape[-1])
    odd = torch.tensor([[bin(int(i & j)).count("1") % 2 for j in count] for i in count])
    rows = torch.randint(0, 2, (*shape[:-1], 1), generator=generator) * 2.0 - 1.0
    columns = torch.randint(0, 2, (*shape[:-2], 1, shape[-1]), generator=generator) * 2.0 - 1.0
    return rows * (1.0 - 2.0 * odd) * columns


DEPENDENT = [
    orthogonal,
    shared_in_a_row,
    shared_in_a_column,
    symmetric,
    one_up_to_its_sign,
    the_same_in_every_call,
    on_the_diagonal,
    signed_hadamard,
]


def laplace(shape, generator):
    signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0
    return signs * torch.empty(shape).exponential_(generator=generator) / 2**0.5


def skewed(shape, generator):
    return torch.empty(shape).exponential_(generator=generator) - 1.0


def gaussian(shape, generator):
    return torch.randn(shape, generator=generator)


def mostly_zero(shape, generator):
    kept = torch.rand(shape, generator=generator) < 0.05
    return torch.randn(shape, generator=generator) * kept / 0.05**0.5


INDEPENDENT = [gaussian, laplace, skewed, mostly_zero]
