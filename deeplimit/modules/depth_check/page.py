"""What a depth check's page has beside its table of branches: parts, streams, findings and terms."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from deeplimit.common.report import Column, Table
from deeplimit.modules.depth_check.findings import part_name
from deeplimit.modules.depth_check.scaling import BranchScaling, PartScaling
from deeplimit.modules.depth_check.stream_scaling import StreamScaling


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
            Column(
                "skip", [f"{stream.skip[-1]:.4g}" if stream.skip else "-" for stream in streams], left=True
            ),
            Column("meaning", [stream.meaning for stream in streams], left=True),
            Column("what follows", [stream.follows for stream in streams], left=True),
        )
    )


TERMS = (
    ("update/stream", "size of what a branch adds, over the size of the stream that it is added to"),
    ("exponent", "the update falls like depth^-exponent, when every branch is given the same stream"),
    (
        "alignment",
        "power of the number of layers with which updates add up: 1/2 if independent, 1 if all push one way",
    ),
    ("meaning", "what exponent and alignment lead to as depth grows: an SDE, an ODE, the identity, no limit"),
    ("output", "the weight that projects a branch back onto the stream"),
    ("inner", "any other weight of the branch"),
    ("gain", "a parameter that multiplies the branch: LayerScale, ReZero, the scale of a last norm"),
    ("gate", "a weight whose output multiplies the branch, made of a condition (adaLN)"),
    ("multiplier, skip", "numbers in the forward that multiply the branch, and the stream before the sum"),
    ("entry", "the number that multiplies the branch's normalised input"),
    ("state grows", "size of the stream at its end over that at its beginning"),
    ("L, l, N", "number of layers, number of a layer from 1, number of residual branches"),
    ("fix", "line of code that sets a finding right in model; run it right after the model is built"),
)
"""Terms of the page, and what they mean."""


def terms() -> str:
    """Return the page's terms as a list of definitions."""
    rows = "".join(f"<dt><b>{html.escape(term)}</b></dt><dd>{html.escape(told)}</dd>" for term, told in TERMS)
    return f"<dl>{rows}</dl>"


def findings_list(told: Iterable[str]) -> str:
    """Return findings as a list, each line of code in a line of its own."""
    rows = []
    for text in told:
        words, *lines = text.split("\n  fix: ")
        codes = "".join(f"<br><code>{html.escape(line)}</code>" for line in lines)
        rows.append(f"<li>{html.escape(words)}{codes}</li>")
    return f"<ul>{''.join(rows)}</ul>" if rows else ""


def series(values: Iterable[float | None]) -> str:
    """Return factors, one per depth; those that are not known are left out."""
    return ", ".join(
        f"{value:.3g}x" if value < math.inf else "without bound" for value in values if value is not None
    )
