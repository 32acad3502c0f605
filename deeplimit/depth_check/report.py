"""The result of a depth check: plain numbers, a table a person reads, a plot, a page, a file."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deeplimit.depth_check.findings import Finding
from deeplimit.depth_check.rules import RULES
from deeplimit.depth_check.scaling import BranchScaling, StreamScaling
from deeplimit.ground import files as store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "depth"
VERDICTS = ("as expected", "not as expected", "cannot tell", "measured")
Status = Literal["as expected", "not as expected", "cannot tell", "measured"]


@dataclass(frozen=True, eq=False)
class DepthReport:
    """What `check_depth` or `probe` found: D depths, one `BranchScaling` for each kind of residual branch.

    Attributes:
        verdict: "as expected", "not as expected", "cannot tell"; "measured" if nothing was expected.
        model, depths, parameters: The module's class, the depths (D,) and how many parameters it has there
            (D,).
        expected: The exponent or the rule's name that was asked for; None if nothing was.
        branches: The kinds of branches in order of execution, each with sizes, exponent, interval, meaning
            and parts.
        statuses: One verdict for each kind.
        streams: Growth of the state and of the loss's gradient along each residual stream.
        findings: What is not as expected: parameter, factor, message.
        tolerance, confidence, seed, seconds, versions: How it was judged and made.
        reservations: What a reader must know before trusting the numbers.
    """

    verdict: Status
    model: str
    depths: tuple[int, ...]
    parameters: tuple[int, ...]
    expected: float | str | None
    branches: tuple[BranchScaling, ...]
    statuses: tuple[str, ...]
    streams: tuple[StreamScaling, ...]
    findings: tuple[Finding, ...]
    tolerance: float
    confidence: float
    seed: int
    seconds: float
    versions: dict[str, str]
    reservations: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against what was expected, and enough was seen to say so."""
        return self.verdict in ("as expected", "measured")

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"{self.verdict}: {self.findings[0]}{more}"
        seen = "; ".join(f"{kind.kind} {_exponent(kind)}" for kind in self.branches[:4]) + (
            "; ..." if len(self.branches) > 4 else ""
        )
        return f"{self.verdict}: {seen}"

    def __str__(self) -> str:
        lines = [self.headline, self.what, "", *self._table(), ""]
        for stream in self.streams:
            gradient = [value for value in stream.gradient_growth if value is not None]
            backwards = f", gradient backwards {_series(gradient)}" if gradient else ""
            lines.append(f"stream {stream.stream + 1}: state grows {_series(stream.growth)}{backwards}")
        if self.findings:
            lines += ["", "Findings:", *(f"- {finding}" for finding in self.findings)]
        if self.reservations:
            lines += ["", "Reservations:", *(f"- {text}" for text in self.reservations)]
        return "\n".join(lines)

    @property
    def what(self) -> str:
        """What was measured, and how, in one line."""
        depths = (
            f"depths {', '.join(map(str, self.depths))}"
            if len(self.depths) > 1
            else f"{self.depths[0]} residual branches"
        )
        asked = "nothing expected" if self.expected is None else f"expected {self.wanted}"
        return (
            f"{self.model}, {depths}, {_count(self.parameters[-1])} parameters, {asked}, seed {self.seed},"
            f" {self.seconds:.1f} s"
        )

    @property
    def wanted(self) -> str:
        """What was expected, in words."""
        if isinstance(self.expected, str):
            rule = RULES.get(self.expected)
            return f"{self.expected} ({rule.formula}; {rule.source})" if rule is not None else self.expected
        return "nothing" if self.expected is None else f"exponent {self.expected:g} for every branch"

    def _table(self) -> list[str]:
        several = len(self.depths) > 1
        ends = [0, len(self.depths) - 1] if several else [0]
        head = [
            "residual branch",
            *(f"update/stream, L={self.depths[end]}" if several else "update/stream" for end in ends),
        ]
        head += (
            [f"exponent ({100 * self.confidence:g} %)", "alignment", "meaning"]
            if several
            else ["normalised", "gain"]
        )
        rows = [head]
        for kind in self.branches:
            row = [kind.kind, *(f"{kind.ratios[end]:.3g}" for end in ends)]
            if several:
                row += [
                    _exponent(kind),
                    "" if kind.alignment is None else f"{kind.alignment:.2f}",
                    kind.meaning,
                ]
            else:
                gain = next((part.sizes[0] for part in kind.parts if part.role == "gain"), None)
                row += ["yes" if kind.normalised else "no", "" if gain is None else f"{gain:.3g}"]
            rows.append(row)
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: dicts, lists, strings, numbers; NaN and infinities as
        strings.
        """
        return dict(store.plain(dataclasses.asdict(self)))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> DepthReport:
        """Return the report whose `to_dict()` this is; raise KeyError, TypeError or ValueError where it is
        none.
        """
        report = _read(cls, content, "the report")
        if report.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {report.verdict!r}")
        return typing.cast(DepthReport, report)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON; `deeplimit.load_report` reads it back."""
        store.save(KIND, self.to_dict(), path)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML page that needs nothing else: verdict, findings, table, plot.

        Raises TypeError or ValueError, before anything is written, where `path` cannot be written to
        (.html).
        """
        from deeplimit.depth_check import page
        from deeplimit.ground import plotting, validation

        checked = validation.writable_file(path, "path", (".html",))
        axes = self._draw(plotting.new_axes((8.0, 5.0)))
        sections = [
            ("Findings", page.items([(finding.parameter, finding.message) for finding in self.findings])),
            ("Residual branches", page.branches_table(self.depths, self.branches, self.statuses)),
            ("Update against depth", page.picture(axes)),
            ("Parts of the branches", page.parts_table(self.depths, self.branches)),
            ("Streams", page.streams_table(self.streams)),
            ("Reservations", page.items([(None, text) for text in self.reservations])),
        ]
        title = f"Depth scaling of {self.model}: {self.verdict}"
        text = page.document(title, self.what, self.verdict, sections, self.versions)
        with store.whole_file(checked) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None) -> Axes:
        """Draw the size of every kind of branch's update against depth, with its power law; or against
        layers at one depth.

        Args:
            ax: Axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).

        Returns:
            The axes. Nothing is shown.
        """
        from deeplimit.ground import plotting

        return plotting.plot(self._draw, ax, size=(8.0, 5.0))

    def _draw(self, axes: Axes) -> Axes:
        from deeplimit.depth_check import drawing

        if len(self.depths) > 1:
            rule = RULES.get(self.expected) if isinstance(self.expected, str) else None
            number = self.expected if isinstance(self.expected, float) else None
            wanted = number if rule is None else rule.exponent
            drawing.draw_over_depths(axes, self.depths, self.branches, self.statuses, wanted)
            axes.set_title(f"{self.model}: {self.verdict}", loc="left")
        else:
            drawing.draw_over_layers(axes, self.branches)
            axes.set_title(f"{self.model}, {self.depths[0]} residual branches: {self.verdict}", loc="left")
        return axes


def _exponent(kind: BranchScaling) -> str:
    if kind.exponent is None or kind.exponent_interval is None:
        return "-"
    low, high = kind.exponent_interval
    return f"{kind.exponent:.2f} [{low:.2f}, {high:.2f}]"


def _series(values: typing.Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}x" for value in values)


def _count(number: int) -> str:
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return str(number)


def _read(kind: Any, content: Any, where: str) -> Any:
    """Return `content`, as `to_dict` wrote it, as the type `kind`: dataclasses, tuples, numbers, texts."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        values = store.fields_of(kind, content, where)
        return kind(**{name: _read(hints[name], content[name], f"{name} of {where}") for name in values})
    if origin in (typing.Union, types.UnionType):
        options = [option for option in inside if option is not type(None)]
        if content is None and len(options) < len(inside):
            return None
        if len(options) > 1:
            options = [str] if isinstance(content, str) and not _is_number(content) else [float]
        return _read(options[0], content, where)
    if origin is tuple:
        if not isinstance(content, list):
            raise TypeError(f"{where} must be a list")
        kinds = [inside[0]] * len(content) if inside[1:] == (Ellipsis,) else list(inside)
        if len(kinds) != len(content):
            raise ValueError(f"{where} must have {len(kinds)} entries, got {len(content)}")
        return tuple(_read(item_kind, item, where) for item_kind, item in zip(kinds, content, strict=True))
    if kind is float:
        return store.number(content, where)
    return content


def _is_number(text: str) -> bool:
    return text in ("inf", "-inf", "nan")
