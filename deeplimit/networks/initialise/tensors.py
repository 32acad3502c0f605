"""Checks of the tensors that initialisers fill: stored, of one shape, no two sharing memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from deeplimit.common import validation


def layers_of_weights(value: object, name: str) -> list[torch.Tensor]:
    """Return one role's weights, one tensor per layer, if each can be written without touching another.

    They are dense floating-point tensors of one shape, stored and not computed, no two sharing memory.
    """
    wrong = (torch.Tensor, torch.nn.Module, str, bytes, set, frozenset)
    if not isinstance(value, torch.nn.ParameterList) and (
        isinstance(value, wrong) or not isinstance(value, Iterable)
    ):
        hint = (
            "; unbind(0) splits one in which the layers are stacked"
            if isinstance(value, torch.Tensor)
            else ", such as [block.fc2.weight for block in blocks]"
        )
        raise TypeError(
            f"{name} must be a list of tensors, one per layer, in order of depth{hint}; got"
            f" {validation.named(value)}."
        )
    listed = validation.entries(value, name, "a list of tensors, one per layer, in order of depth")
    found = [stored_weight(item, f"{name}[{k}]") for k, item in enumerate(listed)]
    if len(found) < 2:
        raise ValueError(
            f"{name} must hold the weights of at least 2 layers, got {len(found)}; a law across"
            " layers needs layers."
        )
    for k, tensor in enumerate(found):
        if tensor.shape != found[0].shape:
            raise ValueError(
                f"{name} must all have one shape, one role in every layer; {name}[0] has"
                f" {tuple(found[0].shape)}, {name}[{k}] has {tuple(tensor.shape)}."
            )
    for i, j in sharing_memory(found):
        raise ValueError(
            f"{name}[{i}] and {name}[{j}] share memory (tied layers): no law varies across them; untie them,"
            " or leave one out."
            if i != j
            else f"{name}[{i}] holds one number in several places, as expand() makes it; clone it."
        )
    return found


def stored_weight(value: object, name: str) -> torch.Tensor:
    """Return `value` if it is a floating tensor that can be written in place and that a module uses."""
    if isinstance(value, torch.Tensor) and torch.nn.parameter.is_lazy(value):
        raise TypeError(f"{name} has no shape yet: it belongs to a lazy module; run the module once.")
    tensor = validation.real_tensor(value, name)
    if not tensor.is_floating_point() or tensor.is_quantized:
        raise TypeError(f"{name} must be floating point, got {tensor.dtype}.")
    if tensor.numel() == 0:
        raise ValueError(f"{name} must have entries, got shape {tuple(tensor.shape)}.")
    if tensor.grad_fn is not None and not tensor._is_view():
        raise ValueError(
            f"{name} is computed, by {tensor.grad_fn.name()}, and not stored: writing to it would be lost."
            " Pass the parameter itself, or take the parametrization off first."
        )
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(
            f"{name} was made in inference mode and cannot be written outside of it; clone() it."
        )
    return tensor


def sharing_memory(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[int, int]]:
    """Yield indices i ≤ j of tensors that share a number; (j, j) for one that holds a number twice."""
    by_storage: dict[tuple[torch.device, int], list[int]] = {}
    for index, tensor in enumerate(tensors):
        by_storage.setdefault((tensor.device, tensor.untyped_storage().data_ptr()), []).append(index)
    for members in by_storage.values():
        if len(members) == 1 and tensors[members[0]].is_contiguous():
            continue
        first = tensors[members[0]]
        owner = torch.full((first.untyped_storage().nbytes() // first.element_size(),), -1)
        for index in members:
            tensor = tensors[index]
            if tensor.dtype != first.dtype:
                yield members[0], index
                continue
            places = (
                torch.arange(len(owner))
                .as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
                .reshape(-1)
            )
            if (other := int(owner[places].max())) >= 0:
                yield other, index
            elif int(torch.bincount(places).max()) > 1:
                yield index, index
            owner[places] = index
