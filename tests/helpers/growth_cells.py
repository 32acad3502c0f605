"""One cell of a calibration of `stability`: a network and settings, measured many times."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

import deeplimit as dl
from deeplimit.signal.growth_of_network import growths_of

FALSE = {"identity": ("stable", "explosion"), "stable": ("identity", "explosion")}
FALSE["explosion"] = ("identity", "stable")


@dataclass(frozen=True)
class GrowthCell:
    """What was measured in one cell.

    Attributes:
        growth: the true γ. verdicts: how often each verdict on the network was given.
        estimates: γ of signal and gradient (2, replications). intervals: theirs (2, replications, 2).
    """

    growth: float
    verdicts: Counter
    estimates: np.ndarray
    intervals: np.ndarray

    @property
    def covered(self):
        """The share of intervals that contain the true γ, of signal and gradient (2,)."""
        low, high = self.intervals[..., 0], self.intervals[..., 1]
        return ((low <= self.growth) & (self.growth <= high)).mean(axis=1)

    @property
    def widths(self):
        """The mean widths of intervals over the standard deviation of the estimates (2,)."""
        return np.diff(self.intervals, axis=2).mean(axis=(1, 2)) / self.estimates.std(axis=1, ddof=1)

    def false(self):
        """Return how many verdicts are false: another than γ's own, and not "cannot tell"."""
        right = "identity" if self.growth < 0 else "explosion" if self.growth > 0 else "stable"
        return sum(self.verdicts[word] for word in FALSE[right])


def measure_growth_cell(network, growth, replications, *, draws, depths, seed=0, x=None, workers=1):
    """Return one cell: counts of what `stability` says of this network over many replications.

    `growth` is the true γ: 1 - 2β for independent layers, 2(c - β) for others from their critical c on.
    One call draws all replications, which are then judged one by one: they are as independent as seeds.
    """
    report = dl.stability(
        network, depths, x, draws=draws * replications, seed=seed, confidence=0.95, workers=workers
    )
    names = ("hidden_ratio", "hidden_change", "gradient_ratio", "gradient_change")
    logs = np.stack([getattr(report, f"log_{name}") for name in names])
    found = [
        growths_of(network, report.depths, part, x, 0.95) for part in np.split(logs, replications, axis=2)
    ]
    both = [(growths.hidden, growths.gradient) for growths in found]
    return GrowthCell(
        growth,
        Counter(str(growths.verdict) for growths in found),
        np.array([[part.exponent for part in parts] for parts in both]).T,
        np.array([[part.interval for part in parts] for parts in both]).transpose(1, 0, 2),
    )
