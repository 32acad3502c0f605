"""The strong order as steps vanish, from a few steps that are far shorter than those of any run.

At small noise a part of order 1/2 lies hidden below one of order 1 up to many thousand steps, and no fit to
their errors shows it. What fluctuates of the error of single steps of length h falls like h^(r + 1/2), r the
order of the part of the error that fluctuates (Milstein & Tretyakov 2004, Theorem 1.1), and h may be 2^-32.
The solver's order is r, or less where a part that keeps its direction falls more slowly. Not measured where a
solver does not take a short interval of time, such as one that takes all times for those of [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator
from deeplimit.judge.solver.runs import FINER, PER_STEP, Plan, starts
from deeplimit.judge.solver.shared_path import SharedBrownian, draw
from deeplimit.statistics.consecutive import ROUNDED

LENGTHS = tuple(2.0**-k for k in (8, 14, 20, 26, 32))
"""Lengths of steps. From one to the next what hides a part that falls half an order more slowly shrinks by 8:
of a noise of 0.03 beside a drift of 1 local orders are .92, .59, .502, .5000 between them."""
BEGIN, BEFORE = 0.5, 64
"""Time at which they begin, in binary numbers exactly, and how many usual steps lead there."""
STATES, NOISES = 16, 16
"""Typical states, and pairs of opposite noises from each, between which all odd moments vanish exactly."""
FEW, MANY = 2, 8
"""How many steps are taken: what fluctuates of many must be the larger one, or it is of the first step alone,
as where a method of several steps begins with another method."""
GROWS = 1.4
"""Factor by which it must be: independent steps give 2, the first one alone 1."""
SETTLED = 0.05
"""Local orders of the shortest steps that differ by this much are on their way still."""
LEAST = 0.25
"""An order below this, half of the lowest one of a solver in use, is that of round-off, as of float32."""
SPARE = 0.005
"""What an order is allowed to be off by beside the last change: at most .0001 in 24 schemes and equations."""


@dataclass(frozen=True)
class SingleSteps:
    """What single steps show: the order of what fluctuates, and how far off it may be."""

    order: float
    within: float

    @property
    def interval(self) -> tuple[float, float]:
        """Its interval, at any level that is in use: hardly anything of it is chance."""
        return self.order - self.within, self.order + self.within


def single_steps(plan: Plan) -> SingleSteps | None:
    """Return what single steps of a plan's solver show; None where that is not to be had."""
    if not plan.random:
        return None
    try:
        states = _typical_states(plan)
        if not bool(torch.isfinite(states).all()):
            return None
        sizes = np.array([_of_length(plan, states, length, MANY) for length in LENGTHS])
        round_off = ROUNDED * torch.finfo(states.dtype).eps * max(1.0, float(states.abs().max()))
        count = int(np.argmin(np.append(sizes > round_off, False)))
        if count < 3:
            return None
        few = _of_length(plan, states, LENGTHS[count - 1], FEW)
    except Exception:  # noqa: BLE001  # whatever a user's solver raises of times that it does not take
        return None
    octaves = np.log(LENGTHS[:-1]) - np.log(LENGTHS[1:])
    orders = np.log(sizes[:-1] / sizes[1:])[: count - 1] / octaves[: count - 1] - 0.5
    change = abs(float(orders[-1] - orders[-2]))
    is_clear = change < SETTLED and orders[-1] > LEAST and sizes[count - 1] > GROWS * few
    return SingleSteps(float(orders[-1]), change + SPARE) if is_clear else None


def _typical_states(plan: Plan) -> Tensor:
    """Return states (STATES, d) at BEGIN, of usual steps of a known scheme from the initial states."""
    stream, length = generator(plan.seed, Purpose.SOLVER_STEPS, 0), BEGIN / BEFORE
    h = starts(plan.x, 0, STATES)
    with torch.no_grad():
        for k in range(BEFORE):
            noise = torch.randn(STATES, plan.motions, generator=stream, dtype=h.dtype)
            h = plan.reference_scheme.step(plan.equation, k * length, length, h, math.sqrt(length) * noise)
    return h


def _of_length(plan: Plan, states: Tensor, length: float, steps: int) -> float:
    """Return the size of what fluctuates of the change when `steps` steps are halved."""
    brownian = _short_path(plan, length, steps)
    x = states.repeat_interleave(2 * NOISES, 0)
    ends = []
    for count in (steps, 2 * steps):
        times = BEGIN + length * steps / count * torch.arange(count + 1, dtype=torch.float64)
        with torch.no_grad():
            got: Any = plan.solver.run(plan.equation, x.clone(), brownian, times)
        ends.append((got if got.shape == x.shape else got[-1]).double())
    change = (ends[1] - ends[0]).view(STATES, 2 * NOISES, -1)
    change = change - change.mean(dim=1, keepdim=True)
    return float(change.square().sum(-1).mean().sqrt())


def _short_path(plan: Plan, length: float, steps: int) -> SharedBrownian:
    """Return the path of so many steps: the first part of one path, scaled to the length of the steps."""
    shape, finer = (STATES * NOISES, plan.motions), FINER if plan.areas else 1
    whole = 2 * PER_STEP * MANY
    unit = draw(whole, finer, shape, plan.areas, plan.seed, 0, Purpose.SOLVER_STEPS)
    kept, duration = 2 * PER_STEP * steps + 1, length * MANY
    path, integral, iterated = unit.path[:kept], unit.integral[:kept], unit.iterated
    return SharedBrownian(
        _with_sign(path, -1.0) * math.sqrt(duration),
        _with_sign(integral, -1.0) * duration**1.5,
        None if iterated is None else _with_sign(iterated[:kept], 1.0) * duration,
        BEGIN,
        length * steps,
    )


def _with_sign(values: Tensor, sign: float) -> Tensor:
    """Return values (G, P, ...) as (G, 2 P, ...), every path followed by itself times a sign."""
    return torch.stack([values, sign * values], dim=2).flatten(1, 2)
