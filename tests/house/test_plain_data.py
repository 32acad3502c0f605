"""Plain data cannot be changed, since results are shared and kept; defaults of public functions stay."""

import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import kept_numbers
import rooms

import deeplimit as dl

CHANGED_AS_THEY_GO = {
    "adaptive_sampling._Sequence",
    "branch_parts._Tail",
    "cached_blocks.CachedBlocks",
    "checkpoint.Progress",
    "one_signal.Watch",
    "recording.Trace",
    "replay.States",
    "roles.Role",
    "scaled_state.Signal",
    "store.Journal",
    "work_precision._Tally",
}
"""What is filled while something runs."""


def test_plain_data_is_frozen_but_for_what_is_filled_while_something_runs():
    found = set()
    names = (each.name for each in pkgutil.walk_packages([str(Path(dl.__file__).parent)], "deeplimit."))
    for name in {*names} - {*rooms.OTHER_TRAINERS, "deeplimit.__main__"}:
        module = importlib.import_module(name)
        found |= {
            f"{name.rpartition('.')[2]}.{each.__name__}"
            for each in vars(module).values()
            if isinstance(each, type) and each.__module__ == name and dataclasses.is_dataclass(each)
            if "__dataclass_params__" in vars(each) and not each.__dataclass_params__.frozen
        }
    assert found == CHANGED_AS_THEY_GO


def plain_default(value):
    """Return a default as it is kept; of an object, the name of its class."""
    try:
        return kept_numbers.plain(value)
    except AssertionError:
        return type(value).__name__


def test_defaults_of_public_functions_and_classes_stay():
    found = {}
    for name in dl.__all__:
        public = getattr(dl, name)
        methods = vars(public).items() if isinstance(public, type) else [("", public)]
        for method, function in methods:
            if inspect.isfunction(function) and (not method.startswith("_") or method == "__init__"):
                every = inspect.signature(function).parameters.values()
                given = {
                    each.name: plain_default(each.default) for each in every if each.default is not each.empty
                }
                if given:
                    found[f"{name}.{method}".rstrip(".")] = given
    kept_numbers.check("defaults", "public", found)
