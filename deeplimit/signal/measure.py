"""`stability`: does a network's signal, or its gradient, explode or die as the depth grows?"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.initial_layer import starting_states
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.driving import check_depths
from deeplimit.networks.residual_network import ResidualNetwork, network_of
from deeplimit.signal.adaptive import DEFAULT, MeasuringStability
from deeplimit.signal.bounds import Bound, evaluate
from deeplimit.signal.growth_of_network import growths_of
from deeplimit.signal.report import StabilityReport
from deeplimit.signal.task import (
    MOST_DRAWS,
    MOST_NUMBERS,
    StabilityTask,
    known_in_law,
    numbers_per_network,
)
from deeplimit.signal.undefined import undefined
from deeplimit.statistics.adaptive_sampling import AdaptiveSampling, carry_out
from deeplimit.statistics.power_law import least_paths
from deeplimit.theory import covered, log_normal, reservations
from deeplimit.version import versions


@by_default
def stability(
    resnet: ResidualNetwork | Callable[[int], Any],
    depths: Sequence[int] | str = DEFAULT.depths,
    x: Tensor | None = None,
    *,
    draws: int | str = DEFAULT.count,
    budget: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.25,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> StabilityReport:
    """Measure how a network at initialisation changes its signal and its gradient, and how that grows.

    Draw i at depth L is a new network, started at input i mod n. Its gradient at the output is p_L = N(0, I),
    as for a loss on a random output layer; p_0 is the exact gradient, in reverse mode without autograd. Where
    states can be scaled (ReLU, leaky ReLU, the identity), their size is kept as a logarithm, so that
    explosion to 10^±10000 is measured. For other activations overflow is counted and reported. Weights that
    are i.i.d. Gaussian are drawn through their products with signal and gradient, with the same joint law.

    Args:
        resnet: The network, depth left open, of any recursion and with any weights. Or a function of the
            depth that returns a torch module's blocks in order, for states shaped as x (`module_network`).
        depths: Strictly increasing numbers of layers L; a verdict needs at least three. "auto" starts with
            the default, and goes deeper where the evidence asks for depth.
        x: Inputs (n, d), or (n, n_in) with n_in ≠ d to go through an input layer A drawn once, N(0, 1/n_in);
            (n, channels, height, width) for convolutions. None for standard normal h_0, one per draw.
        draws: Networks per depth; "auto" takes as many as the evidence asks for. Analyses share the level,
            and the last is the report.
        budget: Seconds that a call with "auto" may take, by default 30. It ends the analyses, so that their
            number depends on the machine; the report states its depths and draws.
        seed: Everything random derives from it.
        confidence: Level of the growth exponents' intervals.
        delta: δ of the probability bounds of Marion et al. (2025), Section 2; 0.25 bounds quartiles.
        device: "cpu" or "cuda".
        dtype: Number type of the states, by default float32; statistics are float64.
        workers: Number of threads, by default one per core.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit of the
            result.
        store: File, or `Store`, that keeps finished blocks: a call made again computes only what is missing.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A report: verdict, ratios by depth and draw, growth exponents, bounds and closed forms beside the
        data.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value, an input of zeros, whose ratios are not defined, or a network with a
            layer that does not fit in memory.

    NOT checked: that a user's σ is Lipschitz, and that automatic differentiation of it is right.

    Examples:
        >>> import deeplimit as dl
        >>> report = dl.stability(dl.res3(width=40), depths=[10, 30, 100, 300], draws=100)
        >>> report.verdict, report.hidden_ratio.shape
        ('stable', (4, 100))
        >>> dl.stability(dl.res3(width=40, exponent=1.0), depths=[10, 30, 100, 300], draws=100).verdict
        'identity'
    """
    started, given = time.perf_counter(), {**locals()}
    resnet = network_of(resnet, x)
    sampling = AdaptiveSampling.checked(depths, draws, budget, "draws", _read_depths, _read_draws)
    checked_seed = validation.seed(seed)
    level = validation.probability(confidence, "confidence")
    bound_level = validation.probability(delta, "delta")
    running = Running.checked(workers, executor, store, progress)
    place, kind = validation.device(device), validation.dtype(dtype) or torch.float32
    inputs = validation.inputs(x, resnet.state_shape)
    states = None if inputs is None else starting_states(inputs, resnet.state_shape, checked_seed, kind)

    def task(depths: tuple[int, ...], draws: int) -> StabilityTask:
        in_law = known_in_law(resnet)
        found = StabilityTask(resnet, depths, draws, checked_seed, states, kind, in_law, device=place)
        _check_size(found)
        return found

    def report(task: StabilityTask, logs: np.ndarray, spent: float, seconds: float) -> StabilityReport:
        return _report(task, logs, level + (1.0 - spent) * (1.0 - level), bound_level, inputs, seconds, spent)

    watched = carry_out(MeasuringStability(task, report), sampling, running, "stability", started)
    return watched.called_by("stability", given)


def _read_depths(depths: object) -> tuple[int, ...]:
    return validation.depths(depths, at_least=1)


def _read_draws(draws: object) -> int:
    return validation.integer(
        draws, "draws", minimum=1, maximum=MOST_DRAWS, hint="All of them are kept in the report."
    )


def _check_size(task: StabilityTask) -> None:
    """Raise ValueError for depths that the weights do not have, or networks that memory does not hold."""
    resnet, deepest = task.network, task.depths[-1]
    for law, shape in resnet.laws_and_shapes:
        check_depths(law, shape, task.depths)
    held = numbers_per_network(resnet, deepest, 1, in_law=task.in_law)
    if held > MOST_NUMBERS:
        raise ValueError(
            f"one network of depth {deepest} and width {resnet.width} holds {held:.2g} numbers, more than"
            f" {MOST_NUMBERS:.2g}; take a smaller depth or width."
        )


def _report(
    task: StabilityTask,
    logs: np.ndarray,
    confidence: float,
    delta: float,
    inputs: Tensor | None,
    seconds: float,
    spent: float,
) -> StabilityReport:
    network, depths = task.network, np.array(task.depths)
    ratio, change, gradient_ratio, gradient_change = logs
    exact = _distinct_draws(task, change)
    why = undefined(network, change, gradient_change)
    growths = growths_of(network, depths, logs, task.h0, confidence, exact=exact, undefined=why, spent=spent)
    known = covered(network)
    rows: list[Bound] = []
    finite = np.isfinite(ratio) & np.isfinite(gradient_ratio)
    for j, depth in enumerate(task.depths):
        if bool(finite[j].all()):
            rows += evaluate(network, depth, ratio[j], change[j], gradient_change[j], delta)
    refused = known.why_not
    if known.block is not None and not known.block.satisfies_a2:
        refused = f"its {KEPT} is outside [1/2, 1] (A2)"
    if not rows and not refused:
        refused = (
            "L^-2β is below what a float32 pass resolves"
            if finite.all(axis=1).any()
            else "some networks overflowed at every depth"
        )
    laws = [log_normal(network, depth) or (np.nan, np.nan) for depth in task.depths]
    lost = [
        changes == np.inf if told else ~(changes < np.inf)
        for changes, told in ((change, why.hidden), (gradient_change, why.gradient))
    ]
    overflowed = (lost[0] | lost[1]).sum(axis=1)
    report = StabilityReport(
        verdict=growths.verdict,
        network=str(network),
        exponent=network.exponent if network.recursion.takes_exponent else math.nan,
        critical_exponent=growths.known.critical,
        depths=depths,
        draws=task.draws,
        log_hidden_ratio=ratio,
        log_hidden_change=change,
        log_gradient_ratio=gradient_ratio,
        log_gradient_change=gradient_change,
        hidden_growth=growths.hidden,
        gradient_growth=growths.gradient,
        predicted_growth=growths.known.predicted,
        bounds=tuple(rows),
        bounds_refused=refused,
        delta=delta,
        log_normal=np.array(laws),
        overflowed=overflowed,
        method=(
            "Gaussian, through their products with known vectors (same joint law)"
            if task.in_law
            else "drawn whole"
            if network.is_random
            else "given, the same in every draw"
        ),
        inputs=(
            "standard normal h_0, one per draw"
            if inputs is None
            else f"{len(inputs)} inputs of {inputs[0].numel()} entries, in turn"
        ),
        seed=task.seed,
        device=str(task.device),
        dtype=str(task.dtype).removeprefix("torch."),
        seconds=seconds,
        versions=versions(),
        reservations=(*_reservations(task, overflowed, rows), *_numerical(task, logs, exact=exact)),
        citations=("marion2025", *network.citations),
    )
    return report.measured_by(task)


def _distinct_draws(task: StabilityTask, log_change: np.ndarray) -> int:
    """Return how many draws of the signal differ where weights and inputs are given; 0 where they are drawn.

    Then the draws are the inputs, one after the other and again: another run would give the same.
    """
    if task.h0 is None or task.network.is_random:
        return 0
    count = 1 if bool((task.h0 == task.h0[:1]).all()) else len(task.h0)
    draws = np.arange(log_change.shape[1])
    same = bool((log_change == log_change[:, draws % count]).all())
    return count if same and len(draws) >= count else 0


def _numerical(task: StabilityTask, logs: np.ndarray, *, exact: int) -> list[str]:
    """Return what no sampling explains: draws that are all the same, and changes lost to round-off."""
    found = []
    if exact:
        repeat, inputs, enough = (
            ("All draws of the signal are the same", "there is one input", "one draw is")
            if exact == 1
            else ("Draws of the signal repeat", f"{exact} inputs are taken in turn", f"{exact} draws are")
        )
        found.append(
            f"{repeat}: the weights are given, and {inputs}. Its interval has no sampling"
            f" noise, only what finite depth leaves open, and {enough} enough. The gradient at the output is"
            f" still drawn: its interval and verdict need {least_paths(len(task.depths))} draws, and so does"
            " the verdict on the network."
        )
    gradient_change, kind = logs[3], torch.finfo(task.dtype)
    # The general pass subtracts the gradient from itself, so every layer rounds at the gradient's size.
    resolved = np.log(np.array(task.depths) * kind.eps)[:, None]
    lost = int((gradient_change < resolved).sum())
    if lost and not task.network.recursion.is_plain:
        found.append(
            f"{lost} of {gradient_change.size} gradient changes are within the round-off of {kind.dtype}, up"
            f" to {kind.eps:.0e} per layer: do not interpret them, nor growth fitted to them."
            + (" dtype='float64' resolves smaller ones." if task.dtype != torch.float64 else "")
        )
    return found


KEPT = "share of the energy E|g(h)|²/|h|²"


def _reservations(task: StabilityTask, overflowed: np.ndarray, rows: list[Bound]) -> list[str]:
    found, recursion = reservations(task.network), task.network.recursion
    if task.draws == 1:
        found.append("One draw says nothing of the spread: no quartiles, and no interval of what is drawn.")
    if overflowed.any():
        found.append(
            f"{int(overflowed.sum())} networks overflowed {str(task.dtype).removeprefix('torch.')}, so their"
            " size is lost. Only ReLU and linear activations allow sizes as logarithms, not"
            f" {recursion.activation.name if recursion.activation_in_words else 'through modules'}."
        )
    broken = sorted({bound.statement for bound in rows if bound.holds is False})
    if broken:
        found.append(f"The data contradict {', '.join(broken)} at a level of 1e-4: please report this.")
    if task.depths[-1] < 4 * task.depths[0]:
        found.append("The depths span less than a factor of 4: growth with depth is hard to see.")
    return found
