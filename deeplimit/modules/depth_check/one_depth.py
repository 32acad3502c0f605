"""A module at one depth, measured: updates of its residual branches, growth of streams, sizes of parameters.

Two forwards. The first is the module's own, followed by a backward to where its streams begin. In the second
all branches, of all layers and all depths, are given the same stream (`shared_stream`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import GradientEdge

from deeplimit.common.global_state import alone, seeded
from deeplimit.modules.depth_check.shared_stream import SharedStream
from deeplimit.modules.depth_check.whole_stream import WholeStream
from deeplimit.modules.trace.batches import Batch, run
from deeplimit.modules.trace.branches import Branch, Layout, Part, layout
from deeplimit.modules.trace.forwards import recorded
from deeplimit.modules.trace.graph import Join
from deeplimit.modules.trace.losses import Loss, check_loss, first_output, loss_of
from deeplimit.modules.trace.operations import size
from deeplimit.modules.trace.recording import Addition, Edge, Trace, reaches
from deeplimit.modules.trace.side_effects import undisturbed


@dataclass(frozen=True)
class MeasuredBranch:
    """One branch at one depth. Sizes are root mean squares over the batch and all coordinates.

    Attributes:
        branch, key: The branch as it was found, and what its layers have in common.
        update: Size of what the branch adds.
        ratio: The update divided by the size of the stream it is added to.
        probed: Size of what the branch adds when it is given the stream's first state, divided by the size of
            that state unless the branch normalises its input.
        normalised: Whether the branch normalises its input.
        normed: Whether a normalisation follows the output projection.
        renormed: Whether a normalisation follows the sum, so that the stream is normalised at every layer.
        multiplier: Product of the numbers that scale the branch after its projection.
        gain: Product of the sizes of the parameters that scale it there.
        skip: Number that multiplies the stream between the sum before and this one.
        entry: Number that multiplies the branch's normalised input.
        opens: Whether no sum comes before, so that `skip` may lack a number.
        dropped: Probability with which dropout, in training, drops an entry of the skip.
        kept: Share that a velocity keeps from layer to layer where the branch adds to one, else 0.
        hooked: Name of the module whose output is the projection's; "" if no module returns it.
        scaled: Names of the biases that a gain or a normalisation after them scales.
        counted: Whether it counts among its stream's branches. Experts in one sum count once, a zero adapter
            beside another branch does not count.
    """

    branch: Branch
    key: str
    update: float
    ratio: float
    probed: float
    normalised: bool
    normed: bool
    renormed: bool
    multiplier: float
    gain: float
    skip: float
    entry: float
    opens: bool
    counted: bool
    dropped: float = 0.0
    kept: float = 0.0
    hooked: str = ""
    scaled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alignment:
    """How much the updates of one kind of branch point the same way when all are given the same stream.

    Attributes:
        value: Size of their sum divided by the size that as many orthogonal updates would sum to: 1 if they
            are independent, the root of their number if they are equal.
        error: Relative standard error of the value, from the coordinates of the stream.
        neighbours: Mean cosine of updates of neighbouring layers; None for one layer.
    """

    value: float
    error: float
    neighbours: float | None = None


@dataclass(frozen=True)
class Stream:
    """A residual stream at one depth: sizes of the state and of the loss's gradient where it begins and ends.

    Attributes:
        start, end: Size of the state; of one that starts at zero, `start` is that of the first stream.
        gradient_start, gradient_end: Size of the gradient at the end, and of what its layers carry back to
            the start; None where the loss does not depend on it.
        branches: Number of residual branches that are counted.
        heads: 1 if a block with a projected shortcut opens the stream, else 0.
        sums: Number of residual sums; branches in parallel share one.
        skip: Number that multiplies the stream from sum to sum (geometric mean over sums).
        kept: Share of the final state that came through skips alone: the product over sums of the skip's size
            divided by the sum's.
        normalised: Whether every branch normalises its input.
        renormed: Whether the stream itself is normalised between sums (post-norm).
        turned: Cosine between the state at the end and at the start; None where their shapes differ, or it
            starts at zero.
        mixed: Largest share of the state at a sum that is no multiple of the sum before: an earlier state was
            added in between.
        bent: The same where the state is a function of the sum before, such as tanh of it.
        from_zero: Whether it begins with the update of one of its layers.
    """

    start: float
    end: float
    gradient_start: float | None
    gradient_end: float | None
    branches: int
    heads: int
    sums: int
    skip: float
    kept: float
    normalised: bool
    renormed: bool
    turned: float | None = None
    mixed: float = 0.0
    from_zero: bool = False
    bent: float = 0.0


@dataclass(frozen=True)
class WeightSize:
    """A parameter: the root mean square of its entries and what its fan-in and fan-out are.

    `thirds` are the sizes of its first, second and third outputs if there are three times as many outputs as
    inputs: queries, keys and values, where they are fused.
    """

    size: float
    entries: int
    fan_in: int
    fan_out: int
    thirds: tuple[float, ...] = ()


@dataclass(frozen=True)
class AtOneDepth:
    """Everything measured of a module at one depth.

    Attributes:
        branches: Residual branches in order of execution.
        streams: Residual streams by their number.
        aligned: Alignment by the key of a kind of branch.
        weights: Parameters of the branches by name.
        parameters: Number of entries of all parameters.
        epsilon: Machine epsilon of the streams' dtype.
        outside: Names of the weights that were applied in no residual branch.
        replacing: Names of projections like those of branches whose output takes the state's place.
        redrawn: Branches of further draws of the same network, by draw.
        likeness: Cosine of a parameter with that of the layer before, by its name.
        asked: The depth that a factory was asked for; 0 where no factory was.
    """

    branches: tuple[MeasuredBranch, ...]
    streams: tuple[Stream, ...]
    aligned: dict[str, Alignment]
    weights: dict[str, WeightSize]
    parameters: int
    epsilon: float
    outside: tuple[str, ...] = ()
    replacing: tuple[str, ...] = ()
    redrawn: tuple[tuple[MeasuredBranch, ...], ...] = ()
    likeness: dict[str, float] = field(default_factory=dict)
    asked: int = 0


@alone()
def measure_module(
    model: nn.Module,
    batch: Batch,
    *,
    blocks: str | Sequence[str] | None = None,
    loss: Loss | None = None,
    seed: int = 0,
    backward: bool = True,
    trained: bool = False,
) -> AtOneDepth:
    """Return what a module does on a batch; the module is left as it was.

    Without `backward` the streams have no gradients. A `trained` module normalises with its running
    statistics, and its branches are measured on the stream that they get in the ordinary forward.
    """
    check_loss(loss)
    with undisturbed(model, trained=trained):
        trace, found, gradients, cut = _two_forwards(model, batch, blocks, loss, seed, backward, trained)
        with seeded(seed), WholeStream(found) as whole:
            run(model, batch)
        if not cut.complete:
            # The first forward may have computed a constant that later ones find in a cache.
            trace, found, gradients, cut = _two_forwards(model, batch, blocks, loss, seed, backward, trained)
    if batch.is_zero or not any(
        side.size for part in found.parts for side in trace.additions[part.ordinal].sides
    ):
        raise ValueError(
            f"batch must not be zero: states of {type(model).__name__} have no size on it, with which updates"
            " could be compared. Pass one whose entries are not all zero."
        )
    return _summary(model, trace, found, cut, gradients, whole)


def _last_sum(trace: Trace, last: Addition, states: set[Edge]) -> Addition:
    """Return the sum that ends a stream: around a group of layers there may be one more, h + group(h).

    What is added to is a state, from which a layer begins: a running total of states is none.
    """
    for addition in trace.additions[last.ordinal + 1 :]:
        sides = [{*side.sources} for side in addition.sides]
        ends_here = any(last.place in one and states & other for one, other in (sides, sides[::-1]))
        if ends_here and addition.place in trace.continued and addition.shape == last.shape:
            last = addition
    return last


Gradients = list[tuple[float | None, float | None]]


def _two_forwards(
    model: nn.Module,
    batch: Batch,
    blocks: str | Sequence[str] | None,
    loss: Loss | None,
    seed: int,
    backward: bool,
    trained: bool,
) -> tuple[Trace, Layout, Gradients, SharedStream]:
    """Return what a forward did, its branches, its streams' gradients, and what a shared stream shows."""
    with seeded(seed):
        output, trace = recorded(model, batch)
        scalar = _loss(model, output, loss, seed) if backward else None
    found = layout(trace, blocks)
    nothing: Gradients = [(None, None)] * len(found.heads)
    gradients = nothing if scalar is None else _gradients(scalar, trace, found)
    del output, scalar
    # With gradients on as before, though none is wanted: without them some modules take another way
    # (torch's encoder does).
    with seeded(seed), SharedStream(trace, found, cut=not trained) as cut:
        run(model, batch)
    return trace, found, gradients, cut


def _loss(model: nn.Module, output: Any, loss: Loss | None, seed: int) -> torch.Tensor:
    """Return the user's loss, or a random linear functional of the first output, whose gradient there is a
    standard normal.
    """
    if loss is not None:
        return loss_of(output, loss)
    first = first_output(model, output)
    generator = torch.Generator().manual_seed(seed % 2**64)
    direction = torch.randn(first.shape, generator=generator).to(first)
    return (first * direction).sum()


def _gradients(loss: torch.Tensor, trace: Trace, found: Layout) -> Gradients:
    """Return the sizes of the gradient where each stream begins and ends; parameters get none.

    A stream that is normalised after every sum ends where its last layer begins: the last sum alone would
    lack the norm that makes up for the skip's factor. Where the loss reads earlier states, too (the mean of
    all of them, say), the gradient where a stream begins is that of its end, carried back through its layers.
    """
    noted: dict[int, torch.Tensor] = {}
    starts, ends, handles = [], [], []
    for number, origin in enumerate(found.origins):
        parts = [part for part in found.parts if part.branch.stream == number]
        joins = [part.join for part in parts]
        starts.append(GradientEdge(origin.node, origin.output))
        if len(parts) > 1 and all(part.renormed for part in parts[1:]):
            last = joins[-1].root
        else:
            last = _last_sum(trace, joins[-1].addition, {join.root for join in joins}).place
        ends.append(GradientEdge(last.node, last.output))

        def note(
            given: Sequence[torch.Tensor | None], number: int = number, output: int = last.output
        ) -> None:
            gradient = given[output]
            if gradient is not None:
                noted[number] = gradient.detach()

        handles.append(last.node.register_prehook(note))
    around = [
        number
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        if reaches(loss, start.node, end.node)
    ]
    try:
        every = [*torch.autograd.grad(loss, starts, allow_unused=True, retain_graph=bool(around))]
        at_ends = dict(noted)
        for number in around:
            if number in at_ends:
                (every[number],) = torch.autograd.grad(
                    [ends[number]],
                    [starts[number]],
                    [at_ends[number]],
                    allow_unused=True,
                    retain_graph=number != around[-1],
                )
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        raise ValueError(
            "a state that the gradient needs was changed in place in the forward, in evaluation mode, as a"
            " cache may be. Switch the cache off, with use_cache=False in batch= or in the configuration."
            f" torch says: {error}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
    return [
        (None if first is None else size(first), size(at_ends[number]) if number in at_ends else None)
        for number, first in enumerate(every)
    ]


def _summary(
    model: nn.Module,
    trace: Trace,
    found: Layout,
    cut: SharedStream,
    gradients: Sequence[tuple[float | None, float | None]],
    whole: WholeStream,
) -> AtOneDepth:
    if cut.count != cut.expected:
        raise ValueError(
            f"{type(model).__name__} added two activations {cut.expected} times in one forward and"
            f" {cut.count} times in another on the same batch: its path depends on the values of its states,"
            " so that branches cannot be told apart. Pass blocks= to point at blocks that always run, or a"
            " batch for which the path is fixed."
        )
    for part in found.parts:
        sizes = cut.updates[part.ordinal]
        if not all(map(math.isfinite, sizes)):
            raise ValueError(
                f"{part.branch.name} of {type(model).__name__} adds numbers that are not finite (root mean"
                f" square {sizes[part.side]:g}, to a stream of {sizes[1 - part.side]:g}), whatever the layers"
                " before it do: look for weights or a batch with nan or infinity, or for numbers too large"
                " for the dtype."
            )
    renormed = {part.branch.stream for part in found.parts if part.renormed}
    measured = []
    for part in found.parts:
        addition, join = trace.additions[part.ordinal], part.join.addition
        # What scales a sum of branches as a whole scales each of them.
        share = share_of(trace, part) * part.additions
        update = addition.sides[part.side].size * share
        stream = join.sides[part.join.skip].size
        probed = cut.updates[part.ordinal][part.side] * share
        start = cut.updates[join.ordinal][part.join.skip]
        if part.branch.stream not in renormed and part.passed > 0:
            start /= part.passed  # the branch reads the state before the skip scales it: (1 - 1/L) h + f/L
        if not part.join.normalised:
            probed = probed / start if start > 0 else math.inf
        ratio = update / stream if stream > 0 else math.inf
        measured.append(
            MeasuredBranch(
                part.branch,
                part.key,
                update,
                ratio,
                probed,
                part.join.normalised,
                part.normed,
                part.renormed,
                part.multiplier,
                part.gain,
                part.skip,
                part.entry,
                part.opens,
                part.counted,
                part.dropped,
                part.kept,
                part.hooked,
                part.scaled,
            )
        )
    streams = []
    for number, (gradient_start, gradient_end) in enumerate(gradients):
        own = [part for part in found.parts if part.branch.stream == number]
        first, last = own[0].join, own[-1].join
        sums = {part.join.addition.ordinal: part for part in own}
        streams.append(
            Stream(
                found.first_size if number in found.from_zero else first.addition.sides[first.skip].size,
                _last_sum(trace, last.addition, {part.join.root for part in own}).size,
                gradient_start,
                gradient_end,
                sum(part.counted for part in own),
                found.heads[number],
                len(sums),
                _skip([*sums.values()]),
                math.prod(_kept(part.join) for part in sums.values()),
                all(part.join.normalised for part in own),
                own[-1].renormed,
                None if number in found.from_zero else whole.turned.get(number),
                whole.mixed.get(number, 0.0),
                number in found.from_zero,
                whole.bent.get(number, 0.0),
            )
        )
    used = {
        name
        for part in found.parts
        for names in (part.branch.output, part.branch.inner, part.branch.gains, part.branch.biases)
        for name in (*names, *part.branch.gates)
    }
    inside = {name for join in found.joins for name in join.parameters}
    applied = {name for made in trace.projections.values() for name in made.weights}
    weights = {name.removeprefix("_orig_mod."): value for name, value in model.named_parameters()}
    return AtOneDepth(
        branches=tuple(measured),
        streams=tuple(streams),
        aligned={
            key: _aligned(total, cut.squares[key], cut.cosines.get(key)) for key, total in cut.sums.items()
        },
        weights={name: weigh(model, name, weights[name]) for name in weights if name in used},
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        epsilon=max(join.addition.epsilon for join in found.joins),
        outside=tuple(name for name in trace.shapes if name in applied - inside),
        replacing=found.replacing,
        likeness=_likeness({name: weights[name] for name in weights if name in used}),
    )


def _likeness(weights: dict[str, nn.Parameter]) -> dict[str, float]:
    """Return the cosine of each parameter with the one before whose name differs in numbers alone."""
    before: dict[str, torch.Tensor] = {}
    found = {}
    for name, parameter in weights.items():
        likes, value = re.sub(r"\d+", "*", name), parameter.detach()
        last = before.get(likes)
        if last is not None and last.shape == value.shape and last.device == value.device:
            found[name] = float(torch.cosine_similarity(last.flatten(), value.flatten(), dim=0))
        before[likes] = value
    return found


def _kept(join: Join) -> float:
    """Return the size of the skip divided by the size of the sum."""
    return join.addition.sides[join.skip].size / join.addition.size if join.addition.size > 0 else 0.0


def _skip(parts: Sequence[Part]) -> float:
    """Return the geometric mean of the skips of sums."""
    skips = [
        whole_skip(part, [like for like in parts if like.key == part.key and not like.opens])
        for part in parts
    ]
    return math.exp(sum(map(math.log, skips)) / len(skips)) if min(skips) > 0 else 0.0


def whole_skip(part: Part | MeasuredBranch, likes: Sequence[Part | MeasuredBranch]) -> float:
    """Return a branch's skip; at the first sum it may lack a number, so equal likes stand for it."""
    known = [like.skip for like in likes]
    return known[0] if part.opens and known and max(known) <= (1 + 1e-6) * min(known) else part.skip


def share_of(trace: Trace, part: Part) -> float:
    """Return by how much a sum of branches, of which one is a part, is scaled before it joins the stream."""
    if part.ordinal == part.join.addition.ordinal:
        return 1.0
    inner, whole = trace.additions[part.ordinal].size, part.join.addition.sides[part.join.branch].size
    return whole / inner if inner > 0 else 1.0


PARALLEL = 1 - 1e-6
"""Cosine of the updates of layers that are one layer: float32 sums are off by less."""


def _aligned(total: torch.Tensor, squares: float, cosines: Sequence[float] | None) -> Alignment:
    if squares == 0:
        return Alignment(math.nan, math.inf)
    energies = total.detach().double().square()
    channels = (
        energies.mean(dim=tuple(range(energies.dim() - 1)))
        if energies.dim() != 4 or energies.shape[1] == 1  # no image: windows of tokens, of which there is one
        else energies.mean(dim=(0, 2, 3))
    )
    mean = float(channels.mean())
    if cosines and min(cosines) > PARALLEL:
        # Which coordinates are large is known to be the same in all, so it says nothing about the sum's size.
        return Alignment(math.sqrt(mean / squares), 0.0, sum(cosines) / len(cosines))
    # Of few channels the scatter is known badly. Sums of what weights give to as many inputs as there are
    # channels have that many independent squares in each.
    count = channels.numel()
    least = 1 / math.sqrt(2 * count * max(1, min(count, total.numel() // max(count, 1))))
    error = (
        max(float(channels.std()) / mean / math.sqrt(count) / 2, least)
        if mean > 0 and count > 1
        else math.inf
    )
    return Alignment(math.sqrt(mean / squares), error, sum(cosines) / len(cosines) if cosines else None)


def weigh(model: nn.Module, name: str, parameter: nn.Parameter) -> WeightSize:
    """Return a parameter's size and fans, after the way in which its module uses it: (out, in, ...), or (in,
    out) in Conv1D.
    """
    owner = model.get_submodule(name.rpartition(".")[0]) if "." in name else model
    shape, split = tuple(parameter.shape), 0
    if len(shape) < 2:
        fan_in = fan_out = 1
    elif type(owner).__name__ == "Conv1D" and not isinstance(owner, nn.Conv1d):
        fan_in, fan_out = shape
        split = 1
    else:
        around = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * around, shape[0] * around
    fused = len(shape) == 2 and fan_out == 3 * fan_in
    thirds = tuple(size(third) for third in parameter.chunk(3, split)) if fused else ()
    return WeightSize(size(parameter), parameter.numel(), fan_in, fan_out, thirds)
