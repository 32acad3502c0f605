"""What a callback does before and during training, whichever library trains."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.modules.depth_check import DepthReport, Rule, branch_scalars, check_depth, probe
from deeplimit.modules.depth_check.runs import Factory

Unexpected = Literal["raise", "warn"]
COLLECTIVE = ("FullyShardedDataParallel", "SyncBatchNorm")
"""Classes whose forward waits for all processes; the class of FSDP is not imported only to be named."""


@final
@dataclass(frozen=True)
class Settings:
    """The arguments of a callback, which `DepthCheckCallback` documents, and what follows from them."""

    batch: Any
    factory: Factory | None
    expected: float | str | Rule | None
    depths: Sequence[int]
    every: int
    blocks: str | Sequence[str] | None
    prefix: str
    unexpected: Unexpected

    def __post_init__(self) -> None:
        validation.integer(self.every, "every", minimum=1, hint="It counts steps of the optimiser.")
        validation.instance(self.prefix, "prefix", str, "a string, with which every key begins")
        validation.choice(self.unexpected, "unexpected", ("raise", "warn"))
        if self.factory is not None and not callable(self.factory):
            raise TypeError(
                f"factory must be a function depth -> nn.Module, got {validation.named(self.factory)}."
            )
        if self.factory is not None:
            validation.depths(self.depths)
        elif isinstance(self.expected, int | float):
            raise ValueError(
                f"expected={self.expected:g} is an exponent, which one module cannot show: pass"
                " factory=, a function depth -> nn.Module, or a rule that states sizes, such as 'gpt-2'."
            )

    def check(self, model: nn.Module, *, started: bool) -> DepthReport | None:
        """Return the report before training; None where nothing is asked, or training has `started` before.

        Weights that are trained are no initialisation, so that only a factory's modules are checked then.
        """
        _refuse_collective(model)
        if self.factory is not None:
            report = check_depth(
                self.factory, self.depths, batch=self.batch, expected=self.expected, blocks=self.blocks
            )
        elif self.expected is not None and not started:
            report = probe(model, self.batch, expected=self.expected, blocks=self.blocks)  # type: ignore[arg-type]
        else:
            return None
        if report.verdict == "not as expected" and self.unexpected == "raise":
            raise RuntimeError(str(report))
        if not report.ok:
            warnings.warn(report.in_one_line, stacklevel=3)
        return report

    def due(self, step: int) -> bool:
        """Whether the branches are measured after this step of the optimiser."""
        return step % self.every == 0

    def scalars(self, model: nn.Module) -> dict[str, float]:
        """Return what is logged; module, gradients and global generators are left as they were."""
        return branch_scalars(model, self.batch, prefix=self.prefix, blocks=self.blocks)


def _refuse_collective(model: nn.Module) -> None:
    """Refuse a forward in which each process waits for the others, since only the first runs it here."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return
    if torch.distributed.get_world_size() == 1:
        return
    found = [type(module).__name__ for module in model.modules() if type(module).__name__ in COLLECTIVE]
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        found.append("ZeRO stage 3 of DeepSpeed")
    if found:
        raise ValueError(
            f"{type(model).__name__} holds {found[0]}, whose forward waits for every process, and the"
            " callback runs the first alone: leave the callback out, and check the module before it is"
            " distributed."
        )
