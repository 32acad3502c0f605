"""Limits that a network cannot have or cannot be compared with, and states that a limit cannot take, are
refused.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refusals import NOISE, ONES, RANDOM, STATES, TREND, WIDE, assert_refused, go, linear, net, row

import deeplimit as dl

# What Assumption 4.2 of Cohen et al. (2021) asks of σ and another activation lacks: tests/activations.
ASSUMPTION_ROWS = [
    row(kind, call, dl.NoTheoremError, "σ = relu", "Assumption 4.2", "σ'(0)", "Closest")
    for kind, call in (
        ("SDE", lambda: net(activation="relu").limit()),
        ("linear ODE", lambda: linear(activation="relu").limit()),
        ("compare", lambda: go(net(activation="relu"))),
    )
]


def equation(motions, **changes):
    """A user's torchsde object for d = 2, of so many Brownian motions."""
    zero = {"f": lambda t, h: torch.zeros_like(h), "g": lambda t, h: torch.zeros(len(h), 2, motions)}
    return SimpleNamespace(**({"sde_type": "ito", "noise_type": "general"} | zero | changes))


LIMITS = [
    ("a user's W^A only", lambda: go(net(), equation(4)), "limit", "4 Brownian motions", "6"),
    (
        "a user's with W^b that the network lacks",
        lambda: go(net(b=None), equation(6)),
        "limit",
        "6 Brownian motions",
        "4",
    ),
    (
        "a user's without the auxiliary diffusion",
        lambda: go(net(**RANDOM), equation(6)),
        "limit",
        "6 Brownian motions",
        "7",
    ),
    ("a wider SDE", lambda: go(net(), net(3).limit()), "limit", "12 Brownian motions", "6"),
    ("a wider SDE, independent", lambda: go(net(), dl.Independent(net(3).limit())), "limit", "width 3"),
    (
        "a wider linear ODE",
        lambda: go(linear(), dl.LinearODE(dl.Trend(lambda t: WIDE), 3)),
        "limit",
        "width 3",
        "width 2",
    ),
    (
        "an independent linear ODE of a given trend",
        lambda: go(linear(), dl.Independent(linear().limit())),
        "Independent",
        "deterministic",
    ),
    ("reference= too small", lambda: go(net(), reference=8), "reference", "8"),
    ("reference= of an ODE", lambda: go(linear(), reference=64), "reference", "ODE", "tolerance="),
    ("tolerance= of an SDE", lambda: go(net(), tolerance=1e-6), "tolerance", "SDE", "reference="),
    ("LinearODE, width 0", lambda: dl.LinearODE(TREND, 0), "width", "0"),
    ("LinearODE, another width", lambda: dl.LinearODE(TREND, 3), "Trend's A(0.0)", "(2, 2)"),
    ("LinearODE, seed -1", lambda: dl.LinearODE(TREND, 2, seed=-1), "seed", "-1"),
    (
        "ItoCorrectedSDE, another width",
        lambda: dl.ItoCorrectedSDE(dl.Ito(A=WIDE), None, 2),
        "Ito's A",
        "(3, 3)",
    ),
    ("ItoCorrectedSDE, wide trend", lambda: dl.ItoCorrectedSDE(NOISE, TREND, 3), "Trend's A(0.0)", "(2, 2)"),
    ("linear ODE at wide states", lambda: linear().limit()(0.0, torch.ones(1, 3)), "states h", "(1, 3)"),
    ("linear ODE at one state", lambda: linear().limit()(0.0, ONES), "states h", "(2,)"),
    ("SDE, f at wide states", lambda: net().limit().f(0.0, torch.ones(1, 3)), "states", "(1, 3)"),
    (
        "SDE without v",
        lambda: net(**RANDOM).limit().f(0.0, STATES),
        "states (H, v), which initial(h0) makes",
        "(4, 2)",
    ),
    (
        "SDE, too little noise",
        lambda: net().limit().g_prod(0.0, STATES, torch.ones(4, 4)),
        "Brownian increments v",
        "(4, 4)",
    ),
    ("SDE, initial wide", lambda: net(**RANDOM).limit().initial(torch.ones(1, 3)), "states h0", "(1, 3)"),
]
LIMIT_KINDS = [
    ("LinearODE of a number", lambda: dl.LinearODE(3, 2), "trend", "3"),
    ("LinearODE of a class", lambda: dl.LinearODE(dl.Trend, 2), "trend", "the class Trend"),
    ("LinearODE, seed 1.5", lambda: dl.LinearODE(TREND, 2, seed=1.5), "seed", "1.5"),
    ("linear ODE at a list", lambda: linear().limit()(0.0, [[1.0, 2.0]]), "states h", "[[1.0, 2.0]]"),
    ("ItoCorrectedSDE of a number", lambda: dl.ItoCorrectedSDE(0.1, None, 2), "noise", "0.1"),
    ("ItoCorrectedSDE, trend a number", lambda: dl.ItoCorrectedSDE(NOISE, 3, 2), "trend", "3"),
    ("SDE at an array", lambda: net().limit().f(0.0, np.ones((4, 2))), "states", "(4, 2)"),
    ("the class LinearODE as limit", lambda: go(linear(), dl.LinearODE), "limit", "LinearODE(...)"),
    ("noise as limit", lambda: go(net(), NOISE), "limit", "Ito("),
]


EXPLOSION = row(
    "explosion",
    lambda: dl.inner(2, trend=TREND, alpha=0.1, beta=0.1).limit(),
    dl.NoTheoremError,
    "inner",
    "α = 0.1, β = 0.1",
    "Closest",
    "alpha + beta = 1",
)
TABLE = [
    *ASSUMPTION_ROWS,
    EXPLOSION,
    *(row(name, call, ValueError, *pins) for name, call, *pins in LIMITS),
    *(row(name, call, TypeError, *pins) for name, call, *pins in LIMIT_KINDS),
]


@pytest.mark.parametrize(("call", "error", "pins"), TABLE)
def test_bad_limits_are_refused_in_words(call, error, pins):
    assert_refused(call, error, *pins)
