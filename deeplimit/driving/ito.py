"""Itô weights: the W^A and W^b of Hypothesis 2, with any covariance, a drift, and random volatility."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.global_state import by_default
from deeplimit.driving.auxiliary import AuxiliaryDiffusion
from deeplimit.driving.covariance import Kronecker, as_tensor, read_matrix, read_vector
from deeplimit.driving.covariance_rate import JointRate, Rate, SeparateRate, joint_rate
from deeplimit.driving.law import Channel, ChannelKind, Factors
from deeplimit.driving.trend import Trend

TIMES = (0.0, 0.1, 0.25, 0.4, 0.5, 0.65, 0.8, 0.9, 1.0)
"""Times at which covariances that change are read to see whether their directions have products."""


class QuadraticVariation(NamedTuple):
    """[W^A]_t (d, d, d, d), [W^b]_t (d, d) and [W^A, W^b]_t (d, d, d) in float64; None without such noise."""

    A: Tensor | None
    b: Tensor | None
    cross: Tensor | None


@dataclass(frozen=True)
class ItoStep:
    """What an Itô process did over one step: its increments, and its rates at the step's start.

    Attributes:
        time, step: The start and the length.
        brownian: The Brownian increments behind it (P, motions): those of W^A row by row, then W^b's, then
            the auxiliary's.
        matrix, bias: The increments of W^A (P, d, d) and W^b (P, d), drift included; None where there is
            none.
        rate: The covariance rate, for Q.
    """

    time: float
    step: float
    brownian: Tensor
    matrix: Tensor | None
    bias: Tensor | None
    rate: Rate


@final
@dataclass(frozen=True, eq=False)
class Ito(FinalWhereMarked):
    """Itô processes W^A (d, d) and W^b (d,), whose increments are noise in weights and biases (Cohen et al.
    2021, Hyp. 2).

    Args:
        A: Covariance of dW^A per unit of time; None for no W^A. A number is the variance of each entry.
            Others are entrywise variances (d, d), `Kronecker(R, C)`, or a full tensor (d, d, d, d) with
            entry ijkl = Cov(dW_ij, dW_kl)/dt.
        b: Covariance of dW^b: a number, entrywise variances (d,), or a covariance matrix (d, d). None for no
            W^b.
        cross: Covariance of the two, (d, d, d) with entry ijk = Cov(dW^A_ij, dW^b_k)/dt.
        drift: A `Trend(A, b)` with the drifts of W^A and W^b.
        auxiliary: An `AuxiliaryDiffusion` v that makes rates and drifts random.

    Each of A, b, cross may be a function of time t in [0, 1]. With `auxiliary` it is a function of (t, v), v
    (P, m), and returns one covariance per path, with a leading dimension P. So may the drift's functions.

    W is a symmetric square root of its covariance times Brownian motions B^A (d, d) and B^b (d,): dW^A = √A
    dB^A entry by entry, R^½ dB^A C^½, and so on. With `cross` it is the root of the joint covariance. On a
    grid, rates are constant over each step. The sampled W is then an Itô process whose rates are step
    functions, to which the theorems apply.

    Raises TypeError or ValueError for a covariance that is not finite, symmetric and positive semidefinite.
    Widths are checked when the network is made. Functions of time are checked then at 0, 1/2 and 1, and
    later at each step. NOT checked: that rates are bounded (Cohen et al. 2021, Section 4.1) and measurable.

    Examples:
        >>> import torch, deeplimit as dl
        >>> noise = dl.Ito(A=0.05, b=lambda t: 0.25 * t)
        >>> noise.Q(1.0, torch.ones(1, 4))
        tensor([[0.4500, 0.4500, 0.4500, 0.4500]], dtype=torch.float64)
        >>> noise.quadratic_variation(1.0, width=4).b.diagonal()
        tensor([0.1250, 0.1250, 0.1250, 0.1250], dtype=torch.float64)
    """

    A: Any = None
    b: Any = None
    cross: Any = None
    drift: Trend | None = None
    auxiliary: AuxiliaryDiffusion | None = None

    @by_default
    def __post_init__(self) -> None:
        if self.A is None and self.b is None:
            raise ValueError(
                "Ito needs noise: give the covariance A of W^A, b of W^b, or both, such as Ito(A=0.05,"
                " b=0.25)."
            )
        if self.cross is not None and (self.A is None or self.b is None):
            raise ValueError("Ito's cross is the covariance of W^A and W^b, so A and b must both be given.")
        if self.drift is not None and not isinstance(self.drift, Trend):
            raise TypeError(
                f"Ito's drift must be a Trend(A, b) of functions of time, got {validation.named(self.drift)}."
            )
        if self.auxiliary is not None and not isinstance(self.auxiliary, AuxiliaryDiffusion):
            raise TypeError(
                f"Ito's auxiliary must be an AuxiliaryDiffusion, got {validation.named(self.auxiliary)}."
            )
        for name, read in (("A", read_matrix), ("b", read_vector), ("cross", None)):
            value = getattr(self, name)
            if isinstance(value, type):
                raise TypeError(
                    f"Ito's {name} is the class {value.__name__}; give an object, such as Kronecker(R, C)."
                )
            if value is None or callable(value):
                continue
            if read is None:
                as_tensor(value, f"Ito's {name}")
            else:
                read(value, f"Ito's {name}", self._width_of(name) or 1)
        if self.drift is not None and self.drift.b is not None and self.b is None:
            raise ValueError(
                "Ito's drift has a b, but there is no W^b: give its covariance too (b=0.0 for none)."
            )
        if self.drift is not None and self.A is None:
            raise ValueError(
                "Ito's drift has an A, but there is no W^A: give its covariance too (A=0.0 for none)."
            )

    @property
    def is_constant(self) -> bool:
        """Whether the covariance is the same at all times and on all paths."""
        return not any(callable(value) for value in (self.A, self.b, self.cross))

    @cached_property
    def is_additive(self) -> bool:
        """Whether no noise multiplies states: W^A is missing, or its covariance is the constant 0.

        Functions of time are not evaluated.
        """
        if self.A is None or callable(self.A):
            return self.A is None
        return read_matrix(self.A, "Ito's A", self._width_of("A") or 1).vanishes

    @cached_property
    def is_elliptic(self) -> bool | None:
        """Whether the covariance of all entries of W^A is nonsingular; None for functions of time.

        Functions of time are not evaluated.
        """
        if self.A is None or callable(self.A):
            return None if callable(self.A) else False
        return read_matrix(self.A, "Ito's A", self._width_of("A") or 1).is_definite

    def products_vanish(self, width: int) -> bool:
        """Return whether A_i A_j = 0 and A_i b_j = 0 for all directions that W^A and W^b move in.

        The iterated integrals of the noise then vanish, as those of additive noise do. Decided by two sums of
        draws at `TIMES` times: products are bilinear, so that those of two random directions vanish only
        where all do. A drift changes neither. False where rates are random.
        """
        if self.auxiliary is not None:
            return False
        noise = dataclasses.replace(self, drift=None)
        started = noise.start(width, 2, torch.Generator().manual_seed(0), torch.float64)
        times = (0.0,) if self.is_constant else TIMES
        steps = [started.step(time, 1.0) for time in times]
        matrices = [step.matrix for step in steps if step.matrix is not None]
        if not matrices:
            return True
        matrix = torch.stack(matrices).sum(dim=0)
        if not self.is_constant and not bool(matrix.any()):
            return False  # a function that is 0 where it was read may not be elsewhere
        products = [matrix @ matrix.flip(0), matrix @ matrix]
        sizes = [float(matrix.abs().max()) ** 2] * 2
        biases = [step.bias for step in steps if step.bias is not None]
        if biases:
            bias = torch.stack(biases).sum(dim=0)
            products.append(matrix @ torch.stack([bias, bias.flip(0)], dim=-1))
            sizes.append(float(matrix.abs().max() * bias.abs().max()))
        # Square roots of singular covariances leave 1e-8 where there should be 0.
        return all(float(p.abs().max()) <= 1e-7 * size for p, size in zip(products, sizes, strict=True))

    @property
    def isotropic(self) -> tuple[float, float] | None:
        """The variances of all entries of W^A and of W^b, where each is one number and nothing else acts."""
        parts = (self.A, 0.0 if self.b is None else self.b)
        if any(part is not None for part in (self.cross, self.drift, self.auxiliary)):
            return None
        a, b = (float(part) if isinstance(part, (int, float)) else None for part in parts)
        return None if a is None or b is None else (a, b)

    def channels(self, width: int) -> tuple[Channel, ...]:
        """Return the Brownian motions in their order: W^A's d x d, W^b's d, and the auxiliary diffusion's."""
        size = 0 if self.auxiliary is None else self.auxiliary.size
        parts = (("W^A", self.A, (width, width), self.factors(width)), ("W^b", self.b, (width,), None))
        return tuple(
            Channel(name, ChannelKind.BROWNIAN, shape, factors=factors, ito=self)
            for name, given, shape, factors in (*parts, ("auxiliary v", self.auxiliary, (size,), None))
            if given is not None
        )

    def factors(self, width: int) -> Factors | None:
        """Return the factors of W^A; None where it is missing, drifts, covaries with W^b or changes rates."""
        more = (self.cross, self.drift, self.auxiliary)
        if self.A is None or not self.is_constant or any(part is not None for part in more):
            return None
        return _factors(self, width)

    def motions(self, width: int) -> int:
        """Return the number of Brownian motions: W^A's d², W^b's d, and the auxiliary diffusion's own."""
        own = (width**2 if self.A is not None else 0) + (width if self.b is not None else 0)
        return own + (0 if self.auxiliary is None else self.auxiliary.size)

    def rate(self, time: float, width: int, v: Tensor | None = None) -> Rate:
        """Return the covariance rate at `time`, on the paths whose auxiliary diffusion is at `v` (P, m)."""

        def structure(name: str, read: Callable[..., Any]) -> Any:
            value = getattr(self, name)
            if not callable(value):
                return None if value is None else read(value, f"Ito's {name}", width, None)
            value = self._evaluated(f"Ito's {name}", value, time, v)
            return read(
                value,
                f"Ito's {name} at t = {time:.6g}",
                width,
                None if self.auxiliary is None or v is None else len(v),
            )

        matrix, vector = structure("A", read_matrix), structure("b", read_vector)
        if self.cross is None:
            return SeparateRate(width, matrix, vector)
        joint: JointRate = structure("cross", partial(joint_rate, matrix, vector))
        return joint

    def _evaluated(self, name: str, function: Callable[..., Any], time: float, v: Tensor | None) -> Any:
        """Return a function of t, or of (t, v) where there is an auxiliary diffusion, at `time`."""
        if self.auxiliary is None:
            return validation.evaluated(
                name, "t alone (of (t, v) with an auxiliary= diffusion)", function, time
            )
        if v is None:
            raise ValueError(
                f"{name} is random, driven by its auxiliary diffusion: give the diffusion's state v (P, m)."
            )
        return validation.evaluated(name, "(t, v), v (P, m) the auxiliary diffusion", function, time, v)

    def drift_at(
        self, time: float, width: int, v: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None] | None:
        """Return the drifts of W^A and W^b at `time`, (d, d) and (d,), or one per path; None if none."""
        if self.drift is None:
            return None

        def value(name: str, function: Callable[..., Tensor], *shape: int) -> Tensor:
            given = self._evaluated(f"the {name} of Ito's drift", function, time, v)
            random = [] if v is None else [(len(v), *shape)]
            return validation.finite_tensor(
                given, f"the {name} of Ito's drift at t = {time:.6g}", shape, *random
            )

        matrix = value("A", self.drift.A, width, width)
        return matrix, None if self.drift.b is None else value("b", self.drift.b, width)

    def drift_at_paths(
        self, time: float, v: Tensor | None, like: Tensor
    ) -> tuple[Tensor, Tensor | None] | None:
        """Return the drifts as (1 or P, d, d) and (1 or P, d), in the dtype and on the device of `like`."""
        if (drift := self.drift_at(time, like.shape[-1], v)) is None:
            return None
        matrix, bias = drift
        matrix = matrix if matrix.ndim == 3 else matrix[None]
        return matrix.to(like), None if bias is None else (bias if bias.ndim == 2 else bias[None]).to(like)

    @by_default
    def Q(self, t: float, x: Tensor, v: Tensor | None = None) -> Tensor:
        """Return Q(t, x) (P, d): Σ_jk x_j x_k Σ^A_ijik + Σ^b_ii (Cohen et al. 2021, (12)), plus 2 Σ_j x_j
        Σ^cross_iji.

        The last term is not in the paper's (12), and vanishes where `cross` is not given.
        """
        time = _unit(t)
        states = validation.real_tensor(x, "x").double().cpu()
        if states.ndim != 2 or states.numel() == 0:
            raise ValueError(
                f"x must be states (P, d), got shape {tuple(states.shape)}; x[None] makes one state a batch."
            )
        validation.finite_tensor(states, "x", tuple(states.shape))
        if v is not None:
            if self.auxiliary is None:
                raise ValueError(
                    "v is the state of an auxiliary diffusion, and this noise has none; leave it out."
                )
            validation.finite_tensor(v, "v", (len(states), self.auxiliary.size))
        return self.rate(time, states.shape[1], v).quadratic(states)

    @by_default
    def quadratic_variation(self, t: float = 1.0, width: int | None = None) -> QuadraticVariation:
        """Return dense [W^A]_t (d, d, d, d), [W^b]_t (d, d) and [W^A, W^b]_t (d, d, d), in float64.

        `width` is needed where no covariance says it (numbers). Functions of time are integrated by
        Gauss-Legendre quadrature on 32 panels. Raises ValueError for random covariances, whose quadratic
        variation differs from path to path.
        """
        time = _unit(t)
        if self.auxiliary is not None:
            raise ValueError(
                "the covariance is random, so its quadratic variation differs from path to path; Q(t, x, v)"
                " gives its rate."
            )
        d = validation.integer(width, "width", minimum=1) if width is not None else self._width()
        nodes, weights = np.polynomial.legendre.leggauss(1 if self.is_constant else 8)
        panels = 1 if self.is_constant else 32
        total: list[Tensor | None] = [None, None, None]
        for panel in range(panels):
            for node, weight in zip(nodes, weights, strict=True):
                at = time * (panel + (float(node) + 1.0) / 2.0) / panels
                for index, part in enumerate(self.rate(at, d).dense()):
                    if part is not None:
                        share = part * (float(weight) / 2.0 * time / panels)
                        before = total[index]
                        total[index] = share if before is None else before + share
        return QuadraticVariation(*total)

    def _width(self) -> int:
        for name in ("A", "b", "cross"):
            if (width := self._width_of(name)) is not None:
                return width
        raise ValueError(
            "these covariances are numbers, which any width has; say which: quadratic_variation(t, width=4)."
        )

    def _width_of(self, name: str) -> int | None:
        """Return the width that a covariance has by its shape; None for a number, or for none."""
        value = getattr(self, name)
        if callable(value):
            value = self._evaluated(f"Ito's {name}", value, 0.0, None)
        value = value.R if isinstance(value, Kronecker) else value
        shape = () if value is None else as_tensor(value, f"Ito's {name}").shape
        return int(shape[-1]) if shape else None

    def check(self, width: int) -> None:
        """Raise unless this noise can be drawn at this width; called once, when the network is made."""
        v = None
        if self.auxiliary is not None:
            v = self.auxiliary.check(self.motions(width) - self.auxiliary.size, width)
        for time in (0.0, 0.5, 1.0):
            if time == 0.0 or not self.is_constant:
                self.rate(time, width, v)
            self.drift_at(time, width, v)

    def start(self, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype) -> ItoPath:
        """Return one block of paths at time 0, to be drawn from `generator` step by step."""
        return ItoPath(self, width, paths, generator, dtype)

    def describe(self) -> str:
        """Return a few words for a report."""
        kinds = [name for name, value in (("W^A", self.A), ("W^b", self.b)) if value is not None]
        more = [
            word
            for word, value in (("covarying", self.cross), ("with drift", self.drift))
            if value is not None
        ]
        if self.auxiliary is not None:
            more.append("of random volatility")
        return f"Itô noise {' and '.join(kinds)}{' ' if more else ''}{', '.join(more)}"


@lru_cache(maxsize=64)
def _factors(noise: Ito, width: int) -> Factors | None:
    """Return the factors of a constant W^A; the root of a full tensor takes long."""
    return read_matrix(noise.A, "Ito's A", width).factors()


def _unit(t: object) -> float:
    return validation.real(t, "t", minimum=0.0, maximum=1.0, hint="it is a time on [0, 1].")


class ItoPath:
    """One block of paths of an `Ito`, advanced step by step; it cannot be rewound."""

    def __init__(
        self, noise: Ito, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        self.noise = noise
        self.width = width
        self.paths = paths
        self.generator = generator
        self.dtype = dtype
        self.device = torch.device(generator.device)
        self.motions = noise.motions(width)
        self.v = None if noise.auxiliary is None else noise.auxiliary.initial(paths).to(self.device, dtype)
        self.constant = self._rate(0.0) if noise.is_constant else None

    def _rate(self, time: float) -> Rate:
        return self.noise.rate(time, self.width, self.v).to(self.dtype, self.device)

    def step(self, time: float, step: float) -> ItoStep:
        """Draw what happens between `time` and `time + step`."""
        brownian = torch.empty(self.paths, self.motions, dtype=self.dtype, device=self.device)
        brownian.normal_(0.0, math.sqrt(step), generator=self.generator)
        return self.move(time, step, brownian)

    def move(self, time: float, step: float, brownian: Tensor) -> ItoStep:
        """Advance over the step with given Brownian increments (P, motions)."""
        rate = self.constant if self.constant is not None else self._rate(time)
        matrix, bias = rate.spread(brownian)
        drift = None if matrix is None else self.noise.drift_at_paths(time, self.v, matrix)
        if drift is not None and matrix is not None:
            matrix = matrix + drift[0] * step
            if drift[1] is not None and bias is not None:
                bias = bias + drift[1] * step
        if self.v is not None and self.noise.auxiliary is not None:
            self.v = self.noise.auxiliary.advance(time, step, self.v, brownian)
        return ItoStep(time, step, brownian, matrix, bias, rate)
