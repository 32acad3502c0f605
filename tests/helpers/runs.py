"""Runs of the coupling taken apart: every state along the grid, and tasks in float64."""

import numpy as np
import torch

from deeplimit.simulation import make_task
from deeplimit.simulation.pathwise import make_solver


def walk(network, depths, *, x=None, paths=3, seed=0, limit=None, reference=None, norm="sup", device="cpu"):
    """Return (times, {depth: states}, limit's states) of one block on the union grid, through the library's
    own paths.
    """
    task = make_task(
        network,
        network.limit() if limit is None else limit,
        x,
        depths=tuple(depths),
        reference=reference,
        norm=norm,
        p=2.0,
        paths=paths,
        seed=seed,
        device=torch.device(device),
        dtype=torch.float64,
        tolerance=None,
    )
    h0 = task.initial_states(0)
    weights = task.network_paths(0, len(h0))
    solver = make_solver(task, 0, h0, weights)
    states = {depth: [h0] for depth in depths}
    limits, times = [h0], [0.0]
    for chunk in task.grid.chunks():
        for path in weights:
            path.begin(chunk)
        solver.begin(chunk)
        for index in range(len(chunk.steps)):
            for path in weights:
                path.advance(index)
            limits.append(solver.step(index))
            times.append(float(chunk.times[index]))
            for j in reversed(range(len(depths))):
                if chunk.ends[index, j]:
                    layers = tuple(path.layer(j) for path in weights)
                    h = states[depths[j]][-1]
                    states[depths[j]].append(h + network.recursion.residual(h, layers, network.exponent))
    return np.array(times), {depth: torch.stack(hs) for depth, hs in states.items()}, torch.stack(limits)


def task_of(network, limit=None, x=None, **given):
    """Return a task in float64 on depths 4 and 8, whatever else is given."""
    arguments = {
        "depths": (4, 8),
        "reference": None,
        "norm": "sup",
        "p": 2.0,
        "paths": 200,
        "seed": 0,
        "tolerance": None,
    }
    fixed = {"device": torch.device("cpu"), "dtype": torch.float64}
    return make_task(
        network, network.limit() if limit is None else limit, x, **{**fixed, **arguments, **given}
    )
