"""What is no number, no array of numbers and no function that returns them is refused wherever weights take
one.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import EYE, INF, NAN, NOISE, RANDOM, STATES, TREND, WIDE, assert_refused, auxiliary, net, row

import deeplimit as dl

# What is no number and no array of numbers, and what a message must say of it.
NO_NUMBERS = [
    ("a string", "0.05", "'0.05'"),
    ("bool", True, "True"),
    ("complex", 1j, "1j"),
    ("dict", {}, "{}"),
    ("Brownian", dl.Brownian(), "Brownian()"),
    ("list of strings", ["a", "b"], "<U1"),
    ("list of bools", [True, False], "bool"),
    ("ragged list", [[1.0, 2.0], [3.0]], "rows of equal length"),
    ("bool array", np.eye(2) > 0, "bool"),
    ("sparse tensor", EYE.to_sparse(), "torch.sparse_coo"),
    ("meta tensor", torch.eye(2, device="meta"), "(2, 2) on the device meta"),
]
NOT_FINITE = [
    ("NaN", NAN, "nan"),
    ("inf", INF, "inf"),
    ("too large for a float", 10**400, "inf"),
    ("a tensor with NaN", torch.tensor([[NAN, 1.0], [1.0, 1.0]]), "NaN"),
    ("a list with inf", [[1.0, INF], [1.0, 1.0]], "NaN"),
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
    row(f"{name} [{index}]: {what}", lambda c=call, v=value: c(v), error, name, said)
    for index, (name, call) in enumerate(NUMERIC)
    for kinds, error in ((NO_NUMBERS, TypeError), (NOT_FINITE, ValueError))
    for what, value, said in kinds
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
    ("a string", "1/2", TypeError, "'1/2'"),
    ("bool", True, TypeError, "True"),
    ("complex", 1j, TypeError, "1j"),
    ("a tensor", torch.ones(2), TypeError, "Tensor of shape (2,)"),
    ("a class", dl.Trend, TypeError, "the class Trend"),
    ("a function", max, TypeError, "<built-in function max>"),
    ("NaN", NAN, ValueError, "nan"),
    ("inf", INF, ValueError, "inf"),
    ("-inf", -INF, ValueError, "-inf"),
    ("too large for a float", 10**400, ValueError, "inf"),
]
SCALAR_ROWS = [
    row(f"{name} [{index}]: {what}", lambda c=call, v=value: c(v), error, name, said)
    for index, (name, call) in enumerate(SCALARS)
    for what, value, error, said in NO_SCALAR
]

# What a function of time may not be, and may not return.
FUNCTIONS = [
    ("A", lambda value: dl.Trend(value)),
    ("b", lambda value: dl.Trend(TREND.A, value)),
    ("the auxiliary drift", lambda value: auxiliary(drift=value)),
    ("the auxiliary diffusion", lambda value: auxiliary(diffusion=value)),
]
NO_FUNCTION = [
    ("a string", "sin", "'sin'"),
    ("a tensor", EYE, "Tensor of shape (2, 2)"),
    ("a class", torch.nn.Linear, "the class Linear"),
]
FUNCTION_ROWS = [
    row(f"{name} is {what}", lambda c=call, v=value: c(v), TypeError, name, "function", said)
    for name, call in FUNCTIONS
    for what, value, said in NO_FUNCTION
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
    ("None", None, "None"),
    ("a number", 2.0, "2.0"),
    ("a list", [[1.0]], "[[1.0]]"),
    ("an array", np.eye(2), "ndarray of shape (2, 2)"),
    ("a class", torch.Tensor, "the class Tensor"),
    ("sparse", EYE.to_sparse(), "torch.sparse_coo"),
    ("meta", torch.eye(2, device="meta"), "meta"),
    ("complex", 1j * EYE, "torch.complex64"),
    ("bool", EYE > 0, "torch.bool"),
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

    for what, value, said in NO_TENSOR:
        yield f"is {what}", constant(value), TypeError, (said,)
    for wrong in (torch.zeros(()), torch.zeros(1, 2), WIDE, torch.zeros(3, 3, 2, 2), torch.zeros(0)):
        given = tuple(wrong.shape)
        yield f"of shape {given}", constant(wrong), ValueError, (str(shape), str(given))
    for value in (NAN, INF):
        broken = torch.full(shape, value)
        yield f"is {value}", constant(broken), ValueError, ("NaN",)
        yield f"is {value} at 1/2", at_half(broken), ValueError, ("0.5", "NaN")
    yield "another shape at 1/2", at_half(torch.zeros(7)), ValueError, ("0.5", "(7,)")
    yield "of no argument", lambda: EYE, TypeError, (arguments, "t = 0", "0 positional arguments")
    yield "of 3 arguments", lambda t, v, x: EYE, TypeError, ("function", "t = 0", "missing")
    for error in (
        ZeroDivisionError("division by zero"),
        KeyError("t"),
        RuntimeError("no such thing."),
        AttributeError("x"),
    ):
        yield f"raises {type(error).__name__}", failing(error), ValueError, ("t = 0", type(error).__name__)


RETURNED_ROWS = [
    row(f"{name} [{index}]: {what}", lambda c=call, f=function: c(f), error, name, *said)
    for index, (name, shape, arguments, call) in enumerate(TENSOR_FUNCTIONS)
    for what, function, error, said in returned(name, shape, arguments, call)
]


TABLE = [*NUMERIC_ROWS, *SCALAR_ROWS, *FUNCTION_ROWS, *RETURNED_ROWS]


@pytest.mark.parametrize(("call", "error", "pins"), TABLE)
def test_bad_numbers_and_functions_are_refused_in_words(call, error, pins):
    assert_refused(call, error, *pins)
