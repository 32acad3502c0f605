"""Activations with their derivatives at 0, noises of every kind and a trend, to be paired; and the motions
behind a run.
"""

import math

import torch
from noises import random_psd

import deeplimit as dl
from deeplimit.simulation import make_task


def own(x):
    """A user's callable with slope 1 and curvature 1/2."""
    return torch.sin(x) + 0.25 * x**2


# σ, σ'(0), σ''(0), worked out by hand
SMOOTH = [
    ("scaled_softplus", 1.0, 0.5),
    ("scaled_silu", 1.0, 1.0),
    ("scaled_gelu", 1.0, 4 / math.sqrt(2 * math.pi)),
    ("silu", 0.5, 0.5),
    ("tanh", 1.0, 0.0),
    ("erf", 2 / math.sqrt(math.pi), 0.0),
    (own, 1.0, 0.5),
]
SMOOTH_IDS = [*(name for name, *_ in SMOOTH[:-1]), "own"]


def falling(t, size=0.2):
    """A covariance of W^b that depends on time, with correlations."""
    return size * (1.0 - 0.5 * t) * torch.tensor([[1.0, 0.6], [0.6, 2.0]], dtype=torch.float64)


def rough_weather(t, v):
    return 0.4 / (1.0 + torch.exp(-v[:, 0]))


def rough_entries(t, v):
    return rough_weather(t, v)[:, None, None] * torch.tensor([[1.0, 2.0], [0.5, 0.1]], dtype=torch.float64)


V = dl.AuxiliaryDiffusion(
    lambda t, v: 0.5 - v, lambda t, v: 1.0 + t + 0.1 * v, start=[0.4, -0.2], leverage=-0.6
)
PUSHES = dl.Trend(
    lambda t: (1.0 + t) * torch.tensor([[0.3, -0.4], [0.2, 0.1]], dtype=torch.float64),
    lambda t: torch.tensor([0.2, t - 0.4], dtype=torch.float64),
)
RANDOM_PUSHES = dl.Trend(lambda t, v: v[:, :, None] * PUSHES.A(t), lambda t, v: v + PUSHES.b(t))
JOINT = random_psd(6, 11)
NOISES = {
    "number": dl.Ito(A=0.3),
    "b alone": dl.Ito(b=falling),
    "entries": dl.Ito(A=torch.tensor([[0.1, 0.4], [0.3, 0.05]]), b=[0.2, 0.05]),
    "time": dl.Ito(A=lambda t: 0.1 + 0.4 * t, b=falling, drift=PUSHES),
    "kronecker": dl.Ito(A=dl.Kronecker(random_psd(2, 1), random_psd(2, 2)), b=0.1),
    "tensor": dl.Ito(A=0.3 * random_psd(4, 3).reshape(2, 2, 2, 2), b=falling(0.0)),
    "cross": dl.Ito(
        A=JOINT[:4, :4].reshape(2, 2, 2, 2),
        b=JOINT[4:, 4:],
        cross=JOINT[:4, 4:].reshape(2, 2, 2),
        drift=PUSHES,
    ),
    "stochastic volatility": dl.stochastic_volatility(
        A=dl.Kronecker(random_psd(2, 4), random_psd(2, 5)), b=falling(0.0)
    ),
    "two volatilities": dl.Ito(A=rough_entries, b=rough_weather, drift=RANDOM_PUSHES, auxiliary=V),
}
SLOWING = dl.Trend(
    lambda t: (1.0 - 0.5 * t) * torch.tensor([[0.1, 0.7], [-0.7, -0.2]]),
    lambda t: t * torch.tensor([0.3, -0.2]),
)
TREND = dl.Trend(
    lambda t: torch.tensor([[0.0, 1.0 + t], [-1.0, -0.3]], dtype=torch.float64),
    lambda t: torch.tensor([0.3 - t, 0.2]).double(),
)


def brownian_increments(network, depths, *, x=None, paths=3, seed=0, reference=None):
    """Return the Brownian increments (K, P, motions) behind `walk` of the same arguments, through readers
    made anew.
    """
    task = make_task(
        network,
        network.limit(),
        x,
        depths=tuple(depths),
        reference=reference,
        norm="sup",
        p=2.0,
        paths=paths,
        seed=seed,
        device=torch.device("cpu"),
        dtype=torch.float64,
        tolerance=None,
    )
    (path,) = task.network_paths(0, len(task.initial_states(0)))
    increments = []
    for chunk in task.grid.chunks():
        path.begin(chunk)
        for index in range(len(chunk.steps)):
            path.advance(index)
            increments.append(path.brownian.clone())
    return torch.stack(increments)
