"""Whatever is passed to a public function ends in a right result, or in an error that names the argument.

`bad_subjects` lists the functions with arguments that are right, `bad_values` what is passed instead of one
of them. All pairs run with `make nightly`; one in five hundred is part of `make test`.
"""

from __future__ import annotations

import inspect
import random

import pytest
from bad_subjects import SUBJECTS, filled
from bad_values import VALUES

import deeplimit as dl

ORDINARY = 500
BY_NAME = {each.name: each for each in SUBJECTS}
PAIRS = [(each.name, argument, value) for each in SUBJECTS for argument in each.arguments for value in VALUES]
CHOSEN = random.Random(0).sample(PAIRS, len(PAIRS) // ORDINARY)


def ends_badly(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = [
        f"{name}({argument}={value}): {wrong}"
        for name, argument, value in pairs
        if (wrong := BY_NAME[name].bad(argument, value)) is not None
    ]
    return "\n".join(found)


def test_every_public_function_has_its_line_in_the_table():
    functions = {name for name in dl.__all__ if inspect.isfunction(getattr(dl, name))}
    assert functions - {each.name for each in SUBJECTS} == {"measure"}  # its own table: test_measurement


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("one_thread")
def test_a_bad_value_ends_in_a_right_result_or_in_an_error_that_names_it(tmp_path, monkeypatch):
    assert ends_badly(CHOSEN, tmp_path, monkeypatch) == ""


@pytest.mark.nightly
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("one_thread")
def test_every_bad_value_ends_in_a_right_result_or_in_an_error_that_names_it(name, tmp_path, monkeypatch):
    pairs = [pair for pair in PAIRS if pair[0] == name]
    assert ends_badly(pairs, tmp_path, monkeypatch) == ""


def test_a_function_that_checks_nothing_is_found_out():
    careless = filled("careless", lambda seed: [0, 1][seed], seed=0)
    assert "IndexError" in careless.bad("seed", "3")
    assert "does not name seed" in careless.bad("seed", "word") or "came from" in careless.bad("seed", "word")
    assert filled("accepting", lambda seed: None, seed=0).bad("seed", "object") == "was accepted"
