"""Networks that cannot be made of these weights, and what cannot be asked of the weights themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import EYE, INF, NAN, NOISE, ONES, STATES, TREND, WIDE, assert_refused, row

import deeplimit as dl


def volatile(*v):
    """Return the question for a Q of random noise at a state of the auxiliary diffusion."""
    noise = dl.stochastic_volatility(A=0.1)
    return lambda: noise.Q(0.0, STATES, *v)


def q(t=0.0, x=STATES):
    return lambda: NOISE.Q(t, x)


def variation(*args, of=NOISE, **knobs):
    return lambda: of.quadratic_variation(*args, **knobs)


def inner(*args, **knobs):
    return lambda: dl.inner(*(args or (2,)), **knobs)


NETWORKS = [
    *(
        (f"{name} {value}", inner(noise=NOISE, **{name: value}), ValueError, name, f"{value:g}")
        for name in ("alpha", "beta")
        for value in (-1e-9, NAN, INF, 101)
    ),
    ("alpha= with weights=", inner(weights=TREND, alpha=0.5), ValueError, "alpha", "trend=", "exponent="),
    ("beta= with weights=", inner(weights=TREND, beta=0.5), ValueError, "beta", "trend=", "exponent="),
    ("alpha= alone", inner(alpha=0.5), ValueError, "alpha", "trend="),
    ("weights= and trend=", inner(weights=TREND, trend=TREND), ValueError, "weights", "trend="),
    ("weights= and noise=", inner(weights=dl.Brownian(), noise=NOISE), ValueError, "weights", "trend="),
    ("exponent= and noise=", inner(noise=NOISE, exponent=0.5), ValueError, "exponent", "trend="),
    ("exponent= and trend=", inner(trend=TREND, exponent=1), ValueError, "exponent", "trend="),
    ("trend=Trend", inner(trend=dl.Trend), TypeError, "trend", "the class Trend"),
    ("trend= a function", inner(trend=lambda t: EYE), TypeError, "trend", "function"),
    ("trend= a tensor", inner(trend=EYE), TypeError, "trend", "Tensor of shape (2, 2)"),
    ("trend= an Ito", inner(trend=NOISE), TypeError, "trend", "Ito("),
    ("noise=0.05", inner(noise=0.05), TypeError, "noise", "0.05"),
    ("noise=Ito", inner(noise=dl.Ito), TypeError, "noise", "the class Ito"),
    ("noise= Brownian", inner(noise=dl.Brownian()), TypeError, "noise", "Brownian()"),
    ("noise= a Trend", inner(noise=TREND), TypeError, "noise", "Trend"),
    ("weights= an Ito", inner(weights=NOISE), TypeError, "weights", "Ito("),
    ("trend= of width 3", inner(trend=dl.Trend(lambda t: WIDE)), ValueError, "Trend's A(0.0)", "(3, 3)"),
    ("width 0", inner(0, noise=NOISE), ValueError, "width", "0"),
    ("width None", inner(None, trend=TREND), TypeError, "width", "None"),
    ("activation 3", inner(2, 3, noise=NOISE), TypeError, "activation", "3"),
    ("activation a class", inner(2, torch.nn.Tanh, noise=NOISE), TypeError, "activation", "Tanh"),
    ("activation misspelt", inner(2, "tahn", noise=NOISE), ValueError, "activation", "'tahn'", "tanh"),
    *(
        (f"holder {value}", lambda v=value: dl.Trend(TREND.A, holder=v), ValueError, "holder", f"{value:g}")
        for value in (0, 1.5, NAN)
    ),
]

FALLING = dl.Ito(A=lambda t: 0.7 - t)
QUERIES = [
    ("Q, t = 1.1", q(1.1), ValueError, "t", "1.1"),
    ("Q, t = -0.1", q(-0.1), ValueError, "t", "-0.1"),
    ("Q, x a list", q(x=[[1.0, 2.0]]), TypeError, "x", "[[1.0, 2.0]]"),
    ("Q, x an array", q(x=np.ones((1, 2))), TypeError, "x", "(1, 2)"),
    ("Q, x complex", q(x=1j * STATES), TypeError, "x", "torch.complex64"),
    ("Q, x sparse", q(x=STATES.to_sparse()), TypeError, "x", "torch.sparse_coo"),
    ("Q, x meta", q(x=STATES.to("meta")), TypeError, "x", "meta"),
    ("Q, x of one dimension", q(x=ONES), ValueError, "x", "(2,)"),
    ("Q, x of three", q(x=STATES[None]), ValueError, "x", "(1, 4, 2)"),
    ("Q, x empty", q(x=STATES[:0]), ValueError, "x", "(0, 2)"),
    ("Q, x NaN", q(x=NAN * STATES), ValueError, "x", "NaN"),
    ("Q, another width", lambda: dl.Ito(A=EYE).Q(0.0, torch.ones(1, 3)), ValueError, "Ito's A", "(2, 2)"),
    ("Q, v missing", volatile(), ValueError, "Ito's A", "v (P, m)"),
    ("Q, v of nothing", lambda: NOISE.Q(0.0, STATES, STATES), ValueError, "v", "none"),
    ("Q, v a number", volatile(0.5), TypeError, "v", "0.5"),
    ("Q, v an array", volatile(np.ones((4, 1))), TypeError, "v", "(4, 1)"),
    ("Q, v of another P", volatile(torch.ones(3, 1)), ValueError, "v", "(3, 1)"),
    ("Q, v of another m", volatile(torch.ones(4, 2)), ValueError, "v", "(4, 2)"),
    ("Q, v flat", volatile(torch.ones(4)), ValueError, "v", "(4,)"),
    ("Q, v NaN", volatile(torch.full((4, 1), NAN)), ValueError, "v", "NaN"),
    ("variation, t = 2", variation(2, 2), ValueError, "t", "2"),
    ("variation, t = -1", variation(-1, 2), ValueError, "t", "-1"),
    ("variation, random", variation(1.0, 2, of=dl.stochastic_volatility(A=0.1)), ValueError, "Q(t, x, v)"),
    ("variation without width", variation(), ValueError, "quadratic_variation(t, width=4)"),
    ("variation, width 0", variation(1.0, 0), ValueError, "width", "0"),
    ("variation, width 2.0", variation(1.0, 2.0), TypeError, "width", "2.0"),
    ("variation, another width", variation(1.0, 3, of=dl.Ito(b=EYE)), ValueError, "Ito's b", "(2, 2)"),
    ("variation, negative late", variation(width=2, of=FALLING), ValueError, "Ito's A", "negative"),
    (
        "variation of a function of nothing",
        variation(of=dl.Ito(b=lambda: EYE)),
        TypeError,
        "Ito's b",
        "(t, v)",
    ),
]


TABLE = [*(row(*rest) for rest in NETWORKS), *(row(*rest) for rest in QUERIES)]


@pytest.mark.parametrize(("call", "error", "pins"), TABLE)
def test_bad_networks_and_queries_are_refused_by_name(call, error, pins):
    assert_refused(call, error, *pins)
