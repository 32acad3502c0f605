"""Networks whose layers can be replaced: a module, or a mapping of stacks."""

from __future__ import annotations

import copy
import fnmatch
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.trained.diagnosis.layer_families import LEAST, Family, SameLayersError, families, stack
from deeplimit.trained.diagnosis.sources import finite_numbers, source_of
from deeplimit.trained.diagnosis.stacks import Stack

Layers = Mapping[str, torch.Tensor]
"""Layers (L, ...) by the name of their weight."""
FACTORS = "delta"
"""Name of residual factors, which are left as they are unless a pattern asks for them."""


class Replaceable(ABC):
    """A network with weights that can be replaced, layer by layer.

    Attributes:
        stacks: the weights that it has once per layer, by name.
        left_out: reason by name of weights that are layered, and are not replaced.
    """

    stacks: dict[str, Stack]
    left_out: dict[str, str]

    @property
    def depth(self) -> int:
        """The number of layers; of several kinds of layers, that of the most frequent one."""
        depths = [each.depth for each in self.stacks.values()]
        return max(set(depths), key=depths.count)

    def chosen(self, only: str | None) -> dict[str, Stack]:
        """Return the weights whose name matches a pattern; all by default, but for residual factors.

        Raises:
            TypeError: For a pattern that is no text.
            ValueError: For one that matches no weight.
        """
        if only is not None and not isinstance(only, str):
            raise TypeError(f"only must be a pattern of names, got {validation.named(only)}.")
        found = {
            name: each
            for name, each in self.stacks.items()
            if (fnmatch.fnmatchcase(name, only) if only is not None else name != FACTORS)
        }
        if not found:
            known = ", ".join(map(repr, self.stacks))
            raise ValueError(f"only must match a weight, got {only!r}; give a pattern of one of {known}.")
        return found

    def measured(self, name: str) -> Stack:
        """Return the layers from which the trend of a weight is estimated: its own."""
        return self.stacks[name]

    @abstractmethod
    def off(self) -> Layers:
        """Return the weights with which branches add nothing: matrices and their biases are zero."""

    @abstractmethod
    def with_layers(self, replaced: Layers) -> Any:
        """Return a copy of the network in which these weights are replaced."""

    @abstractmethod
    def halved(self) -> Any:
        """Return the network with half the layers.

        Raises:
            ValueError: For a module, whose number of layers is fixed.
        """


def replaceable(weights: nn.Module | Mapping[str, Any], layers: str | None) -> Replaceable:
    """Return a network whose layers can be replaced.

    Raises:
        TypeError: For anything but a module or a mapping of stacks.
        ValueError: For a network without layers, and stacks that do not have the same number of layers.
    """
    if isinstance(weights, nn.Module):
        return ModuleLayers(weights, layers)
    if isinstance(weights, Mapping):
        return MappedLayers(weights)
    raise TypeError(
        "weights must be a module, or a dict of stacks such as dict(A=(L, d, d), b=(L, d)); got"
        f" {validation.named(weights)}."
    )


@final
class ModuleLayers(Replaceable):
    """A module, whose layers are told by the running number in the names of its tensors."""

    def __init__(self, model: nn.Module, layers: str | None) -> None:
        source = source_of(model)
        found = families(source, layers)
        self.model = model
        self.left_out = dict(found.left_out)
        self.families: dict[str, Family] = {}
        self.stacks = {}
        for family in found.found:
            try:
                self.stacks[family.name] = stack(source, family)
            except SameLayersError as error:
                self.left_out[family.name] = str(error)
            else:
                self.families[family.name] = family
        if not self.stacks:
            told = "; ".join(f"{name} {reason}" for name, reason in self.left_out.items())
            raise ValueError(
                f"weights must have layers that differ, got {source.name}: {told}. Take them after training."
            )

    def off(self) -> Layers:
        """Return zeros for matrices and what their modules hold beside them; gains of norms stay."""
        tensors = self.model.state_dict()
        owners = {
            name.rpartition(".")[0]
            for family in self.families.values()
            for name in family.members
            if tensors[name].dim() > 1
        }
        return {
            name: torch.zeros_like(self.stacks[name].values)
            for name, family in self.families.items()
            if family.members[0].rpartition(".")[0] in owners
        }

    def with_layers(self, replaced: Layers) -> nn.Module:
        model = copy.deepcopy(self.model)
        tensors = model.state_dict(keep_vars=True)
        with torch.no_grad():
            for name, values in replaced.items():
                members = self.families[name].members
                if len(members) == 1:
                    tensors[members[0]].copy_(values)
                    continue
                for member, value in zip(members, values, strict=True):
                    tensors[member].copy_(value)
        return model

    def halved(self) -> nn.Module:
        raise ValueError(
            "halve=True needs stacks, since a module has a fixed number of layers; pass"
            " dict(A=..., b=..., delta=...) and build the module in evaluate."
        )


@final
class MappedLayers(Replaceable):
    """Stacks (L, ...) by name; `delta`, () or (L,), multiplies the layers."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.left_out = {}
        self.given = {name: finite_numbers(value, f"weights[{name!r}]") for name, value in weights.items()}
        self.stacks = {name: Stack(name, value) for name, value in self.given.items() if value.ndim > 0}
        depths = {name: each.depth for name, each in self.stacks.items()}
        if any("." in str(name) for name in weights):
            raise ValueError(
                "weights must be stacks (L, ...) of all layers, or a module; names with dots, such as"
                f" {next(str(name) for name in weights if '.' in str(name))!r}, are a state_dict's. Load"
                " it into its module, and pass that."
            )
        if len(set(depths.values())) != 1 or min(depths.values()) < LEAST:
            raise ValueError(
                f"weights must hold stacks (L, ...) of one depth L, at least {LEAST}; got {depths}. Leave out"
                " what is no stack of all layers."
            )

    def off(self) -> Layers:
        return {name: torch.zeros_like(each.values) for name, each in self.stacks.items() if name != FACTORS}

    def with_layers(self, replaced: Layers) -> dict[str, torch.Tensor]:
        return {name: replaced.get(name, value).clone() for name, value in self.given.items()}

    def halved(self) -> dict[str, torch.Tensor]:
        """Return weights averaged over pairs of layers, factors doubled; an odd last layer stays alone."""
        factors = self.given.get(FACTORS, torch.ones((), dtype=torch.float64))
        found = {name: _paired(value) for name, value in self.given.items() if name != FACTORS}
        doubled = 2 * (_paired(factors) if factors.ndim else factors.expand(-(-self.depth // 2)).clone())
        if self.depth % 2:
            doubled[-1] /= 2
        return {**found, FACTORS: doubled}


def _paired(values: torch.Tensor) -> torch.Tensor:
    """Return the means of pairs of layers; an odd last layer stays as it is."""
    whole = len(values) // 2 * 2
    pairs = values[:whole].reshape(-1, 2, *values.shape[1:]).mean(dim=1)
    return torch.cat([pairs, values[whole:]])
