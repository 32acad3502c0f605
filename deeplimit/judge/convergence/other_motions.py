"""Whether a limit that is another one path by path has the network's noise in law, as of dB transposed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving.path import Grid
from deeplimit.simulation import Task
from deeplimit.simulation.task import is_scheme
from deeplimit.statistics.power_law import coefficients

MOST = 2048
"""Brownian motions up to which this is looked at: to solve for the map of so many takes 1.4 s on one core."""
SAME = 0.01
"""Covariances, and maps, this close are one: float32 leaves 5e-6 of a map that is solved for."""


def same_covariance_of_other_motions(task: Task) -> bool:
    """Return whether one step's noise has the covariance of the network's, and reads other Brownian motions.

    A layer is linear in its noise where networks are Euler schemes; the map is solved for from as many draws.
    """
    motions = sum(channel.motions for channel in task.network.channels)
    if not (task.sharing.increments and is_scheme(task.network) and motions <= MOST):
        return False
    paths = motions + 8
    random = generator(task.seed, Purpose.NETWORK_WEIGHTS, 0, 0, task.device)
    grid, weights = Grid((2,)), task.network.laws_and_shapes
    drawn = [law.path(shape, grid, paths, random, task.dtype) for law, shape in weights]
    (chunk, *_) = grid.chunks()
    for path in drawn:
        path.begin(chunk)
        path.advance(0)
    noise = [path.brownian for path in drawn if path.brownian is not None]
    increments = torch.cat([each.clone() for each in noise], dim=1)
    state = task.initial_states(0)[:1]
    h = state.expand(paths, *state.shape[1:]).clone()
    layers = tuple(path.layer(0) for path in drawn)
    added = task.network.recursion.advance(h, layers, task.network.exponent) - h
    diffused = task.limit.diffused(0.0, h, increments)
    own, other = (_map(increments, each) for each in (added, diffused))
    size = np.linalg.norm(own.T @ own)
    near = np.linalg.norm(own.T @ own - other.T @ other) < SAME * size
    return bool(near and np.linalg.norm(own - other) > SAME * np.linalg.norm(own))


def _map(increments: Tensor, added: Tensor) -> np.ndarray:
    """Return the matrix (motions, d) that makes what is added of increments, up to a drift."""
    ones = increments.new_ones(len(increments), 1)
    given, data = torch.cat([increments, ones], 1), added.flatten(1)
    return coefficients(given.double().cpu().numpy(), data.double().cpu().numpy())[:-1]
