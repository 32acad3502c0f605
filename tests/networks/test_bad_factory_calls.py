"""Widths, exponents, weight laws and keywords that a network cannot take are refused by name."""

from __future__ import annotations

import math

import pytest
from refusals import assert_refused, row

import deeplimit as dl

NAN = math.nan
BROWNIAN = dl.Brownian()


def tanh(width=2, **knobs):
    return dl.res1(width, "tanh", **knobs)


CALLS = [
    ("width 0", lambda: dl.res1(0), ValueError, "width", "0"),
    ("width 2.5", lambda: dl.res2(2.5), TypeError, "width", "2.5"),
    ("width '40'", lambda: dl.inner("40"), TypeError, "width", "'40'"),
    ("exponent -1", lambda: tanh(exponent=-1), ValueError, "exponent", "-1"),
    ("exponent NaN", lambda: tanh(exponent=NAN), ValueError, "exponent", "nan"),
    ("exponent '1/2'", lambda: dl.res3(2, exponent="1/2"), TypeError, "exponent", "'1/2'"),
    ("weights 3", lambda: tanh(weights=3), TypeError, "weights", "3"),
    ("weights, a name", lambda: tanh(weights="iid"), TypeError, "weights", "'iid'"),
    ("weights, a class", lambda: tanh(weights=dl.Brownian), TypeError, "weights", "Brownian"),
    ("weights, too many", lambda: dl.res2(2, weights=(BROWNIAN,) * 3), ValueError, "weights", "res2", "3"),
    ("weights, too few", lambda: dl.res3(2, weights=(BROWNIAN,)), ValueError, "weights", "res3", "1"),
    ("activaton=", lambda: dl.res1(2, activaton="tanh"), TypeError, "res1()", "'activaton'"),
    ("activation=", lambda: dl.res3(2, activation="tanh"), TypeError, "res3()", "'activation'"),
]


@pytest.mark.parametrize(("call", "error", "pins"), [row(*one) for one in CALLS])
def test_a_bad_argument_of_a_network_is_refused_and_named(call, error, pins):
    assert_refused(call, error, *pins)


def test_an_unknown_public_name_is_answered_with_the_names_there_are():
    with pytest.raises(AttributeError, match=r"'res7'.*res1, res2, res3"):
        dl.res7  # noqa: B018
