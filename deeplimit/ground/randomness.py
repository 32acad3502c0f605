"""Streams of random numbers: one per (seed, block, purpose), so that nothing else decides a path's numbers.

A result is bit-identical whatever the number of workers, and any block can be drawn again alone. The global
generators of torch, numpy and Python are as they were afterwards: only what a user's own code draws while it
builds a module comes from them, `seeded`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from enum import IntEnum

import numpy as np
import torch


class Purpose(IntEnum):
    """What a stream is for; the number enters the seed, so it must never change."""

    INPUT_LAYER = 0
    INPUTS = 1
    NETWORK_WEIGHTS = 2
    LIMIT_NOISE = 3
    PROBE = 4
    LAW_OF_NETWORK = 5
    LAW_OF_LIMIT = 6
    LAW_TESTS = 7
    PROPAGATED_WEIGHTS = 10
    PROPAGATED_INPUTS = 11
    PROPAGATED_GRADIENTS = 12
    STEP_PRODUCTS = 20
    LAYER_PRODUCTS = 21
    STEP_BIASES = 22
    MODULE_WEIGHTS = 30


def generator(
    seed: int, purpose: Purpose, block: int = 0, index: int = 0, device: str | torch.device = "cpu"
) -> torch.Generator:
    """Return a new generator for one purpose of one block; `index` distinguishes several streams."""
    entropy = np.random.SeedSequence([seed, int(purpose), block, index]).generate_state(2, np.uint32)
    return torch.Generator(device=device).manual_seed(int(entropy[0]) << 32 | int(entropy[1]))


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Every global generator (torch, numpy, random) set to `seed` inside, and as it was before afterwards."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if started else []
    first = torch.initial_seed()
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices):
        try:
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
            # The seed waits for CUDA to start, or CUDA started inside: all devices get their seed again.
            if not started:
                torch.cuda.manual_seed_all(first)
