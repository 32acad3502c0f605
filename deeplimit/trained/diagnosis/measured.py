"""What is kept of one network: of each weight its norms and the products of its layers, not the weight."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.networks_of_sweep import Network
from deeplimit.trained.diagnosis.norms import LayerNorms
from deeplimit.trained.diagnosis.stacks import Stack

GRAM = r": (read|write) Gram"
"""Names of objects that say which directions a branch reads or writes, and not what it does."""
KERNELS = 5
"""Axes of a stack of convolutions in two dimensions."""


@final
@dataclass(frozen=True, eq=False)
class MeasuredWeight:
    """One weight of all layers of one network.

    Attributes:
        name: what it is called.
        norms: sizes of layers, differences and sums.
        gram: products of layers.
        carries: whether it is what branches do, and not a Gram matrix or a bias.
        bent: size of what branches bend, as in `Stack`; None where these are the layers themselves.
    """

    name: str
    norms: LayerNorms
    gram: LayerGram
    carries: bool
    bent: float | None = None

    @classmethod
    def of(cls, stack: Stack, spatial: tuple[int, int] | None = None) -> MeasuredWeight:
        """Return what is kept of a stack; `spatial` is that of `LayerNorms.of`, for convolutions only."""
        size = spatial if stack.values.ndim == KERNELS else None
        carries = stack.values.ndim > 2 and not re.search(GRAM, stack.name)
        bent = None if stack.bent is None else float(stack.bent.square().mean().sqrt())
        return cls(stack.name, LayerNorms.of(stack, size), LayerGram.of(stack), carries, bent)


@final
@dataclass(frozen=True, eq=False)
class MeasuredNetwork:
    """One network of a sweep, measured.

    Attributes:
        depth: number of layers.
        weights: what is kept of each weight, by its name.
        factors: residual factors, (L,) or (1,); None where none are given.
        trouble: why all layers are copies, and nothing is kept; empty where they are not.
    """

    depth: int
    weights: dict[str, MeasuredWeight]
    factors: np.ndarray | None = None
    trouble: str = ""

    @classmethod
    def of(
        cls, network: Network, homogeneous: bool = False, spatial: tuple[int, int] | None = None
    ) -> MeasuredNetwork:
        """Return what is kept of a network; of a homogeneous one with its residual factors multiplied in."""
        stacks = _with_factors(network) if homogeneous else network.stacks
        weights = {key: MeasuredWeight.of(stack, spatial) for key, stack in stacks.items()}
        return cls(network.depth, weights, network.factors)

    def same_as(self, other: MeasuredNetwork) -> bool:
        """Whether all sums of squares and products over layers are the same numbers."""
        return (
            bool(self.weights)
            and self.weights.keys() == other.weights.keys()
            and all(
                np.array_equal(each.norms.squares, other.weights[key].norms.squares)
                and np.array_equal(each.norms.heads, other.weights[key].norms.heads)
                for key, each in self.weights.items()
            )
        )

    def write(self, prefix: str) -> dict[str, np.ndarray]:
        """Return it as arrays, whose names begin with a prefix."""
        arrays = {f"{prefix}/depth": np.array(self.depth), f"{prefix}/trouble": np.array(self.trouble)}
        if self.factors is not None:
            arrays[f"{prefix}/factors"] = self.factors
        for place, (key, each) in enumerate(self.weights.items()):
            here = f"{prefix}/{place:04d}"
            arrays[f"{here}/names"] = np.array([key, each.name])
            arrays[f"{here}/carries"] = np.array(each.carries)
            arrays[f"{here}/bent"] = np.array([] if each.bent is None else [each.bent])
            arrays[f"{here}/groups"] = np.array(each.gram.groups, dtype=np.int64)
            arrays[f"{here}/entries"] = np.array(each.gram.entries)
            arrays[f"{here}/products"] = each.gram.products
            for field in dataclasses.fields(LayerNorms):
                arrays[f"{here}/norms/{field.name}"] = np.asarray(getattr(each.norms, field.name))
        return arrays

    @classmethod
    def read(cls, arrays: Mapping[str, np.ndarray], prefix: str) -> MeasuredNetwork:
        """Return the network that `write` gave these arrays for."""
        weights = {}
        inside = [name.split("/") for name in arrays if name.startswith(f"{prefix}/")]
        places = sorted(parts[-2] for parts in inside if parts[-1] == "names")
        for place in places:
            here = f"{prefix}/{place}"
            key, name = (str(text) for text in arrays[f"{here}/names"])
            norms: dict[str, Any] = {}
            for field in dataclasses.fields(LayerNorms):
                value = arrays[f"{here}/norms/{field.name}"]
                norms[field.name] = value if value.ndim else float(value)
            gram = LayerGram(
                arrays[f"{here}/products"],
                int(arrays[f"{here}/entries"]),
                tuple(arrays[f"{here}/groups"].tolist()),
            )
            carries, bent = bool(arrays[f"{here}/carries"]), arrays[f"{here}/bent"].tolist()
            weights[key] = MeasuredWeight(name, LayerNorms(**norms), gram, carries, *bent)
        return cls(
            int(arrays[f"{prefix}/depth"]),
            weights,
            arrays.get(f"{prefix}/factors"),
            str(arrays[f"{prefix}/trouble"]),
        )


def _with_factors(network: Network) -> dict[str, Stack]:
    """Return the stacks multiplied by the sizes of the residual factors."""
    assert network.factors is not None
    factors = torch.as_tensor(network.factors).abs()
    return {
        key: Stack(
            f"|δ|{key}",
            stack.values * factors.to(stack.values.dtype).reshape(-1, *[1] * (stack.values.ndim - 1)),
            rounding=stack.rounding,
            bent=stack.bent,
        )
        for key, stack in network.stacks.items()
    }
