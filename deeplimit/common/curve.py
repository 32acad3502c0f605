"""One quantity of a report against depth with its fitted power law: what several reports have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """What `deeplimit.plot` and `deeplimit.table` take from a report; arrays have one entry per depth (m,).

    Attributes:
        name: the word by which `of=` chooses it.
        axis: what is measured, as the vertical axis says it; mathematics between dollar signs.
        depths, values: numbers of layers, and what was measured at each.
        low, high: ends of the error bars.
        bars: what the bars are, such as "95 % intervals".
        rate, interval: fitted exponent with its interval; NaN where none was fitted.
        symbol: what the exponent is called.
        slope: power of the depth that the values follow by that fit, such as -rate; NaN for none.
        across: what the depths are, as the horizontal axis says it.

    Examples:
        >>> import numpy as np
        >>> from deeplimit.common.curve import Curve
        >>> depths, errors = np.array([8, 16]), np.array([0.2, 0.1])
        >>> fitted = {"rate": 1.0, "interval": (0.9, 1.1)}
        >>> Curve("error", "error", depths, errors, errors / 2, 2 * errors, **fitted).order
        '1.00 [0.90, 1.10]'
    """

    name: str
    axis: str
    depths: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bars: str = "95 % intervals"
    rate: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    symbol: str = "order"
    slope: float = math.nan
    across: str = "depth $L$"

    @property
    def order(self) -> str:
        """The exponent with its interval as text; empty where none was fitted."""
        if not math.isfinite(self.rate):
            return ""
        low, high = self.interval
        if not math.isfinite(high - low):
            return f"{self.rate:.3g}"
        # Two digits of the interval's width say all that is known; a line has room for four.
        digits = min(4, max(2, 1 - math.floor(math.log10(max(high - low, 1e-9)))))
        return f"{self.rate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
