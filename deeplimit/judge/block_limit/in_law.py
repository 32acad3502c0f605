"""The limit that updates have, drawn from the blocks themselves, beside the network it belongs to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.measurement import Progress
from deeplimit.judge.block_limit.reading import Stack
from deeplimit.judge.in_law.two_sample import holm, kolmogorov_smirnov

PER_NETWORK, PATHS = 8, 400
"""Paths of the limit for each network, and at most; distances in law vary an eighth more."""
INPUTS = 2
"""Inputs whose states are followed, those that features read."""
BANK = 32
"""Blocks behind the covariance of one step. It is drawn again for every step, so that the relative error of
the whole quadratic variation is the root of 2 over blocks x steps x width, or 3 % at 64 steps of one
direction, where distances in law of 48 networks resolve 16 %. With 16 blocks a right limit was refused."""
BANK_FOR_DRIFT = 64
"""The same where updates have a mean: its error, 1/√(steps x blocks) of the noise or 1.6 % at 64 steps, is
common to all paths."""
BLUR = 0.1
"""Standard deviation of the noise that is added to both samples of a feature, in units of the distance that
states move. Differences well below it are not seen: a post-normalised state has one length to within
round-off, where any other number of steps would be another law."""
FOLLOWED = 8
"""Networks whose ODE is solved: the distance of each is far from 0 or falls, so that few tell."""
JUMP = 3.0
"""A first layer that moves the state by this many times what the largest other one does is a step of its own.
It is 2.2 to 5.4 times for post-normalisation of normal inputs at depths 8 to 64, and 0.7 to 1 where layers
have one law."""
WINDOW = 8
"""Layers within depth/WINDOW of a time stand for that time."""


@dataclass(frozen=True)
class Beside:
    """How far the law of h_L is from the measured limit's.

    Attributes:
        features: names of the features.
        distances: Kolmogorov distances (T,).
        p_values: adjusted (T,).
    """

    features: tuple[str, ...]
    distances: np.ndarray
    p_values: np.ndarray


def after_a_jump(stacks: Sequence[Stack]) -> Sequence[Stack]:
    """Return the networks without their first layer, if it moves the state by far more than any other does.

    Post-normalisation brings a state to its size at once, however small the steps: the limit begins there.
    """
    moved = np.array(
        [
            [float(torch.linalg.vector_norm((b - a).double())) for a, b in pairwise(stack.states)]
            for stack in stacks[:FOLLOWED]
        ]
    ).mean(axis=0)
    if len(moved) < 3 or not moved[0] > JUMP * moved[1:].max():
        return stacks
    return [Stack(stack.blocks[1:], stack.states[1:], stack.written) for stack in stacks]


@torch.no_grad()
def draw_limit(
    stacks: Sequence[Stack], drifts: bool, generator: torch.Generator, moved: Progress | None = None
) -> tuple[Tensor, Tensor]:
    """Return the starts and draws (P, n, *shape) of the limit at time 1, of the first INPUTS inputs.

    Path p starts where network p mod R does. By Euler-Maruyama with one step per layer: a step adds
    Σ_j ξ_j f_j(h)/√M with ξ normal, over M blocks f_j drawn from the layers at that time. Given the blocks
    this is normal, with the sample's covariance, also between inputs. Where updates have a mean, it is added,
    and taken from each f_j.
    """
    blocks = len(stacks[0].blocks)
    paths = min(PATHS, PER_NETWORK * len(stacks))
    starts = torch.stack([stacks[path % len(stacks)].states[0][:INPUTS] for path in range(paths)])
    inputs = starts.shape[1]
    states = starts.flatten(0, 1)
    per_state = (-1, *[1] * (states.ndim - 1))
    many = BANK_FOR_DRIFT if drifts else BANK
    near = max(blocks // WINDOW, 1)
    for step in range(blocks):
        low, high = max(step - near, 0), min(step + near + 1, blocks)
        layers = torch.randint(low, high, (many,), generator=generator).tolist()
        networks = torch.randint(0, len(stacks), (many,), generator=generator).tolist()
        noise = torch.randn((paths, many), generator=generator).to(states)
        if drifts:
            noise = (noise - noise.mean(dim=1, keepdim=True)) / math.sqrt(many - 1) + 1 / many
        else:
            noise = noise / math.sqrt(many)
        total = torch.zeros_like(states)
        for j, (layer, network) in enumerate(zip(layers, networks, strict=True)):
            weight = noise[:, j].repeat_interleave(inputs).reshape(per_state)
            total += weight * (stacks[network].blocks[layer](states.clone()) - states)
        states = states + total
        if moved is not None:
            moved((step + 1) / blocks)
    return starts, states.reshape(starts.shape)


@torch.no_grad()
def ode_distances(stacks: Sequence[Stack]) -> np.ndarray:
    """Return how far networks are from the ODE through their layers, relative to how far they move.

    A few networks are followed. The ODE is solved by the midpoint rule over pairs of layers. Both layers of a
    pair make its field: where two blocks take turns, neither alone is the field.
    """
    return np.array([_ode_distance(stack) for stack in stacks[:FOLLOWED]])


def _ode_distance(stack: Stack) -> float:
    state, count = stack.states[0], len(stack.blocks)
    for k in range(0, count, 2):
        pair = stack.blocks[k : k + 2]
        halfway = state + 0.5 * _added_by(pair, state)
        state = state + _added_by(pair, halfway)
    moved = torch.linalg.vector_norm((stack.states[-1] - stack.states[0]).double())
    off = torch.linalg.vector_norm((stack.states[-1] - state).double())
    return float(off / moved) if moved > 0 else 0.0


def _added_by(blocks: Sequence[Callable[[Tensor], Tensor]], state: Tensor) -> Tensor:
    return torch.stack([block(state.clone()) - state for block in blocks]).sum(dim=0)


def beside(
    stacks: Sequence[Stack],
    drifts: bool,
    generator: torch.Generator,
    random: np.random.Generator,
    moved: Progress | None = None,
) -> Beside:
    """Compare the ends of networks with those of the limit that their updates have."""
    starts, ends = draw_limit(stacks, drifts, generator, moved)
    own = [torch.stack([stack.states[at] for stack in stacks]) for at in (0, -1)]
    began, ended, begin, end = (each.flatten(2).double().numpy() for each in (*own, starts, ends))
    drawn = random.standard_normal(began.shape[2])
    direction = np.asarray(drawn / np.linalg.norm(drawn))
    here, there = features(began, ended, direction), features(begin, end, direction)
    blur = BLUR * float((np.linalg.norm(ended - began, axis=2) / np.linalg.norm(began, axis=2)).mean())

    def blurred(values: np.ndarray) -> np.ndarray:
        noisy: np.ndarray = values + blur * random.standard_normal(values.shape)
        return noisy

    tested = [kolmogorov_smirnov(blurred(here[name]), blurred(there[name])) for name in here]
    distances, p_values = (np.array(column) for column in zip(*tested, strict=True))
    return Beside(tuple(here), distances, holm(p_values))


def features(starts: np.ndarray, ends: np.ndarray, direction: np.ndarray) -> dict[str, np.ndarray]:
    """Return one number per draw of ends (P, n, d), begun at starts (P, n, d), for each feature."""
    start, first = starts[:, 0], ends[:, 0]
    size, norms = np.linalg.norm(start, axis=1), np.linalg.norm(first, axis=1)
    found = {
        "log |h|/|h_0|": np.log(np.maximum(norms, 1e-300) / size),
        "cos(h, h_0)": (first * start).sum(axis=1) / np.maximum(norms * size, 1e-300),
        "projection of h - h_0": (first - start) @ direction / size,
    }
    if ends.shape[1] > 1:
        second = ends[:, 1]
        scale = np.maximum(norms * np.linalg.norm(second, axis=1), 1e-300)
        found["cos between inputs"] = (first * second).sum(axis=1) / scale
    return found
