"""Which cases of a parametrised test the fast tier runs, and which wait for the nightly tier.

`thinned.toml` names functions whose cases take more seconds together than the fast tier can give one
question. The first case, the last and those that lie evenly between stay in the fast tier. A choice by `::`
runs whatever is chosen, as long as it is no more cases than that. A plugin of pytest, loaded by
`conftest.py`.
"""

import tomllib
from pathlib import Path

import pytest

CASES = tomllib.loads(Path(__file__).with_name("thinned.toml").read_text())


def function_of(item):
    """Return a test's file and function, as `thinned.toml` names them: room/file::function."""
    path, _, rest = item.nodeid.partition("::")
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
            by_function.setdefault(function_of(item), []).append(item)
    for function, most in CASES.items():
        cases = by_function.get(function, ())
        stay = kept(len(cases), most)
        for place, item in enumerate(cases):
            if place not in stay:
                item.add_marker("nightly")
