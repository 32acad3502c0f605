"""Signatures of the reference show the values of defaults that the code names, such as `DEFAULT.depths`."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe

LONGEST = 40
"""Characters of a value that is shown; longer ones keep their name, and the docstring says what they are."""


class Values(griffe.Extension):
    """Puts the value of a default in the place of its name, where it is a constant."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace defaults of one function that begin with a constant's name."""
        named = [each for each in func.parameters if str(each.default or "").partition(".")[0].isupper()]
        if not named or func.parent is None or not func.parent.is_module:
            return
        values = inspect.signature(getattr(importlib.import_module(func.module.path), func.name)).parameters
        for each in named:
            if len(value := repr(values[each.name].default)) <= LONGEST:
                each.default = value
