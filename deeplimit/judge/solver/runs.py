"""Running a solver at several numbers of steps on the same paths, and its reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torchdiffeq
import torchsde
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.measurement import Progress, part_of
from deeplimit.common.randomness import Purpose
from deeplimit.driving.jumps import POINTS, Jump, largest_jump
from deeplimit.equations import ODE, SDE, EulerMaruyama, Exact, Heun, Noise, Scheme, TorchSDE
from deeplimit.equations.schemes import STRATONOVICH, TORCHSDE
from deeplimit.equations.solvers import solve
from deeplimit.equations.torchsde_step import AsTorchsde
from deeplimit.judge.solver.controls import controls
from deeplimit.judge.solver.shared_path import LARGEST_GRID, SharedBrownian, draw
from deeplimit.judge.solver.verdict import EXACT_SOLUTION

Run = Callable[[Any, Tensor, Any, Tensor], Tensor]
"""solver(equation, x, brownian, times) -> states (P, d) at the last time, or (len(times), P, d) at all."""
TORCHDIFFEQ = {"euler": 1.0, "midpoint": 2.0, "heun2": 2.0, "heun3": 3.0, "rk4": 4.0}
"""Orders of torchdiffeq's fixed-step methods (its README; rk4 is the 3/8 rule)."""
FINER = 16
"""Fine steps of a reference per step of the finest level: at order 1/2 its squared error is then 1/16."""
PER_STEP = 2
"""Intervals of the shared grid per step of the finest level, so that a solver may halve its steps."""
BLOCK, LARGE_BLOCK = 256, 4096
"""Paths per block, at most, where hundreds are run and where thousands are. A step costs as much for 16 paths
as for 256, and for 4,096 of few numbers four times as much. The seed decides each block alone."""
NUMBERS = 2**24
"""Numbers of a block's path that are kept at once, 128 MiB of them."""
MOST_MOTIONS = 8
"""Brownian motions up to which Lévy areas are kept: they are m² numbers per time and path."""
PACKAGES = {"torchsde": True, "torchdiffeq": False}
"""Packages whose methods have names here, and whether their equations have noise."""
TOLERANCE = 1e-12
"""Tolerance of an ODE's reference, near the least that float64 allows."""


CALLED = "deeplimit called the scheme with (equation, x, brownian, times)."
"""A note on what a user's solver raises."""
WIDE = 3.0
"""How many moves of a state in time 1, or sizes of it, away from it coefficients are looked at."""


@dataclass(frozen=True)
class Solver:
    """What is judged: its name, how it runs, and the orders that are documented for this equation."""

    name: str
    run: Run
    strong: float | None
    weak: float | None


def resolve(scheme: Any, equation: SDE | ODE) -> Solver:
    """Return a scheme of the library, a method by name, or a callable as a `Solver`.

    Raises TypeError for anything else, ValueError for an unknown name and for noise that a method does not
    take.
    """
    random = equation.noise_structure is not Noise.NONE
    if isinstance(scheme, str):
        method = method_of(scheme, random)
        if random:
            scheme = TorchSDE(validation.choice(method, "scheme", TORCHSDE))
        else:
            name = validation.choice(method, "scheme", tuple(TORCHDIFFEQ))
            order = TORCHDIFFEQ[name]
            return Solver(f"torchdiffeq's {name}", _torchdiffeq(name), order, order)
    if isinstance(scheme, Scheme):
        run: Run = _exact if isinstance(scheme, Exact) else _steps_of(scheme)
        if isinstance(scheme, TorchSDE):
            run = _torchsde(scheme.method)
        return Solver(scheme.name, run, scheme.strong_order(equation), scheme.weak_order(equation))
    refuse_whole_solver(scheme)
    if callable(scheme) and not isinstance(scheme, type):
        name = getattr(scheme, "__name__", type(scheme).__name__)
        return Solver(name, scheme, None, None)
    raise TypeError(
        "scheme must be a scheme such as dl.Milstein(), the name of a method of torchsde or torchdiffeq, or a"
        f" function solver(equation, x, brownian, times); got {validation.named(scheme)}."
    )


def method_of(text: str, random: bool) -> str:
    """Return the method's name in a text such as "srk" or "torchsde:srk".

    Raises ValueError where the package that is named does not solve such equations.
    """
    package, _, method = text.partition(":")
    if package not in PACKAGES or not method:
        return text
    if PACKAGES[package] is not random:
        kind = "an SDE" if random else "an ODE"
        raise ValueError(f"scheme {text!r} does not take the equation, which is {kind}.")
    return method


def refuse_whole_solver(scheme: Any) -> None:
    """Refuse `torchsde.sdeint`, `torchdiffeq.odeint` and the like, which are called otherwise."""
    package = str(getattr(scheme, "__module__", None)).partition(".")[0]
    if callable(scheme) and package in PACKAGES:
        raise TypeError(
            f"scheme must be the name of a method of {package}, such as"
            f" {'srk' if PACKAGES[package] else 'rk4'!r}; got its function"
            f" {getattr(scheme, '__name__', type(scheme).__name__)}."
        )


def _steps_of(scheme: Scheme) -> Run:
    def run(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
        states, h = [x], x
        for start, end in itertools.pairwise(times.tolist()):
            noise = x.new_zeros(len(x), 0)
            if brownian is not None:
                noise = brownian(start, end, return_U=scheme.reads_areas)
                noise = torch.cat(noise, dim=1) if scheme.reads_areas else noise
            h = scheme.step(equation, start, end - start, h, noise)
            states.append(h)
        return torch.stack(states)

    return run


@torch.no_grad()
def _exact(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    return torch.stack([_solution(equation, float(time), x, brownian) for time in times])


def _solution(equation: Any, time: float, x: Tensor, brownian: Any) -> Tensor:
    at = torch.as_tensor(time, dtype=x.dtype)
    if brownian is None:
        found: Tensor = equation.solution(at, x)
    else:
        found = equation.solution(at, x, brownian(0.0, time).reshape(len(x), *equation.brownian_shape(x)))
    return found


def _torchsde(method: str) -> Run:
    def run(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
        length = float(times[1] - times[0])
        found: Tensor = torchsde.sdeint(
            AsTorchsde(equation), x, times, bm=brownian, method=method, dt=length, options={}
        )
        return found

    return run


def _torchdiffeq(method: str) -> Run:
    def run(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
        found: Tensor = torchdiffeq.odeint(equation, x, times, method=method)
        return found

    return run


@dataclass(frozen=True)
class Plan:
    """What is run: a solver, its equation, the levels, and what stands for the solution.

    Attributes:
        solver, equation: what is judged.
        steps: numbers of steps (m,), increasing.
        x: initial states (n, d); path i starts at row i mod n.
        reference: "exact", "fine" or "none".
        seed: decides the paths.
        largest_block: paths per block, at most.
        controlled: whether control variates of means are kept.
    """

    solver: Solver
    equation: SDE | ODE
    steps: tuple[int, ...]
    x: Tensor
    reference: str
    seed: int
    largest_block: int = BLOCK
    controlled: bool = False

    @property
    def random(self) -> bool:
        """Whether paths differ by noise."""
        return self.equation.noise_structure is not Noise.NONE

    @property
    def common(self) -> int:
        """Number of intervals of the grid of times that all levels share."""
        return math.gcd(*self.steps)

    @property
    def intervals(self) -> int:
        """Intervals of the grid on which the path is kept."""
        return PER_STEP * math.lcm(*self.steps)

    @property
    def motions(self) -> int:
        """Number of Brownian motions; 0 for an ODE."""
        return int(self.equation.noise_size(self.x[:1]) or 0) if self.random else 0

    @property
    def areas(self) -> bool:
        """Whether Lévy areas are kept: where noise may not commute."""
        general = self.random and self.equation.noise_structure is Noise.GENERAL
        return general and 1 < self.motions <= MOST_MOTIONS

    @property
    def block(self) -> int:
        """Number of paths per block."""
        motions = self.motions
        per_path = self.intervals * motions * (2 + (motions if self.areas else 0))
        most = self.largest_block
        fits = most if motions == 0 else max(1, min(most, NUMBERS // per_path))
        return 1 << (fits.bit_length() - 1)  # so that numbers of paths are whole blocks

    @property
    def reference_scheme(self) -> Scheme:
        """The scheme of a fine reference."""
        if getattr(self.equation, "interpretation", "") == STRATONOVICH:
            return Heun()  # the others convert the drift at every step, by one derivative per Brownian motion
        scheme = getattr(self.equation, "reference_scheme", None)
        return EulerMaruyama() if scheme is None else scheme

    @property
    def fine_steps(self) -> int:
        """Fine steps per interval of that grid; more than one only where somebody reads them."""
        finer = self.areas or self.reference == "fine"
        return max(1, FINER * self.steps[-1] // self.intervals) if finer else 1


@dataclass(frozen=True)
class Block:
    """States of one block: levels (m, K, P, d) at K common times, reference (K, P, d) or None.

    `coarse` is the reference with half as many steps; None where there is none. `controls` (P, m - 1, q) are
    those of the levels' changes, NaN where one has fewer; None where they are not kept.
    """

    states: Tensor
    reference: Tensor | None
    coarse: Tensor | None
    controls: Tensor | None = None


def check_grid(steps: tuple[int, ...]) -> None:
    """Raise ValueError where numbers of steps have no common grid of an affordable size."""
    if PER_STEP * math.lcm(*steps) > LARGEST_GRID:
        raise ValueError(
            f"steps must have a common multiple of at most {LARGEST_GRID // PER_STEP}, got {list(steps)}; let"
            " them double, say."
        )


def starts(x: Tensor, first: int, count: int) -> Tensor:
    """Return the initial states (count, d) of paths from number `first` on."""
    rows: Tensor = x[torch.arange(first, first + count) % len(x)]
    return rows


def run_block(
    plan: Plan, block: int, first: int, count: int, purpose: Purpose, move: Progress = lambda fraction: None
) -> Block:
    """Run every level, and the reference, on the paths of one block; `move` is called with the part done."""
    x = starts(plan.x, first, count)
    if not plan.random:
        fine, coarse = _ode_reference(plan, x)
        return Block(_levels(plan, x, None, move), fine, coarse)
    equation, kept = plan.equation, plan.intervals // plan.common
    if plan.reference != "fine":
        brownian = _drawn(plan, block, count, purpose)
        exact = None
        if plan.reference == "exact":
            times = torch.linspace(0, 1, plan.common + 1, dtype=torch.float64)[1:]
            exact = _exact(equation, x, brownian, times)
        return Block(_levels(plan, x, brownian, move), exact, None, _controls(plan, brownian))
    scheme = plan.reference_scheme
    h = [x, x]  # with fine steps, and with every two of them together
    pending: list[Tensor] = []
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    fine_steps = plan.intervals * plan.fine_steps
    share = fine_steps / (fine_steps + sum(plan.steps))  # of the reference in the time of the block

    def advance(time: float, length: float, moved: Tensor) -> None:
        h[0] = scheme.step(equation, time, length, h[0], moved)
        if not pending:
            pending.append(moved)
            return
        h[1] = scheme.step(equation, time - length, 2 * length, h[1], pending.pop() + moved)

    def keep(k: int) -> None:
        move(share * k / plan.intervals)
        if k % kept == 0:
            for states, at in zip(found, h, strict=True):
                states.append(at)

    brownian = _drawn(plan, block, count, purpose, advance, keep)
    levels = _levels(plan, x, brownian, part_of(move, share, 1.0))
    fine, half = torch.stack(found[0]), torch.stack(found[1])
    return Block(levels, fine, half, _controls(plan, brownian))


def _controls(plan: Plan, brownian: SharedBrownian) -> Tensor | None:
    if not plan.controlled:
        return None
    found = [controls(brownian.path, coarse, fine) for coarse, fine in itertools.pairwise(plan.steps)]
    most = max(each.shape[1] for each in found)
    padded = [torch.nn.functional.pad(each, (0, most - each.shape[1]), value=math.nan) for each in found]
    return torch.stack(padded, dim=1)


def _drawn(plan: Plan, block: int, count: int, purpose: Purpose, *more: Any) -> SharedBrownian:
    shape = (count, plan.motions)
    with torch.no_grad():
        return draw(plan.intervals, plan.fine_steps, shape, plan.areas, plan.seed, block, purpose, *more)


@torch.no_grad()
def _ode_reference(plan: Plan, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
    if plan.reference == "none":
        return None, None
    times = torch.linspace(0, 1, plan.common + 1, dtype=torch.float64)
    if plan.reference == "exact":
        return _exact(plan.equation, x, None, times[1:]), None
    field = plan.equation.field  # type: ignore[union-attr]
    cure = "give the equation's solution=, or reference='none'"
    fine, coarse = (solve(field, x, times, each, cure)[1:] for each in (TOLERANCE, 10 * TOLERANCE))
    return fine, coarse


def stiffness(plan: Plan, iterations: int = 8) -> float:
    """Return how fast the drift changes with the initial state, in the direction where it does most.

    A few power iterations with finite differences, at time 0.
    """
    field = plan.equation.drift if plan.random else plan.equation.field  # type: ignore[union-attr]
    x, time = plan.x, torch.zeros((), dtype=torch.float64)
    unit = 1e-4 * max(1.0, float(x.abs().max()))
    way = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    with torch.no_grad():
        for _ in range(iterations):
            way = way / way.norm(dim=1, keepdim=True).clamp_min(1e-300)
            way = (field(time, x + unit * way) - field(time, x)) / unit
    return float(way.norm(dim=1).max())


def largest_jumps(plan: Plan) -> tuple[Jump | None, Jump | None]:
    """Return the largest jumps in time of the drift and of the diffusion, at the initial states.

    Sizes are root mean squares over initial states, for Brownian increments of 1.
    """
    x = plan.x[:16]

    def of(value: Callable[[Tensor], Tensor]) -> Jump | None:
        with torch.no_grad():
            found = largest_jump(lambda times: torch.stack([value(time).flatten() for time in times]))
        return None if found is None else found._replace(size=found.size / math.sqrt(len(x)))

    equation: Any = plan.equation
    if not plan.random:
        return of(lambda time: equation.field(time, x)), None
    ones = x.new_ones(len(x), *equation.brownian_shape(x))
    return of(lambda time: equation.drift(time, x)), of(lambda time: equation.diffusion(time, x, ones))


class Irregular(NamedTuple):
    """What is seen of coefficients as functions of the state: jumps, and the diffusion's largest slope."""

    drift_jumps: bool
    diffusion_jumps: bool
    slope: float


def irregularities(plan: Plan) -> Irregular:
    """Return what coefficients do on a line of states through the initial ones, at time 1/2.

    It reaches WIDE times as far, in every coordinate, as coefficients move its middle in time 1, or as that
    is from 0. NOT checked: other states.
    """
    equation: Any = plan.equation
    half = torch.full((), 0.5, dtype=torch.float64)

    def drift(x: Tensor) -> Tensor:
        out: Tensor = equation.drift(half, x) if plan.random else equation.field(half, x)
        return out

    def noise(x: Tensor) -> Tensor:
        out: Tensor = equation.diffusion(half, x, x.new_ones(len(x), *equation.brownian_shape(x)))
        return out

    with torch.no_grad():
        centre = plan.x.mean(dim=0, keepdim=True)
        moves = drift(centre).abs() + (noise(centre).abs() if plan.random else 0.0)
        reach = WIDE * torch.maximum(moves, centre.abs())

        def along(value: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
            return lambda places: value((centre + reach * (2 * places[:, None] - 1)).to(plan.x))

        jumps = largest_jump(along(drift)) is not None
        if not plan.random:
            return Irregular(jumps, False, 0.0)
        values = along(noise)(torch.linspace(0.0, 1.0, POINTS, dtype=torch.float64))
        spacing = float(reach.norm()) * 2 / (POINTS - 1)
        slope = float(values.flatten(1).diff(dim=0).norm(dim=1).max()) / spacing if spacing > 0 else 0.0
        return Irregular(jumps, largest_jump(along(noise)) is not None, slope)


def _levels(plan: Plan, x: Tensor, brownian: SharedBrownian | None, move: Progress) -> Tensor:
    """Return the solver's states (m, K, P, d) at the K times that all share; K is 1 for last states."""
    found = []
    done = 0
    for count in plan.steps:
        times = torch.linspace(0, 1, count + 1, dtype=torch.float64)
        with torch.no_grad(), validation.noted(CALLED):
            got = plan.solver.run(plan.equation, x.clone(), brownian, times)  # a solver may write into it
        found.append(_checked(plan, got, x, count))
        done += count
        move(done / sum(plan.steps))
    fewest = min(len(each) for each in found)
    return torch.stack([each[-fewest:] for each in found])


def _checked(plan: Plan, got: Any, x: Tensor, count: int) -> Tensor:
    name = plan.solver.name
    if not isinstance(got, Tensor):
        raise TypeError(
            f"scheme {name} must return a tensor of states, (P, d) at the last time or (steps + 1, P, d); got"
            f" {validation.named(got)}."
        )
    if not got.is_floating_point():
        raise TypeError(f"scheme {name} must return floating-point numbers; got a tensor of {got.dtype}.")
    if tuple(got.shape) == tuple(x.shape):
        return got.unsqueeze(0)
    if tuple(got.shape) != (count + 1, *x.shape):
        raise ValueError(
            f"scheme {name} must return states {tuple(x.shape)} at the last time, or {(count + 1, *x.shape)}"
            f" at all times; got {tuple(got.shape)} for {count} steps."
        )
    every = count // plan.common
    return got[every::every]


@dataclass(frozen=True)
class Measured:
    """What all paths add up to, in float64; P paths, m levels.

    Attributes:
        sizes: |d_j| (P, m - 1), largest over common times.
        squares, products: as in `consecutive.Differences`.
        distances: largest distance to the reference over common times (P, m); None without one.
        reference_error: root mean square of what separates the reference from itself with half its steps.
        lost: paths with a state that is not finite.
        scales: largest finite state of every level (m,).
        epsilon: machine epsilon of the states that the solver returns.
    """

    sizes: np.ndarray
    squares: np.ndarray
    products: np.ndarray
    distances: np.ndarray | None
    reference_error: float
    lost: int
    scales: np.ndarray
    epsilon: float

    def unstable(self, largest: float) -> int:
        """Return how many levels, from the coarsest on, have states that large, and as much larger than the
        finest level's: the steps are too long for them, not for it."""
        large = self.scales > largest * max(1.0, float(self.scales[-1]))
        return int(np.argmin(large))

    def without(self, levels: int) -> Measured:
        """Return what is left without the coarsest levels."""
        return replace(
            self,
            sizes=self.sizes[:, levels:],
            squares=self.squares[:, levels:],
            products=self.products[:, levels:],
            distances=None if self.distances is None else self.distances[:, levels:],
            scales=self.scales[levels:],
        )


def measure(plan: Plan, paths: int, kept: list[Any], move: Progress) -> Measured:
    """Return statistics of the first `paths` paths; `kept` holds finished blocks, and gets further ones."""
    blocks = range(len(kept), -(-paths // plan.block))
    for number, block in enumerate(blocks):
        first = block * plan.block
        count = min(plan.block, paths - first)
        part = part_of(move, number / len(blocks), (number + 1) / len(blocks))
        kept.append(_of_block(run_block(plan, block, first, count, Purpose.SOLVER_PATHS, part)))
    sizes, squares, products, distances, own, peaks, epsilons = zip(*kept, strict=True)
    far = None if distances[0] is None else np.concatenate(distances)
    largest = np.concatenate(peaks)
    finite = np.isfinite(largest)
    return Measured(
        np.concatenate(sizes),
        np.concatenate(squares),
        np.concatenate(products),
        far,
        0.0 if own[0] is None else float(np.sqrt(np.mean(np.concatenate(own) ** 2))),
        int((~finite.all(axis=1)).sum()),
        np.where(finite, largest, 0.0).max(axis=0),
        max(epsilons),
    )


def _of_block(block: Block) -> tuple[Any, ...]:
    states = block.states.double()
    moved = states.diff(dim=0)  # (m - 1, K, P, d)
    last = moved[:, -1]
    distances = own = None
    if block.reference is not None:
        reference = block.reference.double()[-states.shape[1] :]
        distances = (states - reference).norm(dim=-1).amax(dim=1).T.numpy()
        if block.coarse is not None:
            own = (reference - block.coarse.double()[-len(reference) :]).norm(dim=-1).amax(dim=0).numpy()
    return (
        moved.norm(dim=-1).amax(dim=1).T.numpy(),
        last.square().sum(-1).T.numpy(),
        (last[1:] * last[:-1]).sum(-1).T.numpy(),
        distances,
        own,
        states.abs().amax(dim=(1, 3)).T.numpy(),
        torch.finfo(block.states.dtype).eps,
    )


def function_values(
    plan: Plan,
    functions: tuple[Callable[[Tensor], Tensor], ...],
    paths: int,
    purpose: Purpose,
    kept: list[tuple[np.ndarray, np.ndarray]],
    move: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """Return K functions of the last states (P, m + 2, K), and controls (P, m - 1, q) of the levels' changes.

    The last two levels are those of the reference, or NaN: as it is, and with half as many steps. `kept`
    holds finished blocks, and gets further ones.
    """
    blocks = range(len(kept), -(-paths // plan.block))
    for number, block in enumerate(blocks):
        first = block * plan.block
        part = part_of(move, number / len(blocks), (number + 1) / len(blocks))
        found = run_block(plan, block, first, min(plan.block, paths - first), purpose, part)
        none = np.zeros((len(found.states[0, -1]), len(plan.steps) - 1, 0))
        kept.append((_values(functions, found), none if found.controls is None else found.controls.numpy()))
    values, given = zip(*kept, strict=True)
    return np.concatenate(values), np.concatenate(given)


def _values(functions: tuple[Callable[[Tensor], Tensor], ...], found: Block) -> np.ndarray:
    states = [*found.states[:, -1].double()]
    count = len(states[0])
    for stand_in in (found.reference, found.coarse):
        states.append(torch.full_like(states[0], math.nan) if stand_in is None else stand_in[-1].double())
    columns = []
    for number, function in enumerate(functions):
        values = [function(each) for each in states]
        if not all(isinstance(value, Tensor) and tuple(value.shape) == (count,) for value in values):
            raise ValueError(
                f"functions[{number}] must take states {tuple(states[0].shape)} and return one number per"
                f" path, ({count},); got {validation.named(values[0])}."
            )
        columns.append(torch.stack(values, dim=1).double())
    return torch.stack(columns, dim=2).numpy()


def reference_in_words(plan: Plan) -> str:
    """Return what stands for the solution."""
    if plan.reference == "none":
        return "none: the solver's own differences alone"
    if plan.reference == "exact":
        return EXACT_SOLUTION
    if not plan.random:
        return f"torchdiffeq's dopri5 at tolerance {TOLERANCE:g}"
    sense = "Stratonovich" if getattr(plan.equation, "interpretation", "") == STRATONOVICH else "Itô"
    steps = plan.intervals * plan.fine_steps
    return f"{plan.reference_scheme.name} with {steps} steps of the same path ({sense} equation)"
