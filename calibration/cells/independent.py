"""Independent layers: the neural SDE of Proposition 11, and exponents above 1/2, where nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

import deeplimit as dl
from calibration.cell import Cell, Converging

SDE, IDENTITY = "Proposition 11", "Identity"
WIDE, USUAL = [16, 32, 64, 128, 256], [8, 16, 32, 64, 128]
SMALL: dict[str, Any] = {"depths": [8, 16, 32, 64], "paths": 256}


def cells() -> Iterator[Cell]:
    """Yield the cells of Proposition 11 and of the identity."""
    for activation in ("identity", "sin"):
        for width in (1, 20):
            yield sde(width, activation)
    for activation in ("tanh", "relu"):
        for paths in (256, 4096):
            yield sde(6, activation, paths=paths)
    yield sde(6, "tanh", depths=USUAL, paths=256)
    yield sde(6, "relu", depths=USUAL, paths=256)
    yield sde(3, torch.sin, "sin as a callable", depths=[4, 8, 16, 32, 64], paths=1000)
    yield sde(4, "tanh", depths=[8, 16, 32, 64], paths=1600, norm="final")
    yield sde(4, "tanh", norm="sup-continuous", paths=1600)
    yield sde(20, "tanh", depths=[8, 16, 32, 64], paths=200)
    yield sde(2, "tanh", depths=[10, 15, 27, 50, 100], paths=500)
    yield sde(1, "identity", p=4)
    yield sde(6, "tanh", quick=True, **SMALL)
    yield sde(6, "relu", quick=True, **SMALL)
    for activation, exponent in (
        ("relu", 0.7),
        ("tanh", 0.7),
        ("identity", 0.7),
        ("tanh", 0.8),
        ("tanh", 1.0),
    ):
        yield identity(dl.res1, exponent, width=6, activation=activation)
    yield identity(dl.res3, 0.7, width=8)
    yield identity(dl.res3, 0.8, width=8, weights=dl.IID("uniform"))
    yield identity(dl.res1, 0.7, quick=True, width=6, activation="relu", **SMALL)


def in_words(settings: dict[str, Any]) -> str:
    """Return arguments of a call in words, those of a default call as nothing."""
    words = []
    for name, value in settings.items():
        if name == "depths":
            words.append(
                f"depths {value[0]} … {value[-1]}"
                if all(b == 2 * a for a, b in pairwise(value))
                else f"depths {', '.join(map(str, value))}"
            )
        elif name in ("paths", "draws"):
            words.append(f"{value} {name}")
        else:
            words.append(f"{name} {value}")
    return "".join(f", {word}" for word in words)


def sde(width: int, activation: Any, told: str = "", *, quick: bool = False, **settings: Any) -> Cell:
    """Return a cell of res-1 at the exponent 1/2."""
    name = f"{told or activation}, d = {width}{in_words(settings)}"
    network = dl.res1(width, activation)
    return Cell(SDE, name, lambda seed: Converging(network, 0.5, settings=settings), quick=quick)


def identity(make: Any, exponent: float, *, quick: bool = False, **given: Any) -> Cell:
    """Return a cell of a network whose updates vanish as L^(1/2 - exponent)."""
    settings: dict[str, Any] = {name: given.pop(name) for name in ("depths", "paths") if name in given}
    network = make(exponent=exponent, **given)
    law = " uniform" if "weights" in given else ""
    words = f"{given.get('activation', '')} {make.__name__}{law}".strip()
    name = f"{words}, d = {network.width}, β = {exponent:g}{in_words(settings)}"
    truth = exponent - 0.5
    return Cell(IDENTITY, name, lambda seed: Converging(network, truth, settings=settings), quick=quick)
