"""Comparisons whose order no theorem says, or that medians judge, are what they were."""

import functools

import kept_numbers
import pytest
import torch

import deeplimit as dl
from tests.guard.specimens.noise import noises

same = functools.partial(kept_numbers.same_report, "measured", tolerance=1e-3)
NOISY = dl.SDE(lambda t, h: -h, lambda t, h, dB: 0.5 * torch.sin(h) * dB, noise="diagonal")
WILD = dl.SDE(lambda t, h: 0.5 * h, lambda t, h, dB: 2.5 * h * dB, noise="diagonal")
QUIET = dl.SDE(lambda t, h: 0.5 * h, lambda t, h, dB: 0.05 * h * dB, noise="diagonal")
ADDITIVE = dl.SDE(lambda t, h: -torch.sin(2 * h), lambda t, h, dB: (0.2 + t) * dB, noise="additive")
FIELD = dl.ODE(lambda t, h: torch.tanh(h.flip(1)) - torch.cos(3 * t) * h)
OTHER = dl.ODE(lambda t, h: 0.9 * FIELD.field(t, h))
TREND = dl.Trend(lambda t: (1 + t) * torch.tensor([[0.0, 1.0], [-1.0, 0.2]]))


def schemed(scheme, equation, limit=None, width=2, **how):
    settings = {"depths": (8, 16, 32, 64, 128), "paths": 48, "dtype": "float64"} | how
    return dl.compare(dl.scheme_network(scheme, equation, width), limit or equation, **settings)


def compared(network, limit=None, **how):
    settings = {"depths": (8, 16, 32, 64), "paths": 48} | how
    return dl.compare(network, network.limit() if limit is None else limit, **settings)


def explosive(**how):
    return dl.inner(3, "scaled_silu", noise=dl.Ito(A=0.6, b=0.3), **how)


EULER, MILSTEIN = dl.EulerMaruyama(), dl.Milstein()
CASES = {
    "Euler": lambda: schemed(EULER, NOISY),
    "Milstein": lambda: schemed(MILSTEIN, NOISY, seed=1),
    "Milstein of another": lambda: schemed(MILSTEIN, NOISY, QUIET),
    "additive": lambda: schemed(dl.Heun(), ADDITIVE, confidence=0.8),
    "small noise": lambda: schemed(EULER, QUIET),
    "medians": lambda: schemed(EULER, WILD),
    "medians of another": lambda: schemed(EULER, WILD, QUIET),
    "independent": lambda: schemed(EULER, NOISY, dl.Independent(NOISY)),
    "Euler's ODE": lambda: schemed(EULER, FIELD, paths=16),
    "Heun's ODE": lambda: schemed(dl.Heun(), FIELD, paths=16),
    "RK4": lambda: schemed(dl.RK4(), FIELD, paths=16),
    "another ODE": lambda: schemed(dl.Heun(), FIELD, OTHER, paths=16),
    "last": lambda: schemed(EULER, NOISY, norm="final", p=1.0),
    "two depths": lambda: schemed(EULER, NOISY, depths=(8, 16)),
    "uneven depths": lambda: schemed(EULER, NOISY, depths=(8, 12, 24, 48), seed=3),
    "few paths": lambda: schemed(EULER, NOISY, paths=12),
    "explosive": lambda: compared(explosive(), depths=(8, 16, 32, 64, 128)),
    "Theorem 4.4": lambda: compared(dl.inner(3, "scaled_silu", noise=dl.Ito(A=0.05, b=0.1))),
    "covariances": lambda: compared(dl.inner(4, "tanh", noise=noises()["kronecker"])),
    "wrong curvature": lambda: compared(
        dl.inner(3, "scaled_silu", noise=dl.Ito(A=0.3)), dl.inner(3, "tanh", noise=dl.Ito(A=0.3)).limit()
    ),
    "noise outside": lambda: compared(dl.res2(2, "tanh", weights=(dl.Brownian(), TREND))),
    "remembering": lambda: compared(dl.res1(2, "tanh", weights=dl.AR1(0.5))),
    "smooth": lambda: compared(dl.res1(2, "tanh", weights=dl.SmoothGaussian(0.5)), paths=16),
    "trend": lambda: compared(dl.inner(2, "tanh", trend=TREND, alpha=0.5, beta=0.5), paths=16),
    "trend for another": lambda: compared(
        dl.inner(2, "tanh", trend=TREND, alpha=0.5, beta=0.5), FIELD, paths=8
    ),
    "identity": lambda: compared(dl.res1(2, "tanh", exponent=0.8)),
    "gradient": lambda: compared(dl.res1(2, "tanh"), quantity="gradient", depths=(4, 8, 16), paths=100),
}


@pytest.mark.parametrize("name", CASES)
def test_comparisons_stay(name):
    same(name, CASES[name]())
