"""The demonstration: real images through a random input layer, then both regimes side by side."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import torch

from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.driving import SmoothGaussian
from deeplimit.judge.convergence import CompareReport, compare
from deeplimit.networks.residual_network import ResidualNetwork, res1
from deeplimit.papers.figures.images import mnist_images

LOG = logging.getLogger("deeplimit")
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
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    on_report: Callable[[str, CompareReport], None] | None = None,
) -> dict[str, CompareReport]:
    """Compare both networks with their limits on MNIST images; write a PNG and a JSON of each into `folder`.

    Where the extra `data` is missing, networks start from normal vectors, and the log says so. `workers` to
    `progress` are those of `deeplimit.measure`. `on_report` is called before each is written.
    """
    running = Running.checked(workers, executor, store, progress)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        images = mnist_images()
    except ModuleNotFoundError as error:
        images = None
        LOG.warning("%s Without the images, networks start from normal vectors.", error)
    reports = {}
    networks = demo_networks()
    with running.shown("demo") as bar:
        for number, (name, network) in enumerate(networks.items()):
            share = bar.share(number / len(networks), (number + 1) / len(networks), name)
            report = compare(
                network, x=images, depths=DEPTHS, paths=paths, seed=seed, device=device, **share.arguments()
            )
            if on_report is not None:
                on_report(name, report)
            report.plot(folder / f"{name}.png")
            report.save(folder / f"{name}.json")
            reports[name] = report
    return reports
