"""A demonstration on real data, and the papers' figures computed again and checked."""

from deeplimit.papers.figures.demo import demo_networks, run_demo
from deeplimit.papers.figures.images import IMAGES, mnist_images
from deeplimit.papers.figures.recipe import Check
from deeplimit.papers.figures.recipes import RECIPES, on_images
from deeplimit.papers.figures.reproduction import Reproduction, reproduce

__all__ = [
    "IMAGES",
    "RECIPES",
    "Check",
    "Reproduction",
    "demo_networks",
    "mnist_images",
    "on_images",
    "reproduce",
    "run_demo",
]
