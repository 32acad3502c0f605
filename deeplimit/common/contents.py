"""Arrays of numbers and texts as bytes, without pickle: how a store keeps the result of a block."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Final

import numpy as np

DAMAGED: Final = (zipfile.BadZipFile, KeyError, EOFError, ValueError)
"""What `unpacked` raises for bytes that `packed` did not give."""


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays as bytes, in numpy's own format."""
    if unfit := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"{unfit[0]} must be an array of numbers or texts, not of Python's objects.")
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]  # an argument of newer versions of numpy
    return content.getvalue()


def unpacked(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays that `packed` gave these bytes for."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
