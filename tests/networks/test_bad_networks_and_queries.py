"""Networks that cannot be made of these weights, and what cannot be asked of the weights themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import EYE, INF, NAN, NOISE, ONES, STATES, TREND, WIDE, assert_refused, row

import deeplimit as dl

NETWORKS = [
    *(
        (
            f"{name} {value}",
            lambda n=name, v=value: dl.inner(2, noise=NOISE, **{n: v}),
            ValueError,
            name,
            f"{value:g}",
        )
        for name in ("alpha", "beta")
        for value in (-1, -1e-9, NAN, INF, 101)
    ),
    *(
        (
            f"{name}= with weights=",
            lambda n=name: dl.inner(2, weights=TREND, **{n: 0.5}),
            ValueError,
            name,
            "trend=",
            "exponent=",
        )
        for name in ("alpha", "beta")
    ),
    ("alpha= alone", lambda: dl.inner(2, alpha=0.5), ValueError, "alpha", "trend="),
    ("weights= and trend=", lambda: dl.inner(2, weights=TREND, trend=TREND), ValueError, "weights", "trend="),
    (
        "weights= and noise=",
        lambda: dl.inner(2, weights=dl.Brownian(), noise=NOISE),
        ValueError,
        "weights",
        "trend=",
    ),
    (
        "exponent= and noise=",
        lambda: dl.inner(2, noise=NOISE, exponent=0.5),
        ValueError,
        "exponent",
        "trend=",
    ),
    ("exponent= and trend=", lambda: dl.inner(2, trend=TREND, exponent=1), ValueError, "exponent", "trend="),
    ("trend=Trend", lambda: dl.inner(2, trend=dl.Trend), TypeError, "trend", "the class Trend"),
    ("trend= a function", lambda: dl.inner(2, trend=lambda t: EYE), TypeError, "trend", "function"),
    ("trend= a tensor", lambda: dl.inner(2, trend=EYE), TypeError, "trend", "Tensor of shape (2, 2)"),
    ("trend= an Ito", lambda: dl.inner(2, trend=NOISE), TypeError, "trend", "Ito("),
    ("trend= Brownian", lambda: dl.inner(2, trend=dl.Brownian()), TypeError, "trend", "Brownian()"),
    ("trend= True", lambda: dl.inner(2, trend=True), TypeError, "trend", "True"),
    ("noise=0.05", lambda: dl.inner(2, noise=0.05), TypeError, "noise", "0.05"),
    ("noise=Ito", lambda: dl.inner(2, noise=dl.Ito), TypeError, "noise", "the class Ito"),
    ("noise= Brownian", lambda: dl.inner(2, noise=dl.Brownian()), TypeError, "noise", "Brownian()"),
    ("noise= a Trend", lambda: dl.inner(2, noise=TREND), TypeError, "noise", "Trend"),
    ("noise= a tensor", lambda: dl.inner(2, noise=EYE), TypeError, "noise", "Tensor of shape (2, 2)"),
    ("noise= False", lambda: dl.inner(2, noise=False), TypeError, "noise", "False"),
    ("weights= an Ito", lambda: dl.inner(2, weights=NOISE), TypeError, "weights", "Ito("),
    (
        "trend= of width 3",
        lambda: dl.inner(2, trend=dl.Trend(lambda t: WIDE)),
        ValueError,
        "Trend's A(0.0)",
        "(3, 3)",
    ),
    ("width 0", lambda: dl.inner(0, noise=NOISE), ValueError, "width", "0"),
    ("width '2'", lambda: dl.inner("2", noise=NOISE), TypeError, "width", "'2'"),
    ("width None", lambda: dl.inner(None, trend=TREND), TypeError, "width", "None"),
    ("activation 3", lambda: dl.inner(2, 3, noise=NOISE), TypeError, "activation", "3"),
    (
        "activation a class",
        lambda: dl.inner(2, torch.nn.Tanh, noise=NOISE),
        TypeError,
        "activation",
        "Tanh",
        "class",
    ),
    (
        "activation misspelt",
        lambda: dl.inner(2, "tahn", noise=NOISE),
        ValueError,
        "activation",
        "'tahn'",
        "tanh",
    ),
    *(
        (f"holder {value}", lambda v=value: dl.Trend(TREND.A, holder=v), ValueError, "holder", f"{value:g}")
        for value in (0, -0.5, 1.5, INF, NAN)
    ),
]

VOLATILE = dl.stochastic_volatility(A=0.1)
QUERIES = [
    ("Q, t = 1.1", lambda: NOISE.Q(1.1, STATES), ValueError, "t", "1.1"),
    ("Q, t = -0.1", lambda: NOISE.Q(-0.1, STATES), ValueError, "t", "-0.1"),
    ("Q, x a list", lambda: NOISE.Q(0.0, [[1.0, 2.0]]), TypeError, "x", "[[1.0, 2.0]]"),
    ("Q, x an array", lambda: NOISE.Q(0.0, np.ones((1, 2))), TypeError, "x", "(1, 2)"),
    ("Q, x None", lambda: NOISE.Q(0.0, None), TypeError, "x", "None"),
    ("Q, x complex", lambda: NOISE.Q(0.0, 1j * STATES), TypeError, "x", "torch.complex64"),
    ("Q, x sparse", lambda: NOISE.Q(0.0, STATES.to_sparse()), TypeError, "x", "torch.sparse_coo"),
    (
        "Q, x meta",
        lambda: NOISE.Q(0.0, STATES.to("meta")),
        TypeError,
        "x",
        "a tensor of shape (4, 2) on the device meta",
    ),
    ("Q, x of one dimension", lambda: NOISE.Q(0.0, ONES), ValueError, "x", "(2,)"),
    ("Q, x of three", lambda: NOISE.Q(0.0, STATES[None]), ValueError, "x", "(1, 4, 2)"),
    ("Q, x empty", lambda: NOISE.Q(0.0, STATES[:0]), ValueError, "x", "(0, 2)"),
    ("Q, x NaN", lambda: NOISE.Q(0.0, NAN * STATES), ValueError, "x", "NaN"),
    (
        "Q, x of another width",
        lambda: dl.Ito(A=EYE).Q(0.0, torch.ones(1, 3)),
        ValueError,
        "Ito's A",
        "(2, 2)",
    ),
    ("Q, v missing", lambda: VOLATILE.Q(0.0, STATES), ValueError, "Ito's A", "v (P, m)"),
    ("Q, v of nothing", lambda: NOISE.Q(0.0, STATES, STATES), ValueError, "v", "none"),
    ("Q, v a number", lambda: VOLATILE.Q(0.0, STATES, 0.5), TypeError, "v", "0.5"),
    ("Q, v an array", lambda: VOLATILE.Q(0.0, STATES, np.ones((4, 1))), TypeError, "v", "(4, 1)"),
    ("Q, v of another P", lambda: VOLATILE.Q(0.0, STATES, torch.ones(3, 1)), ValueError, "v", "(3, 1)"),
    ("Q, v of another m", lambda: VOLATILE.Q(0.0, STATES, torch.ones(4, 2)), ValueError, "v", "(4, 2)"),
    ("Q, v flat", lambda: VOLATILE.Q(0.0, STATES, torch.ones(4)), ValueError, "v", "(4,)"),
    ("Q, v NaN", lambda: VOLATILE.Q(0.0, STATES, torch.full((4, 1), NAN)), ValueError, "v", "NaN"),
    ("variation, t = 2", lambda: NOISE.quadratic_variation(2, 2), ValueError, "t", "2"),
    ("variation, t = -1", lambda: NOISE.quadratic_variation(-1, 2), ValueError, "t", "-1"),
    (
        "variation of random noise",
        lambda: VOLATILE.quadratic_variation(1.0, 2),
        ValueError,
        "covariance",
        "Q(t, x, v)",
    ),
    (
        "variation without width",
        lambda: NOISE.quadratic_variation(),
        ValueError,
        "covariances",
        "quadratic_variation(t, width=4)",
    ),
    ("variation, width 0", lambda: NOISE.quadratic_variation(1.0, 0), ValueError, "width", "0"),
    ("variation, width 2.0", lambda: NOISE.quadratic_variation(1.0, 2.0), TypeError, "width", "2.0"),
    ("variation, width a string", lambda: NOISE.quadratic_variation(1.0, "2"), TypeError, "width", "'2'"),
    (
        "variation, another width",
        lambda: dl.Ito(b=EYE).quadratic_variation(1.0, 3),
        ValueError,
        "Ito's b",
        "(2, 2)",
    ),
    (
        "variation of a rate that is negative late",
        lambda: dl.Ito(A=lambda t: 0.7 - t).quadratic_variation(width=2),
        ValueError,
        "Ito's A",
        "negative",
    ),
    (
        "variation of a function of nothing",
        lambda: dl.Ito(b=lambda: EYE).quadratic_variation(),
        TypeError,
        "Ito's b",
        "(t, v)",
        "takes 0 positional",
    ),
]


TABLE = [*(row(*rest) for rest in NETWORKS), *(row(*rest) for rest in QUERIES)]


@pytest.mark.parametrize(("call", "error", "pins"), TABLE)
def test_bad_networks_and_queries_are_refused_in_words(call, error, pins):
    assert_refused(call, error, *pins)
