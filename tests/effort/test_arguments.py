"""What an adaptive call takes and refuses, in every verb alike, and what its report says of the looks."""

import re

import pytest
from refusals import assert_refused

import deeplimit as dl
from deeplimit.effort.looks import Look, Need, facts

VERBS = {
    "compare": ("paths", lambda **how: dl.compare(dl.res1(2, "tanh"), **how)),
    "stability": ("draws", lambda **how: dl.stability(dl.res3(2), **how)),
    "compare_laws": ("draws", lambda **how: dl.compare_laws(dl.res3(2), **how)),
}
REFUSED = [
    ({"depths": (2, 4, 8), "budget": 5}, ValueError, "budget", "5"),
    ({"depths": "auto", "budget": 0}, ValueError, "budget", "0"),
    ({"depths": "auto", "budget": -1.5}, ValueError, "budget", "-1.5"),
    ({"depths": "auto", "budget": float("inf")}, ValueError, "budget", "inf"),
    ({"depths": "auto", "budget": "30"}, TypeError, "budget", "'30'"),
    ({"depths": "deep"}, TypeError, "depths", "'deep'"),
    ({"COUNT": "many"}, TypeError, "COUNT", "'many'"),
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("how", "kind", "argument", "value"), REFUSED)
def test_every_verb_refuses_a_bad_effort_alike(verb, how, kind, argument, value):
    count, call = VERBS[verb]
    named = {name.replace("COUNT", count): given for name, given in how.items()}
    assert_refused(lambda: call(**named), kind, argument.replace("COUNT", count), value)


def test_looks_and_needs_are_told_in_a_line_each():
    look = Look((8, 16), 50, "cannot tell", "may_level_off", (0.0, 1.0), 0.975, 0.1)
    found = dict(facts((look, look), Need((8, 16, 32), 200, 130.0), "draws"))
    assert found["looks"].startswith("2 of at most 6")
    assert re.search(r"8 to 16 × 50: cannot tell; ", found["looks"])
    assert found["needed"] == "depths up to 32 with 200 draws may decide, about 2 min"
    assert facts((), None, "paths") == []
    assert Need((8, 16), 200, 0.0).told("paths").endswith("about 1 s")
