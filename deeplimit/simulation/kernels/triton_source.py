"""The projected coupling as one Triton kernel, in Triton's language; `triton_kernel` launches it.

A program owns PATHS paths and walks all steps with their state in registers. Coordinate i of a path lies in
lane i % LANES of chunk i // LANES. A chunk of all paths is one (PATHS, LANES) tensor, one number per thread.
A state is a tuple of chunks. Everything that is indexed is indexed at compile time: depths and chunks are
unrolled, no register is ever chosen at run time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

try:
    import triton
    import triton.language as tl
except (
    ImportError
):  # every module can be imported; `triton_kernel` says what is missing once a kernel is asked for
    triton = tl = None


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function as one for the device, or as it is where Triton is missing."""
    return function if triton is None else triton.jit(**options)(function)


def is_interpreted() -> bool:
    """Return whether TRITON_INTERPRET was set at import, so that numpy runs the kernels on the CPU."""
    return not isinstance(coupled_errors, triton.JITFunction)


# Sizes and keys take part in no address that could be vectorised: a kernel made for one of their values would
# only be made again.
COUNTS = ["steps", "paths", "width", "first_path", "low", "high"]


@jit
def _activate(x, ACTIVATION: tl.constexpr):
    """Return σ(x); NaN stays NaN.

    Triton has no tanh: it is a ratio of polynomials, with relative error below 4e-7.
    """
    if ACTIVATION == "relu":
        y = tl.where(x < 0.0, 0.0, x)
    elif ACTIVATION == "tanh":
        t = tl.where(x > 9.0, 9.0, tl.where(x < -9.0, -9.0, x))
        s = t * t
        above = 0.003495588453680288 + s * (2.060908716824995e-05 + s * 1.3354666853258559e-08)
        above = 0.9999999794464203 + s * (0.13381025917707753 + s * above)
        below = 0.025876983456984668 + s * (0.00032856353330293386 + s * 7.776560799299991e-07)
        below = 1.0 + s * (0.46714341509387436 + s * below)
        y = t * above / below
    else:
        y = x
    return y


@jit
def _activate_all(x, ACTIVATION: tl.constexpr, CHUNKS: tl.constexpr):
    y = ()
    for c in tl.static_range(CHUNKS):
        y = y + (_activate(x[c], ACTIVATION),)
    return y


@jit
def _dot(x, y, CHUNKS: tl.constexpr):
    """Return the inner products of two vectors per path, (PATHS, 1)."""
    total = x[0] * y[0]
    for c in tl.static_range(1, CHUNKS):
        total += x[c] * y[c]
    return tl.sum(total, axis=1, keep_dims=True)


@jit
def _add_multiple(x, factor, y, CHUNKS: tl.constexpr):
    """Return x + factor·y, chunk by chunk."""
    result = ()
    for c in tl.static_range(CHUNKS):
        result = result + (x[c] + factor * y[c],)
    return result


@jit
def _scale(factor, x, CHUNKS: tl.constexpr):
    result = ()
    for c in tl.static_range(CHUNKS):
        result = result + (factor * x[c],)
    return result


@jit
def _load(source, rows, lane, inside, width, LANES: tl.constexpr, CHUNKS: tl.constexpr):
    """Return the rows of a contiguous (.., width) array, 0 outside, so that padding adds nothing."""
    result = ()
    for c in tl.static_range(CHUNKS):
        coordinate = c * LANES + lane
        result = result + (
            tl.load(source + rows * width + coordinate, mask=inside & (coordinate < width), other=0.0),
        )
    return result


@jit
def _normal(words, number, STATIC: tl.constexpr):
    """Return one of four Box-Muller normals of four random words; STATIC: `number` known when compiling."""
    if STATIC:
        first = words[number // 2 * 2]
        second = words[number // 2 * 2 + 1]
    else:
        first = tl.where(number < 2, words[0], words[2])
        second = tl.where(number < 2, words[1], words[3])
    # The first word is mapped to (0, 1]; a logarithm that rounds above 0 at 1 must not become NaN under the
    # root.
    uniform = (first.to(tl.float32) + 1.0) * 2.3283064365386963e-10
    radius = tl.sqrt(tl.maximum(-2.0 * tl.log(uniform), 0.0))
    # The second is an angle: two bits for the quadrant, 30 for the angle within it, from -π/4 to π/4.
    # Triton's own sine and cosine are made for any argument and take several times as long.
    t = (second >> 2).to(tl.float32) * 1.4629180792671596e-09 - 0.7853981633974483
    s = t * t
    sine = t + t * s * (-0.16666654611 + s * (0.0083321608736 - s * 0.00019515295891))
    cosine = 1.0 - 0.5 * s + s * s * (0.041666645682988 + s * (-0.001388731625494 + s * 2.4433157118e-05))
    cosine = tl.where(second & 2 == 2, -cosine, cosine)
    wave = tl.where((number + second) & 1 == 1, sine, cosine)
    return radius * wave


@jit
def _draw(
    event,
    path,
    lane,
    inside,
    width,
    low,
    high,
    STREAM: tl.constexpr,
    GROUP: tl.constexpr,
    LANES: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Return the normals of one event, by Philox-4x32-10 at the counter (event, path, group, stream).

    An event is a step or a layer's end.

    Coordinate i is number i // GROUP of the four at group i % GROUP. GROUP depends on the width alone, so
    that a path gets the same numbers wherever and among however many others it is computed.
    """
    zero = (path + lane) * 0
    result = ()
    for c in tl.static_range(CHUNKS):
        coordinate = c * LANES + lane
        # Chunks of one group ask for the same words, which the compiler draws once. Words kept in a tuple for
        # all chunks were right in PTX; ptxas (with Triton 3.6, on an H200) then gave a lane that draws twice
        # wrong normals in some coordinates, and right ones with its optimisation off.
        words = tl.philox_impl(
            (zero + event).to(tl.uint32, bitcast=True),
            (zero + path).to(tl.uint32, bitcast=True),
            (zero + coordinate % GROUP).to(tl.uint32, bitcast=True),
            (zero + STREAM).to(tl.uint32, bitcast=True),
            low.to(tl.uint32, bitcast=True),
            high.to(tl.uint32, bitcast=True),
        )
        if LANES <= GROUP:
            normal = _normal(words, c * LANES // GROUP, True)
        else:
            normal = _normal(words, coordinate // GROUP, False)
        result = result + (tl.where(inside & (coordinate < width), normal, 0.0),)
    return result


@jit
def _replace(values, index: tl.constexpr, value):
    return values[:index] + (value,) + values[index + 1 :]


@jit
def _accumulate(covariance, unit, v, along, root, DEPTHS: tl.constexpr, CHUNKS: tl.constexpr):
    """Return the covariances after one more step: inner products across the reference's direction.

    They stay spread over the lanes, since only their sums are ever read. What lies across is formed entry by
    entry: |v|² − along² would cancel where the operands are nearly parallel, and at large depth they are.
    """
    for c in tl.static_range(CHUNKS):
        across = ()
        for j in tl.static_range(DEPTHS):
            across = across + (root * (v[j][c] - along[j] * unit[c]),)
        summed = ()
        for j in tl.static_range(DEPTHS):
            for i in tl.static_range(j + 1):
                summed = summed + (covariance[j * (j + 1) // 2 + i] + across[j] * across[i],)
        covariance = summed
    return covariance


@jit
def _eliminate(
    covariance, end: tl.constexpr, shares, OPEN: tl.constexpr, DEPTHS: tl.constexpr, LANES: tl.constexpr
):
    """Return the covariances given the product of depth `end`: one step of a Cholesky elimination.

    Those with `end` become 0.
    """
    left = ()
    for j in tl.static_range(DEPTHS):
        for i in tl.static_range(j + 1):
            if (i == end) | (j == end):
                left = left + (tl.zeros_like(covariance[0]),)
            elif ((OPEN >> (end * DEPTHS + i)) & 1 == 1) & ((OPEN >> (end * DEPTHS + j)) & 1 == 1):
                left = left + (covariance[j * (j + 1) // 2 + i] - shares[j] * shares[i] * (1.0 / LANES),)
            else:
                left = left + (covariance[j * (j + 1) // 2 + i],)
    return left


@functools.partial(jit, do_not_specialize=COUNTS)
def coupled_errors(
    initial,  # (paths, width) float32
    roots,  # (steps,) float32, the square roots of their lengths
    flags,  # (steps,) int32: bit j where a layer of depth j ends, bit 30 where the time is common
    scales,  # (DEPTHS,) float32
    floors,  # (DEPTHS,) float32, relative to |u|²
    step_noise,  # (steps, paths, width) float32, not read where DRAWN
    end_noise,  # (ends, paths, width) float32, not read where DRAWN
    errors,  # out: (2, DEPTHS, paths) float32, squared: at all layers' ends, at common times
    differences,  # out: (3 DEPTHS - 4, paths) float32, of neighbouring depths at common times, if CONSECUTIVE
    finite,  # out: (paths,) int32, 1 where the reference stayed finite
    steps,
    paths,
    width,
    first_path,
    low,
    high,
    reference_scale,
    DEPTHS: tl.constexpr,
    OPEN: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FINAL: tl.constexpr,
    CONSECUTIVE: tl.constexpr,
    DRAWN: tl.constexpr,
    GROUP: tl.constexpr,
    LANES: tl.constexpr,
    CHUNKS: tl.constexpr,
    PATHS: tl.constexpr,
):
    """Walk all steps of PATHS paths; depths ascend, and of those that end together the deepest is first.

    `mean` is what the reference's noise and the products drawn so far say of the product of an open layer,
    `covariance` what they leave open. OPEN has bit j·DEPTHS + i if a layer of depth i can be running or
    waiting when the product of depth j is drawn. For other pairs there is no code. Where OPEN allows for a
    layer that has just ended, its covariances are 0. `differences` has the squared sizes of the DEPTHS - 1
    consecutive differences, then at the last time their squares and the products of neighbours.
    """
    row = tl.program_id(0) * PATHS + tl.arange(0, PATHS)[:, None]
    lane = tl.arange(0, LANES)[None, :]
    inside = row < paths
    path = row + first_path
    wide_row = row.to(tl.int64)
    wide_paths = paths.to(tl.int64)

    h = _load(initial, wide_row, lane, inside, width, LANES, CHUNKS)
    nothing = (tl.zeros((PATHS, LANES), tl.float32),) * CHUNKS
    states = (h,) * DEPTHS
    v = (_activate_all(h, ACTIVATION, CHUNKS),) * DEPTHS
    mean = (nothing,) * DEPTHS
    covariance = (tl.zeros((PATHS, LANES), tl.float32),) * (DEPTHS * (DEPTHS + 1) // 2)
    worst = (tl.zeros((PATHS, 1), tl.float32),) * DEPTHS
    worst_common = (tl.zeros((PATHS, 1), tl.float32),) * DEPTHS
    sizes = (tl.zeros((PATHS, 1), tl.float32),) * DEPTHS
    end = 0

    for k in range(steps):
        root = tl.load(roots + k)
        flag = tl.load(flags + k)
        if DRAWN:
            xi = _draw(k, path, lane, inside, width, low, high, 0, GROUP, LANES, CHUNKS)
        else:
            xi = _load(step_noise, wide_row + wide_paths * k, lane, inside, width, LANES, CHUNKS)
        xi = _scale(root, xi, CHUNKS)

        u = _activate_all(h, ACTIVATION, CHUNKS)
        square = _dot(u, u, CHUNKS)
        norm = tl.sqrt(square)
        unit = _scale(1.0 / tl.maximum(norm, 1e-30), u, CHUNKS)
        h = _add_multiple(h, reference_scale * norm, xi, CHUNKS)

        known, mean, along = mean, (), ()
        for j in tl.static_range(DEPTHS):
            along = along + (_dot(unit, v[j], CHUNKS),)
            mean = mean + (_add_multiple(known[j], along[j], xi, CHUNKS),)
        covariance = _accumulate(covariance, unit, v, along, root, DEPTHS, CHUNKS)

        for j in tl.static_range(DEPTHS - 1, -1, -1):
            if (flag >> j) & 1 == 1:
                if DRAWN:
                    z = _draw(end, path, lane, inside, width, low, high, 1, GROUP, LANES, CHUNKS)
                else:
                    z = _load(end_noise, wide_row + wide_paths * end, lane, inside, width, LANES, CHUNKS)
                end += 1
                variance = tl.sum(covariance[j * (j + 1) // 2 + j], axis=1, keep_dims=True)
                variance = tl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL)
                deviation = tl.sqrt(variance)
                product = _add_multiple(mean[j], deviation, z, CHUNKS)
                # Below the floor a variance is rounding, on which nothing is regressed.
                factor = deviation / (variance + tl.load(floors + j) * square + 1e-37)
                shares = ()
                for i in tl.static_range(DEPTHS):
                    share = factor
                    if (OPEN >> (j * DEPTHS + i)) & 1 == 1:
                        both = covariance[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)]
                        share = factor * tl.sum(both, axis=1, keep_dims=True)
                        mean = _replace(mean, i, _add_multiple(mean[i], share, z, CHUNKS))
                    shares = shares + (share,)
                covariance = _eliminate(covariance, j, shares, OPEN, DEPTHS, LANES)
                mean = _replace(mean, j, nothing)

                state = _add_multiple(states[j], tl.load(scales + j), product, CHUNKS)
                states = _replace(states, j, state)
                v = _replace(v, j, _activate_all(state, ACTIVATION, CHUNKS))

                gap = _add_multiple(state, -1.0, h, CHUNKS)
                error = _dot(gap, gap, CHUNKS)
                if FINAL:
                    now = error
                    now_common = error
                else:
                    now = tl.maximum(worst[j], error, propagate_nan=tl.PropagateNan.ALL)
                    now_common = tl.maximum(worst_common[j], error, propagate_nan=tl.PropagateNan.ALL)
                # Written out: in one dimension Triton 3.6 takes `_replace` of numbers for the one of vectors,
                # made for `mean`.
                worst = worst[:j] + (now,) + worst[j + 1 :]
                now_common = tl.where((flag >> 30) & 1 == 1, now_common, worst_common[j])
                worst_common = worst_common[:j] + (now_common,) + worst_common[j + 1 :]

        if CONSECUTIVE:  # noqa: SIM102 (known when the kernel is compiled, the flag is not)
            if (flag >> 30) & 1 == 1:
                for j in tl.static_range(DEPTHS - 1):
                    move = _add_multiple(states[j + 1], -1.0, states[j], CHUNKS)
                    size = _dot(move, move, CHUNKS)
                    if not FINAL:
                        size = tl.maximum(sizes[j], size, propagate_nan=tl.PropagateNan.ALL)
                    sizes = sizes[:j] + (size,) + sizes[j + 1 :]

    good = tl.full((PATHS, LANES), 1, tl.int32)
    for c in tl.static_range(CHUNKS):
        good = tl.where(tl.abs(h[c]) < float("inf"), good, 0)
    tl.store(finite + row, tl.min(good, axis=1, keep_dims=True), mask=inside)
    for j in tl.static_range(DEPTHS):
        tl.store(errors + wide_paths * j + wide_row, worst[j], mask=inside)
        tl.store(errors + wide_paths * (DEPTHS + j) + wide_row, worst_common[j], mask=inside)
    if CONSECUTIVE:
        for j in tl.static_range(DEPTHS - 1):
            move = _add_multiple(states[j + 1], -1.0, states[j], CHUNKS)
            tl.store(differences + wide_paths * j + wide_row, sizes[j], mask=inside)
            square_row = differences + wide_paths * (DEPTHS - 1 + j)
            tl.store(square_row + wide_row, _dot(move, move, CHUNKS), mask=inside)
            if j > 0:
                before = _add_multiple(states[j], -1.0, states[j - 1], CHUNKS)
                product_row = differences + wide_paths * (2 * DEPTHS - 3 + j)
                tl.store(product_row + wide_row, _dot(before, move, CHUNKS), mask=inside)
