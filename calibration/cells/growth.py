"""`stability` at, near and far from the critical exponent of independent layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import deeplimit as dl
from calibration.cell import Cell, Growing
from calibration.cells.independent import in_words

GROUP = "Growth of the signal"
EXPONENTS = (0.4, 0.45, 0.48, 0.5, 0.52, 0.55, 0.6)
RESOLVED = 0.05
"""Exponents that "stable" must exclude lie this far from the critical one, or farther."""

NETWORKS: dict[str, Callable[[float], Any]] = {
    "res3, uniform, d = 8": lambda exponent: dl.res3(8, weights=dl.IID("uniform"), exponent=exponent),
    "res1, relu, d = 8": lambda exponent: dl.res1(8, "relu", exponent=exponent),
    "res1, tanh, d = 8": lambda exponent: dl.res1(8, "tanh", exponent=exponent),
    "res1, identity, d = 8": lambda exponent: dl.res1(8, "identity", exponent=exponent),
}


def word_at(exponent: float) -> str:
    """Return the true verdict at a residual exponent."""
    return "stable" if exponent == 0.5 else "explosion" if exponent < 0.5 else "identity"


def growing(make: Callable[[float], Any], exponent: float, **settings: Any) -> Callable[[int], Growing]:
    """Return the call on the network that `make` gives at this exponent."""
    near = () if abs(exponent - 0.5) > RESOLVED - 1e-9 else ("stable",)
    return lambda seed: Growing(make(exponent), 1 - 2 * exponent, (word_at(exponent),), settings, near)


def cells() -> Iterator[Cell]:
    """Yield the cells of `stability`."""
    for name, make in NETWORKS.items():
        for exponent in EXPONENTS:
            yield Cell(GROUP, f"{name}, β = {exponent:g}", growing(make, exponent))
    few: dict[str, Any] = {"depths": [10, 30, 100, 300], "draws": 60}
    for exponent in (0.25, 0.5, 1.0):
        name = f"res3, d = 10, β = {exponent:g}{in_words(few)}"
        yield Cell(GROUP, name, growing(lambda beta: dl.res3(10, exponent=beta), exponent, **few))
    quick: dict[str, Any] = {"depths": [10, 20, 50, 100], "draws": 40}
    for exponent in (0.4, 0.5):
        name = f"res3, d = 8, β = {exponent:g}{in_words(quick)}"
        yield Cell(
            GROUP, name, growing(lambda beta: dl.res3(8, exponent=beta), exponent, **quick), quick=True
        )
