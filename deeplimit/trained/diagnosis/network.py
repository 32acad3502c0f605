"""One trained network, diagnosed: everything of it that can be compared over depth, one stack at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from torch import nn

from deeplimit.modules.trace.batches import Batch, as_batch
from deeplimit.modules.trace.branches import layout, record
from deeplimit.modules.trace.recording import Trace
from deeplimit.trained.diagnosis.branch_functions import functions_on
from deeplimit.trained.diagnosis.influence import Influence, influence
from deeplimit.trained.diagnosis.invariants import Seen, invariants, seen_in
from deeplimit.trained.diagnosis.layer_families import NoNumberedWeightsError, families
from deeplimit.trained.diagnosis.network_report import NOISE, STATES, WEIGHTS, Examined, NetworkDiagnosis
from deeplimit.trained.diagnosis.sources import Source, source_of
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.diagnosis.stream_states import stream_states
from deeplimit.version import versions


def diagnose_network(
    weights: Any,
    *,
    batch: Any = None,
    layers: str | None = None,
    groups: Sequence[int] | None = None,
    blocks: str | Sequence[str] | None = None,
    seed: int = 0,
) -> NetworkDiagnosis:
    """Return what the layers of one trained network say about depth; `diagnose` documents the arguments."""
    started = time.perf_counter()
    source = source_of(weights)
    run = _Run(source, seed)
    if isinstance(weights, nn.Module):
        given = as_batch(weights, batch)
        trace = record(weights, given, trained=True)
        run.read_weights(layers, groups, seen_in(trace, blocks))
        run.run_module(weights, given, trace, blocks)
    else:
        run.read_weights(layers, groups, None)
    if not run.objects:
        reasons = [f"{name}: {reason.rstrip('.')}." for name, reason in [*run.left_out.items()][:3]]
        if not isinstance(weights, nn.Module):
            reasons.append("Pass the module: its branches are functions.")
        told = f"{source.name} must have layers that can be compared over depth, got none:"
        raise ValueError("\n- ".join([told, *reasons]))
    return NetworkDiagnosis(
        model=source.name,
        objects=tuple(run.objects),
        streams=tuple(run.streams),
        left_out=run.left_out,
        made_up=isinstance(weights, nn.Module) and batch is None,
        seconds=time.perf_counter() - started,
        versions=versions(),
    )


class _Run:
    """Collects what is found of one network; holds one stack at a time."""

    def __init__(self, source: Source, seed: int) -> None:
        self.source, self.seed = source, seed
        self.objects: list[Examined] = []
        self.streams: list[Influence] = []
        self.left_out: dict[str, str] = {}

    def examine(self, stack: Stack, what: str) -> None:
        """Take the statistics of one stack, or the reason why it has none."""
        try:
            self.objects.append(Examined.of(stack, what, self.seed))
        except ValueError as error:
            self.left_out[f"{stack.name} ({what})"] = str(error).rstrip(".")

    def read_weights(self, layers: str | None, groups: Sequence[int] | None, seen: Seen | None) -> None:
        """Examine the weights that can be compared over depth."""
        try:
            found = families(self.source, layers, groups)
        except NoNumberedWeightsError as error:
            self.left_out["weights"] = str(error).rstrip(".")
            return
        self.left_out.update(found.left_out)
        for stack in invariants(self.source, found, self.left_out, seen):
            self.examine(stack, WEIGHTS)

    def run_module(
        self, model: nn.Module, given: Batch, trace: Trace, blocks: str | Sequence[str] | None
    ) -> None:
        """Examine the branches of a module as functions, and what they do to its streams."""
        try:
            found = layout(trace, blocks)
        except ValueError as error:
            self.left_out["branches"] = str(error).rstrip(".")
            return
        for probe, what in (("noise", NOISE), ("states", STATES)):
            stacks, left_out = functions_on(model, given, probe, blocks, self.seed)
            self.left_out.update({f"{name} ({what})": reason for name, reason in left_out.items()})
            for stack in stacks:
                self.examine(stack, what)
        for stream in stream_states(model, given, found, self.seed).values():
            self.streams.append(influence(stream))
