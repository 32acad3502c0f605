"""Residual networks trained at many depths, several of each at once, with gradients written by hand."""

from deeplimit.training.ends import DirectEnds, Ends, LinearEnds, PooledEnds
from deeplimit.training.initialisation import FromWeightLaws, Initialisation, SmallGaussian
from deeplimit.training.optimizers import SGD, Adam, AdamW, Optimizer
from deeplimit.training.report import TrainingReport
from deeplimit.training.stop import Stop
from deeplimit.training.train import train

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "DirectEnds",
    "Ends",
    "FromWeightLaws",
    "Initialisation",
    "LinearEnds",
    "Optimizer",
    "PooledEnds",
    "SmallGaussian",
    "Stop",
    "TrainingReport",
    "train",
]
