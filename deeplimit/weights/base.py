"""The one interface of weight processes, in its two kinds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.weights.facts import Dependence, Facts


@dataclass(frozen=True)
class Process(ABC):
    """The law of one d × d weight matrix as a function of time on [0, 1].

    A layer of a depth-L network is `L**layer_exponent * entry_scale(d) * X`, where X is what the path says
    of the layer: its increment over the layer, or its value at the layer's end.
    """

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What theory may use of this law."""

    def facts_at(self, width: int) -> Facts:
        """Return what theory may use of this law's d × d weights; a sampler is tested at that width."""
        return self.facts

    @property
    @abstractmethod
    def layer_exponent(self) -> float:
        """The power of the depth that turns what the path says of a layer into weights of one size at
        every depth.
        """

    @property
    @abstractmethod
    def critical_exponent(self) -> float:
        """The residual exponent between explosion and identity, which factories take if none is given."""

    def entry_scale(self, width: int) -> float:
        """Return the factor that turns unit variance per entry into the variance 1/d of [M] (A1)."""
        return 1.0 / math.sqrt(width)

    @property
    def functions(self) -> tuple[FunctionProcess, ...]:
        """The functions of time that a layer reads; empty where there are none."""
        return ()

    def motions(self, width: int) -> int:
        """Return the number of Brownian motions that drive a layer; 0 where none does."""
        return 0

    def reduced(self) -> Process:
        """Return the same law in its simplest form, which a network keeps."""
        return self

    def factors(self, width: int) -> Factors | None:
        """Return what surrounds the Brownian motion in a layer's noise; None where the noise is of another
        kind.
        """
        return None

    def check(self, width: int) -> None:
        """Raise where this process cannot be drawn at this width; called once, when the network is made."""

    @abstractmethod
    def draw_layers(
        self, depth: int, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> DrawnLayers:
        """Return all the layers of `paths` networks of one depth, on the generator's device."""

    @abstractmethod
    def describe(self) -> str:
        """Return a few words for a report."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Matrix noise whose increment is rows · dB · columns at all times, dB (d, d) with independent entries
    of variance dt.

    A factor is a number, a diagonal (d,) or a symmetric matrix (d, d), in float64.
    """

    rows: Tensor
    columns: Tensor

    def to(self, dtype: torch.dtype, device: torch.device) -> Factors:
        return Factors(self.rows.to(device, dtype), self.columns.to(device, dtype))

    @staticmethod
    def apply(factor: Tensor, vectors: Tensor) -> Tensor:
        """Return a factor times `vectors` (P, d)."""
        return vectors @ factor if factor.ndim == 2 else vectors * factor


@dataclass(frozen=True)
class DrawnLayers:
    """All the layers of a block of networks of depth L; what the recursion multiplies by is `scale` times
    these.
    """

    matrices: Tensor | None  # (L, P, d, d), or (L, 1, d, d) for all paths; None for 0
    biases: Tensor | None  # (L, P, d) or (L, 1, d), unscaled; None for 0
    scale: float


@dataclass(frozen=True)
class IncrementProcess(Process):
    """A process with independent increments, one unit of variance per entry and unit of time."""

    @property
    def layer_exponent(self) -> float:
        return 0.5

    @property
    def critical_exponent(self) -> float:
        return 0.5

    def motions(self, width: int) -> int:
        return width**2

    @property
    @abstractmethod
    def is_gaussian(self) -> bool:
        """Whether the path is a Brownian motion, so that a pathwise limit exists."""

    @property
    def is_symmetric(self) -> bool:
        """Whether X and -X are known to have the same law; without it weak errors may be of order 1/2
        instead of 1.
        """
        return self.is_gaussian

    @abstractmethod
    def draw(self, step: float, out: Tensor, generator: torch.Generator) -> None:
        """Fill `out` (..., d, d) with independent increments over times of length `step`."""

    def draw_layers(
        self, depth: int, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> DrawnLayers:
        layers = torch.empty(depth, paths, width, width, dtype=dtype, device=generator.device)
        self.draw(1.0, layers, generator)
        return DrawnLayers(layers, None, self.entry_scale(width))


class FunctionPath(ABC):
    """One block of sampled functions of time; deterministic ones have P = 1 and broadcast."""

    @abstractmethod
    def at(self, times: Tensor) -> Tensor:
        """Return the values at `times` (K,) as (K, P, d, d)."""

    def bias_at(self, times: Tensor) -> Tensor | None:
        """Return the biases at `times` (K,) as (K, P, d), or None where there is none."""
        return None


@dataclass(frozen=True)
class FunctionProcess(Process):
    """A process with paths that are Lipschitz functions of time ([M] (A5))."""

    @property
    def layer_exponent(self) -> float:
        return 0.0

    @property
    def critical_exponent(self) -> float:
        return 1.0

    @property
    def functions(self) -> tuple[FunctionProcess, ...]:
        return (self,)

    @property
    def facts(self) -> Facts:
        return Facts(
            Dependence.SMOOTH,
            holder=self.smoothness,
            natural_exponent=self.critical_exponent,
        )

    @property
    def smoothness(self) -> float:
        """The Hölder exponent of the paths in time, at most 1 (Lipschitz); it bounds the order of any
        limit.
        """
        return 1.0

    @abstractmethod
    def sample(
        self, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device
    ) -> FunctionPath:
        """Draw the functions of one block of `paths` paths."""

    @abstractmethod
    def numbers_per_path(self, width: int) -> int:
        """Return how many numbers one path holds in memory; it sizes the blocks."""

    def draw_layers(
        self, depth: int, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> DrawnLayers:
        device = torch.device(generator.device)
        path = self.sample(width, paths, generator, dtype, device)
        ends = torch.arange(1, depth + 1, dtype=torch.float64, device=device) / depth
        return DrawnLayers(path.at(ends), path.bias_at(ends), self.entry_scale(width))
