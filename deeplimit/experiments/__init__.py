"""Ready-made experiments on real data; each is one function that returns reports."""

from deeplimit.experiments.demo import demo_networks, run_demo
from deeplimit.experiments.images import mnist_images

__all__ = ["demo_networks", "mnist_images", "run_demo"]
