"""Functions of time that are good where they are tried, at 0, 1/2 and 1, and bad between, stop the run in
words.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from refusals import (
    BOTH,
    EYE,
    INF,
    NAN,
    ONES,
    TREND,
    WIDE,
    assert_refused,
    auxiliary,
    covariance,
    go,
    linear,
    net,
)

import deeplimit as dl


def constantly(value):
    return lambda *v: value


def nothing_but_nan(v):
    return NAN * v


def restoring(v):
    return -v


def factor(v):
    return torch.sigmoid(v[:, 0])


def turning(good, bad, fails):
    """A function of t, or of (t, v), that takes another value between 0.6 and 0.9 if it is to fail."""
    return lambda t, *v: (bad if fails and 0.6 < t < 0.9 else good)(*v)


PLACES = {  # where a function is given: a network with it there, and a function of v that is good there
    "A": (lambda f: net(A=f), constantly(EYE)),
    "b": (lambda f: net(b=f), constantly(ONES)),
    "cross": (lambda f: net(A=1.0, b=1.0, cross=f), constantly(torch.zeros(2, 2, 2))),
    "random A": (lambda f: net(A=f, auxiliary=auxiliary()), factor),
    "drift of A": (lambda f: net(drift=dl.Trend(f)), constantly(EYE)),
    "drift of b": (lambda f: net(drift=dl.Trend(TREND.A, f)), constantly(ONES)),
    "auxiliary drift": (lambda f: net(A=covariance, auxiliary=auxiliary(drift=f)), restoring),
    "auxiliary drift read by nobody": (lambda f: net(auxiliary=auxiliary(drift=f)), restoring),
    "auxiliary diffusion": (lambda f: net(A=covariance, auxiliary=auxiliary(diffusion=f)), restoring),
    "trend beside noise": (lambda f: net(trend=dl.Trend(f)), constantly(EYE)),
    "trend's b": (lambda f: net(trend=dl.Trend(TREND.A, f)), constantly(ONES)),
    "trend": (lambda f: linear(dl.Trend(f)), constantly(EYE)),
    "weights": (lambda f: dl.res1(2, "tanh", weights=dl.Trend(f)), constantly(EYE)),
}
LATE = [  # place, what the function turns into, what the message must name besides the time
    ("A", constantly(-0.1), "Ito's A", "negative"),
    ("A", constantly(NAN), "Ito's A", "nan"),
    ("A", constantly(WIDE), "Ito's A", "(3, 3)"),
    ("A", lambda: 1 / 0, "Ito's A", "ZeroDivisionError"),
    ("b", constantly(INF * ONES), "Ito's b", "NaN or infinity"),
    ("b", constantly(BOTH), "Ito's b", "semidefinite"),
    ("cross", constantly(torch.ones(2, 2, 2)), "Ito's cross", "semidefinite"),
    ("random A", lambda v: -factor(v), "Ito's A", "negative"),
    ("random A", lambda v: NAN * v[:, 0], "Ito's A", "NaN or infinity"),
    ("random A", constantly(0.1), "Ito's A", "P = 16", "()"),
    ("drift of A", constantly(NAN * EYE), "the A of Ito's drift", "NaN or infinity"),
    ("drift of A", constantly(torch.ones(1, 2)), "the A of Ito's drift", "(1, 2)"),
    ("drift of b", constantly(INF * ONES), "the b of Ito's drift", "NaN or infinity"),
    ("auxiliary drift", nothing_but_nan, "the auxiliary drift", "NaN or infinity"),
    ("auxiliary drift read by nobody", nothing_but_nan, "the auxiliary drift", "NaN or infinity"),
    ("auxiliary drift", lambda v: v.mT, "the auxiliary drift", "(1, 16)"),
    ("auxiliary diffusion", lambda v: v[:1], "the auxiliary diffusion", "(1, 1)"),
    ("trend beside noise", constantly(NAN * EYE), "Trend's A", "NaN or infinity"),
    ("trend's b", constantly(INF * ONES), "Trend's b", "NaN or infinity"),
    ("trend", constantly(WIDE), "Trend's A", "(3, 3)"),
    ("weights", constantly(NAN * EYE), "Trend's A", "NaN or infinity"),
]
LATER = r"(at t = |\()0\.\d+"  # a message says when the function turned bad


@pytest.mark.parametrize(("place", "bad", "pins"), [(place, bad, pins) for place, bad, *pins in LATE])
def test_functions_that_turn_bad_during_the_run_stop_it_in_words(place, bad, pins):
    network, good = PLACES[place]
    assert np.isfinite(go(network(turning(good, bad, False))).errors).all(), (
        "the twin that stays good must run"
    )
    late = network(turning(good, bad, True))
    assert re.search(LATER, assert_refused(lambda: go(late), (ValueError, TypeError), *pins))


def test_volatility_that_explodes_on_the_grid_stops_the_run_in_words():
    wild = dl.inner(2, noise=dl.stochastic_volatility(A=0.1, mean_reversion=1e10))
    message = assert_refused(lambda: go(wild), ValueError, "the auxiliary drift", "NaN or infinity")
    assert re.search(LATER, message)
