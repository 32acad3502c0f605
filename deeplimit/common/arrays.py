"""Arrays for passes written by hand: numpy's on a CPU, torch's elsewhere, by the same calls.

On small arrays a call of numpy costs a third of one of torch, and multiplies the matrices of a batch one by
one. So a network gets the same numbers, to the last bit, alone and in a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np
import torch

Array = Any
"""A numpy array on a CPU, a tensor elsewhere."""


@final
@dataclass(frozen=True)
class ArrayLibrary:
    """numpy for a CPU, torch for another device, as far as both agree; `xp` has the functions.

    Only functions that both call by one name are used: matmul, add, subtract, multiply, divide, sqrt, square,
    abs, sign, all with `out=`.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32

    @property
    def on_cpu(self) -> bool:
        """Whether arrays are numpy's."""
        return self.device.type == "cpu"

    @property
    def xp(self) -> Any:
        """The module that holds the functions."""
        return np if self.on_cpu else torch

    def empty(self, *shape: int) -> Array:
        """Return an array of this shape; its numbers are arbitrary."""
        made = torch.empty(shape, dtype=self.dtype, device=self.device)
        return made.numpy() if self.on_cpu else made

    def zeros(self, *shape: int) -> Array:
        """Return an array of zeros."""
        made = torch.zeros(shape, dtype=self.dtype, device=self.device)
        return made.numpy() if self.on_cpu else made

    def array(self, tensor: torch.Tensor) -> Array:
        """Return a tensor's numbers in this library's precision; memory is shared where that is possible."""
        moved = tensor.detach().to(self.device, self.dtype)
        return moved.numpy() if self.on_cpu else moved

    def tensor(self, array: Array) -> torch.Tensor:
        """Return an array as a tensor that shares its memory, unless that may not be written to."""
        if not self.on_cpu:
            return cast(torch.Tensor, array)
        return torch.from_numpy(array if array.flags.writeable else array.copy())

    def copy(self, array: Array) -> Array:
        """Return an array's numbers in memory of its own."""
        return array.copy() if self.on_cpu else array.clone()

    def concatenated(self, arrays: list[Array]) -> Array:
        """Return arrays one after the other along their first axis."""
        return np.concatenate(arrays) if self.on_cpu else torch.cat(arrays)

    def repeated(self, array: Array, count: int) -> Array:
        """Return an array (n, ...) as (count, n, ...), without copying it."""
        shape = (count, *array.shape)
        return np.broadcast_to(array, shape) if self.on_cpu else array.expand(shape)

    def to_numpy(self, array: Array) -> np.ndarray:
        """Return an array's numbers in numpy, in memory of its own."""
        found: np.ndarray = array.copy() if self.on_cpu else array.cpu().numpy()
        return found


@final
class Buffers:
    """Arrays that are used again and again; those of one name share their memory, whatever their shapes.

    Networks end at different epochs and a last batch is smaller, so a buffer is asked for in many shapes.
    """

    def __init__(self, library: ArrayLibrary) -> None:
        self.library = library
        self.memory: dict[str, Array] = {}
        self.held: dict[str, dict[tuple[int, ...], tuple[Array, list[Array]]]] = {}

    def layers(self, name: str, *shape: int) -> tuple[Array, list[Array]]:
        """Return an array of this shape, and the list of its entries along the first axis."""
        held = self.held.setdefault(name, {})
        if shape not in held:
            count = math.prod(shape)
            if name not in self.memory or len(self.memory[name]) < count:
                self.memory[name] = self.library.empty(count)
                held.clear()
            array = self.memory[name][:count].reshape(shape)
            held[shape] = array, list(array)
        return held[shape]
