"""Lines that set findings right, run on modules before they are printed: one that fails is not printed."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import nn

from deeplimit.common.global_state import alone, seeded
from deeplimit.common.report import one_line
from deeplimit.modules.depth_check.findings import Finding
from deeplimit.modules.depth_check.fixes import IN_FORWARD, IN_INIT, expression
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.runs import Factory, built
from deeplimit.modules.trace.batches import outputs
from deeplimit.modules.trace.in_pieces import built_to_fit, changing

FAILURES = (ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, SyntaxError, TypeError)
SCALES = ("exponent", "weight", "gain", "multiplier")
"""What findings are about whose line scales a branch."""
VISIBLE = 1e-2
"""Updates of this share of the stream, which a line makes larger or smaller by a tenth or more, ..."""
ROUND_OFF = 3e-4
"""... change the output by more than this share of it, unless the forward divides the factor out again. The
epsilon of a norm that follows moves the output by 1e-4."""
Forward = Callable[[nn.Module], object]
CPU = torch.device("cpu")


def tried(report: DepthReport, factory: Factory, forward: Forward, device: torch.device = CPU) -> DepthReport:
    """Return the report without the lines that do not run on the module of every depth.

    Each depth is built once more where there are lines to run; without findings nothing is built. Lines for a
    forward or an initialiser are not run. Where a line puts a hook on a module, a forward follows. Lines that
    scale a branch must change the output of the deepest module. A module on the meta device is filled on
    `device`.
    """
    lines = _to_run(report)
    acting = _acting(report)
    failed: dict[str, str] = {}
    for depth in report.depths if lines else ():

        def make(depth: int = depth) -> nn.Module:
            with seeded(report.seed):
                return built(factory, depth)

        with alone(), seeded(report.seed):
            left = [line for line in lines if line not in failed]
            shown = acting if depth == report.depths[-1] else {}
            for line, why in _failures(built_to_fit(make, device), left, forward, shown, report.seed):
                failed[line] = f"depth {depth} ({why})"
    return _without_failed(report, failed)


def tried_on(report: DepthReport, model: nn.Module, forward: Forward) -> DepthReport:
    """Return the report on one module without the lines that do not run on a copy of it."""
    lines = _to_run(report)
    if not lines:
        return report
    with alone(), seeded(report.seed):
        failures = dict(_failures(_copied(model), lines, forward, _acting(report), report.seed))
    return _without_failed(report, {line: f"a copy of the module ({why})" for line, why in failures.items()})


def _to_run(report: DepthReport) -> list[str]:
    fixes = [finding.fix for finding in report.findings]
    return [line for line in dict.fromkeys(fixes) if line and not line.startswith((IN_FORWARD, IN_INIT))]


def _acting(report: DepthReport) -> dict[str, str]:
    """Return the lines that scale a branch which is seen in its stream, and the parameters they are about."""
    moving = {branch.kind for branch in report.branches if branch.ratios[-1] > VISIBLE}
    return {
        finding.fix: finding.parameter
        for finding in report.findings
        if finding.about in SCALES and finding.factor and finding.branch in moving
    }


def _without_failed(report: DepthReport, failed: Mapping[str, str]) -> DepthReport:
    if not failed:
        return report
    told = [
        f"{finding.parameter}: the line that would set it right failed on {failed[finding.fix]}, so it"
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
    made: contextlib.AbstractContextManager[nn.Module],
    lines: Sequence[str],
    forward: Forward,
    acting: Mapping[str, str],
    seed: int,
) -> list[tuple[str, str]]:
    """Return the lines that fail on a module, and why; all of them if there is no module.

    Those that are `acting` fail, too, where the module's output is the same as before.
    """
    with contextlib.ExitStack() as stack:
        try:
            model = stack.enter_context(made)
        except Exception as error:  # noqa: BLE001  # what a factory raises when called again costs no report
            return [(line, f"it could not be built again: {type(error).__name__}") for line in lines]
        before = _output(model, forward, seed) if acting else []
        failed = []
        for line in lines:
            why = _failure(line, model)
            if not why and line in acting and before:
                after = _output(model, forward, seed)
                same = bool(after) and all(map(_same, before, after))
                if same and _is_seen(model, acting[line], before, forward, seed):
                    why = "it changes nothing"
                before = after
            if why:
                failed.append((line, why))
        hooks = [line for line in lines if "_hook(" in line and line not in dict(failed)]
        if hooks and (why := _raised(lambda: forward(model))):
            failed += [(line, f"in a forward: {why}") for line in hooks]
        return failed


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether tensors differ by no more than round-off."""
    if before.shape != after.shape:
        return False
    return bool((after - before).abs().max() <= ROUND_OFF * before.abs().max())


def _is_seen(
    model: nn.Module, parameter: str, before: Sequence[torch.Tensor], forward: Forward, seed: int
) -> bool:
    """Whether the output shows other values of a parameter, which a last layer of zeros would hide."""
    matched = re.compile(expression(parameter))
    own = {name: value for name, value in model.named_parameters() if matched.fullmatch(name)}
    kept = {name: value.detach().clone() for name, value in own.items()}
    with seeded(seed), torch.no_grad():
        for value in own.values():
            value.add_(torch.randn_like(value))
    after = _output(model, forward, seed)
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(kept[name])
    return bool(after) and not all(map(_same, before, after))


def _output(model: nn.Module, forward: Forward, seed: int) -> list[torch.Tensor]:
    """Return the output of a forward, in tensors; nothing where it fails."""
    with seeded(seed):
        try:
            return [tensor.detach().clone() for tensor in outputs(forward(model))]
        except (*FAILURES, ValueError):
            return []


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
