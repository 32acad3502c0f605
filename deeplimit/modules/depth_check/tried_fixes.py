"""Lines that set findings right, run on modules before they are printed: one that fails is not printed."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import nn

from deeplimit.common.global_state import alone, seeded
from deeplimit.common.report import one_line
from deeplimit.modules.depth_check.findings import Finding
from deeplimit.modules.depth_check.fixes import IN_FORWARD, IN_INIT
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.runs import Factory, built
from deeplimit.modules.trace.in_pieces import built_to_fit, changing

FAILURES = (ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, SyntaxError, TypeError)
Forward = Callable[[nn.Module], object]
CPU = torch.device("cpu")


def tried(report: DepthReport, factory: Factory, forward: Forward, device: torch.device = CPU) -> DepthReport:
    """Return the report without the lines that do not run on the module of every depth.

    Each depth is built once more where there are lines to run; without findings nothing is built. Lines for a
    forward or an initialiser are not run. Where a line puts a hook on a module, a forward follows. A module
    on the meta device is filled on `device`.
    """
    lines = _to_run(report)
    failed: dict[str, str] = {}
    for depth in report.depths if lines else ():

        def make(depth: int = depth) -> nn.Module:
            with seeded(report.seed):
                return built(factory, depth)

        with alone(), seeded(report.seed):
            left = [line for line in lines if line not in failed]
            for line, why in _failures(built_to_fit(make, device), left, forward):
                failed[line] = f"depth {depth} ({why})"
    return _without_failed(report, failed)


def tried_on(report: DepthReport, model: nn.Module, forward: Forward) -> DepthReport:
    """Return the report on one module without the lines that do not run on a copy of it."""
    lines = _to_run(report)
    if not lines:
        return report
    with alone(), seeded(report.seed):
        failures = dict(_failures(_copied(model), lines, forward))
    return _without_failed(report, {line: f"a copy of the module ({why})" for line, why in failures.items()})


def _to_run(report: DepthReport) -> list[str]:
    fixes = [finding.fix for finding in report.findings]
    return [line for line in dict.fromkeys(fixes) if line and not line.startswith((IN_FORWARD, IN_INIT))]


def _without_failed(report: DepthReport, failed: Mapping[str, str]) -> DepthReport:
    if not failed:
        return report
    told = [
        f"{finding.parameter}: the line that would set it right did not run on {failed[finding.fix]}, so it"
        " is left out."
        for finding in report.findings
        if finding.fix in failed
    ]
    return dataclasses.replace(
        report,
        findings=tuple(_without(finding, failed) for finding in report.findings),
        reservations=(*report.reservations, *map(one_line, dict.fromkeys(told))),
    )


def _without(finding: Finding, failed: Mapping[str, str]) -> Finding:
    return dataclasses.replace(finding, fix="") if finding.fix in failed else finding


@contextlib.contextmanager
def _copied(model: nn.Module) -> Iterator[nn.Module]:
    yield copy.deepcopy(model)


def _failures(
    made: contextlib.AbstractContextManager[nn.Module], lines: Sequence[str], forward: Forward
) -> list[tuple[str, str]]:
    """Return the lines that fail on a module, and why; all of them if there is no module."""
    with contextlib.ExitStack() as stack:
        try:
            model = stack.enter_context(made)
        except Exception as error:  # noqa: BLE001  # what a factory raises when called again costs no report
            return [(line, f"it could not be built again: {type(error).__name__}") for line in lines]
        failed = [(line, why) for line in lines if (why := _failure(line, model))]
        hooks = [line for line in lines if "_hook(" in line and line not in dict(failed)]
        if hooks and (why := _raised(lambda: forward(model))):
            failed += [(line, f"in a forward: {why}") for line in hooks]
        return failed


def _raised(what: Callable[[], object]) -> str:
    try:
        what()
    except (*FAILURES, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _failure(line: str, model: nn.Module) -> str:
    """Return what a line raises on a module, or the parameter that it leaves not finite; "" if it runs."""
    with changing(model) as may_have_changed:
        # Written in `fixes`, from quoted names.
        if why := _raised(lambda: exec(line, {"model": model, "torch": torch})):  # noqa: S102
            return why
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point() or not may_have_changed(parameter):
            continue
        if not bool(torch.isfinite(parameter).all()):
            return f"{name} is not finite after it"
    return ""
