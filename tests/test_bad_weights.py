"""Bad Itô weights, trends, limits and scoreboards are refused in words, when they are made or at the step that turns bad."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit import cli
from deeplimit.scoreboard import RowResult, runs

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

# What is no number and no array of numbers, and what a message must say of it.
NO_NUMBERS = [
    ("a string", "0.05", r"got '0\.05' of type str"),
    ("a class", dl.Brownian, r"the class Brownian"),
    ("bool", True, r"got True of type bool"),
    ("complex", 1j, r"got 1j of type complex"),
    ("dict", {}, r"got \{\} of type dict"),
    ("a network", dl.res1(2), r"got an object of type ResidualNetwork"),
    ("Brownian", dl.Brownian(), r"got Brownian\(\) of type Brownian"),
    ("list of strings", ["a", "b"], r"must hold real numbers.*<U1"),
    ("list of bools", [True, False], r"must hold real numbers.*bool"),
    ("list of complex", [1j, 1.0], r"must hold real numbers.*complex128"),
    ("list with None", [1.0, None], r"must hold real numbers.*object"),
    ("ragged list", [[1.0, 2.0], [3.0]], r"must hold real numbers, in rows of equal length"),
    ("complex array", 1j * np.eye(2), r"must hold real numbers.*complex128"),
    ("bool array", np.eye(2) > 0, r"must hold real numbers.*bool"),
    ("complex tensor", 1j * EYE, r"must hold real numbers, got torch\.complex64"),
    ("bool tensor", EYE > 0, r"must hold real numbers, got torch\.bool"),
    ("sparse tensor", EYE.to_sparse(), r"must be a dense tensor, got torch\.sparse_coo; to_dense\(\)"),
    ("meta tensor", torch.eye(2, device="meta"), r"must hold data, got a tensor of shape \(2, 2\) on the device meta"),
]
NOT_FINITE = [
    ("NaN", NAN, r"must be finite, got nan"),
    ("inf", INF, r"must be finite, got inf"),
    ("-inf", -INF, r"must be finite, got -inf"),
    ("too large for a float", 10**400, r"must be finite, got inf"),
    ("a tensor with NaN", torch.tensor([[NAN, 1.0], [1.0, 1.0]]), r"must be finite, but holds NaN or infinity"),
    ("a list with inf", [[1.0, INF], [1.0, 1.0]], r"must be finite, but holds NaN or infinity"),
]
# Arguments that take such values: name in the message, and a call with the value.
NUMERIC = [
    ("Ito's A", lambda value: dl.Ito(A=value)),
    ("Ito's b", lambda value: dl.Ito(b=value)),
    ("Ito's cross", lambda value: dl.Ito(A=1.0, b=1.0, cross=value)),
    ("Ito's A at t = 0", lambda value: net(A=lambda t: value)),
    ("Ito's b at t = 0", lambda value: net(b=lambda t: value)),
    ("Ito's cross at t = 0", lambda value: net(A=1.0, b=1.0, cross=lambda t: value)),
    ("Ito's A at t = 0", lambda value: net(A=lambda t, v: value, auxiliary=auxiliary())),
    ("Kronecker's R", lambda value: dl.Kronecker(value, EYE)),
    ("Kronecker's C", lambda value: dl.Kronecker(EYE, value)),
    ("the auxiliary start", lambda value: auxiliary(start=value)),
    ("A", lambda value: dl.stochastic_volatility(A=value)),
    ("b", lambda value: dl.stochastic_volatility(b=value)),
]
NUMERIC_ROWS = [
    row(f"{name} [{index}]: {what}", lambda c=call, v=value: c(v), error, rf"^{re.escape(name)}( |\b).*{message}")
    for index, (name, call) in enumerate(NUMERIC)
    for kinds, error in ((NO_NUMBERS, TypeError), (NOT_FINITE, ValueError))
    for what, value, message in kinds
]

# What is no real number.
SCALARS = [
    ("leverage", lambda value: auxiliary(leverage=value)),
    ("leverage", lambda value: dl.stochastic_volatility(A=0.1, leverage=value)),
    ("mean_reversion", lambda value: dl.stochastic_volatility(A=0.1, mean_reversion=value)),
    ("volatility", lambda value: dl.stochastic_volatility(A=0.1, volatility=value)),
    ("holder", lambda value: dl.Trend(TREND.A, holder=value)),
    ("alpha", lambda value: dl.inner(2, noise=NOISE, alpha=value)),
    ("beta", lambda value: dl.inner(2, trend=TREND, beta=value)),
    ("t", lambda value: NOISE.Q(value, STATES)),
    ("t", lambda value: NOISE.quadratic_variation(value, 2)),
    ("slope", lambda value: dl.LinearODE(TREND, 2, slope=value)),
    ("slope", lambda value: dl.ItoCorrectedSDE(NOISE, None, 2, slope=value)),
    ("curvature", lambda value: dl.ItoCorrectedSDE(NOISE, None, 2, curvature=value)),
]
NO_SCALAR = [
    ("a string", "1/2", TypeError, r"must be a number, got '1/2' of type str"),
    ("bool", True, TypeError, r"must be a number, got True of type bool"),
    ("complex", 1j, TypeError, r"must be a number, got 1j of type complex"),
    ("a list", [0.5], TypeError, r"must be a number, got \[0\.5\] of type list"),
    ("a tensor", torch.ones(2), TypeError, r"must be a number, got Tensor of shape \(2,\)"),
    ("a class", dl.Trend, TypeError, r"must be a number, got the class Trend, not an object"),
    ("a function", max, TypeError, r"must be a number, got <built-in function max> of type"),
    ("NaN", NAN, ValueError, r"must be finite, got nan"),
    ("inf", INF, ValueError, r"must be (finite|at most \d+), got inf"),
    ("-inf", -INF, ValueError, r"must be finite, got -inf"),
    ("too large for a float", 10**400, ValueError, r"must be (finite|at most \d+), got inf"),
]
SCALAR_ROWS = [
    row(f"{name} [{index}]: {what}", lambda c=call, v=value: c(v), error, f"^{name} {message}")
    for index, (name, call) in enumerate(SCALARS)
    for what, value, error, message in NO_SCALAR
]

# What a function of time may not be, and may not return.
FUNCTIONS = [
    ("A", lambda value: dl.Trend(value)),
    ("b", lambda value: dl.Trend(TREND.A, value)),
    ("the auxiliary drift", lambda value: auxiliary(drift=value)),
    ("the auxiliary diffusion", lambda value: auxiliary(diffusion=value)),
]
NO_FUNCTION = [
    ("a number", 0.5, r"got 0\.5 of type float"),
    ("a string", "sin", r"got 'sin' of type str"),
    ("a tensor", EYE, r"got Tensor of shape \(2, 2\)"),
    ("a class", torch.nn.Linear, r"got the class Linear, not an object"),
]
FUNCTION_ROWS = [
    row(f"{name} is {what}", lambda c=call, v=value: c(v), TypeError, f"^{name} must be a function of .*{message}")
    for name, call in FUNCTIONS
    for what, value, message in NO_FUNCTION
]
# Those that return tensors: name, shape, arguments, and a call with a function of the arguments.
TENSOR_FUNCTIONS = [
    ("Trend's A", (2, 2), "t", lambda f: dl.inner(2, trend=dl.Trend(f))),
    ("Trend's b", (2,), "t", lambda f: dl.inner(2, trend=dl.Trend(TREND.A, f))),
    ("Trend's A", (2, 2), "t", lambda f: dl.res1(2, "tanh", weights=dl.Trend(f))),
    ("Trend's A", (2, 2), "t", lambda f: dl.LinearODE(dl.Trend(f), 2)),
    ("the A of Ito's drift", (2, 2), "t", lambda f: net(drift=dl.Trend(f))),
    ("the b of Ito's drift", (2,), "t", lambda f: net(drift=dl.Trend(TREND.A, f))),
    ("the A of Ito's drift", (2, 2), "t, v", lambda f: net(drift=dl.Trend(f), **RANDOM)),
    ("the auxiliary drift", (3, 1), "t, v", lambda f: net(auxiliary=auxiliary(drift=f))),
    ("the auxiliary diffusion", (3, 1), "t, v", lambda f: net(auxiliary=auxiliary(diffusion=f))),
]
NO_TENSOR = [
    ("None", None, r"must be a tensor, got None of type NoneType; torch\.as_tensor"),
    ("a number", 2.0, r"must be a tensor, got 2\.0 of type float"),
    ("a list", [[1.0]], r"must be a tensor, got \[\[1\.0\]\] of type list"),
    ("an array", np.eye(2), r"must be a tensor, got ndarray of shape \(2, 2\)"),
    ("a class", torch.Tensor, r"must be a tensor, got the class Tensor, not an object"),
    ("sparse", EYE.to_sparse(), r"must be a dense tensor, got torch\.sparse_coo"),
    ("meta", torch.eye(2, device="meta"), r"must hold data, .*meta"),
    ("complex", 1j * EYE, r"must hold real numbers, got torch\.complex64"),
    ("bool", EYE > 0, r"must hold real numbers, got torch\.bool"),
]


def returned(name, shape, arguments, call):
    """Rows for one function that returns what it must not, raises, or has other arguments."""

    def constant(value):
        return (lambda t: value) if arguments == "t" else (lambda t, v: value)

    def at_half(value):
        good = torch.zeros(shape)
        return (lambda t: value if t == 0.5 else good) if arguments == "t" else (lambda t, v: value if t == 0.5 else good)

    def failing(error):
        def fail(*given):
            raise error

        return fail

    for what, value, message in NO_TENSOR:
        yield f"is {what}", constant(value), TypeError, message
    for wrong in (torch.zeros(()), torch.zeros(1, 2), WIDE, torch.zeros(3, 3, 2, 2), torch.zeros(0)):
        text = re.escape(str(tuple(wrong.shape)))
        yield f"of shape {tuple(wrong.shape)}", constant(wrong), ValueError, rf"must have shape .*{re.escape(str(shape))}.*{text}"
    for value in (NAN, INF):
        broken = torch.full(shape, value)
        yield f"is {value}", constant(broken), ValueError, r"must be finite, but holds NaN or infinity"
        yield f"is {value} at 1/2", at_half(broken), ValueError, r"0\.5\)? must be finite, but holds NaN or infinity"
    yield "another shape at 1/2", at_half(torch.zeros(7)), ValueError, r"0\.5\)? must have shape .*\(7,\)"
    yield (
        "of no argument",
        lambda: EYE,
        TypeError,
        rf"must be a function of .*{arguments}.*at t = 0 it raised: .*0 positional arg",
    )
    yield "of 3 arguments", lambda t, v, x: EYE, TypeError, r"must be a function of .*at t = 0 it raised: .*missing [12] "
    for error in (ZeroDivisionError("division by zero"), KeyError("t"), RuntimeError("no such thing."), AttributeError("x")):
        words = rf"must be defined at all times in \[0, 1\]; at t = 0 it raised {type(error).__name__}: [^.]*\.$"
        yield f"raises {type(error).__name__}", failing(error), ValueError, words


RETURNED_ROWS = [
    row(f"{name} [{index}]: {what}", lambda c=call, f=function: c(f), error, f"^{name}.*{message}")
    for index, (name, shape, arguments, call) in enumerate(TENSOR_FUNCTIONS)
    for what, function, error, message in returned(name, shape, arguments, call)
]

# Shapes, signs and symmetry of covariances.
SKEW, BOTH = torch.tensor([[1.0, 0.5], [-0.5, 1.0]]), torch.tensor([[1.0, 2.0], [2.0, 1.0]])
ROW_OF_A = (
    r"must be a number, entrywise variances \(d, d\), Kronecker\(R, C\) or a tensor \(d, d, d, d\) with d = {}.*; got shape {}\.$"
)
ROW_OF_B = r"must be a number, entrywise variances \(d,\), or a covariance matrix \(d, d\) with d = {}.*; got shape {}\.$"
SQUARE = torch.eye(4).reshape(2, 2, 2, 2)
P3 = r"one for each of P = 3 paths \(a leading dimension\), as the auxiliary diffusion makes it random; got shape "
COVARIANCES = [
    ("A (3,)", lambda: dl.Ito(A=torch.ones(3)), ROW_OF_A.format(3, r"\(3,\)")),
    ("A (2, 3)", lambda: dl.Ito(A=torch.ones(2, 3)), ROW_OF_A.format(3, r"\(2, 3\)")),
    ("A (2, 2, 2)", lambda: dl.Ito(A=torch.ones(2, 2, 2)), ROW_OF_A.format(2, r"\(2, 2, 2\)")),
    ("A (2, 2, 2, 3)", lambda: dl.Ito(A=torch.ones(2, 2, 2, 3)), ROW_OF_A.format(3, r"\(2, 2, 2, 3\)")),
    ("A empty", lambda: dl.Ito(A=torch.zeros(0, 0)), ROW_OF_A.format(1, r"\(0, 0\)")),
    ("A of width 3", lambda: net(A=WIDE), ROW_OF_A.format(2, r"\(3, 3\)")),
    ("A a tensor of width 2 in width 3", lambda: net(width=3, A=SQUARE), ROW_OF_A.format(3, r"\(2, 2, 2, 2\)")),
    ("A (d², d²)", lambda: net(A=torch.eye(4)), ROW_OF_A.format(2, r"\(4, 4\)")),
    ("A of t, width 3", lambda: net(A=lambda t: WIDE), r"^Ito's A at t = 0 " + ROW_OF_A.format(2, r"\(3, 3\)")),
    ("A of width 3 at 1/2", lambda: net(A=lambda t: WIDE if t == 0.5 else EYE), r"^Ito's A at t = 0\.5 must be .*\(3, 3\)"),
    ("A one a path, nothing random", lambda: net(A=torch.ones(5, 2, 2)), ROW_OF_A.format("[25]", r"\(5, 2, 2\)")),
    ("b (2, 3)", lambda: dl.Ito(b=torch.ones(2, 3)), ROW_OF_B.format(3, r"\(2, 3\)")),
    ("b (2, 2, 2)", lambda: dl.Ito(b=torch.ones(2, 2, 2)), ROW_OF_B.format(2, r"\(2, 2, 2\)")),
    ("b of width 3", lambda: net(b=[0.1, 0.1, 0.1]), ROW_OF_B.format(2, r"\(3,\)")),
    ("b a matrix of width 3", lambda: net(b=WIDE), ROW_OF_B.format(2, r"\(3, 3\)")),
    ("b one of width 1", lambda: net(b=[0.1]), ROW_OF_B.format(2, r"\(1,\)")),
    ("b empty", lambda: dl.Ito(b=[]), ROW_OF_B.format(1, r"\(0,\)")),
    ("cross a number", lambda: net(cross=0.1), r"^Ito's cross must be a tensor \(d, d, d\) with d = 2; got shape \(\)\.$"),
    ("cross a matrix", lambda: net(cross=EYE), r"^Ito's cross must be a tensor \(d, d, d\) with d = 2; got shape \(2, 2\)\.$"),
    ("cross of width 3", lambda: net(cross=torch.zeros(3, 3, 3)), r"^Ito's cross must be .* d = 2; got shape \(3, 3, 3\)\.$"),
    ("cross without A", lambda: dl.Ito(b=0.1, cross=torch.zeros(2, 2, 2)), r"^Ito's cross .*so A and b must both be given"),
    ("cross without b", lambda: dl.Ito(A=0.1, cross=torch.zeros(2, 2, 2)), r"^Ito's cross .*so A and b must both be given"),
    ("nothing", lambda: dl.Ito(), r"^Ito needs noise: give the covariance A of W\^A, b of W\^b, or both, such as Ito\("),
    ("drift alone", lambda: dl.Ito(drift=TREND), r"^Ito needs noise"),
    ("drift of no A", lambda: dl.Ito(b=0.1, drift=TREND), r"has an A, but there is no W\^A.*\(A=0\.0 for none\)"),
    ("drift of no b", lambda: dl.Ito(A=0.1, drift=PUSHED), r"has a b, but there is no W\^b.*\(b=0\.0 for none\)"),
    ("A negative", lambda: dl.Ito(A=-0.05), r"^Ito's A is a variance a unit of time and must not be negative, got -0\.05"),
    ("b negative", lambda: dl.Ito(b=-1), r"^Ito's b is a variance .* must not be negative, got -1"),
    ("A an entry negative", lambda: dl.Ito(A=SKEW), r"^Ito's A .*must not be negative, got -0\.5"),
    ("b an entry negative", lambda: dl.Ito(b=[0.1, -0.2]), r"^Ito's b .*must not be negative, got -0\.2"),
    ("A negative at 1/2", lambda: net(A=lambda t: -1.0 if t == 0.5 else 1.0), r"^Ito's A at t = 0\.5 .*must not be negative"),
    ("b NaN at 1/2", lambda: net(b=lambda t: NAN if t == 0.5 else 1.0), r"^Ito's b at t = 0\.5 must be finite, got nan"),
    ("A inf at 1", lambda: net(A=lambda t: INF if t == 1.0 else EYE), r"^Ito's A at t = 1 must be finite, got inf"),
    (
        "b asymmetric",
        lambda: dl.Ito(b=SKEW),
        r"^Ito's b must be symmetric, but differs from its transpose by 1; use \(S \+ S\.T\)/2",
    ),
    ("b indefinite", lambda: dl.Ito(b=BOTH), r"^Ito's b must be positive semidefinite, but has the eigenvalue -1; S @ S\.T is"),
    ("A asymmetric", lambda: dl.Ito(A=torch.rand(2, 2, 2, 2, generator=torch.Generator())), r"^Ito's A, read as .*symmetric"),
    ("A indefinite", lambda: dl.Ito(A=-SQUARE), r"^Ito's A, read as a \(d², d²\) matrix, must be positive semidefinite.*-1"),
    ("b asymmetric at 1/2", lambda: net(b=lambda t: SKEW if t == 0.5 else EYE), r"^Ito's b at t = 0\.5 must be symmetric"),
    ("A indefinite at 1/2", lambda: net(A=lambda t: (0.4 - t) * SQUARE), r"^Ito's A at t = 0\.5, read as .*semidefinite.*-0\.1;"),
    (
        "cross too large",
        lambda: net(A=1.0, b=1.0, cross=torch.ones(2, 2, 2)),
        r"^the joint covariance of A and b with Ito's cross must be positive semidefinite, but has the eigenvalue -",
    ),
    (
        "cross too large at 1/2",
        lambda: net(A=1.0, b=1.0, cross=lambda t: torch.ones(2, 2, 2) * (t == 0.5)),
        r"^the joint covariance of A and b with Ito's cross at t = 0\.5 must be positive semidefinite",
    ),
    ("Kronecker, R a number", lambda: dl.Kronecker(1.0, EYE), r"^Kronecker's R must be a square matrix \(d, d\), got shape \(\)"),
    ("Kronecker, C a vector", lambda: dl.Kronecker(EYE, ONES), r"^Kronecker's C must be a square matrix .*\(2,\)"),
    ("Kronecker, R not square", lambda: dl.Kronecker(torch.ones(2, 3), EYE), r"^Kronecker's R must be a square .*\(2, 3\)"),
    ("Kronecker, R empty", lambda: dl.Kronecker(torch.zeros(0, 0), EYE), r"^Kronecker's R must be a square .*\(0, 0\)"),
    ("Kronecker, R (1, 1, 2, 2)", lambda: dl.Kronecker(EYE[None, None], EYE), r"^Kronecker's R .*\(1, 1, 2, 2\)"),
    ("Kronecker, two widths", lambda: dl.Kronecker(WIDE, EYE), r"R and C must have the same width, got 3 and 2"),
    ("Kronecker, R asymmetric", lambda: dl.Kronecker(SKEW, EYE), r"^Kronecker's R must be symmetric"),
    ("Kronecker, C indefinite", lambda: dl.Kronecker(EYE, BOTH), r"^Kronecker's C must be positive semidefinite"),
    ("Kronecker, R negative", lambda: dl.Kronecker(-EYE, -EYE), r"^Kronecker's R must be positive semidefinite"),
    (
        "Kronecker, paths differ",
        lambda: dl.Kronecker(EYE.expand(3, 2, 2), EYE.expand(4, 2, 2)),
        r"R and C must be of as many paths, got 3 and 4",
    ),
    ("Kronecker of width 3", lambda: net(A=dl.Kronecker(WIDE, WIDE)), r"^Ito's A: Kronecker's R must be \(2, 2\); got \(3, 3\)"),
    (
        "Kronecker a path, nothing random",
        lambda: net(A=dl.Kronecker(EYE.expand(3, 2, 2), EYE)),
        r"^Ito's A: Kronecker's R must be \(2, 2\); got \(3, 2, 2\)",
    ),
    (
        "Kronecker of another P",
        lambda: net(A=lambda t, v: dl.Kronecker(EYE, EYE.expand(9, 2, 2)), auxiliary=auxiliary()),
        r"^Ito's A at t = 0: Kronecker's C must be \(2, 2\) or \(3, 2, 2\), one a path; got \(9, 2, 2\)",
    ),
    (
        "Kronecker indefinite at 1/2",
        lambda: net(A=lambda t: dl.Kronecker(BOTH if t == 0.5 else EYE, EYE)),
        r"^Ito's A must be defined .*at t = 0\.5 it raised ValueError: Kronecker's R must be positive semidefinite",
    ),
    ("P missing", lambda: net(A=lambda t, v: 0.1, auxiliary=auxiliary()), P3 + r"\(\)\.$"),
    ("P missing, entries", lambda: net(A=lambda t, v: EYE, auxiliary=auxiliary()), P3 + r"\(2, 2\)\.$"),
    ("another P", lambda: net(b=lambda t, v: torch.ones(9), auxiliary=auxiliary()), P3 + r"\(9,\)\.$"),
    ("P twice", lambda: net(A=lambda t, v: torch.ones(3, 3, 2, 2), auxiliary=auxiliary()), P3 + r"\(3, 2, 2\) a path\.$"),
    ("P last", lambda: net(b=lambda t, v: torch.ones(2, 3), auxiliary=auxiliary()), P3 + r"\(2, 3\)\.$"),
    (
        "a covariance of width 3 that is taken for one of 3 paths",
        lambda: net(width=3, b=lambda t, v: WIDE, auxiliary=auxiliary()),
        r"one for each of P = 4 paths.*got shape \(3, 3\)",
    ),
    (
        "cross without P",
        lambda: net(cross=lambda t, v: torch.zeros(2, 2, 2), auxiliary=auxiliary()),
        r"^Ito's cross at t = 0 must be a tensor \(d, d, d\) with d = 2, " + P3 + r"\(2, 2, 2\)\.$",
    ),
    (
        "NaN of (t, v) at 1/2",
        lambda: net(A=lambda t, v: covariance(t, v) / (t != 0.5), auxiliary=auxiliary()),
        r"^Ito's A at t = 0\.5 must be finite, but holds NaN or infinity",
    ),
    (
        "a negative variance of (t, v)",
        lambda: net(b=lambda t, v: v[:, 0] - 0.1, auxiliary=auxiliary()),
        r"^Ito's b at t = 0 is a variance .*must not be negative, got -0\.1",
    ),
    ("leverage 2", lambda: auxiliary(leverage=2), r"^leverage must be at most 1, got 2; it is a correlation"),
    ("leverage -1.1", lambda: auxiliary(leverage=-1.1), r"^leverage must be at least -1, got -1\.1\. It is a correlation"),
    (
        "leverage of 0.7 in percent",
        lambda: dl.stochastic_volatility(A=0.1, leverage=-70),
        r"^leverage must be at least -1, got -70",
    ),
    (
        "leverage on too few motions",
        lambda: net(width=1, A=None, auxiliary=auxiliary(start=[0.0, 0.0], leverage=0.5)),
        r"^leverage needs a Brownian motion .*each of v's 2 dimensions; there are 1\. Use leverage=0",
    ),
    ("start (2, 2)", lambda: auxiliary(start=EYE), r"^the auxiliary start must be a number or of shape \(m,\), got \(2, 2\)"),
    ("start empty", lambda: auxiliary(start=[]), r"^the auxiliary start must be a number or of shape \(m,\), got \(0,\)"),
    (
        "the auxiliary drift transposed, as many dimensions as the usual probe has paths",
        lambda: net(auxiliary=auxiliary(drift=lambda t, v: v.mT, start=[0.0] * 3)),
        r"^the auxiliary drift at t = 0 must have shape \(4, 3\), got \(3, 4\)",
    ),
    ("stochastic_volatility of nothing", lambda: dl.stochastic_volatility(), r"^Ito needs noise"),
    ("stochastic_volatility negative", lambda: volatile(A=-1.0), r"^Ito's A at t = 0 .*must not be negative, got -1"),
    ("stochastic_volatility of width 3", lambda: volatile(A=WIDE), r"^Ito's A .*with d = 2.*got shape \(3, 3\) a path\.$"),
    ("stochastic_volatility, b of width 3", lambda: volatile(b=WIDE), r"^Ito's b .*with d = 2.*got shape \(3, 3\) a path\.$"),
    ("stochastic_volatility, b indefinite", lambda: volatile(b=BOTH), r"^Ito's b at t = 0 must be positive semidefinite"),
    (
        "stochastic_volatility of a random Kronecker",
        lambda: dl.stochastic_volatility(A=dl.Kronecker(EYE.expand(3, 2, 2), EYE)),
        r"^A must be constant here, but its Kronecker\(R, C\) differs from path to path",
    ),
    (
        "mean_reversion -1",
        lambda: dl.stochastic_volatility(A=0.1, mean_reversion=-1),
        r"^mean_reversion must be at least 0, got -1",
    ),
    ("volatility -1", lambda: dl.stochastic_volatility(A=0.1, volatility=-1), r"^volatility must be at least 0, got -1"),
]

KIND = {
    "A of b's kind": (
        lambda: dl.Ito(b=dl.Kronecker(EYE, EYE)),
        r"^Ito's b must be a number, an array or a tensor; got .*Kronecker",
    ),
    "cross a Kronecker": (lambda: net(cross=dl.Kronecker(EYE, EYE)), r"^Ito's cross must be .* tensor; got .*Kronecker"),
    "A the class Kronecker": (lambda: dl.Ito(A=dl.Kronecker), r"^Ito's A is the class Kronecker; give an object"),
    "A a Trend": (lambda: dl.Ito(A=TREND), r"^Ito's A must be a number, an array or a tensor; got .*Trend"),
    "A None of t": (lambda: net(A=lambda t: None), r"^Ito's A at t = 0 must be .*got None of type NoneType"),
    "Kronecker of None": (lambda: dl.Kronecker(None, EYE), r"^Kronecker's R must be .*got None"),
    "Kronecker without C": (lambda: dl.Kronecker(EYE), r"missing 1 required positional argument: 'C'"),
    "Kronecker of t": (lambda: dl.Kronecker(lambda t: EYE, EYE), r"^Kronecker's R must be .*of type function"),
    "A of no argument": (lambda: net(A=lambda: 0.1), r"^Ito's A must be a function of t alone.*raised: .*takes 0 positional"),
    "A of (t, v), no v": (lambda: net(A=lambda t, v: 0.1), r"^Ito's A must be a function of t alone \(of \(t, v\) with an auxil"),
    "A of t, with v": (
        lambda: net(A=lambda t: 0.1, auxiliary=auxiliary()),
        r"^Ito's A must be a function of \(t, v\), v \(P, m\)",
    ),
    "A a module": (lambda: net(A=torch.nn.ReLU()), r"^Ito's A must be a function of t alone.*at t = 0 it raised"),
    "cross of (t, v), no v": (lambda: net(cross=lambda t, v: 0.1), r"^Ito's cross must be a function of t alone"),
    "drift a function": (lambda: dl.Ito(A=0.1, drift=lambda t: EYE), r"^Ito's drift must be a Trend\(A, b\).*type function"),
    "drift a tensor": (lambda: dl.Ito(A=0.1, drift=EYE), r"^Ito's drift must be a Trend\(A, b\).*Tensor of shape \(2, 2\)"),
    "drift the class": (lambda: dl.Ito(A=0.1, drift=dl.Trend), r"^Ito's drift must be .*the class Trend, not an object"),
    "drift smooth": (lambda: dl.Ito(A=0.1, drift=dl.SmoothGaussian()), r"^Ito's drift must be a Trend.*SmoothGaussian"),
    "drift of t, with v": (lambda: net(drift=TREND, **RANDOM), r"^the A of Ito's drift must be a function of \(t, v\)"),
    "auxiliary a function": (lambda: dl.Ito(A=0.1, auxiliary=max), r"^Ito's auxiliary must be an AuxiliaryDiffusion, got <built"),
    "auxiliary the class": (lambda: dl.Ito(A=0.1, auxiliary=dl.AuxiliaryDiffusion), r"^Ito's auxiliary must be .*the class Aux"),
    "auxiliary an Ito": (lambda: dl.Ito(A=0.1, auxiliary=NOISE), r"^Ito's auxiliary must be .*got Ito\("),
    "auxiliary of nothing": (
        lambda: dl.AuxiliaryDiffusion(),
        r"missing 2 required positional arguments: 'drift' and 'diffusion'",
    ),
    "start None": (lambda: auxiliary(start=None), r"^the auxiliary start must be .*got None"),
    "leverage None": (lambda: auxiliary(leverage=None), r"^leverage must be a number, got None"),
    "holder None": (lambda: dl.Trend(TREND.A, holder=None), r"^holder must be a number, got None"),
    "Trend of None": (lambda: dl.Trend(None), r"^A must be a function of time, such as lambda t: tensor; got None"),
    "volatile A a function": (lambda: dl.stochastic_volatility(A=lambda t: 0.1), r"^A must be constant here, got .*; give Ito"),
    "volatile b a Kronecker": (lambda: dl.stochastic_volatility(b=dl.Kronecker(EYE, EYE)), r"^b must be .*got .*Kronecker"),
    "Ito, sigma=": (lambda: dl.Ito(sigma=0.1), r"unexpected keyword argument 'sigma'"),
    "volatile, speed=": (lambda: dl.stochastic_volatility(A=0.1, speed=1), r"unexpected keyword argument 'speed'"),
    "Trend, hölder=": (lambda: dl.Trend(TREND.A, hoelder=1), r"unexpected keyword argument 'hoelder'"),
}

HOLDER = "^holder must be {}, got {}[.;] [Ii]t is the Hölder exponent"
OTHER_WAY = r"^{}= is the other way to give weights; leave it out with trend= or noise="
TREND_KIND = r"^trend must be a function of time, such as Trend\(A, b\); got "
NOISE_KIND = r"^noise must be Itô processes, such as Ito\(A=0\.05, b=0\.25\); got "
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
    ("alpha= alone", lambda: dl.inner(2, alpha=0.5), ValueError, r"^alpha is the exponent of weights given by trend= or noise="),
    ("weights= and trend=", lambda: dl.inner(2, weights=TREND, trend=TREND), ValueError, OTHER_WAY.format("weights")),
    ("weights= and noise=", lambda: dl.inner(2, weights=dl.Brownian(), noise=NOISE), ValueError, OTHER_WAY.format("weights")),
    ("exponent= and noise=", lambda: dl.inner(2, noise=NOISE, exponent=0.5), ValueError, OTHER_WAY.format("exponent")),
    ("exponent= and trend=", lambda: dl.inner(2, trend=TREND, exponent=1), ValueError, OTHER_WAY.format("exponent")),
    ("trend=Trend", lambda: dl.inner(2, trend=dl.Trend), TypeError, TREND_KIND + r"the class Trend, not an object: Trend\("),
    ("trend= a function", lambda: dl.inner(2, trend=lambda t: EYE), TypeError, TREND_KIND + ".*of type function"),
    ("trend= a tensor", lambda: dl.inner(2, trend=EYE), TypeError, TREND_KIND + r"Tensor of shape \(2, 2\)"),
    ("trend= an Ito", lambda: dl.inner(2, trend=NOISE), TypeError, TREND_KIND + r"Ito\("),
    ("trend= Brownian", lambda: dl.inner(2, trend=dl.Brownian()), TypeError, TREND_KIND + r"Brownian\(\) of type Brownian"),
    ("trend= True", lambda: dl.inner(2, trend=True), TypeError, TREND_KIND + "True of type bool"),
    ("noise=0.05", lambda: dl.inner(2, noise=0.05), TypeError, NOISE_KIND + r"0\.05 of type float"),
    ("noise=Ito", lambda: dl.inner(2, noise=dl.Ito), TypeError, NOISE_KIND + r"the class Ito, not an object: Ito\("),
    ("noise= Brownian", lambda: dl.inner(2, noise=dl.Brownian()), TypeError, NOISE_KIND + r"Brownian\(\) of type"),
    ("noise= a Trend", lambda: dl.inner(2, noise=TREND), TypeError, NOISE_KIND + ".*Trend"),
    ("noise= a tensor", lambda: dl.inner(2, noise=EYE), TypeError, NOISE_KIND + "Tensor of shape"),
    ("noise= False", lambda: dl.inner(2, noise=False), TypeError, NOISE_KIND + "False of type bool"),
    ("weights= an Ito", lambda: dl.inner(2, weights=NOISE), TypeError, r"^weights must be a weight process.*got Ito\("),
    (
        "trend= of width 3",
        lambda: dl.inner(2, trend=dl.Trend(lambda t: WIDE)),
        ValueError,
        r"Trend's A\(0\.0\) must have shape \(2, 2\)",
    ),
    ("width 0", lambda: dl.inner(0, noise=NOISE), ValueError, r"^width must be at least 1, got 0"),
    ("width '2'", lambda: dl.inner("2", noise=NOISE), TypeError, r"^width must be an integer, got '2' of type str"),
    ("width None", lambda: dl.inner(None, trend=TREND), TypeError, r"^width must be an integer, got None"),
    ("activation 3", lambda: dl.inner(2, 3, noise=NOISE), TypeError, r"^activation must be a name .*got 3 of type int"),
    ("activation a class", lambda: dl.inner(2, torch.nn.Tanh, noise=NOISE), TypeError, r"activation Tanh is a class"),
    ("activation misspelt", lambda: dl.inner(2, "tahn", noise=NOISE), ValueError, r"'tahn' is not known; use one of .*tanh"),
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
    ("Q, t = 1.1", lambda: NOISE.Q(1.1, STATES), ValueError, r"^t must be at most 1, got 1\.1; it is a time on \[0, 1\]"),
    ("Q, t = -0.1", lambda: NOISE.Q(-0.1, STATES), ValueError, r"^t must be at least 0, got -0\.1\. It is a time on \[0, 1\]"),
    ("Q, x a list", lambda: NOISE.Q(0.0, [[1.0, 2.0]]), TypeError, r"^x must be a tensor, got .* of type list; torch\.as_tensor"),
    ("Q, x an array", lambda: NOISE.Q(0.0, np.ones((1, 2))), TypeError, r"^x must be a tensor, got ndarray of shape \(1, 2\)"),
    ("Q, x None", lambda: NOISE.Q(0.0, None), TypeError, r"^x must be a tensor, got None"),
    ("Q, x complex", lambda: NOISE.Q(0.0, 1j * STATES), TypeError, r"^x must hold real numbers, got torch\.complex64"),
    ("Q, x sparse", lambda: NOISE.Q(0.0, STATES.to_sparse()), TypeError, r"^x must be a dense tensor, got torch\.sparse_coo"),
    ("Q, x meta", lambda: NOISE.Q(0.0, STATES.to("meta")), TypeError, r"^x must hold data, got .*\(4, 2\) on the device meta"),
    ("Q, x of one dimension", lambda: NOISE.Q(0.0, ONES), ValueError, r"^x must be states \(P, d\), got shape \(2,\); x\[None\]"),
    ("Q, x of three", lambda: NOISE.Q(0.0, STATES[None]), ValueError, r"^x must be states \(P, d\), got shape \(1, 4, 2\)"),
    ("Q, x empty", lambda: NOISE.Q(0.0, STATES[:0]), ValueError, r"^x must be states \(P, d\), got shape \(0, 2\)"),
    ("Q, x NaN", lambda: NOISE.Q(0.0, NAN * STATES), ValueError, r"^x must be finite, but holds NaN"),
    (
        "Q, x of another width",
        lambda: dl.Ito(A=EYE).Q(0.0, torch.ones(1, 3)),
        ValueError,
        r"^Ito's A .*with d = 3; got shape \(2, 2\)",
    ),
    ("Q, v missing", lambda: VOLATILE.Q(0.0, STATES), ValueError, r"^Ito's A is random, .*give the diffusion's state v \(P, m\)"),
    (
        "Q, v of nothing",
        lambda: NOISE.Q(0.0, STATES, STATES),
        ValueError,
        r"^v is the state of an auxiliary diffusion.*leave it out",
    ),
    ("Q, v a number", lambda: VOLATILE.Q(0.0, STATES, 0.5), TypeError, r"^v must be a tensor, got 0\.5 of type float"),
    ("Q, v an array", lambda: VOLATILE.Q(0.0, STATES, np.ones((4, 1))), TypeError, r"^v must be a tensor, got ndarray"),
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
    ("Q, v flat", lambda: VOLATILE.Q(0.0, STATES, torch.ones(4)), ValueError, r"^v must have shape \(4, 1\), got \(4,\)"),
    ("Q, v NaN", lambda: VOLATILE.Q(0.0, STATES, torch.full((4, 1), NAN)), ValueError, r"^v must be finite"),
    ("variation, t = 2", lambda: NOISE.quadratic_variation(2, 2), ValueError, r"^t must be at most 1, got 2"),
    ("variation, t = -1", lambda: NOISE.quadratic_variation(-1, 2), ValueError, r"^t must be at least 0, got -1"),
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
    ("variation, width 0", lambda: NOISE.quadratic_variation(1.0, 0), ValueError, r"^width must be at least 1, got 0"),
    ("variation, width 2.0", lambda: NOISE.quadratic_variation(1.0, 2.0), TypeError, r"^width must be an integer, got 2\.0"),
    ("variation, width a string", lambda: NOISE.quadratic_variation(1.0, "2"), TypeError, r"^width must be an integer, got '2'"),
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


ASSUMPTION = (
    r"^cannot pair inner \(σ = {}, .*because Assumption 4\.2 of Cohen et al\. \(2021\) needs .*{}.*Closest: .*smooth activ.*tanh"
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
    row(f"{name} [{index}], {kind}", lambda c=call, v=activation: c(v), dl.NoTheoremError, ASSUMPTION.format(name, words))
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
SHARED = r"^limit has {} Brownian motions, but the network is driven by {} {}, so they cannot share their noise; "
LIMITS = [
    ("a user's W^A only", lambda: go(net(), equation(4)), SHARED.format(4, 6, BOTH_KINDS) + r"make g return \(paths, 2, 6\)"),
    ("a user's W^b only", lambda: go(net(), equation(2)), SHARED.format(2, 6, BOTH_KINDS) + r"make g return \(paths, 2, 6\)"),
    (
        "a user's with W^b that the network lacks",
        lambda: go(net(b=None), equation(6)),
        SHARED.format(6, 4, r"\(W\^A's 2 x 2, row by row\)"),
    ),
    ("a user's with W^A that the network lacks", lambda: go(net(A=None), equation(6)), SHARED.format(6, 2, r"\(W\^b's 2\)")),
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
    ("an SDE of W^A alone", lambda: go(net(), net(b=None).limit()), SHARED.format(4, 6, BOTH_KINDS) + r".*network\.limit\(\)"),
    ("a wider SDE, independent", lambda: go(net(), dl.Independent(net(3).limit())), r"^limit has width 3, .*network has width 2"),
    (
        "a wider linear ODE",
        lambda: go(linear(), dl.LinearODE(dl.Trend(lambda t: WIDE), 3)),
        r"^limit has width 3, but the network has width 2; make them the same",
    ),
    ("a wider linear ODE for the SDE", lambda: go(net(), dl.LinearODE(dl.SmoothGaussian(), 3)), r"^limit has width 3, .*width 2"),
    (
        "an independent linear ODE of a given trend",
        lambda: go(linear(), dl.Independent(linear().limit())),
        r"^Independent needs a limit with noise of its own .*dH = \(Ā_t H .* has none, since its weights are deterministic",
    ),
    (
        "an independent neural ODE of a given trend",
        lambda: go(dl.res1(2, "tanh", weights=TREND), dl.Independent(dl.res1(2, "tanh", weights=TREND).limit())),
        r"^Independent needs a limit with noise of its own .*has none, since its weights are deterministic",
    ),
    ("reference= too small", lambda: go(net(), reference=8), r"^reference must be at least 16, got 8\. .*twice the deepest"),
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
    ("LinearODE, another width", lambda: dl.LinearODE(TREND, 3), r"^Trend's A\(0\.0\) must have shape \(3, 3\), got \(2, 2\)"),
    ("LinearODE, seed -1", lambda: dl.LinearODE(TREND, 2, seed=-1), r"^seed must be at least 0, got -1"),
    ("ItoCorrectedSDE, width 0", lambda: dl.ItoCorrectedSDE(NOISE, None, 0), r"^width must be at least 1, got 0"),
    (
        "ItoCorrectedSDE, another width",
        lambda: dl.ItoCorrectedSDE(dl.Ito(A=WIDE), None, 2),
        r"^Ito's A .*d = 2; got shape \(3, 3\)",
    ),
    ("ItoCorrectedSDE, wide trend", lambda: dl.ItoCorrectedSDE(NOISE, TREND, 3), r"^Trend's A\(0\.0\) must have shape \(3, 3\)"),
    (
        "linear ODE at wide states",
        lambda: linear().limit()(0.0, torch.ones(1, 3)),
        r"^states h must have shape \(P, 2\), got \(1, 3\)",
    ),
    ("linear ODE at one state", lambda: linear().limit()(0.0, ONES), r"^states h must have shape \(P, 2\), got \(2,\)"),
    ("SDE, f at wide states", lambda: net().limit().f(0.0, torch.ones(1, 3)), r"^states must have shape \(P, 2\), got \(1, 3\)"),
    ("SDE, g at wide states", lambda: net().limit().g(0.0, torch.ones(1, 3)), r"^states must have shape \(P, 2\), got \(1, 3\)"),
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
    ("LinearODE, width a string", lambda: dl.LinearODE(TREND, "2"), r"^width must be an integer, got '2' of type str"),
    ("LinearODE, width None", lambda: dl.LinearODE(TREND, None), r"^width must be an integer, got None"),
    ("LinearODE, seed 1.5", lambda: dl.LinearODE(TREND, 2, seed=1.5), r"^seed must be an integer, got 1\.5"),
    ("linear ODE at a list", lambda: linear().limit()(0.0, [[1.0, 2.0]]), r"^states h must be a tensor, got .*of type list"),
    ("ItoCorrectedSDE of a number", lambda: dl.ItoCorrectedSDE(0.1, None, 2), NOISE_KIND + r"0\.1 of type float"),
    ("ItoCorrectedSDE of a class", lambda: dl.ItoCorrectedSDE(dl.Ito, None, 2), NOISE_KIND + "the class Ito"),
    ("ItoCorrectedSDE of None", lambda: dl.ItoCorrectedSDE(None, TREND, 2), NOISE_KIND + "None of type NoneType"),
    ("ItoCorrectedSDE, trend a number", lambda: dl.ItoCorrectedSDE(NOISE, 3, 2), TREND_KIND + "3 of type int"),
    ("ItoCorrectedSDE, width a string", lambda: dl.ItoCorrectedSDE(NOISE, None, "2"), r"^width must be an integer, got '2'"),
    ("ItoCorrectedSDE, seed '0'", lambda: dl.ItoCorrectedSDE(NOISE, None, 2, seed="0"), r"^seed must be an integer, got '0'"),
    (
        "SDE at an array",
        lambda: net().limit().f(0.0, np.ones((4, 2))),
        r"^states must be a tensor, got ndarray of shape \(4, 2\)",
    ),
    ("the class LinearODE as limit", lambda: go(linear(), dl.LinearODE), r"^limit LinearODE is a class; make an object"),
    ("the class ItoCorrectedSDE as limit", lambda: go(net(), dl.ItoCorrectedSDE), r"^limit ItoCorrectedSDE is a class"),
    ("noise as limit", lambda: go(net(), NOISE), r"^limit must be a torchsde-style object.*got Ito\("),
    ("a trend as limit", lambda: go(linear(), TREND), r"^limit must be .*network\.limit\(\); got Trend\("),
]

TABLE = [
    *NUMERIC_ROWS,
    *SCALAR_ROWS,
    *FUNCTION_ROWS,
    *RETURNED_ROWS,
    *(row(name, call, ValueError, message) for name, call, message in COVARIANCES),
    *(row(name, call, TypeError, message) for name, (call, message) in KIND.items()),
    *(row(*rest) for rest in NETWORKS),
    *(row(*rest) for rest in QUERIES),
    *ASSUMPTION_ROWS,
    *(row(name, call, ValueError, message) for name, call, message in LIMITS),
    *(row(name, call, TypeError, message) for name, call, message in LIMIT_KINDS),
]


def assert_refused(call, error, message):
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert re.search(message, text, re.DOTALL), f"{text}\n  does not match {message!r}"
    assert len(text) < 600, "a message is read, not scrolled"


@pytest.mark.parametrize(("call", "error", "message"), TABLE)
def test_bad_weights_are_refused_in_words(call, error, message):
    assert_refused(call, error, message)


# Functions that are good where they are tried, at 0, 1/2 and 1, and turn bad between: name, network (turns bad or not), message.
def turning(good, bad):
    """A function of t, or of (t, v), that takes another value between 0.6 and 0.9 if it is to fail."""
    return lambda fails: lambda t, *v: (bad if fails and 0.6 < t < 0.9 else good)(*v)


def constantly(value):
    return lambda *v: value


def restoring(v):
    return -v


LATE = {
    "A negative": (
        lambda f: net(A=f),
        turning(constantly(0.1), constantly(-0.1)),
        r"^Ito's A at t = 0\.\d+ .*must not be negative",
    ),
    "A NaN": (lambda f: net(A=f), turning(constantly(0.1), constantly(NAN)), r"^Ito's A at t = 0\.\d+ must be finite, got nan"),
    "b inf": (lambda f: net(b=f), turning(constantly(ONES), constantly(INF * ONES)), r"^Ito's b at t = 0\.\d+ must be finite"),
    "b indefinite": (
        lambda f: net(b=f),
        turning(constantly(EYE), constantly(BOTH)),
        r"^Ito's b at t = 0\.\d+ must be .*semidefinite",
    ),
    "A of another shape": (lambda f: net(A=f), turning(constantly(EYE), constantly(WIDE)), r"^Ito's A at t = 0\.\d+ .*\(3, 3\)"),
    "A no tensor": (
        lambda f: net(A=f),
        turning(constantly(EYE), constantly("?")),
        r"^Ito's A at t = 0\.\d+ must be .*'\?' of type str",
    ),
    "A raises": (
        lambda f: net(A=f),
        turning(constantly(EYE), lambda: 1 / 0),
        r"^Ito's A must be defined .*at t = 0\.\d+ it raised Zero",
    ),
    "cross too large": (
        lambda f: net(A=1.0, b=1.0, cross=f),
        turning(constantly(torch.zeros(2, 2, 2)), constantly(torch.ones(2, 2, 2))),
        r"^the joint covariance of A and b with Ito's cross at t = 0\.\d+ must be positive semidefinite",
    ),
    "random A negative": (
        lambda f: net(A=f, auxiliary=auxiliary()),
        turning(lambda v: torch.sigmoid(v[:, 0]), lambda v: -torch.sigmoid(v[:, 0])),
        r"^Ito's A at t = 0\.\d+ .*must not be negative",
    ),
    "random A NaN": (
        lambda f: net(A=f, auxiliary=auxiliary()),
        turning(lambda v: torch.sigmoid(v[:, 0]), lambda v: NAN * v[:, 0]),
        r"^Ito's A at t = 0\.\d+ must be finite",
    ),
    "random A for all paths at once": (
        lambda f: net(A=f, auxiliary=auxiliary()),
        turning(lambda v: torch.sigmoid(v[:, 0]), constantly(0.1)),
        r"^Ito's A at t = 0\.\d+ must be .*one for each of P = 16 paths.*got shape \(\)",
    ),
    "drift NaN": (
        lambda f: net(drift=dl.Trend(f)),
        turning(constantly(EYE), constantly(NAN * EYE)),
        r"^the A of Ito's drift at t = 0\.\d+ must be finite",
    ),
    "drift that would broadcast": (
        lambda f: net(drift=dl.Trend(f)),
        turning(constantly(EYE), constantly(torch.ones(1, 2))),
        r"^the A of Ito's drift at t = 0\.\d+ must have shape \(2, 2\), got \(1, 2\)",
    ),
    "drift of W^b inf": (
        lambda f: net(drift=dl.Trend(TREND.A, f)),
        turning(constantly(ONES), constantly(INF * ONES)),
        r"^the b of Ito's drift at t = 0\.\d+ must be finite",
    ),
    "auxiliary drift NaN": (
        lambda f: net(A=covariance, auxiliary=auxiliary(drift=f)),
        turning(restoring, lambda v: NAN * v),
        r"^the auxiliary drift at t = 0\.\d+ must be finite",
    ),
    "auxiliary drift NaN, read by nobody": (
        lambda f: net(auxiliary=auxiliary(drift=f)),
        turning(restoring, lambda v: NAN * v),
        r"^the auxiliary drift at t = 0\.\d+ must be finite",
    ),
    "auxiliary drift transposed": (
        lambda f: net(A=covariance, auxiliary=auxiliary(drift=f)),
        turning(restoring, lambda v: v.mT),
        r"^the auxiliary drift at t = 0\.\d+ must have shape \(16, 1\), got \(1, 16\)",
    ),
    "auxiliary diffusion of one path": (
        lambda f: net(A=covariance, auxiliary=auxiliary(diffusion=f)),
        turning(restoring, lambda v: v[:1]),
        r"^the auxiliary diffusion at t = 0\.\d+ must have shape \(16, 1\), got \(1, 1\)",
    ),
    "trend NaN beside noise": (
        lambda f: net(trend=dl.Trend(f)),
        turning(constantly(EYE), constantly(NAN * EYE)),
        r"^Trend's A\(0\.\d+\) must be finite",
    ),
    "trend's b inf": (
        lambda f: net(trend=dl.Trend(TREND.A, f)),
        turning(constantly(ONES), constantly(INF * ONES)),
        r"^Trend's b\(0\.\d+\) must be finite",
    ),
    "trend NaN of a linear ODE": (
        lambda f: linear(dl.Trend(f)),
        turning(constantly(EYE), constantly(NAN * EYE)),
        r"^Trend's A\(0\.\d+\) must be finite",
    ),
    "trend of another shape": (
        lambda f: linear(dl.Trend(f)),
        turning(constantly(EYE), constantly(WIDE)),
        r"^Trend's A\(0\.\d+\) must have shape \(2, 2\), got \(3, 3\)",
    ),
    "trend None": (
        lambda f: linear(dl.Trend(f)),
        turning(constantly(EYE), constantly(None)),
        r"^Trend's A\(0\.\d+\) must be a tensor, got None",
    ),
    "weights NaN": (
        lambda f: dl.res1(2, "tanh", weights=dl.Trend(f)),
        turning(constantly(EYE), constantly(NAN * EYE)),
        r"^Trend's A\(0\.\d+\) must be finite",
    ),
}


@pytest.mark.parametrize(("network", "function", "message"), LATE.values(), ids=LATE)
def test_functions_that_turn_bad_during_the_run_stop_it_in_words(network, function, message):
    assert np.isfinite(go(network(function(False))).errors).all(), "the twin that stays good must run"
    late = network(function(True))
    assert_refused(lambda: go(late), (ValueError, TypeError), message)


def test_volatility_that_explodes_on_the_grid_stops_the_run_in_words():
    wild = dl.inner(2, noise=dl.stochastic_volatility(A=0.1, mean_reversion=1e10))
    assert_refused(lambda: go(wild), ValueError, r"^the auxiliary drift at t = 0\.\d+ must be finite")


# The scoreboard: what it is asked for, and the files it reads.
def stored(file="board.json", **changes):
    """A small scoreboard as a file; `changes` to its row, or to the whole where they name a field of it (None removes)."""
    numbers = np.array([0.2, 0.1])
    result = RowResult(
        **dict.fromkeys(
            ("key", "statement", "setting", "theorem", "network", "limit", "reason", "wrongly", "control_reason"), "?"
        ),
        **{"predicted": 0.5, "rate": 0.5, "interval": (0.4, 0.6), "seconds": 1.0, "outcome": "agrees", "verdict": "converges"},
        **{"control": "caught", "control_verdict": "does not converge", "depths": np.array([16, 32])},
        **dict.fromkeys(("errors", "control_errors", "worst"), numbers),
    )
    board = dl.Scoreboard((result,), True, 0, 0.999, "cpu", dl.__version__)
    board.save(file)
    document = json.loads(Path(file).read_text(encoding="utf-8"))
    for name, value in changes.items():
        place = document["report"] if name in document["report"] else document["report"]["rows"][0]
        if value is None:
            del place[name]
        else:
            place[name] = value
    Path(file).write_text(json.dumps(document), encoding="utf-8")
    return file


def written(name, text):
    Path(name).write_text(text, encoding="utf-8")
    return name


def compared(name):
    go(dl.res1(2, "tanh")).save(name)
    return name


def folder(name):
    Path(name).mkdir()
    return name


NAMES_NO_ROW = r"^only={} names no row; the statements are \[M\] Prop\. 11, .*\[C\] Thm 4\.4, SDE\.$"
ASKED = [
    ("only nonsense", {"only": "nonsense"}, ValueError, NAMES_NO_ROW.format("'nonsense'")),
    ("only one of two known", {"only": ["Thm 4.3", "Thm 4.33"]}, ValueError, NAMES_NO_ROW.format(r"'Thm 4\.33'")),
    ("only nothing", {"only": []}, ValueError, NAMES_NO_ROW.format(r"\[\]")),
    ("only an empty text", {"only": ""}, ValueError, NAMES_NO_ROW.format("''")),
    ("only a blank", {"only": [" "]}, ValueError, NAMES_NO_ROW.format("' '")),
    ("only 3", {"only": 3}, TypeError, r"^only must be a text or several, got 3"),
    ("only [3]", {"only": [3]}, TypeError, r"^only must be a text or several, got \[3\]"),
    ("only bytes", {"only": b"Thm"}, TypeError, r"^only must be a text or several, got b'Thm'"),
    ("only True", {"only": True}, TypeError, r"^only must be a text or several, got True"),
    ("only a set", {"only": {"Thm 4.3"}}, TypeError, r"^only must be a text or several, got \{'Thm 4\.3'\}"),
    ("quick 1", {"quick": 1}, TypeError, r"^quick must be True or False, got 1"),
    ("quick None", {"quick": None}, TypeError, r"^quick must be True or False, got None"),
    ("quick 'yes'", {"quick": "yes"}, TypeError, r"^quick must be True or False, got 'yes'"),
    ("seed -1", {"seed": -1}, ValueError, r"^seed must be at least 0, got -1"),
    ("seed 0.5", {"seed": 0.5}, TypeError, r"^seed must be an integer, got 0\.5 of type float"),
    ("seed None", {"seed": None}, TypeError, r"^seed must be an integer, got None"),
    ("device tpu", {"device": "tpu"}, ValueError, r"^device 'tpu' is not known to torch; use 'cpu' or 'cuda'"),
    ("device 0", {"device": 0}, TypeError, r"^device must be a string such as 'cpu'.*got 0"),
    ("workers 0", {"workers": 0}, ValueError, r"^workers must be at least 1, got 0"),
    ("workers True", {"workers": True}, TypeError, r"^workers must be an integer, got True"),
    ("on_row 3", {"on_row": 3}, TypeError, r"^on_row must be a function of a RowResult, got 3 of type int"),
    ("on_row a string", {"on_row": "print"}, TypeError, r"^on_row must be a function of a RowResult, got 'print'"),
    ("onyl", {"onyl": "Thm 4.3"}, TypeError, r"unexpected keyword argument 'onyl'"),
    ("resume 3", {"resume": 3}, TypeError, r"^resume must be a path, got 3 of type int"),
    ("resume True", {"resume": True}, TypeError, r"^resume must be a path, got True of type bool"),
    ("resume .txt", {"resume": "board.txt"}, ValueError, r"^resume must end in \.json, got 'board\.txt'"),
    ("resume no folder", {"resume": "no/board.json"}, ValueError, r"^resume lies in 'no', which is not a folder; make it first"),
    (
        "resume a folder",
        {"resume": lambda: folder("b.json")},
        ValueError,
        r"^resume names a folder, got 'b\.json'; give a file's name",
    ),
    ("resume a long name", {"resume": "b" * 260 + ".json"}, ValueError, r"^resume has a name of 265 bytes, too long"),
    (
        "resume a CompareReport",
        {"resume": lambda: compared("r.json")},
        ValueError,
        r"^'r\.json' holds a report of kind 'compare', no scoreboard to resume from; give another file",
    ),
    (
        "resume text",
        {"resume": lambda: written("b.json", "agrees")},
        ValueError,
        r"^'b\.json' is not a deeplimit report: it is not JSON",
    ),
    ("resume other JSON", {"resume": lambda: written("b.json", "{}")}, ValueError, r"^'b\.json' is not .*its 'format' is not"),
    (
        "resume nothing",
        {"resume": lambda: written("b.json", "")},
        ValueError,
        r"^'b\.json' is not a deeplimit report: it is not JSON",
    ),
]


@pytest.mark.parametrize(("asked", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in ASKED])
def test_a_scoreboard_that_cannot_be_run_is_refused_before_any_work_and_leaves_files_alone(
    asked, error, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    given = {name: value() if name == "resume" and callable(value) else value for name, value in asked.items()}
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert_refused(lambda: dl.validate(**given), error, message)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


DAMAGED = [
    ("no rows", {"rows": None}, r"the scoreboard lacks rows"),
    ("no seed", {"seed": None}, r"the scoreboard lacks seed"),
    ("no confidence, no version", {"confidence": None, "version": None}, r"the scoreboard lacks confidence, version"),
    ("rows a number", {"rows": 3}, r"its rows must be a list, got 3 of type int"),
    ("rows of numbers", {"rows": [3]}, r"row 1 must have named fields, got 3 of type int"),
    ("quick a text", {"quick": "yes"}, r"quick of the scoreboard must be of type bool, got 'yes' of type str"),
    ("seed a text", {"seed": "0"}, r"seed of the scoreboard must be of type int, got '0' of type str"),
    ("confidence a text", {"confidence": "high"}, r"confidence of the scoreboard must be a number, got 'high' of type str"),
    ("row without rate", {"rate": None}, r"row 1 lacks rate"),
    ("row without key, control", {"key": None, "control": None}, r"row 1 lacks control, key"),
    ("row without errors", {"errors": None}, r"row 1 lacks errors"),
    ("row without depths", {"depths": None}, r"row 1 lacks depths"),
    ("row with more", {"rte": 1}, r"row 1 has unknown fields: rte"),
    ("key a list", {"key": [1]}, r"key of row 1 must be of type str, got \[1\] of type list"),
    ("statement a number", {"statement": 3}, r"statement of row 1 must be of type str, got 3 of type int"),
    ("outcome", {"outcome": "maybe"}, r"outcome of row 1 must be one of agrees, disagrees, cannot tell; got 'maybe'"),
    (
        "verdict",
        {"verdict": "agrees"},
        r"verdict of row 1 must be one of converges, does not converge, cannot tell; got 'agrees'",
    ),
    ("control", {"control": "converges"}, r"control of row 1 must be one of caught, not caught; got 'converges'"),
    ("control_verdict", {"control_verdict": "no"}, r"control_verdict of row 1 must be one of converges, .*got 'no'"),
    ("rate a text", {"rate": "half"}, r"rate of row 1 must be a number, got 'half' of type str"),
    ("interval of three", {"interval": [1, 2, 3]}, r"interval of row 1 must be two numbers, got \[1, 2, 3\] of type list"),
    ("interval a number", {"interval": 0.5}, r"interval of row 1 must be two numbers, got 0\.5 of type float"),
    ("errors too short", {"errors": [0.1]}, r"errors of row 1 must have an entry for each of its depths"),
    ("worst a number", {"worst": 0.1}, r"worst of row 1 must have an entry for each of its depths"),
    ("depths a number", {"depths": 16}, r"depths of row 1 must have an entry for each of its depths"),
    ("errors of texts", {"errors": ["a", "b"]}, r"errors of row 1 must be a number, got 'a' of type str"),
]


@pytest.mark.parametrize(("changes", "message"), [pytest.param(*rest, id=name) for name, *rest in DAMAGED])
def test_a_damaged_scoreboard_is_neither_loaded_nor_resumed_nor_written_over(changes, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    file = Path(stored(**changes))
    before = file.read_bytes()
    assert_refused(lambda: dl.load_report(file), ValueError, rf"^'board\.json' is a damaged validate report: {message}\.$")
    resumed = rf"^'board\.json' is a damaged scoreboard: {message}; delete it to start anew\.$"
    assert_refused(lambda: dl.validate(quick=True, only="Thm 4.3", resume=file), ValueError, resumed)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["board.json"]


def test_the_undamaged_twin_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = dl.load_report(stored())
    assert board.verdict == "agrees"
    board.save("again.json")
    assert dl.load_report("again.json").to_dict() == board.to_dict()


def test_a_scoreboard_without_rows_agrees_with_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dl.load_report(stored(rows=[])).verdict == "cannot tell"


BOARD_FILES = [
    ("save .txt", lambda board: board.save("b.txt"), ValueError, r"^path must end in \.json, got 'b\.txt'"),
    ("save, no folder", lambda board: board.save("no/b.json"), ValueError, r"^path lies in 'no', which is not a folder"),
    ("save 3", lambda board: board.save(3), TypeError, r"^path must be a path, got 3 of type int"),
    ("plot .jpg", lambda board: board.plot("b.jpg"), ValueError, r"^path must end in \.png or .*got 'b\.jpg'"),
    ("plot 3", lambda board: board.plot(3), TypeError, r"^ax must be matplotlib Axes.*got 3 of type int"),
]


@pytest.mark.parametrize(("call", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BOARD_FILES])
def test_a_scoreboard_says_where_it_cannot_be_written(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = dl.load_report(stored())
    assert_refused(lambda: call(board), error, message)
    assert [path.name for path in tmp_path.iterdir()] == ["board.json"]


USAGE = [
    (["--only", "nonsense"], r"^Error: only='nonsense' names no row; the statements are \[M\] Prop\. 11, .*SDE\.$"),
    (["--only", "Thm 4.3", "--only", "nonsense"], r"^Error: only='nonsense' names no row"),
    (["--only", ""], r"^Error: only='' names no row"),
    (["--json", "x.txt"], r"^Error: --json must end in \.json, got 'x\.txt'\.$"),
    (["--json", "no/x.json"], r"^Error: --json lies in 'no', which is not a folder; make it first\.$"),
    (["--json", "folder.json"], r"^Error: --json names a folder, got 'folder\.json'; give a file's name\.$"),
    (["--json", "compare.json"], r"^Error: 'compare\.json' holds a report of kind 'compare', no scoreboard to resume from"),
    (["--json", "text.json"], r"^Error: 'text\.json' is not a deeplimit report: it is not JSON"),
    (
        ["--json", "damaged.json"],
        r"^Error: 'damaged\.json' is a damaged scoreboard: row 1 lacks rate; delete it to start anew\.$",
    ),
    (["--plot", "x.gif"], r"^Error: --plot must end in \.png or \.pdf or \.svg, got 'x\.gif'\.$"),
    (["--plot", "no/x.png"], r"^Error: --plot lies in 'no', which is not a folder; make it first\.$"),
    (["--seed", "-1"], r"^Error: seed must be at least 0, got -1\.$"),
    (["--device", "tpu"], r"^Error: device 'tpu' is not known to torch; use 'cpu' or 'cuda'\.$"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_the_command_exits_with_2_and_one_line_before_any_work(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder("folder.json")
    compared("compare.json")
    written("text.json", "agrees")
    stored("damaged.json", rate=None)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    result = CliRunner().invoke(cli.app, ["validate", "--quick", *arguments])
    assert result.exit_code == 2, f"exit code {result.exit_code}, {result.exception!r}\n{result.output}"
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert re.search(message, line), line
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_an_option_that_does_not_exist_is_bad_usage_too():
    result = CliRunner().invoke(cli.app, ["validate", "--onyl", "Thm 4.3"])
    assert result.exit_code == 2
    assert "--onyl" in result.stderr
    assert "Traceback" not in result.stderr


WEIGHTS_OF_THE_COMMAND = [
    (["--noise", "-1"], r"^Error: Ito's A is a variance a unit of time and must not be negative, got -1\.$"),
    (["--noise", "nan"], r"^Error: Ito's A must be finite, got nan\.$"),
    (["--bias-noise", "inf"], r"^Error: Ito's b must be finite, got inf\.$"),
    (["--noise", "0.1", "--alpha", "-1"], r"^Error: alpha must be at least 0, got -1\. Cohen et al\."),
    (["--noise", "0.1", "--beta", "nan"], r"^Error: beta must be finite, got nan\. Cohen et al\."),
    (["--alpha", "0.5"], r"^Error: alpha is the exponent of weights given by trend= or noise="),
    (["--noise", "0.1", "--activation", "relu"], r"^Error: cannot pair inner \(σ = relu, .*Assumption 4\.2 .*Closest: "),
    (
        ["--trend", "torch:nn"],
        r"^Error: trend must be a function of time, such as Trend\(A, b\); got <module 'torch\.nn'|an object",
    ),
    (["--trend", "deeplimit:Trend"], r"^Error: trend must be .*got the class Trend, not an object"),
]


@pytest.mark.parametrize(("arguments", "message"), WEIGHTS_OF_THE_COMMAND, ids=[" ".join(a) for a, _ in WEIGHTS_OF_THE_COMMAND])
def test_bad_weights_on_the_command_line_are_one_line_too(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["compare", "--network", "inner", "--width", "2", "--quiet", *arguments])
    assert result.exit_code == 2, f"exit code {result.exit_code}, {result.exception!r}\n{result.output}"
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert re.search(message, line), line
