"""A demonstration on real data, and the papers' figures computed again and checked."""

from deeplimit.figures.demo import demo_networks, run_demo
from deeplimit.figures.images import mnist_images
from deeplimit.figures.recipes import RECIPES, reproduce
from deeplimit.figures.reproduction import Check, Reproduction

__all__ = ["RECIPES", "Check", "Reproduction", "demo_networks", "mnist_images", "reproduce", "run_demo"]
