"""One network, trained for a few steps on one batch: how far its stream and each of its branches have moved.

Four forwards measure one step. An ordinary one gives the change of the features. In a second the stream is
that of the untrained network (`replay`): what a branch adds there has changed by its weights alone. Two more,
with a small share of the weights' change forth and back, give the linear part of this change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from deeplimit.common.global_state import alone, seeded
from deeplimit.modules.trace.batches import Batch, outputs, run
from deeplimit.modules.trace.branches import Layout, layout
from deeplimit.modules.trace.forwards import recorded
from deeplimit.modules.trace.losses import Loss, first_output, loss_of
from deeplimit.modules.trace.operations import size
from deeplimit.modules.trace.side_effects import undisturbed
from deeplimit.modules.training_check.replay import Places, States, Watched
from deeplimit.modules.training_check.settings import Settings, settings_of
from deeplimit.modules.training_check.several_optimizers import name_of

SHARE = 1 / 8
"""Share of the weights' change by which they are moved forth and back. The error of the linear part is a
64th of the cubic one; round-off is eight times that of the whole change.
"""


ROUNDED = 10.0
"""A departure from linearity below this many units of the update's round-off may be round-off alone."""
DOUBLE = 1e-15
"""Machine epsilon above which there is a finer arithmetic to tell by."""


@dataclass(frozen=True)
class BranchAfter:
    """One kind of branch of one network, after each of the measured steps (S,).

    Attributes:
        key, kind, stream, count: as in `trace`; how many layers have it.
        weights: number of weights that a branch applies one after another or side by side.
        size: root mean square of what the branches add before training; 0 where they start at zero.
        changes: change of what they add on the untrained stream, relative to it (S,). Where they start at
            zero, relative to the last state of the stream before training.
        coherence: size of the sum of these changes over the sum of their sizes (S,); nan if they have several
            shapes.
        nonlinearity: distance of these changes from their linear part in the weights, relative to it (S,);
            nan with one weight.
    """

    key: str
    kind: str
    stream: int
    count: int
    weights: int
    size: float
    changes: tuple[float, ...]
    coherence: tuple[float, ...]
    nonlinearity: tuple[float, ...]


@dataclass(frozen=True)
class StreamAfter:
    """One stream of one network: size of its last state before training, its relative change (S,)."""

    size: float
    changes: tuple[float, ...]


@dataclass(frozen=True)
class AfterSteps:
    """Everything measured of one network: kinds of branches, streams, and the optimizer before any step.

    Attributes:
        model: class of the module.
        branches, streams: what moved.
        losses: loss before training and after each of the measured steps (S + 1,).
        outputs: root mean square of the change of the first output (S,).
        settings: learning rate, epsilon and weight decay of every parameter.
        optimizer: class of the optimizer.
        epsilon: machine epsilon of the streams' dtype.
    """

    model: str
    branches: tuple[BranchAfter, ...]
    streams: tuple[StreamAfter, ...]
    losses: tuple[float, ...]
    outputs: tuple[float, ...]
    settings: tuple[Settings, ...]
    optimizer: str
    epsilon: float


@alone()
def train_and_measure(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    loss: Loss | None,
    steps: Sequence[int],
    factor: float,
    *,
    blocks: str | Sequence[str] | None = None,
    seed: int = 0,
) -> AfterSteps:
    """Return what `steps` of training change; every learning rate is multiplied by `factor`.

    The module's parameters and the optimizer's learning rates are put back afterwards.
    """
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    with undisturbed(model), seeded(seed):
        output, trace = recorded(model, batch)
        found = layout(trace, blocks)
        objective = _objective(model, output, loss, seed)
        del output
        settings = settings_of(model, optimizer, found)
        places, epsilon = Places.of(trace, found), found.joins[0].addition.epsilon
        del trace
        before = _watched(model, batch, places)
        after: list[_Change] = []
        losses, seen = [], []
        with _kept(model) as start, _scaled(optimizer, factor):
            for step in range(max(steps) + 1):
                if step in steps:
                    after.append(_changed(model, batch, places, before, start))
                output = run(model, batch)
                value = objective(output)
                if step in (0, *steps):
                    losses.append(float(value.detach()))
                    seen.append(next(outputs(output), value).detach().clone())
                if step == max(steps):
                    break
                _step(model, optimizer, value, frozen)
    ends = [size(before.sums[end]) for end in places.ends]
    return AfterSteps(
        type(getattr(model, "_orig_mod", model)).__name__,
        _branches(found, before, after, ends),
        tuple(
            StreamAfter(end, tuple(change.streams[number] for change in after))
            for number, end in enumerate(ends)
        ),
        tuple(losses),
        tuple(size(later - seen[0]) for later in seen[1:]),
        settings,
        name_of(optimizer),
        epsilon,
    )


@alone()
def losses_after(
    model: nn.Module,
    optimizers: Callable[[], torch.optim.Optimizer],
    batch: Batch,
    loss: Loss | None,
    steps: int,
    factors: Sequence[float],
    *,
    seed: int = 0,
) -> tuple[float, ...]:
    """Return the loss after `steps` of training at every factor of all learning rates; infinite if it
    diverges. The module's parameters are put back.
    """
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    found = []
    with undisturbed(model), seeded(seed):
        objective = _objective(model, run(model, batch), loss, seed)
        for factor in factors:
            optimizer = optimizers()
            with _kept(model), _scaled(optimizer, factor):
                for _ in range(steps):
                    _step(model, optimizer, objective(run(model, batch)), frozen)
                value = float(objective(run(model, batch)).detach())
            found.append(value if math.isfinite(value) else math.inf)
    return tuple(found)


def _objective(model: nn.Module, output: Any, loss: Loss | None, seed: int) -> Loss:
    """Return the user's loss, checked; if there is none, the distance of the first output from noise."""
    if loss is not None:
        loss_of(output, loss)
        return loss
    first = first_output(model, output)
    target = torch.randn(first.shape, generator=torch.Generator().manual_seed(seed % 2**64)).to(first)
    return lambda given: 0.5 * (next(outputs(given)) - target).square().mean()


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, value: torch.Tensor, frozen: Sequence[nn.Parameter]
) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    value.backward()  # type: ignore[no-untyped-call]
    for parameter in frozen:
        parameter.grad = None
    try:
        optimizer.step()
    except TypeError as error:
        error.add_note(f"deeplimit called {name_of(optimizer)}.step() without a closure.")
        raise


@contextmanager
def _kept(model: nn.Module) -> Iterator[Mapping[nn.Parameter, torch.Tensor]]:
    """Yield the parameters' values, and put them back afterwards."""
    start = {parameter: parameter.detach().clone() for parameter in model.parameters()}
    try:
        yield start
    finally:
        _put(start)


@contextmanager
def _scaled(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """Every learning rate multiplied by `factor`; as it was afterwards."""
    rates = [(group, group["lr"]) for group in optimizer.param_groups]
    for group, rate in rates:
        group["lr"] = rate * factor
    try:
        yield
    finally:
        for group, rate in rates:
            group["lr"] = rate


def _put(values: Mapping[nn.Parameter, torch.Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in values.items():
            parameter.copy_(value)


@dataclass(frozen=True)
class _Change:
    """What one step count has changed: streams' ends, relative; updates of the branches, and the linear part
    of their change.
    """

    streams: tuple[float, ...]
    updates: tuple[torch.Tensor, ...]
    linear: tuple[torch.Tensor, ...]


def _watched(
    model: nn.Module,
    batch: Batch,
    places: Places,
    replayed: States | None = None,
    *,
    begun: States | None = None,
) -> States:
    watched = Watched(places, replayed, begun=begun)
    with watched:
        run(model, batch)
    if watched.count != places.additions:
        raise ValueError(
            f"{type(model).__name__} added two activations {places.additions} times in one forward and"
            f" {watched.count} times in another on the same batch: its path depends on the values of its"
            " states or weights. Pass blocks= to point at blocks that always run, or a batch for which the"
            " path is fixed."
        )
    states: States = watched.states
    return states


def _changed(
    model: nn.Module,
    batch: Batch,
    places: Places,
    before: States,
    start: Mapping[nn.Parameter, torch.Tensor],
) -> _Change:
    """Return what training has changed, in double precision where round-off would be taken for curvature."""
    found = _differences(model, batch, places, before, start)
    if not _is_rounded(found, before, places):
        return found
    with _in_double(model):
        trained = {parameter: parameter.detach().clone() for parameter in start}
        exact = {parameter: value.double() for parameter, value in start.items()}
        try:
            _put(exact)
            began = _watched(model, batch, places)
            _put(trained)
            return _differences(model, batch, places, began, exact)
        except RuntimeError:  # a module that insists on its own dtype
            _put(trained)
            return found


def _is_rounded(found: _Change, before: States, places: Places) -> bool:
    """Whether some branch is as far from linear as round-off alone would make it."""
    for place, update, linear in zip(places.updates, found.updates, found.linear, strict=True):
        epsilon = torch.finfo(update.dtype).eps
        level = ROUNDED * epsilon * size(before.updates[place]) / SHARE
        if epsilon > DOUBLE and 0 < size(update - linear) < level:
            return True
    return False


@contextmanager
def _in_double(model: nn.Module) -> Iterator[None]:
    """Every floating parameter and buffer in double precision inside, and in its own dtype afterwards."""
    tensors = [*model.parameters(), *model.buffers()]
    kept = [(each, each.dtype, each.grad) for each in tensors if each.is_floating_point()]
    for each, _, _ in kept:
        each.grad = None
        each.data = each.data.double()
    try:
        yield
    finally:
        for each, dtype, gradient in kept:
            each.data = each.data.to(dtype)
            each.grad = gradient


def _differences(
    model: nn.Module,
    batch: Batch,
    places: Places,
    before: States,
    start: Mapping[nn.Parameter, torch.Tensor],
) -> _Change:
    now = _watched(model, batch, places, begun=before)
    streams = tuple(_relative(now.sums[end], before.sums[end]) for end in places.ends)
    trained = {parameter: parameter.detach().clone() for parameter in start}
    after = _watched(model, batch, places, before)
    moved = []
    for share in (SHARE, -SHARE):
        _put({parameter: value + share * (trained[parameter] - value) for parameter, value in start.items()})
        moved.append(_watched(model, batch, places, before))
    _put(trained)
    forth, back = moved
    return _Change(
        streams,
        tuple(after.updates[place] - before.updates[place] for place in places.updates),
        tuple((forth.updates[place] - back.updates[place]) / (2 * SHARE) for place in places.updates),
    )


def _relative(after: torch.Tensor, before: torch.Tensor) -> float:
    whole = size(before)
    return size(after - before) / whole if whole > 0 else math.nan


def _branches(
    found: Layout, before: States, after: Sequence[_Change], ends: Sequence[float]
) -> tuple[BranchAfter, ...]:
    """Return the kinds of branches in order of execution, with all layers of a kind together.

    `ends` are the sizes of the streams' last states before training.
    """
    by_key: dict[str, list[int]] = {}
    for position, part in enumerate(found.parts):
        by_key.setdefault(part.key, []).append(position)
    branches = []
    for key, positions in by_key.items():
        first = found.parts[positions[0]].branch
        weights = len(first.output) + len(first.inner)
        sizes = [size(before.updates[found.parts[at].ordinal, found.parts[at].side]) for at in positions]
        whole = _root_sum(sizes)
        base = whole or ends[first.stream] * math.sqrt(len(positions))
        changes, coherence, nonlinearity = [], [], []
        for change in after:
            differences = [change.updates[at] for at in positions]
            lengths = [size(difference) for difference in differences]
            linear = [change.linear[at] for at in positions]
            distance = _root_sum([size(a - b) for a, b in zip(differences, linear, strict=True)])
            changes.append(_over(_root_sum(lengths), base))
            coherence.append(_over(_size_of_sum(differences), sum(lengths)))
            nonlinearity.append(
                _over(distance, _root_sum([size(each) for each in linear])) if weights > 1 else math.nan
            )
        branches.append(
            BranchAfter(
                key,
                first.kind,
                first.stream,
                len(positions),
                weights,
                whole / math.sqrt(len(positions)),
                tuple(changes),
                tuple(coherence),
                tuple(nonlinearity),
            )
        )
    return tuple(branches)


def _size_of_sum(tensors: Sequence[torch.Tensor]) -> float:
    if len({tensor.shape for tensor in tensors}) > 1:
        return math.nan
    total = torch.zeros_like(tensors[0])
    for tensor in tensors:
        total += tensor
    return size(total)


def _root_sum(values: Sequence[float]) -> float:
    return math.sqrt(sum(value**2 for value in values))


def _over(value: float, base: float) -> float:
    return value / base if base > 0 else math.nan
