"""Functions of time that are good where they are tried, at 0, 1/2 and 1, and bad between, stop the run in
words.
"""

from __future__ import annotations

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
LATE = {  # place, what the function turns into, message
    "A negative": ("A", constantly(-0.1), r"^Ito's A at t = 0\.\d+ .*must not be negative"),
    "A NaN": ("A", constantly(NAN), r"^Ito's A at t = 0\.\d+ must be finite, got nan"),
    "b inf": ("b", constantly(INF * ONES), r"^Ito's b at t = 0\.\d+ must be finite"),
    "b indefinite": ("b", constantly(BOTH), r"^Ito's b at t = 0\.\d+ must be .*semidefinite"),
    "A of another shape": ("A", constantly(WIDE), r"^Ito's A at t = 0\.\d+ .*\(3, 3\)"),
    "A no tensor": ("A", constantly("?"), r"^Ito's A at t = 0\.\d+ must be .*'\?' of type str"),
    "A raises": ("A", lambda: 1 / 0, r"^Ito's A must be defined .*at t = 0\.\d+ it raised Zero"),
    "cross too large": (
        "cross",
        constantly(torch.ones(2, 2, 2)),
        r"^the joint covariance of A and b with Ito's cross at t = 0\.\d+ must be positive semidefinite",
    ),
    "random A negative": ("random A", lambda v: -factor(v), r"^Ito's A at t = 0\.\d+ .*must not be negative"),
    "random A NaN": ("random A", lambda v: NAN * v[:, 0], r"^Ito's A at t = 0\.\d+ must be finite"),
    "random A for all paths at once": (
        "random A",
        constantly(0.1),
        r"^Ito's A at t = 0\.\d+ must be .*one for each of P = 16 paths.*got shape \(\)",
    ),
    "drift NaN": ("drift of A", constantly(NAN * EYE), r"^the A of Ito's drift at t = 0\.\d+ must be finite"),
    "drift that would broadcast": (
        "drift of A",
        constantly(torch.ones(1, 2)),
        r"^the A of Ito's drift at t = 0\.\d+ must have shape \(2, 2\), got \(1, 2\)",
    ),
    "drift of W^b inf": (
        "drift of b",
        constantly(INF * ONES),
        r"^the b of Ito's drift at t = 0\.\d+ must be finite",
    ),
    "auxiliary drift NaN": (
        "auxiliary drift",
        nothing_but_nan,
        r"^the auxiliary drift at t = 0\.\d+ must be finite",
    ),
    "auxiliary drift NaN, read by nobody": (
        "auxiliary drift read by nobody",
        nothing_but_nan,
        r"^the auxiliary drift at t = 0\.\d+ must be finite",
    ),
    "auxiliary drift transposed": (
        "auxiliary drift",
        lambda v: v.mT,
        r"^the auxiliary drift at t = 0\.\d+ must have shape \(16, 1\), got \(1, 16\)",
    ),
    "auxiliary diffusion of one path": (
        "auxiliary diffusion",
        lambda v: v[:1],
        r"^the auxiliary diffusion at t = 0\.\d+ must have shape \(16, 1\), got \(1, 1\)",
    ),
    "trend NaN beside noise": (
        "trend beside noise",
        constantly(NAN * EYE),
        r"^Trend's A\(0\.\d+\) must be finite",
    ),
    "trend's b inf": ("trend's b", constantly(INF * ONES), r"^Trend's b\(0\.\d+\) must be finite"),
    "trend NaN of a linear ODE": ("trend", constantly(NAN * EYE), r"^Trend's A\(0\.\d+\) must be finite"),
    "trend of another shape": (
        "trend",
        constantly(WIDE),
        r"^Trend's A\(0\.\d+\) must have shape \(2, 2\), got \(3, 3\)",
    ),
    "trend None": ("trend", constantly(None), r"^Trend's A\(0\.\d+\) must be a tensor, got None"),
    "weights NaN": ("weights", constantly(NAN * EYE), r"^Trend's A\(0\.\d+\) must be finite"),
}


@pytest.mark.parametrize(("place", "bad", "message"), LATE.values(), ids=LATE)
def test_functions_that_turn_bad_during_the_run_stop_it_in_words(place, bad, message):
    network, good = PLACES[place]
    assert np.isfinite(go(network(turning(good, bad, False))).errors).all(), (
        "the twin that stays good must run"
    )
    late = network(turning(good, bad, True))
    assert_refused(lambda: go(late), (ValueError, TypeError), message)


def test_volatility_that_explodes_on_the_grid_stops_the_run_in_words():
    wild = dl.inner(2, noise=dl.stochastic_volatility(A=0.1, mean_reversion=1e10))
    assert_refused(lambda: go(wild), ValueError, r"^the auxiliary drift at t = 0\.\d+ must be finite")
