"""Weights that were recorded, at the depths at which they were: those of trained networks, say."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Grid, Layer, Path


@final
@dataclass(frozen=True)
class Recorded(WeightLaw):
    """Weights at recorded depths: layer k of depth L is the k-th that was recorded for L, the same in every
    path.

    `stacks` gives, for each depth L, the layers (L, *shape), or dict(A=(L, *shape), b=(L, d)) with biases
    (for `inner`). `from_modules` and `from_files` read networks and safetensors files. Weights are copied,
    and used as they are: no 1/√d is applied, and the residual exponent must be given, 0 where the
    weights hold their scale already. Two are equal where their numbers are.

    Weights are given, so nothing is random but the inputs, and no theorem of the library applies. Depths
    that were not recorded are refused by every measurement.

    Raises TypeError for anything but tensors by depth; ValueError where a depth has another number of
    layers, shapes differ between depths, or numbers are not finite.

    Examples:
        >>> import torch, deeplimit as dl
        >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        >>> weights = dl.Recorded({L: turn.expand(L, 2, 2) / L for L in (8, 16, 32, 64)})
        >>> network = dl.res1(2, "identity", weights=weights, exponent=0.0)
        >>> report = dl.compare(network, lambda t, h: h @ turn.T, depths=[8, 16, 32, 64], paths=200)
        >>> report.verdict, round(report.rate, 1)
        ('converges', 1.0)
    """

    stacks: Mapping[int, Any] = field(compare=False, repr=False)
    content: str = field(init=False)

    @by_default
    def __post_init__(self) -> None:
        if not isinstance(self.stacks, Mapping) or not self.stacks:
            raise TypeError(
                "stacks must be a dict from depth to layers with at least one depth, such as {16: tensor (16,"
                f" d, d)}}; got {validation.named(self.stacks)}."
            )
        checked = {}
        for depth, given in self.stacks.items():
            count = validation.integer(depth, "every depth", minimum=1, hint="It is a number of layers.")
            checked[count] = _checked_stack(given, count)
        stacks = dict(sorted(checked.items()))
        first, *others = stacks.items()
        for depth, stack in others:
            if _form(stack) != _form(first[1]):
                raise ValueError(
                    f"stacks must hold layers of one shape; depth {first[0]} has {_form(first[1])}, depth"
                    f" {depth} has {_form(stack)}."
                )
        object.__setattr__(self, "stacks", stacks)
        object.__setattr__(self, "content", _digest(stacks))

    @classmethod
    def from_modules(
        cls, modules: Mapping[int, nn.Module | Mapping[str, Tensor]], weight: str, bias: str | None = None
    ) -> Recorded:
        """Return the weights of one role in modules, or state_dicts, of several depths.

        `weight` and `bias` name the role's tensors with {} for the number of the block, as in
        "blocks.{}.fc2.weight"; they are ordered by that number, from 0 or 1 on.

        Raises TypeError for anything but modules or state_dicts by depth, ValueError where a pattern finds
        another number of tensors than the depth.

        Examples:
            >>> import torch, deeplimit as dl
            >>> nets = {L: torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(L))) for L in (4, 8)}
            >>> dl.Recorded.from_modules(nets, "{}.weight", "{}.bias").describe()
            'weights recorded at depths 4, 8'
        """
        _check_by_depth(modules, "modules", "a module or a state_dict")
        stacks = {}
        for depth, module in modules.items():
            named = module.state_dict() if isinstance(module, nn.Module) else module
            if not isinstance(named, Mapping):
                raise TypeError(
                    f"modules[{depth!r}] must be a module or a state_dict; got {validation.named(module)}."
                )
            stacks[depth] = _of_role(list(named), named.__getitem__, depth, weight, bias)
        return cls(stacks)

    @classmethod
    def from_files(
        cls, files: Mapping[int, str | os.PathLike[str]], weight: str = "A", bias: str | None = None
    ) -> Recorded:
        """Return the weights of one role in safetensors files, one for each depth.

        `weight` and `bias` are patterns with {} as for `from_modules`, or the name of one tensor that holds
        all layers (L, *shape). Other tensors in the files are not read.

        Raises TypeError for anything but paths by depth, ValueError for files that hold no such tensors.

        Examples:
            >>> import tempfile, torch, safetensors.torch, deeplimit as dl
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     files = {L: f"{folder}/depth-{L}.safetensors" for L in (4, 8)}
            ...     for L, file in files.items():
            ...         safetensors.torch.save_file({"A": torch.ones(L, 2, 2)}, file)
            ...     dl.Recorded.from_files(files).describe()
            'weights recorded at depths 4, 8'
        """
        _check_by_depth(files, "files", "a path")
        stacks = {}
        for depth, path in files.items():
            if not isinstance(path, (str, os.PathLike)):
                raise TypeError(f"files[{depth!r}] must be a path; got {validation.named(path)}.")
            name = FilePath(path)
            with ExitStack() as opened:
                try:
                    content = opened.enter_context(safe_open(name, framework="pt"))
                except (OSError, SafetensorError) as error:
                    raise ValueError(
                        f"files[{depth!r}] = {str(name)!r} cannot be read as safetensors: {error}."
                    ) from error
                stacks[depth] = _of_role(list(content.keys()), content.get_tensor, depth, weight, bias)
        return cls(stacks)

    @property
    def depths(self) -> tuple[int, ...]:
        """The recorded depths, in order."""
        return tuple(self.stacks)

    @property
    def facts(self) -> Facts:
        biased = all("b" in stack for stack in self.stacks.values())
        return Facts(Dependence.RECORDED, deterministic=True, biased=biased)

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return (Channel("weight", ChannelKind.RECORDED, shape, depths=self.depths),)

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def entry_scale(self, shape: Shape) -> float:
        return 1.0

    def check(self, shape: Shape) -> None:
        recorded = next(iter(self.stacks.values()))["A"].shape[1:]
        if tuple(recorded) != shape:
            raise ValueError(
                f"stacks must hold layers of shape {shape}, as the recursion's weight; recorded ones have"
                f" {tuple(recorded)}."
            )

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return RecordedPath(self, grid.depths, torch.device(generator.device), dtype)

    def describe(self) -> str:
        return f"weights recorded at depths {', '.join(map(str, self.depths))}"


class RecordedPath(Path):
    """Counts the layers of each depth, and gives the recorded one; it reads neither time nor randomness."""

    def __init__(
        self, law: Recorded, depths: tuple[int, ...], device: torch.device, dtype: torch.dtype
    ) -> None:
        self.depths = depths
        self.stacks = [
            {part: layers.to(device, dtype) for part, layers in law.stacks[depth].items()} for depth in depths
        ]
        self.passed = [0] * len(depths)

    def advance(self, index: int) -> None:
        """Nothing to do: layers do not depend on time."""

    def layer(self, j: int) -> Layer:
        k, stack = self.passed[j], self.stacks[j]
        self.passed[j] = k + 1
        bias = stack["b"][k : k + 1] if "b" in stack else None
        return Layer(stack["A"][k : k + 1], self.depths[j], 0.0, 1.0, bias)

    def rewind(self) -> None:
        self.passed = [0] * len(self.depths)


def _checked_stack(given: Any, depth: int) -> dict[str, Tensor]:
    """Return copies of the layers of one depth, "A", and of their biases, "b"."""
    name = f"stacks[{depth}]"
    parts = given if isinstance(given, Mapping) else {"A": given}
    if "A" not in parts or not set(parts) <= {"A", "b"}:
        raise ValueError(f"{name} must hold A, and b where there are biases; got {sorted(map(str, parts))}.")
    layers = _checked(parts["A"], f"{name}['A']", depth)
    if parts.get("b") is None:
        return {"A": layers}
    biases = _checked(parts["b"], f"{name}['b']", depth)
    if biases.shape != layers.shape[:2]:
        raise ValueError(f"{name}['b'] must have shape {tuple(layers.shape[:2])}, got {tuple(biases.shape)}.")
    return {"A": layers, "b": biases}


def _checked(value: object, name: str, depth: int) -> Tensor:
    tensor = validation.real_tensor(value, name)
    if tensor.ndim == 0 or len(tensor) != depth:
        raise ValueError(f"{name} must hold {depth} layers, (L, ...); got shape {tuple(tensor.shape)}.")
    kept = validation.finite_tensor(tensor, name, tuple(tensor.shape)).detach()
    kind = kept.dtype if kept.is_floating_point() else torch.float64
    return kept.to("cpu", kind, copy=True).contiguous()


def _form(stack: Mapping[str, Tensor]) -> str:
    return f"{tuple(stack['A'].shape[1:])} {'with' if 'b' in stack else 'without'} biases"


def _digest(stacks: Mapping[int, Mapping[str, Tensor]]) -> str:
    """Return digits that stand for all the numbers, in whatever precision and with whatever sign of 0."""
    found = hashlib.sha256()
    for depth, stack in stacks.items():
        for name, part in stack.items():
            found.update(f"{depth} {name} {torch.float64} {tuple(part.shape)};".encode())
            found.update((part.double() + 0.0).numpy().tobytes())
    return found.hexdigest()


def _check_by_depth(value: object, name: str, kind: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict from depth to {kind}; got {validation.named(value)}.")


def _of_role(
    names: list[str], read: Callable[[str], Any], depth: int, weight: str, bias: str | None
) -> dict[str, Tensor]:
    """Return the layers, and biases, of one role among named tensors."""
    roles = {"A": ("weight", weight), "b": ("bias", bias)}
    return {
        part: _stacked(names, read, depth, argument, pattern)
        for part, (argument, pattern) in roles.items()
        if pattern is not None
    }


def _stacked(names: list[str], read: Callable[[str], Any], depth: int, argument: str, pattern: str) -> Tensor:
    validation.integer(depth, "every depth", minimum=1)
    if not isinstance(pattern, str):
        raise TypeError(f"{argument} must be a name, such as 'layers.{{}}.weight'; got {pattern!r}.")
    if "{}" not in pattern:
        if pattern in names:
            whole = validation.real_tensor(read(pattern), pattern)
            if whole.ndim == 0 or len(whole) != depth:
                raise ValueError(
                    f"{argument}={pattern!r} names one tensor of shape {tuple(whole.shape)} at depth {depth},"
                    f" which must hold all {depth} layers, ({depth}, ...). To collect a tensor per layer, put"
                    " {} where their names have the layer's number."
                )
            return whole
        raise ValueError(
            f"{argument}={pattern!r} is not there at depth {depth}; there are {_some(names)}. Give one of"
            " these names, with {} for the layer's number."
        )
    found = dict(sorted(_numbered(names, pattern)))
    if len(found) != depth or (found and max(found) - min(found) + 1 != depth):
        what = f"{len(found)} tensors" if found else f"none among {_some(names)}"
        raise ValueError(
            f"{argument}={pattern!r} must name the {depth} layers of depth {depth}, numbered without gaps;"
            f" found {what}."
        )
    layers = [validation.real_tensor(read(name), name) for name in found.values()]
    for name, layer in zip(found.values(), layers, strict=True):
        if layer.shape != layers[0].shape:
            raise ValueError(
                f"{name} must have the shape of the first layer, {tuple(layers[0].shape)}; got"
                f" {tuple(layer.shape)}."
            )
    return torch.stack(layers)


def _numbered(names: list[str], pattern: str) -> Iterator[tuple[int, str]]:
    """Yield number and name of what a pattern matches; every {} in it stands for the same number."""
    first, *rest = (re.escape(part) for part in pattern.split("{}"))
    expression = re.compile(f"{first}(\\d+)" + r"\1".join(rest))
    for name in names:
        if (match := expression.fullmatch(name)) is not None:
            yield int(match[1]), name


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "no tensors"
