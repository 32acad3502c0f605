"""Weights that the initialisers write, by a few numbers of each."""

from __future__ import annotations

import torch

import deeplimit as dl

from .modules import Transformer, built, tokens
from .shared import SMOOTH, skewed, sums


def initialised(initialise):
    """Fill five layers of each kind; return what was written and what the initialiser says of it."""
    content = {}
    for name, shape, dtype in (
        ("linear", (6, 9), torch.float32),
        ("convolution", (4, 3, 3, 3), torch.float64),
        ("half", (5, 8), torch.bfloat16),
    ):
        weights = [torch.empty(shape, dtype=dtype) for _ in range(5)]
        done = initialise(weights).to_dict()
        names = (
            "layers",
            "shape",
            "fan_in",
            "gain",
            "exponent",
            "standard_deviation",
            "hurst",
            "length_scale",
        )
        kept = {key: done[key] for key in (*names, "critical_exponent", "theorem")}
        content[name] = {**kept, "leads_to": done["limit"], "weights": sums(weights)}
    return content


def residual(**how):
    model = built(lambda: Transformer(4))
    done = dl.init.residual_(model, batch=tokens(), **how)
    return {
        "weights": {name: sums([value])[0] for name, value in model.named_parameters()},
        "roles": len(done.roles),
    }


INIT = {
    "gaussian": lambda: initialised(lambda weights: dl.init.iid_(weights, seed=1)),
    "uniform": lambda: initialised(lambda weights: dl.init.iid_(weights, law="uniform", gain=2.0)),
    "rademacher": lambda: initialised(lambda weights: dl.init.iid_(weights, law="rademacher", exponent=1.0)),
    "sampler": lambda: initialised(lambda weights: dl.init.sample_(weights, dl.IID(skewed), fan_in=7)),
    "smooth": lambda: initialised(dl.init.smooth_),
    "fractional": lambda: initialised(lambda weights: dl.init.fractional_(weights, hurst=0.7, seed=2)),
    "fractional-below-half": lambda: initialised(
        lambda weights: dl.init.fractional_(weights, hurst=0.3, exponent=0)
    ),
    "residual": lambda: residual(),
    "residual-smooth": lambda: residual(process=SMOOTH, weights="output", biases="keep"),
}
