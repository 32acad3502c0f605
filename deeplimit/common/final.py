"""Abstract classes are open, concrete ones final: what theorems know of a class stays true."""

from __future__ import annotations

from typing import Any


class FinalWhereMarked:
    """A base whose concrete classes, marked with `typing.final`, cannot be subclassed at run time either."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if vars(base).get("__final__", False):
                parent = next(other for other in base.__mro__[1:] if not vars(other).get("__final__", False))
                raise TypeError(
                    f"{cls.__name__} cannot be a subclass of {base.__name__}, which is final: theory and"
                    f" compiled code rely on what it does. Subclass {parent.__name__}, and hold a"
                    f" {base.__name__} in a field if you need one."
                )
