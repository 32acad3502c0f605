"""A depth check as one HTML page: no script, no network, the plot inside it as text."""

from __future__ import annotations

import html
import io
import os
import re

from deeplimit.depth_check.drawing import draw
from deeplimit.depth_check.report import DepthReport
from deeplimit.ground import files as store, plotting, validation

STYLE = """
:root{--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--paper:#fff;--good:#1a7f37;--bad:#cf222e;--open:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--paper:#0d1117;--good:#3fb950;--bad:#f85149;--open:#d29922}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;border-left:.4rem solid var(--tone);padding-left:.7rem}
h2{font-size:1.05rem;margin-top:2rem}
p.what,footer{color:var(--soft)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n{font-variant-numeric:tabular-nums}
code{font-size:.92em;overflow-wrap:anywhere}td code,td.n{white-space:nowrap}
li{margin:.4rem 0}svg{max-width:100%;height:auto;background:#fff}
"""
TONES = {"as expected": "good", "measured": "good", "not as expected": "bad", "cannot tell": "open"}


def write(report: DepthReport, path: str | os.PathLike[str]) -> None:
    """Write the page, whole or not at all."""
    checked = validation.writable_file(path, "path", (".html",))
    with store.whole_file(checked) as temporary:
        temporary.write_text(page(report), encoding="utf-8")


def page(report: DepthReport) -> str:
    """Return the page."""
    shown = html.escape
    findings = "".join(
        f"<li><code>{shown(finding.parameter)}</code>: {shown(finding.message)}</li>"
        for finding in report.findings
    )
    reservations = "".join(f"<li>{shown(text)}</li>" for text in report.reservations)
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    streams = "".join(
        f"<tr><td class=n>{stream.stream + 1}</td><td class=n>{_series(stream.growth)}</td><td class=n>"
        f"{_series([value for value in stream.gradient_growth if value is not None])}</td></tr>"
        for stream in report.streams
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1"><title>{shown(report.model)}:'
        f" {report.verdict}</title><style>{STYLE}</style></head><body"
        f' style="--tone:var(--{TONES[report.verdict]})"><h1>Depth scaling of {shown(report.model)}:'
        f' {report.verdict}</h1><p class="what">{shown(report.what)}</p>'
        + (f"<h2>Findings</h2><ul>{findings}</ul>" if findings else "")
        + f"<h2>Residual branches</h2><div class=scroll><table>{_branches(report)}</table></div><h2>Update"
        f" against depth</h2>{_picture(report)}<h2>Parts of the branches</h2><div"
        f" class=scroll><table>{_parts(report)}</table></div><h2>Streams</h2><div"
        " class=scroll><table><tr><th>stream</th><th>state grows, at each depth</th><th>gradient grows"
        f" backwards</th></tr>{streams}</table></div>"
        + (f"<h2>Reservations</h2><ul>{reservations}</ul>" if reservations else "")
        + f"<footer><p>{shown(versions)}</p></footer></body></html>\n"
    )


def _branches(report: DepthReport) -> str:
    before, after = ["branch", "verdict"], ["exponent", "alignment", "meaning"]
    rows = [
        "<tr>"
        + "".join(f"<th rowspan=2>{cell}</th>" for cell in before)
        + f"<th colspan={len(report.depths)}>update over stream, at depth</th>"
        + "".join(f"<th rowspan=2>{cell}</th>" for cell in after)
        + "</tr><tr>"
        + "".join(f"<th>{depth}</th>" for depth in report.depths)
        + "</tr>"
    ]
    for kind, status in zip(report.branches, report.statuses, strict=True):
        interval = kind.exponent_interval
        exponent = (
            "-"
            if kind.exponent is None or interval is None
            else f"{kind.exponent:.2f}<br>[{interval[0]:.2f}, {interval[1]:.2f}]"
        )
        alignment = "-" if kind.alignment is None else f"{kind.alignment:.2f}"
        rows.append(
            f"<tr><td><code>{html.escape(kind.kind)}</code></td><td"
            f" style='color:var(--{TONES[status]})'>{status}</td>"
            + "".join(f"<td class=n>{ratio:.3g}</td>" for ratio in kind.ratios)
            + f"<td class=n>{exponent}</td><td"
            f" class=n>{alignment}</td><td>{html.escape(kind.meaning)}</td></tr>"
        )
    return "".join(rows)


def _parts(report: DepthReport) -> str:
    cells = ["part", "role", *(f"depth {depth}" for depth in report.depths), "exponent"]
    rows = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in cells) + "</tr>"]
    for kind in report.branches:
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
    return "".join(rows)


def _series(values: list[float] | tuple[float, ...]) -> str:
    return ", ".join(f"{value:.3g}×" for value in values) or "-"


def _picture(report: DepthReport) -> str:
    """Return the plot as SVG, without the declarations that only a file of its own needs."""
    axes = plotting.new_axes((8.0, 5.0))
    draw(report, axes)
    figure = axes.get_figure(root=True)
    assert figure is not None
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
