"""A demonstration on real data, and the papers' figures computed again and checked."""

from deeplimit.figures.demo import demo_networks, run_demo
from deeplimit.figures.images import mnist_images
from deeplimit.figures.recipe import Check
from deeplimit.figures.recipes import RECIPES
from deeplimit.figures.reproduction import Reproduction, reproduce

__all__ = ["RECIPES", "Check", "Reproduction", "demo_networks", "mnist_images", "reproduce", "run_demo"]
