"""What the tables of bad weights share: small weights and networks, the calls that refuse them, and what is
said of them.
"""

from __future__ import annotations

import math
import re

import pytest
import torch

import deeplimit as dl

NAN, INF = math.nan, math.inf
EYE, ONES, WIDE = torch.eye(2), torch.ones(2), torch.eye(3)
TREND = dl.Trend(lambda t: EYE)
PUSHED = dl.Trend(lambda t: EYE, lambda t: ONES)
NOISE = dl.Ito(A=0.05, b=0.1)
STATES = torch.ones(4, 2)


def row(name, call, error, message):
    return pytest.param(call, error, message, id=name)


def auxiliary(**changes):
    parts = {"drift": lambda t, v: -v, "diffusion": lambda t, v: torch.ones_like(v)}
    return dl.AuxiliaryDiffusion(**(parts | changes))


def net(width=2, activation="tanh", trend=None, alpha=None, beta=None, **noise):
    """A network with this noise; what is left out of A, b is small and constant."""
    ito = dl.Ito(**({"A": 0.05, "b": 0.1} | noise))
    return dl.inner(width, activation, trend=trend, noise=ito, alpha=alpha, beta=beta)


def linear(trend=TREND, width=2, activation="tanh"):
    return dl.inner(width, activation, trend=trend, alpha=0.5, beta=0.5)


def volatile(width=2, **parts):
    return dl.inner(width, noise=dl.stochastic_volatility(**parts))


def go(network, *args, **knobs):
    return dl.compare(network, *args, **({"depths": [2, 4, 8], "paths": 16, "workers": 1} | knobs))


def covariance(t, v):
    """A well-behaved random variance a path."""
    return 0.1 * torch.sigmoid(v[:, 0])


RANDOM = {"A": covariance, "auxiliary": auxiliary()}

BOTH = torch.tensor([[1.0, 2.0], [2.0, 1.0]])  # symmetric, not semidefinite
TREND_KIND = r"^trend must be a function of time, such as Trend\(A, b\); got "
NOISE_KIND = r"^noise must be Itô processes, such as Ito\(A=0\.05, b=0\.25\); got "


def assert_refused(call, error, message):
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert re.search(message, text, re.DOTALL), f"{text}\n  does not match {message!r}"
    assert len(text) < 600, "a message is read, not scrolled"
