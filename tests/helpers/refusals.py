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


def row(name, call, error, argument, *values):
    """A call that is refused, by which kind of exception, and what its message must name, in this order."""
    return pytest.param(call, error, (argument, *values), id=name)


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
    """A well-behaved random variance per path."""
    return 0.1 * torch.sigmoid(v[:, 0])


RANDOM = {"A": covariance, "auxiliary": auxiliary()}

BOTH = torch.tensor([[1.0, 2.0], [2.0, 1.0]])  # symmetric, not semidefinite


def assert_refused(call, kind, argument, *values):
    """Assert that a call raises exactly this kind of exception with a message that names what `assert_names`
    wants; return the message.
    """
    with pytest.raises(kind) as caught:
        call()
    assert caught.type in (kind if isinstance(kind, tuple) else (kind,))
    assert_names(str(caught.value), argument, *values)
    return str(caught.value)


def assert_names(message, argument, *values):
    """Assert that a message names the argument and then shows what was wrong with it.

    All texts must be there in this order and whole: "1" is not found in "10" or "1.5".
    """
    rest = message
    for text in (argument, *values):
        end = r"(?!\.?\w)" if text[-1].isalnum() else ""
        found = re.search(r"(?<!\w)" * text[0].isalnum() + re.escape(text) + end, rest)
        assert found, f"{message}\n  does not say {text!r} where it should"
        rest = rest[found.end() :]
    assert len(message) < 600, "a message is read, not scrolled"
