"""A second route to the updates of residual branches: forward hooks on modules that the test names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.modules.depth_check.one_depth import measure_module
from deeplimit.modules.trace.batches import as_batch


def hooked(model: nn.Module, batch: Any, branches: Sequence[nn.Module]) -> list[float]:
    """Return the root mean squares of what these modules return in one forward, in order of execution."""
    sizes: list[float] = []

    def note(module: nn.Module, given: Any, result: Any) -> None:
        first = result[0] if isinstance(result, tuple) else result
        sizes.append(float(first.detach().double().square().mean().sqrt()))  # now: it may be changed in place

    handles = [branch.register_forward_hook(note) for branch in branches]
    training = model.training
    try:
        prepared = as_batch(model, batch)
        model.eval()(*prepared.args, **prepared.kwargs)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    return sizes


def assert_as_hooked(
    build: Callable[[], nn.Module], batch: Any, branches: Callable[[nn.Module], Sequence[nn.Module]]
) -> tuple[dl.Branch, ...]:
    """Assert that the residual branches found are what these modules return, one for one; return them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build()
    found = [one for one in measure_module(model, as_batch(model, batch)).branches if one.counted]
    assert [one.update for one in found] == pytest.approx(hooked(model, batch, branches(model)), rel=1e-4)
    return tuple(one.branch for one in found)
