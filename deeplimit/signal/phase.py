"""`phase_diagram`: output and gradient over Hurst index and exponent (Marion et al. 2025, Figure 7)."""

from __future__ import annotations

import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.initial_layer import starting_states
from deeplimit.common.measurement import Measurement, Progress, Running, Tick
from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.store import Store
from deeplimit.driving import FractionalBrownian, critical_exponent
from deeplimit.networks.residual_network import FOR_MODULES, ResidualNetwork, simplest
from deeplimit.signal.one_signal import OneSignal, Watch, one_signal
from deeplimit.signal.passes import backward, forward
from deeplimit.signal.phase_report import PhaseDiagram
from deeplimit.signal.task import MOST_DRAWS, MOST_NUMBERS, draw_network, numbers_per_network
from deeplimit.statistics.crossing import crossing, crossing_of_mean
from deeplimit.theory import growth_of
from deeplimit.version import versions

MATRICES_AT_MOST = 4
HURST = tuple(round(float(value), 3) for value in np.linspace(0.05, 0.97, 12))
EXPONENTS = tuple(round(float(value), 3) for value in np.linspace(0.0, 1.3, 27))
COARSE = 0.15
"""Distance of neighbouring exponents from which the report says that the boundary is interpolated."""
STRAIGHT = 10.0
"""Differences of log10 changes beyond 1/STRAIGHT are bent down before they are interpolated: below the
boundary they explode.
"""
SHALLOWER = 10
"""How many times shallower the networks are that the deep ones are held against to find the boundary."""


@final
@dataclass(frozen=True)
class PhaseTask(Measurement[np.ndarray, np.ndarray]):
    """One network per Hurst index, `draws` times; all exponents and inputs are columns of one pass.

    Its result holds natural logarithms, (Hurst indices, draws, 2 depths, 2, exponents, inputs).
    """

    networks: tuple[ResidualNetwork, ...]
    exponents: tuple[float, ...]
    depths: tuple[int, int]
    draws: int
    inputs: int
    h0: Tensor | None
    seed: int
    dtype: torch.dtype

    what = "phase diagram"

    @property
    def blocks(self) -> int:
        return math.prod(self.shape)

    def run(self, block: int, tick: Tick | None = None) -> np.ndarray:
        return run_draw(self, block, tick)

    def merge(self, parts: Iterator[np.ndarray]) -> np.ndarray:
        shape = (*self.shape, 2, len(self.exponents), self.inputs)
        return np.stack([*parts]).reshape(shape)

    def key(self) -> dict[str, Any]:
        """Return all but the number of draws: each is a block, with a number of its own."""
        return {**super().key(), "draws": "one per block"}

    def label(self, block: int) -> str:
        row, draw, level = self.place(block)
        return f"Hurst index {row}, draw {draw}, depth {self.depths[level]}"

    def costs(self) -> list[float]:
        return [*self.depths] * (self.blocks // len(self.depths))

    def path(self, index: int, *which: int) -> OneSignal:
        draw = validation.integer(index, "index", minimum=0, maximum=self.draws - 1)
        row, column = which
        first = column * self.inputs
        watches = {depth: Watch(0, slice(first, first + self.inputs)) for depth in self.depths}
        for level, depth in enumerate(self.depths):
            block = np.ravel_multi_index((row, draw, level), self.shape)
            run_draw(self, int(block), watch=watches[depth])
        return one_signal(draw, watches)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of Hurst indices, draws and depths, by which blocks are numbered."""
        return len(self.networks), self.draws, len(self.depths)

    def place(self, block: int) -> tuple[int, int, int]:
        """Return the numbers of a block's Hurst index, draw and depth."""
        row, draw, level = (int(index) for index in np.unravel_index(block, self.shape))
        return row, draw, level

    def name(self) -> str:
        recursion = self.networks[0].recursion.name
        return f"phase diagram: {recursion}, depth {self.depths[-1]}, {self.draws} draws, seed {self.seed}"


def run_draw(task: PhaseTask, block: int, tick: Tick | None = None, watch: Watch | None = None) -> np.ndarray:
    """Return log |h_L - h_0|/|h_0| and log |p_0 - p_L|/|p_L| of one draw, (2, exponents, inputs).

    `watch` sees signal and gradient after every layer.
    """
    row, draw, level = task.place(block)
    network, depth = task.networks[row], task.depths[level]

    def stream(purpose: Purpose, index: int = 0) -> torch.Generator:
        return generator(
            task.seed, purpose, draw, (row * len(task.depths) + level) * MATRICES_AT_MOST + index, task.device
        )

    shape = (1, network.width, task.inputs)
    start = torch.empty(shape, dtype=task.dtype, device=task.device)
    if task.h0 is None:
        start.normal_(generator=stream(Purpose.PROPAGATED_INPUTS))
    else:
        start[0] = task.h0.T
    end = torch.empty(shape, dtype=task.dtype, device=task.device).normal_(
        generator=stream(Purpose.PROPAGATED_GRADIENTS)
    )
    start, end = (states.repeat(1, 1, len(task.exponents)) for states in (start, end))
    scales = torch.tensor(
        [float(depth) ** -exponent for exponent in task.exponents], dtype=task.dtype, device=task.device
    )
    layers = draw_network(
        network,
        depth,
        1,
        lambda index: stream(Purpose.PROPAGATED_WEIGHTS, index),
        task.dtype,
        scales.repeat_interleave(task.inputs),
        in_law=False,
    )
    if watch is not None:
        watch.begin(start, end)
    signal, gates = forward(layers, start, tick, None if watch is None else watch.signal)
    gradient = backward(layers, gates, end, tick, None if watch is None else watch.gradient)
    logs = torch.cat([signal.logarithms(start)[1], gradient.logarithms(end)[1]])
    return logs.reshape(2, len(task.exponents), task.inputs).cpu().numpy()


@by_default
def phase_diagram(
    network: Callable[..., ResidualNetwork],
    width: int = 40,
    depth: int = 1000,
    *,
    hurst: Sequence[float] = HURST,
    exponents: Sequence[float] = EXPONENTS,
    draws: int = 5,
    inputs: int = 10,
    x: Tensor | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> PhaseDiagram:
    """Map how much networks with fractional Brownian weights change signal and gradient (Marion et al. 2025,
    Fig. 7).

    Each weight draw is one network. Every exponent and every input is a column of one pass over it, forwards
    and backwards. On the boundary between explosion and identity the change does not depend on the depth.
    Networks ten times shallower are therefore drawn as well; the boundary is the exponent at which both
    depths change the signal as much.

    Args:
        network: A factory such as `dl.res3`, called as network(width=..., weights=FractionalBrownian(H),
            exponent=...); give others an activation by functools.partial(dl.res1, activation="tanh").
        width: d.
        depth: L, at least 20.
        hurst: Hurst indices in (0, 1); 12 from 0.05 to 0.97 if left out.
        exponents: Residual exponents, at least two, increasing; 27 from 0 to 1.3 if left out.
        draws: Weight draws per Hurst index; an interval needs three.
        inputs: Number of standard normal h_0 per weight draw.
        x: Inputs (n, d) or (n, n_in) instead of `inputs` normal ones, the same for all draws.
        seed: Everything random derives from it.
        confidence: Level of the boundary's intervals.
        device: "cpu" or "cuda".
        dtype: Number type of the states, by default float32.
        workers: Number of threads, by default one per core.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit of the
            result.
        store: File, or `Store`, that keeps finished blocks: a call made again computes only what is missing.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a Hurst index outside (0, 1), a negative exponent, an input of zeros, or a factory
            that makes networks of another width or with other weights.

    Examples:
        >>> import deeplimit as dl
        >>> grid = {"hurst": [0.3, 0.9], "exponents": [0.2, 0.6, 1.0, 1.4]}
        >>> map = dl.phase_diagram(dl.res3, width=16, depth=200, **grid, draws=3)
        >>> map.hidden.shape, bool((map.hidden[:, 0] > 0).all()), bool((map.hidden[:, -1] < 0).all())
        ((2, 4), True, True)
    """
    started, call = time.perf_counter(), {**locals()}
    given_type: type = network if isinstance(network, type) else type(network)
    if not callable(network) or issubclass(given_type, nn.Module):
        hint = FOR_MODULES if issubclass(given_type, nn.Module) else ""
        is_class = isinstance(network, type)
        passed = f"the class {given_type.__name__}" if is_class else validation.named(network)
        raise TypeError(f"network must be a factory such as deeplimit.res3; got {passed}.{hint}")
    checked_width = validation.integer(width, "width", minimum=1, hint="It is the number of hidden units d.")
    hint = (
        f"The boundary is where networks of this depth and of a {SHALLOWER} times smaller one change as much."
    )
    checked_depth = validation.integer(depth, "depth", minimum=2 * SHALLOWER, maximum=2**24, hint=hint)
    indices = _numbers(hurst, "hurst", "[0.2, 0.5, 0.8]")
    levels = _numbers(exponents, "exponents", "[0, 0.5, 1]")
    for value in levels:
        validation.real(
            value,
            "every exponent",
            minimum=0.0,
            maximum=100.0,
            hint="The branch is multiplied by L**-exponent.",
        )
    if len(levels) < 2 or any(later <= earlier for earlier, later in itertools.pairwise(levels)):
        better = f"; try {ordered}" if len(ordered := sorted(set(levels))) > 1 else ""
        raise ValueError(
            f"exponents must be at least two numbers, strictly increasing, got {levels}{better}."
        )
    running = Running.checked(workers, executor, store, progress)
    networks = tuple(_made(network, checked_width, value) for value in indices)
    given = validation.inputs(x)
    kind = validation.dtype(dtype) or torch.float32
    checked_seed = validation.seed(seed)
    h0 = None if given is None else starting_states(given, (checked_width,), checked_seed, kind).to(kind)
    task = PhaseTask(
        networks,
        tuple(levels),
        (checked_depth // SHALLOWER, checked_depth),
        validation.integer(
            draws, "draws", minimum=1, maximum=MOST_DRAWS, hint="All of them are kept in the report."
        ),
        len(h0) if h0 is not None else validation.integer(inputs, "inputs", minimum=1),
        h0,
        checked_seed,
        kind,
        device=validation.device(device),
    )
    level = validation.probability(confidence, "confidence")
    held = numbers_per_network(networks[0], checked_depth, len(levels) * task.inputs, in_law=False)
    if held > MOST_NUMBERS:
        raise ValueError(
            f"one weight draw holds {held:.2g} numbers, more than {MOST_NUMBERS:.2g}: take fewer exponents or"
            " inputs."
        )
    logs = running.measure(task) / math.log(10.0)
    return _diagram(task, np.array(indices), logs, level, started).called_by("phase_diagram", call)


def _diagram(
    task: PhaseTask, hurst: np.ndarray, logs: np.ndarray, confidence: float, started: float
) -> PhaseDiagram:
    lost = ~np.isfinite(logs)
    overflowed = lost[:, :, 1].sum(axis=(1, 2, 4))
    with np.errstate(invalid="ignore", divide="ignore"):
        by_draw = np.where(lost, 0.0, logs).sum(axis=5) / (~lost).sum(axis=5)  # (m, draws, 2 depths, 2, n)
    exponents = np.array(task.exponents)
    (shallow, hidden), (gradient_shallow, gradient) = (
        [by_draw[:, :, level, which].transpose(0, 2, 1) for level in (0, 1)] for which in (0, 1)
    )
    edges = [
        [crossing_of_mean(exponents, apart, confidence, STRAIGHT) for apart in deep - shallower]
        for deep, shallower in ((hidden, shallow), (gradient, gradient_shallow))
    ]
    reservations = [
        f"Intervals hold the sampling error of depths {task.depths[0]} and {task.depths[1]}, not how far"
        " these are from infinity."
    ]
    critical = np.array(
        [np.nan if (known := growth_of(made).critical) is None else known for made in task.networks]
    )
    if below := int((np.array([high for _, (_, high) in edges[1]]) < critical).sum()):
        reservations.append(
            f"At {below} of {len(hurst)} Hurst indices the gradient's boundary lies below that of theory. Its"
            " change has a part that stays there beside a larger one that still falls at these depths: deeper"
            " or narrower networks bring it nearer."
        )
    for what, deep, shallower in (("signal", hidden, shallow), ("gradient", gradient, gradient_shallow)):
        reservations += _beyond(what, hurst, exponents, (deep - shallower).mean(axis=2))
    if float(np.diff(exponents).max()) > COARSE:
        reservations.append(
            f"Exponents lie up to {np.diff(exponents).max():.2g} apart: between them the boundary is"
            " interpolated."
        )
    if overflowed.any():
        reservations.append(
            f"{int(overflowed.sum())} values overflowed or were 0 and are left out of the means."
        )
    if task.draws < 3:
        reservations.append(
            f"{task.draws} weight draws are too few for intervals of the boundary; take 3 or more."
        )
    recursion = task.networks[0].recursion
    diagram = PhaseDiagram(
        network=(
            f"{recursion.name}: {recursion.formula.text({})}, σ = {recursion.activation.name},"
            " fractional Brownian weights"
        ),
        depth=task.depths[1],
        shallow_depth=task.depths[0],
        width=task.networks[0].width,
        draws=task.draws,
        inputs=task.inputs,
        hurst=hurst,
        exponents=exponents,
        hidden=hidden.mean(axis=2),
        gradient=gradient.mean(axis=2),
        hidden_draws=hidden,
        gradient_draws=gradient,
        hidden_shallow_draws=shallow,
        gradient_shallow_draws=gradient_shallow,
        boundary=np.array([at for at, _ in edges[0]]),
        boundary_interval=np.array([interval for _, interval in edges[0]]),
        gradient_boundary=np.array([at for at, _ in edges[1]]),
        gradient_boundary_interval=np.array([interval for _, interval in edges[1]]),
        unit_exponent=np.array([crossing(exponents, row.mean(axis=1)) for row in hidden]),
        gradient_unit_exponent=np.array([crossing(exponents, row.mean(axis=1)) for row in gradient]),
        critical=critical,
        overflowed=overflowed,
        confidence=confidence,
        seed=task.seed,
        device=str(task.device),
        dtype=str(task.dtype).removeprefix("torch."),
        seconds=time.perf_counter() - started,
        versions=versions(),
        reservations=tuple(reservations),
    )
    return diagram.measured_by(task)


def _beyond(what: str, hurst: np.ndarray, exponents: np.ndarray, apart: np.ndarray) -> list[str]:
    """Return at which Hurst indices a boundary lies on one side of all exponents.

    `apart` is how much more deep networks change than shallow ones, (hurst, exponents).
    """
    sides = {
        f"above {exponents[-1]:g}, the largest exponent: take larger ones": (apart > 0).all(axis=1),
        f"below {exponents[0]:g}, the smallest exponent: take smaller ones": (apart < 0).all(axis=1),
    }
    return [
        f"At H = {', '.join(f'{each:g}' for each in hurst[there])} the {what}'s boundary lies {where}."
        for where, there in sides.items()
        if there.any()
    ]


def _numbers(value: object, name: str, example: str) -> list[float]:
    entries = validation.entries(value, name, f"a list of numbers such as {example}")
    found = [validation.real(item, f"every entry of {name}") for item in entries]
    if not found:
        raise ValueError(f"{name} must not be empty; give numbers such as {example}.")
    return found


def _made(network: Callable[..., ResidualNetwork], width: int, hurst: float) -> ResidualNetwork:
    law = FractionalBrownian(hurst)
    given = network.keywords if isinstance(network, functools.partial) else {}
    if fixed := sorted(given.keys() & {"width", "weights", "exponent"}):
        raise ValueError(
            f"network must leave {', '.join(fixed)} to phase_diagram, which passes its own; take that out of"
            " the partial."
        )
    try:
        with validation.noted("deeplimit called network(width=, weights=, exponent=)."):
            made = network(width=width, weights=law, exponent=critical_exponent(law, (width, width)))
    except TypeError as error:
        raise TypeError(
            "network must be a factory such as deeplimit.res3, called with width=, weights= and exponent=;"
            f" that raised {type(error).__name__}: {error}."
        ) from error
    if not isinstance(made, ResidualNetwork):
        raise TypeError(
            "network must make a residual network, as deeplimit.res3 does; it returned"
            f" {validation.named(made)}."
        )
    if not made.recursion.is_plain:
        raise ValueError(
            f"network must make networks such as res1, res2, res3 or inner; got {made.recursion.name}, whose"
            f" layers are {made.recursion.formula.text({})}; stability measures those, one network at a time."
        )
    if made.width != width:
        raise ValueError(
            f"network must make networks of the width asked for; asked for {width}, it returned one of"
            f" {made.width}."
        )
    if any(own not in (law, simplest(law)) for own in made.weights):
        described = ", ".join(dict.fromkeys(own.describe() for own in made.weights))
        raise ValueError(
            f"network must use the weights it is given, {law!r}; it returned one with {described}; pass"
            " weights= on."
        )
    return made
