"""W1 as a user of diffrax would measure it: Euler on a VirtualBrownianTree, vmap over paths, all of it under
jit.

The tree goes down to half a step of the reference at every query, whatever the depth asks, so time is
proportional to the number of steps; the first depths are timed, and scaled to all of them. Compilation is not
counted.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.with_torchsde import Setting


def errors(diffrax: Any, setting: Setting, timed: Setting) -> tuple[np.ndarray, float]:
    """Return the errors at the depths of `timed` against its reference, and the seconds that all of `setting`
    would take.
    """
    import jax
    import jax.numpy as jnp
    import lineax

    width = setting.width
    matrix = jax.ShapeDtypeStruct((width, width), jnp.float32)

    def diffusion(t: Any, y: Any, _: Any) -> Any:
        row = jnp.tanh(y) / jnp.sqrt(width)
        return lineax.FunctionLinearOperator(lambda noise: noise @ row, matrix)  # never the (d, d²) array

    def states(depth: int) -> Any:
        def one(start: Any, key: Any) -> Any:
            motion = diffrax.VirtualBrownianTree(0.0, 1.0, tol=0.5 / setting.reference, shape=matrix, key=key)
            terms = diffrax.ControlTerm(diffusion, motion)
            times = diffrax.SaveAt(ts=jnp.linspace(0, 1, depth + 1))
            solution = diffrax.diffeqsolve(
                terms, diffrax.Euler(), 0.0, 1.0, 1 / depth, start, saveat=times, max_steps=depth + 1
            )
            return solution.ys

        return jax.jit(jax.vmap(one))

    start = jax.random.normal(jax.random.PRNGKey(0), (setting.paths, width))
    keys = jax.random.split(jax.random.PRNGKey(1), setting.paths)
    programs = {
        depth: states(depth).lower(start, keys).compile() for depth in (*timed.depths, timed.reference)
    }
    began = time.perf_counter()
    paths = {depth: np.asarray(program(start, keys)) for depth, program in programs.items()}
    seconds = time.perf_counter() - began
    found = []
    for depth in timed.depths:
        reference = paths[timed.reference][:, :: timed.reference // depth]
        distance = np.linalg.norm(paths[depth] - reference, axis=2).max(axis=1)
        found.append(float(np.sqrt(np.mean(distance**2))))
    return np.array(found), seconds * setting.steps / timed.steps
