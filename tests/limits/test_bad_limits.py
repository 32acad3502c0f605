"""Limits that a network cannot have or cannot be compared with, and states that a limit cannot take, are
refused.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refusals import (
    EYE,
    NOISE,
    NOISE_KIND,
    ONES,
    RANDOM,
    STATES,
    TREND,
    TREND_KIND,
    WIDE,
    assert_refused,
    go,
    linear,
    net,
    row,
)

import deeplimit as dl

ASSUMPTION = (
    r"^cannot pair inner \(σ = {}, .*because Assumption 4\.2 of Cohen et al\. \(2021\) needs .*{}.*Closest:"
    r" .*smooth activ.*tanh"
)
UNSMOOTH = [
    ("relu", "relu", r"σ'\(0\), and relu has none: it is not smooth at 0"),
    ("leaky_relu", "leaky_relu", r"σ'\(0\), and leaky_relu has none"),
    ("elu", "elu", r"σ''\(0\), and elu has none"),
    ("softplus", "softplus", r"σ\(0\) = 0, and softplus has σ\(0\) = 0\.6931"),
    ("sigmoid", "sigmoid", r"σ\(0\) = 0, and sigmoid has σ\(0\) = 0\.5"),
    ("ReLU", torch.nn.ReLU(), r"smooth at 0, but ReLU has σ' = 0 at .* and 1 at"),
    ("abs", torch.abs, r"smooth at 0, but abs has σ' = -1 at"),
    ("<lambda>", lambda x: x**3, r"σ'\(0\) = 1, to which <lambda> cannot be scaled: its σ'\(0\) is 0"),
    ("<lambda>", lambda x: x + 1, r"σ\(0\) = 0, and <lambda> has σ\(0\) = 1"),
]
ASSUMPTION_ROWS = [
    row(
        f"{name} [{index}], {kind}",
        lambda c=call, v=activation: c(v),
        dl.NoTheoremError,
        ASSUMPTION.format(name, words),
    )
    for index, (name, activation, words) in enumerate(UNSMOOTH)
    for kind, call in (
        ("SDE", lambda activation: net(activation=activation).limit()),
        ("linear ODE", lambda activation: linear(activation=activation).limit()),
        ("compare", lambda activation: go(net(activation=activation))),
    )
]


def equation(motions, **changes):
    """A user's torchsde object for d = 2, of so many Brownian motions."""
    zero = {"f": lambda t, h: torch.zeros_like(h), "g": lambda t, h: torch.zeros(len(h), 2, motions)}
    return SimpleNamespace(**({"sde_type": "ito", "noise_type": "general"} | zero | changes))


BOTH_KINDS = r"\(W\^A's 2 x 2, row by row, then W\^b's 2\)"
SHARED = (
    r"^limit has {} Brownian motions, but the network is driven by {} {}, so they cannot share their noise; "
)
LIMITS = [
    (
        "a user's W^A only",
        lambda: go(net(), equation(4)),
        SHARED.format(4, 6, BOTH_KINDS) + r"make g return \(paths, 2, 6\)",
    ),
    (
        "a user's W^b only",
        lambda: go(net(), equation(2)),
        SHARED.format(2, 6, BOTH_KINDS) + r"make g return \(paths, 2, 6\)",
    ),
    (
        "a user's with W^b that the network lacks",
        lambda: go(net(b=None), equation(6)),
        SHARED.format(6, 4, r"\(W\^A's 2 x 2, row by row\)"),
    ),
    (
        "a user's with W^A that the network lacks",
        lambda: go(net(A=None), equation(6)),
        SHARED.format(6, 2, r"\(W\^b's 2\)"),
    ),
    (
        "a user's without the auxiliary diffusion",
        lambda: go(net(**RANDOM), equation(6)),
        SHARED.format(6, 7, r"\(W\^A's 2 x 2, row by row, then W\^b's 2, then the auxiliary diffusion's 1\)"),
    ),
    (
        "a user's, diagonal",
        lambda: go(net(), equation(0, noise_type="diagonal", g=lambda t, h: h)),
        SHARED.format(2, 6, BOTH_KINDS),
    ),
    (
        "a wider SDE",
        lambda: go(net(), net(3).limit()),
        SHARED.format(12, 6, BOTH_KINDS) + r"the limit is of width 3, .*of width 2",
    ),
    (
        "an SDE of W^A alone",
        lambda: go(net(), net(b=None).limit()),
        SHARED.format(4, 6, BOTH_KINDS) + r".*network\.limit\(\)",
    ),
    (
        "a wider SDE, independent",
        lambda: go(net(), dl.Independent(net(3).limit())),
        r"^limit has width 3, .*network has width 2",
    ),
    (
        "a wider linear ODE",
        lambda: go(linear(), dl.LinearODE(dl.Trend(lambda t: WIDE), 3)),
        r"^limit has width 3, but the network has width 2; make them the same",
    ),
    (
        "a wider linear ODE for the SDE",
        lambda: go(net(), dl.LinearODE(dl.SmoothGaussian(), 3)),
        r"^limit has width 3, .*width 2",
    ),
    (
        "an independent linear ODE of a given trend",
        lambda: go(linear(), dl.Independent(linear().limit())),
        (
            r"^Independent needs a limit with noise of its own .*dH = \(Ā_t H .* has none, since its weights"
            r" are deterministic"
        ),
    ),
    (
        "an independent neural ODE of a given trend",
        lambda: go(
            dl.res1(2, "tanh", weights=TREND), dl.Independent(dl.res1(2, "tanh", weights=TREND).limit())
        ),
        r"^Independent needs a limit with noise of its own .*has none, since its weights are deterministic",
    ),
    (
        "reference= too small",
        lambda: go(net(), reference=8),
        r"^reference must be at least 16, got 8\. .*twice the deepest",
    ),
    (
        "reference= of an ODE",
        lambda: go(linear(), reference=64),
        r"^reference= is the grid of an SDE limit, but dH = .*use tolerance=",
    ),
    (
        "tolerance= of an SDE",
        lambda: go(net(), tolerance=1e-6),
        r"^tolerance= is for an ODE limit, but dH = dW\^A H.*use reference=",
    ),
    ("LinearODE, width 0", lambda: dl.LinearODE(TREND, 0), r"^width must be at least 1, got 0"),
    (
        "LinearODE, another width",
        lambda: dl.LinearODE(TREND, 3),
        r"^Trend's A\(0\.0\) must have shape \(3, 3\), got \(2, 2\)",
    ),
    ("LinearODE, seed -1", lambda: dl.LinearODE(TREND, 2, seed=-1), r"^seed must be at least 0, got -1"),
    (
        "ItoCorrectedSDE, width 0",
        lambda: dl.ItoCorrectedSDE(NOISE, None, 0),
        r"^width must be at least 1, got 0",
    ),
    (
        "ItoCorrectedSDE, another width",
        lambda: dl.ItoCorrectedSDE(dl.Ito(A=WIDE), None, 2),
        r"^Ito's A .*d = 2; got shape \(3, 3\)",
    ),
    (
        "ItoCorrectedSDE, wide trend",
        lambda: dl.ItoCorrectedSDE(NOISE, TREND, 3),
        r"^Trend's A\(0\.0\) must have shape \(3, 3\)",
    ),
    (
        "linear ODE at wide states",
        lambda: linear().limit()(0.0, torch.ones(1, 3)),
        r"^states h must have shape \(P, 2\), got \(1, 3\)",
    ),
    (
        "linear ODE at one state",
        lambda: linear().limit()(0.0, ONES),
        r"^states h must have shape \(P, 2\), got \(2,\)",
    ),
    (
        "SDE, f at wide states",
        lambda: net().limit().f(0.0, torch.ones(1, 3)),
        r"^states must have shape \(P, 2\), got \(1, 3\)",
    ),
    (
        "SDE, g at wide states",
        lambda: net().limit().g(0.0, torch.ones(1, 3)),
        r"^states must have shape \(P, 2\), got \(1, 3\)",
    ),
    (
        "SDE without v",
        lambda: net(**RANDOM).limit().f(0.0, STATES),
        r"^states \(H, v\), which initial\(h0\) makes, must have shape \(P, 3\), got \(4, 2\)",
    ),
    (
        "SDE, too little noise",
        lambda: net().limit().g_prod(0.0, STATES, torch.ones(4, 4)),
        r"^Brownian increments v must have shape \(P, 6\), got \(4, 4\)",
    ),
    (
        "SDE, too much noise",
        lambda: net().limit().g_prod(0.0, STATES, torch.ones(4, 7)),
        r"^Brownian increments v must have shape \(P, 6\), got \(4, 7\)",
    ),
    (
        "SDE, initial wide",
        lambda: net(**RANDOM).limit().initial(torch.ones(1, 3)),
        r"^states h0 must have shape \(P, 2\), got \(1, 3\)",
    ),
    (
        "explosion",
        lambda: dl.inner(2, trend=TREND, alpha=0.1, beta=0.1).limit(),
        r"^cannot pair inner .*α = 0\.1, β = 0\.1.* because .*without bound.*Closest: .*alpha \+ beta = 1",
    ),
]
LIMIT_KINDS = [
    ("LinearODE of a number", lambda: dl.LinearODE(3, 2), TREND_KIND + "3 of type int"),
    ("LinearODE of a function", lambda: dl.LinearODE(lambda t: EYE, 2), TREND_KIND + ".*function"),
    ("LinearODE of a class", lambda: dl.LinearODE(dl.Trend, 2), TREND_KIND + "the class Trend"),
    ("LinearODE of None", lambda: dl.LinearODE(None, 2), TREND_KIND + "None of type NoneType"),
    (
        "LinearODE, width a string",
        lambda: dl.LinearODE(TREND, "2"),
        r"^width must be an integer, got '2' of type str",
    ),
    ("LinearODE, width None", lambda: dl.LinearODE(TREND, None), r"^width must be an integer, got None"),
    ("LinearODE, seed 1.5", lambda: dl.LinearODE(TREND, 2, seed=1.5), r"^seed must be an integer, got 1\.5"),
    (
        "linear ODE at a list",
        lambda: linear().limit()(0.0, [[1.0, 2.0]]),
        r"^states h must be a tensor, got .*of type list",
    ),
    (
        "ItoCorrectedSDE of a number",
        lambda: dl.ItoCorrectedSDE(0.1, None, 2),
        NOISE_KIND + r"0\.1 of type float",
    ),
    ("ItoCorrectedSDE of a class", lambda: dl.ItoCorrectedSDE(dl.Ito, None, 2), NOISE_KIND + "the class Ito"),
    (
        "ItoCorrectedSDE of None",
        lambda: dl.ItoCorrectedSDE(None, TREND, 2),
        NOISE_KIND + "None of type NoneType",
    ),
    (
        "ItoCorrectedSDE, trend a number",
        lambda: dl.ItoCorrectedSDE(NOISE, 3, 2),
        TREND_KIND + "3 of type int",
    ),
    (
        "ItoCorrectedSDE, width a string",
        lambda: dl.ItoCorrectedSDE(NOISE, None, "2"),
        r"^width must be an integer, got '2'",
    ),
    (
        "ItoCorrectedSDE, seed '0'",
        lambda: dl.ItoCorrectedSDE(NOISE, None, 2, seed="0"),
        r"^seed must be an integer, got '0'",
    ),
    (
        "SDE at an array",
        lambda: net().limit().f(0.0, np.ones((4, 2))),
        r"^states must be a tensor, got ndarray of shape \(4, 2\)",
    ),
    (
        "the class LinearODE as limit",
        lambda: go(linear(), dl.LinearODE),
        r"^limit LinearODE is a class; make an object",
    ),
    (
        "the class ItoCorrectedSDE as limit",
        lambda: go(net(), dl.ItoCorrectedSDE),
        r"^limit ItoCorrectedSDE is a class",
    ),
    ("noise as limit", lambda: go(net(), NOISE), r"^limit must be a torchsde-style object.*got Ito\("),
    ("a trend as limit", lambda: go(linear(), TREND), r"^limit must be .*network\.limit\(\); got Trend\("),
]


TABLE = [
    *ASSUMPTION_ROWS,
    *(row(name, call, ValueError, message) for name, call, message in LIMITS),
    *(row(name, call, TypeError, message) for name, call, message in LIMIT_KINDS),
]


@pytest.mark.parametrize(("call", "error", "message"), TABLE)
def test_bad_limits_are_refused_in_words(call, error, message):
    assert_refused(call, error, message)
