"""Configurations of networks as compact rows, and what forward hooks measure of them without any graph.

A row says by name which modules are residual branches. A layout is a dict from a stem to a text of kinds,
"KIND=UPDATE<STREAM|TIMES^EXPONENT" with blanks between them:

* KIND: name of the kind below the stem, as a report prints it; "-" for the stem itself.
* UPDATE: module whose output is added to the stream; left out, it is KIND.
* STREAM: module whose first input is the stream before the sum; "-" for the stem itself.
* TIMES: number that multiplies the update; left out, 1.
* EXPONENT: of the update's size in 1/depth; left out, 0; "inf" for a branch that starts from zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

import deeplimit as dl
from deeplimit.common.global_state import seeded

Layout = dict[str, str]


@dataclass(frozen=True)
class Kind:
    """One kind of branch, and the modules at which hooks see it."""

    name: str
    update: re.Pattern[str]
    stream: re.Pattern[str]
    times: float
    exponent: float


@dataclass(frozen=True)
class Configuration:
    """A network that follows its rule.

    near: relative distance up to which ratios are equal; where two branches are added one after the other
        to what a single norm saw, the second one's stream passes through no module.
    opening: blocks with projected shortcuts, which open a stage: they count, and have no ratio.
    """

    name: str
    factory: Callable[[int], nn.Module]
    batch: Callable[[], Any]
    layout: Layout
    expected: float | str | dl.Rule = 0.0
    depths: tuple[int, ...] = (2, 4, 8)
    near: float = 2e-3
    opening: int = 0

    @property
    def kinds(self) -> list[Kind]:
        return [kind for stem, text in self.layout.items() for kind in read(stem, text)]


def read(stem: str, text: str) -> Iterator[Kind]:
    """Yield the kinds that the text of a layout lists."""
    for word in text.split():
        rest, _, exponent = word.partition("^")
        rest, _, times = rest.partition("|")
        rest, _, stream = rest.partition("<")
        kind, _, update = rest.partition("=")
        yield Kind(
            starred(below(stem, kind)),
            pattern(below(stem, update or kind)),
            pattern(below(stem, stream)),
            float(times or 1.0),
            float(exponent or 0.0),
        )


def below(stem: str, name: str) -> str:
    return stem if name == "-" else f"{stem}.{name}".strip(".")


def pattern(name: str) -> re.Pattern[str]:
    return re.compile(name.replace(".", r"\.").replace("*", "[^.]+") + "$")


def starred(name: str) -> str:
    """A kind's name with a star for every number, and without the number that tells like names apart."""
    return re.sub(r"\d+", "*", re.sub(r" \(\d+\)$", "", name))


def tensor(value: Any) -> torch.Tensor | None:
    """The first floating tensor in what a module takes or returns."""
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() else None
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((found for one in values if (found := tensor(one)) is not None), None)


def size(value: torch.Tensor) -> float:
    return float(value.detach().double().square().mean().sqrt())


Sizes = dict[str, list[tuple[float, float]]]


def hooked(configuration: Configuration, depth: int, seed: int, *, noise: bool = False) -> Sizes:
    """Return for each kind the sizes of update and stream, layer by layer, as forward hooks see them.

    With `noise` every branch is given the same normals instead of its stream. What then depends on depth is
    the branch alone: tokens become more alike from layer to layer, and attention adds more for it.
    """
    kinds = configuration.kinds
    updates: dict[str, list[float]] = {kind.name: [] for kind in kinds}
    streams: dict[str, list[float]] = {kind.name: [] for kind in kinds}
    with seeded(seed):
        model = configuration.factory(depth).eval()
    for name, module in model.named_modules():
        module.training = isinstance(module, _BatchNorm)
        for kind in kinds:
            if kind.stream.match(name):
                module.register_forward_pre_hook(_entering(streams[kind.name], noise), with_kwargs=True)
            if kind.update.match(name):
                module.register_forward_hook(_leaving(updates[kind.name], kind.times))
    batch = configuration.batch()
    args, kwargs = (
        ((), batch) if isinstance(batch, dict) else (batch if isinstance(batch, tuple) else (batch,), {})
    )
    with seeded(seed):
        model(*args, **kwargs)
    return {kind.name: list(zip(updates[kind.name], streams[kind.name], strict=True)) for kind in kinds}


def _entering(sizes: list[float], noise: bool) -> Callable[..., Any]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stream = tensor([args, kwargs])
        assert stream is not None, "a hook saw no floating tensor"
        if not noise:
            sizes.append(size(stream))
            return None
        drawn = torch.randn(stream.shape, generator=torch.Generator().manual_seed(0)).to(stream)
        drawn = drawn.abs() if float(stream.detach().min()) >= 0 else drawn
        sizes.append(size(drawn))

        def swapped(value: Any) -> Any:
            return drawn if value is stream else value

        return tuple(map(swapped, args)), {name: swapped(value) for name, value in kwargs.items()}

    return hook


def _leaving(sizes: list[float], times: float) -> Callable[..., None]:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        update = tensor(output)
        assert update is not None, "a hook saw no floating tensor"
        sizes.append(times * size(update))

    return hook


def root_mean_square(values: list[float]) -> float:
    return math.sqrt(sum(value**2 for value in values) / len(values))


def slope(depths: tuple[int, ...], sizes: list[list[float]]) -> tuple[float, float]:
    """Return the exponent of sizes ~ depth**-exponent and its standard error; inf where sizes are zero.

    sizes: one list per depth, an entry per layer. Layers of one depth scatter alike at every depth.
    """
    if max(map(max, sizes)) == 0:
        return math.inf, 0.0
    x, y = np.log(depths), np.log([root_mean_square(layers) for layers in sizes])
    scatter = np.mean([np.var(np.square(layers) / np.mean(np.square(layers))) for layers in sizes[1:]])
    distances = x - x.mean()
    errors = np.array([scatter / 4 / len(layers) for layers in sizes])
    total = np.sum(distances**2)
    return -float(np.sum(distances * y) / total), float(np.sqrt(np.sum(distances**2 * errors)) / total)
