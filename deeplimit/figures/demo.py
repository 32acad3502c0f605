"""The demonstration: real images through a random input layer, then both regimes side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from deeplimit.convergence import CompareReport, compare
from deeplimit.figures.images import mnist_images
from deeplimit.networks import ResidualNetwork, res1
from deeplimit.weights import SmoothGaussian

DEPTHS = (16, 32, 64, 128, 256, 512)


def demo_networks(width: int = 40) -> dict[str, ResidualNetwork]:
    """Return the two networks of the demonstration, by file name."""
    return {
        "neural-sde": res1(width, "tanh"),
        "neural-ode": res1(width, "tanh", weights=SmoothGaussian(length_scale=0.1)),
    }


def run_demo(
    folder: Path,
    *,
    paths: int = 512,
    seed: int = 0,
    device: str | torch.device = "cpu",
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, CompareReport]:
    """Compare both networks with their limits on MNIST images; write a PNG and a JSON of each into `folder`.

    `progress` is called with the comparison's name and the fraction of it done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    images = mnist_images()
    reports = {}
    for name, network in demo_networks().items():

        def tick(fraction: float, name: str = name) -> None:
            if progress is not None:
                progress(name, fraction)

        report = compare(
            network, x=images, depths=DEPTHS, paths=paths, seed=seed, device=device, progress=tick
        )
        report.plot(folder / f"{name}.png")
        report.save(folder / f"{name}.json")
        reports[name] = report
    return reports
