"""Mean, covariance and quantiles of states over time, kept while paths stream by in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation

WIDEST_COVARIANCE = 256
"""Wider states keep variances alone: a covariance per time would be larger than the paths of a block."""
CAPACITY = 512
"""Numbers that a level of a sketch holds per time and coordinate before they are thinned out.

A thinning of a level of weight w moves a rank by at most w, up and down in turn. At 512 the ranks of 10^4
paths are off by 0.1 % and less than 0.3 % (`tests/simulation/test_summaries.py`), where chance moves that of
the median by 0.5 %, and the sketches of 40 coordinates at 33 times take 50 MB for six depths.
"""


@final
@dataclass(frozen=True)
class Sketch:
    """Some of the values of each cell with their weights, from which quantiles follow (Manku et al. 1998).

    `levels[i]` (*cells, n_i) stand for 2^i values each. Where a level is full, every other one of its sorted
    values goes to the next; `thinned` counts how often. All cells hold equally many, so that the work is done
    on all at once.
    """

    levels: tuple[np.ndarray, ...]
    thinned: tuple[int, ...] = ()

    @staticmethod
    def of(values: Tensor) -> Sketch:
        """Return the sketch of values (P, *cells); NaN counts as larger than all numbers."""
        given = values.movedim(0, -1).contiguous().cpu().numpy()
        lost = np.isnan(given)
        return _fitting([np.where(lost, np.inf, given) if lost.any() else given.copy()], [])

    def merge(self, *others: Sketch) -> Sketch:
        """Return the sketch of the values of all."""
        every = (self, *others)
        levels = [
            np.concatenate([each.levels[at] for each in every if at < len(each.levels)], axis=-1)
            for at in range(max(len(each.levels) for each in every))
        ]
        counts = itertools.zip_longest(*(each.thinned for each in every), fillvalue=0)
        return _fitting(levels, [sum(each) for each in counts])

    def quantiles(self, of: Sequence[float]) -> np.ndarray:
        """Return the quantiles of every cell (len(of), *cells), linear between the middles of weights."""
        values = np.concatenate(self.levels, axis=-1)
        weights = np.concatenate(
            [np.full(each.shape[-1], 2.0**level) for level, each in enumerate(self.levels)]
        )
        order = np.argsort(values, axis=-1, kind="stable")
        values, ordered = np.take_along_axis(values, order, axis=-1), weights[order]
        places = (np.cumsum(ordered, axis=-1) - 0.5 * ordered) / weights.sum()
        cells = values.shape[:-1]
        found = np.empty((len(of), *cells))
        for cell in np.ndindex(*cells):
            found[(slice(None), *cell)] = _between(of, places[cell], values[cell])
        return found


def _fitting(levels: list[np.ndarray], thinned: list[int]) -> Sketch:
    """Return the sketch of these levels, thinned out where over capacity; sorts in place."""
    at = 0
    while at < len(levels):
        count = levels[at].shape[-1]
        if count > CAPACITY:
            levels[at].sort(axis=-1)
            # Of an odd number the largest stays, with its weight. Even and odd places take turns, at each
            # level and from one level to the next, so that errors of rank cancel.
            paired = count - count % 2
            thinned += [0] * (at + 1 - len(thinned))
            risen = levels[at][..., (thinned[at] + at) % 2 : paired : 2]
            above = [levels[at + 1], risen] if at + 1 < len(levels) else [risen]
            levels[at + 1 : at + 2] = [np.concatenate(above, axis=-1)]
            levels[at] = levels[at][..., paired:].copy()
            thinned[at] += 1
        at += 1
    return Sketch(tuple(levels), tuple(thinned))


def _between(of: Sequence[float], places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Interpolate as np.interp does, with infinite values where they are reached and nowhere before."""
    finite = np.isfinite(values)
    found = np.interp(of, places[finite], values[finite]) if finite.any() else np.full(len(of), np.inf)
    beyond = places[~finite & (values > 0)]
    return np.where(np.asarray(of) >= beyond[0], np.inf, found) if len(beyond) else found


@final
@dataclass(frozen=True, eq=False)
class Summary:
    """What is kept of many paths at K times: how many are finite, mean, covariance, quantiles.

    Attributes:
        times: times t (K,), of which a network of depth L has the state h_⌊tL⌋.
        paths: number of paths.
        count: number of paths that are finite at each time (K,); mean and covariance are theirs.
        mean: their mean (K, d); d counts the entries of a state, flattened.
        scatter: sums of products of their deviations (K, d, d); of squares (K, d) for states of more than
            256 entries.
        sketch: values from which `quantile` is found.

    Examples:
        >>> import deeplimit as dl
        >>> t = dl.simulate(dl.res1(4, "tanh"), depths=[16, 64], paths=500, keep="summaries")
        >>> t.summaries[64].mean.shape, t.summaries[64].covariance.shape
        ((33, 4), (33, 4, 4))
        >>> t.limit_summary.quantile([0.05, 0.5, 0.95]).shape
        (3, 33, 4)
    """

    times: np.ndarray
    paths: int
    count: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray = field(repr=False)
    sketch: Sketch = field(repr=False)

    @staticmethod
    def of(states: Tensor, times: np.ndarray) -> Summary:
        """Return the summary of states (P, K, *state_shape)."""
        flat = states.flatten(2)
        finite = torch.isfinite(flat.abs().amax(dim=2))  # seven times as fast as isfinite of every entry
        count, whole = finite.sum(dim=0), bool(finite.all())
        wide = (flat if whole else torch.where(finite[..., None], flat, 0.0)).double()
        mean = wide.sum(dim=0) / count.clamp(min=1)[:, None]
        apart = wide - mean
        if not whole:
            apart.mul_(finite[..., None])  # in place: a new array takes 20 times as long
        if flat.shape[2] <= WIDEST_COVARIANCE:
            rows = apart.transpose(0, 1)  # (K, P, d)
            scatter = torch.bmm(rows.mT, rows)
        else:
            scatter = apart.square().sum(dim=0)
        numbers = (count.cpu().numpy(), mean.cpu().numpy(), scatter.cpu().numpy())
        return Summary(times, len(flat), *numbers, Sketch.of(flat))

    def merge(self, *others: Summary) -> Summary:
        """Return the summary of the paths of all (Chan, Golub & LeVeque 1983)."""
        every = (self, *others)
        counts = np.stack([each.count for each in every])  # (n, K)
        means = np.stack([each.mean for each in every])  # (n, K, d)
        count = counts.sum(axis=0)
        mean = (counts[:, :, None] * means).sum(axis=0) / np.maximum(count, 1)[:, None]
        apart = np.sqrt(counts)[:, :, None] * (means - mean)
        if self.scatter.ndim == 3:
            rows = apart.transpose(1, 0, 2)  # (K, n, d)
            moved = rows.transpose(0, 2, 1) @ rows
        else:
            moved = (apart**2).sum(axis=0)
        scatter = reduce(np.add, (each.scatter for each in every)) + moved
        sketch = self.sketch.merge(*(each.sketch for each in others))
        return Summary(self.times, sum(each.paths for each in every), count, mean, scatter, sketch)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance matrix at every time (K, d, d), divided by the number of paths minus 1.

        Raises ValueError for states of more than 256 entries, of which `variance` is kept.
        """
        if self.scatter.ndim != 3:
            raise ValueError(
                f"covariance of states of {self.mean.shape[1]} entries is not kept, only up to"
                f" {WIDEST_COVARIANCE}; take variance."
            )
        return np.asarray(self.scatter / self._degrees[:, None, None])

    @property
    def variance(self) -> np.ndarray:
        """The variance of every entry (K, d), divided by the number of paths minus 1."""
        return np.asarray(self.squares / self._degrees[:, None])

    @property
    def squares(self) -> np.ndarray:
        """The sums of squares of deviations (K, d)."""
        return self.scatter if self.scatter.ndim != 3 else np.einsum("kdd->kd", self.scatter)

    @property
    def _degrees(self) -> np.ndarray:
        if (fewest := int(self.count.min())) < 2:
            raise ValueError(
                f"a variance needs two finite paths at every time, but there is one with {fewest} of"
                f" {self.paths}; take more paths, or weights that do not explode."
            )
        return self.count - 1.0

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """Return quantiles of every entry: (K, d) for one q, (len(q), K, d) for several.

        A path that is not finite counts as larger than all others. Up to 512 paths are exact; of more, ranks
        are off by about 0.1 %.

        Args:
            q: number between 0 and 1, or several.

        Raises TypeError or ValueError for other numbers.
        """
        one = isinstance(q, (int, float))
        given = [q] if one else validation.entries(q, "q", "a number or several, such as [0.05, 0.5, 0.95]")
        checked = [validation.real(each, "q", minimum=0.0, maximum=1.0) for each in given]
        found = self.sketch.quantiles(checked)
        return np.asarray(found[0] if one else found)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all numbers by name."""
        numbers: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        numbers |= {f"level {place}": level for place, level in enumerate(self.sketch.levels)}
        return {**numbers, "paths": np.array(self.paths), "thinned": np.array(self.sketch.thinned, np.int64)}

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray]) -> Summary:
        """Return the summary that has these `arrays()`."""
        levels = [arrays[f"level {place}"] for place in range(len(arrays) - len(_NUMBERS) - 2)]
        sketch = Sketch(tuple(levels), tuple(arrays["thinned"].tolist()))
        numbers = {name: arrays[name] for name in _NUMBERS}
        return Summary(paths=int(arrays["paths"]), sketch=sketch, **numbers)

    def standard_error(self) -> np.ndarray:
        """Return the standard error of the mean of every entry (K, d)."""
        return np.asarray(np.sqrt(self.variance / np.maximum(self.count, 1)[:, None]))

    @property
    def lost(self) -> int:
        """The number of paths that are not finite at some time."""
        return int(self.paths - self.count.min())


_NUMBERS = ("times", "count", "mean", "scatter")
