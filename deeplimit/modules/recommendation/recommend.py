"""`recommend`: measure a module, write the line that its depth asks for, run it, and keep it if it passes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default, seeded
from deeplimit.common.measurement import Progress, in_one_pass, part_of
from deeplimit.common.verdict import DepthVerdict, RecommendationVerdict, judge, said
from deeplimit.modules.depth_check.check import check_depth
from deeplimit.modules.depth_check.exponent_findings import has_exponent
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.stream_meaning import DAMPED, DYING, MULTIPLIED, OUTGROWS
from deeplimit.modules.depth_check.whole_findings import (
    in_few_layers,
    may_add_up,
    of_the_sum,
    undo_each_other,
)
from deeplimit.modules.recommendation import wording
from deeplimit.modules.recommendation.measured import Growth, growth_of
from deeplimit.modules.recommendation.report import Recommendation
from deeplimit.modules.recommendation.scaling_line import (
    SMALL,
    Wanted,
    by_initialiser,
    by_names,
    common_exponent,
    executed,
    learning_rates,
)
from deeplimit.modules.recommendation.verdict import LARGEST, Evidence, rules
from deeplimit.version import versions

Factory = Callable[[int], nn.Module]
DOES_NOT_FIT = (AttributeError, IndexError, KeyError, NameError, RuntimeError, TypeError, ValueError)
"""What code raises on a model that it does not fit: it is then no recommendation."""
UNSOUND = (DAMPED, MULTIPLIED, DYING, OUTGROWS)
"""What becomes of a stream whatever exponent its branches have."""
MEASURED, GROWN = 0.3, 0.5
"""Fractions done after the exponents, and after the growth before any change; the rest is trying code."""
COPIES = 0.9
"""Alignment above which layers are copies of one another: independent ones have 0.5, equal ones 1."""


@by_default
def recommend(
    factory: Factory,
    depth: int = 200,
    *,
    batch: Any = None,
    depths: Sequence[int] = (4, 8, 16, 32),
    exponent: float | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Recommendation:
    """Recommend how the residual branches of a module are to be scaled at a depth, as code that was run.

    The branches are measured at a few depths: their exponent, and how much layers point the same way, which
    decides the exponent they need. Code that gives it to them is written and run on a fresh module at every
    depth and at the depth asked for. It is in the report only if it passes at all of them.

    Args:
        factory: Function of a depth that returns an `nn.Module` with that many blocks.
        depth: Depth at which the module is to be trained.
        batch: Input of the module, as in `check_depth`.
        depths: Depths at which exponents are measured, at least three.
        exponent: Residual exponent to aim at, such as 1 for CompleteP with a stable learning rate; left out,
            0.5 for kinds of branches whose layers are independent and 1 for those whose layers are aligned.
            Branches with more, up to 1, are then left as they are: with 1/L, what layers learn adds up.
        seed: Seed of the generators while modules are built.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A `Recommendation`: `verdict`, `exponent`, `code`, `learning_rate`, growth before and after.

    Raises:
        TypeError: For a factory that is not a function or does not return modules.
        ValueError: For a depth not above the largest of `depths`, and where no residual branch is found.

    Not checked: training itself, which `check_training` measures; widths and batch sizes.

    Examples:
        >>> import torch, deeplimit as dl
        >>> class Block(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        ...     def forward(self, h):
        ...         return h + 3 * self.second(torch.relu(self.first(h)))
        >>> def stack(depth):
        ...     return torch.nn.Sequential(*(Block() for _ in range(depth)))
        >>> found = dl.recommend(stack, 60, batch=torch.ones(4, 16), depths=(4, 8, 16))
        >>> found.verdict, found.exponent, bool(found.signal_after[-1] < 10)
        ('change', 0.5, True)
    """
    started, given = time.perf_counter(), {**locals()}
    checked = validation.depths(depths, at_least=3)
    hint = f"It lies beyond the depths at which exponents are measured, {checked}: pass smaller depths=."
    aim = validation.integer(depth, "depth", minimum=checked[-1] + 1, hint=hint)
    asked = None if exponent is None else validation.real(exponent, "exponent", minimum=0.0, maximum=2.0)
    first = validation.seed(seed)
    with in_one_pass(progress, "recommend") as move:
        report = _recommended(factory, aim, checked, batch, asked, first, started, move)
    return report.called_by("recommend", given)


def _recommended(
    factory: Factory,
    aim: int,
    checked: tuple[int, ...],
    batch: Any,
    asked: float | None,
    first: int,
    started: float,
    move: Progress,
) -> Recommendation:
    """Return the recommendation of checked arguments."""
    measured = check_depth(factory, checked, batch=batch, seed=first, progress=part_of(move, 0.0, MEASURED))
    every_kind = [Wanted.of(kind, asked) for kind in measured.branches]
    wanted = common_exponent(every_kind)
    totals = [sum(stream.branches[place] for stream in measured.streams) for place in range(len(checked))]
    every = (*checked, aim)
    before = _grown(factory, every, batch, first, part_of(move, MEASURED, GROWN))
    lacking = any(each.lacks for each in every_kind)
    code, after = "", before
    candidates = [by_names(every_kind, checked, totals)]
    if all(each.exponent == wanted for each in every_kind):
        candidates.append(by_initialiser(wanted))
    for number, tried in enumerate(candidates):
        if not lacking or not tried:
            continue
        part = part_of(move, GROWN + number * (1 - GROWN) / 2, GROWN + (number + 1) * (1 - GROWN) / 2)
        found = _passed(factory, tried, every, batch, every_kind, first, part)
        if found is not None:
            code, after = tried, found
            break
    alike = [kind.kind for kind in measured.branches if (kind.alignment or 0.0) > COPIES]
    reservations = [wording.ALIGNED.format(", ".join(alike))] if alike and asked is None else []
    known = tuple(
        (kind.kind.exponent, kind.exponent) for kind in every_kind if kind.kind.exponent is not None
    )
    unsound = tuple(each.follows for each in measured.streams if each.meaning in UNSOUND)
    unsound += tuple(f"{each.kind} {in_few_layers(each)}" for each in measured.branches if each.few)
    unsound += tuple(
        f"{each.kind.kind} {of_the_sum(each.kind)}"
        for each in every_kind
        if may_add_up(each.kind, each.exponent) or (each.exponent < 1 and undo_each_other(each.kind))
    )
    evidence = Evidence(aim, known, unsound, lacking, code, before[-1], after[-1])
    judged = judge(rules, evidence)
    follows = judged.code is not RecommendationVerdict.CANNOT_TELL
    ends = [_built(factory, depth, first) for depth in (checked[0], checked[-1])]
    afterwards = {each.kind.kind: each.afterwards if code else each.kind.exponent for each in every_kind}
    rates = learning_rates(measured.branches if follows else (), afterwards, *ends)
    return Recommendation(
        verdict=judged.code,
        rule=judged.rule,
        reason=said(judged, wording.REASONS),
        exponent=wanted,
        code=code,
        learning_rate=rates,
        depth=aim,
        model=measured.model,
        kinds=tuple(kind.kind for kind in measured.branches),
        needed=tuple(each.exponent for each in every_kind),
        exponents=np.array(
            [math.nan if kind.exponent is None else kind.exponent for kind in measured.branches]
        ),
        depths=np.array(every),
        signal_before=np.array([each.signal for each in before]),
        signal_after=np.array([each.signal for each in after]),
        gradient_before=np.array([each.gradient for each in before]),
        gradient_after=np.array([each.gradient for each in after]),
        seed=first,
        seconds=time.perf_counter() - started,
        versions=versions(),
        reservations=tuple(reservations),
    )


def _built(factory: Factory, depth: int, seed: int) -> nn.Module:
    with seeded(seed), validation.noted(f"deeplimit called the factory with depth {depth}."):
        return factory(depth)


def _grown(factory: Factory, depths: Sequence[int], batch: Any, seed: int, move: Progress) -> list[Growth]:
    """Return the growth at every depth."""
    found = []
    for place, depth in enumerate(depths):
        found.append(growth_of(_built(factory, depth, seed), batch))
        move(sum(depths[: place + 1]) / sum(depths))
    return found


def _passed(
    factory: Factory,
    code: str,
    depths: Sequence[int],
    batch: Any,
    every: Sequence[Wanted],
    seed: int,
    move: Progress,
) -> list[Growth] | None:
    """Return the growth at every depth after the code; None where it fails at one, or does not mend it."""

    def mended(depth: int) -> nn.Module:
        return executed(code, factory(depth), depth, batch)

    stopped: list[BaseException] = []

    def noted(fraction: float) -> None:
        try:
            move(fraction)
        except BaseException as error:
            stopped.append(error)  # the user's way to end the call, not a sign that code does not fit
            raise

    try:
        checks, grows = part_of(noted, 0.0, 0.5), part_of(noted, 0.5, 1.0)
        asked = {each.exponent if each.lacks else None for each in every}
        one = asked.pop() if len(asked) == 1 else None
        report: DepthReport = check_depth(
            mended, depths[:-1], batch=batch, expected=one, seed=seed, progress=checks
        )
        grown = _grown(mended, depths, batch, seed, grows)
    except DOES_NOT_FIT as error:
        if any(error is each for each in stopped):
            raise
        return None
    after = {kind.kind: kind for kind in report.branches}
    wrong = report.verdict is DepthVerdict.NOT_AS_EXPECTED or any(
        each.lacks and has_exponent(after[each.kind.kind], each.exponent, SMALL) is False for each in every
    )
    return None if wrong or not all(each.is_within(LARGEST) for each in grown) else grown
