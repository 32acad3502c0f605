"""Weight processes on [0, 1]: what a layer's weights are before any network reads them.

Two kinds, told apart by type. An `IncrementProcess` is read through what happens between two times (Brownian motion,
i.i.d. sums): a coarse layer is exactly the sum of the fine ones. A `FunctionProcess` is read through its value at a time
(smooth Gaussian process, deterministic trend): one draw is the same function at every depth.
"""

from deeplimit.processes.base import FunctionPath, FunctionProcess, IncrementProcess, Process
from deeplimit.processes.increments import IID, Brownian
from deeplimit.processes.smooth import SmoothGaussian
from deeplimit.processes.trend import Trend

__all__ = [
    "IID",
    "Brownian",
    "FunctionPath",
    "FunctionProcess",
    "IncrementProcess",
    "Process",
    "SmoothGaussian",
    "Trend",
]
