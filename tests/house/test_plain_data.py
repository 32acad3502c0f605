"""Plain data cannot be changed: results are shared, kept in caches and compared, so that they stay equal."""

import dataclasses
import importlib
import pkgutil
from pathlib import Path

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
