"""`simulate`: trajectories of networks, equations or torch blocks at several depths, and of their limits."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.serialised import Origin
from deeplimit.common.store import Store
from deeplimit.driving import ChannelKind, Layer, Trend
from deeplimit.equations import RK4, EulerMaruyama, Identity, Independent, Limit, Scheme, read_limit
from deeplimit.layers import Formula, Recursion, Weight, activations
from deeplimit.layers.activations import Activation
from deeplimit.networks.residual_network import ResidualNetwork, module_network, network_of
from deeplimit.networks.scheme_network import scheme_network
from deeplimit.simulation.coupled_errors import COUPLINGS, make_task
from deeplimit.simulation.recording import Recording
from deeplimit.simulation.task import Task
from deeplimit.simulation.trajectories import Trajectories, assembled
from deeplimit.version import versions

KEEPS = STATES, SUMMARIES = ("states", "summaries")
DEPTHS = (16, 64, 256)
STEPS = (256,)
SUMMARY_TIMES = tuple(k / 32 for k in range(33))
"""Enough for a picture of a column's width, and few enough that summaries cost little beside the paths."""
NO_LIMIT = (
    "No limit is simulated: no theorem pairs this network with one on the same noise (its regime() says what"
    " is known). Pass limit= to simulate one of yours."
)
MOST_NUMBERS = 2**30
"""States and weights are held whole: 4 GiB in float32, and the same again while blocks are put together."""


@by_default
def simulate(
    what: Any,
    x: Tensor | None = None,
    *,
    depths: Sequence[int] | int | None = None,
    steps: Sequence[int] | int | None = None,
    paths: int = 8,
    seed: int = 0,
    limit: object = None,
    scheme: Scheme | None = None,
    times: Sequence[float] | None = None,
    keep: str = STATES,
    keep_weights: bool = False,
    same_network: bool = False,
    coupling: str = "auto",
    reference: int | None = None,
    tolerance: float | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> Trajectories:
    """Simulate a network at several depths, or an equation at several step sizes, beside its limit.

    All depths and the limit read the same driving path. With the arguments of a call of `compare` (coupling
    and number of paths included) the paths are those of that call, unless its norm is "sup-continuous", which
    has a finer grid.

    Args:
        what: A network. An equation: an `SDE`, an `ODE`, a limit of the library, a torchsde object, or a
            function f(t, h). Or torch blocks: a function of the depth that
            returns them in order, or one stack of them (`nn.Sequential`, `nn.ModuleList` or a list).
        x: Inputs (n, d) as in `compare`; path i takes row i mod n. None for standard normal h_0, one per
            path. Blocks need them, and equations that do not say their width.
        depths: Strictly increasing numbers of layers L of a network, or one number; (16, 64, 256) if left
            out. One stack of blocks has its own.
        steps: The same for an equation: numbers of equal steps on [0, 1]; 256 if left out.
        paths: Number of paths P.
        seed: Everything random derives from it.
        limit: What stands beside: a limit as `compare` takes it; None for the network's own where a theorem
            names one, or for the equation itself, exact or on a finer grid; False for none.
        scheme: How an equation is stepped, such as `Milstein()`; left out: the best one that its noise
            allows, Euler-Maruyama for a limit of the library, `RK4()` for an ODE. A limit that reads random
            functions, or whose states are no vectors, takes its own solver in place of a scheme, with no
            limit beside.
        times: Increasing times in [0, 1] at which states are kept, (K,): h_⌊tL⌋ of every depth, and the
            limit at the last time of the grid that is not later. Of times that fall into one step one is
            kept, which a remark says. None for every layer, k/L, or for summaries 33 times.
        keep: "states", or "summaries" for more paths than fit in memory: mean, covariance and quantiles at
            `times`.
        keep_weights: Whether the weights of every layer are returned, too.
        same_network: Whether all n inputs go through each path's network, and its limit, together.
        coupling: How the noise is drawn, as in `compare`. "auto" is "pathwise" where states are kept, so that
            `Trajectories.modules` has weights, and what `compare` chooses for summaries.
        reference: Number of steps of an SDE limit's grid, at least twice the deepest network; left out:
            chosen.
        tolerance: Tolerance of an ODE limit's solver; left out: by the dtype.
        device: "cpu" or "cuda".
        dtype: dtype of the states; left out: that of x for blocks (float32 or wider), else chosen as
            `compare` does.
        workers: Number of threads, by default one per core; changes no number.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead.
        store: File, or `Store`, that keeps finished blocks.
        progress: Function of the fraction done; True shows a bar, False nothing.

    Returns:
        The trajectories: `states[L]`, `limit_states`, `summaries[L]`; `plot`, `save` and `modules` of them.
        Paths that are not finite stay in the states, are left out of means, and are counted in `lost`.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value; arguments that `what` does not take; a limit that reads noise other
            than the network's; and states that do not fit in memory.
        RuntimeError: Where an ODE limit cannot be solved to the tolerance.

    NOT checked: what `compare` does not check, and that a stack of blocks is a residual network.

    Examples:
        >>> import torch, deeplimit as dl
        >>> t = dl.simulate(dl.res1(4, "tanh"), depths=[16, 64], paths=5)
        >>> t.states[64].shape, t.limit_at(64).shape
        (torch.Size([5, 65, 4]), torch.Size([5, 65, 4]))
        >>> gbm = dl.SDE(lambda t, h: h, lambda t, h, dB: 0.2 * h * dB, noise="diagonal")
        >>> dl.simulate(gbm, torch.ones(1, 1), steps=100, scheme=dl.Milstein()).states[100].shape
        torch.Size([8, 101, 1])
    """
    started = time.perf_counter()
    kept = validation.choice(keep, "keep", KEEPS)
    summaries = kept == SUMMARIES
    weighed = validation.flag(keep_weights, "keep_weights")
    together = validation.flag(same_network, "same_network")
    chosen = validation.choice(coupling, "coupling", COUPLINGS)
    if chosen == "auto" and not summaries:
        chosen = "pathwise"
    running = Running.checked(workers, executor, store, progress)
    subject = _read(what, x, depths, steps, scheme)
    network = subject.network
    inputs = validation.inputs(x, network.state_shape)
    if together and inputs is None:
        raise ValueError("same_network=True sends all inputs through one network per path; give them as x=.")
    _check_weights(weighed, summaries, chosen, network)
    of_limit, remarks = _limit(limit, subject)
    task = make_task(
        network,
        Identity() if of_limit is None else of_limit,
        inputs,
        depths=subject.depths,
        reference=_reference(reference, subject.depths),
        norm="sup",
        p=2.0,
        paths=validation.integer(paths, "paths", minimum=1),
        seed=validation.seed(seed),
        device=validation.device(device),
        dtype=subject.dtype if dtype is None else validation.dtype(dtype),
        tolerance=_tolerance(tolerance),
        coupling=chosen,
        same_network=together,
    )
    asked = SUMMARY_TIMES if times is None and summaries else _times(times)
    # Nothing reads the limit's scheme on every depth's layers, or differences. Where products are drawn, the
    # scheme stays: it has a share of the normals, and paths would not be those of `compare`.
    task = dataclasses.replace(
        task, splits=task.splits and task.coupling == "projected", keeps_differences=False
    )
    limited = of_limit is not None and not subject.solved
    recording = Recording(
        task, asked, summaries, weighed, limited=limited, solved=subject.solved, device=task.device
    )
    number = 1 if inputs is None else len(inputs)
    if not summaries:
        _check_size(recording, number if together else 1)
    arrays = running.measure(recording)
    if number > task.paths and not together:
        remarks = (
            *remarks,
            f"Only the first {task.paths} of the {number} inputs were used, one per path: paths={number}"
            " takes all.",
        )
    for name, column in recording.columns:
        arrays[f"times/{name}"] = recording.stops.times_of(column)
    remarks = (*remarks, *_of_times(recording, times), *_of_reference(task, subject, limited))
    told = f"{number} given, {'all through every network' if together else 'one per path in turn'}"
    facts = {
        "what": subject.name,
        "unit": "depth" if subject.equation is None else "steps",
        "limit": task.limit.equation if limited else None,
        "depths": task.grid.depths,
        "paths": task.paths,
        "seed": task.seed,
        "coupling": task.coupling,
        "inputs": "standard normal h_0, one per path" if inputs is None else told,
        "same_network": together,
        "device": str(task.device),
        "dtype": str(task.dtype).removeprefix("torch."),
        "seconds": time.perf_counter() - started,
        "versions": versions(),
        "remarks": remarks,
    }
    return assembled(arrays, facts, Origin(recording))


@dataclass(frozen=True)
class _Subject:
    """What is simulated, as a network, at which depths; and the equation, where it is one's steps.

    `dtype` is that of the states where nobody chooses; None for the one that `compare` chooses. An equation
    that is `solved` is not stepped by a scheme, but by its own solver, on a path of its own.
    """

    name: str
    network: ResidualNetwork
    depths: tuple[int, ...]
    equation: Limit | None = None
    dtype: torch.dtype | None = None
    solved: bool = False


@dataclass(frozen=True)
class _Stack:
    """One stack of blocks as a factory: its first blocks."""

    blocks: tuple[nn.Module, ...]

    def __call__(self, depth: int) -> tuple[nn.Module, ...]:
        return self.blocks[:depth]


def _read(what: Any, x: object, depths: object, steps: object, scheme: object) -> _Subject:
    """Return what is simulated; raise TypeError or ValueError for what cannot be, and for wrong arguments."""
    is_stack = isinstance(what, (nn.Sequential, nn.ModuleList, list, tuple))
    if not is_stack and _is_equation(what):
        if depths is not None:
            raise ValueError(
                f"depths={validation.named(depths)} are of a network, and what is an equation; give steps=."
            )
        return _equation(what, x, STEPS if steps is None else steps, scheme)
    if steps is not None:
        raise ValueError(
            f"steps are of an equation, and what is a network: got {validation.named(steps)}; give depths=."
        )
    if scheme is not None:
        raise ValueError(
            f"scheme={validation.named(scheme)} steps an equation, and what is a network, whose layers are"
            " its steps; leave it out, or simulate network.limit()."
        )
    if not is_stack:
        if not callable(what) and not isinstance(what, ResidualNetwork):
            raise TypeError(
                "what must be a network, such as res1(width=40), an equation (SDE, ODE, a torchsde object or"
                f" a function f(t, h)), or torch blocks; got {validation.named(what)}."
            )
        network = network_of(what, x if isinstance(x, Tensor) else None, "what")
        counts = _counts(DEPTHS if depths is None else depths, "depths", "depth")
        return _Subject(str(network), network, counts, None, None if network is what else _dtype_of(x))
    blocks = tuple(what)
    wrong = [validation.named(each) for each in blocks if not isinstance(each, nn.Module)]
    if wrong or len(blocks) < 2:
        raise TypeError(
            f"what must be a stack of two torch modules or more; got {wrong[0] if wrong else len(blocks)}."
        )
    if not isinstance(x, Tensor) or x.is_nested or x.ndim < 2:
        raise ValueError(
            f"x must be the inputs (n, *shape of a state) of the {len(blocks)} blocks, got"
            f" {validation.named(x)}."
        )
    found = _counts(len(blocks) if depths is None else depths, "depths", "depth")
    if found != (len(blocks),):
        raise ValueError(
            f"depths must be {len(blocks)}, the number of blocks, got {list(found)}; a function of the depth"
            " that returns blocks takes several."
        )
    network = module_network(_Stack(blocks), tuple(x.shape[1:]))  # type: ignore[arg-type]
    return _Subject(f"a stack of {len(blocks)} blocks", network, found, None, _dtype_of(x))


def _dtype_of(x: object) -> torch.dtype | None:
    """Return the dtype of inputs of a user's blocks, which have their own; float32 for narrower ones."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return None
    return torch.promote_types(x.dtype, torch.float32)


def _is_equation(what: Any) -> bool:
    """Return whether something is a limit, a torchsde object or a function f(t, h)."""
    if isinstance(what, type):
        raise TypeError(f"what must be an object, got the class {what.__name__}: {what.__name__}(...).")
    if isinstance(what, Limit) or hasattr(what, "sde_type") or hasattr(what, "noise_type"):
        return True
    function = what.forward if isinstance(what, nn.Module) else what
    return validation.takes(function, 2) and not validation.takes(function, 1)


def _equation(what: Any, x: object, steps: object, scheme: Any) -> _Subject:
    """Return an equation as the network of its scheme's steps."""
    width = getattr(what, "width", None)
    if not isinstance(x, Tensor) and width is None:
        raise ValueError(
            "x must be the initial states (n, d) of an equation that does not say its width; got"
            f" {validation.named(x)}."
        )
    shape = what.state_shape(width) if hasattr(what, "state_shape") and width is not None else (1,)
    inputs = validation.inputs(x, shape)
    if inputs is not None and width is None:
        width = inputs.shape[1]
    own = inputs is not None and (len(shape) > 1 or inputs.shape[1] == width)
    probe = inputs[:2] if inputs is not None and own else torch.zeros(2, *_shape(shape, int(width or 1)))
    equation = read_limit(what, probe, None)
    counts = _counts(steps, "steps", "number of steps")
    if equation.in_law_only:
        raise ValueError(
            f"what is {equation.equation}, known in law only, so it has no paths; compare_laws draws it."
        )
    if scheme is None and (len(shape) > 1 or equation.functions or equation.needs_equal_steps):
        waiting = Waiting(activations.resolve("identity"), tuple(probe.shape[1:]))
        network = ResidualNetwork(waiting, int(width or 1), (Trend(_zero),), 1.0)
        return _Subject(f"solution of {equation.equation}", network, counts, equation, solved=True)
    if scheme is None:
        usual = RK4() if equation.setting == "tolerance" else EulerMaruyama()
        scheme = getattr(equation, "reference_scheme", usual)
    network = scheme_network(scheme, equation, int(width or 1))  # type: ignore[arg-type]  # it checks both
    return _Subject(f"{scheme.name} steps of {equation.equation}", network, counts, equation)


def _shape(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (width,)


def _zero(t: float) -> Tensor:
    return torch.zeros((), dtype=torch.float64)


@final
@dataclass(frozen=True)
class Waiting(Recursion):
    """States that stay: what stands in for a network where an equation is solved alone."""

    activation: Activation
    shape: tuple[int, ...] = (1,)
    name: ClassVar[str] = "waiting"
    formula: ClassVar[Formula] = Formula("h", network_latex="h")
    weights: ClassVar[tuple[Weight, ...]] = (Weight("t", ""),)

    def state_shape(self, width: int) -> tuple[int, ...]:
        return self.shape

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return torch.zeros_like(h)


def _counts(value: Any, name: str, one: str) -> tuple[int, ...]:
    return validation.depths([value] if isinstance(value, numbers.Integral) else value, 1, name, one)


def _limit(limit: object, subject: _Subject) -> tuple[object, tuple[str, ...]]:
    """Return the limit that stands beside, None for none, and what to know of that."""
    if subject.solved and subject.equation is not None:
        if limit not in (None, False):
            raise ValueError(
                f"limit={validation.named(limit)} stands beside a network or a scheme, and {subject.name} is"
                " solved alone; leave it out."
            )
        return Independent(subject.equation) if subject.equation.is_random else subject.equation, ()
    if limit is False:
        return None, ()
    if limit is not None:
        return limit, ()
    if subject.equation is not None:
        return subject.equation, ()
    try:
        own = subject.network.limit()
        return (own, ()) if not own.in_law_only else (None, (NO_LIMIT,))
    except validation.NoTheoremError:
        return None, (NO_LIMIT,)


def _reference(reference: object, depths: tuple[int, ...]) -> int | None:
    if reference is None:
        return None
    hint = "The reference needs twice the deepest network."
    return validation.integer(reference, "reference", minimum=2 * depths[-1], maximum=2**26, hint=hint)


def _tolerance(tolerance: object) -> float | None:
    return None if tolerance is None else validation.real(tolerance, "tolerance", above=0.0, maximum=0.1)


def _of_times(recording: Recording, times: Sequence[float] | None) -> Iterator[str]:
    """Yield what became of times that were asked for and fall into one step of the grid."""
    if times is None:
        return
    fewest = min(len(recording.stops.times_of(column)) for _, column in recording.columns)
    if fewest < len([*times]):
        yield (
            f"Of {len([*times])} times some fall into one step of the grid, which is kept once: {fewest} are"
            " kept, and `times` says which."
        )


COARSE = 1 / 16
"""Largest ratio of the equation's steps to the limit's that needs no remark. A distance that falls at order 1
is too small by this part, one of order 1/2 by half of it."""


def _of_reference(task: Task, subject: _Subject, limited: bool) -> Iterator[str]:
    """Yield by how much distances of an equation's steps to a limit on a finer grid may be too small."""
    size, steps = task.grid.size, task.grid.depths[-1]
    stepped = limited and task.limit.has_schemes and not task.limit.is_exact
    if stepped and subject.equation is not None and steps > COARSE * size:
        yield (
            f"The limit is solved on {size} steps: distances of {steps} steps to it are too small, by up to"
            f" {100 * steps / size:.0f} %. Pass reference={16 * steps} for a finer grid."
        )


def _times(times: Any) -> tuple[float, ...] | None:
    if times is None:
        return None
    listed = validation.entries(times, "times", "a list of times such as [0, 0.5, 1]")
    checked = tuple(validation.real(t, f"times[{k}]", minimum=0.0, maximum=1.0) for k, t in enumerate(listed))
    if not checked or list(checked) != sorted(set(checked)):
        raise ValueError(
            f"times must be one or more increasing numbers, got {list(checked)[:8]}; try"
            f" {sorted(set(checked))[:8]}."
        )
    return checked


def _check_weights(weighed: bool, summaries: bool, coupling: str, network: ResidualNetwork) -> None:
    if not weighed:
        return
    why = None
    if summaries:
        why = "keep='summaries' keeps no single path; take keep='states'"
    elif coupling != "pathwise":
        why = f"coupling={coupling!r} draws only products of the weights; take coupling='pathwise'"
    elif any(
        channel.kind is ChannelKind.SEPARATE and channel.name == "block" for channel in network.channels
    ):
        why = "the blocks are modules of your own; `modules(L, path)` returns them"
    if why is not None:
        raise ValueError(f"keep_weights=True asks for the weights of every layer, but {why}.")


def _check_size(recording: Recording, inputs: int) -> None:
    """Raise ValueError where the states, and weights, of all paths cannot be held."""
    task, entries = recording.task, math.prod(recording.task.network.state_shape)
    numbers = inputs * entries * sum(len(recording.stops.times_of(c)) for _, c in recording.columns)
    if recording.weights:
        numbers += sum(task.grid.depths) * sum(map(math.prod, task.network.weight_shapes))
    if (total := numbers * task.paths) > MOST_NUMBERS:
        raise ValueError(
            f"paths={task.paths} of {numbers:.2g} numbers each are {total:.2g} numbers, more than"
            f" {MOST_NUMBERS:.2g} that are held at once; keep='summaries' takes any number of paths,"
            f" times=[...] keeps fewer states, and {MOST_NUMBERS // numbers} paths fit."
        )
