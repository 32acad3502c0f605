"""A depth check as one HTML page without scripts or network: tables, picture, document."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deeplimit.depth_check.scaling import BranchScaling, StreamScaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = """
:root{--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--paper:#fff;--good:#1a7f37;--bad:#cf222e;--open:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;
--paper:#0d1117;--good:#3fb950;--bad:#f85149;--open:#d29922}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;border-left:.4rem solid var(--tone);padding-left:.7rem}
h2{font-size:1.05rem;margin-top:2rem}
p.what,footer{color:var(--soft)}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n{font-variant-numeric:tabular-nums}
code{font-size:.92em;overflow-wrap:anywhere}td code,td.n{white-space:nowrap}
li{margin:.4rem 0}svg{max-width:100%;height:auto;background:#fff}
"""
TONES = {"as expected": "good", "measured": "good", "not as expected": "bad", "cannot tell": "open"}


def document(
    title: str, what: str, verdict: str, sections: Sequence[tuple[str, str]], versions: Mapping[str, str]
) -> str:
    """Return the page: title in the colour of the verdict, `what` in one line, every section with content."""
    shown = html.escape
    body = "".join(f"<h2>{heading}</h2>{content}" for heading, content in sections if content)
    made_by = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(title)}</title><style>{STYLE}</style></head>"
        f'<body style="--tone:var(--{TONES[verdict]})"><h1>{shown(title)}</h1>'
        f'<p class="what">{shown(what)}</p>{body}<footer><p>{shown(made_by)}</p></footer></body></html>\n'
    )


def items(lines: Sequence[tuple[str | None, str]]) -> str:
    """Return a list of sentences, each after the parameter that it is about if there is one."""
    told = "".join(
        "<li>" + (f"<code>{html.escape(name)}</code>: " if name else "") + f"{html.escape(text)}</li>"
        for name, text in lines
    )
    return told and f"<ul>{told}</ul>"


def branches_table(depths: Sequence[int], branches: Sequence[BranchScaling], statuses: Sequence[str]) -> str:
    """Return the table of kinds of branches: status, update over stream at each depth, exponent, meaning."""
    before, after = ["branch", "verdict"], ["exponent", "alignment", "meaning"]
    rows = [
        "".join(f"<th rowspan=2>{cell}</th>" for cell in before)
        + f"<th colspan={len(depths)}>update over stream, at depth</th>"
        + "".join(f"<th rowspan=2>{cell}</th>" for cell in after),
        "".join(f"<th>{depth}</th>" for depth in depths),
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
            f"<td><code>{html.escape(kind.kind)}</code></td>"
            f"<td style='color:var(--{TONES[status]})'>{status}</td>"
            + _numbers([f"{ratio:.3g}" for ratio in kind.ratios] + [exponent, alignment])
            + f"<td>{html.escape(kind.meaning)}</td>"
        )
    return _table(rows)


def parts_table(depths: Sequence[int], branches: Sequence[BranchScaling]) -> str:
    """Return the table of parts of branches, with their sizes at each depth; factors of 1 are left out."""
    cells = ["part", "role", *(f"depth {depth}" for depth in depths), "exponent"]
    rows = ["".join(f"<th>{cell}</th>" for cell in cells)]
    for kind in branches:
        for part in kind.parts:
            factor = part.role in ("multiplier", "skip")
            if factor and all(size == 1.0 for size in part.sizes):
                continue
            name = f"{part.role} of {kind.kind}" if factor else part.name
            exponent = "-" if part.exponent is None else f"{round(part.exponent, 2) + 0.0:.2f}"
            rows.append(
                f"<td><code>{html.escape(name)}</code></td><td>{part.role}</td>"
                + _numbers([*(f"{size:.4g}" for size in part.sizes), exponent])
            )
    return _table(rows)


def streams_table(streams: Sequence[StreamScaling]) -> str:
    """Return the table of residual streams: growth of the state and of the gradient, at each depth."""
    cells = ["stream", "state grows, at each depth", "gradient grows backwards"]
    rows = ["".join(f"<th>{cell}</th>" for cell in cells)]
    for stream in streams:
        backwards = [value for value in stream.gradient_growth if value is not None]
        rows.append(_numbers([str(stream.stream + 1), _series(stream.growth), _series(backwards)]))
    return _table(rows)


def picture(axes: Axes) -> str:
    """Return the axes' figure as SVG, without the declarations that only a file of its own needs."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)


def _table(rows: Sequence[str]) -> str:
    return f"<div class=scroll><table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table></div>"


def _numbers(cells: Sequence[str]) -> str:
    return "".join(f"<td class=n>{cell}</td>" for cell in cells)


def _series(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}×" for value in values) or "-"
