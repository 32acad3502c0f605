"""Streams of random numbers: one per (seed, block, purpose), so that nothing else decides a path's numbers.

A result is bit-identical whatever the number of workers, and any block can be drawn again alone. The global
generators of torch, numpy and Python are as they were afterwards: only what a user's own code draws while it
builds a module comes from them, `seeded`.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from functools import cache
from typing import Any

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
    LAW_COARSENESS = 8
    PROPAGATED_WEIGHTS = 10
    PROPAGATED_INPUTS = 11
    PROPAGATED_GRADIENTS = 12
    STEP_PRODUCTS = 20
    LAYER_PRODUCTS = 21
    STEP_BIASES = 22
    MODULE_WEIGHTS = 30
    FURTHER_DRAWS = 31
    LAYER_ORDER = 40
    SIGN_FLIPS = 41
    LAYER_SIGNS = 42
    DEPTH_CONTROLS = 43
    DATA_ROWS = 50
    DATA_INPUTS = 51
    DATA_EMBEDDING = 52
    TRAINED_WEIGHTS = 60
    TRAINED_ENDS = 61
    ORDER_OF_INPUTS = 62
    SOLVER_PATHS = 70
    SOLVER_PILOT = 71
    SOLVER_STEPS = 72
    BLOCKS = 80


def generator(
    seed: int, purpose: Purpose, block: int = 0, index: int = 0, device: str | torch.device = "cpu"
) -> torch.Generator:
    """Return a new generator for one purpose of one block; `index` distinguishes several streams.

    On a CPU the whole state is a hash of the arguments. `manual_seed` keeps 32 bits of a seed there, so that
    two of 10,000 streams would be equal with probability 1 %. On other devices it keeps 64 bits.

    Raises RuntimeError if the installed torch stores the state of a CPU generator in another layout.

    Examples:
        >>> first, second = (generator(0, Purpose.INPUTS, block) for block in (0, 1))
        >>> torch.equal(torch.randn(3, generator=first), torch.randn(3, generator=second))
        False
    """
    made = torch.Generator(device=device)
    if made.device.type == "cpu":
        return made.set_state(_state_of(f"{seed:d} {purpose:d} {block:d} {index:d}"))
    entropy = np.random.SeedSequence([seed, int(purpose), block, index]).generate_state(2, np.uint32)
    return made.manual_seed(int(entropy[0]) << 32 | int(entropy[1]))


STREAMS = "SHAKE-128"
"""How streams are made from seeds. Blocks of two ways belong to no common result, so a store keeps it."""

WORDS = 624
FIRST_WORD = 24
"""The first byte of the words in a state. Before them are the seed (64 bits), the number of words left (32),
whether it is seeded (32) and the next word (64).
"""


def _state_of(key: str) -> torch.Tensor:
    """Return the state of a CPU generator that is made from `key` alone and has drawn nothing."""
    # The words of a SeedSequence would not do: each depends on 32 of its 128 bits, so one pair of streams in
    # 2^30 shares a quarter of its words, and MT19937 takes long to mix them.
    words = np.frombuffer(hashlib.shake_128(key.encode()).digest(4 * WORDS), dtype="<u4")
    state = _seeded_state().copy()
    state[FIRST_WORD : FIRST_WORD + 8 * WORDS].view(np.uint64)[:] = words
    # MT19937 reads one bit of the first word. Set, as numpy sets it, it keeps the state from being zero.
    state[FIRST_WORD : FIRST_WORD + 8].view(np.uint64)[0] = 0x80000000
    state[:8].view(np.uint64)[0] = int(words[0]) << 32 | int(words[1])  # initial_seed() tells streams apart
    return torch.from_numpy(state)


@cache
def _seeded_state() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a seeded CPU generator, once numpy's MT19937 confirms where its words lie."""
    seed = 5
    state: np.ndarray[Any, np.dtype[np.uint8]] = torch.Generator().manual_seed(seed).get_state().numpy()
    end = FIRST_WORD + 8 * WORDS
    known = (
        len(state) >= end
        and state[:FIRST_WORD].tobytes() == struct.pack("=QiiQ", seed, 1, 1, 0)
        and np.array_equal(
            state[FIRST_WORD:end].view(np.uint64),
            np.random.RandomState(seed).get_state(legacy=False)["state"]["key"],
        )
        and not state[end:].any()
    )
    if not known:
        raise RuntimeError(
            f"torch {torch.__version__} stores the state of a CPU generator in {len(state)} bytes that begin"
            f" {state[: FIRST_WORD + 16].tobytes().hex()} for seed {seed}, a layout that deeplimit does not"
            " know. Install another version of torch (2.13 is known to work)."
        )
    return state
