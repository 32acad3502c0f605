"""Which process over depth the layers look like, and the trend that it leaves when noise is taken away.

Means of groups are removed first (restricted likelihood), so neither a common part of all layers nor layers
that are merely of one kind can pass as a trend. What is left is compared by BIC: independent layers, trends
of three kernels with noise, moving averages, and fractional noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import torch
from scipy import linalg, optimize, special

from deeplimit.trained.diagnosis import rotations
from deeplimit.trained.diagnosis.hurst import contrasts, diagonal_blocks, fractional_covariance
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
from deeplimit.trained.diagnosis.stacks import Stack

BLOCK = 256
"""Longer stacks without groups are compared by blocks of so many layers."""
LEAST_NOISE = 1e-4
"""Kernels keep this share of noise, so that smooth ones stay positive definite."""
LENGTHS, SHARES = 14, 33
"""How many lengths and noise shares the likelihood is tried at before it is refined."""
ROUND_OFF = 1e-14
"""Share of the layers' squares below which what their mean leaves is round-off of sums: all are equal."""
KERNELS = ("smooth", "matern", "rough", "moving")
"""Kernels that are fitted, each with noise; `Model` says which they are."""
SMOOTH, ROUGH = ("smooth", "matern"), ("rough", "moving", "fractional")
"""Processes with a smooth trend, and those without, between which `smoother_by` decides."""


@final
@dataclass(frozen=True)
class Model:
    """One process over depth, fitted to the layers about the means of their groups.

    Attributes:
        name: "independent", "smooth" (squared exponential kernel), "matern" (Matérn-3/2), "rough"
            (exponential kernel), "moving" (moving average: triangular kernel), each kernel with noise, or
            "fractional".
        noise: share of noise in the covariance of a kernel; 1 for independent layers, 0 for fractional noise.
        length: of the kernel, in layers; None without one.
        hurst: of fractional noise; None for the others.
        deviance: minus twice the log likelihood per entry, less that of independent layers.
        parameters: how many were fitted.
    """

    name: str
    noise: float
    length: float | None
    hurst: float | None
    deviance: float
    parameters: int

    def covariance(self, labels: tuple[int, ...]) -> np.ndarray:
        """Return the covariance of layers (L, L), up to a factor; layers of different groups have none."""
        depth = len(labels)
        if self.hurst is not None:
            return fractional_covariance(self.hurst, labels)
        if self.length is not None:
            whole = (1 - self.noise) * kernel(self.name, depth, self.length) + self.noise * np.eye(depth)
            masked: np.ndarray = whole * np.equal.outer(labels, labels)
            return masked
        return np.eye(depth)


@final
@dataclass(frozen=True)
class ModelComparison:
    """Processes over depth, best first.

    Attributes:
        models: all that were fitted, by BIC.
        excess: BIC of each, less that of the best.
        effective_entries: independent entries of equal variance, for the best model.
        samples: those of all blocks of layers, by which deviances per entry are multiplied.
    """

    models: tuple[Model, ...]
    excess: tuple[float, ...]
    effective_entries: float
    samples: float

    @property
    def smoother_by(self) -> float:
        """How much better a smooth trend fits than a rough process: twice the difference in log likelihood.

        Parameters do not count here: a penalty for one more would pass for evidence of roughness.
        """
        deviance = {model.name: model.deviance for model in self.models}
        gain = min(deviance[name] for name in ROUGH) - min(deviance[name] for name in SMOOTH)
        return self.samples * gain

    @property
    def trend(self) -> Model:
        """The best model with a kernel and noise: what denoises. A moving average is noise as a whole."""
        return next(model for model in self.models if model.length is not None and model.name != "moving")


def kernel(name: str, depth: int, length: float) -> np.ndarray:
    """Return a kernel of unit variance over layers (L, L).

    Examples:
        >>> kernel("rough", 3, 1.0)[0].round(3).tolist()
        [1.0, 0.368, 0.135]
    """
    lag = np.arange(depth) / length
    if name == "smooth":
        row = np.exp(-(lag**2) / 2)
    elif name == "matern":
        row = (1 + math.sqrt(3) * lag) * np.exp(-math.sqrt(3) * lag)
    elif name == "moving":
        row = np.maximum(1 - lag, 0.0)
    else:
        row = np.exp(-lag)
    matrix: np.ndarray = linalg.toeplitz(row)
    return matrix


@lru_cache(maxsize=128)
def _spectrum(name: str, length: float, labels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues (M,) and vectors (M, M) of a kernel's covariance of contrasts."""
    basis = contrasts(labels)
    values, vectors = np.linalg.eigh(
        basis.T @ (kernel(name, len(labels), length) * np.equal.outer(labels, labels)) @ basis
    )
    return np.maximum(values, 0.0), vectors


def _deviance(variances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return minus twice the log likelihood per entry (...), scale profiled out, for variances (..., M)."""
    count = variances.shape[-1]
    scale = (sizes / variances).sum(axis=-1) / count
    deviance: np.ndarray = count * np.log(scale) + np.log(variances).sum(axis=-1)
    return deviance


def _fit_kernel(name: str, labels: tuple[int, ...], products: np.ndarray, independent: float) -> Model:
    # A normal quantile gives shares near 0 and 1 as much room as those between.
    shares = np.clip(special.ndtr(np.linspace(-3.7, 3.7, SHARES)), LEAST_NOISE, 1.0)

    def best_share(log_length: float) -> tuple[float, float]:
        values, vectors = _spectrum(name, float(math.exp(log_length)), labels)
        sizes = np.einsum("km,kl,lm->m", vectors, products, vectors, optimize=True)

        def at(share: float | np.ndarray) -> np.ndarray:
            share = np.asarray(share)[..., None]
            return _deviance((1 - share) * values + share, sizes)

        k = int(np.argmin(at(shares)))
        low, high = shares[max(k - 1, 0)], shares[min(k + 1, SHARES - 1)]
        found = optimize.minimize_scalar(lambda share: float(at(share)), bounds=(low, high), method="bounded")
        return float(found.fun), float(found.x)

    lengths = np.linspace(math.log(0.7), math.log(1.5 * len(labels)), LENGTHS)
    k = int(np.argmin([best_share(length)[0] for length in lengths]))
    bounds = (lengths[max(k - 1, 0)], lengths[min(k + 1, LENGTHS - 1)])
    found = optimize.minimize_scalar(
        lambda length: best_share(length)[0], bounds=bounds, method="bounded", options={"xatol": 1e-3}
    )
    deviance, share = best_share(found.x)
    return Model(name, share, math.exp(found.x), None, deviance - independent, 2)


def _fit_fractional(labels: tuple[int, ...], products: np.ndarray, independent: float) -> Model:
    basis = contrasts(labels)

    def at(hurst: float) -> float:
        factor = np.linalg.cholesky(basis.T @ fractional_covariance(hurst, labels) @ basis)
        scale = float(np.trace(linalg.cho_solve((factor, True), products))) / len(factor)
        return len(factor) * math.log(scale) + 2 * float(np.log(np.diagonal(factor)).sum())

    found = optimize.minimize_scalar(at, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-4})
    return Model("fractional", 0.0, None, float(found.x), float(found.fun) - independent, 1)


def compare_models(gram: LayerGram, equal_sizes: bool = False) -> ModelComparison:
    """Return processes over depth, compared by BIC with the effective number of entries.

    Args:
        gram: products of layers.
        equal_sizes: divide layers by their sizes, as in `roughness`.

    Raises:
        ValueError: where fewer than 3 layers are left beside the means of groups, these leave nothing, or
            more than 256 layers lie in groups.

    Not checked: that one of the processes is right. Where two differ by less than about 10, the data do not
    tell them apart.

    Examples:
        >>> import numpy as np
        >>> from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
        >>> layers = np.random.default_rng(1).standard_normal((12, 400))
        >>> compare_models(LayerGram(layers @ layers.T / 400, 400)).models[0].name
        'independent'
    """
    depth = len(gram.products)
    labels = gram.groups or (0,) * depth
    if depth > BLOCK and len(set(labels)) > 1:
        raise ValueError(
            f"models of more than {BLOCK} layers in groups are not compared, got {depth} layers; leave groups"
            " out, or take the layers of one group."
        )
    blocks = diagonal_blocks(cosines(gram) if equal_sizes else gram.products, BLOCK)
    labels = labels[: blocks.shape[-1]]
    basis = contrasts(labels)
    if basis.shape[1] < rotations.FEWEST:
        raise ValueError(
            f"models need 3 layers more than groups, got {depth} layers in groups {gram.groups}; give fewer"
            " groups, or take a network of more layers."
        )
    products = basis.T @ blocks.mean(axis=0) @ basis
    if not np.trace(products) > ROUND_OFF * np.trace(blocks.mean(axis=0)):
        raise ValueError(
            "models need layers that differ in more than their sizes, but all layers of a group are equal"
            f"{' once each is divided by its size' * equal_sizes}; leave such weights out, or take them after"
            " training."
        )
    products = products * (basis.shape[1] / np.trace(products))
    independent = float(_deviance(np.ones(basis.shape[1]), np.diagonal(products)))
    models = [
        Model("independent", 1.0, None, None, 0.0, 0),
        *(_fit_kernel(name, labels, products, independent) for name in KERNELS),
        _fit_fractional(labels, products, independent),
    ]
    likeliest = min(models, key=lambda model: model.deviance)
    factor = np.linalg.cholesky(basis.T @ likeliest.covariance(labels) @ basis)
    half = linalg.solve_triangular(factor, basis.T, lower=True)
    white = half @ blocks @ half.T
    lost = rotations.spread_lost(blocks.shape[-1]) if equal_sizes else 1.0
    entries = rotations.effective_entries(white, gram.entries) / lost
    samples = len(blocks) * entries
    penalty = math.log(samples * basis.shape[1])
    bic = [samples * model.deviance + penalty * model.parameters for model in models]
    order = np.argsort(bic, kind="stable")
    return ModelComparison(
        tuple(models[k] for k in order),
        tuple(float(bic[k] - bic[order[0]]) for k in order),
        entries,
        samples,
    )


def trend_matrix(model: Model, groups: tuple[int, ...], depth: int) -> np.ndarray:
    """Return the matrix (L, L) that turns layers into their trend: group means and predicted departures.

    The best linear unbiased predictor; means of groups are estimated by generalised least squares.

    Not checked: that the model has a kernel; others have no trend but the means.

    Examples:
        >>> trend_matrix(Model("smooth", 1.0, 2.0, None, 0.0, 2), (), 2).round(3).tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """
    labels = groups or (0,) * depth
    covariance = model.covariance(labels)
    basis = contrasts(labels)
    inner = basis @ np.linalg.solve(basis.T @ covariance @ basis, basis.T)
    # Residuals of generalised least squares, weighed by the inverse covariance, are inner @ layers.
    matrix: np.ndarray = np.eye(depth) - model.noise * inner
    return matrix


def denoised(stack: Stack, model: Model) -> Stack:
    """Return the trend of a stack's layers under a model, in the precision of the stack.

    Layers are divided by their sizes, smoothed, and multiplied by them again.

    Examples:
        >>> import torch
        >>> layers = torch.arange(4.0)[:, None] + torch.tensor([[0.0], [1.0], [0.0], [1.0]])
        >>> model = Model("smooth", 0.5, 20.0, None, 0.0, 2)
        >>> denoised(Stack("A", layers), model).values.flatten().diff().min() > 0
        tensor(True)
    """
    return smoothed(stack, smoothing(stack, model))


def smoothing(stack: Stack, model: Model) -> torch.Tensor:
    """Return the matrix (L, L) that makes a stack's trend of its layers."""
    matrix = torch.from_numpy(trend_matrix(model, stack.groups, stack.depth))
    sizes = torch.linalg.vector_norm(stack.values.reshape(stack.depth, -1), dim=1, dtype=torch.float64)
    inverse = torch.where(sizes > 0, 1 / sizes, 0.0)
    scaled: torch.Tensor = sizes[:, None] * matrix * inverse
    return scaled


def smoothed(stack: Stack, matrix: torch.Tensor) -> Stack:
    """Return a matrix (L, L) times a stack's layers, in their precision."""
    flat = stack.values.reshape(stack.depth, -1)
    trend = torch.empty_like(flat)
    width = max(1, 2**22 // stack.depth)
    for begin in range(0, flat.shape[1], width):
        part = slice(begin, begin + width)
        trend[:, part] = (matrix @ flat[:, part].to(torch.float64)).to(flat.dtype)
    return Stack(stack.name, trend.reshape(stack.values.shape), stack.groups)
