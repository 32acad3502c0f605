"""The contract of a limit, checked on one instance: its words, its solver, and what it reads of a network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torchdiffeq
import torchsde
from scipy import stats
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.driving import Layer, Path
from deeplimit.driving.path import Grid
from deeplimit.equations import Drive, LawLimit, Limit, SDELimit, Sharing, read_limit
from deeplimit.testing.contract import hold, near, normal, record, same, stream, watched, words

LEVEL = 1e-6
STEPS = (16, 32, 64, 128)
LEAST_ORDER = 0.3
"""Strong order at which a solution on a grid must approach its own refinement; Euler-Maruyama has 1/2."""
TOLERANCE = 1e-6
PATHS = 256


@by_default
def check_limit(limit: Any, width: int) -> None:
    """Check a limit against the contract: a `deeplimit.Limit`, a torchsde object or f(t, h).

    Every limit: its equation is one line of text, and it is a record with a hash. Its solver keeps shapes and
    dtypes, and gives the same solution again from the same streams. It changes nothing global, reads nothing
    of the network's path if nothing is shared, and approaches the solution of finer steps.

    An SDE: a step of length 0 adds nothing, and paths are independent. f, g and g_prod agree and run in
    torchsde. f(t, h): it runs in torchdiffeq. `draw`: every row of the batch is drawn from its starting
    point.

    NOT checked: that a network tends to the limit, which `compare` and `compare_laws` measure.

    Args:
        limit: The limit.
        width: d of the states that it is tried on.

    Raises:
        TypeError, ValueError: For an argument that is not a limit, as in `compare`, and for a width that is
            not the limit's.
        AssertionError: Naming what the limit breaks.

    Examples:
        >>> import deeplimit as dl
        >>> dl.testing.check_limit(dl.res1(3, "tanh").limit(), width=3)
    """
    d = validation.integer(width, "width", minimum=1)
    equation = read_limit(limit, normal(4, d), None)
    if equation.width is not None and equation.width != d:
        raise ValueError(f"width must be the limit's own, {equation.width}; got {d}.")
    checks: list[Callable[[], Iterator[str]]] = [partial(_says, equation)]
    if equation is limit:
        checks.append(partial(record, equation))
    if isinstance(equation, SDELimit):
        checks.append(partial(_steps, equation, d))
    if isinstance(equation, LawLimit):
        checks += [partial(_draws, equation, d), partial(_rows, equation, d)]
    else:
        checks += [partial(_solves, equation, d), partial(_refines, equation, d)]
    foreign = limit
    if hasattr(foreign, "f") and (hasattr(foreign, "g") or hasattr(foreign, "g_prod")):
        checks.append(partial(_in_torchsde, foreign, equation, d))
    elif callable(foreign):
        checks.append(partial(_in_torchdiffeq, foreign, equation, d))
    hold(limit, tuple(checks))


class _Nothing(Path):
    """A network's path that nobody may read."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"the solver reads path.{name}, though `sharing` says that it shares nothing")

    def advance(self, index: int) -> None:
        raise NotImplementedError

    def layer(self, j: int) -> Layer:
        raise NotImplementedError

    def rewind(self) -> None:
        raise NotImplementedError


def _drive(
    h: Tensor, grid: Grid, *, twice: bool = False, tolerance: float = TOLERANCE, seed: int = 0
) -> Drive:
    return Drive(
        state=h,
        paths=(_Nothing(),),
        functions=(),
        sharing=Sharing(),
        stream=lambda index: stream(1000 * seed + index),
        grid=grid,
        twice=twice,
        tolerance=tolerance,
    )


def _along(limit: Limit, h: Tensor, grid: Grid, **settings: Any) -> tuple[Tensor, Tensor | None]:
    """Return the state, and the coarser solution's, at time 1."""
    solver = limit.solver(_drive(h, grid, **settings))
    state = h
    with torch.no_grad():
        for chunk in grid.chunks():
            solver.begin(chunk)
            for index in range(len(chunk.steps)):
                state = solver.step(index)
    return state, solver.coarse


def _says(limit: Limit) -> Iterator[str]:
    """Words and settings."""
    yield from words(limit.equation, "equation")
    yield from words(limit.kind, "kind")
    if limit.setting not in ("reference", "tolerance"):
        yield f"setting must be 'reference' or 'tolerance', got {limit.setting!r}"
    shared = limit.sharing((), ())
    if not isinstance(shared, Sharing):
        yield f"sharing must return a Sharing, got {shared!r}"


def _solves(limit: Limit, width: int) -> Iterator[str]:
    """The solver, on separate noise."""
    grid = Grid((8,))
    for dtype in (torch.float32, torch.float64):
        h = normal(PATHS, *limit.state_shape(width), dtype=dtype)
        kept = h.clone()
        with watched() as touched:
            end, _ = _along(limit, h, grid)
            again, _ = _along(limit, h, grid)
        yield from touched
        if end.shape != h.shape or end.dtype != dtype:
            yield f"the solver must keep {tuple(h.shape)} and {dtype}, got {tuple(end.shape)}, {end.dtype}"
        elif not same(end, again):
            yield "the solver gives another solution from the same streams"
        elif not same(h, kept):
            yield "the solver changes the initial states in place"
        elif not bool(torch.isfinite(end).all()):
            yield "the solution must be finite on normal initial states"


def _refines(limit: Limit, width: int) -> Iterator[str]:
    """Refinement of the solution."""
    h = normal(PATHS, *limit.state_shape(width))
    if limit.setting == "tolerance":
        grid = Grid((8,))
        coarse, fine = (_along(limit, h, grid, tolerance=TOLERANCE / factor)[0] for factor in (1.0, 100.0))
        change = float((coarse - fine).abs().max())
        allowed = 1e3 * TOLERANCE * (1.0 + float(fine.abs().max()))
        if change > allowed:
            yield f"at a tolerance of {TOLERANCE:g} the solution is off by {change:.2g}"
        return
    distances = []
    for steps in STEPS:
        fine, coarser = _along(limit, h, Grid((steps,), halved=True), twice=True)
        if coarser is None:
            yield "a second, coarser solution was asked for (drive.twice), but solver.coarse is None"
            return
        distances.append(float((fine - coarser).flatten(1).norm(dim=1).median()))
    if max(distances) < 1e-12:
        return
    order = _order(distances)
    if order < LEAST_ORDER:
        yield (
            f"under halving of its steps the solution changes like steps^-{order:.2f}; a scheme for an SDE"
            f" should reach at least {LEAST_ORDER:g}"
        )


def _order(distances: list[float]) -> float:
    steps = [math.log(step) for step in STEPS]
    sizes = [math.log(max(distance, 1e-300)) for distance in distances]
    return -float(stats.linregress(steps, sizes).slope)


def _steps(limit: SDELimit, width: int) -> Iterator[str]:
    """One step of an SDE."""
    h = normal(PATHS, *limit.state_shape(width))
    size = limit.noise_size(h)
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        yield f"noise_size must return a number of Brownian motions or None, got {size!r}"
        return
    noise = normal(PATHS, width**2 if size is None else size, seed=5)
    with watched() as touched:
        added = limit.increment(0.25, 0.01, h, 0.1 * noise)
    yield from touched
    if added.shape != h.shape or added.dtype != h.dtype:
        yield f"increment must return the state's shape {tuple(h.shape)} and dtype, got {tuple(added.shape)}"
        return
    still = limit.increment(0.25, 0.0, h, torch.zeros_like(noise))
    if bool((still != 0.0).any()):
        yield "a step of no length without noise must add nothing; increment adds something"
    for rows in (torch.arange(PATHS - 1, -1, -1), torch.tensor([2])):
        if not near(limit.increment(0.25, 0.01, h[rows], 0.1 * noise[rows]), added[rows], 1e-10):
            yield "paths must be independent of each other: in another order, or alone, one moves otherwise"
            return
    both = limit.increment(0.25, 0.02, h, torch.zeros_like(noise))
    if not near(both, 2.0 * limit.increment(0.25, 0.01, h, torch.zeros_like(noise)), 1e-8):
        yield "without noise a step of twice the length must add twice as much: the drift times the step"
    drift = limit.increment(0.25, 0.01, h, torch.zeros_like(noise))
    opposite = limit.increment(0.25, 0.01, h, -0.1 * noise)
    if not near(added - drift, drift - opposite, 1e-8):
        yield "increment must be linear in the noise: g(t, h) times its increment"


def _in_torchsde(sde: Any, limit: Any, width: int) -> Iterator[str]:
    """torchsde, and agreement of f, g and g_prod."""
    numbers = math.prod(limit.state_shape(width))  # torchsde takes states that are vectors
    y = normal(7, numbers)
    time = torch.tensor(0.25, dtype=y.dtype)
    if hasattr(sde, "g") and hasattr(sde, "g_prod"):
        diffusion = sde.g(time, y)
        v = normal(7, diffusion.shape[-1], seed=9)
        product = diffusion * v if diffusion.ndim == 2 else torch.bmm(diffusion, v.unsqueeze(2)).squeeze(2)
        if not near(sde.g_prod(time, y, v), product, 1e-8):
            yield "g_prod(t, y, v) is not g(t, y) times v"
    steps_itself = isinstance(limit, SDELimit) and limit is sde
    if steps_itself and hasattr(sde, "g_prod"):
        size = limit.noise_size(y)
        v = normal(7, width**2 if size is None else size, seed=9)
        step = sde.f(time, y) * 0.01 + sde.g_prod(time, y, v)
        if not near(limit.increment(0.25, 0.01, y, v), step, 1e-8):
            yield "increment is not f times the step plus g_prod with the noise"
    if not hasattr(sde, "g"):
        return
    size = (7, sde.g(time, y).shape[-1])
    motion = torchsde.BrownianInterval(0.0, 1.0, size=size, dtype=y.dtype, entropy=1)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torchsde's own
        ends = torchsde.sdeint(sde, y, torch.tensor([0.0, 1.0]), bm=motion, dt=0.1, method="euler")
    if tuple(ends.shape) != (2, 7, numbers) or not bool(torch.isfinite(ends).all()):
        yield f"torchsde solves it to shape {tuple(ends.shape)}, or not to finite numbers"


def _in_torchdiffeq(function: Callable[..., Tensor], limit: Limit, width: int) -> Iterator[str]:
    """torchdiffeq."""
    with torch.no_grad():
        times = torch.tensor([0.0, 1.0], dtype=torch.float64)
        h = normal(7, *limit.state_shape(width))
        ends: Tensor = torchdiffeq.odeint(function, h, times)
    if ends.shape != (2, *h.shape) or not bool(torch.isfinite(ends).all()):
        yield f"torchdiffeq solves it to shape {tuple(ends.shape)}, or not to finite numbers"


def _draws(limit: LawLimit, width: int) -> Iterator[str]:
    """The draws of a limit in law."""
    for dtype in (torch.float32, torch.float64):
        h = normal(PATHS, *limit.state_shape(width), dtype=dtype)
        kept = h.clone()
        with watched() as touched:
            end, again = (limit.draw(h, stream()) for _ in range(2))
        yield from touched
        if end.shape != h.shape or end.dtype != dtype:
            yield f"draw must keep {tuple(h.shape)} and {dtype}, got {tuple(end.shape)}, {end.dtype}"
        elif not same(end, again):
            yield "draw gives other numbers from the same generator"
        elif not same(h, kept):
            yield "draw changes the initial states in place"


def _rows(limit: LawLimit, width: int) -> Iterator[str]:
    """Rows of a batch that know nothing of each other."""
    shape, count = limit.state_shape(width), 4096
    one, two = normal(1, *shape, seed=1), 3.0 * normal(1, *shape, seed=2)
    one, two = (start.expand(count, *shape) for start in (one, two))
    halves = torch.cat([one, two])
    mixed = torch.stack([one, two], dim=1).flatten(0, 1)
    alone = limit.draw(torch.cat([one, one]), stream(3))
    if bool((alone == alone[:1]).all()):
        yield "draw must give independent draws for equal starts, but all rows are the same"
        return
    alone = alone.flatten(1)
    sizes = [
        limit.draw(halves, stream(1))[:count].flatten(1),
        limit.draw(mixed, stream(2))[::2].flatten(1),
        alone[:count],
    ]
    for a, b in pairwise(sizes):
        for one_law, other_law in ((a[:, 0], b[:, 0]), (a.norm(dim=1), b.norm(dim=1))):
            if stats.ks_2samp(one_law.numpy(), other_law.numpy()).pvalue < LEVEL / 4:
                yield (
                    "draw must draw every row by its own start: with other rows beside it, or in another"
                    " order, its law changes"
                )
                return
    # Independent rows: ranks, so that heavy tails do not hide a shared number.
    for column in (alone[:, 0], alone.norm(dim=1)):
        if float(column.std()) < 1e-12 * (1.0 + float(column.abs().max())):
            continue
        for other in (torch.roll(column, 1), torch.roll(column, count)):
            if stats.spearmanr(column.numpy(), other.numpy()).pvalue < LEVEL / 4:
                yield "draw must draw rows independently of each other; some share their noise"
                return
