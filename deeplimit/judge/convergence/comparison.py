"""`compare`: a residual network at several depths against a limit, on the same noise."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.common.verdict import ConvergenceVerdict
from deeplimit.driving import ChannelKind
from deeplimit.equations import Independent
from deeplimit.judge import whole_modules
from deeplimit.judge.convergence.assessment import assess
from deeplimit.judge.convergence.report import CompareReport
from deeplimit.judge.convergence.verdict import BY_ROUNDING, Levels
from deeplimit.networks.residual_network import ResidualNetwork, network_of, on_shared_noise
from deeplimit.simulation import Coupled, CoupledErrors, Task, make_task
from deeplimit.simulation.coupled_errors import COUPLINGS
from deeplimit.simulation.task import GRADIENT, QUANTITIES, Statistic, read_statistic
from deeplimit.statistics.adaptive_sampling import (
    AUTO,
    AdaptiveSampling,
    Asks,
    InterimAnalysis,
    SampleSizeRequest,
    Size,
    Study,
    carry_out,
)

DEFAULT = Size((16, 32, 64, 128, 256), 512)
ROOM = 0.05
"""How far off a limit may be unseen that no theorem states, as a part of the error of sixteen layers. Where
a tenth of the deepest squared error may remain, that takes 640 layers at order 1/2, and 100 at order 1.
"""
LEAST_FIXED = 64
"""Paths where nothing but inputs differs: enough for the covariance of ten depths, at three each."""
ASKS = {
    "some_paths_diverge": Asks.NOTHING,
    "is_swallowed": Asks.NOTHING,
    "lies_within_resolution": Asks.NOTHING,
    "deepest_is_not_resolved": Asks.NOTHING,
    "vanishes_at_some_depths": Asks.NOTHING,
    "falls_to_what_can_be_resolved": Asks.NOTHING,
    "tends_to_what_can_be_resolved": Asks.NOTHING,
    "has_too_few_paths": Asks.COUNT,
    "rests_on_two_paths": Asks.COUNT,
    "seems_to_level_off": Asks.COUNT,
    "has_two_depths": Asks.DEPTH,
    "is_far_from_a_power_law": Asks.DEPTH,
    "weights_jump": Asks.NOTHING,
    "layers_miss_the_weights": Asks.DEPTH,
    "is_still_moving": Asks.DEPTH,
    "grows_ever_more_slowly": Asks.DEPTH,
    "follows_no_power_law": Asks.DEPTH,
    "mixes_orders": Asks.DEPTH,
    "may_hide_a_floor": Asks.EITHER,
    "may_remain": Asks.EITHER,
    "falls_too_slowly": Asks.DEPTH,
    "has_a_small_floor": Asks.DEPTH,
    "may_not_fall": Asks.EITHER,
    "may_level_off": Asks.EITHER,
}
"""What each rule that says "cannot tell" asks for."""


@final
@dataclass(frozen=True)
class Comparing(Study[CompareReport]):
    """An adaptive comparison; `task` makes the task of `depths` and `paths`.

    `distinct` is how many paths can differ: the number of inputs, where these are given and neither network
    nor limit is random. More paths would be the same numbers once more. None where each path is new.
    """

    task: Callable[..., Task]
    confidence: float
    distinct: int | None = None
    start: Size = DEFAULT

    def measurement(self, size: Size) -> CoupledErrors:
        task = self.task(depths=size.depths, paths=size.count)
        return CoupledErrors(task, device=task.device)

    def work(self, measurement: CoupledErrors, block: int) -> tuple[int, int]:
        task = measurement.task
        return task.grid.size + sum(task.grid.depths), task.held(min(block, task.blocks - 1))

    def family(self, measurement: CoupledErrors) -> Hashable:
        # Small comparisons may take another pass than large ones, and last bits differ between passes.
        return measurement.task.grid.depths, measurement.work.__module__

    def report(
        self, measurement: CoupledErrors, result: Coupled, spent: float, seconds: float
    ) -> CompareReport:
        level = self.confidence + (1.0 - spent) * (1.0 - self.confidence)
        return assess(measurement.task, result, level, seconds, Levels().shared(spent))

    def analysis(self, report: CompareReport, size: Size, seconds: float) -> InterimAnalysis:
        return InterimAnalysis(
            size.depths,
            size.count,
            report.verdict,
            report.rule,
            report.rate_interval,
            report.confidence,
            seconds,
        )

    def request(self, report: CompareReport) -> SampleSizeRequest | None:
        if report.verdict != ConvergenceVerdict.CANNOT_TELL:
            unsettled = leaves_room if report.predicted_rate is None else contradicts
            asks = Asks.DEPTH if unsettled(report) else None
        else:
            asks = ASKS.get(report.rule, Asks.EITHER)
        if asks is None:
            return None
        if self.distinct is not None and report.paths >= self.distinct and asks is not Asks.NOTHING:
            asks = Asks.NOTHING if asks is Asks.COUNT else Asks.DEPTH
        return SampleSizeRequest.of(asks, sampling_share(report))


FINEST = 1e-13
"""Tolerance of an ODE's solver where its own error hides what is asked: that of float64 is 2e-16 a step."""
ABOVE = 10.0
"""Where depths quadruple, errors above the reference's by this factor have slopes that are off by at most
log(1.1)/log 4 = 0.07."""


def contradicts(report: CompareReport) -> bool:
    """Return whether a right limit's order is not the theorem's: too small a depth says so more often."""
    if report.verdict != ConvergenceVerdict.CONVERGES or report.predicted_rate is None:
        return False
    low, high = report.rate_interval
    # Where a leading term vanishes errors are soon as small as the reference's.
    next_error = report.errors[-1] * 4.0 ** -max(report.rate, 0.0)
    seen = next_error > ABOVE * report.reference_error
    faster = low > report.predicted_rate and not report.predicted_is_bound and seen
    return high < report.predicted_rate or bool(faster)


def leaves_room(report: CompareReport) -> bool:
    """Return whether a limit could be wrong by so much that deeper networks would show it.

    Without the Wong-Zakai drift of AR(1) weights (ρ = 1/2, d = 16) three of three comparisons converged at
    depths 256 and 1024, and none at 4096.
    """
    if report.verdict != ConvergenceVerdict.CONVERGES:
        return False
    order = report.rate if np.isfinite(report.rate) else 0.5
    # Shares are those of both parts together, where there are two: their sum may cancel.
    sizes = np.sqrt(sum(part.errors**2 for part in report.parts)) if report.parts else report.errors
    first = sizes[0] * (report.depths[0] / DEFAULT.depths[0]) ** order
    return bool(math.sqrt(max(report.floor_upper, 0.0)) * sizes[-1] > ROOM * first)


def sampling_share(report: CompareReport) -> float:
    """Return the part of the order's uncertainty that paths explain; 1 where no order is fitted.

    Paths alone would give the slope from the coarsest to the deepest error the standard error that both
    errors and the range of depths imply. Its interval is compared with the one that was fitted, which in
    addition holds what finite depth leaves open.
    """
    low, high = report.rate_interval
    if not np.isfinite(high - low) or high <= low:
        return 1.0
    with np.errstate(all="ignore"):
        relative = report.common_standard_errors / report.common_errors
    slope_error = np.hypot(relative[0], relative[-1]) / np.log(report.depths[-1] / report.depths[0])
    share = 2 * 1.96 * float(slope_error) / (high - low)
    return share if np.isfinite(share) else 1.0


@by_default
def compare(
    resnet: ResidualNetwork | Callable[[int], Any],
    limit: object = None,
    x: Tensor | None = None,
    *,
    depths: Sequence[int] | str = AUTO,
    paths: int | str = AUTO,
    budget: float | None = None,
    norm: str | Statistic = "sup",
    p: float = 2,
    seed: int = 0,
    confidence: float = 0.95,
    reference: int | None = None,
    tolerance: float | None = None,
    coupling: str = "auto",
    same_network: bool = False,
    quantity: str = "state",
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> CompareReport:
    """Measure how fast a residual network approaches a limit with depth, on the same noise at every depth.

    Path i draws new weights and starts at input i mod n; with `same_network` it takes all n inputs. The error
    at depth L is e_L = (E sup_k |h_k - H_{k/L}|^p)^{1/p} over the layer grid (norm "sup"). With
    "sup-continuous" the supremum is over all times, sup_t |H_t - h_floor(tL)|, as Cohen et al. state theirs;
    with "final" only the last layer counts. Depths need not divide each other: all advance on the union of
    their grids.

    Args:
        resnet: The network, depth left open, of any recursion and with any weights. Or a function of the
            depth that returns torch blocks in order, or a model that writes its layers out, for states shaped
            as x (`module_network`). Where its weights are normal and enter linearly, an SDE reads them as its
            Brownian increments.
        limit: Its limit. None for `resnet.limit()`; else one of the library's limits, a torchdiffeq function
            f(t, h), `Independent(limit)`, or a torchsde object, read in the sense that its `sde_type` states,
            and driven by the network's Brownian increments, flattened row by row (a module's tensors in the
            order of their use).
        x: Inputs (n, d), or (n, n_in) with n_in ≠ d to go through an input layer A drawn once, N(0, 1/n_in);
            (n, *state_shape) for states that are no vectors, such as tokens. None for standard normal h_0,
            one per path.
        depths: Strictly increasing numbers of layers L, at least two; five over a factor of 16 make a useful
            fit. "auto" starts with 16 to 256, and goes deeper where the evidence asks for depth.
        paths: Number of paths P. "auto" starts with 512, and takes more where the evidence asks for paths. Of
            depths and paths, one that is left out is "auto" although the other is given; where both are
            given, there is one analysis. Inputs that are given to a network without noise are taken in 64
            paths, or once each. A module's blocks have no noise where a factory builds the same numbers
            twice. All analyses share the level, and the last is the report, with `confidence` its level:
            0.975 after the first.
        budget: Seconds that a call with "auto" may take, by default 30, but for the first analysis, which is
            made smaller for a given budget alone. It ends the analyses, so that their number depends on the
            machine; `depths` and `paths` of the report reproduce its numbers.
        norm: "sup", "sup-continuous" or "final", as above, or a
            `Statistic` that you wrote.
        p: The L^p norm over paths, between 1 and 100.
        seed: Everything random derives from it.
        confidence: Level of the order's interval.
        reference: Depth of an SDE limit's grid, at least twice the deepest network. By default twice; four
            times for "sup-continuous", and under Theorem 4.4, whose network is not an Euler scheme. For a
            Young equation it is eight times, rounded up to a multiple of all depths. Its error is corrected
            for.
        tolerance: Tolerance of an ODE limit's solver; by default 1e-9 in float64 and 1e-6 in float32.
        coupling: How the noise is drawn. "projected": only its products with the states, ~2d normals per
            step instead of d², with the same joint law of everything. It takes recursions that need one
            product of one matrix (res-1, inner, and yours by trial) with Gaussian noise of constant row and
            column covariances, against limits of the library. "pathwise": all d² increments. "auto":
            whichever is faster at this width where numba, of "deeplimit[fast]", is there.
        quantity: "state", or "gradient": the errors are those of p_k = ∂ℓ(h_L)/∂h_k, k = 0 … L, for the loss
            ℓ(h) = ½|h|², against (J_1 J_t^-1)ᵀ ∇ℓ(H_1) of the limit, J_t = ∂H_t/∂h_0. Norm "final" then is
            p_0, the end of the backward pass. It is float64 if dtype is left out, and takes two to three
            times as long.
        same_network: Whether all n inputs go through each path's network, and its limit, together. Their
            errors to the power p are averaged over inputs within a path before they are over paths.
        device: "cpu" or "cuda".
        dtype: dtype of the states; by default float64 for weights that are functions of time (errors fall
            like 1/L), float32 for independent layers, and float64 where round-off of float32 forbids a
            verdict and the limit is no module with a dtype of its own. Statistics are always float64.
        workers: Number of threads, by default one per core.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit of the
            result.
        store: File, or `Store`, that keeps finished blocks: a call made again computes only what is missing.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A report: verdict, errors, order with interval, reservations; `print` it, `plot` it, `save` it.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value; NoTheoremError (a ValueError) where `limit` is left out and no theorem
            applies. Also where the limit reads noise that is not the network's, by the weight laws' channels:
            `compare_laws` compares the two.
        RuntimeError: Where an ODE limit cannot be solved to the tolerance.

    NOT checked: that a user's σ is Lipschitz (only its growth is), that Trend weights are Lipschitz in time,
    and that a user's limit is measurable with respect to the network's noise.

    With fractional Brownian weights a whole path is drawn at once, on equal steps that contain all depths.
    Depths with a huge least common multiple are refused; depths that double go furthest.

    Examples:
        >>> import deeplimit as dl
        >>> report = dl.compare(dl.res1(width=8, activation="tanh"), depths=[16, 32, 64, 128], paths=512)
        >>> report.verdict, report.rate_interval[0] < 0.5 < report.rate_interval[1]
        ('converges', True)
    """
    started, given = time.perf_counter(), {**locals()}
    if isinstance(resnet, nn.Module) or (
        x is None and isinstance(resnet, type) and issubclass(resnet, nn.Module)
    ):
        raise whole_modules.refusal(resnet)
    resnet = network_of(resnet, x)
    paths_of = partial(
        validation.integer,
        name="paths",
        minimum=2,
        hint="An uncertainty needs two or more, and 'auto' takes what it needs.",
    )
    sampling = AdaptiveSampling.checked(depths, paths, budget, "paths", validation.depths, paths_of)
    if reference is not None:
        reference = _read_reference(reference, sampling.depths)
    level = validation.probability(confidence, "confidence", "0.95 is usual.")
    validation.real(p, "p", maximum=100.0, hint="the worst path's error is in report.worst")
    power = validation.real(p, "p", minimum=1.0)
    if tolerance is not None:
        tolerance = validation.real(tolerance, "tolerance", above=0.0, maximum=0.1)
    running = Running.checked(workers, executor, store, progress)
    inputs = validation.inputs(x, resnet.state_shape)
    measured = validation.choice(quantity, "quantity", QUANTITIES)
    chosen = validation.choice(coupling, "coupling", COUPLINGS)
    _check_together(same_network, inputs, resnet, measured, chosen)
    checked_seed = validation.seed(seed)
    equation = resnet.limit() if limit is None else limit
    if any(channel.kind is ChannelKind.SEPARATE for channel in resnet.channels[:1]) and _is_random(equation):
        resnet = on_shared_noise(resnet)
    of_size = partial(
        make_task,
        resnet,
        equation,
        inputs,
        reference=reference,
        norm=read_statistic(norm),
        p=power,
        seed=checked_seed,
        device=validation.device(device),
        dtype=validation.dtype(dtype),
        tolerance=tolerance,
        coupling=chosen,
        same_network=same_network,
        quantity=measured,
    )

    distinct = len(inputs) if inputs is not None and _nothing_is_random(resnet, equation) else None
    start = DEFAULT
    if distinct is not None:
        start = Size(DEFAULT.depths, min(DEFAULT.count, max(LEAST_FIXED, distinct)))
    report = carry_out(Comparing(of_size, level, distinct, start), sampling, running, "compare", started)
    own_dtype = isinstance(Independent.unmarked(limit)[0], nn.Module)  # that of its parameters
    finer: dict[str, Any] = {}
    if report.rule in BY_ROUNDING and dtype is None and not own_dtype and report.dtype == "float32":
        finer["dtype"] = torch.float64
    elif report.rule in BY_ROUNDING and tolerance is None and report.reference_error > 0:
        finer["tolerance"] = FINEST
    if finer:
        closer = partial(of_size, **finer)
        report = carry_out(Comparing(closer, level, distinct, start), sampling, running, "compare", started)
    return report.called_by("compare", given)


def _nothing_is_random(network: ResidualNetwork, limit: object) -> bool:
    """Whether networks and limit are the same in every path; a function f(t, h) has no noise."""
    return not (network.is_random or _is_random(limit))


def _is_random(limit: object) -> bool:
    inner, _ = Independent.unmarked(limit)
    return bool(getattr(inner, "is_random", hasattr(inner, "sde_type")))


def _read_reference(reference: object, depths: tuple[int, ...] | None) -> int:
    if depths is None:
        raise ValueError(
            f"reference={reference!r} is a grid for given depths, but depths='auto' chooses them; leave the"
            " reference out, or give depths."
        )
    return validation.integer(
        reference,
        "reference",
        minimum=2 * depths[-1],
        maximum=2**26,
        hint="The reference needs twice the deepest network.",
    )


def _check_together(
    same_network: object, inputs: Tensor | None, resnet: ResidualNetwork, quantity: str, coupling: str
) -> None:
    """Raise TypeError or ValueError for arguments that do not go together."""
    if not isinstance(same_network, bool):
        raise TypeError(f"same_network must be True or False; got {validation.named(same_network)}.")
    if same_network and inputs is None:
        raise ValueError(
            "same_network=True sends all inputs through one network per path; give them: x=torch.randn(n, d),"
            " say."
        )
    if same_network and not resnet.is_random:
        raise ValueError(
            "same_network=True takes networks as the sample, but these weights are given functions of time:"
            " all networks are the same. Leave it out, and inputs are the sample."
        )
    if quantity == GRADIENT and coupling == "projected":
        raise ValueError(
            "coupling='projected' draws the noise's products with the states alone, and quantity='gradient'"
            " needs those with their derivatives, too; use 'pathwise', or 'auto'."
        )
    if quantity == GRADIENT and same_network:
        raise ValueError(
            "same_network=True is for states; got quantity='gradient'. Leave it out: each path then takes one"
            " of the inputs in turn."
        )
