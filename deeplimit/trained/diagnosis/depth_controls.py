"""What noise over layers does for a trained network, asked of the network itself."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.randomness import Purpose, generator
from deeplimit.trained.diagnosis.depth_controls_report import (
    FEW,
    HALF,
    MOVED,
    NEW,
    OFF,
    ORDER,
    TREND,
    UNMATCHED,
    Control,
    DepthControls,
)
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.replaceable import Layers, Replaceable, replaceable
from deeplimit.trained.diagnosis.replaceable_functions import FunctionLayers
from deeplimit.trained.diagnosis.smoother import compare_models, smoothed, smoothing
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.version import versions

Split = Mapping[str, tuple[torch.Tensor, torch.Tensor]]
"""Trend and noise (L, ...) of each weight."""


@by_default
def depth_controls(
    weights: nn.Module | Mapping[str, Any],
    evaluate: Callable[[Any], float],
    *,
    only: str | None = None,
    layers: str | None = None,
    batch: Any = None,
    halve: bool = False,
    draws: int = 8,
    tolerance: float = 0.1,
    seed: int = 0,
) -> DepthControls:
    """Replace a network's layers in ways that tell what their trend and their noise do, and evaluate each.

    Weights are split into a trend over depth and noise around it (`diagnosis.smoother`). The network is then
    evaluated with its branches off; with the trend alone; with its noise moved to other layers; with new
    noise of the same covariance; with whole layers in another order; and, where few layers have nearly all
    of the squares, with these alone. If new noise does as well as the network's, the noise matters by its law
    alone: it may be read as that of an SDE.

    Args:
        weights: a module; or a dict of stacks A (L, ...), with b (L, d) and delta, () or (L,), where given.
        evaluate: function of a network of the same kind that returns a number, such as its loss. It is given
            copies, never `weights` itself.
        only: pattern of the weights to split, such as "*.proj.weight"; all by default. Entries of different
            layers must be matched, which those of inner weights are not (docs/trained-networks.md).
        layers: name of the layers with {} for their number, where names leave it open.
        batch: inputs of a module's forward. Then its blocks are replaced as functions of their state, by
            combinations of what other blocks add, and the order of hidden units does not matter. A forward
            takes L times as long.
        halve: whether to evaluate stacks at half the depth, too: weights averaged over pairs of layers,
            factors `delta` doubled. Then `evaluate` must take any depth.
        draws: how often noise and layers are drawn.
        tolerance: by which part of the original number a change is harmless; where that is 0, of the change
            with branches off.
        seed: of these draws.

    Returns:
        The numbers of all controls, with a reading.

    Raises:
        TypeError: For weights of another kind, and where `evaluate` does not return a number.
        ValueError: For weights without layers, a pattern that no weight matches, `halve` for a module, a
            batch of stacks, blocks whose forward does more than to add what they return, and wrong numbers.

    Not checked: that entries of different layers are matched, that noise is independent from layer to layer,
    and that `evaluate` has no memory.

    Examples:
        >>> import torch, deeplimit as dl
        >>> times = torch.arange(32, dtype=torch.float64)[:, None, None] / 32
        >>> noise = torch.randn(32, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> weights = dict(A=torch.cos(times) * torch.eye(4) + 0.1 * noise)
        >>> found = dl.depth_controls(weights, lambda stacks: stacks["A"].mean(0).square().sum())
        >>> found.reading
        'trend alone'
    """
    start, given = time.perf_counter(), {**locals()}
    count = validation.integer(draws, "draws", minimum=1)
    allowed = validation.real(tolerance, "tolerance", above=0.0, hint="it is a part of the original number.")
    seed = validation.seed(seed)
    halve = validation.flag(halve, "halve")
    validation.function(evaluate, "evaluate", "a function of a network that returns a number")
    network = _network(weights, layers, batch)
    chosen = network.chosen(only)
    trends = {name: _trend(network.measured(name)) for name in chosen}
    split = {name: _split(each, trends[name]) for name, each in chosen.items()}
    stream = generator(seed, Purpose.DEPTH_CONTROLS)
    random: dict[str, Callable[[], Layers]] = {
        MOVED: lambda: _moved(split, chosen, stream),
        NEW: lambda: _drawn_again(split, chosen, stream),
        ORDER: lambda: _reordered(network.stacks, stream),
    }
    original = _number(evaluate, network.with_layers({}), "itself")
    found = [
        Control(OFF, (_number(evaluate, network.with_layers(network.off()), "its branches off"),)),
        Control(TREND, (_number(evaluate, network.with_layers(_trends(split)), "its trend alone"),)),
    ]
    for name, draw in random.items():
        numbers = tuple(_number(evaluate, network.with_layers(draw()), name) for _ in range(count))
        found.append(Control(name, numbers))
    largest = _largest(network, chosen)
    if largest:
        alone = {name: _all_but(network.stacks[name], largest) for name in network.off()}
        found.append(Control(FEW, (_number(evaluate, network.with_layers(alone), FEW),)))
    if halve:
        found.append(Control(HALF, (_number(evaluate, network.halved(), HALF),)))
    report = DepthControls(
        original=original,
        controls=tuple(found),
        tolerance=allowed,
        noise_share={name: _noise_share(network.measured(name), matrix) for name, matrix in trends.items()},
        depth=network.depth,
        seed=seed,
        seconds=time.perf_counter() - start,
        versions=versions(),
        reservations=tuple(f"{name} is left as it is: {reason}" for name, reason in network.left_out.items()),
        largest=tuple(largest),
    )
    hidden = sum(each.values.ndim > 2 for each in chosen.values()) > 1
    if hidden and report.reading in ("", ORDER):
        report = dataclasses.replace(report, reservations=(*report.reservations, UNMATCHED))
    return report.called_by("depth_controls", given)


MOST = 0.99
"""Layers with this part of all squares are evaluated alone, if they are few."""
FEWEST = 0.5
"""Few are at most this part of all layers."""


def _largest(network: Replaceable, chosen: Mapping[str, Stack]) -> list[int]:
    """Return the layers that make up `MOST` of the squares, if they are few and stacks have one depth.

    A layer's size is the product of the norms of its matrices, or of all it has where it has none.
    """
    measured = [network.measured(name) for name in chosen]
    if len({each.depth for each in (*measured, *network.stacks.values())}) > 1:
        return []
    matrices = [each for each in measured if each.values.ndim > 2] or measured
    squares = torch.stack([each.values.reshape(each.depth, -1).square().sum(1) for each in matrices])
    sizes = (squares / squares.sum(1, keepdim=True)).prod(0)
    if not sizes.sum() > 0:  # no layer has all of its matrices
        return []
    order = sizes.argsort(descending=True)
    parts = sizes[order].cumsum(0) / sizes.sum()
    count = int((parts < MOST).sum()) + 1
    return sorted(order[:count].tolist()) if count <= FEWEST * len(sizes) else []


def _all_but(each: Stack, kept: list[int]) -> torch.Tensor:
    """Return layers (L, ...) that are zero but for those kept."""
    values = torch.zeros_like(each.values)
    values[kept] = each.values[kept]
    return values


def _network(weights: Any, layers: str | None, batch: Any) -> Replaceable:
    if batch is None:
        return replaceable(weights, layers)
    if not isinstance(weights, nn.Module):
        raise ValueError(f"batch is for modules, and weights is {validation.named(weights)}. Leave it out.")
    return FunctionLayers(weights, batch, layers)


def _trend(each: Stack) -> torch.Tensor:
    """Return the matrix (L, L) that makes a weight's trend of its layers."""
    return smoothing(each, compare_models(LayerGram.of(each)).trend)


def _split(each: Stack, matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return trend and noise (L, ...) of one weight."""
    trend = smoothed(each, matrix).values
    return trend, each.values - trend


def _noise_share(each: Stack, matrix: torch.Tensor) -> float:
    trend, noise = _split(each, matrix)
    return float(noise.square().sum() / (trend + noise).square().sum())


def _trends(split: Split) -> Layers:
    return {name: trend for name, (trend, _) in split.items()}


def _moved(split: Split, stacks: Mapping[str, Stack], stream: torch.Generator) -> Layers:
    """Return trends with the noise of other layers, the same ones for all weights."""
    orders = _orders(stacks, stream)
    return {name: trend + noise[orders[stacks[name].depth]] for name, (trend, noise) in split.items()}


def _reordered(stacks: Mapping[str, Stack], stream: torch.Generator) -> Layers:
    """Return whole layers in another order, the same one for all weights."""
    orders = _orders(stacks, stream)
    return {name: each.values[orders[each.depth]] for name, each in stacks.items()}


def _drawn_again(split: Split, stacks: Mapping[str, Stack], stream: torch.Generator) -> Layers:
    """Return trends with new noise: random rotations within groups of layers keep covariances."""
    turns: dict[tuple[int, ...], torch.Tensor] = {}
    found = {}
    for name, (trend, noise) in split.items():
        groups = stacks[name].groups or (0,) * len(noise)
        if groups not in turns:
            turns[groups] = _rotation(groups, stream)
        turned = turns[groups].to(noise.dtype) @ noise.reshape(len(noise), -1)
        found[name] = trend + turned.reshape(noise.shape)
    return found


def _rotation(groups: tuple[int, ...], stream: torch.Generator) -> torch.Tensor:
    """Return a random orthogonal matrix (L, L) that mixes layers of one group only."""
    turn = torch.zeros(len(groups), len(groups), dtype=torch.float64)
    for label in dict.fromkeys(groups):
        places = torch.tensor([k for k, group in enumerate(groups) if group == label])
        normal = torch.randn(len(places), len(places), generator=stream, dtype=torch.float64)
        orthogonal, upper = torch.linalg.qr(normal)
        turn[places[:, None], places] = orthogonal * upper.diagonal().sign()
    return turn


def _orders(stacks: Mapping[str, Stack], stream: torch.Generator) -> dict[int, torch.Tensor]:
    """Return a random order of layers (L,) for each L; layers stay in their group in all weights."""
    found = {}
    for depth in sorted({each.depth for each in stacks.values()}):
        groups = [each.groups or (0,) * depth for each in stacks.values() if each.depth == depth]
        labels = [*zip(*groups, strict=True)]
        order = torch.arange(depth)
        for label in dict.fromkeys(labels):
            places = torch.tensor([k for k in range(depth) if labels[k] == label])
            order[places] = places[torch.randperm(len(places), generator=stream)]
        found[depth] = order
    return found


def _number(evaluate: Callable[[Any], Any], network: Any, what: str) -> float:
    with validation.noted(f"deeplimit called evaluate with the network with {what}."):
        value = evaluate(network)
    try:
        number = float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"evaluate must return a number, got {validation.named(value)} for the network with {what};"
            " float(loss), say."
        ) from error
    if math.isnan(number):
        raise ValueError(
            f"evaluate must return a number, got NaN for the network with {what}; return math.inf where a"
            " network diverges."
        )
    return number
