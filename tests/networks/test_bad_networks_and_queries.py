"""Networks that cannot be made of these weights, and what cannot be asked of the weights themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import (
    EYE,
    INF,
    NAN,
    NOISE,
    NOISE_KIND,
    ONES,
    STATES,
    TREND,
    TREND_KIND,
    WIDE,
    assert_refused,
    row,
)

import deeplimit as dl

HOLDER = "^holder must be {}, got {}[.;] [Ii]t is the Hölder exponent"
OTHER_WAY = r"^{}= is the other way to give weights; leave it out with trend= or noise="
COHEN_ASKS = r"^{} must be {}, got {}[.;] Cohen et al\. \(2021\) ask for exponents of at least 0\.$"
NETWORKS = [
    *(
        (
            f"{name} {value}",
            lambda n=name, v=value: dl.inner(2, noise=NOISE, **{n: v}),
            ValueError,
            COHEN_ASKS.format(name, *words),
        )
        for name in ("alpha", "beta")
        for value, words in (
            (-1, ("at least 0", "-1")),
            (-1e-9, ("at least 0", "-1e-09")),
            (NAN, ("finite", "nan")),
            (INF, ("at most 100", "inf")),
            (101, ("at most 100", "101")),
        )
    ),
    *(
        (
            f"{name}= with weights=",
            lambda n=name: dl.inner(2, weights=TREND, **{n: 0.5}),
            ValueError,
            rf"^{name} is the exponent of",
        )
        for name in ("alpha", "beta")
    ),
    (
        "alpha= alone",
        lambda: dl.inner(2, alpha=0.5),
        ValueError,
        r"^alpha is the exponent of weights given by trend= or noise=",
    ),
    (
        "weights= and trend=",
        lambda: dl.inner(2, weights=TREND, trend=TREND),
        ValueError,
        OTHER_WAY.format("weights"),
    ),
    (
        "weights= and noise=",
        lambda: dl.inner(2, weights=dl.Brownian(), noise=NOISE),
        ValueError,
        OTHER_WAY.format("weights"),
    ),
    (
        "exponent= and noise=",
        lambda: dl.inner(2, noise=NOISE, exponent=0.5),
        ValueError,
        OTHER_WAY.format("exponent"),
    ),
    (
        "exponent= and trend=",
        lambda: dl.inner(2, trend=TREND, exponent=1),
        ValueError,
        OTHER_WAY.format("exponent"),
    ),
    (
        "trend=Trend",
        lambda: dl.inner(2, trend=dl.Trend),
        TypeError,
        TREND_KIND + r"the class Trend, not an object: Trend\(",
    ),
    (
        "trend= a function",
        lambda: dl.inner(2, trend=lambda t: EYE),
        TypeError,
        TREND_KIND + ".*of type function",
    ),
    ("trend= a tensor", lambda: dl.inner(2, trend=EYE), TypeError, TREND_KIND + r"Tensor of shape \(2, 2\)"),
    ("trend= an Ito", lambda: dl.inner(2, trend=NOISE), TypeError, TREND_KIND + r"Ito\("),
    (
        "trend= Brownian",
        lambda: dl.inner(2, trend=dl.Brownian()),
        TypeError,
        TREND_KIND + r"Brownian\(\) of type Brownian",
    ),
    ("trend= True", lambda: dl.inner(2, trend=True), TypeError, TREND_KIND + "True of type bool"),
    ("noise=0.05", lambda: dl.inner(2, noise=0.05), TypeError, NOISE_KIND + r"0\.05 of type float"),
    (
        "noise=Ito",
        lambda: dl.inner(2, noise=dl.Ito),
        TypeError,
        NOISE_KIND + r"the class Ito, not an object: Ito\(",
    ),
    (
        "noise= Brownian",
        lambda: dl.inner(2, noise=dl.Brownian()),
        TypeError,
        NOISE_KIND + r"Brownian\(\) of type",
    ),
    ("noise= a Trend", lambda: dl.inner(2, noise=TREND), TypeError, NOISE_KIND + ".*Trend"),
    ("noise= a tensor", lambda: dl.inner(2, noise=EYE), TypeError, NOISE_KIND + "Tensor of shape"),
    ("noise= False", lambda: dl.inner(2, noise=False), TypeError, NOISE_KIND + "False of type bool"),
    (
        "weights= an Ito",
        lambda: dl.inner(2, weights=NOISE),
        TypeError,
        r"^weights must be a weight process.*got Ito\(",
    ),
    (
        "trend= of width 3",
        lambda: dl.inner(2, trend=dl.Trend(lambda t: WIDE)),
        ValueError,
        r"Trend's A\(0\.0\) must have shape \(2, 2\)",
    ),
    ("width 0", lambda: dl.inner(0, noise=NOISE), ValueError, r"^width must be at least 1, got 0"),
    (
        "width '2'",
        lambda: dl.inner("2", noise=NOISE),
        TypeError,
        r"^width must be an integer, got '2' of type str",
    ),
    ("width None", lambda: dl.inner(None, trend=TREND), TypeError, r"^width must be an integer, got None"),
    (
        "activation 3",
        lambda: dl.inner(2, 3, noise=NOISE),
        TypeError,
        r"^activation must be a name .*got 3 of type int",
    ),
    (
        "activation a class",
        lambda: dl.inner(2, torch.nn.Tanh, noise=NOISE),
        TypeError,
        r"activation Tanh is a class",
    ),
    (
        "activation misspelt",
        lambda: dl.inner(2, "tahn", noise=NOISE),
        ValueError,
        r"'tahn' is not known; use one of .*tanh",
    ),
    *(
        (f"holder {value}", lambda v=value: dl.Trend(TREND.A, holder=v), ValueError, HOLDER.format(*words))
        for value, words in (
            (0, ("more than 0", "0")),
            (-0.5, ("more than 0", r"-0\.5")),
            (1.5, ("at most 1", r"1\.5")),
            (INF, ("at most 1", "inf")),
            (NAN, ("finite", "nan")),
        )
    ),
]

VOLATILE = dl.stochastic_volatility(A=0.1)
QUERIES = [
    (
        "Q, t = 1.1",
        lambda: NOISE.Q(1.1, STATES),
        ValueError,
        r"^t must be at most 1, got 1\.1; it is a time on \[0, 1\]",
    ),
    (
        "Q, t = -0.1",
        lambda: NOISE.Q(-0.1, STATES),
        ValueError,
        r"^t must be at least 0, got -0\.1\. It is a time on \[0, 1\]",
    ),
    (
        "Q, x a list",
        lambda: NOISE.Q(0.0, [[1.0, 2.0]]),
        TypeError,
        r"^x must be a tensor, got .* of type list; torch\.as_tensor",
    ),
    (
        "Q, x an array",
        lambda: NOISE.Q(0.0, np.ones((1, 2))),
        TypeError,
        r"^x must be a tensor, got ndarray of shape \(1, 2\)",
    ),
    ("Q, x None", lambda: NOISE.Q(0.0, None), TypeError, r"^x must be a tensor, got None"),
    (
        "Q, x complex",
        lambda: NOISE.Q(0.0, 1j * STATES),
        TypeError,
        r"^x must hold real numbers, got torch\.complex64",
    ),
    (
        "Q, x sparse",
        lambda: NOISE.Q(0.0, STATES.to_sparse()),
        TypeError,
        r"^x must be a dense tensor, got torch\.sparse_coo",
    ),
    (
        "Q, x meta",
        lambda: NOISE.Q(0.0, STATES.to("meta")),
        TypeError,
        r"^x must hold data, got .*\(4, 2\) on the device meta",
    ),
    (
        "Q, x of one dimension",
        lambda: NOISE.Q(0.0, ONES),
        ValueError,
        r"^x must be states \(P, d\), got shape \(2,\); x\[None\]",
    ),
    (
        "Q, x of three",
        lambda: NOISE.Q(0.0, STATES[None]),
        ValueError,
        r"^x must be states \(P, d\), got shape \(1, 4, 2\)",
    ),
    (
        "Q, x empty",
        lambda: NOISE.Q(0.0, STATES[:0]),
        ValueError,
        r"^x must be states \(P, d\), got shape \(0, 2\)",
    ),
    ("Q, x NaN", lambda: NOISE.Q(0.0, NAN * STATES), ValueError, r"^x must be finite, but holds NaN"),
    (
        "Q, x of another width",
        lambda: dl.Ito(A=EYE).Q(0.0, torch.ones(1, 3)),
        ValueError,
        r"^Ito's A .*with d = 3; got shape \(2, 2\)",
    ),
    (
        "Q, v missing",
        lambda: VOLATILE.Q(0.0, STATES),
        ValueError,
        r"^Ito's A is random, .*give the diffusion's state v \(P, m\)",
    ),
    (
        "Q, v of nothing",
        lambda: NOISE.Q(0.0, STATES, STATES),
        ValueError,
        r"^v is the state of an auxiliary diffusion.*leave it out",
    ),
    (
        "Q, v a number",
        lambda: VOLATILE.Q(0.0, STATES, 0.5),
        TypeError,
        r"^v must be a tensor, got 0\.5 of type float",
    ),
    (
        "Q, v an array",
        lambda: VOLATILE.Q(0.0, STATES, np.ones((4, 1))),
        TypeError,
        r"^v must be a tensor, got ndarray",
    ),
    (
        "Q, v of another P",
        lambda: VOLATILE.Q(0.0, STATES, torch.ones(3, 1)),
        ValueError,
        r"^v must have shape \(4, 1\), got \(3, 1\)",
    ),
    (
        "Q, v of another m",
        lambda: VOLATILE.Q(0.0, STATES, torch.ones(4, 2)),
        ValueError,
        r"^v must have shape \(4, 1\), got \(4, 2\)",
    ),
    (
        "Q, v flat",
        lambda: VOLATILE.Q(0.0, STATES, torch.ones(4)),
        ValueError,
        r"^v must have shape \(4, 1\), got \(4,\)",
    ),
    ("Q, v NaN", lambda: VOLATILE.Q(0.0, STATES, torch.full((4, 1), NAN)), ValueError, r"^v must be finite"),
    ("variation, t = 2", lambda: NOISE.quadratic_variation(2, 2), ValueError, r"^t must be at most 1, got 2"),
    (
        "variation, t = -1",
        lambda: NOISE.quadratic_variation(-1, 2),
        ValueError,
        r"^t must be at least 0, got -1",
    ),
    (
        "variation of random noise",
        lambda: VOLATILE.quadratic_variation(1.0, 2),
        ValueError,
        r"^the covariance is random.*Q\(t, x, v\)",
    ),
    (
        "variation without width",
        lambda: NOISE.quadratic_variation(),
        ValueError,
        r"numbers, which any width has; say which: quadratic_variation\(t, width=4\)",
    ),
    (
        "variation, width 0",
        lambda: NOISE.quadratic_variation(1.0, 0),
        ValueError,
        r"^width must be at least 1, got 0",
    ),
    (
        "variation, width 2.0",
        lambda: NOISE.quadratic_variation(1.0, 2.0),
        TypeError,
        r"^width must be an integer, got 2\.0",
    ),
    (
        "variation, width a string",
        lambda: NOISE.quadratic_variation(1.0, "2"),
        TypeError,
        r"^width must be an integer, got '2'",
    ),
    (
        "variation, another width",
        lambda: dl.Ito(b=EYE).quadratic_variation(1.0, 3),
        ValueError,
        r"^Ito's b .*with d = 3; got .*\(2, 2\)",
    ),
    (
        "variation of a rate that is negative late",
        lambda: dl.Ito(A=lambda t: 0.7 - t).quadratic_variation(width=2),
        ValueError,
        r"^Ito's A at t = 0\.7\d* is a variance .*must not be negative",
    ),
    (
        "variation of a function of nothing",
        lambda: dl.Ito(b=lambda: EYE).quadratic_variation(),
        TypeError,
        r"^Ito's b must be a function of t alone",
    ),
]


TABLE = [
    *(row(*rest) for rest in NETWORKS),
    *(row(*rest) for rest in QUERIES),
]


@pytest.mark.parametrize(("call", "error", "message"), TABLE)
def test_bad_networks_and_queries_are_refused_in_words(call, error, message):
    assert_refused(call, error, message)
