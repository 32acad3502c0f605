"""Lines that set findings right, run on modules before they are printed: one that fails is not printed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from deeplimit.common.global_state import alone, seeded
from deeplimit.modules.depth_check.findings import Finding
from deeplimit.modules.depth_check.fixes import IN_FORWARD
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.runs import Factory, built

FAILURES = (ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, SyntaxError, TypeError)


def tried(report: DepthReport, factory: Factory) -> DepthReport:
    """Return the report without the lines that do not run on the module of every depth.

    Each depth is built once more where there are lines to run; without findings nothing is built. Lines for a
    forward are not run, nor is the module afterwards.
    """
    lines = [
        finding.fix for finding in report.findings if finding.fix and not finding.fix.startswith(IN_FORWARD)
    ]
    failed: dict[str, str] = {}
    for depth in report.depths if lines else ():
        with alone(), seeded(report.seed):
            for line, why in _failures(factory, depth, [line for line in lines if line not in failed]):
                failed[line] = f"depth {depth} ({why})"
    if not failed:
        return report
    told = [
        f"{finding.parameter}: the line that would set it right did not run at {failed[finding.fix]}, so it"
        " is left out."
        for finding in report.findings
        if finding.fix in failed
    ]
    return dataclasses.replace(
        report,
        findings=tuple(_without(finding, failed) for finding in report.findings),
        reservations=(*report.reservations, *dict.fromkeys(told)),
    )


def _without(finding: Finding, failed: Mapping[str, str]) -> Finding:
    return dataclasses.replace(finding, fix="") if finding.fix in failed else finding


def _failures(factory: Factory, depth: int, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that fail on the module of a depth, and why; all of them if there is no module."""
    try:
        model = built(factory, depth)
    except Exception as error:  # noqa: BLE001  # what a factory raises when called again costs no report
        yield from ((line, f"the factory raised {type(error).__name__}") for line in lines)
        return
    for line in dict.fromkeys(lines):
        if why := _failure(line, model):
            yield line, why


def _failure(line: str, model: nn.Module) -> str:
    """Return what a line raises on a module, or the parameter that it leaves not finite; "" if it runs."""
    try:
        exec(line, {"model": model, "torch": torch})  # noqa: S102  # written in `fixes`, from quoted names
    except (*FAILURES, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and not bool(torch.isfinite(parameter).all()):
            return f"{name} is not finite after it"
    return ""
