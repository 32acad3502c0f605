"""Networks of several depths, from whatever holds their weights: stacks, files, state_dicts, modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.trace.branches import record
from deeplimit.trained.diagnosis.branch_functions import responses
from deeplimit.trained.diagnosis.invariants import SILENT, invariants
from deeplimit.trained.diagnosis.layer_families import COPIES, SAME, SameLayersError, families
from deeplimit.trained.diagnosis.norms import LEAST_LAYERS
from deeplimit.trained.diagnosis.sources import Source, finite_numbers, source_of
from deeplimit.trained.diagnosis.stacks import NOISE, Stack
from deeplimit.trained.diagnosis.weight_chains import Seen, seen_in

WEIGHTS = {"A", "V", "W", "F", "Δ"}
"""Names of whole stacks of weights: those that the library's recursions call them by."""
NAMES = WEIGHTS | {"b", "delta"}
"""Names of whole stacks: weights, biases, residual factors."""


@final
@dataclass(frozen=True, eq=False)
class Network:
    """One network of a sweep.

    Attributes:
        depth: number of layers.
        stacks: weights by name, without residual factors.
        factors: residual factors, (L,) or (1,), with their signs; None where none are given.
        by_names: whether the layers are known by names alone, without a module that showed its forward.
        orders: which weights were read one after the other since their names say so, as text.
        unread: why weights cannot be compared, by their names. Where a module is known, stacks hold what
            their branches add to noise.
    """

    depth: int
    stacks: dict[str, Stack]
    factors: np.ndarray | None
    by_names: bool = False
    orders: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def reordered(self, order: torch.Tensor) -> Network:
        """Return the network with its layers in another order (L,)."""
        stacks = {
            key: replace(
                each, values=each.values[order], bent=None if each.bent is None else each.bent[order]
            )
            for key, each in self.stacks.items()
        }
        factors = self.factors
        moved = factors[order.numpy()] if factors is not None and len(factors) > 1 else factors
        return replace(self, stacks=stacks, factors=moved)


def made_by(null: Callable[..., Any], seed: int, *given: int) -> nn.Module:
    """Return an untrained network, made with torch's generators at a seed, which are put back after."""
    with seeded(seed), validation.noted(f"deeplimit called null({', '.join(map(str, given))})."):
        made = null(*given)
    if not isinstance(made, nn.Module):
        raise TypeError(f"null must return an untrained module, got {validation.named(made)}.")
    return made


def networks_of(weights: Mapping[Any, Any], layers: str | None = None, batch: Any = None) -> list[Network]:
    """Return the networks of a sweep, by depth; a list at a depth holds networks of several seeds.

    Args:
        weights: stacks, a file, a state_dict or a module for each depth, or a list of them.
        layers: name of the layers with {} for their number, where names leave it open.
        batch: input of modules; made up if left out.

    Raises:
        TypeError: For anything else by depth.
        ValueError: For stacks with another number of layers than the depth says, for shapes that differ
            between networks, and for numbers that are not finite.
    """
    if not weights:
        raise ValueError("weights must have at least one depth, such as {16: dict(A=...)}; got {}.")
    found = []
    for key, given in weights.items():
        depth = validation.integer(
            key,
            "every depth of weights",
            minimum=LEAST_LAYERS,
            hint="Fewer layers show no noise: leave them out.",
        )
        for one, name in _seeds(given, f"weights[{depth}]"):
            found.append(_network(one, depth, name, layers, batch))
    found.sort(key=lambda network: network.depth)
    first = found[0]
    for network in found[1:]:
        if _form(network) != _form(first):
            raise ValueError(
                "weights must have the same names and layers of one shape at all depths; got"
                f" {_form(first)} at depth {first.depth} and {_form(network)} at depth {network.depth}. Leave"
                " out what one of them lacks."
            )
    return found


def _seeds(given: Any, name: str) -> Iterator[tuple[Any, str]]:
    if not isinstance(given, (list, tuple)):
        yield given, name
        return
    if not given:
        raise ValueError(
            f"{name} must hold at least one network, got an empty {type(given).__name__}; leave this"
            " depth out."
        )
    yield from ((one, f"{name}[{place}]") for place, one in enumerate(given))


def _network(given: Any, depth: int, name: str, layers: str | None, batch: Any) -> Network:
    if isinstance(given, Mapping) and ("A" in given or _are_stacks(given)):
        unknown = set(given) - NAMES
        if unknown:
            raise ValueError(
                f"{name} must hold stacks among {', '.join(sorted(NAMES))}, got also"
                f" {sorted(map(str, unknown))}; leave them out, or give names with the layer's number."
            )
        return _of_stacks({key: value for key, value in given.items() if value is not None}, depth, name)
    try:
        source = source_of(given)
        if not isinstance(given, nn.Module) and _are_stacks(source.shapes):
            return _of_stacks({key: source.read(key) for key in source.shapes}, depth, name)
        return _of_module_or_names(given, source, depth, name, layers, batch)
    except (TypeError, ValueError) as error:
        if str(error).startswith(name):
            raise
        raise type(error)(f"{name}: {error}") from error


def _are_stacks(names: Iterable[Any]) -> bool:
    """Whether these are names of whole stacks, at least one of them of weights."""
    found = set(names)
    return bool(found & WEIGHTS) and found <= NAMES


def _of_stacks(values: Mapping[str, Any], depth: int, name: str) -> Network:
    tensors = {key: finite_numbers(value, f"{name}[{key!r}]").cpu() for key, value in values.items()}
    for key in tensors.keys() - {"delta"}:
        shape = tuple(tensors[key].shape)
        if shape[:1] != (depth,) or tensors[key].numel() == 0:
            raise ValueError(
                f"{name}[{key!r}] must hold {depth} layers, ({depth}, ...); got shape {shape}. Stack the"
                " layers along the first axis, and give the depth that counts them."
            )
    factors = tensors.pop("delta", None)
    if factors is not None and tuple(factors.shape) not in ((), (1,), (depth,)):
        shape = tuple(factors.shape)
        raise ValueError(
            f"{name}['delta'] must have shape () or ({depth},); got {shape}. Give one number, or one per"
            " layer."
        )
    order = sorted(tensors, key=lambda key: (key == "b", key))
    stacks: dict[str, Stack] = {key: Stack(key, tensors[key]) for key in order}
    return Network(depth, stacks, None if factors is None else _flat(factors))


def _of_names(
    source: Source,
    depth: int,
    name: str,
    layers: str | None,
    seen: Seen | None,
    functions: Callable[[], tuple[tuple[Stack, ...], dict[str, str]]] = lambda: ((), {}),
) -> Network:
    """Return what hidden permutations leave of the network whose layers are told by numbers in names.

    `functions` gives what branches add, for those whose weights cannot be compared.
    """
    found = families(source, layers)
    factors = None
    # Residual factors that a forward showed are multiplied into the weights.
    uses = [use for each in (seen.scales.values() if seen else ()) for use in each]
    folded = {gain for use in uses for gain, _ in use}
    for family in found.found:
        if len(family.numbers) != depth:
            raise ValueError(
                f"{name} must hold {depth} layers of {family.name!r}, got {len(family.numbers)}. Give the"
                " depth that counts them, or name the layers by layers='...{}...'."
            )
        is_factor = source.shapes[family.members[0]] in ((), (1,)) and family.members[0] not in folded
        if is_factor and family.name.rpartition(".")[2] == "delta":
            factors = _flat(torch.stack([source.read(member) for member in family.members]))
    left_out = dict(found.left_out)
    orders: list[str] = []
    made = invariants(source, found, left_out, seen, biases=True, orders=orders)
    stacks = {each.name: each for each in made}
    unread = {key: each for key, each in left_out.items() if SAME not in each and each != SILENT}
    if unread and layers is None:
        try:
            added, without = functions()
        except ValueError as error:  # branches that depend on states, say
            added, without = (), {"branches": str(error).rstrip(".")}
            left_out |= without
        stacks |= _added(added, without, depth, unread)
        if not stacks and without and all(SAME in reason for reason in without.values()):
            left_out = without
    if not stacks:
        reasons = "; ".join(f"{key} {reason}" for key, reason in [*left_out.items()][:3])
        are_copies = left_out and all(SAME in reason for reason in left_out.values())
        told = (
            f"{name} must hold weights that can be compared over depth: {reasons or 'it has vectors alone'}."
        )
        raise SameLayersError(f"{told} {COPIES}") if are_copies else ValueError(told)
    return Network(depth, stacks, factors, seen is None, tuple(orders), unread)


def _added(
    functions: Sequence[Stack], without: Iterable[str], depth: int, unread: Iterable[str]
) -> dict[str, Stack]:
    """Return what branches add to noise: those with weights that cannot be compared, else all of them."""
    kinds = {*(each.name for each in functions), *without}
    named = {kind for kind in kinds if any(f"{key}.".startswith(f"{kind}.") for key in unread)} or kinds
    found = [each for each in functions if each.name in named and each.depth == depth]
    renamed = [replace(each, name=f"{each.name}: {NOISE}") for each in found]
    return {each.name: each for each in renamed}


def _of_module_or_names(
    given: object, source: Source, depth: int, name: str, layers: str | None, batch: Any
) -> Network:
    """Return the network of a module by its forward; by names alone where it is none, or cannot be run."""
    if not isinstance(given, nn.Module):
        return _of_names(source, depth, name, layers, None)
    try:
        seen = seen_in(record(given, as_batch(given, batch), trained=True))
    except (TypeError, ValueError) as error:
        if batch is not None:
            raise type(error)(f"batch does not fit {type(given).__name__}: {error}") from error
        try:
            if not families(source, layers).numbered:  # stacks are in no order of hidden units
                raise ValueError("names of stacks do not tell what reads the stream.")
            return _of_names(source, depth, name, layers, None)
        except SameLayersError:
            raise
        except ValueError as unknown:
            # Names do not suffice, and the module that they ask for is there: it lacks a batch.
            raise ValueError(f"{name}: {error}") from unknown
    return _of_names(source, depth, name, layers, seen, lambda: responses(given, batch))


def _flat(factors: torch.Tensor) -> np.ndarray:
    found: np.ndarray = factors.detach().to(torch.float64).reshape(-1).numpy()
    return found


def _form(network: Network) -> dict[str, tuple[int, ...]]:
    shapes = {key: tuple(each.values.shape[1:]) for key, each in network.stacks.items()}
    return shapes if network.factors is None else shapes | {"delta": ()}
