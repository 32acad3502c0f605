"""Weight processes on [0, 1]: what a layer's weights are before any network reads them.

Four kinds, told apart by type. An `IncrementProcess` is read through what happens between two times (Brownian
motion, i.i.d. sums): a coarse layer is exactly the sum of the fine ones. A `FunctionProcess` is read through
its value at a time (smooth Gaussian process, deterministic trend): one draw is the same function at every
depth. `TrendAndNoise` is both: a function that shrinks with the depth, plus the increments of an Itô process
(`Ito`) of any covariance. `FractionalBrownian` is read through its increments too, which are not independent:
a whole path is drawn at once.
"""

from deeplimit.weights.auxiliary import AuxiliaryDiffusion
from deeplimit.weights.base import (
    DrawnLayers,
    Factors,
    FunctionPath,
    FunctionProcess,
    IncrementProcess,
    Process,
)
from deeplimit.weights.covariance import Kronecker
from deeplimit.weights.facts import Dependence, Facts, together
from deeplimit.weights.fractional import FractionalBrownian, fractional_gaussian_noise
from deeplimit.weights.independent import IID, Brownian
from deeplimit.weights.ito import Ito, ItoPath, ItoStep, QuadraticVariation
from deeplimit.weights.smooth import SmoothGaussian
from deeplimit.weights.trend import Trend
from deeplimit.weights.trend_and_noise import TrendAndNoise
from deeplimit.weights.volatility import stochastic_volatility

__all__ = [
    "IID",
    "AuxiliaryDiffusion",
    "Brownian",
    "Dependence",
    "DrawnLayers",
    "Factors",
    "Facts",
    "FractionalBrownian",
    "FunctionPath",
    "FunctionProcess",
    "IncrementProcess",
    "Ito",
    "ItoPath",
    "ItoStep",
    "Kronecker",
    "Process",
    "QuadraticVariation",
    "SmoothGaussian",
    "Trend",
    "TrendAndNoise",
    "fractional_gaussian_noise",
    "together",
    "stochastic_volatility",
]
