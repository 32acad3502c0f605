"""Activations with what the theorems ask of them: the public names of `deeplimit.layers.activations`."""

from deeplimit.layers.activations import (
    NAMES,
    Activation,
    Expansion,
    Slopes,
    derivative,
    expansion,
    has_kink,
    is_bounded,
    is_odd,
    resolve,
    slopes,
)

__all__ = [
    "NAMES",
    "Activation",
    "Expansion",
    "Slopes",
    "derivative",
    "expansion",
    "has_kink",
    "is_bounded",
    "is_odd",
    "resolve",
    "slopes",
]
