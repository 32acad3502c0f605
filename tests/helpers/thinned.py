"""Which cases of a parametrised test the fast tier runs, and which wait for the nightly tier.

`thinned.toml` names functions whose cases take more seconds together than the fast tier can give one
question. The first case, the last and those that lie evenly between stay in the fast tier. A choice by `::`
runs whatever is chosen, as long as it is no more cases than that. A plugin of pytest, loaded by
`conftest.py`.

`python tests/helpers/thinned.py out/test-times` writes the file after `make test-times`.
"""

import collections
import json
import sys
import tomllib
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("thinned.toml")
TABLES = tomllib.loads(FILE.read_text(encoding="utf-8"))
CASES = {**TABLES["measured"], **TABLES["by_hand"]}
BUDGET = 0.8
"""CPU seconds of all cases of a function together: 2,000 functions on two cores, most of which take a tenth,
are then some seven minutes."""
LEAST = 2
"""A right case and a wrong one, or two ends, stay however long they take."""


def function_of(name):
    """Return file and function of a test's name, as `thinned.toml` has them: room/file::function."""
    path, _, rest = name.partition("::")
    return f"{Path(path).parent.name}/{Path(path).stem}::{rest.partition('[')[0]}"


def kept(count, most):
    """Return which of `count` cases are run where there is time for `most`."""
    if count <= most:
        return {*range(count)}
    return {round(place * (count - 1) / max(most - 1, 1)) for place in range(most)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases that are left out of the fast tier `nightly`."""
    by_function = {}
    for item in items:
        if not item.get_closest_marker("nightly"):
            by_function.setdefault(function_of(item.nodeid), []).append(item)
    for function, most in CASES.items():
        cases = by_function.get(function, ())
        stay = kept(len(cases), most)
        for place, item in enumerate(cases):
            if place not in stay:
                item.add_marker("nightly")


def is_parametrised(function):
    """Return whether a function has cases of its own, and not those of a fixture."""
    path, _, name = function.partition("::")
    text = (FILE.parent.parent / f"{path}.py").read_text(encoding="utf-8")
    before, found, _ = text.partition(f"\ndef {name}(")
    return bool(found) and "parametrize" in before.rpartition("\n\n\n")[2]


def chosen(folder):
    """Return cases per function for measured seconds; no more than the file has for those it names."""
    seconds = collections.defaultdict(list)
    for file in Path(folder).glob("*.jsonl"):
        for kind, name, took in map(json.loads, file.read_text().splitlines()):
            if kind == "test":
                seconds[function_of(name)].append(took)
    cases = {function: most for function, most in TABLES["measured"].items() if is_parametrised(function)}
    for function, each in seconds.items():
        most = max(LEAST, int(BUDGET * len(each) / max(sum(each), 1e-9)))
        if function not in TABLES["by_hand"] and len(each) > most and is_parametrised(function):
            cases[function] = min(most, cases.get(function, most))
    return dict(sorted(cases.items()))


def main(folder):
    """Replace the table of measured functions in `thinned.toml`."""
    head = FILE.read_text(encoding="utf-8").partition("[measured]\n")
    lines = [f'"{name}" = {most}\n' for name, most in chosen(folder).items()]
    FILE.write_text("".join([*head[:2], *lines]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
