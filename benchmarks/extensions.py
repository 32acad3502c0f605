"""What a user's recursion, blocks, equation or scheme costs beside the built-in one; gradients beside states.

Both run on one thread and are timed in processor seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch

import deeplimit as dl
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, processor_seconds

WIDTH, DEPTHS, PATHS, DRAWS = 40, (16, 32, 64), 512, 50
QUICK_DEPTHS, QUICK_PATHS, QUICK_DRAWS = (8, 16, 32), 64, 10
LAWS = 200
"""The fewest draws that tell laws apart."""


@final
@dataclass(frozen=True)
class OneProduct(dl.Recursion):
    """h + L^-β V σ(h), as a user writes it."""

    name, formula, weights = "one product", dl.Formula("h + L^-{exponent} V σ(h)"), (dl.Weight("V"),)
    is_euler = True

    def residual(self, h, layers, exponent):  # type: ignore[no-untyped-def]
        """Return what a layer adds."""
        (v,) = layers
        return v.depth**-exponent * v.apply(self.activation(h))


@final
@dataclass(frozen=True)
class Gated(dl.Recursion):
    """h + L^-β h∘σ(W h), of one product and no form that is known."""

    name, formula, weights = "gated", dl.Formula("h + L^-{exponent} h∘σ({W} h)"), (dl.Weight("W"),)

    def residual(self, h, layers, exponent):  # type: ignore[no-untyped-def]
        """Return what a layer adds."""
        (w,) = layers
        return w.depth**-exponent * h * self.activation(w.apply(h))


@final
@dataclass(frozen=True)
class TwoProducts(dl.Recursion):
    """h + L^-β V σ(W h), as a user writes it."""

    name, formula = "two products", dl.Formula("h + L^-{exponent} V σ(W h)")
    weights = (dl.Weight("V"), dl.Weight("W"))

    def residual(self, h, layers, exponent):  # type: ignore[no-untyped-def]
        """Return what a layer adds."""
        v, w = layers
        return v.depth**-exponent * v.apply(self.activation(w.apply(h)))


class Block(torch.nn.Module):
    """A block of res-1."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width, bias=False)
        torch.nn.init.normal_(self.linear.weight, std=width**-0.5)
        self.scale = depth**-0.5

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        """Return the next state."""
        return h + self.scale * self.linear(torch.tanh(h))


def blocks(width: int, depth: int) -> torch.nn.Sequential:
    """Return a stack of them."""
    return torch.nn.Sequential(*(Block(width, depth) for _ in range(depth)))


@dataclass(frozen=True)
class OwnEuler(dl.Scheme):
    """The Euler-Maruyama scheme, as a user writes it."""

    name = "own Euler"

    def strong_order(self, equation: Any) -> float:
        """Return the order at general noise."""
        return 0.5

    def weak_order(self, equation: Any) -> float:
        """Return the weak order."""
        return 1.0

    def step(self, equation: Any, time: Any, length: Any, h: torch.Tensor, noise: Any) -> torch.Tensor:
        """Return the state after a step."""
        return h + length * equation.drift_of(time, h, "ito") + equation.diffused(time, h, noise)


def equation(width: int) -> dl.SDE:
    """Return the limit of res-1 as a user states it."""

    def diffusion(t: Any, h: torch.Tensor, dB: torch.Tensor) -> torch.Tensor:
        return torch.bmm(dB, torch.tanh(h)[..., None])[..., 0] / math.sqrt(width)

    return dl.SDE(lambda t, h: torch.zeros_like(h), diffusion, noise="general", brownian=(width, width))


@dataclass(frozen=True)
class Pair:
    """What a user brings, the built-in one, and how many times as long the first may take."""

    name: str
    theirs: Callable[[], Any]
    ours: Callable[[], Any]
    at_most: float
    floor: Callable[[], Any] | None = None


def built(stack: Callable[[int], Any], depths: tuple[int, ...], count: int) -> None:
    """Build what a call has to build at least: every layer of every draw, by the user's own initialiser."""
    for depth in depths:
        for _ in range(count):
            stack(depth)


def pairs(quick: bool) -> tuple[Pair, ...]:
    """Return all pairs."""
    width, depths = (8 if quick else WIDTH), QUICK_DEPTHS if quick else DEPTHS
    paths, draws = (QUICK_PATHS, QUICK_DRAWS) if quick else (PATHS, DRAWS)
    compare = partial(dl.compare, depths=depths, paths=paths, workers=1)
    one, two, few = dl.res1(width, "tanh"), dl.res2(8, "tanh"), dl.res1(8, "tanh")
    own = dl.ResidualNetwork(OneProduct("tanh"), width, dl.Brownian())
    own_gated = dl.ResidualNetwork(Gated("tanh"), width, dl.Brownian())
    own_two = dl.ResidualNetwork(TwoProducts("tanh"), 8, two.weights, exponent=two.exponent)
    x = torch.randn(8, width, generator=torch.Generator().manual_seed(0))
    stack = partial(blocks, width)
    laws = partial(dl.compare_laws, depths=depths, draws=LAWS, workers=1)
    return (
        Pair(
            "a user's one-product recursion, compare",
            partial(compare, own, one.limit()),
            partial(compare, one),
            2.0,
        ),
        Pair(
            "a user's gated recursion of one product, compare with the identity",
            partial(compare, own_gated, dl.Identity()),
            partial(compare, one, dl.Identity()),
            3.0,
        ),
        Pair(
            "a user's two-product recursion, compare with the identity",
            partial(compare, own_two, dl.Identity()),
            partial(compare, two, dl.Identity(), coupling="pathwise"),
            3.0,
        ),
        Pair(
            "torch blocks, stability",
            partial(dl.stability, stack, depths, x, draws=draws, workers=1),
            partial(dl.stability, one, depths, x, draws=draws, workers=1),
            4.0,
            partial(built, stack, depths, draws),
        ),
        Pair(
            "torch blocks, simulate",
            partial(dl.simulate, stack, x, depths=depths, paths=draws, workers=1),
            partial(dl.simulate, one, x, depths=depths, paths=draws, workers=1),
            4.0,
            partial(built, stack, depths, draws),
        ),
        Pair(
            "torch blocks, compare_laws",
            partial(laws, dl.module_network(stack, width), one.limit(), x=x),
            partial(laws, one, x=x),
            4.0,
            partial(built, stack, depths, LAWS),
        ),
        Pair(
            "a user's equation, compare",
            partial(compare, few, equation(8)),
            partial(compare, few, coupling="pathwise"),
            3.0,
        ),
        Pair(
            "a user's scheme, check_solver",
            partial(dl.check_solver, OwnEuler(), equation(4), x[:1, :4], paths=paths),
            partial(dl.check_solver, dl.EulerMaruyama(), equation(4), x[:1, :4], paths=paths),
            3.0,
        ),
        Pair(
            "gradients over states, compare, d = 8, both by matrices",
            partial(compare, few, quantity="gradient"),
            partial(compare, few, coupling="pathwise"),
            3.0,
        ),
    )


def extensions(*, quick: bool, repeats: int) -> Workload:
    """Return the workload: two rows a pair, and its floor."""
    rows, targets = [], []
    for pair in pairs(quick):
        pair.theirs(), pair.ours()  # compile, and load
        ours = processor_seconds(pair.ours, repeats)[0]
        theirs = processor_seconds(pair.theirs, repeats)[0]
        rows.append(Row(f"built-in: {pair.name}", ours, "", None, OURS))
        rows.append(Row(pair.name, theirs, f"{theirs / ours:.2f} times as long", None, OURS))
        if pair.floor is not None:
            floor = processor_seconds(pair.floor, repeats)[0]
            words = f"{pair.name}: the blocks built, and nothing else"
            rows.append(Row(words, floor, f"{theirs / floor:.2f} times this", None, FLOOR, pair.name))
        targets.append(Target(f"{pair.name}: over the built-in one", theirs / ours, at_most=pair.at_most))
    setting = f"what a user brings, beside the built-in one, d = {WIDTH} or 8, one thread, processor seconds"
    return Workload("extensions", setting, tuple(rows), {"quick": quick}, tuple(targets))
