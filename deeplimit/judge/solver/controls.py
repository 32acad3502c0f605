"""Control variates for the change of a mean when steps are halved: polynomials of the path, of known mean.

What half steps change on one path is mostly noise of mean 0: the products of a step's two increments, and
their difference. Regressed on sums of these, with weights, the change of a mean has the same mean, and a
standard error that is up to 12 times smaller (geometric Brownian motion, of whose cosine 1.05 times).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from deeplimit.statistics.power_law import coefficients

MOST_MOTIONS, WEIGHTED = 3, 2
"""Brownian motions up to which there are controls, and up to which those with weights of the path are taken:
of two there are 36, of three 24 without weights."""


def controls(path: Tensor, coarse: int, fine: int) -> Tensor:
    """Return controls (P, q) of mean 0 for levels of these numbers of steps, by a path (G + 1, P, m).

    None of them, q = 0, where steps are not halved.
    """
    intervals, (paths, motions) = len(path) - 1, path.shape[1:]
    if fine != 2 * coarse or motions > MOST_MOTIONS:
        return path.new_zeros(paths, 0)
    moved = path[:: intervals // fine].diff(dim=0)
    first, second = moved.reshape(coarse, 2, paths, motions).unbind(1)
    time = ((torch.arange(coarse, dtype=path.dtype) + 0.5) / coarse - 0.5).reshape(-1, 1, 1)
    products = (first.unsqueeze(-1) * second.unsqueeze(-2)).flatten(2)
    apart, end = first - second, path[-1]
    found = [products.sum(0), (products * time).sum(0), apart.sum(0), (apart * time).sum(0)]
    if motions <= WEIGHTED:
        starts = path[:: intervals // coarse][:-1]
        for each in (products, apart):
            found.append(torch.einsum("kpi,kpj->pij", each, starts).flatten(1))
            found.append((each.sum(0).unsqueeze(-1) * end.unsqueeze(-2)).flatten(1))
    if motions == 1:  # a pair of increments of variance v has E Δ1 Δ2 (Δ1 + Δ2)² = 2 v²
        found.append(products.sum(0) * (end.square() - 1) - 2 * coarse / fine**2)
    return torch.cat(found, dim=1)


def without_noise(changes: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return changes (P, m - 1, K) less what controls (P, m - 1, q) explain of them; their means stay.

    All levels' controls are taken for every change: so no weighted sum of changes has a larger variance than
    before, an order's neither. NaN controls are those of levels that have none.
    """
    every = given.reshape(len(given), -1)
    every = every[:, ~np.isnan(every).any(axis=0)]
    if len(every) < PATHS_EACH * max(every.shape[1], 1) or not every.shape[1]:
        return changes
    flat = changes.reshape(len(changes), -1)
    share = coefficients(every - every.mean(axis=0), flat)
    left: np.ndarray = flat - every @ share
    return left.reshape(changes.shape)


PATHS_EACH = 20
"""Paths per control, at least: fitted weights then add a twentieth to the variance."""
