"""`compare_laws`: the law of a network's last state at several depths against that of a limit at time 1."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.initial_layer import starting_states
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.store import Store
from deeplimit.common.validation import NoTheoremError
from deeplimit.common.verdict import LawVerdict
from deeplimit.driving import ChannelKind, Dependence
from deeplimit.driving.law import FINITE_VARIANCE
from deeplimit.equations import Independent, Limit, read_limit
from deeplimit.judge import whole_modules
from deeplimit.judge.in_law import two_sample, wording
from deeplimit.judge.in_law.adaptive import ComparingLaws
from deeplimit.judge.in_law.coarseness import coarseness
from deeplimit.judge.in_law.report import LawReport
from deeplimit.judge.in_law.simulation import Plan, Sample, feature_names, rounding_share
from deeplimit.judge.in_law.verdict import Evidence, judge
from deeplimit.networks.residual_network import ResidualNetwork, network_of
from deeplimit.statistics.adaptive_sampling import AUTO, AdaptiveSampling, carry_out
from deeplimit.statistics.extrapolation import extrapolate
from deeplimit.theory import reservations
from deeplimit.version import versions

JOINT = 400
"""Most draws of each law that the test of the joint law takes: it holds all their distances."""
GRID = 241
"""Points at which distribution functions are kept."""


@by_default
def compare_laws(
    resnet: ResidualNetwork | Callable[[int], Any],
    limit: object = None,
    x: Tensor | None = None,
    *,
    depths: Sequence[int] | str = AUTO,
    draws: int | str = AUTO,
    budget: float | None = None,
    seed: int = 0,
    level: float = 1e-3,
    tolerance: float = 0.1,
    steps: int | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> LawReport:
    """Measure whether the law of a network's last state h_L tends to that of its limit at time 1.

    Nothing is coupled: network and limit are drawn independently at every depth. Two claims are kept apart.
    At one depth the laws differ by O(1/L), so with enough draws any test rejects any depth; p-values say
    where that shows. The verdict uses bounded test functions of the norm and of components of h. Their
    differences are extrapolated to L = ∞.

    Args:
        resnet: The network, whose weights are independent layers (`Brownian`, `IID`), beside which some may
            be given functions of time (`Trend`). Or a function of the depth that returns a torch module's
            blocks in order, for states shaped as x (`module_network`).
        limit: None for `resnet.limit()`: `IsotropicSDE` for res-3 with symmetric weights and exponent 1/2,
            `RadialSDE` for res-2 with Gaussian ones and `inner` with an odd activation, too,
            `NeuralSDE` for res-1 with independent weights of any law (Marion et al. 2025, Prop. 11, by
            Donsker). Else one of these, a user's `LawLimit`, or a torchsde object (in the sense of its
            `sde_type`, driven by independent noise).
        x: Starting points (n, d), or (n, n_in) with n_in ≠ d to go through an input layer drawn once. Draw p
            starts from row p mod n. None for one standard normal h_0, the same for all draws.
        depths: Strictly increasing numbers of layers L, at least three. "auto" starts with 8 to 128, and goes
            deeper where the evidence asks for depth.
        draws: Independent draws of each law, at least 200. More make smaller differences visible; "auto"
            starts with 16384, and takes more where the evidence asks for it. All interim analyses share
            `level`.
        budget: Seconds that a call with "auto" may take, by default 30. It ends the analyses, so that their
            number depends on the machine; the report states its depths and draws. For a module's
            blocks, small runs tell the cost before the first analysis.
        seed: Everything random derives from it.
        level: Family-wise error rate, as far as the extrapolation holds. It bounds the probability of the
            verdict "another law" for the right limit, and of any test rejecting equal laws (Holm).
        tolerance: "same law" asks that no difference at infinite depth can exceed this; in standard
            deviations of the limit.
        steps: Number of Euler-Maruyama steps for a limit that cannot be drawn exactly; by default four times
            the deepest network's depth, at least 256, and as many as the limit needs (`fewest_steps`).
        device: "cpu" or "cuda".
        dtype: Number type of the states, by default float32; statistics are float64.
        workers: Number of threads, by default one per core.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit of the
            result.
        store: File, or `Store`, that keeps finished blocks: a call made again computes only what is missing.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A report: verdict "same law", "another law" or "cannot tell"; `print` it, `plot` it, `save` it. Where
        layers have steep slopes or rare large weights, depths are too small to call a law another one.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value, a starting point 0, weights that are functions of time, or a limit
            without noise; NoTheoremError (a ValueError) where `limit` is left out and the network's limit is
            not known.

    NOT checked: the bias of the Euler scheme, and, beyond the residuals of the fit, that the differences have
    an expansion in powers of 1/L. Powers are 1/2 and 1 for samplers, whose symmetry is not known.

    Examples:
        >>> import deeplimit as dl
        >>> report = dl.compare_laws(dl.res3(width=8), depths=[8, 16, 32, 64])
        >>> report.verdict
        'same law'
    """
    started, given = time.perf_counter(), {**locals()}
    sampling = AdaptiveSampling.checked(depths, draws, budget, "draws", _read_depths, _read_draws)
    plan_of = _planner(resnet, limit, x, seed, steps, sampling.depths, device, dtype)
    level = validation.real(
        level, "level", above=0.0, maximum=0.2, hint="0.001 is one false alarm in a thousand."
    )
    tolerance = validation.real(
        tolerance, "tolerance", above=0.0, maximum=1.0, hint="0.1 is a tenth of a standard deviation."
    )
    running = Running.checked(workers, executor, store, progress)

    def report(plan: Plan, drawn: tuple[list[Sample], Sample], spent: float, seconds: float) -> LawReport:
        return _assess(plan, *drawn, spent * level, tolerance, None if x is None else len(plan.h0), seconds)

    compared = carry_out(ComparingLaws(plan_of, report), sampling, running, "compare laws", started)
    return compared.called_by("compare_laws", given)


def _read_depths(depths: object) -> tuple[int, ...]:
    checked = validation.depths(depths)
    if len(checked) < 3:
        raise ValueError(
            "depths must name at least three, to tell a difference that falls from one that stays; got"
            f" {[*checked]}."
        )
    return checked


def _read_draws(draws: object) -> int:
    return validation.integer(
        draws, "draws", minimum=200, hint="Fewer cannot tell laws apart; 16384 is usual."
    )


def _read_steps(steps: object, depths: tuple[int, ...] | None) -> int:
    if depths is None:
        raise ValueError(
            f"steps={steps!r} is for given depths, but depths='auto' chooses them; leave the steps out, or"
            " give depths."
        )
    return validation.integer(
        steps, "steps", minimum=depths[-1], maximum=2**24, hint="As many as the deepest network."
    )


def _planner(
    resnet: object,
    limit: object,
    x: Tensor | None,
    seed: object,
    steps: object,
    depths: tuple[int, ...] | None,
    device: object,
    dtype: object,
) -> Callable[[tuple[int, ...], int], Plan]:
    """Return what is to be drawn, by depths and number of draws; raise as `compare_laws` says."""
    if isinstance(resnet, nn.Module) or (
        x is None and isinstance(resnet, type) and issubclass(resnet, nn.Module)
    ):
        raise whole_modules.refusal(resnet)
    resnet = network_of(resnet, x)
    if resnet.facts.deterministic and all(channel.is_separate for channel in resnet.channels):
        raise ValueError(
            f"resnet must draw new weights each time, but {resnet} drew the same ones twice. If its factory"
            " sets a seed, leave out torch.manual_seed; compare(resnet, limit) takes it as it is."
        )
    if not _is_new_at_every_depth(resnet):
        raise ValueError(
            "resnet must have independent layers (Brownian, IID), or be a module's blocks, to be compared in"
            f" law; got {resnet}."
            " compare pairs weights that are functions of time, or Itô noise, with their limits path by"
            " path."
        )
    checked_seed = validation.seed(seed)
    given = None if steps is None else _read_steps(steps, depths)
    where, kind = validation.device(device), validation.dtype(dtype) or torch.float32
    inputs = validation.inputs(x, resnet.state_shape)
    if inputs is None:
        h0 = torch.empty(1, *resnet.state_shape, dtype=torch.float64).normal_(
            generator=generator(checked_seed, Purpose.INPUTS)
        )
    else:
        h0 = starting_states(inputs, resnet.state_shape, checked_seed, kind)
    h0 = h0.to("cpu", kind)
    equation = _read(resnet, limit, h0[:2].to(where))
    needed = equation.fewest_steps()
    if given is not None and given < needed:
        raise ValueError(
            f"steps must be at least {needed} for this limit, whose scheme has another law on fewer; got"
            f" {given}. Leave steps out, or give {needed}: {equation.equation}."
        )

    def plan(depths: tuple[int, ...], draws: int) -> Plan:
        fine = max(256, 4 * depths[-1], needed) if given is None else given
        joint = min(draws, JOINT)
        return Plan(
            resnet, equation, depths, fine, h0[:draws], draws, joint, checked_seed, kind, device=where
        )

    return plan


def _is_new_at_every_depth(network: ResidualNetwork) -> bool:
    """Whether each depth draws separate weights, which no path joins to those of another depth.

    Beside independent layers, there may be functions of time that are given, the same in every network.
    """
    facts = [law.facts.at(network.width) for law in network.weights]
    given = [fact.deterministic and fact.dependence is Dependence.SMOOTH for fact in facts]
    drawn = [fact.dependence for fact, fixed in zip(facts, given, strict=True) if not fixed]
    apart = all(channel.is_separate for channel in network.channels)
    independent = bool(drawn) and set(drawn) == {Dependence.INDEPENDENT}
    return independent or (apart and not network.facts.deterministic)


def _read(resnet: ResidualNetwork, limit: object, probe: Tensor) -> Limit:
    """Return the limit as one whose law can be drawn."""
    led = ""
    if limit is None:
        limit, led = resnet.limit(), f", to which exponent {resnet.exponent:g} leads"
    equation = read_limit(Independent.unmarked(limit)[0], probe, None)
    if not equation.is_drawable:
        raise ValueError(
            "limit must have noise and a law that can be drawn (IsotropicSDE, NeuralSDE, a"
            f" LawLimit or a torchsde object); got {equation.equation}{led}. compare pairs other"
            " limits path by path."
        )
    if equation.width is not None and equation.width != resnet.width:
        raise ValueError(
            f"limit has width {equation.width}, but the network has width {resnet.width}; make them the same."
        )
    shape = equation.state_shape(resnet.width)
    if equation.width is not None and shape != resnet.state_shape:
        raise ValueError(
            f"limit has states of shape {shape}, but those of the network have shape {resnet.state_shape};"
            " take network.limit(), or a limit of the same shape."
        )
    if equation.in_law_only:
        drawn = equation.draw_end(probe, generator(0, Purpose.PROBE, device=probe.device), 0)
        if not isinstance(drawn, Tensor) or drawn.shape != probe.shape or drawn.dtype != probe.dtype:
            got = (
                f"shape {tuple(drawn.shape)}, {drawn.dtype}"
                if isinstance(drawn, Tensor)
                else type(drawn).__name__
            )
            raise ValueError(
                f"limit.draw(h0, generator) must return shape {tuple(probe.shape)}, {probe.dtype}, as h0; got"
                f" {got}."
            )
    return equation


def _assess(
    plan: Plan,
    networks: list[Sample],
    limit: Sample,
    level: float,
    tolerance: float,
    given: int | None,
    seconds: float,
) -> LawReport:
    """Return the report on what was drawn."""
    names = feature_names(plan.entries)
    depths = np.array(plan.depths)
    tests = (*names, "the joint law")
    p_values, distances = _tests(plan, networks, limit, level)
    adjusted = two_sample.holm(p_values)
    effects = tuple(_effect(shape, name) for name in names for shape in two_sample.SHAPES)
    means, variances, shared = _means(networks, limit)
    powers = _powers(plan.network)
    multiple = two_sample.two_sided(level / len(effects))
    found = [
        extrapolate(depths.astype(float), row, variance, float(both), powers, level / len(effects))
        for row, variance, both in zip(means, variances, shared, strict=True)
    ]
    errors = np.sqrt(variances + shared[:, None])
    floors = np.array([part.value for part in found])
    margins = np.array([multiple * part.error + part.allowance for part in found])
    evidence = Evidence(
        names=effects,
        depths=depths,
        differences=means,
        errors=errors,
        floors=floors,
        margins=margins,
        fits=np.array([part.fits for part in found]),
        multiple=multiple,
        distances=distances,
        rejected=adjusted <= level,
        statistics=tests,
        tolerance=tolerance,
        lost=limit.lost + sum(sample.lost for sample in networks),
        rounding=rounding_share(plan, networks),
    )
    judgement = judge(evidence)
    if judgement.code is LawVerdict.ANOTHER_LAW:
        layers = coarseness(plan)
        evidence = dataclasses.replace(evidence, coarse=(layers.excess, layers.needed))
        judgement = judge(evidence)
    grid = _grid(networks, limit)
    squares = np.array([_mean_square(sample) for sample in networks])
    regime = plan.network.regime()
    is_its_limit = _is_its_limit(plan)
    exact = not plan.limit.is_drawn_by_steps
    report = LawReport(
        verdict=judgement.code,
        reason=wording.reason(judgement),
        network=str(plan.network),
        limit=plan.limit.equation,
        regime=regime.name,
        theorem=regime.theorem if is_its_limit else None,
        depths=depths,
        statistics=tests,
        p_values=p_values,
        adjusted=adjusted,
        distances=distances,
        effects=effects,
        differences=means,
        difference_errors=errors,
        floors=floors,
        floor_margins=margins,
        mean_squares=squares[:, 0],
        mean_square_errors=squares[:, 1],
        grid=grid,
        distributions=np.stack([_distribution(sample, grid) for sample in networks]),
        limit_distribution=_distribution(limit, grid),
        diverged=np.array([sample.lost for sample in networks]),
        level=level,
        tolerance=tolerance,
        draws=plan.draws,
        seed=plan.seed,
        inputs=(
            "one standard normal h_0, the same for all draws" if given is None else f"{given} given, in turn"
        ),
        sampling=(
            "drawn from its law at time 1"
            if exact
            else f"{plan.limit.scheme} on {plan.steps} steps, independent noise"
        ),
        device=str(plan.device),
        dtype=str(plan.dtype).removeprefix("torch."),
        seconds=seconds,
        versions=versions(),
        reservations=tuple(_reservations(plan, limit, networks, is_its_limit, exact)),
        citations=(
            *(regime.citations if is_its_limit else ()),
            *plan.limit.citations,
            *plan.network.citations,
            "holm1979",
            "szekely2013",
        ),
        rule=judgement.rule,
    )
    return report.measured_by(plan)


def _powers(network: ResidualNetwork) -> tuple[float, float]:
    """Return the powers of 1/L in which differences of laws fall."""
    first, second = (
        network.recursion.powers_in_law(network.exponent) if _is_symmetric(network) else (0.5, 1.0)
    )
    # A tail of index m adds |t|^m L^(1 - m/2) to the characteristic function of the sum of L increments.
    # Below m = 2 it makes up the limit, and what t^2 adds falls like L^(1 - 2/m).
    tails = [channel.moments for channel in network.channels if channel.kind is ChannelKind.INCREMENTS]
    index = min((each for each in tails if each not in (0.0, FINITE_VARIANCE)), default=math.inf)
    slowest = index / 2.0 - 1.0 if index > FINITE_VARIANCE else 2.0 / index - 1.0
    return min(first, slowest), min(second, 2.0 * slowest)


def _is_symmetric(network: ResidualNetwork) -> bool:
    """Whether all layers that are drawn have symmetric laws; functions of time that are given have none."""
    facts = [law.facts.at(network.width) for law in network.weights]
    return all(fact.symmetric or (fact.deterministic and fact.holder == 1.0) for fact in facts)


def _effect(shape: str, feature: str) -> str:
    if feature == "log norm":
        return f"{shape} of the log norm"
    return f"{shape} {feature}" if feature.startswith("along") else f"{shape} along {feature}"


def _is_its_limit(plan: Plan) -> bool:
    """Whether the limit is the one that the theorem table has for this network."""
    try:
        known = plan.network.limit()
    except NoTheoremError:
        return False
    return known.has_the_law_of(plan.limit)


def _tests(plan: Plan, networks: list[Sample], limit: Sample, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return p-values and distances (T, m): Kolmogorov-Smirnov per feature, the energy test for states."""
    count = limit.features.shape[1]
    random = np.random.default_rng(np.random.SeedSequence([plan.seed, int(Purpose.LAW_TESTS), 1]))
    results = []
    for sample in networks:
        pairs = [
            two_sample.kolmogorov_smirnov(sample.features[:, k], limit.features[:, k]) for k in range(count)
        ]
        pairs.append(
            two_sample.energy_test(sample.states, limit.states, level / ((count + 1) * len(networks)), random)
        )
        results.append(pairs)
    distances, p_values = np.array(results).transpose(2, 1, 0)
    return p_values, distances


def _means(networks: list[Sample], limit: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return differences of means (K, m), variances of the networks' means (K, m), of the limit's (K,)."""
    differences, variances, shared = [], [], []
    for k in range(limit.features.shape[1]):
        standard = two_sample.Standard.of(limit.features[:, k])
        mean, variance = standard.moments(limit.features[:, k])
        each = [standard.moments(sample.features[:, k]) for sample in networks]
        differences.append(np.stack([part[0] - mean for part in each], axis=1))
        variances.append(np.stack([part[1] for part in each], axis=1))
        shared.append(variance)
    return np.concatenate(differences), np.concatenate(variances), np.concatenate(shared)


def _mean_square(sample: Sample) -> tuple[float, float]:
    """Return E |h|²/|h_0|² and its standard error; infinite where draws were lost."""
    if sample.lost:
        return np.inf, np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.exp(2 * sample.features[:, 0])
        return float(squares.mean()), float(squares.std() / np.sqrt(len(squares)))


def _grid(networks: list[Sample], limit: Sample) -> np.ndarray:
    """Return where the distribution functions of the log norm are kept: all but the outermost draws."""
    ends = [
        np.quantile(sample.features[:, 0], (0.001, 0.999)) for sample in (limit, networks[-1], networks[0])
    ]
    return np.linspace(min(low for low, _ in ends), max(high for _, high in ends), GRID)


def _distribution(sample: Sample, grid: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(sample.features[:, 0]), grid, side="right") / len(sample.features)


def _reservations(
    plan: Plan, limit: Sample, networks: list[Sample], is_its_limit: bool, exact: bool
) -> list[str]:
    notes = [
        "nothing is coupled: this is about laws at time 1 (convergence in law), not about paths, and gives no"
        " order."
    ]
    if not is_its_limit:
        notes.append("no theorem says that this network tends to this limit.")
    elif plan.limit.remark:
        notes.append(plan.limit.remark)
    if not exact:
        notes.append(
            f"the limit is drawn by its own scheme on {plan.steps} steps, whose bias, O(1/{plan.steps}), is"
            " not taken out."
        )
    first, second = _powers(plan.network)
    if not _is_symmetric(plan.network) and first == 0.5:
        notes.append(
            "the weights' law is not known to be symmetric, so differences are taken to fall like L^-1/2 and"
            " 1/L."
        )
    elif first != 1.0:
        notes.append(f"differences are taken to fall like L^-{first:g} and L^-{second:g}.")
    notes += reservations(plan.network)
    if len(plan.h0) > 1:
        notes.append(f"laws are compared on average over the {len(plan.h0)} starting points, not at each.")
    if float(np.ptp(limit.features, axis=0).max()) == 0.0:
        notes.append(
            "the limit does not move from this starting point: that the laws are the same says nothing here."
        )
    if plan.draws < 1000:
        notes.append(
            f"{plan.draws} draws are few: only differences of a fifth of a standard deviation or more can be"
            " seen."
        )
    if plan.joint < plan.draws:
        notes.append(f"the test of the joint law uses the first {plan.joint} draws alone.")
    drawn = [*((f"draws at depth {depth}", networks[j]) for j, depth in enumerate(plan.depths))]
    for what, sample in (*drawn, ("draws of the limit", limit)):
        if sample.lost:
            notes.append(
                f"{sample.lost} of {plan.draws} {what} were not finite; tests count them as very large."
            )
    return notes
