"""`compare_laws`, against the library's limits, users' equations and a user's law."""

from __future__ import annotations

import torch

import deeplimit as dl

from .shared import WIDTH, General, normal, skewed


class Shifted(dl.LawLimit):
    """A law of one's own, which is not that of any network here."""

    equation = "a shifted start"

    def draw(self, h0, generator):
        return h0 + torch.empty_like(h0).normal_(generator=generator)


LAWS = {
    "res3": lambda: dl.compare_laws(dl.res3(8), depths=(16, 32, 64), draws=4000, tolerance=0.4),
    "res3-rademacher": lambda: dl.compare_laws(
        dl.res3(WIDTH, weights=dl.IID("rademacher")),
        x=normal(3, WIDTH),
        depths=(8, 16, 32),
        draws=1000,
        seed=2,
    ),
    "res1-uniform": lambda: dl.compare_laws(
        dl.res1(3, "tanh", weights=dl.IID("uniform")), depths=(8, 16, 32), draws=1000
    ),
    "res1-sampler": lambda: dl.compare_laws(
        dl.res1(3, "tanh", weights=dl.IID(skewed)),
        depths=(4, 8, 16, 32),
        draws=500,
        steps=64,
        dtype="float64",
    ),
    "wrong-rate": lambda: dl.compare_laws(
        dl.res3(WIDTH), dl.IsotropicSDE(WIDTH, rate=2.0), depths=(8, 16, 32), draws=1000
    ),
    "own-sde": lambda: dl.compare_laws(
        dl.res1(3, "tanh"), General(), depths=(8, 16, 32), draws=500, steps=64
    ),
    "own-law": lambda: dl.compare_laws(dl.res3(3), Shifted(), depths=(8, 16, 32), draws=500),
}
