"""What is no number, no array of numbers and no function that returns them is refused wherever weights take
one.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from refusals import EYE, INF, NAN, NOISE, RANDOM, STATES, TREND, WIDE, assert_refused, auxiliary, net, row

import deeplimit as dl

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
    (
        "meta tensor",
        torch.eye(2, device="meta"),
        r"must hold data, got a tensor of shape \(2, 2\) on the device meta",
    ),
]
NOT_FINITE = [
    ("NaN", NAN, r"must be finite, got nan"),
    ("inf", INF, r"must be finite, got inf"),
    ("-inf", -INF, r"must be finite, got -inf"),
    ("too large for a float", 10**400, r"must be finite, got inf"),
    (
        "a tensor with NaN",
        torch.tensor([[NAN, 1.0], [1.0, 1.0]]),
        r"must be finite, but holds NaN or infinity",
    ),
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
    row(
        f"{name} [{index}]: {what}",
        lambda c=call, v=value: c(v),
        error,
        rf"^{re.escape(name)}( |\b).*{message}",
    )
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
    row(
        f"{name} is {what}",
        lambda c=call, v=value: c(v),
        TypeError,
        f"^{name} must be a function of .*{message}",
    )
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
        return (
            (lambda t: value if t == 0.5 else good)
            if arguments == "t"
            else (lambda t, v: value if t == 0.5 else good)
        )

    def failing(error):
        def fail(*given):
            raise error

        return fail

    for what, value, message in NO_TENSOR:
        yield f"is {what}", constant(value), TypeError, message
    for wrong in (torch.zeros(()), torch.zeros(1, 2), WIDE, torch.zeros(3, 3, 2, 2), torch.zeros(0)):
        text = re.escape(str(tuple(wrong.shape)))
        yield (
            f"of shape {tuple(wrong.shape)}",
            constant(wrong),
            ValueError,
            rf"must have shape .*{re.escape(str(shape))}.*{text}",
        )
    for value in (NAN, INF):
        broken = torch.full(shape, value)
        yield f"is {value}", constant(broken), ValueError, r"must be finite, but holds NaN or infinity"
        yield (
            f"is {value} at 1/2",
            at_half(broken),
            ValueError,
            r"0\.5\)? must be finite, but holds NaN or infinity",
        )
    yield "another shape at 1/2", at_half(torch.zeros(7)), ValueError, r"0\.5\)? must have shape .*\(7,\)"
    yield (
        "of no argument",
        lambda: EYE,
        TypeError,
        rf"must be a function of .*{arguments}.*at t = 0 it raised: .*0 positional arg",
    )
    yield (
        "of 3 arguments",
        lambda t, v, x: EYE,
        TypeError,
        r"must be a function of .*at t = 0 it raised: .*missing [12] ",
    )
    for error in (
        ZeroDivisionError("division by zero"),
        KeyError("t"),
        RuntimeError("no such thing."),
        AttributeError("x"),
    ):
        words = (
            rf"must be defined at all times in \[0, 1\]; at t = 0 it raised {type(error).__name__}: [^.]*\.$"
        )
        yield f"raises {type(error).__name__}", failing(error), ValueError, words


RETURNED_ROWS = [
    row(f"{name} [{index}]: {what}", lambda c=call, f=function: c(f), error, f"^{name}.*{message}")
    for index, (name, shape, arguments, call) in enumerate(TENSOR_FUNCTIONS)
    for what, function, error, message in returned(name, shape, arguments, call)
]


TABLE = [
    *NUMERIC_ROWS,
    *SCALAR_ROWS,
    *FUNCTION_ROWS,
    *RETURNED_ROWS,
]


@pytest.mark.parametrize(("call", "error", "message"), TABLE)
def test_bad_numbers_and_functions_are_refused_in_words(call, error, message):
    assert_refused(call, error, message)
