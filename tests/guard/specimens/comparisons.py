"""`compare`: every weight law, recursion, coupling, norm and part of the plane of exponents."""

from __future__ import annotations

import functools

import torch

import deeplimit as dl

from .noise import noises
from .shared import DEPTHS, SMOOTH, TREND, WIDTH, General, bent, mixing, normal, rough, skewed, sphere, still


def against(network, limit=None, *, independent=False, **how):
    """Compare a network with a limit, its own if none is given; `independent` gives that noise of its own."""
    other = dl.Independent(network.limit()) if independent else limit
    return dl.compare(network, other, **{"depths": DEPTHS, "paths": 256, **how})


class Scalar:
    """The neural SDE of a width of 1, with one motion, in the words `f` and `g`."""

    sde_type = "ito"
    noise_type = "scalar"

    def f(self, t, y):
        return torch.zeros_like(y)

    def g(self, t, y):
        return torch.tanh(y).unsqueeze(2)


def spiral(t, h):
    return torch.tanh(h) @ mixing(float(t)).to(h.dtype).T


def diffusive(name, activation="scaled_gelu", **how):
    return against(dl.inner(WIDTH, activation, noise=noises()[name]), x=sphere(), depths=(8, 16, 32), **how)


def planar(activation, alpha, beta, noise=None, trend=TREND, **how):
    given = None if noise is None else noises()[noise]
    network = dl.inner(WIDTH, activation, trend=trend, noise=given, alpha=alpha, beta=beta)
    return against(
        network, **{"x": sphere(), "depths": (8, 16, 32), "paths": 64 if noise is None else 256, **how}
    )


def pair_of_zoo(name):
    pair = next(pair for pair in dl.zoo.pairs() if pair.name == name)
    return against(pair.network, pair.limit, depths=(8, 16, 32))


COMPARE = {
    "brownian": lambda: against(dl.res1(WIDTH, "tanh"), paths=512),
    "brownian-relu-seed": lambda: against(dl.res1(WIDTH, "relu"), seed=3, confidence=0.9),
    "gaussian-by-name": lambda: against(dl.res1(3, "sin", weights=dl.IID("gaussian")), depths=(4, 8, 16)),
    "uniform": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.IID("uniform"))),
    "rademacher": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.IID("rademacher"))),
    "sampler": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.IID(skewed))),
    "users-activation": lambda: against(dl.res1(3, bent), depths=(4, 8, 16)),
    "smooth-res1": lambda: against(dl.res1(WIDTH, "tanh", weights=SMOOTH), paths=64),
    "smooth-res2-two-laws": lambda: against(
        dl.res2(3, "tanh", weights=(dl.SmoothGaussian(0.5), SMOOTH)), paths=64, depths=(8, 16, 32)
    ),
    "smooth-res3": lambda: against(dl.res3(3, weights=SMOOTH), paths=64, depths=(8, 16, 32)),
    "smooth-inner": lambda: against(dl.inner(3, "tanh", weights=SMOOTH), paths=64, depths=(8, 16, 32)),
    "smooth-float32": lambda: against(
        dl.res1(3, "tanh", weights=SMOOTH), paths=64, depths=(8, 16, 32), dtype="float32", tolerance=1e-5
    ),
    "trend-res1": lambda: against(
        dl.res1(WIDTH, "tanh", weights=dl.Trend(mixing)), x=normal(8, WIDTH), paths=32
    ),
    "trend-inner-with-bias": lambda: against(dl.inner(WIDTH, "tanh", weights=TREND), paths=32),
    "trend-holder": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.Trend(rough, holder=0.5)), paths=32),
    "identity-independent": lambda: against(dl.res1(WIDTH, "tanh", exponent=0.8)),
    "identity-smooth": lambda: against(dl.res1(3, "tanh", weights=SMOOTH, exponent=1.5), paths=64),
    "young-res1": lambda: against(dl.res1(1, "tanh", weights=dl.FractionalBrownian(0.7)), paths=128),
    "young-modified-res1": lambda: against(
        dl.modified_res1(2, "sin", weights=dl.FractionalBrownian(0.65)), paths=128
    ),
    "fractional-below-half": lambda: against(
        dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.3), exponent=0.8), still, paths=64
    ),
    "fractional-depths-with-a-common-multiple": lambda: against(
        dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.8)), depths=(4, 6, 9), paths=64
    ),
    # inner of Cohen et al.: every covariance, every part of the plane of exponents
    **{f"noise-{name}": functools.partial(diffusive, name) for name in noises()},
    "sde-with-trend": lambda: planar("scaled_silu", 0.0, 1.0, "number"),
    "sde-tanh-without-second-order": lambda: planar("tanh", 0.0, 1.0, "entrywise"),
    "sde-beta-above-one": lambda: planar("scaled_silu", 0.0, 1.5, "number"),
    "sde-with-smooth-trend": lambda: planar("scaled_silu", 0.0, 1.0, "number", trend=SMOOTH),
    "sde-with-rough-trend": lambda: planar("tanh", 0.0, 1.0, "number", trend=dl.Trend(rough, holder=0.5)),
    "linear-ode": lambda: planar("tanh", 0.5, 0.5),
    "linear-ode-bent": lambda: planar("scaled_silu", 0.3, 0.7),
    "linear-ode-at-alpha-zero": lambda: planar("tanh", 0.0, 1.0),
    "linear-ode-with-noise": lambda: planar("scaled_silu", 0.5, 0.5, "number"),
    "linear-ode-rough": lambda: planar("tanh", 0.5, 0.5, trend=dl.Trend(rough, holder=0.5)),
    "linear-ode-smooth-trend": lambda: planar("tanh", 0.5, 0.5, trend=SMOOTH),
    "plane-neural-ode": lambda: planar("tanh", 1.0, 0.0),
    "plane-neural-ode-with-noise": lambda: planar("tanh", 1.0, 0.0, "number"),
    "plane-identity": lambda: planar("tanh", 0.8, 0.8),
    # couplings
    "projected": lambda: against(dl.res1(8, "tanh"), coupling="projected", depths=(4, 8, 16)),
    "projected-by-itself": lambda: against(dl.res1(32, "tanh"), depths=(4, 8, 16), paths=128),
    "projected-final": lambda: against(
        dl.res1(8, "relu"), coupling="projected", depths=(4, 8, 16), norm="final"
    ),
    "projected-sup-continuous": lambda: against(
        dl.res1(8, "tanh"), coupling="projected", depths=(4, 8, 16), norm="sup-continuous"
    ),
    "projected-inner": lambda: diffusive("number", coupling="projected"),
    "projected-inner-kronecker": lambda: diffusive("kronecker", coupling="projected"),
    "projected-inner-with-trend": lambda: planar("scaled_silu", 0.0, 1.0, "number", coupling="projected"),
    "projected-against-an-ode": lambda: against(dl.res1(8, "tanh"), dl.Identity(), depths=(4, 8, 16)),
    "projected-same-network": lambda: against(
        dl.res1(8, "tanh"), x=normal(3, 8), coupling="projected", same_network=True, depths=(4, 8, 16)
    ),
    "pathwise-same-network": lambda: against(
        dl.res1(WIDTH, "tanh"), x=normal(3, WIDTH), coupling="pathwise", same_network=True, depths=(4, 8, 16)
    ),
    "pathwise-wide": lambda: against(dl.res1(16, "tanh"), coupling="pathwise", depths=(4, 8, 16), paths=64),
    "compiled": lambda: against(dl.res1(40, "tanh"), depths=(16, 32, 64, 128), paths=512),
    "compiled-final": lambda: against(dl.res1(40, "relu"), depths=(16, 32, 64, 128), paths=512, norm="final"),
    "compiled-inner": lambda: against(
        dl.inner(32, "scaled_silu", noise=dl.Ito(A=0.02, b=0.1)), depths=(16, 32, 64), paths=1024
    ),
    # limits of the user's own, right and wrong
    "own-general-sde": lambda: against(dl.res1(WIDTH, "tanh"), General()),
    "own-scalar-sde": lambda: against(dl.res1(1, "tanh"), Scalar()),
    "own-ode": lambda: against(
        dl.res1(WIDTH, "tanh", weights=dl.Trend(mixing)), spiral, x=normal(8, WIDTH), paths=32
    ),
    "wrong-diffusion": lambda: against(dl.res1(WIDTH, "tanh"), General(1.3)),
    "wrong-zero": lambda: against(dl.res1(8, "tanh"), still),
    "wrong-independent-sde": lambda: against(dl.res1(WIDTH, "tanh"), independent=True),
    "wrong-independent-ode": lambda: against(dl.res1(3, "tanh", weights=SMOOTH), independent=True, paths=128),
    "wrong-independent-young": lambda: against(
        dl.res1(1, "tanh", weights=dl.FractionalBrownian(0.7)), independent=True, paths=64
    ),
    "zoo-neural-ode-for-linear-ode": lambda: pair_of_zoo("neural ODE for the linear ODE"),
    "zoo-no-second-order-drift": lambda: pair_of_zoo("second-order drift left out"),
    "zoo-transposed-noise": lambda: pair_of_zoo("transposed noise"),
    "zoo-stratonovich": lambda: pair_of_zoo("Stratonovich for Itô"),
    "zoo-ode-for-sde": lambda: pair_of_zoo("ODE for the SDE network"),
    "zoo-sde-for-ode": lambda: pair_of_zoo("SDE for the ODE network"),
    # norms, powers, inputs, depths
    "final": lambda: against(dl.res1(WIDTH, "tanh"), norm="final"),
    "sup-continuous": lambda: against(dl.res1(WIDTH, "tanh"), norm="sup-continuous"),
    "sup-continuous-ode": lambda: planar("tanh", 0.5, 0.5, norm="sup-continuous"),
    "sup-continuous-sde": lambda: planar("scaled_silu", 0.0, 1.0, "number", norm="sup-continuous"),
    "power-one": lambda: against(dl.res1(WIDTH, "tanh"), p=1),
    "power-four": lambda: against(dl.res1(WIDTH, "tanh"), p=4.0),
    "input-layer": lambda: against(dl.res1(WIDTH, "tanh"), x=normal(5, 7)),
    "float64-with-reference": lambda: against(dl.res1(WIDTH, "tanh"), dtype="float64", reference=256),
    "depths-that-do-not-divide": lambda: against(dl.res1(WIDTH, "tanh"), depths=(5, 7, 12, 31)),
    "depths-that-do-not-divide-ode": lambda: against(
        dl.res1(3, "tanh", weights=SMOOTH), depths=(5, 7, 12), paths=64
    ),
    "diverged": lambda: against(dl.res1(WIDTH, "relu", exponent=0.0), still, depths=(16, 64, 256), paths=64),
}
