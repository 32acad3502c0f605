"""W2, W3 and W4: what Marion et al. (2025) simulate at initialisation, against a plain loop over networks in
PyTorch.

The loops do what a user would write first: one network at a time, its layers as a list of matrices, gradients
by autograd, one fractional path at a time. They are timed on a few networks and scaled to the whole;
deeplimit is timed on the sizes given.
"""

from __future__ import annotations

import math
import os

import numpy as np
import torch

import deeplimit as dl
from benchmarks.timing import FLOOR, OURS, Row, Workload, timed, timed_in_turn
from deeplimit.driving import fractional_gaussian_noise

WIDTH, DEPTH = 40, 1000
HURST, EXPONENTS, DRAWS, INPUTS = 51, 70, 5, 10


def plain_path(hurst: float, steps: int, generator: np.random.Generator | None = None) -> np.ndarray:
    """Return one stretch of fractional Gaussian noise as a user would draw it: circulant embedding, a path at
    a time.
    """
    lags = np.arange(steps + 1)
    covariance = 0.5 * (abs(lags + 1) ** (2 * hurst) - 2 * lags ** (2 * hurst) + abs(lags - 1) ** (2 * hurst))
    eigenvalues = np.fft.fft(np.concatenate([covariance, covariance[-2:0:-1]])).real
    normals = (generator or np.random.default_rng()).standard_normal((2, 2 * steps))
    noise = np.fft.fft(np.sqrt(eigenvalues / (2 * steps)) * (normals[0] + 1j * normals[1]))
    return noise.real[:steps]


def looped_path(hurst: float, steps: int, generator: np.random.Generator | None = None) -> np.ndarray:
    """Return the same, with a loop over frequencies inside, as published code for these experiments does."""
    standard_normal = np.random.standard_normal if generator is None else generator.standard_normal

    def covariance(lag: int) -> float:
        return 0.5 * (
            np.abs(lag + 1) ** (2 * hurst) - 2 * np.abs(lag) ** (2 * hurst) + np.abs(lag - 1) ** (2 * hurst)
        )

    row = [covariance(lag) for lag in range(steps + 1)]
    eigenvalues = np.fft.fft(row + row[-2:0:-1]).real
    normals = np.zeros((2 * steps, 2), dtype=complex)
    for k in range(1, steps):
        normals[k, 0] = normals[2 * steps - k, 0] = standard_normal()
        normals[k, 1] = normals[2 * steps - k, 1] = standard_normal()
    normals[[0, steps], 0] = standard_normal(2)
    signs = np.sign(steps - np.arange(2 * steps))
    waves = np.sqrt(np.maximum(eigenvalues, 0.0) / (4 * steps)) * (normals[:, 0] + 1j * signs * normals[:, 1])
    waves[[0, steps]] *= math.sqrt(2.0)
    return np.fft.fft(waves).real[:steps]


def plain_passes(layers: list[tuple[torch.Tensor, torch.Tensor]], scale: float) -> tuple[float, float]:
    """Return what one input's pass through res-3, forwards and backwards by autograd, changes."""
    width = layers[0][0].shape[0]
    h0 = torch.randn(width, requires_grad=True)
    h = h0
    for v, w in layers:
        h = h + scale * (v @ torch.relu(w @ h))
    end = torch.randn(width)
    (gradient,) = torch.autograd.grad(h, h0, end)
    change = ((h - h0).norm() / h0.norm()).item()
    return change, ((gradient - end).norm() / end.norm()).item()


def plain_uniform(width: int, depth: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the layers of one network with uniform weights."""
    bound = math.sqrt(3.0 / width)
    return [
        (torch.empty(width, width).uniform_(-bound, bound), torch.empty(width, width).uniform_(-bound, bound))
        for _ in range(depth)
    ]


def plain_gaussian(width: int, depth: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the layers of one network with Gaussian weights."""
    return [tuple(torch.randn(2, width, width) / math.sqrt(width)) for _ in range(depth)]


def w2(*, quick: bool, repeats: int) -> Workload:
    """Time the phase diagram of Figure 7: 51 Hurst indices × 5 weight draws × 70 exponents × 10 inputs, L =
    1000, d = 40.

    Once, whatever `repeats` is: it takes a minute.
    """
    indices = 2 if quick else HURST
    hurst = np.linspace(0.05, 0.97, indices).tolist()
    exponents = np.linspace(0.0, 1.3, EXPONENTS).tolist()

    def ours() -> None:
        dl.phase_diagram(dl.res3, WIDTH, DEPTH, hurst=hurst, exponents=exponents, draws=DRAWS, inputs=INPUTS)

    seconds, _ = timed(ours, 1)
    scale = HURST / indices
    note = "all of it" if scale == 1 else f"{indices} of {HURST} Hurst indices, scaled"
    rows = [Row("deeplimit", seconds * scale, note, role=OURS)]
    path, _ = timed(lambda: plain_path(0.7, DEPTH), 20)
    noise = fractional_gaussian_noise(
        0.7, DEPTH, (2, WIDTH, WIDTH), torch.Generator().manual_seed(0), torch.float32
    )
    layers = [(pair[0] / math.sqrt(WIDTH), pair[1] / math.sqrt(WIDTH)) for pair in noise]
    one, _ = timed(lambda: plain_passes(layers, DEPTH**-0.7), 5)
    networks, passes = HURST * DRAWS, HURST * DRAWS * EXPONENTS * INPUTS
    plain = networks * 2 * WIDTH**2 * path + passes * one
    note = f"{1e3 * path:.2f} ms a path x {networks * 2 * WIDTH**2:,}, {1e3 * one:.0f} ms a pass x {passes:,}"
    rows.append(Row("plain PyTorch, a network and an input at a time", plain, note))
    # The floor: the products alone, on every core, in the shape that they have.
    matrix, states = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, EXPONENTS * INPUTS)
    before, cores = torch.get_num_threads(), os.cpu_count() or 1
    torch.set_num_threads(1)
    product, _ = timed(lambda: [matrix @ states for _ in range(1000)], 5)
    torch.set_num_threads(before)
    floor = 4 * networks * DEPTH * 1.1 * product / 1000 / cores
    note = f"{cores} cores, {1e3 * product:.0f} µs a product"
    rows.append(Row("floor: the matrix products alone", floor, note, role=FLOOR))
    words = "Figure 7: 51 x 5 x 70 x 10 passes, L = 1000, d = 40, and a tenth of that depth"
    return Workload("w2", words, tuple(rows), {"Hurst indices": indices, "width": WIDTH, "depth": DEPTH})


def w3(*, quick: bool, repeats: int) -> Workload:
    """Time the laws of Figure 2: 10^4 networks of L = 1000, d = 100, forwards and backwards."""
    everything, width = 10_000, 100
    few = 40 if quick else 200
    seconds, _ = timed(lambda: dl.stability(dl.res3(width, weights=dl.IID("uniform")), [DEPTH], draws=few), 1)
    uniform = seconds * everything / few
    many = 1000 if quick else everything
    seconds, _ = timed(lambda: dl.stability(dl.res3(width), [DEPTH], draws=many), 1)
    gaussian = seconds * everything / many
    one, _ = timed(lambda: plain_passes(plain_uniform(width, DEPTH), DEPTH**-0.5), 3)
    other, _ = timed(lambda: plain_passes(plain_gaussian(width, DEPTH), DEPTH**-0.5), 3)
    buffer, generator = torch.empty(10**7), torch.Generator().manual_seed(0)
    draw, _ = timed(lambda: buffer.uniform_(generator=generator), 3)
    cores = os.cpu_count() or 1
    numbers = 2 * everything * DEPTH * width**2
    uniformly = "deeplimit, uniform weights, drawn whole"
    through_products = "deeplimit, Gaussian weights, through their products"
    drawn = "all of them" if many == everything else f"{many} networks, scaled"
    return Workload(
        "w3",
        "Figure 2: 10,000 networks, L = 1000, d = 100",
        (
            Row(uniformly, uniform, f"{few} networks, scaled", role=OURS),
            Row(through_products, gaussian, drawn, role=OURS),
            Row(
                "plain PyTorch, a network at a time, uniform weights", one * everything, "3 networks, scaled"
            ),
            Row(
                "plain PyTorch, a network at a time, Gaussian weights",
                other * everything,
                "3 networks, scaled; beside deeplimit's Gaussian weights",
                beside=through_products,
            ),
            Row(
                "floor: drawing the uniform weights",
                numbers * draw / 1e7 / cores,
                f"{1e-6 * 1e7 / draw:.0f} M/s a core, {cores} cores",
                role=FLOOR,
            ),
        ),
        {"uniform networks": few, "Gaussian networks": many, "width": width, "depth": DEPTH},
    )


def w4(*, quick: bool, repeats: int) -> Workload:
    """Time 3,200 fractional Brownian paths of 1,000 steps."""
    count = 3200
    generator = torch.Generator().manual_seed(0)
    few = 100 if quick else 1000
    coefficients = torch.randn(DEPTH + 1, count, 2)
    waves = torch.view_as_complex(coefficients)

    def floor() -> None:
        coefficients.normal_(generator=generator)
        torch.fft.irfft(waves, n=2 * DEPTH, dim=0)

    def ours() -> None:
        fractional_gaussian_noise(0.7, DEPTH, (count,), generator, torch.float32)

    ours()  # caches are no part of the work
    works = [
        ours,
        lambda: [plain_path(0.7, DEPTH) for _ in range(few)],
        lambda: [looped_path(0.7, DEPTH) for _ in range(50)],
        floor,
    ]
    seconds, plain, looped, bound = (time for time, _ in timed_in_turn(works, max(5, repeats)))
    return Workload(
        "w4",
        "3,200 fractional Brownian paths of 1,000 steps",
        (
            Row("deeplimit, one batch", seconds, role=OURS),
            Row("numpy, a path at a time", plain * count / few, f"{few} paths, scaled"),
            Row("numpy, a path and a frequency at a time", looped * count / 50, "50 paths, scaled"),
            Row("floor: the normals and the transform", bound, role=FLOOR),
        ),
        {"paths": count, "depth": DEPTH, "timed a path at a time": few},
    )
