"""Residual networks trained at many depths, several of each at once, with gradients written by hand."""

from deeplimit.trained.training.ends import DirectEnds, Ends, LinearEnds, PooledEnds
from deeplimit.trained.training.initialisation import FromWeightLaws, Initialisation, SmallGaussian
from deeplimit.trained.training.optimizers import SGD, Adam, AdamW, Optimizer
from deeplimit.trained.training.points import TrainingPoint
from deeplimit.trained.training.report import TrainingReport, folder_for_weights
from deeplimit.trained.training.stop import Stop
from deeplimit.trained.training.train import train

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
    "TrainingPoint",
    "TrainingReport",
    "folder_for_weights",
    "train",
]
