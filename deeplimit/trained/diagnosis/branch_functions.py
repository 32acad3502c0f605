"""Residual branches as functions: what every layer adds when all layers are given the same states.

The entries of a layer's inner weights have no counterpart in the next layer: hidden units may be permuted and
attention heads turned, layer by layer, without any change of the network. What a branch adds to the stream,
f_k(x), has: it is the same whatever the order of its hidden units. Normalisations are part of the branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from deeplimit.common.global_state import alone, seeded
from deeplimit.modules.depth_check.shared_stream import SharedStream
from deeplimit.modules.trace.batches import Batch, as_batch, run
from deeplimit.modules.trace.branches import Layout, Part, layout, record
from deeplimit.modules.trace.recording import Trace
from deeplimit.modules.trace.side_effects import undisturbed
from deeplimit.trained.diagnosis.layer_families import LEAST, SameLayersError, refuse_copies
from deeplimit.trained.diagnosis.sources import source_of
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.diagnosis.stream_states import channel_axis, stream_states

MEAN = ", mean"
"""How the name of a branch's mean over states ends."""
OPERATIONS = 16.0
"""Round-off of a branch's output in units of that of its numbers: some operations follow each other."""
SIZES = (1.0, 2.0, -1.0)
"""Size of the noise that networks of all depths are given, and factors that tell how branches bend: tanh is
odd, and ReLU grows like its input.

Not the size with which each stream begins: it may change with depth, and would be taken for the branch's."""
TINY = 1e-300
"""A branch that adds nothing is divided by this."""


def responses(model: nn.Module, batch: Any = None) -> tuple[tuple[Stack, ...], dict[str, str]]:
    """Return what each kind of branch adds to noise less its mean, (L, 1, M): three axes, as weights have.

    `bent` is the share of it that is not linear, by noise of twice the size and of the other sign; None where
    that is round-off. Kinds without one have the reason in the second result.
    """
    taken = as_batch(model, batch)
    runs = [functions_on(model, taken, "noise", None, 0, size) for size in SIZES]
    others = [{each.name: each.values.flatten(1).double() for each in stacks} for stacks, _ in runs[1:]]
    found = []
    for stack in runs[0][0]:
        values = stack.values.flatten(1)
        if stack.name.endswith(MEAN) or not all(stack.name in other for other in others):
            continue
        own = values.double()
        share = torch.zeros(len(own), dtype=torch.float64)
        for size, other in zip(SIZES[1:], others, strict=True):
            linear, given = size * own, other[stack.name]
            whole = (given.norm(dim=1) + linear.norm(dim=1)).clamp(min=TINY)
            share = torch.maximum(share, (given - linear).norm(dim=1) / whole)
        rounding = OPERATIONS * stack.precision
        bent = share if bool((share > rounding).any()) else None
        found.append(replace(stack, values=values.unsqueeze(1), rounding=rounding, bent=bent))
    return tuple(found), {name: each for name, each in runs[0][1].items() if not name.endswith(MEAN)}


@alone()
def functions_on(
    model: nn.Module,
    taken: Batch,
    probe: str,
    blocks: str | Sequence[str] | None,
    seed: int,
    size: float | None = None,
) -> tuple[tuple[Stack, ...], dict[str, str]]:
    """Return what each kind of residual branch adds, layer by layer, on states that all layers share.

    Args:
        model: trained module, left as it was; batch normalisation uses its running statistics.
        taken: inputs of the forward; they set the shape of the states.
        probe: the states: "noise", normal, or "states", those before the middle layer in an ordinary forward.
        blocks: patterns of module names, as in `dl.find_branches`.
        seed: of the noise.
        size: root mean square of the noise, with a sign; left out, that with which each stream begins.

    Returns:
        Two stacks per kind of branch, and then, by the name of a kind, the reason why it has none. The first
        stack, named as the kind, is the response (L, ...), of the shape of the stream after the first axis:
        what the branch adds less its mean over states. The second, "..., mean", is that mean (L, d). Biases
        sit in the mean. It says little of how layers differ, and would outweigh the response.

    Raises:
        ValueError: for a model without residual branches, or one whose path depends on its states; and where
            a branch adds numbers that are not finite.

    Not checked: whether states of this kind occur in the network. Noise has no directions that stand out.
    """
    trace = record(model, taken, trained=True)
    found = layout(trace, blocks)
    states = {}
    if probe == "states":
        streams = stream_states(model, taken, found, seed)
        states = {number: each.states[len(each.names) // 2] for number, each in streams.items()}
    # With gradients on: without them some modules take another way (torch's encoder does).
    with undisturbed(model, trained=True), seeded(seed), _Kept(trace, found, states, size) as shared:
        run(model, taken)
    if shared.count != shared.expected:
        raise ValueError(
            f"{type(model).__name__} added two activations {shared.expected} times in one forward and"
            f" {shared.count} times in another: its path depends on the values of its states. Pass blocks= to"
            " point at blocks that always run."
        )
    return _stacks(model, found, shared.kept)


class _Kept(SharedStream):
    """Keeps what every branch adds; streams begin with given states, or with noise where there are none."""

    def __init__(
        self, trace: Trace, found: Layout, states: dict[int, torch.Tensor], level: float | None = None
    ) -> None:
        super().__init__(trace, found)
        self.states = states
        if level is not None:
            self.from_zero = dict.fromkeys(range(len(found.heads)), level)
        self.parts = found.parts
        self.kept: dict[tuple[int, int], torch.Tensor] = {}

    def note(self, part: Part, update: torch.Tensor) -> None:
        # Experts of a sum change places at will: their sum has a counterpart in other layers, they have none.
        first = part if part.among is None else self.parts[part.among]
        if first.counted:
            added, place = (
                part.outer * update.to("cpu", torch.float32, copy=True),
                (first.ordinal, first.side),
            )
            self.kept[place] = self.kept[place] + added if place in self.kept else added

    def start(self, like: torch.Tensor, stream: int) -> torch.Tensor:
        state = self.states.get(stream)
        if state is None or state.numel() != like.numel():
            return super().start(like, stream)
        return state.reshape(like.shape).to(like)


def _stacks(
    model: nn.Module, found: Layout, kept: Mapping[tuple[int, int], torch.Tensor]
) -> tuple[tuple[Stack, ...], dict[str, str]]:
    source = source_of(model)
    stacks: list[Stack] = []
    left_out: dict[str, str] = {}
    kinds: dict[str, list[Part]] = {}
    for part in found.parts:
        if part.counted:
            kinds.setdefault(part.branch.kind, []).append(part)
    for kind, parts in kinds.items():
        layers = [kept[part.ordinal, part.side] for part in parts]
        if len(layers) < LEAST:
            left_out[kind] = f"has {len(layers)} layers, fewer than {LEAST}"
            continue
        if len({layer.shape for layer in layers}) > 1:
            left_out[kind] = "adds to states of several shapes"
            continue
        for part, layer in zip(parts, layers, strict=True):
            if not bool(torch.isfinite(layer).all()):
                raise ValueError(
                    f"{part.branch.name} of {type(model).__name__} must add finite numbers, but adds NaN or"
                    " infinity to the probe: look for weights that are not finite."
                )
        said = [_said(part, source.settings) for part in parts]
        known = list(dict.fromkeys(said))
        groups = tuple(known.index(text) for text in said) if len(known) > 1 else ()
        channels = channel_axis(parts[0], source.shapes, layers[0].dim())
        other = [axis for axis in range(layers[0].dim()) if axis != channels]
        means = [layer.mean(other, keepdim=True) for layer in layers]
        responses = [layer - mean for layer, mean in zip(layers, means, strict=True)]
        for name, values in ((kind, responses), (f"{kind}{MEAN}", [mean.flatten() for mean in means])):
            try:
                refuse_copies(range(len(values)), values)
            except SameLayersError as error:
                left_out[name] = str(error)
            else:
                stacks.append(Stack(name, torch.stack(values), groups))
    return tuple(stacks), left_out


def _said(part: Part, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the settings of the modules in a branch, which tell kinds of layers apart."""
    return tuple(settings.get(name, "") for name in (*part.branch.inner, *part.branch.output))
