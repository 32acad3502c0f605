"""`identify`: networks are built at several depths, their updates measured, and the limit named."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default, seeded
from deeplimit.common.measurement import Progress, in_one_pass, part_of
from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.verdict import BlockLimitVerdict, judge, said
from deeplimit.judge.block_limit import verdict, wording
from deeplimit.judge.block_limit.in_law import after_a_jump, beside, ode_distances
from deeplimit.judge.block_limit.measure import AtDepth, coordinates, moments, size_power, updates
from deeplimit.judge.block_limit.reading import Stack, as_module, check_inputs, growing_list, read
from deeplimit.judge.block_limit.report import IdentifiedLimit
from deeplimit.judge.block_limit.scaling import Power, of_alignment, of_draws, power_of
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.trace.side_effects import threads_for
from deeplimit.version import versions

LEAST_DRAWS = 16
"""Fewer networks leave the variance of a sum uncertain by more than a third."""

DIFFUSIONS = (BlockLimitVerdict.ISOTROPIC_SDE, BlockLimitVerdict.NEURAL_SDE)
"""Limits whose noise may depend on the size of the state."""
OF_NETWORKS = 0.3
"""Fraction done once all networks are measured, where a limit is drawn afterwards: of perceptrons of width 32
and attention over 16 tokens this took about so much of the time."""


@by_default
def identify(
    factory: Callable[[int], Any],
    x: Any = None,
    *,
    depths: Sequence[int] = (8, 16, 32, 64),
    draws: int = 48,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> IdentifiedLimit:
    """Find out which residual exponent and which infinite-depth limit a stack of torch blocks has.

    At every depth, `draws` networks are built. All their blocks are given the same states, and what they add
    is measured: mean, covariance, correlation over layers and between inputs. Where the powers of the depth
    allow one limit, it is drawn from the measured mean and covariance, or solved through the layers, and
    compared with the networks. A limit is named only where parts and whole agree.

    Args:
        factory: Function of a depth that returns the blocks in order (`nn.Sequential`, `nn.ModuleList`,
            list), or a module with one list of blocks, or of branches that its forward adds, as long as the
            depth; or one whose forward writes its layers out, h = h + w[k] @ tanh(h).
        x: Input of the module: a tensor (n, *shape), a tuple of arguments or a dict of keyword arguments.
            Left out, it is made up from the module's configuration or its first layer.
        depths: At least three increasing depths.
        draws: Networks per depth, at least 16.
        confidence: Level of the exponents' intervals.
        seed: Seed of everything random; global generators are left as they were.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        An `IdentifiedLimit`: `verdict`, `exponent` with its interval, `equation` with the measured constants,
        the moments, the distance in law.

    Raises:
        TypeError: For a factory that is not a function or does not return modules.
        ValueError: For too few depths or draws, and for a module whose blocks are not found or not run in
            order.

    What the factory or a block raises comes through.

    Not checked: states far from those of the networks that were built; training mode; batch statistics, of
    which running ones are used; the gradient, which `stability` measures.

    Examples:
        >>> import torch, deeplimit as dl
        >>> class Block(torch.nn.Module):
        ...     def __init__(self, depth):
        ...         super().__init__()
        ...         self.linear, self.scale = torch.nn.Linear(8, 8, bias=False), depth**-0.5
        ...         torch.nn.init.normal_(self.linear.weight, std=8**-0.5)
        ...     def forward(self, h):
        ...         return h + self.scale * self.linear(torch.tanh(h))
        >>> found = dl.identify(lambda depth: [Block(depth) for _ in range(depth)], depths=(4, 8, 16))
        >>> found.verdict, round(found.exponent, 1)
        ('isotropic SDE', 0.5)
    """
    started, given = time.perf_counter(), {**locals()}
    with (
        contextlib.ExitStack() as restored,
        in_one_pass(progress, "identify") as move,
    ):
        found = _identified(factory, x, depths, draws, confidence, seed, restored, started, move)
    return found.called_by("identify", given)


AGAIN = "law_is_another_one"
"""The rule that is looked at once more, with other networks: of 57 calls on a right limit one was refused."""


def _identified(
    factory: Callable[[int], Any],
    x: Any,
    depths: Sequence[int],
    draws: int,
    confidence: float,
    seed: int,
    restored: contextlib.ExitStack,
    started: float,
    move: Progress,
) -> IdentifiedLimit:
    checked, first = validation.depths(depths, at_least=3), validation.seed(seed)
    many = validation.integer(draws, "draws", minimum=LEAST_DRAWS, maximum=10_000)
    level = validation.probability(confidence, "confidence")
    if isinstance(factory, nn.Module) or not callable(factory):
        raise TypeError(
            "factory must be a function of the depth that returns a stack of blocks, got"
            f" {validation.named(factory)}."
        )
    models = [_built(factory, depth, first, restored) for depth in checked]
    where, name = growing_list(models), type(models[-1]).__name__
    batch = as_batch(models[0], x, "x")
    check_inputs(batch, x)
    restored.enter_context(threads_for(models[-1]))
    del models
    stream, random = generator(first, Purpose.BLOCKS), np.random.default_rng(first)
    seeds = torch.randint(2**62, (len(checked), many), generator=stream).tolist()
    kept: tuple[Stack, ...] = ()
    taken: list[AtDepth] = []
    odes: list[np.ndarray] = []
    lost, done, whole = 0.0, 0.0, 0
    shared: torch.Tensor | None = None
    chosen: torch.Tensor | None = None
    for depth, row in zip(checked, seeds, strict=True):
        stacks = []
        for each in row:
            stacks.append(read(_built(factory, depth, each, restored), where, batch, depth))
            done += depth / (many * sum(checked))
            move(OF_NETWORKS * done)
        finite = tuple(stack for stack in stacks if bool(torch.isfinite(stack.states[-1]).all()))
        lost, whole = 1 - len(finite) / many, len(stacks[0].blocks)
        if len(finite) < LEAST_DRAWS:
            break
        kept = tuple(after_a_jump(finite))
        # States differ in what layers add to them: all depths are given the same ones. After one layer they
        # are normalised where all later states are.
        shared = kept[0].states[1] if shared is None else shared
        chosen = coordinates(shared, stream) if chosen is None else chosen
        size = float(shared.flatten(1)[:, chosen].double().square().sum(dim=1).mean())
        if size == 0 or not math.isfinite(size):
            raise ValueError(
                f"x must give states of finite size that are not zero; at depth {depth} it is {size:g}."
            )
        taken.append(moments([updates(stack, shared, chosen) for stack in kept], kept, size, random))
        odes.append(ode_distances(kept))
    if not taken:
        raise ValueError(
            f"factory must build networks whose states are finite; at depth {checked[0]} {lost:.0%} are not."
            " Start with smaller depths."
        )
    evidence = evidence_of(taken, odes, lost, level)
    if verdict.may_diffuse(evidence):
        part = part_of(move, OF_NETWORKS, 1.0)
        drawn = beside(kept, evidence.may_drift, stream, random, part)
        evidence = dataclasses.replace(evidence, beside=drawn)
    judged = judge(verdict.limit, evidence)
    if judged.rule == AGAIN:
        seeds = torch.randint(2**62, (many,), generator=stream).tolist()
        deepest = checked[-1]
        other = after_a_jump(
            [read(_built(factory, deepest, each, restored), where, batch, deepest) for each in seeds]
        )
        drawn = beside(other, evidence.may_drift, stream, random)
        judged = judge(verdict.limit, evidence := dataclasses.replace(evidence, beside=drawn))
    grows = (
        size_power(kept, shared, chosen, taken[-1].squares * size)
        if judged.code in DIFFUSIONS and shared is not None and chosen is not None
        else math.nan
    )
    return IdentifiedLimit(
        verdict=judged.code,
        rule=judged.rule,
        reason=said(judged, wording.REASONS) + wording.AFTER_A_JUMP * (len(kept[0].blocks) < whole),
        model=name,
        depths=np.array(checked[: len(taken)]),
        draws=many,
        confidence=level,
        seed=first,
        seconds=time.perf_counter() - started,
        versions=versions(),
        size_power=round(grows, 3),  # a power of 0 comes out as round-off, of another size on each machine
        state_size=math.nan
        if shared is None
        else float(shared.flatten(1).double().square().sum(1).mean().sqrt()),
        **_numbers(evidence, odes),
    )


def _built(factory: Callable[[int], Any], depth: int, seed: int, restored: contextlib.ExitStack) -> nn.Module:
    """Return what a factory builds, in evaluation mode until `restored` ends: it may hold what it returns."""
    with seeded(seed), validation.noted(f"deeplimit called the factory with depth {depth}."):
        built = as_module(factory(depth), depth)
    for module in built.modules():
        restored.callback(setattr, module, "training", module.training)
    return built.eval()


def evidence_of(
    taken: Sequence[AtDepth], odes: Sequence[np.ndarray], lost: float, level: float
) -> verdict.Evidence:
    """Return what the verdict rests on, but for the comparison in law."""
    blocks = [one.blocks for one in taken]
    drift = power_of(
        blocks, [one.drift for one in taken], [one.drift_error + one.drift_noise for one in taken], level
    )
    # A mean below its error at some depth has no power there.
    drift = drift if all(one.drift > 2 * one.drift_noise for one in taken) else None
    noise = of_draws(taken, lambda one: one.spreads, level)
    distances = [float(each.mean()) for each in odes]
    return verdict.Evidence(
        taken=tuple(taken),
        size=_of_one_update(taken, drift, noise, level),
        noise=noise,
        alignment=of_alignment(taken, level),
        drift=drift,
        displacement=of_draws(taken, lambda one: one.displacement, level, root=False),
        growth=of_draws(taken, lambda one: one.growth, level, root=False),
        concentration=of_draws(taken, lambda one: one.concentration, level, root=False),
        ode=power_of(blocks, distances, [0.1 * each for each in distances], level, root=False),
        ode_distance=distances[-1],
        beside=None,
        lost=lost,
    )


def _of_one_update(
    taken: Sequence[AtDepth], drift: Power | None, noise: Power | None, level: float
) -> Power | None:
    """Return the power of the size of one update about its mean; of its mean where fluctuations vanish.

    Both together have no power of the depth where they scale differently.
    """
    vanish = noise is None or noise.falls or float(taken[-1].spreads.mean()) < 1e-12 * taken[-1].drift
    if drift is not None and vanish:
        return Power(drift.exponent - 1, drift.low - 1, drift.high - 1)
    about_mean = of_draws(taken, lambda one: one.apart / one.blocks, level)
    return about_mean or of_draws(taken, lambda one: one.squares, level)


def _numbers(e: verdict.Evidence, odes: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the report's numbers."""

    def ends(power: Power | None) -> tuple[float, tuple[float, float]]:
        return (
            (math.nan, (math.nan, math.nan)) if power is None else (power.exponent, (power.low, power.high))
        )

    exponent, (low, high) = ends(e.size)
    noise, drift, alignment = ends(e.noise if e.varies else None), ends(e.drift), ends(e.alignment)
    seen = [max(one.drift, 0.0) if one.drift > 2 * one.drift_noise else 0.0 for one in e.taken]
    found = e.beside
    none = np.zeros(0)
    return {
        "exponent": -exponent,
        "exponent_interval": (-high, -low),
        "blocks": np.array([one.blocks for one in e.taken]),
        "update_sizes": np.sqrt([one.squares.mean() for one in e.taken]),
        "fluctuations": np.sqrt([one.spreads.mean() for one in e.taken]),
        "drifts": np.sqrt(seen),
        "fluctuation_exponent": noise[0],
        "fluctuation_interval": noise[1],
        "drift_exponent": drift[0],
        "drift_interval": drift[1],
        "alignments": np.array(
            [one.spreads.mean() / one.apart.mean() if one.apart.mean() > 0 else math.nan for one in e.taken]
        ),
        "alignment_exponent": alignment[0],
        "alignment_interval": alignment[1],
        "lags": np.array(e.deepest.lags, dtype=np.int64),
        "correlations": np.array(e.deepest.correlations),
        "anisotropy": e.deepest.anisotropy,
        "displacements": np.array([one.displacement.mean() for one in e.taken]),
        "growths": np.array([one.growth.mean() for one in e.taken]),
        "turned": np.array([one.turned.mean() for one in e.taken]),
        "inputs_before": np.array([one.inputs_start for one in e.taken]),
        "inputs_after": np.array([one.inputs_end for one in e.taken]),
        "features": () if found is None else found.features,
        "distances": none if found is None else found.distances,
        "p_values": none if found is None else found.p_values,
        "ode_distances": np.array([float(each.mean()) for each in odes]),
    }
