"""Updates of R networks at one depth, all layers given the same states, as moments per network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deeplimit.judge.block_limit.reading import Stack

COORDINATES = 256
"""Largest number of a state's coordinates that enter moments; of wider states these are drawn at random. The
error of the isotropy statistic falls with the number of pairs of updates, and hardly with this one."""
LARGER = 3.0
"""Factor between the states at which updates are compared, to see how they grow with |h|."""
FOLLOWED = 8
"""Networks that are asked: the same blocks at both states, so that few tell."""
ROUND_OFF = 1e-6
"""Networks that differ by less, relative to their updates, are the same but for float32's round-off."""
PAIRS = 20_000
"""Pairs of updates behind the isotropy statistic: its error is then about 1 %."""


@dataclass(frozen=True)
class AtDepth:
    """Moments of R networks with N blocks, for n inputs; sizes are relative to the shared states'.

    Attributes:
        blocks: N.
        squares: mean square of a layer's update, per network (R,).
        spreads: square of the sum of all updates minus its mean over networks, per network (R,).
        apart: the same if layers were uncorrelated: sums of the layers' variances, per network (R,).
        drift: square of the mean over networks of the sum of all updates, without bias.
        drift_error: its standard error, by the jackknife.
        drift_noise: the same where the mean is zero.
        lags, correlations: distances between layers, and the correlation of updates that far apart.
        largest_layer: largest share of one layer in the sum of the layers' variances.
        largest_update: largest share of one update among all squares.
        concentration: square of a network's shares in the layers' variances, summed over layers, per network
            (R,): about 1/N where all layers carry the sum, no less at any depth where it jumps.
        anisotropy: 1 where the covariance of an update is a multiple of the identity, else larger.
        fixed: share of the squares that is the same in every network and differs between neighbouring layers.
        fixed_error: its standard error where there is none.
        displacement, growth, turned: |h_L - h_0|/|h_0|, |h_L|/|h_0|, cos(h_L, h_0), per network (R,).
        inputs_start, inputs_end: mean cosine between different inputs' states, before and after all blocks.
    """

    blocks: int
    squares: np.ndarray
    spreads: np.ndarray
    apart: np.ndarray
    drift: float
    drift_error: float
    drift_noise: float
    lags: tuple[int, ...]
    correlations: tuple[float, ...]
    largest_layer: float
    largest_update: float
    concentration: np.ndarray
    anisotropy: float
    fixed: float
    fixed_error: float
    displacement: np.ndarray
    growth: np.ndarray
    turned: np.ndarray
    inputs_start: float
    inputs_end: float


@torch.no_grad()
def updates(stack: Stack, shared: Tensor, chosen: Tensor) -> Tensor:
    """Return what every block adds to the shared states (n, *shape), at chosen coordinates (N, n, c)."""
    return torch.stack(
        [(block(shared.clone()) - shared).flatten(1)[:, chosen].double() for block in stack.blocks]
    )


@torch.no_grad()
def size_power(stacks: Sequence[Stack], shared: Tensor, chosen: Tensor, at_shared: np.ndarray) -> float:
    """Return the power of |h| that updates grow with: at states LARGER times as large, of the same networks.

    `at_shared` are sums of squares of an update at the shared states, mean over layers, per network.
    """
    some = stacks[:FOLLOWED]
    larger = [updates(stack, LARGER * shared, chosen).square().sum(dim=2).mean() for stack in some]
    ratio = float(torch.stack(larger).mean()) / max(float(at_shared[: len(some)].mean()), 1e-300)
    return math.log(ratio) / (2 * math.log(LARGER)) if 0 < ratio < math.inf else math.nan


def coordinates(states: Tensor, generator: torch.Generator) -> Tensor:
    """Return the numbers (c,) of the coordinates that enter moments."""
    entries = states[0].numel()
    return torch.randperm(entries, generator=generator)[:COORDINATES]


def moments(
    added: Sequence[Tensor], stacks: Sequence[Stack], size: float, random: np.random.Generator
) -> AtDepth:
    """Return the moments of networks from their updates, each (N, n, c), and the states of their forwards.

    `size` is the mean square norm of the shared states at the chosen coordinates.
    """
    every = torch.stack(list(added)).numpy() / np.sqrt(size)  # (R, N, n, c)
    networks, blocks, _, width = every.shape
    mean = every.mean(axis=0)
    away = every - mean
    differ = float((away**2).sum()) > ROUND_OFF**2 * float((every**2).sum())
    away *= differ
    unbiased = networks / (networks - 1)
    sums = every.sum(axis=1)  # (R, n, c)
    spreads = differ * unbiased * ((sums - sums.mean(axis=0)) ** 2).sum(axis=2).mean(axis=1)
    layers = unbiased * (away**2).sum(axis=3).mean(axis=2)  # (R, N)
    apart = layers.sum(axis=1)
    total = sums.mean(axis=0)
    drift = float((total**2).sum(axis=1).mean() - spreads.mean() / networks)
    # The estimate without network r, from the sums without it: the jackknife of a mean's square.
    without = (sums.sum(axis=0) - sums) / (networks - 1)
    left = (without**2).sum(axis=2).mean(axis=1)
    error = float(np.sqrt((networks - 1) / networks * ((left - left.mean()) ** 2).sum()))
    anisotropy = _anisotropy(away, random)
    fixed, fixed_error = _fixed(every)
    # The square of a mean of normal vectors with d/anisotropy directions of equal weight.
    noise = float(spreads.mean()) / networks * float(np.sqrt(2 * anisotropy / width))
    lags = tuple(lag for lag in (1, 2, 4, 8, 16, 32, 64, 128) if lag <= blocks // 2)
    variance = apart.mean() / blocks
    correlations = tuple(
        float(unbiased * (away[:, lag:] * away[:, :-lag]).sum(axis=3).mean() / variance)
        if variance > 0
        else 0.0
        for lag in lags
    )
    by_layer = layers.mean(axis=0)
    concentration = (layers**2).sum(axis=1) / max(float(apart.mean()) ** 2, 1e-300)
    squares = (every**2).sum(axis=3)
    start, end = (np.stack([_flat(stack.states[at]) for stack in stacks]) for at in (0, -1))
    sizes = np.linalg.norm(start, axis=2)
    return AtDepth(
        blocks=blocks,
        squares=squares.mean(axis=(1, 2)),
        spreads=spreads,
        apart=apart,
        drift=drift,
        drift_error=error,
        drift_noise=noise,
        lags=lags,
        correlations=correlations,
        largest_layer=float(by_layer.max() / by_layer.sum()) if by_layer.sum() > 0 else 1.0,
        largest_update=float((squares.max(axis=(0, 1)) / np.maximum(squares.sum(axis=(0, 1)), 1e-300)).max()),
        concentration=concentration,
        anisotropy=anisotropy,
        fixed=fixed,
        fixed_error=fixed_error,
        displacement=(np.linalg.norm(end - start, axis=2) / sizes).mean(axis=1),
        growth=(np.linalg.norm(end, axis=2) / sizes).mean(axis=1),
        turned=_cosine(start, end).mean(axis=1),
        inputs_start=_between(start),
        inputs_end=_between(end),
    )


def _flat(states: Tensor) -> np.ndarray:
    array: np.ndarray = states.flatten(1).double().numpy()
    return array


def _cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    cosine: np.ndarray = (first * second).sum(axis=-1) / np.maximum(norms, 1e-300)
    return cosine


def _between(states: np.ndarray) -> float:
    """Return the mean cosine between states (R, n, d) of different inputs; 1 for one input."""
    if states.shape[1] == 1:
        return 1.0
    return float(_cosine(states, np.roll(states, 1, axis=1)).mean())


def _fixed(every: np.ndarray) -> tuple[float, float]:
    """Return the nugget of the layers' mean over networks, relative to all squares, and its standard error.

    Updates are (R, N, n, c). Second differences leave out what changes slowly over layers, and products of
    different networks what changes from network to network. The error is that of a mean of zero.
    """
    networks, layers = every.shape[:2]
    if layers < 3 or not every.any():
        return 0.0, 0.0
    rough = np.diff(every, 2, axis=1).reshape(networks, -1)
    products = rough @ rough.T / (6 * rough.shape[1] * (every**2).mean())
    np.fill_diagonal(products, 0.0)
    pairs = networks * (networks - 1)
    return float(products.sum() / pairs), float(np.sqrt(2 * (products**2).sum()) / pairs)


def _anisotropy(away: np.ndarray, random: np.random.Generator) -> float:
    """Return c Σ<v, w>² / Σ|v|²|w|² over pairs of updates of different networks (R, N, n, c)."""
    networks, blocks, _, width = away.shape
    first, second = random.integers(0, networks, (2, PAIRS))
    second = np.where(first == second, (second + 1) % networks, second)
    rows = random.integers(0, blocks, (2, PAIRS))
    v, w = away[first, rows[0], 0], away[second, rows[1], 0]
    norms = float(((v**2).sum(axis=1) * (w**2).sum(axis=1)).sum())
    return float(width * ((v * w).sum(axis=1) ** 2).sum() / norms) if norms > 0 else 1.0
