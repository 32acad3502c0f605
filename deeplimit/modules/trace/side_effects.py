"""Runs a user's module without side effects: modes, buffers, requires_grad and hooks are as before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

SMALL = 10_000_000


@contextlib.contextmanager
def threads_for(model: nn.Module) -> Iterator[None]:
    """One thread per operation if the model is small: its operations are too short to share."""
    before = torch.get_num_threads()
    if sum(parameter.numel() for parameter in model.parameters()) < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def undisturbed(model: nn.Module, *, trained: bool = False) -> Iterator[None]:
    """`model` ready to be measured inside, and in every bit as it was afterwards, also after an exception.

    The model is in evaluation mode, so that dropout and stochastic depth draw nothing. Batch normalisation
    still normalises with the batch, since running statistics before training mean nothing; those of a
    `trained` model do, and it uses them. Every floating parameter requires a gradient, so that the graph is
    whole even if parts of the model are frozen. NOT undone: changes that a forward makes inside lists and
    other objects.
    """
    modules = list(model.modules())
    modes = [module.training for module in modules]
    # What a forward rebinds: self.average = 0.9 * self.average + ..., self.calls += 1, self.last = x
    # with its whole graph.
    attributes = [
        (bound, dict(bound))
        for module in modules
        if not isinstance(module, torch.jit.ScriptModule)
        for bound in (module.__dict__, module._buffers)
    ]
    values = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    frozen = [
        parameter
        for parameter in model.parameters()
        if parameter.is_floating_point() and not parameter.requires_grad
    ]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    try:
        for parameter, _ in gradients:
            parameter.grad = None  # a backward inside would add to the tensor that is there
        for module in modules:
            module.training = isinstance(module, _BatchNorm) and not trained
        for parameter in frozen:
            parameter.requires_grad_(True)
        with (
            threads_for(model),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.compiler.set_stance("force_eager"),
        ):
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter in frozen:
            parameter.requires_grad_(False)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for attribute, bound in attributes:
            attribute.clear()
            attribute.update(bound)
        with torch.no_grad():
            for buffer, before in values:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
