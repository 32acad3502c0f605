"""What a case of a depth check is: a network, its rule, what must come out and what must be named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

DEPTHS = [4, 8, 16, 32]
DEEPEST = DEPTHS[-1]
N = 2 * DEEPEST  # branches of a transformer of the largest depth
ROOT_N, ROOT_L = N**0.5, DEEPEST**0.5
HARD_CODED = (N / 24) ** 0.5
FIRST = ((N * (DEEPEST - 4) + 4) / DEEPEST) ** 0.5  # root mean square over blocks of which four are right


@dataclass(frozen=True)
class Fault:
    """What a finding must name, and by how much it is too large at the largest depth (None: the rule leaves
    it open).
    """

    parameter: str
    factor: float | None = None


@dataclass(frozen=True)
class Case:
    """A network, the rule it is held to, and what must come out.

    `exponent` is the truth for every kind of branch where all have one (inf: updates of exactly zero).
    `number` is the rule's exponent, as one would pass it instead of the name, and `seen_by_number` what must
    come of that: a factor that does not depend on depth cannot be seen by an exponent. None: no such number,
    or either answer is right.
    """

    name: str
    factory: Callable[[int], torch.nn.Module]
    batch: Callable[[int], torch.Tensor]
    expected: str | float
    faults: tuple[Fault, ...] = ()
    exponent: float | None = None
    number: float | None = None
    seen_by_number: bool | None = None

    @property
    def ok(self) -> bool:
        return not self.faults


def faults(*names, factor=None):
    return tuple(Fault(name, factor) for name in names)


def right(name, factory, batch, expected, exponent, number=None):
    return Case(name, factory, batch, expected, (), exponent, number, None if number is None else False)


def wrong(name, factory, batch, expected, found, *, exponent=None, number=None, seen=None):
    assert found
    return Case(name, factory, batch, expected, tuple(found), exponent, number, seen)


PROJ, FC2 = "blocks.*.attn.proj.weight", "blocks.*.mlp.fc2.weight"
OUT = (PROJ, FC2)
Q, K, V, FC1 = (
    "blocks.*.attn.q.weight",
    "blocks.*.attn.k.weight",
    "blocks.*.attn.v.weight",
    "blocks.*.mlp.fc1.weight",
)
