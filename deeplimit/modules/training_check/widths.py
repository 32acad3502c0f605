"""The coordinate check in width: networks of one depth and several widths after a few steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deeplimit.modules.training_check.findings import TrainingFinding, power, times
from deeplimit.modules.training_check.scaling import (
    BranchTransfer,
    Networks,
    Power,
    StreamTransfer,
    follow,
    transfers,
)

HIDDEN = "Under muP Adam's learning rate of weights between hidden layers falls like 1/width."
HEAD = (
    "Under muP the output layer starts at zero or with a standard deviation like 1/width, and its learning"
    " rate with Adam falls like 1/width."
)


@dataclass(frozen=True)
class WidthTransfer:
    """W widths at one depth, judged: nothing may depend on the width.

    Attributes:
        widths, depth: widths (W,), and the depth of all these networks.
        branches, streams: as over depths, but their powers are those of the width.
        output: size of the change of the first output after each of the measured steps (S,).
    """

    widths: tuple[int, ...]
    depth: int
    branches: tuple[BranchTransfer, ...]
    streams: tuple[StreamTransfer, ...]
    output: tuple[Power, ...]

    @property
    def judged(self) -> tuple[tuple[str, Power], ...]:
        """What the verdict rests on: names and powers after the last step."""
        return (
            *((branch.kind, branch.change[-1]) for branch in self.branches),
            *((f"features of stream {each.stream + 1}", each.change[-1]) for each in self.streams),
            ("output", self.output[-1]),
        )

    @property
    def in_words(self) -> str:
        """The powers of the width in one line."""
        told = "; ".join(f"{name} {each.in_words}" for name, each in self.judged)
        return (
            f"widths {', '.join(map(str, self.widths))} at depth {self.depth}, exponents of the width: {told}"
        )


def width_transfer(
    widths: Sequence[int], depth: int, networks: Networks, confidence: float, tolerance: float
) -> WidthTransfer:
    """Return how changes go with the width, each judged by the exponent 0."""
    branches, streams = transfers(widths, networks, confidence)
    level = 1 - (1 - confidence) / (len(branches) + len(streams) + 1)
    steps = range(len(networks[0][0].outputs))

    def judged(powers: Sequence[Power]) -> tuple[Power, ...]:
        return (*powers[:-1], powers[-1].judged(0.0, tolerance))

    return WidthTransfer(
        tuple(widths),
        depth,
        tuple(dataclasses.replace(branch, change=judged(branch.change)) for branch in branches),
        tuple(dataclasses.replace(stream, change=judged(stream.change)) for stream in streams),
        judged(
            [
                follow(widths, networks, lambda one, step=step: one.outputs[step], level)  # type: ignore[misc]
                for step in steps
            ]
        ),
    )


def width_findings(found: WidthTransfer) -> Iterator[TrainingFinding]:
    """Yield one finding for everything that moves by another amount at another width."""
    ratio = found.widths[-1] / found.widths[0]
    for name, each in found.judged:
        if each.agrees is False and each.exponent is not None:
            factor = ratio**each.exponent
            yield TrainingFinding(
                "width",
                (name,),
                factor,
                f"moves like {power(each.exponent, 'width')} at depth {found.depth}, not by one amount at"
                f" every width: {times(factor)} at width {found.widths[-1]}."
                f" {HEAD if name == 'output' else HIDDEN}",
            )
