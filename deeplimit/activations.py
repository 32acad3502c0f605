"""Activations with what the theorems ask of them: the public names of `deeplimit.layers.activations`."""

from deeplimit.layers.activations import NAMES, Activation, derivative, expansion, has_kink, resolve

__all__ = ["NAMES", "Activation", "derivative", "expansion", "has_kink", "resolve"]
