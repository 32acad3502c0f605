"""A rising function that is known at points, and its inverse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class Monotone:
    """A rising, piecewise linear function, continued as a straight line at both ends.

    Attributes:
        x: points, increasing (n,).
        y: values there, increasing (n,).
    """

    x: np.ndarray
    y: np.ndarray

    @staticmethod
    def rising(x: np.ndarray, y: np.ndarray, least: float = 0.0) -> Monotone:
        """Return the function up to the first point at which it is not finite, or rises no more.

        It rises while its slope is above `least`.
        """
        with np.errstate(invalid="ignore"):
            enough = np.maximum(1e-9, least * np.diff(x, prepend=x[0]))
            bad = ~(np.diff(y, prepend=-np.inf) > enough) | ~np.isfinite(y)
        end = int(np.argmax(bad)) if bad.any() else len(x)
        return Monotone(x[:end], y[:end])

    def __call__(self, at: np.ndarray) -> np.ndarray:
        """Return the values at points of any shape."""
        return _linear(at, self.x, self.y)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Return where the function has these values."""
        return _linear(values, self.y, self.x)


def _linear(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    index = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    slope = (y[index + 1] - y[index]) / (x[index + 1] - x[index])
    result: np.ndarray = y[index] + slope * (at - x[index])
    return result
