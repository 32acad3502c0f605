"""What the theory says of networks in every regime, and what limits and activations compute."""

from __future__ import annotations

import torch

import deeplimit as dl

from .noise import noises
from .shared import SMOOTH, TREND, WIDTH, normal, rough, skewed, sums


def networks():
    """Networks in every regime, by name."""
    young, rough_noise = dl.FractionalBrownian(0.7), dl.FractionalBrownian(0.3)
    made = {
        "res1": dl.res1(WIDTH, "tanh"),
        "res1 explosion": dl.res1(WIDTH, "tanh", exponent=0.25),
        "res1 identity": dl.res1(WIDTH, "tanh", exponent=0.8),
        "res1 uniform": dl.res1(WIDTH, "relu", weights=dl.IID("uniform")),
        "res1 sampler": dl.res1(WIDTH, "relu", weights=dl.IID(skewed)),
        "res1 smooth": dl.res1(WIDTH, "tanh", weights=SMOOTH),
        "res1 smooth identity": dl.res1(WIDTH, "tanh", weights=SMOOTH, exponent=1.5),
        "res1 smooth explosion": dl.res1(WIDTH, "identity", weights=SMOOTH, exponent=0.5),
        "res1 rough trend": dl.res1(WIDTH, "tanh", weights=dl.Trend(rough, holder=0.5)),
        "res1 young": dl.res1(WIDTH, "tanh", weights=young),
        "res1 young identity": dl.res1(WIDTH, "tanh", weights=young, exponent=0.9),
        "res1 young explosion": dl.res1(WIDTH, "tanh", weights=young, exponent=0.5),
        "res1 below half": dl.res1(WIDTH, "tanh", weights=rough_noise),
        "res1 below half identity": dl.res1(WIDTH, "tanh", weights=rough_noise, exponent=0.8),
        "modified res1": dl.modified_res1(WIDTH, "tanh", weights=young),
        "res2": dl.res2(WIDTH, "tanh"),
        "res2 relu": dl.res2(WIDTH, "relu"),
        "res2 smooth": dl.res2(WIDTH, "tanh", weights=SMOOTH),
        "res2 mixed": dl.res2(WIDTH, "tanh", weights=(SMOOTH, dl.Brownian())),
        "res2 young": dl.res2(WIDTH, "tanh", weights=young),
        "res3": dl.res3(WIDTH),
        "res3 sampler": dl.res3(WIDTH, weights=dl.IID(skewed)),
        "res3 young": dl.res3(WIDTH, weights=young),
        "inner independent": dl.inner(WIDTH, "tanh", weights=dl.Brownian()),
        "inner smooth": dl.inner(WIDTH, "tanh", weights=SMOOTH),
        "inner young": dl.inner(WIDTH, "tanh", weights=young),
    }
    for activation in ("tanh", "scaled_silu", "relu"):
        for alpha in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5):
            for beta in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5):
                for name in (None, "number", "biases-alone"):
                    noise = None if name is None else noises()[name]
                    network = dl.inner(WIDTH, activation, trend=TREND, noise=noise, alpha=alpha, beta=beta)
                    made[f"inner {activation} {alpha:g} {beta:g} {name}"] = network
    return made


def regimes():
    """The name, the theorem and the powers of every regime, and whether there is a limit."""
    content = {}
    for name, network in networks().items():
        found = network.regime()
        try:
            network.limit()
            has_limit = True
        except dl.NoTheoremError:
            has_limit = False
        powers = [[float(power) for power in some] for some in (found.corrections, found.second_orders)]
        flags = [found.interfere, found.hides, has_limit]
        content[name] = [found.name, found.theorem, found.rate, found.convergence, powers, flags]
    return content


def limits():
    """Drift and diffusion of the library's limits at a few states, covariances integrated, and drawn laws."""
    states, content = normal(2, WIDTH, seed=5).double(), {}
    for activation in ("tanh", "sin", "softplus", "relu"):
        sde = dl.res1(WIDTH, activation).limit()
        content[f"neural SDE {activation}"] = [sde.f(0.3, states).tolist(), sums([sde.g(0.3, states)])]
    for name in (
        "number",
        "entrywise",
        "kronecker",
        "full",
        "cross",
        "number-of-time",
        "kronecker-of-time",
        "drift",
    ):
        noise = noises()[name]
        sde = dl.inner(WIDTH, "scaled_silu", trend=TREND, noise=noise).limit()
        parts = [part for part in noise.quadratic_variation(0.7, width=WIDTH) if part is not None]
        q = noise.Q(0.3, states)
        content[f"Ito {name}"] = [
            sde.f(0.3, states).tolist(),
            sums([sde.g(0.3, states)]),
            q.tolist(),
            sums(parts),
        ]
    law = dl.IsotropicSDE(3, rate=0.7)
    content["isotropic"] = law.draw(normal(4, 3).double(), torch.Generator().manual_seed(0)).tolist()
    young = dl.FractionalBrownian(0.7)
    path = young.draw_increments(16, 2, 2, torch.Generator().manual_seed(0), torch.float64)
    solved = dl.res1(2, "tanh", weights=young).limit().solve(torch.ones(2, 2, dtype=torch.float64), path)
    content["young"] = [sums([path]), solved[-1].tolist()]
    return content


def activations():
    """Every named activation at a few points."""
    points = torch.linspace(-3.0, 3.0, 13, dtype=torch.float64)
    return {name: dl.activations.resolve(name)(points).tolist() for name in dl.activations.NAMES}
