"""`compare_laws`: the right law, at several levels of error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import deeplimit as dl
from calibration.cell import Cell, InLaw
from calibration.cells.independent import in_words

GROUP = "Laws"


def cells() -> Iterator[Cell]:
    """Yield the cells of right laws; the level is the share of "another law" that is admitted."""
    yield _same(dl.res3(8), "res3, d = 8")
    yield _same(dl.res3(8, weights=dl.IID("uniform")), "res3, uniform, d = 8")
    yield _same(dl.res1(4, "tanh", weights=dl.IID("uniform")), "res1, tanh, uniform, d = 4")
    yield _same(dl.res1(6, "relu"), "res1, relu, d = 6")
    for level in (0.05, 0.2):
        settings: dict[str, Any] = {"depths": [64, 128, 256], "draws": 500, "level": level}
        yield _same(dl.res3(4), "res3, d = 4", admitted=level, **settings)
    quick: dict[str, Any] = {"depths": [8, 16, 32], "draws": 500, "level": 0.05}
    yield _same(dl.res3(4), "res3, d = 4", admitted=0.05, quick=True, **quick)
    for inputs, ratio in ((2, 1.0), (3, 1.0), (2, 0.25)):
        shaped = dl.shaped_mlp(inputs, depth_to_width=ratio, slopes=(1.0, -1.0))
        yield _same(shaped, f"shaped MLP, {inputs} inputs, T = {ratio:g}", admitted=0.05, **quick)


def _same(network: Any, name: str, *, admitted: float = 0.01, quick: bool = False, **settings: Any) -> Cell:
    return Cell(
        GROUP,
        name + in_words(settings),
        lambda seed: InLaw(network, settings=settings),
        admitted=admitted,
        quick=quick,
    )
