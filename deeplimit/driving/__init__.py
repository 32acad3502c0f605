"""Weight laws, and the paths that they give: what a layer's weights are before any recursion reads them.

A `WeightLaw` states its facts, which are all that theory may use, and its channels, which say what passes may
share and draw. It gives a `Path`: one block of sampled
weights, read as the layers of every depth at once. `Brownian` and `IID` draw increments, so that a coarse
layer is exactly the sum of the fine ones. `SmoothGaussian` and `Trend` are functions of time, the same at
every depth. `TrendAndNoise` is a function that shrinks with the depth plus the increments of an Itô process
(`Ito`) of any covariance. `FractionalBrownian` draws a whole path at once, since increments depend on each
other. `AR1` is an autoregressive chain of layers, `MovingAverage` a moving average of innovations. `Recorded`
holds given weights at given depths.
"""

from deeplimit.driving.autoregressive import AR1
from deeplimit.driving.auxiliary import AuxiliaryDiffusion
from deeplimit.driving.blocks import FreshBlocks
from deeplimit.driving.covariance import Kronecker
from deeplimit.driving.drawing import draw_layers, layers_in_law, layers_of
from deeplimit.driving.fractional import FractionalBrownian, fractional_gaussian_noise
from deeplimit.driving.hidden_units import HiddenUnits
from deeplimit.driving.independent import IID, Brownian, IndependentLaw
from deeplimit.driving.ito import Ito, ItoPath, ItoStep, QuadraticVariation
from deeplimit.driving.law import (
    Channel,
    ChannelKind,
    Dependence,
    Factors,
    Facts,
    FunctionLaw,
    Shape,
    WeightLaw,
    channels_of,
    check_depths,
    critical_exponent,
    factors_of,
    functions_of,
    motions_in_words,
    motions_of,
    noise_of,
    together,
)
from deeplimit.driving.moving_average import MovingAverage
from deeplimit.driving.path import CoarseSums, DrawnLayers, Layer, Path, SampledFunction, matvec
from deeplimit.driving.recorded import Recorded
from deeplimit.driving.smooth import SmoothGaussian
from deeplimit.driving.space_time import SpaceTimeBrownian
from deeplimit.driving.trend import Trend
from deeplimit.driving.trend_and_noise import TrendAndNoise
from deeplimit.driving.volatility import stochastic_volatility

__all__ = [
    "AR1",
    "IID",
    "AuxiliaryDiffusion",
    "Brownian",
    "Channel",
    "ChannelKind",
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
    "MovingAverage",
    "Path",
    "QuadraticVariation",
    "Recorded",
    "SampledFunction",
    "Shape",
    "SmoothGaussian",
    "SpaceTimeBrownian",
    "Trend",
    "TrendAndNoise",
    "WeightLaw",
    "channels_of",
    "check_depths",
    "critical_exponent",
    "draw_layers",
    "factors_of",
    "fractional_gaussian_noise",
    "functions_of",
    "layers_in_law",
    "layers_of",
    "matvec",
    "motions_in_words",
    "motions_of",
    "noise_of",
    "stochastic_volatility",
    "together",
]
