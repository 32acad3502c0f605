"""What a module is run on: a batch in any of its usual forms, made up where none is given."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from deeplimit.common.validation import named
from deeplimit.modules.trace.in_pieces import on_demand

TOKENS = (2, 16)


@dataclass(frozen=True)
class Batch:
    """Positional and keyword arguments of a forward."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def is_zero(self) -> bool:
        """Whether there are tensors, all of real numbers that are 0."""
        given = [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, torch.Tensor)]
        return bool(given) and all(value.is_floating_point() and not value.any() for value in given)


def as_batch(model: nn.Module, batch: Any, name: str = "batch") -> Batch:
    """Return the arguments for `model`: a tensor, a tuple of arguments, a dict of keywords, or made up.

    `name` is what the argument is called where the user gives it.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, got {named(model)}. For a function that builds one at a given"
            " depth, call it first, or use dl.check_depth."
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            f"{type(model).__name__} is TorchScript, whose operations cannot be seen: pass the module it was"
            " made from."
        )
    _refuse_unready(model)
    _refuse_sharded(model)
    _refuse_quantised(model)
    on_meta = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if on_meta:
        raise ValueError(
            f"{len(on_meta)} parameters are on the meta device ({on_meta[0]} is the first): they have no"
            " values to measure. Build the model on a real device. If it is too large for that, pass a"
            " function that builds it at a given depth to dl.check_depth, which fills a few weights at a"
            " time, or make the model narrower: depth scaling does not depend on width."
        )
    frozen = [name for name, parameter in model.named_parameters() if parameter.is_inference()]
    if frozen:
        raise ValueError(
            f"model has {len(frozen)} parameters made in inference mode ({frozen[0]} is the first), which"
            " have no gradients: build it outside torch.inference_mode()."
        )
    if batch is None:
        batch = made_up(model, name)
    if isinstance(batch, Mapping):
        found = Batch((), dict(batch))
    elif isinstance(batch, (tuple, list)):
        found = Batch(tuple(batch), {})
    elif isinstance(batch, torch.Tensor):
        found = Batch((batch,), {})
    else:
        raise TypeError(
            f"{name} must be a tensor, a tuple of arguments or a dict of keyword arguments, got"
            f" {named(batch)}."
        )
    for value in (*found.args, *found.kwargs.values()):
        if isinstance(value, torch.Tensor) and value.is_meta:
            raise TypeError(
                f"{name} must hold data, got a tensor of shape {tuple(value.shape)} on the device meta."
            )
    return found


def _refuse_unready(model: nn.Module) -> None:
    """Refuse parameters that have no shape yet."""
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise ValueError(
                f"{name} of {type(model).__name__} is initialised lazily, by the first forward: it has no"
                " values to measure. Run the module once on a batch in the function that builds it."
            )


def _refuse_sharded(model: nn.Module) -> None:
    """Refuse parameters of which this process has only a part."""
    wrapped = (
        (name, "wrapped in FullyShardedDataParallel")
        for name, module in model.named_modules()
        if type(module).__name__ == "FullyShardedDataParallel"
    )
    tensors = (
        (name, "a DTensor (fully_shard or a parallel plan)")
        for name, parameter in model.named_parameters()
        if hasattr(parameter, "device_mesh")
    )
    for name, what in (*wrapped, *tensors):
        raise ValueError(
            f"{name or 'the module'} of {type(model).__name__} is {what}, of which each process holds a part:"
            " its operations cannot be followed. Check the module as it is before that step; sharding does"
            " not change how its branches scale."
        )


def _refuse_quantised(model: nn.Module) -> None:
    """Refuse weights of integers: no gradient flows through them, and their branches would not be seen."""
    modules = (
        name for name, module in model.named_modules() if "quantized" in type(module).__module__.split(".")
    )
    weights = (
        name
        for name, value in model.named_parameters()
        if value.dim() > 1 and not (value.is_floating_point() or value.is_complex())
    )
    packed = (name for name, _ in model.named_buffers() if name.rpartition(".")[-1] == "qweight")
    for name in (*modules, *weights, *packed):
        raise ValueError(
            f"{name or 'the module'} of {type(model).__name__} is quantised: no gradient flows through its"
            " integers, so that the residual branches around it cannot be found. Check the module as it is"
            " before it is quantised; rounding its weights does not change how its branches scale."
        )


def placed(batch: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    """Return a copy of the batch on `device`, floating tensors in `dtype` and ready for a gradient."""

    def prepared(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to(device)
            if moved.is_floating_point():
                # A clone of a leaf is no leaf, so that a model may work on it in place.
                return moved.to(dtype).clone().requires_grad_(True).clone()
            return moved.clone()
        if isinstance(value, Mapping):
            return {key: prepared(item) for key, item in value.items()}
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(prepared(item) for item in value)
        return [prepared(item) for item in value] if isinstance(value, list) else value

    return Batch(
        tuple(prepared(value) for value in batch.args),
        {key: prepared(value) for key, value in batch.kwargs.items()},
    )


def run(model: nn.Module, batch: Batch) -> Any:
    """Return the output of one forward; an exception says what the model was called with."""
    first = next((parameter for parameter in model.parameters() if parameter.is_floating_point()), None)
    if first is None:
        raise ValueError(
            f"{type(model).__name__} has no floating parameters, so that there is nothing to measure."
        )
    ready = placed(batch, first.device, first.dtype)
    watched = {name: value for name, value in model.named_parameters() if not on_demand(value)}
    before = {name: _fingerprint(parameter) for name, parameter in watched.items()}
    try:
        output = model(*ready.args, **ready.kwargs)
    except Exception as error:
        error.add_note(
            f"deeplimit called {type(model).__name__} with {_shown(ready)}; pass batch= if it needs something"
            " else."
        )
        raise
    changed = [name for name, value in watched.items() if _fingerprint(value) != before[name]]
    if changed:
        raise ValueError(parameters_changed(model, changed))
    return output


def parameters_changed(model: nn.Module, names: Sequence[str]) -> str:
    """Return the message on a forward that changes parameters."""
    return (
        f"{type(model).__name__} changed its own parameters in a forward ({len(names)} of them, {names[0]} is"
        " the first), so that what is measured is not what is trained. Switch that off in its configuration,"
        " or do it outside of forward, and build the model again."
    )


def _fingerprint(parameter: nn.Parameter) -> float:
    """Return a number that changes where the values of a parameter change, at the cost of one sum."""
    values = parameter.detach()
    total = float((torch.view_as_real(values) if values.is_complex() else values).sum())
    return total if math.isfinite(total) else math.inf


def _shown(batch: Batch) -> str:
    items = [named(value) for value in batch.args] + [
        f"{key}={named(value)}" for key, value in batch.kwargs.items()
    ]
    return ", ".join(items) or "no arguments"


def outputs(value: Any) -> Iterator[torch.Tensor]:
    """Yield the floating tensors of an output that depend on parameters; outputs may be nested."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from outputs(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from outputs(item)
    elif is_dataclass(value):
        for entry in fields(value):
            yield from outputs(getattr(value, entry.name))


def made_up(model: nn.Module, name: str = "batch") -> Any:
    """Return a batch that fits the model's configuration (transformers, timm) or its first layer.

    Raises ValueError if neither says enough.
    """
    generator = torch.Generator().manual_seed(0)
    config = getattr(model, "config", None)
    pretrained = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if isinstance(pretrained, Mapping) and "input_size" in pretrained:
        channels, *_ = pretrained["input_size"]
        return torch.randn((2, channels, *_image_size(model, pretrained)), generator=generator)
    if (
        config is not None
        and getattr(model, "main_input_name", "") == "pixel_values"
        and hasattr(config, "image_size")
    ):
        side = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
        return {"pixel_values": torch.randn((2, config.num_channels, side, side), generator=generator)}
    vocabulary = getattr(config, "vocab_size", None)
    if isinstance(vocabulary, int):
        tokens = torch.randint(min(10, vocabulary - 1), vocabulary, TOKENS, generator=generator)
        batch: dict[str, Any] = {"input_ids": tokens}
        if "use_cache" in inspect.signature(model.forward).parameters:
            batch["use_cache"] = False  # a cache may be a state that is changed in place
        if getattr(config, "is_encoder_decoder", False):
            batch["decoder_input_ids"] = tokens.flip(0)
        return batch
    layer = next(
        (module for module in model.modules() if not list(module.children()) and list(module.parameters())),
        None,
    )
    if isinstance(layer, nn.Embedding):
        return torch.randint(0, layer.num_embeddings, TOKENS, generator=generator)
    if isinstance(layer, nn.Linear):
        return torch.randn((8, layer.in_features), generator=generator)
    for rank, convolution in ((1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)):
        if isinstance(layer, convolution):
            return torch.randn(
                (4, layer.in_channels, *[64, 32, 8][rank - 1 : rank] * rank), generator=generator
            )
    first = type(layer).__name__ if layer is not None else "nothing"
    raise ValueError(
        f"{name} was not given and cannot be made up for {type(model).__name__}, whose first layer is"
        f" {first}: pass {name}=, a tensor, a tuple of arguments or a dict of keyword arguments."
    )


def _image_size(model: nn.Module, pretrained: Mapping[str, Any]) -> tuple[int, int]:
    """Return the image size that a timm model was built for, or its configuration's smallest."""
    size = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if size is not None:
        return tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if pretrained.get("fixed_input_size"):
        return tuple(pretrained["input_size"][1:])
    return (64, 64)
