"""The Young equation: the limit of res-1 with increments of fractional Brownian motion, H > 1/2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import FractionalBrownian, Layer, Path, Shape, WeightLaw
from deeplimit.driving.path import Chunk, CoarseSums
from deeplimit.equations.base import Limit, check_one_law
from deeplimit.equations.drive import Drive, Sharing
from deeplimit.equations.solvers import Solver
from deeplimit.layers import ModifiedRes1, Res1


def modified_order(hurst: float) -> float:
    """Return the modified Euler scheme's order: that of the second-order terms without their mean."""
    return min(2 * hurst - 0.5, 1.0)


def extrapolation_surplus(hurst: float) -> float:
    """Return the weight of d² in 2 e²_fine - e²_coarse + surplus d², the squared error at step size 0.

    e are distances to solutions by the modified scheme with steps of one length and twice that, d the
    distance of the two. For one half it is 0. For H near 1 both solutions are off by the same random variable
    times their step, and it is 2. Between, the covariances of the second-order terms give (2H - 1)(2^2r - 2),
    r the scheme's order, within 0.2. At eight steps per layer the exact covariances of independent entries
    give the shares 0.1, 0.19, 0.34, 0.41, 0.61, 0.91 of 2^2r - 2 at H = 0.55, 0.6, 0.7, 0.75, 0.8, 0.9.
    """
    return (2 * hurst - 1.0) * (math.pow(2.0, 2 * modified_order(hurst)) - 2.0)


@final
@dataclass(frozen=True)
class NeuralYoung(Limit):
    """The Young equation dH = (1/√d) dB σ(H), B a d × d fractional Brownian motion with H > 1/2.

    The integral is a limit of Riemann sums path by path (Young, 1936). It has the ordinary chain rule,
    without Itô correction. It is not a torchsde object, whose noise is Brownian. `solve` advances it along
    the increments of a path.

    Raises TypeError for other recursions or laws, ValueError for a Hurst index of at most 1/2.

    Examples:
        >>> import torch, deeplimit as dl
        >>> weights = dl.FractionalBrownian(0.7)
        >>> young = dl.res1(width=3, activation="tanh", weights=weights).limit()
        >>> path = weights.draw_increments(256, 3, 5, torch.Generator().manual_seed(0), torch.float64)
        >>> young.solve(torch.ones(5, 3, dtype=torch.float64), path).shape
        torch.Size([257, 5, 3])
    """

    recursion: Res1
    weights: tuple[FractionalBrownian, ...]
    width: int
    noise_scale: float = 1.0  # another factor of the noise, for limits wrong on purpose
    kind: ClassVar[str] = "a Young equation"
    scheme: ClassVar[str] = "modified Euler"
    citations: ClassVar[tuple[str, ...]] = ("hu2016",)
    needs_equal_steps: ClassVar[bool] = True
    has_schemes: ClassVar[bool] = True

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        if not isinstance(self.recursion, Res1):
            raise TypeError(
                f"recursion must be that of res1, Res1(activation); got {validation.named(self.recursion)}."
            )
        check_one_law(self.weights, FractionalBrownian, "(FractionalBrownian(0.7),)")
        validation.real(self.noise_scale, "noise_scale", hint="it multiplies the noise.")
        if self.hurst <= 0.5:
            raise ValueError(
                "weights must have a Hurst index above 1/2, where Young's integral exists; got"
                f" {self.hurst:g}."
            )

    @property
    def hurst(self) -> float:
        """The Hurst index of the driving path."""
        return float(self.weights[0].hurst)

    @cached_property
    def _step(self) -> ModifiedRes1:
        return ModifiedRes1(self.recursion.activation)

    @property
    def scale(self) -> float:
        """The factor of dB, 1/√d."""
        return self.noise_scale * self.weights[0].entry_scale((self.width, self.width))

    @property
    def is_random(self) -> bool:
        return True

    @property
    def extrapolation_surplus(self) -> float:
        return extrapolation_surplus(self.hurst)

    def sharing(self, laws: tuple[WeightLaw, ...], shapes: tuple[Shape, ...]) -> Sharing:
        return Sharing(path=self.weights == laws)

    def is_scheme(self, recursion: object) -> bool:
        """Return whether this recursion is the modified Euler scheme."""
        return recursion == self._step

    def held_per_step(self, sharing: Sharing) -> int:
        return 0 if sharing.path else self.width**2

    def order_over_all_times(self, rate: float | None) -> float | None:
        """Return the order in the sup over all times, in which a Young limit is as rough as its path."""
        return None if rate is None else min(rate, self.hurst)

    def solver(self, drive: Drive) -> Solver:
        if drive.sharing.path:
            return ModifiedEuler(self, drive, drive.paths[0], False)
        paths, shape = len(drive.state), (self.width, self.width)
        path = self.weights[0].path(shape, drive.grid, paths, drive.stream(0), drive.state.dtype)
        return ModifiedEuler(self, drive, path, True)

    @property
    def equation(self) -> str:
        return (
            f"dH = (1/√d) dB^{self.hurst:g} σ(H) (Young), σ = {self.recursion.activation.name}, d ="
            f" {self.width}"
        )

    def advance(self, h: Tensor, increment: Tensor, count: int) -> Tensor:
        """Return the states (P, d) one step of 1/count after `h` (P, d), for B's increments (P, d, d).

        The modified Euler scheme of Hu, Liu and Nualart (2016): h + dB σ(h)/√d + ½ count^-2H σ'(h) σ(h)/d.
        The last term is the mean of what Euler's scheme leaves out. Its order is 2H - 1/2 below H = 3/4 and 1
        above (at 3/4 with a factor √log), Euler's is 2H - 1.
        """
        layer = Layer(increment, count, self.hurst, self.scale)
        return h + self._step.residual(h, (layer,), self.hurst)

    def solve(self, h0: Tensor, increments: Tensor) -> Tensor:
        """Return the solution (N + 1, P, d) from `h0` (P, d) along increments (N, P, d, d) of B.

        Raises TypeError or ValueError for tensors of other kinds or shapes. That the increments are those
        of a fractional Brownian motion with this Hurst index, unscaled as
        `FractionalBrownian.draw_increments` gives them, is NOT checked.
        """
        for name, value in (("h0", h0), ("increments", increments)):
            validation.real_tensor(value, name)
        if h0.ndim != 2 or h0.shape[1] != self.width:
            raise ValueError(f"h0 must have shape (P, {self.width}), got {tuple(h0.shape)}.")
        if increments.ndim != 4 or tuple(increments.shape[1:]) != (len(h0), self.width, self.width):
            raise ValueError(
                f"increments must have shape (N, {len(h0)}, {self.width}, {self.width}), got"
                f" {tuple(increments.shape)}."
            )
        states = [h0]
        for increment in increments:
            states.append(self.advance(states[-1], increment, len(increments)))
        return torch.stack(states)


class ModifiedEuler(Solver):
    """A Young equation by the modified Euler scheme, on the network's path or an independent one.

    With `twice`, a second solution on the same path takes steps twice as long; with `schemes`, further ones
    take each depth's layers.
    """

    def __init__(self, limit: NeuralYoung, drive: Drive, path: Path, own: bool) -> None:
        self.limit = limit
        self.state = drive.state
        self.path = path
        self.own = own
        self.count, self.grid_depths = drive.grid.size, drive.grid.depths
        coarse = (self.count // 2,) if drive.twice else ()
        self.depths = drive.grid.depths if drive.schemes else ()
        self.counts = tuple(sorted({*self.depths, *coarse}))
        self.slower = dict.fromkeys(self.counts, drive.state)
        self.twice = coarse
        self.pending: CoarseSums | None = None
        self._tell()

    def _tell(self) -> None:
        self.schemes = [self.slower[depth] for depth in self.depths]
        self.coarse = self.slower[self.twice[0]] if self.twice else None

    def begin(self, chunk: Chunk) -> None:
        every = dict(zip(self.grid_depths, chunk.ends.T, strict=True))
        self.ends = [every.get(count, chunk.coarse).tolist() for count in self.counts]

    def step(self, index: int) -> Tensor:
        if self.own:
            self.path.advance(index)
        increment = self.path.increment
        assert increment is not None  # a fractional path has one
        self.state = self.limit.advance(self.state, increment, self.count)
        if self.counts:
            self.pending = self.pending or CoarseSums(self.counts, increment)
            self.pending.add(increment)
            for j in reversed(range(len(self.counts))):
                if self.ends[j][index]:
                    count = self.counts[j]
                    self.slower[count] = self.limit.advance(self.slower[count], self.pending.take(j), count)
            self._tell()
        return self.state
