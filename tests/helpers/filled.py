"""Layers to be filled by `dl.init`, the covariances that papers write down, and how far weights are off."""

import math

import numpy as np
import torch
from scipy import stats

import deeplimit as dl

LAYERS, SHAPE = 8, (400, 256)
ENTRIES = math.prod(SHAPE)
FAN_IN = SHAPE[1]
LAWS = [
    dl.Brownian(),
    dl.IID("uniform"),
    dl.IID("rademacher"),
    dl.SmoothGaussian(0.1),
    dl.SmoothGaussian(0.4),
    dl.FractionalBrownian(0.2),
    dl.FractionalBrownian(0.7),
    dl.FractionalBrownian(0.95),
]
BY_NAME = {"ids": lambda law: law.describe()}


def empty(layers=LAYERS, shape=SHAPE, dtype=torch.float32, device="cpu"):
    return [torch.full(shape, torch.nan, dtype=dtype, device=device) for _ in range(layers)]


def covariance(law, layers=LAYERS):
    """Return what the papers write down, by a route of its own."""
    k = np.arange(1, layers + 1)
    lags = np.abs(np.subtract.outer(k, k)).astype(float)
    if isinstance(law, dl.SmoothGaussian):
        return np.exp(-((lags / layers) ** 2) / (2 * law.length_scale**2))
    if isinstance(law, dl.FractionalBrownian):
        # Of the path's values, then of their differences: cov(B_s, B_t) = ½(s^2H + t^2H - |s - t|^2H).
        times = np.arange(layers + 1) / layers
        path = times ** (2 * law.hurst)
        values = 0.5 * (
            path[:, None] + path[None, :] - np.abs(np.subtract.outer(times, times)) ** (2 * law.hurst)
        )
        return layers ** (2 * law.hurst) * np.diff(np.diff(values, axis=0), axis=1)
    return np.eye(layers)


def stacked(weights, scale=1.0):
    return torch.stack([weight.double().reshape(-1) for weight in weights]).numpy() / scale


def farthest(values, expected, squares=2.0):
    """Return the largest deviation of a measured covariance, in standard errors (Isserlis), corrected for the
    number of pairs.
    """
    layers, entries = values.shape
    measured = values @ values.T / entries
    variance = 1.0 + expected**2
    np.fill_diagonal(variance, squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.abs(measured - expected) / np.sqrt(variance / entries)
    if squares == 0.0:
        np.fill_diagonal(scores, 0.0)
        assert np.allclose(np.diagonal(measured), 1.0, rtol=1e-6)
    return stats.norm.isf(min(0.5, stats.norm.sf(scores.max()) * layers**2))


def fourth(law):
    """Return the variance of a squared entry."""
    return {"uniform": 9 / 5 - 1, "rademacher": 0.0}.get(getattr(law, "law", ""), 2.0)
