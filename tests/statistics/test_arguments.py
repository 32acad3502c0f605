"""What an adaptive call takes and refuses, in every verb alike."""

import pytest
from refusals import assert_refused

import deeplimit as dl

FUNCTIONS = {
    "compare": ("paths", lambda **how: dl.compare(dl.res1(2, "tanh"), **how)),
    "stability": ("draws", lambda **how: dl.stability(dl.res3(2), **how)),
    "compare_laws": ("draws", lambda **how: dl.compare_laws(dl.res3(2), **how)),
}
REFUSED = [
    ({"depths": (2, 4, 8), "COUNT": 400, "budget": 5}, ValueError, "budget", "5"),
    ({"depths": "auto", "budget": 0}, ValueError, "budget", "0"),
    ({"depths": "auto", "budget": -1.5}, ValueError, "budget", "-1.5"),
    ({"depths": "auto", "budget": float("inf")}, ValueError, "budget", "inf"),
    ({"depths": "auto", "budget": "30"}, TypeError, "budget", "'30'"),
    ({"depths": "deep"}, TypeError, "depths", "'deep'"),
    ({"COUNT": "many"}, TypeError, "COUNT", "'many'"),
]


@pytest.mark.parametrize("verb", FUNCTIONS)
@pytest.mark.parametrize(("how", "kind", "argument", "value"), REFUSED)
def test_every_function_refuses_a_bad_effort_alike(verb, how, kind, argument, value):
    count, call = FUNCTIONS[verb]
    named = {name.replace("COUNT", count): given for name, given in how.items()}
    assert_refused(lambda: call(**named), kind, argument.replace("COUNT", count), value)
