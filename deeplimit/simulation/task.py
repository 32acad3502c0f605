"""What one run consists of, as a specification that can be sent to another process or machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from deeplimit.common.grid import Grid
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import Dependence, Path
from deeplimit.equations import Limit, Sharing
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.simulation.statistics import Statistic

STATE, GRADIENT = QUANTITIES = ("state", "gradient")


@dataclass(frozen=True)
class Task:
    """A network at several depths and a limit, on the same noise: all that a block of paths needs to know.

    `h0` (n, *state_shape) holds the initial states that path p takes in turn (row p mod n), or None for
    standard normal ones. With `same_network`, every path takes all of them. With `splits`, the limit's own
    scheme runs on the layers of every depth too, and stands between the network and the limit. `quantity` is
    "state", or "gradient" for the gradients by the layers' states; their graphs are kept one at a time, of
    `segments` or fewer equal parts of the path. With `keeps_differences`, consecutive differences and
    distances of every path are kept: floors are held against them, and the order is measured from them where
    no theorem says it.
    """

    network: ResidualNetwork
    limit: Limit
    independent: bool
    grid: Grid
    statistic: Statistic
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
    splits: bool = False
    quantity: str = STATE
    segments: int = 1
    keeps_differences: bool = False

    @property
    def blocks(self) -> int:
        return -(-self.paths // self.block_size)

    @cached_property
    def sharing(self) -> Sharing:
        """What the limit reads of the network's path."""
        return sharing(self.network, self.limit, self.independent)

    @property
    def is_ode(self) -> bool:
        """Whether the limit is an ODE, solved to a tolerance."""
        return self.limit.setting == "tolerance"

    @property
    def measures_reference(self) -> bool:
        """Whether the reference is solved twice, since no theory says how its error enters."""
        return self.sharing.path

    @property
    def keeps_products(self) -> bool:
        """Whether products of two depths' differences are kept: those to an ODE keep their direction.

        Not so where independent layers enter otherwise than linearly: what σ makes of the sum of two draws is
        another thing than the sum of what it makes of each.
        """
        bends = not self.network.recursion.is_euler and any(
            law.facts.at(self.network.width).dependence is Dependence.INDEPENDENT
            for law in self.network.weights
        )
        return self.is_ode and self.coupling == "pathwise" and not bends

    def held(self, block: int) -> int:
        """Return the number of paths in a block; the last one may hold fewer than the others."""
        return min(self.block_size, self.paths - block * self.block_size)

    def starts(self, block: int) -> list[Tensor]:
        """Return h_0 of one block, (P, *state_shape), once for each input through a path's network."""
        if self.h0 is None or not self.same_network:
            return [self.initial_states(block)]
        count = self.held(block)
        repeats = [count, *[1] * (self.h0.ndim - 1)]
        return [row[None].to(self.device, self.dtype).repeat(repeats) for row in self.h0]

    def initial_states(self, block: int) -> Tensor:
        """Return h_0 of one block, (P, *state_shape), where every path has its input."""
        first, count = block * self.block_size, self.held(block)
        if self.h0 is not None:
            return self.h0[torch.arange(first, first + count) % len(self.h0)].to(self.device, self.dtype)
        states = torch.empty(count, *self.network.state_shape, dtype=self.dtype, device=self.device)
        return states.normal_(generator=generator(self.seed, Purpose.INPUTS, block, device=self.device))

    def network_paths(self, block: int, paths: int) -> tuple[Path, ...]:
        """Return one path for each weight of the network, each on a separate stream."""
        return tuple(
            law.path(
                shape,
                self.grid,
                paths,
                generator(self.seed, Purpose.NETWORK_WEIGHTS, block, index, self.device),
                self.dtype,
            )
            for index, (law, shape) in enumerate(self.network.laws_and_shapes)
        )

    def limit_stream(self, block: int, index: int) -> torch.Generator:
        """Return the limit's random stream of this number."""
        return generator(self.seed, Purpose.LIMIT_NOISE, block, index, self.device)


def sharing(network: ResidualNetwork, limit: Limit, independent: bool) -> Sharing:
    """Return what a limit reads of a network's path: nothing where it is to be independent."""
    return Sharing() if independent else limit.sharing(network.weights, network.weight_shapes)


def splits(network: ResidualNetwork, limit: Limit, shared: Sharing) -> bool:
    """Return whether the limit's scheme on a depth's layers is another recursion than the network.

    It is the network itself where layers are the independent increments of an Euler scheme, and the limit is
    theirs.
    """
    if limit.is_exact:
        return False
    return shared.increments and limit.has_schemes and not (is_scheme(network) and is_own(network, limit))


def is_scheme(network: ResidualNetwork) -> bool:
    """Return whether a network is the Euler scheme of its limit, since its layers are increments."""
    return network.recursion.is_euler and network.facts.dependence == Dependence.INDEPENDENT


def is_own(network: ResidualNetwork, limit: Limit) -> bool:
    """Return whether a limit is the one that the network's theorem names."""
    try:
        return bool(limit == network.limit())
    except ValueError:
        return False
