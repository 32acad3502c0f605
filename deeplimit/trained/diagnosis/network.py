"""One trained network, diagnosed: everything of it that can be compared over depth, one stack at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from deeplimit.modules.trace.batches import Batch, as_batch
from deeplimit.modules.trace.branches import layout, record
from deeplimit.modules.trace.recording import Trace
from deeplimit.trained.diagnosis import wording
from deeplimit.trained.diagnosis.branch_functions import functions_on
from deeplimit.trained.diagnosis.influence import Influence, influence
from deeplimit.trained.diagnosis.invariants import invariants
from deeplimit.trained.diagnosis.layer_families import COPIES, SAME, NoNumberedWeightsError, families
from deeplimit.trained.diagnosis.layer_gram import LayerGram, copies, repeated
from deeplimit.trained.diagnosis.network_report import Examined, NetworkDiagnosis
from deeplimit.trained.diagnosis.networks_of_sweep import made_by
from deeplimit.trained.diagnosis.sources import Source, source_of
from deeplimit.trained.diagnosis.stacks import NOISE, STATES, WEIGHTS, Stack
from deeplimit.trained.diagnosis.stream_states import stream_states
from deeplimit.trained.diagnosis.weight_chains import Seen, seen_in
from deeplimit.version import versions

SHOWN = 8
"""Layers that a caveat names."""
UNEVEN = 3.0
"""Ratio of sizes from which a reader must know that they were set aside, as in `check_depth`."""


def diagnose_network(
    weights: Any,
    *,
    batch: Any = None,
    layers: str | None = None,
    groups: Sequence[int] | None = None,
    blocks: str | Sequence[str] | None = None,
    seed: int = 0,
    null: Callable[[], nn.Module] | None = None,
) -> NetworkDiagnosis:
    """Return what the layers of one trained network, or of several replicates, say about depth.

    `diagnose` documents the arguments.
    """
    started = time.perf_counter()
    replicates = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    how: dict[str, Any] = {"batch": batch, "layers": layers, "groups": groups, "blocks": blocks, "seed": seed}
    runs = [_run(each, **how) for each in replicates]
    first = runs[0]
    pooled = _pooled(runs)
    if (twice := repeated([run.grams for run in runs])) is not None:
        raise ValueError(
            f"weights must be networks of different seeds, but weights[{twice[1]}] has the layers of"
            f" weights[{twice[0]}]; leave it out, or train another one."
        )
    untrained: tuple[Examined, ...] = ()
    without: tuple[str, ...] = ()
    if null is not None:
        made = [_run(made_by(null, seed + k), **how) for k in range(len(replicates))]
        reasons_why, before = dict(made[0].left_out), _pooled(made)
        for key in pooled.keys() & before.keys():
            layers_then, layers_now = len(before[key].products), len(pooled[key].products)
            if layers_then != layers_now:
                raise ValueError(
                    f"null must make the network that weights was before training; {key[0]} has {layers_then}"
                    f" layers there, and {layers_now} in weights. Make one of the same depth."
                )
        untrained = _examined(before, seed, reasons_why)
        if not untrained:
            name, reason = next(iter(reasons_why.items()), ("null", "it has no layers"))
            without = (wording.NO_NULL.format(name, reason.rstrip(".")),)
    left_out = dict(first.left_out)
    objects = _examined(pooled, seed, left_out)
    if not objects:
        reasons = [f"{name}: {reason.rstrip('.')}." for name, reason in [*left_out.items()][:3]]
        if all(SAME in reason for reason in left_out.values()):
            reasons.append(COPIES)
        elif not isinstance(replicates[0], nn.Module):
            reasons.append("dl.diagnose(model, batch=x) takes the module: its branches are functions.")
        told = f"{first.source.name} must have layers that can be compared over depth, got none:"
        raise ValueError("\n- ".join([told, *reasons]))
    shuffled = {key: gram.shuffled(seed) for key, gram in pooled.items()} if null is not None else {}
    return NetworkDiagnosis(
        model=first.source.name,
        objects=objects,
        streams=tuple(stream for run in runs for stream in run.streams),
        left_out=left_out,
        made_up=isinstance(replicates[0], nn.Module) and batch is None,
        seconds=time.perf_counter() - started,
        versions=versions(),
        replicates=len(replicates),
        untrained=untrained,
        shuffled=_examined(shuffled, seed, {}),
        reservations=_reservations(runs) + _uneven(pooled) + without,
    )


def _run(
    weights: Any,
    *,
    batch: Any,
    layers: str | None,
    groups: Sequence[int] | None,
    blocks: str | Sequence[str] | None,
    seed: int,
) -> _Run:
    """Return what is found of one network."""
    run = _Run(source_of(weights), seed)
    if isinstance(weights, nn.Module):
        given = as_batch(weights, batch)
        trace = record(weights, given, trained=True)
        run.read_weights(layers, groups, seen_in(trace, blocks))
        run.run_module(weights, given, trace, blocks)
    else:
        run.read_weights(layers, groups, None)
    return run


def _pooled(runs: Sequence[_Run]) -> dict[tuple[str, str], LayerGram]:
    """Return the products of layers of all networks, by object; all must have the same objects."""
    first = runs[0].grams
    for place, run in enumerate(runs):
        forms = {key: (gram.products.shape, gram.groups) for key, gram in run.grams.items()}
        known = {key: (gram.products.shape, gram.groups) for key, gram in first.items()}
        if forms != known:
            differ = sorted(str(key[0]) for key in {*forms} ^ {*known}) or ["numbers of layers"]
            raise ValueError(
                f"weights must be networks of one form, but weights[{place}] differs from weights[0] in"
                f" {', '.join(differ[:4])}; give networks of several depths as {{depth: network}}."
            )
    return {key: LayerGram.pooled([run.grams[key] for run in runs]) for key in first}


def _reservations(runs: Sequence[_Run]) -> tuple[str, ...]:
    """Return the caveats of weights that were read without their forward."""
    by_name = not all(run.seen_or_stacked for run in runs)
    several = any(run.stacks > 1 for run in runs)
    orders = tuple(wording.ORDER.format(order) for order in runs[0].orders)
    return orders + (wording.NO_MODULE,) * by_name + (wording.ENTRY_BY_ENTRY,) * several


def _uneven(grams: Mapping[tuple[str, str], LayerGram]) -> tuple[str, ...]:
    """Return the caveats of layers that are copies, and of sizes, about the first object that has such."""
    caveats: dict[str, str] = {}
    for (name, what), gram in grams.items():
        sizes = np.sqrt(np.diagonal(gram.products))
        found, positive = copies(gram), sizes[sizes > 0]
        whole = f"{name} ({what})"
        if found:
            which = ", ".join(map(str, found[:SHOWN])) + (", ..." if len(found) > SHOWN else "")
            caveats.setdefault(wording.COPIED, wording.COPIED.format(which, whole))
        if what == WEIGHTS and len(positive) and positive.max() > UNEVEN * positive.min():
            ends = float(positive.min()), float(positive.max())
            caveats.setdefault(wording.SIZES, wording.SIZES.format(whole, *ends))
    return tuple(caveats.values())


def _examined(
    grams: Mapping[tuple[str, str], LayerGram], seed: int, left_out: dict[str, str]
) -> tuple[Examined, ...]:
    """Return the statistics of all objects, or the reason why one has none."""
    found = []
    for (name, what), gram in grams.items():
        try:
            found.append(Examined.of(name, gram, what, seed, len(grams)))
        except ValueError as error:
            left_out[f"{name} ({what})"] = str(error).rstrip(".")
    return tuple(found)


class _Run:
    """Collects what is found of one network; holds one stack at a time."""

    def __init__(self, source: Source, seed: int) -> None:
        self.source, self.seed = source, seed
        self.grams: dict[tuple[str, str], LayerGram] = {}
        self.streams: list[Influence] = []
        self.left_out: dict[str, str] = {}
        self.seen_or_stacked, self.stacks = True, 0
        self.orders: list[str] = []

    def examine(self, stack: Stack, what: str) -> None:
        """Keep the products of one stack's layers."""
        self.grams[stack.name, what] = LayerGram.of(stack)

    def read_weights(self, layers: str | None, groups: Sequence[int] | None, seen: Seen | None) -> None:
        """Examine the weights that can be compared over depth."""
        try:
            found = families(self.source, layers, groups)
        except NoNumberedWeightsError as error:
            self.left_out["weights"] = str(error).rstrip(".")
            return
        self.left_out.update(found.left_out)
        self.seen_or_stacked = seen is not None or not found.numbered
        self.stacks = 0 if seen is not None or found.numbered else len(found.found)
        for stack in invariants(self.source, found, self.left_out, seen, orders=self.orders):
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
