"""Ready-made experiments: a demonstration on real data, and the papers' figures made anew and checked."""

from deeplimit.experiments.demo import demo_networks, run_demo
from deeplimit.experiments.images import mnist_images
from deeplimit.experiments.marion import RECIPES, reproduce
from deeplimit.experiments.reproduction import Check, Reproduction

__all__ = ["RECIPES", "Check", "Reproduction", "demo_networks", "mnist_images", "reproduce", "run_demo"]
