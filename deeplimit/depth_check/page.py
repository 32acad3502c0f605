"""The tables that a depth check's page has beside that of the branches: their parts, and the streams."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from deeplimit.depth_check.findings import part_name
from deeplimit.depth_check.scaling import BranchScaling, PartScaling, StreamScaling
from deeplimit.ground.table import Column, Table


def parts_table(depths: Sequence[int], branches: Sequence[BranchScaling]) -> Table:
    """Return every part of every branch: its sizes at each depth and its exponent; no factors of one."""
    shown = [
        (kind, part)
        for kind in branches
        for part in kind.parts
        if part.role not in ("multiplier", "skip", "entry") or any(size != 1.0 for size in part.sizes)
    ]
    exponents = [None if part.exponent is None else round(part.exponent, 2) + 0.0 for _, part in shown]
    return Table(
        (
            Column("part", [part_name(part, kind) for kind, part in shown], left=True),
            Column("role", [part.role for _, part in shown], left=True),
            *(
                Column(f"depth {depth}", [_at(kind, part, place) for kind, part in shown], ".4g")
                for place, depth in enumerate(depths)
            ),
            Column("exponent", exponents, ".2f"),
        )
    )


def _at(kind: BranchScaling, part: PartScaling, place: int) -> float | None:
    """Return a part's size at the depth of this place; None where a hybrid has no such branch there."""
    before = sum(count > 0 for count in kind.counts[:place])
    return part.sizes[before] if kind.counts[place] else None


def streams_table(streams: Sequence[StreamScaling]) -> Table:
    """Return how state and gradient grow along each residual stream, at each depth."""
    return Table(
        (
            Column("stream", [stream.stream + 1 for stream in streams]),
            Column("state grows, at each depth", [series(stream.growth) for stream in streams], left=True),
            Column(
                "gradient grows backwards",
                [series(stream.gradient_growth) or "-" for stream in streams],
                left=True,
            ),
        )
    )


def series(values: Iterable[float | None]) -> str:
    """Return factors, one per depth; those that are not known are left out."""
    return ", ".join(
        f"{value:.3g}x" if value < math.inf else "without bound" for value in values if value is not None
    )
