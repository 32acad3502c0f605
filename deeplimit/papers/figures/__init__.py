"""A demonstration on real data, and the papers' figures computed again and checked."""

from deeplimit.papers.figures.demo import demo_networks, run_demo
from deeplimit.papers.figures.images import mnist_images
from deeplimit.papers.figures.recipe import Check
from deeplimit.papers.figures.recipes import RECIPES
from deeplimit.papers.figures.reproduction import Reproduction, reproduce

__all__ = ["RECIPES", "Check", "Reproduction", "demo_networks", "mnist_images", "reproduce", "run_demo"]
