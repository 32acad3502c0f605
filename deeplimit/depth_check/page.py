"""The tables of a depth check's page, as HTML: branches, their parts, streams."""

from __future__ import annotations

import html
from collections.abc import Sequence

from deeplimit.depth_check.findings import Finding
from deeplimit.depth_check.scaling import BranchScaling, StreamScaling
from deeplimit.ground import page
from deeplimit.ground.verdict import Verdict


def findings_list(findings: Sequence[Finding]) -> str:
    """Return what is not as expected, by parameter."""
    rows = "".join(
        f"<li><code>{html.escape(finding.parameter)}</code>: {html.escape(finding.message)}</li>"
        for finding in findings
    )
    return f"<ul>{rows}</ul>" if rows else ""


def branches_table(
    depths: Sequence[int], branches: Sequence[BranchScaling], statuses: Sequence[Verdict]
) -> str:
    """Return every kind of branch: its updates at each depth, its exponent, what it means."""
    before, after = ["branch", "verdict"], ["exponent", "alignment", "meaning"]
    rows = [
        "<tr>"
        + "".join(f"<th rowspan=2>{cell}</th>" for cell in before)
        + f"<th colspan={len(depths)}>update over stream, at depth</th>"
        + "".join(f"<th rowspan=2>{cell}</th>" for cell in after)
        + "</tr><tr>"
        + "".join(f"<th>{depth}</th>" for depth in depths)
        + "</tr>"
    ]
    for kind, status in zip(branches, statuses, strict=True):
        interval = kind.exponent_interval
        exponent = (
            "-"
            if kind.exponent is None or interval is None
            else f"{kind.exponent:.2f}<br>[{interval[0]:.2f}, {interval[1]:.2f}]"
        )
        alignment = "-" if kind.alignment is None else f"{kind.alignment:.2f}"
        rows.append(
            f"<tr><td><code>{html.escape(kind.kind)}</code></td><td"
            f" style='color:var(--{page.tone(status)})'>{status}</td>"
            + "".join(f"<td class=n>{ratio:.3g}</td>" for ratio in kind.ratios)
            + f"<td class=n>{exponent}</td><td"
            f" class=n>{alignment}</td><td>{html.escape(kind.meaning)}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def parts_table(depths: Sequence[int], branches: Sequence[BranchScaling]) -> str:
    """Return every part of every branch: its sizes at each depth and its exponent."""
    cells = ["part", "role", *(f"depth {depth}" for depth in depths), "exponent"]
    rows = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in cells) + "</tr>"]
    for kind in branches:
        for part in kind.parts:
            if part.role in ("multiplier", "skip") and all(size == 1.0 for size in part.sizes):
                continue
            name = part.name if part.role not in ("multiplier", "skip") else f"{part.role} of {kind.kind}"
            exponent = "-" if part.exponent is None else f"{round(part.exponent, 2) + 0.0:.2f}"
            rows.append(
                f"<tr><td><code>{html.escape(name)}</code></td><td>{part.role}</td>"
                + "".join(f"<td class=n>{size:.4g}</td>" for size in part.sizes)
                + f"<td class=n>{exponent}</td></tr>"
            )
    return f"<table>{''.join(rows)}</table>"


def streams_table(streams: Sequence[StreamScaling]) -> str:
    """Return how state and gradient grow along each residual stream, at each depth."""
    rows = "".join(
        f"<tr><td class=n>{stream.stream + 1}</td><td class=n>{_series(stream.growth)}</td><td class=n>"
        f"{_series([value for value in stream.gradient_growth if value is not None])}</td></tr>"
        for stream in streams
    )
    head = "<tr><th>stream</th><th>state grows, at each depth</th><th>gradient grows backwards</th></tr>"
    return f"<table>{head}{rows}</table>"


def _series(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}×" for value in values) or "-"
