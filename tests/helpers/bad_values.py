"""Values that somebody passes by mistake, or to see what happens: one table for every public argument."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Unhelpful:
    """An object whose own methods fail: it can be neither shown, compared, counted nor iterated."""

    def __repr__(self):
        raise RuntimeError("no words")

    __str__ = __repr__

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = None

    def __len__(self):
        raise RuntimeError("no length")

    def __iter__(self):
        raise RuntimeError("no entries")

    def __float__(self):
        raise RuntimeError("no number")

    def __bool__(self):
        raise RuntimeError("no truth")


def raising(*_, **__):
    raise OSError("the function itself failed")


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "3": lambda: 3,
    "0.5": lambda: 0.5,
    "-0.5": lambda: -0.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1e300": lambda: 1e300,
    "1e-300": lambda: 1e-300,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "2**63": lambda: 2**63,
    "1j": lambda: 1j,
    "Fraction": lambda: Fraction(1, 3),
    "Decimal": lambda: Decimal("0.5"),
    "Decimal nan": lambda: Decimal("nan"),
    "np.int64": lambda: np.int64(3),
    "np.float32 nan": lambda: np.float32("nan"),
    "np.array": lambda: np.ones(2),
    "np.array 0-d": lambda: np.array(2),
    "np objects": lambda: np.array([object()]),
    "word": lambda: "nonsense",
    "empty word": lambda: "",
    "null": lambda: "a\0b",
    "escape": lambda: "\x1b[31mred",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"tanh",
    "path": lambda: Path("no/such/folder/file.json"),
    "folder": lambda: Path("."),
    "()": lambda: (),
    "[]": lambda: [],
    "[1]": lambda: [1],
    "[nan]": lambda: [math.nan],
    "[None]": lambda: [None],
    "[[1, 2], [3]]": lambda: [[1, 2], [3]],
    "{}": lambda: {},
    "{1: 2}": lambda: {1: 2},
    "{4: stacks}": lambda: {4: {"A": None}},
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "reversed": lambda: [8, 4, 2],
    "generator": lambda: (number for number in (2, 4, 8)),
    "class": lambda: dict,
    "object": object,
    "unhelpful": Unhelpful,
    "module": lambda: math,
    "lock": threading.Lock,
    "lambda": lambda: lambda: 0,
    "lambda *": lambda: lambda *_, **__: None,
    "raising": lambda: raising,
    "identity": lambda: lambda value, *_: value,
    "tensor": lambda: torch.ones(2, 2),
    "tensor 0-d": lambda: torch.tensor(2.0),
    "tensor empty": lambda: torch.ones(0, 2),
    "tensor nan": lambda: torch.full((2, 2), math.nan),
    "tensor inf": lambda: torch.full((2, 2), math.inf),
    "tensor complex": lambda: torch.ones(2, 2, dtype=torch.complex64),
    "tensor bool": lambda: torch.ones(2, 2, dtype=torch.bool),
    "tensor int": lambda: torch.ones(2, 2, dtype=torch.int64),
    "tensor half": lambda: torch.ones(2, 2, dtype=torch.float16),
    "tensor meta": lambda: torch.empty(2, 2, device="meta"),
    "tensor sparse": lambda: torch.eye(2).to_sparse(),
    "tensor nested": nested,
    "tensor wide": lambda: torch.ones(2, 7),
    "tensor 5-d": lambda: torch.ones(1, 1, 1, 1, 1),
    "list of tensors": lambda: [torch.ones(2), torch.ones(3)],
    "module of torch": lambda: torch.nn.Linear(2, 2),
    "empty module": lambda: torch.nn.Sequential(),
    "dtype": lambda: torch.float16,
}
"""What stands for each name: a function, since some values are used up or changed by a call."""

NEVER = {"object", "unhelpful", "lock", "np objects", "module"}
"""Values that are right for no argument, but for those that take anything."""
