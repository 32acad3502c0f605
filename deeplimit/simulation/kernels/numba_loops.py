"""The inner loops of `projected`, compiled by numba: all that a step does to a block of paths in cache.

The arithmetic is that of `products.Products` and of the steppers, in float32. Paths are innermost, so that
every loop over them becomes vector instructions. `numba_pass` prepares the arguments and says for which tasks
this is the same computation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from deeplimit.simulation.kernels.products import MARGIN

NAMES = (
    "identity",
    "relu",
    "leaky_relu",
    "tanh",
    "sin",
    "erf",
    "silu",
    "scaled_silu",
    "gelu",
    "scaled_gelu",
    "scaled_softplus",
)
"""The activations that are compiled; an activation's number is its place here."""

LINEAR, BRANCH, ITO = 0, 1, 2
"""How a trajectory moves: by a multiple of the product; by σ of it and the bias; by the diffusive limit's
step.
"""

_FAST: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
}
_INNER: dict[str, Any] = {**_FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
"""Of functions that loops alone call: what Python would call them by takes longer to compile than they do."""
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
_TINY = np.float32(np.finfo(np.float32).tiny)
_GROWN = np.float32(1.0 + MARGIN * float(np.finfo(np.float32).eps))
_LEAK, _LOG_2, _ROOT_HALF = np.float32(0.01), np.float32(math.log(2.0)), np.float32(math.sqrt(0.5))

# tanh x = x P(x²)/Q(x²) to 2e-8 for |x| ≤ 9, where it is 1 in float32: fitted by reweighted least squares.
# Calls of the C library's tanh would not become vector instructions.
_NINE = np.float32(9.0)
_P0, _P1, _P2 = (
    np.float32(0.9999999794464203),
    np.float32(0.13381025917707753),
    np.float32(0.003495588453680288),
)
_P3, _P4 = np.float32(2.060908716824995e-05), np.float32(1.3354666853258559e-08)
_Q1, _Q2 = np.float32(0.46714341509387436), np.float32(0.025876983456984668)
_Q3, _Q4 = np.float32(0.00032856353330293386), np.float32(7.776560799299991e-07)


@njit(**_FAST)  # type: ignore[untyped-decorator]
def activate(number: int, x: np.ndarray, out: np.ndarray) -> None:  # noqa: PLR0912
    """Write σ(x) to `out`, both (P,); `number` is the activation's place in NAMES."""
    if number == 0:
        for p in range(len(x)):
            out[p] = x[p]
    elif number == 1:
        for p in range(len(x)):
            out[p] = _ZERO if x[p] < _ZERO else x[p]
    elif number == 2:
        for p in range(len(x)):
            out[p] = _LEAK * x[p] if x[p] < _ZERO else x[p]
    elif number == 3:
        for p in range(len(x)):
            v = -_NINE if x[p] < -_NINE else (_NINE if x[p] > _NINE else x[p])
            t = v * v
            above = _P0 + t * (_P1 + t * (_P2 + t * (_P3 + t * _P4)))
            out[p] = v * above / (_ONE + t * (_Q1 + t * (_Q2 + t * (_Q3 + t * _Q4))))
    elif number == 4:
        for p in range(len(x)):
            out[p] = np.float32(math.sin(x[p]))
    elif number == 5:
        for p in range(len(x)):
            out[p] = np.float32(math.erf(x[p]))
    elif number in (6, 7):
        size = _ONE if number == 6 else _TWO
        for p in range(len(x)):
            out[p] = size * x[p] / (_ONE + np.float32(math.exp(-x[p])))
    elif number in (8, 9):
        size = _HALF if number == 8 else _ONE
        for p in range(len(x)):
            out[p] = size * x[p] * (_ONE + np.float32(math.erf(x[p] * _ROOT_HALF)))
    else:  # 2 (softplus(x) - log 2), without the cancellation at 0
        for p in range(len(x)):
            size = abs(x[p])
            if size < np.float32(8.0):
                s = np.float32(math.sinh(x[p] / np.float32(4.0)))
                out[p] = x[p] + _TWO * np.float32(math.log1p(_TWO * s * s))
            else:
                out[p] = x[p] + size + _TWO * (np.float32(math.log1p(math.exp(-size))) - _LOG_2)


class Motion(NamedTuple):
    """How the trajectories move: first the C columns', last the reference's."""

    kind: np.ndarray  # (C + 1,) int64: LINEAR, BRANCH or ITO
    activation: np.ndarray  # (C + 1,) int64: of LINEAR's operand, or of BRANCH
    product: np.ndarray  # (C + 1,): factor of the product
    bias: np.ndarray  # (C + 1, d): factors of the biases' motion
    outer: np.ndarray  # (C + 1,): factor of σ (BRANCH), ½σ''(0) (ITO)
    energy: np.ndarray  # (C + 1,): factor of |h|² in Q
    spread: np.ndarray  # (C + 1, d): the biases' part of Q


class Running(NamedTuple):
    """All that changes along the grid, for one block of P paths."""

    reference: np.ndarray  # (d, P)
    states: np.ndarray  # (C, d, P)
    held: (
        np.ndarray
    )  # (C, d, P): the vectors v that the columns multiply, and all below, in units of their largest entries
    units: np.ndarray  # (C, P)
    known: np.ndarray  # (C, d, P): what is known of their products
    overlap: np.ndarray  # (C, C, P): M, of which the lower triangle is kept
    along: np.ndarray  # (C, P): work space
    biases: np.ndarray  # (C, d, P): motions of the biases since the layers' starts
    # Squared distances of network and reference, at layers and at common times; then the same of scheme and
    # reference, and of network and scheme.
    errors: np.ndarray  # (6, depths, P) float64
    # Of the networks, of the schemes, and of what lies between the two, at common times: squared sizes of
    # consecutive differences, their squares and inner products at the last one; (0 to 3, 3 depths - 4, P).
    differences: np.ndarray


class Space(NamedTuple):
    """Work space. Loops that allocate take longer to compile."""

    vector: np.ndarray  # (d, P)
    still: np.ndarray  # (d, P), zeros: motions of the biases in a step
    unit: np.ndarray  # (P,)
    work: np.ndarray  # (3, P)
    share: np.ndarray  # (C, P)
    between: np.ndarray  # (3, d, P)
    squares: np.ndarray  # (P,) float64

    @classmethod
    def of(cls, columns: int, width: int, paths: int) -> Space:
        """Return space for C columns, width d and P paths."""
        return cls(
            vector=np.zeros((width, paths), np.float32),
            still=np.zeros((width, paths), np.float32),
            unit=np.zeros(paths, np.float32),
            work=np.zeros((3, paths), np.float32),
            share=np.zeros((columns, paths), np.float32),
            between=np.zeros((3, width, paths), np.float32),
            squares=np.zeros(paths),
        )


class Steps(NamedTuple):
    """Some consecutive steps of the grid."""

    lengths: np.ndarray  # (K,) float64
    ends: np.ndarray  # (K, C) bool
    common: np.ndarray  # (K,) bool


@njit(**_INNER)  # type: ignore[untyped-decorator]
def move(
    motion: Motion,
    c: int,
    state: np.ndarray,
    product: np.ndarray,
    bias: np.ndarray,
    length: np.float32,
    work: np.ndarray,
) -> None:
    """Move trajectory `c`, state (d, P), by the matrix's product and the biases' motion, both (d, P)."""
    width, paths = state.shape
    kind, factor, outer, squares = motion.kind[c], motion.product[c], motion.outer[c], work[0]
    if kind == ITO:
        for p in range(paths):
            squares[p] = _ZERO
        for i in range(width):
            for p in range(paths):
                squares[p] += state[i, p] * state[i, p]
    for i in range(width):
        own, spread = motion.bias[c, i], motion.spread[c, i]
        if kind == LINEAR:
            for p in range(paths):
                state[i, p] += factor * product[i, p]
        elif kind == BRANCH:
            for p in range(paths):
                work[1, p] = factor * product[i, p] + own * bias[i, p]
            activate(motion.activation[c], work[1], work[2])
            for p in range(paths):
                state[i, p] += outer * work[2, p]
        else:
            for p in range(paths):
                q = motion.energy[c] * squares[p] + spread
                state[i, p] += factor * product[i, p] + own * bias[i, p] + outer * length * q


@njit(**_INNER)  # type: ignore[untyped-decorator]
def operand(motion: Motion, c: int, state: np.ndarray, out: np.ndarray, unit: np.ndarray) -> None:
    """Write to `out` (d, P) what the Brownian matrix multiplies on trajectory `c`, scaled by `unit`."""
    width, paths = state.shape
    for p in range(paths):
        unit[p] = _TINY
    for i in range(width):
        activate(motion.activation[c] if motion.kind[c] == LINEAR else 0, state[i], out[i])
        for p in range(paths):
            unit[p] = max(unit[p], abs(out[i, p]))
    for i in range(width):
        for p in range(paths):
            scaled = out[i, p] / unit[p]
            out[i, p] = scaled if scaled == scaled else _ZERO  # noqa: PLR0124 (NaN)


@njit(**_INNER)  # type: ignore[untyped-decorator]
def pass_over(  # noqa: PLR0912
    run: Running,
    vector: np.ndarray,
    unit: np.ndarray,
    normals: np.ndarray,
    step: float,
    work: np.ndarray,
    row: np.ndarray,
) -> None:
    """Pass one fine step on to all columns; `vector` becomes the reference's product with the matrix.

    The vector comes in units `unit` (P,) of its largest entry.
    """
    columns, width, paths = run.held.shape
    root, length = np.float32(math.sqrt(step)), np.float32(step)
    norm, divisor, along = work[0], work[1], run.along
    for p in range(paths):
        norm[p] = _ZERO
    for i in range(width):
        for p in range(paths):
            norm[p] += vector[i, p] * vector[i, p]
    for p in range(paths):
        norm[p] = np.float32(math.sqrt(norm[p]))
        divisor[p] = max(norm[p], _TINY)
    for c in range(columns):
        for p in range(paths):
            along[c, p] = _ZERO
    for i in range(width):
        for p in range(paths):
            vector[i, p] /= divisor[p]
        for c in range(columns):
            for p in range(paths):
                along[c, p] += run.held[c, i, p] * vector[i, p]
    for i in range(width):
        for c in range(columns):
            for p in range(paths):
                row[c, p] = run.held[c, i, p] - along[c, p] * vector[i, p]
                run.known[c, i, p] += root * along[c, p] * normals[i, p]
        for c in range(columns):
            for other in range(c):
                for p in range(paths):
                    run.overlap[c, other, p] += length * row[c, p] * row[other, p]
            for p in range(paths):
                run.overlap[c, c, p] += length * _GROWN * row[c, p] * row[c, p]
        for p in range(paths):
            vector[i, p] = normals[i, p] * (unit[p] * norm[p] * root)


@njit(**_INNER)  # type: ignore[untyped-decorator]
def take(
    run: Running, c: int, ends: np.ndarray, normals: np.ndarray, work: np.ndarray, share: np.ndarray
) -> None:
    """End a layer of column `c`: complete `known` to its product, and update the layers still running."""
    columns, width, paths = run.held.shape
    deviation, weight = work[0], work[1]
    for p in range(paths):
        left = _ZERO if run.overlap[c, c, p] < _ZERO else run.overlap[c, c, p]
        deviation[p] = np.float32(math.sqrt(left))
        weight[p] = _ONE / deviation[p] if left > _ZERO else _ZERO
    for i in range(width):
        for p in range(paths):
            run.known[c, i, p] = (run.known[c, i, p] + deviation[p] * normals[i, p]) * run.units[c, p]
    for other in range(columns):
        for p in range(paths):
            share[other, p] = _ZERO
        if other == c or (
            other > c and ends[other]
        ):  # drawn before, at this very time: its next layer has not begun
            continue
        for p in range(paths):
            most = np.float32(math.sqrt(max(run.overlap[other, other, p], _ZERO)))
            full = (run.overlap[c, other, p] if other < c else run.overlap[other, c, p]) * weight[p]
            share[other, p] = min(max(full, -most), most)
        for i in range(width):
            for p in range(paths):
                run.known[other, i, p] += share[other, p] * normals[i, p]
        for earlier in range(other + 1):
            for p in range(paths):
                run.overlap[other, earlier, p] -= share[other, p] * share[earlier, p]


@njit(**_INNER)  # type: ignore[untyped-decorator]
def gap(a: np.ndarray, b: np.ndarray, squares: np.ndarray) -> None:
    """Write the squared distance (P,) between states (d, P) to `squares`."""
    width, paths = a.shape
    for p in range(paths):
        squares[p] = 0.0
    for i in range(width):
        for p in range(paths):
            difference = np.float64(a[i, p] - b[i, p])
            squares[p] += difference * difference


@njit(**_INNER)  # type: ignore[untyped-decorator]
def keep(squares: np.ndarray, out: np.ndarray, keep_last: bool) -> None:
    """Take `squares` (P,) into `out`, the largest so far or the last."""
    for p in range(len(squares)):
        # NaN compares as false: it replaces what was there, and a state that is lost stays so
        out[p] = squares[p] if keep_last or not squares[p] <= out[p] else out[p]


@njit(**_INNER)  # type: ignore[untyped-decorator]
def neighbour(states: np.ndarray, kind: int, depths: int, c: int, out: np.ndarray) -> None:
    """Write to `out` (d, P) the states of network c, of its scheme, or of what lies between, by `kind`."""
    _, width, paths = states.shape
    for i in range(width):
        for p in range(paths):
            own = states[c + depths * (kind == 1), i, p]
            out[i, p] = own - states[c + depths, i, p] if kind == 2 else own


@njit(**_INNER)  # type: ignore[untyped-decorator]
def compare_neighbours(
    states: np.ndarray,
    kind: int,
    depths: int,
    out: np.ndarray,
    keep_last: bool,
    held: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Take in the differences of neighbouring depths at a common time; `out` is (3 depths - 4, P).

    `held` (3, d, P), three neighbours at a time, and `squares` (P,) are work space.
    """
    _, width, paths = states.shape
    for c in range(depths):
        here, before = held[c % 3], held[(c + 2) % 3]
        neighbour(states, kind, depths, c, here)
        if c > 0:
            gap(here, before, squares)
            keep(squares, out[c - 1], keep_last)
            for p in range(paths):
                out[depths - 2 + c, p] = squares[p]
        if c > 1:
            far, row = held[(c + 1) % 3], out[2 * depths - 4 + c]
            for p in range(paths):
                row[p] = 0.0
            for i in range(width):
                for p in range(paths):
                    step = np.float64(before[i, p] - far[i, p])
                    row[p] += step * np.float64(here[i, p] - before[i, p])


@njit(**_INNER)  # type: ignore[untyped-decorator]
def clear(run: Running, c: int) -> None:
    """Forget what is known of column c's layer, which has ended."""
    columns, width, paths = run.known.shape
    for i in range(width):
        for p in range(paths):
            run.known[c, i, p] = _ZERO
            run.biases[c, i, p] = _ZERO
    for other in range(columns):
        for p in range(paths):
            run.overlap[c, other, p] = _ZERO
            run.overlap[other, c, p] = _ZERO


@njit(**_FAST)  # type: ignore[untyped-decorator]
def advance(  # noqa: PLR0912
    run: Running,
    space: Space,
    motion: Motion,
    steps: Steps,
    step_normals: np.ndarray,
    layer_normals: np.ndarray,
    bias_normals: np.ndarray,
    depths: int,
    durations: np.ndarray,
    keep_last: bool,
) -> None:
    """Advance a block over some steps; the first `depths` columns are networks, further ones their schemes.

    Normals are (steps, d, P), (layers that end, d, P) in the order in which they end, deepest first, and
    (steps or 0, d, P).
    """
    columns, width, paths = run.held.shape
    vector, still, unit = space.vector, space.still, space.unit
    work, share = space.work, space.share
    drawn = 0
    for k in range(len(steps.lengths)):
        step, ends = steps.lengths[k], steps.ends[k]
        operand(motion, columns, run.reference, vector, unit)
        pass_over(run, vector, unit, step_normals[k], step, work, share)
        if len(bias_normals) > 0:
            root = np.float32(math.sqrt(step))
            for i in range(width):
                for p in range(paths):
                    still[i, p] = bias_normals[k, i, p] * root
            for c in range(columns):
                for i in range(width):
                    for p in range(paths):
                        run.biases[c, i, p] += still[i, p]
        move(motion, columns, run.reference, vector, still, np.float32(step), work)
        for c in range(columns - 1, -1, -1):
            if not ends[c]:
                continue
            take(run, c, ends, layer_normals[drawn], work, share)
            drawn += 1
            duration = np.float32(durations[c % depths])
            move(motion, c, run.states[c], run.known[c], run.biases[c], duration, work)
            operand(motion, c, run.states[c], run.held[c], run.units[c])
            clear(run, c)
            if c >= depths:
                continue
            for pair in range(3 if columns > depths else 1):
                first = run.reference if pair < 2 else run.states[depths + c]
                second = run.states[depths + c] if pair == 1 else run.states[c]
                gap(first, second, space.squares)
                for row in range(2 * pair, 2 * pair + 1 + steps.common[k]):
                    keep(space.squares, run.errors[row, c], keep_last)
        if steps.common[k]:
            for kind in range(len(run.differences)):
                compare_neighbours(
                    run.states, kind, depths, run.differences[kind], keep_last, space.between, space.squares
                )
