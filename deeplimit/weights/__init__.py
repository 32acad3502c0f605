"""Weight laws, and the paths that they give: what a layer's weights are before any recursion reads them.

A `WeightLaw` states its facts, which are all that theory may use. It gives a `Path`: one block of sampled
weights, read as the layers of every depth at once. `Brownian` and `IID` draw increments, so that a coarse
layer is exactly the sum of the fine ones. `SmoothGaussian` and `Trend` are functions of time, the same at
every depth. `TrendAndNoise` is a function that shrinks with the depth plus the increments of an Itô process
(`Ito`) of any covariance. `FractionalBrownian` draws a whole path at once, since increments depend on each
other. `AR1` is an autoregressive chain of layers. `Recorded` holds given weights at given depths.
"""

from deeplimit.weights.autoregressive import AR1
from deeplimit.weights.auxiliary import AuxiliaryDiffusion
from deeplimit.weights.blocks import FreshBlocks
from deeplimit.weights.covariance import Kronecker
from deeplimit.weights.factors import Factors
from deeplimit.weights.facts import Dependence, Facts, together
from deeplimit.weights.fractional import FractionalBrownian, fractional_gaussian_noise
from deeplimit.weights.hidden_units import HiddenUnits
from deeplimit.weights.independent import IID, Brownian, IndependentLaw
from deeplimit.weights.ito import Ito, ItoPath, ItoStep, QuadraticVariation
from deeplimit.weights.law import DrawnLayers, FunctionLaw, Shape, WeightLaw
from deeplimit.weights.path import CoarseSums, Layer, Path, SampledFunction, matvec
from deeplimit.weights.recorded import Recorded
from deeplimit.weights.smooth import SmoothGaussian
from deeplimit.weights.trend import Trend
from deeplimit.weights.trend_and_noise import TrendAndNoise
from deeplimit.weights.volatility import stochastic_volatility

__all__ = [
    "AR1",
    "IID",
    "AuxiliaryDiffusion",
    "Brownian",
    "CoarseSums",
    "Dependence",
    "DrawnLayers",
    "Factors",
    "Facts",
    "FractionalBrownian",
    "FreshBlocks",
    "FunctionLaw",
    "HiddenUnits",
    "IndependentLaw",
    "Ito",
    "ItoPath",
    "ItoStep",
    "Kronecker",
    "Layer",
    "Path",
    "QuadraticVariation",
    "Recorded",
    "SampledFunction",
    "Shape",
    "SmoothGaussian",
    "Trend",
    "TrendAndNoise",
    "WeightLaw",
    "fractional_gaussian_noise",
    "matvec",
    "stochastic_volatility",
    "together",
]
