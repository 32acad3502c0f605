"""Transformers of attention layers, each the mean of independent heads over L, trained by AdamW.

A gradient by one head has size 1/(LH), with L layers and H heads per layer. AdamW divides by it, so that its
ε is a multiple of 1/(LH) here and its step size depends on neither. Each head then moves as a function of LH
times its gradient, which has a limit. Many networks of one depth and number of heads train at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.measurement import Measurement, Tick
from deeplimit.common.randomness import Purpose, generator

WIDTH, TOKENS, SEQUENCES, STEPS = 4, 3, 2, 3
SIZE = SEQUENCES * TOKENS * WIDTH
"""Coordinates of all outputs of a network."""
PROBES = 64
"""Heads in the middle that are trained with the network and add nothing to it."""
DECAY, BETAS = 0.1, (0.9, 0.999)
TOGETHER = 32
"""Networks that are trained at once. They share their probes, and no others do."""

Heads = dict[str, Tensor]
"""Query, key and value matrices of all heads, each (..., d, d)."""


def drawn(shape: tuple[int, ...], stream: torch.Generator) -> Heads:
    """Return independent heads (..., d, d) with uniform entries of variance 1/d (Xavier)."""
    reach = math.sqrt(3 / WIDTH)
    return {
        name: reach * (2 * torch.rand(*shape, WIDTH, WIDTH, generator=stream, dtype=torch.float64) - 1)
        for name in "QKV"
    }


def attention(h: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return what heads (R, H, d, d) of R networks add to their tokens: (R, H, sequences, tokens, d)."""
    networks, heads = query.shape[:2]
    flat = h.reshape(networks, 1, -1, WIDTH)
    queries, keys = (
        (flat @ each.mT).view(networks, heads, SEQUENCES, TOKENS, WIDTH) for each in (query, key)
    )
    weights = torch.softmax(queries @ keys.mT / math.sqrt(WIDTH), dim=-1)
    return (weights @ h[:, None]) @ value[:, :, None].mT


def forward(x: Tensor, heads: Mapping[str, Sequence[Tensor] | Tensor], scale: float) -> list[Tensor]:
    """Return states before and after each layer of heads (L, R, H, d, d), from tokens x (R, ...)."""
    states = [x]
    for query, key, value in zip(*heads.values(), strict=True):
        states.append(states[-1] + scale * attention(states[-1], query, key, value).sum(1))
    return states


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return half the squared distance of tokens, a mean over sequences and a sum over networks."""
    return (outputs - targets).square().sum() / (2 * SEQUENCES)


@final
class AdamW:
    """Steps of AdamW for parameters of any shape, as in torch.optim."""

    def __init__(self, weights: Heads, rate: float, eps: float) -> None:
        self.weights = {name: weight.clone() for name, weight in weights.items()}
        self.rate, self.eps, self.steps = rate, eps, 0
        self._first, self._second = (
            {name: torch.zeros_like(weight) for name, weight in weights.items()} for _ in range(2)
        )

    def step(self, gradients: Heads) -> None:
        """Take one step."""
        self.steps += 1
        for name, gradient in gradients.items():
            first, second, weight = self._first[name], self._second[name], self.weights[name]
            first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            size = (second / (1 - BETAS[1] ** self.steps)).sqrt_().add_(self.eps)
            weight.mul_(1 - self.rate * DECAY)
            weight.addcdiv_(first, size, value=-self.rate / (1 - BETAS[0] ** self.steps))


@final
@dataclass(frozen=True)
class Setting:
    """How networks are scaled, begin and are trained.

    Attributes:
        name: in words.
        eps: AdamW's ε in units of 1/(L^scale H).
        rate: its step size at scale 1.
        scale: a layer adds the mean of its heads over L^scale. The step size is in proportion to L^(scale-1),
            so that outputs move as much.
        tied: whether all layers begin with one draw of heads.
        uniform: whether queries are 0, so that all tokens have the same weight.
        steps: number of steps.
    """

    name: str
    eps: float
    rate: float
    scale: float = 1.0
    tied: bool = False
    uniform: bool = False
    steps: int = STEPS

    def begin(self, depth: int, heads: int, networks: int, stream: torch.Generator) -> Heads:
        """Return heads before training (L, R, H, d, d)."""
        found = drawn((1 if self.tied else depth, networks, heads), stream)
        if self.uniform:
            found["Q"].zero_()
        return {name: each.expand(depth, *each.shape[1:]) for name, each in found.items()}

    def train(self, heads: Heads, probes: Heads, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Train R networks with heads (L, R, H, d, d) and probes (G, d, d) that add nothing to them.

        Returns:
            Outputs and gradients of the loss by the tokens before the first layer, both (R, SIZE), and
            displacements of the probes (R, ...).
        """
        depth, networks, count = heads["Q"].shape[:3]
        share, middle = 1 / (depth**self.scale * count), depth // 2
        rate = self.rate * depth ** (self.scale - 1)
        trained = AdamW(heads, rate, self.eps)
        followed = AdamW(
            {name: each.expand(networks, *each.shape) for name, each in probes.items()}, rate, self.eps
        )
        for step in range(self.steps + 1):
            layers = {
                name: [w.requires_grad_() for w in each.unbind()] for name, each in trained.weights.items()
            }
            states = forward(x.expand(networks, *x.shape).clone().requires_grad_(), layers, share)
            wanted = [states[0], states[middle + 1], *(w for each in layers.values() for w in each)]
            first, above, *found = torch.autograd.grad(loss(states[-1], targets), wanted)
            trained.weights = {name: each.detach() for name, each in trained.weights.items()}
            if step == self.steps:
                break
            leaves = {name: each.requires_grad_() for name, each in followed.weights.items()}
            added = attention(states[middle].detach(), *leaves.values())
            by_probes = torch.autograd.grad((added * above[:, None]).sum(), [*leaves.values()])
            followed.weights = {name: each.detach() for name, each in leaves.items()}
            followed.step(dict(zip(leaves, by_probes, strict=True)))
            trained.step(
                {
                    name: torch.stack(found[place * depth : (place + 1) * depth]).div_(share)
                    for place, name in enumerate(layers)
                }
            )
        moved = torch.stack([followed.weights[name] - probes[name] for name in probes], dim=1)
        return states[-1].detach().flatten(1), first.flatten(1), moved.flatten(1)


Cells = tuple[tuple[int, int], ...]
"""Depths L and numbers of heads H."""


@final
@dataclass(frozen=True)
class Spread:
    """Trained networks of one depth and number of heads.

    Attributes:
        outputs, gradients: by network (R, SIZE).
        probes: mean squared distance of displacements of probes to their mean, for each group of networks
            that share them (R / TOGETHER,).
    """

    outputs: np.ndarray
    gradients: np.ndarray
    probes: np.ndarray


def tokens_and_targets(seed: int) -> Tensor:
    """Return tokens and targets (2, sequences, tokens, d)."""
    stream = generator(seed, Purpose.DATA_INPUTS)
    return torch.randn(2, SEQUENCES, TOKENS, WIDTH, generator=stream, dtype=torch.float64)


def squares(values: np.ndarray) -> np.ndarray:
    """Return mean squared distances of values (R, k) to their mean (R,); their own mean is unbiased."""
    count = len(values)
    found: np.ndarray = ((values - values.mean(axis=0)) ** 2).mean(axis=1) * count / (count - 1)
    return found


@final
@dataclass(frozen=True)
class Transformers(Measurement[np.ndarray, list[Spread]]):
    """Networks in one setting, with `repeats` of them for each cell (L, H)."""

    setting: Setting
    cells: Cells
    repeats: int
    seed: int

    what: ClassVar[str] = "trained transformers"

    @property
    def blocks(self) -> int:
        """One block per cell."""
        return len(self.cells)

    def key(self) -> dict[str, object]:
        """Return what decides the numbers."""
        return {
            "setting": {name: getattr(self.setting, name) for name in Setting.__dataclass_fields__},
            "cells": [list(cell) for cell in self.cells],
            "repeats": self.repeats,
            "seed": self.seed,
            "device": str(self.device),
        }

    def run(self, block: int, tick: Tick | None = None) -> np.ndarray:
        """Return outputs, gradients and the group's squares of probes, side by side (R, 2 SIZE + 1)."""
        depth, heads = self.cells[block]
        x, targets = tokens_and_targets(self.seed).to(self.device)
        parts = []
        for index in range(self.repeats // TOGETHER):
            place = depth * 2**12 + heads, index
            begun = self.setting.begin(
                depth, heads, TOGETHER, generator(self.seed, Purpose.TRAINED_WEIGHTS, *place)
            )
            probes = drawn((PROBES,), generator(self.seed, Purpose.PROBE, *place))
            trained = self.setting.train(_to(begun, self.device), _to(probes, self.device), x, targets)
            outputs, gradients, moved = (each.cpu().numpy() for each in trained)
            spread = np.full((TOGETHER, 1), squares(moved).mean())
            parts.append(np.concatenate([outputs, gradients, spread], axis=1))
            if tick is not None:
                tick(TOGETHER / self.repeats)
        return np.concatenate(parts)

    def merge(self, parts: Iterator[np.ndarray]) -> list[Spread]:
        """Return the networks of each cell."""
        return [Spread(part[:, :SIZE], part[:, SIZE:-1], part[::TOGETHER, -1]) for part in parts]


def _to(heads: Heads, device: torch.device) -> Heads:
    return {name: each.to(device) for name, each in heads.items()}
