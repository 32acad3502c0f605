"""A training set and a test set as one frozen record with a digest of its numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.randomness import Purpose, generator


@final
@dataclass(frozen=True)
class Data:
    """Inputs and targets of a training set and of a test set.

    Tensors are copied to the CPU. Two are equal where their numbers are, whatever they are called.

    Args:
        name: how reports and messages call it: "synthetic system".
        inputs: inputs of the training set (n, *shape), float32.
        targets: targets (n, outputs), float32; or labels (n,), int64, from 0 on.
        test_inputs: inputs of the test set (m, *shape), float32.
        test_targets: targets (m, outputs) or labels (m,) of the test set.
        classes: number of classes where targets are labels, else None.
        citations: sources of the data, as `Report.citations` has them.

    Attributes:
        content: digest of the numbers (64 hexadecimal digits), by which a store and a checkpoint know them.

    Raises TypeError for anything but tensors of these types, ValueError for shapes that do not belong
    together, labels outside the classes, and numbers that are not finite.

    NOT checked: whether rows of the test set are in the training set, too.

    Examples:
        >>> import torch, deeplimit as dl
        >>> x = torch.linspace(-1.0, 1.0, 10)[:, None]
        >>> data = dl.datasets.Data.of(x, x**3, test=(x + 0.1, (x + 0.1) ** 3), name="cubic")
        >>> data.describe()
        'cubic: 10 inputs of shape (1,), 10 for testing, 1 output'
        >>> data == dl.datasets.Data.of(x, x**3, test=(x + 0.1, (x + 0.1) ** 3))
        True
    """

    name: str = field(compare=False)
    inputs: Tensor = field(repr=False, compare=False)
    targets: Tensor = field(repr=False, compare=False)
    test_inputs: Tensor = field(repr=False, compare=False)
    test_targets: Tensor = field(repr=False, compare=False)
    classes: int | None = field(default=None, compare=False)
    citations: tuple[str, ...] = field(default=(), compare=False)
    content: str = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a text that is not empty, got {validation.named(self.name)}.")
        if self.classes is not None:
            validation.integer(
                self.classes, "classes", minimum=2, hint="It is None where targets are numbers."
            )
        if not isinstance(self.citations, tuple) or not all(isinstance(line, str) for line in self.citations):
            raise TypeError(f"citations must be a tuple of texts, got {validation.named(self.citations)}.")
        for name in TENSORS:
            object.__setattr__(self, name, _frozen(getattr(self, name), name, self.classes))
        _check_pairs(self)
        object.__setattr__(self, "content", _digest(self))

    @classmethod
    @by_default
    def of(
        cls,
        x: Any,
        y: Any,
        *,
        test: Any = None,
        name: str = "data",
        seed: int = 0,
        classes: int | None = None,
        citations: tuple[str, ...] = (),
    ) -> Data:
        """Return a user's tensors or numpy arrays as data.

        Args:
            x: inputs (n, *shape), any real type; kept in float32.
            y: targets (n, outputs) of a floating-point type; or labels (n,) of an integer type.
            test: the test set as a pair (inputs, targets), or the number of rows of x to set aside for it.
                Without it a fifth of the rows, at least one.
            name: how reports and messages call it.
            seed: what decides which rows are set aside, and the order of the others.
            classes: number of classes where y holds labels; without it the largest label plus one.
            citations: sources of the data.

        Raises TypeError and ValueError as `Data`, and ValueError where `test` leaves no row for training.

        Examples:
            >>> import numpy as np, deeplimit as dl
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> dl.datasets.Data.of(x, (x[:, 0] > 0).astype(int), test=20).describe()
            'data: 30 inputs of shape (4,), 20 for testing, 2 classes'
        """
        inputs, targets = _numbers(x, "x"), _numbers(y, "y")
        if inputs.shape[:1] != targets.shape[:1]:
            raise ValueError(
                f"y must have a row per row of x; got shapes {tuple(targets.shape)} and"
                f" {tuple(inputs.shape)}."
            )
        if isinstance(test, tuple):
            if len(test) != 2:
                raise ValueError(
                    f"test must be a pair (inputs, targets) or a number of rows, got a tuple of {len(test)}."
                )
            held = (_numbers(test[0], "test[0]"), _numbers(test[1], "test[1]"))
        else:
            rows = max(1, len(inputs) // 5) if test is None else test
            train, kept = split(len(inputs), rows, seed)
            held = (inputs[kept], targets[kept])
            inputs, targets = inputs[train], targets[train]
        if classes is None and not targets.is_floating_point():
            found = [int(labels.max()) for labels in (targets, held[1]) if labels.numel()]
            classes = max(1, *found) + 1
        return cls(name, inputs, targets, *held, classes=classes, citations=citations)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    @property
    def outputs(self) -> int:
        """How many numbers a network must return: the classes, or the numbers of one target."""
        return self.targets.shape[1] if self.classes is None else self.classes

    def describe(self) -> str:
        """Return the name and the sizes in one line."""
        kind = "output" if self.classes is None else "class"
        ending = "" if self.outputs == 1 else "s" if self.classes is None else "es"
        return (
            f"{self.name}: {len(self.inputs)} inputs of shape {self.shape}, {len(self.test_inputs)} for"
            f" testing, {self.outputs} {kind}{ending}"
        )

    @property
    def __deeplimit_key__(self) -> str:
        return self.content  # a store tells data apart by their numbers, not by their names


TENSORS = ("inputs", "targets", "test_inputs", "test_targets")


def split(rows: int, test: object, seed: int) -> tuple[Tensor, Tensor]:
    """Return the numbers of the rows for training and of those for testing, both in a random order."""
    hint = f"At least one of the {rows} rows must remain for training."
    held = validation.integer(test, "test", minimum=1, maximum=rows - 1, hint=hint)
    order = torch.randperm(rows, generator=generator(validation.seed(seed), Purpose.DATA_ROWS))
    return order[held:], order[:held]


def _numbers(value: Any, name: str) -> Tensor:
    """Return an array in float32, or in int64 where it holds integers and has one axis."""
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.ascontiguousarray(value))
        except TypeError as error:
            raise TypeError(f"{name} must be an array of real numbers, got one of {value.dtype}.") from error
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor or a numpy array, got {validation.named(value)}.")
    found = validation.real_tensor(value, name)
    labels = found.ndim == 1 and not found.is_floating_point()
    return found.to("cpu", torch.int64 if labels else torch.float32)


def _frozen(value: object, name: str, classes: int | None) -> Tensor:
    """Return a copy of one of the four tensors, if it is of the right type and holds something finite."""
    found = validation.real_tensor(value, name)
    labels = name.endswith("targets") and classes is not None
    wanted = torch.int64 if labels else torch.float32
    if found.dtype != wanted:
        hint = "classes= is for labels only." if labels else "Data.of converts numpy arrays and tensors."
        raise TypeError(f"{name} must be of {wanted}, got {found.dtype}. {hint}")
    axes = "(n,)" if labels else "(n, outputs)" if name.endswith("targets") else "(n, *shape)"
    right = found.ndim == 1 if labels else found.ndim == 2 if name.endswith("targets") else found.ndim >= 2
    if not right:
        raise ValueError(f"{name} must have shape {axes}, got {tuple(found.shape)}; [:, None] adds an axis.")
    if found.numel() == 0:
        raise ValueError(f"{name} must hold at least one number, got the shape {tuple(found.shape)}.")
    if not bool(torch.isfinite(found).all()):
        raise ValueError(f"{name} must be finite in float32, but holds NaN or infinity.")
    if labels and not 0 <= int(found.min()) <= int(found.max()) < (classes or 0):
        raise ValueError(
            f"{name} must hold labels from 0 to {(classes or 0) - 1}, got {int(found.min())} to"
            f" {int(found.max())}. Number the classes from 0, or raise classes=."
        )
    return found.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def held_out(given: object, data: Data, name: str) -> tuple[Tensor, Tensor]:
    """Return a user's pair (inputs, targets) that fits a training set; messages call it by its name."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(
            f"{name} must be a pair (inputs, targets) of tensors or arrays, got {validation.named(given)}."
        )
    found = []
    for value, part, like in zip(given, ("inputs", "targets"), (data.inputs, data.targets), strict=True):
        whose = f"{name} {part}"
        tensor = _frozen(_numbers(value, whose), whose, data.classes)
        if tensor.shape[1:] != like.shape[1:]:
            raise ValueError(
                f"{whose} must have rows of shape {tuple(like.shape[1:])}, as those for training have; got"
                f" {tuple(tensor.shape[1:])}."
            )
        found.append(tensor)
    inputs, targets = found
    if len(inputs) != len(targets):
        raise ValueError(
            f"{name} must have a target per input; got {len(inputs)} inputs and {len(targets)} targets."
        )
    return inputs, targets


def _check_pairs(data: Data) -> None:
    for part in ("", "test_"):
        inputs, targets = getattr(data, f"{part}inputs"), getattr(data, f"{part}targets")
        if len(inputs) != len(targets):
            raise ValueError(
                f"{part}targets must have a row per row of {part}inputs; got {len(targets)} and"
                f" {len(inputs)}."
            )
    for name in ("inputs", "targets"):
        here, there = getattr(data, name).shape[1:], getattr(data, f"test_{name}").shape[1:]
        if here != there:
            raise ValueError(
                f"test_{name} must have rows of shape {tuple(here)}, as {name} has; got {tuple(there)}."
            )


def _digest(data: Data) -> str:
    found = hashlib.sha256(f"data {data.classes}".encode())
    for name in TENSORS:
        tensor: Tensor = getattr(data, name)
        found.update(f" {name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()
