"""What one run consists of, as a specification that can be sent to another process or machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.coupling.grid import Grid, uniform_size
from deeplimit.coupling.kernels.followers import is_plain, obstacle
from deeplimit.ground.randomness import Purpose, generator
from deeplimit.limits import (
    Independent,
    ItoCorrectedSDE,
    LawLimit,
    Limit,
    LinearODE,
    NeuralODE,
    NeuralSDE,
    NeuralYoung,
    ODELimit,
    SDELimit,
    read_limit,
)
from deeplimit.limits.young import extrapolation_surplus
from deeplimit.networks import ResidualNetwork
from deeplimit.theory import in_law_only
from deeplimit.weights import FractionalBrownian, Trend, TrendAndNoise

NORMS = ("sup", "sup-continuous", "final")
COUPLINGS = ("auto", "projected", "pathwise")
LEAST_WIDTH = 8
LEAST_WIDTH_IN_TORCH = 32
"""Narrower networks take whole matrices, which then cost no more than their products do: compiled, or a
step in torch at a time. With n inputs through one network the products cost like n². By the specification
alone: what is installed decides no number.
"""
NUMBERS_PER_BLOCK = {"cpu": 2**17, "cuda": 2**24}
PROJECTED_NUMBERS_PER_BLOCK = {"cpu": 2**16, "cuda": 2**27}
"""Of a projected block: its columns times width times paths; a few tensors of that size should fit in a
core's cache.
"""
PROJECTED_PATHS_PER_BLOCK = {"cpu": 2**7, "cuda": 2**17}
FUNCTION_NUMBERS_PER_BLOCK = {"cpu": 2**21, "cuda": 2**26}
FRACTIONAL_NUMBERS_PER_BLOCK = {"cpu": 2**23, "cuda": 2**28}
"""A fractional path is held whole: so many increments a block, of at least one path."""
MOST_FRACTIONAL_NUMBERS = 2**26
"""The most increments of one path; more are refused."""


@dataclass(frozen=True)
class Task:
    """A network at several depths and a limit, on the same noise: all that a block of paths needs to know.

    `h0` (n, d) holds the initial states that path p takes in turn (row p mod n), or None for standard
    normal ones; if it is the `same_network`, every path takes all of them.
    """

    network: ResidualNetwork
    limit: Limit
    independent: bool
    grid: Grid
    norm: str
    p: float
    paths: int
    seed: int
    h0: Tensor | None
    device: torch.device
    dtype: torch.dtype
    tolerance: float
    block_size: int
    coupling: str
    same_network: bool = False
    input_size: int | None = None
    narrowed: bool = False

    @property
    def blocks(self) -> int:
        return -(-self.paths // self.block_size)

    @property
    def shares_increments(self) -> bool:
        """Whether the limit is an SDE driven by the network's own increments."""
        return (
            isinstance(self.limit, SDELimit) and _motions(self.network) is not None and not self.independent
        )

    @property
    def shares_noise(self) -> bool:
        """Whether the limit reads the very Itô process that the network's layers are made of."""
        own = [law.noise for law in self.network.weights if isinstance(law, TrendAndNoise)]
        return (
            self.shares_increments and isinstance(self.limit, ItoCorrectedSDE) and own == [self.limit.noise]
        )

    @property
    def shares_path(self) -> bool:
        """Whether the limit is a Young equation driven by the network's own fractional path."""
        return _shares_path(self.network, self.limit) and not self.independent

    @property
    def measures_reference(self) -> bool:
        """Whether the reference is solved twice: no theory says how its error enters where it is not the
        network's own scheme.
        """
        return (self.shares_increments and not self.network.recursion.is_euler) or self.shares_path

    @property
    def reference_surplus(self) -> float:
        """What a measured reference's own squared error adds to the extrapolation of squares: 0 for
        Euler-Maruyama.
        """
        return extrapolation_surplus(self.limit.hurst) if isinstance(self.limit, NeuralYoung) else 0.0

    @property
    def shares_functions(self) -> bool:
        """Whether the limit reads the network's own sampled functions."""
        own = tuple(function for law in self.network.weights for function in law.functions)
        if isinstance(self.limit, ItoCorrectedSDE):
            return (self.limit.trend,) == own and not self.independent
        return isinstance(self.limit, ODELimit) and self.limit.functions == own and not self.independent

    def starts(self, block: int) -> list[Tensor]:
        """Return h_0 of one block, (P, d), once for each input that goes through a path's network."""
        if self.h0 is None or not self.same_network:
            return [self.initial_states(block)]
        count = min(self.block_size, self.paths - block * self.block_size)
        return [row.to(self.device, self.dtype).repeat(count, 1) for row in self.h0]

    def initial_states(self, block: int) -> Tensor:
        """Return h_0 of one block, (P, d), where every path has an input of its own."""
        first = block * self.block_size
        count = min(self.block_size, self.paths - first)
        if self.h0 is not None:
            return self.h0[torch.arange(first, first + count) % len(self.h0)].to(self.device, self.dtype)
        states = torch.empty(count, self.network.width, dtype=self.dtype, device=self.device)
        return states.normal_(generator=generator(self.seed, Purpose.INPUTS, block, device=self.device))


def make_task(
    network: ResidualNetwork,
    limit: object,
    x: Tensor | None,
    *,
    depths: tuple[int, ...],
    reference: int | None,
    norm: str,
    p: float,
    paths: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype | None,
    tolerance: float | None,
    coupling: str = "auto",
    same_network: bool = False,
) -> Task:
    """Return the task for checked arguments; the limit is tried once on a few states.

    Raises TypeError or ValueError where the limit is not usable or its noise cannot be the network's.
    """
    independent = isinstance(limit, Independent)
    given = limit.limit if isinstance(limit, Independent) else limit
    wide = _natural_dtype(network, None)
    narrowed = dtype is None and wide == torch.float64 and _natural_dtype(network, given) == torch.float32
    if dtype is None:
        dtype = _natural_dtype(network, given)
    h0 = None if x is None else initial_layer(x, network.width, seed)
    probe = torch.zeros(2, network.width) if h0 is None else h0[:2]
    if not bool(torch.isfinite(probe.to(dtype)).all()) or (
        h0 is not None and not bool(torch.isfinite(h0.to(dtype)).all())
    ):
        raise ValueError(
            f"x holds numbers too large for {str(dtype).removeprefix('torch.')}; scale x, or pass"
            " dtype='float64'."
        )
    drives = _motions(network)
    driven = drives if not independent else None
    equation = read_limit(given, probe.to(device, dtype), driven)
    if isinstance(equation, LawLimit):
        own = network.regime().convergence == "in law"
        raise (
            in_law_only(network)
            if own
            else ValueError(
                f"limit is known in law only ({equation.equation}), so it shares no noise with a network;"
                " compare_laws takes it."
            )
        )
    if (
        isinstance(equation, ODELimit)
        and independent
        and all(isinstance(law, Trend) for law in equation.functions)
    ):
        why = ", since its weights are deterministic" if equation.functions else ""
        raise ValueError(
            f"Independent needs a limit with noise of its own to redraw; {equation.equation} has none{why}."
        )
    if isinstance(equation, ODELimit) and reference is not None:
        raise ValueError(
            f"reference= is the grid of an SDE limit, but {equation.equation} is an ODE; use tolerance="
            " instead."
        )
    if isinstance(equation, (SDELimit, NeuralYoung)) and tolerance is not None:
        kind = "an SDE" if isinstance(equation, SDELimit) else "a Young equation"
        raise ValueError(
            f"tolerance= is for an ODE limit, but {equation.equation} is {kind}; use reference= instead."
        )
    if isinstance(equation, SDELimit) and not independent and _fractional(network):
        raise ValueError(
            f"limit {equation.equation} is driven by Brownian motions, but the network by"
            f" {_fractional(network)[0].describe()}, whose increments are none: they cannot share their"
            " noise. Take network.limit(), or Independent(limit) to measure the distance to a limit with"
            " noise of its own."
        )
    if _fractional(network) or isinstance(equation, NeuralYoung):
        grid = _uniform_grid(network, equation, depths, reference, norm, independent)
    else:
        grid = _union_grid(network, equation, depths, reference, norm, independent)
    inputs = len(h0) if same_network and h0 is not None else 1
    used = _coupling(coupling, network, equation, independent, inputs)
    task = Task(
        network=network,
        limit=equation,
        independent=independent,
        grid=grid,
        norm=norm,
        p=p,
        paths=paths,
        seed=seed,
        h0=h0,
        device=device,
        dtype=dtype,
        tolerance=tolerance if tolerance is not None else (1e-9 if dtype == torch.float64 else 1e-6),
        block_size=(
            _projected_block_size(network, equation, device, grid, inputs)
            if used == "projected"
            else _block_size(network, equation, device, grid, independent)
        ),
        coupling=used,
        same_network=same_network,
        input_size=None if x is None else x.shape[1],
        narrowed=narrowed,
    )
    if task.shares_increments and isinstance(equation, SDELimit):
        size = equation.noise_size(probe.to(device, dtype))
        if size is not None and size != drives:
            advice = (
                f"the limit is of width {equation.width}, the network of width {network.width}: take"
                " network.limit()"
                if isinstance(equation, (NeuralSDE, ItoCorrectedSDE))
                else f"make g return (paths, {network.width}, {drives})"
            )
            raise ValueError(
                f"limit has {size} Brownian motions, but the network is driven by {drives}"
                f" ({_motions_in_words(network)}), so they cannot share their noise; {advice}."
            )
    if (
        isinstance(equation, (NeuralSDE, NeuralODE, LinearODE, ItoCorrectedSDE, NeuralYoung))
        and equation.width != network.width
    ):
        raise ValueError(
            f"limit has width {equation.width}, but the network has width {network.width}; make them the"
            " same."
        )
    return task


def _union_grid(
    network: ResidualNetwork,
    limit: Limit,
    depths: tuple[int, ...],
    reference: int | None,
    norm: str,
    independent: bool,
) -> Grid:
    extra: tuple[int, ...] = ()
    if isinstance(limit, SDELimit) or norm == "sup-continuous":
        extra = (reference if reference is not None else (4 if norm == "sup-continuous" else 2) * depths[-1],)
    # Where the reference's error is measured, not known, a second solution has steps of half the size.
    shared = isinstance(limit, SDELimit) and _motions(network) is not None and not independent
    twice = shared and not network.recursion.is_euler
    if twice and (reference is not None or norm == "sup-continuous"):
        extra = (max(extra[0] // 2, depths[-1]),)
    return Grid(depths, extra, halved=twice)


def _uniform_grid(
    network: ResidualNetwork,
    limit: Limit,
    depths: tuple[int, ...],
    reference: int | None,
    norm: str,
    independent: bool,
) -> Grid:
    """Return a grid of equal steps, on which a fractional path can be drawn; raise ValueError where one
    path is too large.
    """
    twice = _shares_path(network, limit) and not independent
    least = (
        reference
        if reference is not None
        else (8 if twice else 4 if norm == "sup-continuous" else 2) * depths[-1]
    )
    if isinstance(limit, ODELimit) and norm != "sup-continuous":
        least = depths[-1]
    halvings = 2 if twice else 1
    size = halvings * uniform_size(depths, -(-least // halvings))
    held = _fractional_paths(network, limit, independent) * network.width**2
    if size * held > MOST_FRACTIONAL_NUMBERS:
        doubling = [depths[0]]
        while 2 * doubling[-1] <= depths[-1] and 16 * doubling[-1] <= MOST_FRACTIONAL_NUMBERS // held:
            doubling.append(2 * doubling[-1])
        fits = MOST_FRACTIONAL_NUMBERS // held
        advice = (
            f"Doubling depths need fewer, such as {doubling}."
            if len(doubling) > 1 and 8 * doubling[-1] <= fits
            else (
                f"At width {network.width} about {fits} steps fit: take shallower networks, or narrower ones."
            )
        )
        raise ValueError(
            f"depths {list(depths)} need one grid of {size} equal steps, a multiple of their least common"
            f" multiple {math.lcm(*depths)}, on which a fractional path of {held} numbers a step is drawn"
            f" whole; that is more than {MOST_FRACTIONAL_NUMBERS} numbers a path. {advice}"
        )
    return Grid(depths, (size // halvings,), halved=twice)


def initial_layer(x: Tensor, width: int, seed: int) -> Tensor:
    """Return h_0 = A x as (n, d): x itself where it has d columns, else A drawn once, N(0, 1/n_in) per
    entry.
    """
    if x.shape[1] == width:
        return x
    matrix = torch.empty(width, x.shape[1], dtype=torch.float64)
    matrix.normal_(0.0, x.shape[1] ** -0.5, generator=generator(seed, Purpose.INPUT_LAYER))
    return (x.to("cpu", torch.float64) @ matrix.T).to(x.dtype)


def is_random(network: ResidualNetwork) -> bool:
    """Return whether two networks of the same specification differ."""
    drawn = any(law.motions(network.width) or isinstance(law, FractionalBrownian) for law in network.weights)
    return drawn or not all(
        isinstance(function, Trend) for law in network.weights for function in law.functions
    )


def _fractional(network: ResidualNetwork) -> list[FractionalBrownian]:
    return [law for law in network.weights if isinstance(law, FractionalBrownian)]


def _shares_path(network: ResidualNetwork, limit: Limit) -> bool:
    return isinstance(limit, NeuralYoung) and limit.weights == network.weights


def _fractional_paths(network: ResidualNetwork, limit: Limit, independent: bool) -> int:
    """Return how many fractional paths are held: one a weight matrix, and the limit's own."""
    own = isinstance(limit, NeuralYoung) and (independent or not _shares_path(network, limit))
    return len(_fractional(network)) + int(own)


def _motions(network: ResidualNetwork) -> int | None:
    """Return how many Brownian motions drive the network; None where a weight has none, so that no SDE can
    share its noise.
    """
    each = [process.motions(network.width) for process in network.weights]
    return sum(each) if all(each) else None


def _motions_in_words(network: ResidualNetwork) -> str:
    width = network.width
    for law in network.weights:
        if isinstance(law, TrendAndNoise) and law.noise is not None:
            parts = [f"W^A's {width} x {width}, row by row"] if law.noise.A is not None else []
            parts += [f"W^b's {width}"] if law.noise.b is not None else []
            parts += (
                [f"the auxiliary diffusion's {law.noise.auxiliary.size}"]
                if law.noise.auxiliary is not None
                else []
            )
            return ", then ".join(parts)
    return f"{len(network.weights)} matrix of {width} x {width}, row by row"


def _natural_dtype(network: ResidualNetwork, limit: object) -> torch.dtype:
    """Return the dtype of a module's parameters; else float64 where errors may fall like 1/L; float32 for
    independent layers.
    """
    if isinstance(limit, torch.nn.Module):
        for parameter in limit.parameters():
            if parameter.dtype in (torch.float32, torch.float64):
                return parameter.dtype
    smooth = (
        any(process.functions or isinstance(process, FractionalBrownian) for process in network.weights)
        and network.regime().name != "sde"
    )
    return torch.float64 if smooth else torch.float32


def _coupling(asked: str, network: ResidualNetwork, limit: Limit, independent: bool, inputs: int) -> str:
    """Return the coupling to use; raise ValueError where the one asked for cannot be had."""
    shares = isinstance(limit, SDELimit) and not independent
    why = obstacle(network, limit, shares)
    if asked == "projected" and why is not None:
        raise ValueError(
            f"coupling='projected' draws products in place of matrices, but {why}; use 'pathwise', or 'auto'."
        )
    if asked == "auto":
        least = (
            LEAST_WIDTH
            if inputs == 1 and shares and why is None and is_plain(network, limit)
            else LEAST_WIDTH_IN_TORCH
        )
        return "projected" if why is None and network.width >= least * inputs**2 else "pathwise"
    return asked


def _projected_block_size(
    network: ResidualNetwork, limit: Limit, device: torch.device, grid: Grid, inputs: int
) -> int:
    columns = (len(grid.depths) + 1) * inputs
    fits = PROJECTED_NUMBERS_PER_BLOCK[device.type] // (columns * max(network.width, columns))
    by_functions = FUNCTION_NUMBERS_PER_BLOCK[device.type] // _numbers_of_functions(network, limit)
    most = min(fits, by_functions, PROJECTED_PATHS_PER_BLOCK[device.type])
    return 1 << (
        max(1, most).bit_length() - 1
    )  # a power of two: whole vector registers, and blocks that share out evenly


def _numbers_of_functions(network: ResidualNetwork, limit: Limit) -> int:
    """Return the most numbers that one path of a function of time holds, at least 1."""
    functions = [function for law in network.weights for function in law.functions]
    if isinstance(limit, ODELimit):
        functions += [law for law in limit.functions if law not in functions]
    return max((law.numbers_per_path(network.width) for law in functions), default=1)


def _block_size(
    network: ResidualNetwork, limit: Limit, device: torch.device, grid: Grid, independent: bool
) -> int:
    """Return how many paths fit in cache at once; it depends on the specification alone, never on workers
    or paths.
    """
    by_increments = NUMBERS_PER_BLOCK[device.type] // network.width**2
    by_functions = FUNCTION_NUMBERS_PER_BLOCK[device.type] // _numbers_of_functions(network, limit)
    if (fractional := _fractional_paths(network, limit, independent)) > 0:
        each = grid.size * network.width**2 * fractional
        return max(1, min(FRACTIONAL_NUMBERS_PER_BLOCK[device.type] // each, by_increments, by_functions))
    return max(4, min(by_increments, by_functions, 4096 if device.type == "cpu" else 2**17))
