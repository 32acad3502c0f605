"""`check_training`: networks of several depths after a few steps of training, measured and judged."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check import DepthReport, Rule, check_depth
from deeplimit.modules.trace.losses import check_loss
from deeplimit.modules.training_check.best_rate import RateDrift, SweptRates, drift_findings, rate_drift
from deeplimit.modules.training_check.findings import TrainingFinding, many
from deeplimit.modules.training_check.judgement import (
    diverged,
    judged,
    measured_findings,
    memories,
    outgrown,
    undecided,
    verdict_of,
    while_velocities_fill,
)
from deeplimit.modules.training_check.learning_rate import unsaturated
from deeplimit.modules.training_check.rates import against_rule, parameter_scalings
from deeplimit.modules.training_check.report import TrainingCheckReport
from deeplimit.modules.training_check.rule import ADAM_LIKE, TrainingRule, training_rule
from deeplimit.modules.training_check.runs import Factory, Optimizers, TrainedNetworks
from deeplimit.modules.training_check.scaling import transfers
from deeplimit.modules.training_check.widths import width_findings, width_transfer
from deeplimit.version import versions


@by_default
def check_training(
    factory: Factory,
    depths: Sequence[int] = (4, 8, 16, 32),
    *,
    optimizer: Optimizers,
    batch: Any = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    steps: Sequence[int] = (1, 4),
    expected: str | Rule | None = None,
    blocks: str | Sequence[str] | None = None,
    widths: Sequence[int] | None = None,
    rate_factors: Sequence[float] | None = None,
    seeds: int = 4,
    tolerance: float = 0.2,
    confidence: float = 0.99,
    seed: int = 0,
    device: str | torch.device | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | bool | None = None,
) -> TrainingCheckReport:
    """Train a module at several depths for a few steps and find out whether learning rates carry over.

    This is the coordinate check of muP for depth, with a verdict. Before any step, learning rate, epsilon and
    weight decay of every parameter are compared with the rule, exactly. After the steps the change of the
    features, of every residual branch, the coherence of the layers and the distance from linear are measured
    as powers of the depth. If a branch of the shallowest network changes by more than a tenth, all learning
    rates are lowered by one factor first; a reservation says so. A branch may start at zero: then what it
    comes to is compared with the stream.

    Dropout is off. Every network is dropped after its steps; global generators are left as they were.

    Args:
        factory: Function of a depth that returns an `nn.Module` with that many blocks.
        depths: At least two different depths, as `factory` counts them.
        optimizer: Function of a module and its depth that returns a `torch.optim.Optimizer` for it, with
            the groups and learning rates that you train with; or a list of optimizers, as Muon needs, which
            takes matrices alone.
        batch: Input of the module, as in `check_depth`; one batch for all depths, steps and seeds.
        loss: Function of the module's output that returns a scalar tensor. If left out, the mean squared
            distance of the first output from normal noise.
        steps: Numbers of steps after which networks are measured, increasing. The verdict uses the last.
        expected: "completep", "depth-mup", a `Rule` whose `scale` is a power of the depth, or None: measure
            only.
        blocks: Patterns of module names ("model.layers.*"): only additions inside these modules count.
        widths: At least two widths for muP's own coordinate check. Then `factory(depth, width)` and
            `optimizer(model, depth, width)` are called. Depths are compared at the first width, widths at the
            first depth, where no change may depend on the width. Settings over widths are not judged.
        rate_factors: Factors of all learning rates, three at least, increasing. Then every network is trained
            at each of them in addition, and the one with the smallest loss after the last of `steps` is
            compared over depths. This costs depths x seeds x factors trainings.
        seeds: Number of networks per depth, from different seeds; intervals come from their scatter.
        tolerance: Largest accepted distance of an exponent from the expected one. An interval that holds
            the latter has to end within 2.5 tolerances of it, at most 0.25; else "cannot tell".
        confidence: Joint confidence level of the exponents' intervals.
        seed: Seed from which those of the networks are derived.
        device: "cpu" or "cuda", to which modules are moved; if left out, they stay where the factory puts
            them.
        workers: As elsewhere, but networks run one after the other: modules draw from generators that threads
            share. Changes no bit of the result.
        executor: Any `concurrent.futures.Executor`, or a Dask client, that takes the networks. Changes no bit
            of the result.
        store: A `Store` with a name that keeps finished networks; one without a name is refused.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A `TrainingCheckReport`: `ok`, `verdict` ("as expected", "not as expected", "cannot tell"; "measured"
        if nothing was expected), `findings`, `branches`, `streams`, `parameters`.

    Raises:
        TypeError: For a factory or an optimizer that is not a function, or makes something else.
        ValueError: For a rule that states no learning rates, modules that do not deepen, learning rates at
            which nothing moves, and where no residual branch is found.

    What `factory`, `optimizer`, `loss` or the module raises comes through, with a note that names the depth.

    Not checked: training beyond these steps. The rules rest on layers that push the same way, which holds
    early in training.

    Examples:
        >>> import torch, deeplimit as dl
        >>> def stack(depth):
        ...     layer = torch.nn.TransformerEncoderLayer(16, 2, 32, norm_first=True, batch_first=True)
        ...     return torch.nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        >>> report = dl.check_training(
        ...     stack,
        ...     [2, 4, 8],
        ...     optimizer=lambda model, depth: torch.optim.Adam(model.parameters(), lr=1e-3),
        ...     batch=torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)),
        ...     expected="depth-mup",
        ... )
        >>> report.verdict, report.findings[0].about
        ('not as expected', 'initialisation')
    """
    started, given = time.perf_counter(), {**locals()}
    checked = validation.depths(depths)
    counted = _increasing(steps, "steps", at_least=1, maximum=1000)
    chosen = training_rule(expected)
    _check_functions(factory, optimizer, loss)
    validation.real(
        tolerance, "tolerance", above=0.0, maximum=0.25, hint="exponents 1/2 apart must stay apart."
    )
    validation.probability(confidence, "confidence", hint="0.99, say.")
    seed = validation.seed(seed)
    validation.integer(seeds, "seeds", minimum=2, hint="Intervals come from the scatter among seeds.")
    running = Running.checked(workers, executor, store, progress)
    if running.store is not None and running.store.name is None:
        raise ValueError(
            f"store= needs a name here, got {str(running.store.path)!r}: a factory's code does not say all"
            " that it builds. Pass store=deeplimit.Store(path, name='my-model')."
        )
    home = validation.device(device) if device is not None else torch.device("cpu")
    across = () if widths is None else _increasing(widths, "widths", at_least=2)
    factors = () if rate_factors is None else _factors(rate_factors)
    sizes = [(depth, *across[:1]) for depth in checked] + [(checked[0], width) for width in across[1:]]
    trained = TrainedNetworks(
        factory,
        optimizer,
        tuple(sizes),
        batch,
        loss,
        counted,
        seeds,
        seed,
        blocks,
        moved=device is not None,
        device=home,
    )
    start = _at_start(trained, checked, chosen, confidence)
    drift = _drift(trained, checked, factors, running, confidence, tolerance) if factors else None
    trained, at_given = unsaturated(trained)
    measured = running.measure(trained)
    groups = [measured[place * seeds : (place + 1) * seeds] for place in range(len(sizes))]
    networks, wider = groups[: len(checked)], [groups[0], *groups[len(checked) :]]
    width = width_transfer(across, checked[0], wider, confidence, tolerance) if across else None
    _check_deepens(checked, [group[0].branches for group in networks])
    branches, streams = transfers(checked, networks, confidence)
    settings = [group[0].settings for group in networks]
    kind = networks[-1][0].optimizer
    rule = None if chosen is None else chosen[1]
    findings = diverged(checked, networks, counted) or outgrown(checked[0], at_given, counted)
    if rule is not None:
        # From zero, a branch is linear in its first step, and under SGD far less nonlinear than another.
        bends = counted[-1] > 1 and kind in ADAM_LIKE
        branches, streams = judged(branches, streams, rule, tolerance, bends=bends)
        filling = {} if start is None else memories(start.branches)
        streams = while_velocities_fill(checked, streams, filling, tolerance)
        set_wrong = against_rule(checked, settings, kind, rule)
        rates_right = rule.rate(kind) is not None and all(each.about != "learning rate" for each in set_wrong)
        findings = [
            *_initial(start),
            *set_wrong,
            *findings,
            *measured_findings(checked, branches, streams, rule, rates_right=rates_right),
            *(width_findings(width) if width is not None else ()),
            *(drift_findings(checked, drift) if drift is not None else ()),
        ]
    known = rule is None or rule.rate(kind) is not None
    also = [] if width is None else [(f"{name} over widths", power) for name, power in width.judged]
    certain = known and (start is None or DepthVerdict.CANNOT_TELL not in (start.verdict, *start.statuses))
    report = TrainingCheckReport(
        verdict=verdict_of(rule, branches, streams, findings, also=also, certain=certain),
        model=networks[-1][0].model,
        optimizer=kind,
        depths=checked,
        steps=counted,
        expected=None if rule is None else rule.name,
        factor=trained.factor,
        branches=branches,
        streams=streams,
        parameters=parameter_scalings(checked, settings),
        findings=tuple(findings),
        tolerance=tolerance,
        confidence=confidence,
        seeds=seeds,
        seed=seed,
        seconds=time.perf_counter() - started,
        versions=versions(),
        reservations=tuple(_reservations(trained, start, rule, kind, undecided(branches, streams, also))),
        citations=() if chosen is None or not chosen[0].citation else (chosen[0].citation,),
        width=width,
        drift=drift,
    )
    return report.called_by("check_training", given)


def _drift(
    trained: TrainedNetworks,
    depths: tuple[int, ...],
    factors: tuple[float, ...],
    running: Running,
    confidence: float,
    tolerance: float,
) -> RateDrift:
    """Train the networks of all depths at every factor of the learning rates, and judge the best ones."""
    sizes = trained.sizes[: len(depths)]
    losses = running.measure(SweptRates(dataclasses.replace(trained, sizes=sizes), factors))
    groups = [losses[place * trained.seeds : (place + 1) * trained.seeds] for place in range(len(depths))]
    return rate_drift(depths, factors, groups, trained.steps[-1], confidence, tolerance)


def _factors(given: object) -> tuple[float, ...]:
    """Return increasing positive numbers."""
    if isinstance(given, (set, frozenset)):
        raise TypeError("rate_factors must be a list of numbers, got a set, which has no order.")
    entries = validation.entries(given, "rate_factors", "a list of numbers")
    listed = [validation.real(each, "every entry of rate_factors", above=0.0) for each in entries]
    if len(listed) < 3 or sorted(set(listed)) != listed:
        raise ValueError(
            f"rate_factors must be increasing, with at least 3 entries, got {listed}; [0.1, 0.3, 1, 3, 10],"
            " say."
        )
    return tuple(listed)


def _increasing(
    given: object, name: str, *, at_least: int, maximum: int = validation.LARGEST
) -> tuple[int, ...]:
    """Return increasing positive integers."""
    if isinstance(given, (set, frozenset)):
        raise TypeError(f"{name} must be a list of integers, got a set, which has no order.")
    entries = validation.entries(given, name, "a list of integers")
    listed = [
        validation.integer(each, f"every entry of {name}", minimum=1, maximum=maximum) for each in entries
    ]
    if len(listed) < at_least or sorted(set(listed)) != listed:
        raise ValueError(f"{name} must be increasing, with at least {at_least} entries, got {listed}.")
    return tuple(listed)


def _check_functions(factory: object, optimizer: object, loss: object) -> None:
    if isinstance(factory, nn.Module) or not callable(factory):
        raise TypeError(
            f"factory must be a function depth -> nn.Module, got {validation.named(factory)}: pass a function"
            " that builds the module at a given depth."
        )
    if isinstance(optimizer, (torch.optim.Optimizer, type)) or not callable(optimizer):
        raise TypeError(
            "optimizer must be a function of a module and its depth that returns a torch.optim.Optimizer, got"
            f" {validation.named(optimizer)}; for one learning rate at every depth, lambda model, depth:"
            " torch.optim.AdamW(model.parameters(), lr=1e-3)."
        )
    if not (validation.takes(optimizer, 2) or validation.takes(optimizer, 3)):  # with a width
        raise TypeError(
            "optimizer must be a function of a module and its depth; got one of other arguments. Write lambda"
            " model, depth: torch.optim.AdamW(model.parameters(), lr=1e-3), say."
        )
    check_loss(loss)


def _at_start(
    trained: TrainedNetworks,
    depths: tuple[int, ...],
    chosen: tuple[Rule, TrainingRule] | None,
    confidence: float,
) -> DepthReport | None:
    """Return what `check_depth` says of the initialisation, under the same rule."""
    if chosen is None:
        return None
    return check_depth(
        lambda depth: trained.factory(depth, *trained.sizes[0][1:]),
        depths,
        batch=trained.batch,
        expected=chosen[0],
        blocks=trained.patterns,
        confidence=confidence,
        seed=trained.seed,
        device=str(trained.device) if trained.moved else None,
    )


def _initial(start: DepthReport | None) -> list[TrainingFinding]:
    """Return what departs at initialisation. Branches may start at zero: what they come to is measured."""
    if start is None:
        return []
    zero = {branch.kind for branch in start.branches if not any(branch.sizes)}
    return [
        TrainingFinding("initialisation", (found.parameter,), found.factor, found.message)
        for found in start.findings
        if not (found.branch in zero and found.factor == 0)
    ]


def _check_deepens(depths: Sequence[int], branches: Sequence[Sequence[Any]]) -> None:
    counts = [sum(branch.count for branch in own) for own in branches]
    if len(set(counts)) == 1:
        raise ValueError(
            f"factory ignores the depth: at depths {', '.join(map(str, depths))} it built modules with"
            f" {counts[0]} residual branches each. Pass the depth on to the module's number of blocks."
        )


def _reservations(
    trained: TrainedNetworks,
    start: DepthReport | None,
    rule: TrainingRule | None,
    kind: str,
    open_questions: Sequence[str],
) -> list[str]:
    steps = many(trained.steps[-1], "step")
    told = [
        f"This is early training, {steps} on one batch: layers push the same way early on, and rules for"
        " depth rest on that."
    ]
    if trained.factor != 1:
        told.append(
            f"At the given learning rates a branch of depth {trained.sizes[0][0]} changes by more than a"
            f" tenth in {steps}. All learning rates were multiplied by"
            f" {trained.factor:.3g} to measure exponents; settings are judged as given."
        )
    if trained.loss is None:
        told.append("No loss was given: networks were trained towards normal noise.")
    if rule is not None and rule.rate(kind) is None:
        told.append(
            f"{kind} is not an optimizer whose learning rate {rule.name} is known to scale: its settings were"
            " not judged. Adam, AdamW and SGD are."
        )
    if open_questions:
        told.append(
            f"Undecided: {'; '.join(open_questions)}. Such intervals are too wide to tell exponents apart"
            " that differ by 1/2: raise seeds=, or add depths that are further apart."
        )
    if start is not None:
        told += [f"At initialisation: {text}" for text in start.reservations]
        if start.verdict == DepthVerdict.CANNOT_TELL:
            told.append(f"At initialisation dl.check_depth cannot tell: {start.headline}")
    return told
