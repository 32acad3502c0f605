"""What the reference reads of the code: functions, values of defaults, and one entry per attribute.

A signature shows the value of `DEFAULT.depths`, say. Where a docstring says of two attributes together what
they are ("errors, standard_errors: ..."), each has an entry of its own on its page. A function in a
module of its name (`identify` in `identify.py`) is shown alone, without the module's constants.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

LONGEST = 40
"""Characters of a value that is shown; longer ones keep their name, and the docstring says what they are."""


TOGETHER = re.compile(r"^(    )(\w+)((?:, \w+)+): (?=\S)(.*(?:\n {8}.*)*)", re.MULTILINE)
"""An entry that is about several names."""


def apart(docstring: str) -> str:
    """Return a docstring whose entries have one name each: the first has the text, the others name it."""

    def entries(found: re.Match[str]) -> str:
        indent, first, others, text = found.groups()
        more = [f"{indent}{name}: see {first}." for name in others.removeprefix(", ").split(", ")]
        return "\n".join([f"{indent}{first}: {text}", *more])

    return TOGETHER.sub(entries, docstring)


def _target(alias: griffe.Alias) -> griffe.Object | None:
    """Return what an alias stands for; None where it is in another package."""
    try:
        return alias.final_target
    except griffe.AliasResolutionError:
        return None


class Values(griffe.Extension):
    """Puts the value of a default in the place of its name, where it is a constant."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Have public names of functions lead to these, where a module of the same name holds them."""
        inside = (each for each in pkg.members.values() if not each.is_alias and each.is_module)
        for place in (pkg, *(each for each in inside if not each.name.startswith("_"))):
            held = importlib.import_module(place.path)
            for name in getattr(held, "__all__", ()):
                found = place.members.get(name)
                if not isinstance(found, griffe.Alias) or inspect.ismodule(getattr(held, name)):
                    continue
                target = _target(found)
                if target is not None and target.is_module and name in target.members:
                    place.set_member(name, griffe.Alias(name, target.members[name], parent=place))

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Set entries of several names apart."""
        if obj.docstring is not None:
            obj.docstring.value = apart(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace defaults of one function that begin with a constant's name."""
        named = [each for each in func.parameters if str(each.default or "").partition(".")[0].isupper()]
        if not named or func.parent is None or not func.parent.is_module:
            return
        values = inspect.signature(getattr(importlib.import_module(func.module.path), func.name)).parameters
        for each in named:
            if len(value := repr(values[each.name].default)) <= LONGEST:
                each.default = value
