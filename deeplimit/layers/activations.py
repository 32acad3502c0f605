"""Activations with what the theorems ask of them: Lipschitz constant, σ(0) and derivatives at 0.

A name looks up a tabulated activation. A callable is probed once at construction: a theorem that needs a
Lipschitz σ must refuse x**2 instead of overflowing later. Assumption 4.2 of Cohen et al. (2021) is decided by
`expansion`, from the table or, for a callable, by automatic differentiation at 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.validation import NoTheoremError

T = TypeVar("T")


@dataclass(frozen=True)
class Activation:
    """An elementwise activation σ with its values at zero.

    `lipschitz` is the global Lipschitz constant, or None where it is not known (a user's callable: growth
    is probed, the constant is not). `slope` is σ'(0), `curvature` σ''(0) and `third` σ'''(0); None where they
    do not exist or are not known.
    """

    name: str
    function: Callable[[Tensor], Tensor] = field(repr=False)
    lipschitz: float | None = None
    at_zero: float = 0.0
    slope: float | None = None
    curvature: float | None = None
    third: float | None = None

    @by_default
    def __post_init__(self) -> None:
        validation.text(self.name, "name")
        validation.function(self.function, "function", "a callable on tensors, elementwise")
        if self.lipschitz is not None:
            validation.real(self.lipschitz, "lipschitz", minimum=0.0)
        validation.real(self.at_zero, "at_zero", hint="it is σ(0).")
        for name in ("slope", "curvature", "third"):
            if getattr(self, name) is not None:
                validation.real(getattr(self, name), name, hint="it is a derivative of σ at 0, or None.")

    def __call__(self, x: Tensor) -> Tensor:
        return self.function(x)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A tabulated activation is the same object in every process: compiled loops know it by that."""
        return (resolve, (self.name,)) if _NAMED.get(self.name) is self else super().__reduce_ex__(protocol)

    @staticmethod
    def by_name(name: str) -> Activation | None:
        """Return the tabulated activation of this name, None for any other: how files keep activations."""
        return _NAMED.get(name)


@dataclass(frozen=True)
class Expansion:
    """σ(x) = slope·x + ½·curvature·x² + ⅙·third·x³ + o(x³) near 0: what Theorems 4.3 and 4.4 read of σ.

    Attributes:
        slope: σ'(0).
        curvature: σ''(0).
        third: σ'''(0); None where σ''' jumps at 0. It does not enter a limit, only the order.
        linear: Whether σ(x) = slope·x for every x that was probed.
    """

    slope: float
    curvature: float
    third: float | None
    linear: bool = False


def _identity(x: Tensor) -> Tensor:
    return x


def _scaled_softplus(x: Tensor) -> Tensor:
    """Return 2 (softplus(x) - log 2) = x + 2 log cosh(x/2) without cancellation at 0.

    Layers feed it numbers of size L^-1/2.
    """
    near = torch.log1p(2 * torch.sinh(x.clamp(-8.0, 8.0) / 4).square())
    far = x.abs() / 2 + torch.log1p(torch.exp(-x.abs())) - math.log(2.0)
    return x + 2 * torch.where(x.abs() < 8.0, near, far)


def _scaled_silu(x: Tensor) -> Tensor:
    return 2 * functional.silu(x)


def _scaled_gelu(x: Tensor) -> Tensor:
    return 2 * functional.gelu(x)


_ERF = 2 / math.sqrt(math.pi)
_NAMED = {
    entry.name: entry
    for entry in (
        Activation("identity", _identity, 1.0, 0.0, 1.0, 0.0, 0.0),
        Activation("tanh", torch.tanh, 1.0, 0.0, 1.0, 0.0, -2.0),
        Activation("sin", torch.sin, 1.0, 0.0, 1.0, 0.0, -1.0),
        Activation("erf", torch.erf, _ERF, 0.0, _ERF, 0.0, -2 * _ERF),
        Activation("relu", functional.relu, 1.0),
        Activation("leaky_relu", functional.leaky_relu, 1.0),
        Activation("elu", functional.elu, 1.0, 0.0, 1.0),
        Activation("softplus", functional.softplus, 1.0, math.log(2.0), 0.5, 0.25, 0.0),
        Activation("sigmoid", torch.sigmoid, 0.25, 0.5, 0.25, 0.0, -0.125),
        Activation("silu", functional.silu, 1.0998, 0.0, 0.5, 0.5, 0.0),
        Activation("gelu", functional.gelu, 1.1290, 0.0, 0.5, 2 / math.sqrt(2 * math.pi), 0.0),
        Activation("scaled_softplus", _scaled_softplus, 2.0, 0.0, 1.0, 0.5, 0.0),
        Activation("scaled_silu", _scaled_silu, 2 * 1.0998, 0.0, 1.0, 1.0, 0.0),
        Activation("scaled_gelu", _scaled_gelu, 2 * 1.1290, 0.0, 1.0, 4 / math.sqrt(2 * math.pi), 0.0),
    )
}
NAMES = tuple(sorted(_NAMED))
"""The names that `activation=` accepts."""


@by_default
def resolve(
    activation: str | Callable[[Tensor], Tensor] | Activation, *, lipschitz: bool = True
) -> Activation:
    """Return the Activation for a name or a callable.

    Raises TypeError if it is neither, or if the callable does not return a tensor of its input's shape and
    dtype; ValueError for an unknown name, a callable that is not finite, or, where a theorem asks for a
    Lipschitz σ (`lipschitz`), one that grows faster than linearly. Smoothness of a callable is NOT checked
    here; `expansion` does.
    """
    validation.flag(lipschitz, "lipschitz")
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        if activation not in _NAMED:
            raise ValueError(
                f"activation {activation!r} is not known; use one of {', '.join(NAMES)}, or pass a callable."
            )
        return _NAMED[activation]
    if isinstance(activation, type):
        raise TypeError(
            f"activation {activation.__name__} is a class; pass an object: {activation.__name__}()."
        )
    if not callable(activation):
        raise TypeError(
            f"activation must be a name ({', '.join(NAMES)}) or a callable on tensors; got"
            f" {validation.named(activation)}."
        )
    return _probe(activation, lipschitz)


def _probe(function: Callable[[Tensor], Tensor], lipschitz: bool) -> Activation:
    name = getattr(function, "__name__", type(function).__name__)
    probe = torch.tensor([[-1e6, -1e3, -1.0, 0.0], [1e6, 1e3, 1.0, 0.5]], dtype=torch.float64)
    given = probe.clone()
    try:
        with torch.no_grad():
            value = function(given)
    except Exception as error:  # a user's function may raise anything
        raise TypeError(
            f"activation {name!r} must map a tensor to a tensor of the same shape and dtype, elementwise; on"
            f" shape {tuple(probe.shape)}, {probe.dtype} it raised {type(error).__name__}: {error}."
        ) from error
    if not torch.equal(given, probe):
        raise ValueError(
            f"activation {name!r} works in place and changes the states it is given; use one that returns a"
            " new tensor."
        )
    if not isinstance(value, Tensor) or value.shape != probe.shape or value.dtype != probe.dtype:
        got = (
            f"shape {tuple(value.shape)}, {value.dtype}"
            if isinstance(value, Tensor)
            else type(value).__name__
        )
        raise TypeError(
            f"activation {name!r} must map a tensor to a tensor of the same shape and dtype, elementwise; for"
            f" shape {tuple(probe.shape)}, {probe.dtype} it returned {got}."
        )
    validation.real_tensor(value, f"what activation {name!r} returns")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(
            f"activation {name!r} must be finite, but is not at {probe[~torch.isfinite(value)].tolist()}."
        )
    try:
        with torch.no_grad():
            paths = torch.tensor([[0.3, -0.7, 2.0], [5.0, 0.2, -3.0]], dtype=torch.float64)
            together = function(paths.clone())
            single = torch.cat([function(path.clone()) for path in (paths[:1], paths[1:])])
            columns = torch.cat([function(paths[:, k : k + 1].clone()) for k in range(3)], dim=1)
    except Exception as error:  # a user's function may raise anything
        raise ValueError(
            f"activation {name!r} must act on every path alone; for a single one it raised"
            f" {type(error).__name__}: {error}."
        ) from error
    if single.shape != together.shape or not torch.allclose(single, together, equal_nan=True):
        raise ValueError(
            f"activation {name!r} must act on every path alone, but a path's value depends on the paths"
            " beside it, and so on how many are drawn at once."
        )
    if columns.shape != together.shape or not torch.allclose(columns, together, equal_nan=True):
        raise ValueError(
            f"activation {name!r} must act elementwise, but an entry's value depends on the entries"
            " beside it."
        )
    growth = (value[:, 0].abs() / (1e3 * (1.0 + value[:, 1].abs()))).max().item()
    if lipschitz and growth > 10.0:
        raise ValueError(
            f"activation {name!r} grows faster than linearly (from |x| = 1e3 to 1e6 it grows"
            f" {1e3 * growth:.3g}-fold), so it is not Lipschitz; Propositions 11 and 12 of Marion et al."
            " (2025) need a Lipschitz σ. Take one that grows at most linearly, such as 'tanh' or 'relu'."
        )
    return Activation(name, function, at_zero=value[0, 3].item())


def _kept(function: Callable[[Activation], T]) -> Callable[[str | Activation], T]:
    """Keep the answers for the last activations; take what `resolve` takes."""
    kept = lru_cache(maxsize=256)(function)

    @wraps(function)
    def checked(activation: str | Activation) -> T:
        return kept(resolve(activation, lipschitz=False))

    return checked


@dataclass(frozen=True)
class Slopes:
    """σ(x) = positive·x for x > 0 and negative·x for x < 0: a positively homogeneous activation."""

    positive: float
    negative: float


@by_default
@_kept
def slopes(activation: Activation) -> Slopes | None:
    """Return the two slopes of a positively homogeneous activation (ReLU, leaky ReLU, the identity), or None.

    Decided by σ(x)/x at a few x of either sign between 1e-4 and 1e6, for callables as for names.
    """
    sizes = torch.tensor([1.0, 1e-4, 0.037, 0.9, 2.3, 41.0, 1e3, 1e6], dtype=torch.float64)
    with torch.no_grad():
        positive, negative = activation(sizes) / sizes, activation(-sizes) / -sizes
    if activation.at_zero != 0.0 or any(
        float((side - side[0]).abs().max()) > 1e-9 for side in (positive, negative)
    ):
        return None
    return Slopes(float(positive[0]), float(negative[0]))


@by_default
@_kept
def is_bounded(activation: Activation) -> bool:
    """Return whether σ stops growing: |σ(±10⁶)| is at most twice |σ(±10³)|."""
    sizes = torch.tensor([1e3, -1e3, 1e6, -1e6], dtype=torch.float64)
    with torch.no_grad():
        near, far = activation(sizes).abs().reshape(2, 2)
    return bool((far <= 2.0 * near + 1e-9).all())


@by_default
@_kept
def is_odd(activation: Activation) -> bool:
    """Return whether σ(-x) = -σ(x) for a few x in [1e-3, 1e3]; σ of symmetric weights then has mean 0."""
    sizes = torch.tensor([0.0, 1e-3, 0.3, 1.0, 2.7, 30.0, 1e3], dtype=torch.float64)
    with torch.no_grad():
        return torch.allclose(activation(-sizes), -activation(sizes), rtol=1e-9, atol=1e-12)


@by_default
@_kept
def has_kink(activation: Activation) -> bool:
    """Return whether σ' jumps between -10 and 10, as it does for ReLU at 0.

    Decided by σ alone: difference quotients are compared on ever finer grids around the places where they
    change most. NOT found: kinks with a jump of σ' below 1e-3 of the largest slope, or beside a dozen cells
    of 0.005 in which σ' changes more, as those of tanh(30x) near 0.

    Examples:
        >>> from deeplimit.layers import activations
        >>> [activations.has_kink(activations.resolve(name)) for name in ("relu", "elu", "gelu")]
        [True, False, False]
    """
    grid = torch.linspace(-10.0, 10.0, 4002, dtype=torch.float64)  # 0 lies inside a cell
    with torch.no_grad():
        quotients = activation(grid).diff() / grid.diff()
        bends = quotients.diff().abs()
        places, spacing = grid[1:-1][bends.topk(12).indices], float(grid[1] - grid[0])
        while spacing > 1e-7:
            spacing /= 8
            finer = places[:, None] + spacing * torch.arange(-16.0, 17.0, dtype=torch.float64)
            bends = (activation(finer).diff(dim=1) / spacing).diff(dim=1).abs()
            largest, at = bends.max(dim=1)
            places = finer[:, 1:-1].gather(1, at[:, None])[:, 0]
    return bool(largest.max() > 1e-3 * quotients.abs().max())


PARTS = ((-20.0, 20.0, 8001), (20.0, 1000.0, 12250), (-1000.0, -20.0, 12250))
"""Where jumps are looked for: ends and number of cells, 0.005 and 0.08 long, so that both are cut down to the
same lengths. 0 lies inside a cell."""
FAR = 6
"""Slopes that grow are looked for from 10 to 10^FAR."""
COARSE, FINE = 1e-5, 2e-8
"""Lengths between which the largest slope of a Lipschitz σ no longer changes: √|x| has 16 times as much at
the finer one, x log|x| 1.5 times, torch's softplus, which jumps by 2e-9 at 20, 1.03 times."""
MORE, JUMPS = 1.2, 100.0
LASTING = 0.5
"""Slopes of a Lipschitz σ settle: in some decade of |x| from 100 to 10⁶ they rise by less than half of what
they rise in the first, or by less than half a per cent."""


@_kept
def steepening(activation: Activation) -> str | None:
    """Return where difference quotients of σ grow without bound, in words; None where none do.

    Quotients are taken on ever finer grids around the places in [-1000, 1000] where σ changes most, and at
    ever larger |x| up to 10⁶. NOT found: jumps below 1e-4 of the largest change, and slopes that grow by less
    than a hundredth per decade.

    Examples:
        >>> from deeplimit.layers import activations
        >>> root = activations.resolve(lambda x: x.abs().sqrt())
        >>> activations.steepening(root) is None, activations.steepening(activations.resolve("relu")) is None
        (False, True)
    """
    with torch.no_grad():
        at, ratio = max((_steepest(activation, *part) for part in PARTS), key=lambda found: found[1])
        if ratio > MORE:
            what = "it jumps" if ratio > JUMPS else "its slopes grow without bound"
            return f"{what} near x = {at if abs(at) > COARSE else 0.0:.4g}"
        slopes_by_decade = [_slope_around(activation, 10.0**k) for k in range(1, FAR + 1)]
    rises = [high - low for low, high in itertools.pairwise(slopes_by_decade[1:])]
    if min(rises) > LASTING * max(rises[0], 0.01 * slopes_by_decade[1]):
        near, far = slopes_by_decade[1], slopes_by_decade[-1]
        return f"its slopes grow from {near:.3g} at |x| = 100 to {far:.3g} at 10⁶"
    return None


def _steepest(activation: Activation, low: float, high: float, count: int) -> tuple[float, float]:
    """Return where the largest difference quotient grows most from COARSE to FINE, and how many-fold."""
    grid = torch.linspace(low, high, count + 1, dtype=torch.float64)
    values = activation(grid)
    quotients = values.diff() / grid.diff()
    bends = torch.nn.functional.pad(quotients.diff().abs(), (0, 1))
    cells = torch.cat([quotients.abs().topk(8).indices, bends.topk(24).indices, bends.topk(24).indices + 1])
    starts, length = grid[cells.clamp(max=len(grid) - 2)], float(grid[1] - grid[0])
    at_coarse, parts = None, 16
    while length > FINE * 4:
        # With the cells beside it: next to a cusp the largest change is in the neighbour.
        around = torch.arange(-parts, 2 * parts + 1, dtype=torch.float64)
        length /= parts
        finer = starts[:, None] + length * around
        changes = activation(finer).diff(dim=1).abs()
        largest, at = changes.max(dim=1)
        starts = finer[:, :-1].gather(1, at[:, None])[:, 0]
        if at_coarse is None and length <= COARSE * 4:
            at_coarse = largest / length
    assert at_coarse is not None  # COARSE > FINE
    size = float(values.abs().max())
    # Where σ hardly changes, its quotients at FINE are round-off.
    single = torch.equal(values, values.float().double())  # σ works in float32, or has few values
    visible = largest > 64 * torch.finfo(torch.float32 if single else torch.float64).eps * size
    ratios = torch.where(visible, (largest / length) / at_coarse.clamp(min=1e-300), 0.0)
    worst = int(ratios.argmax())
    return float(starts[worst]), float(ratios[worst])


def _slope_around(activation: Activation, size: float) -> float:
    """Return the largest difference quotient at a few hundred |x| between size/2 and size."""
    x = size * torch.linspace(0.5, 1.0, 401, dtype=torch.float64)
    step = 1e-6
    quotients = [(activation(side * x + step) - activation(side * x)) / step for side in (1.0, -1.0)]
    return float(torch.stack(quotients).abs().max())


_SLOPES: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    _identity: torch.ones_like,
    torch.tanh: lambda x: 1.0 - torch.tanh(x).square(),
    torch.sin: torch.cos,
    functional.relu: lambda x: (x > 0).to(x.dtype),
}
"""Slopes in closed form, where no graph is asked for: automatic differentiation takes ten times as long."""


def derivative(activation: Activation, x: Tensor) -> Tensor:
    """Return σ'(x), entry by entry, of x's shape; ReLU's at 0 is 0.

    It is a closed form or by automatic differentiation.

    It has a graph where x has one, so that it can be differentiated again.

    Raises TypeError for an x that is no dense tensor, RuntimeError where σ cannot be differentiated
    automatically. That σ has a derivative at x is NOT checked.

    Examples:
        >>> import torch
        >>> from deeplimit.layers import activations
        >>> activations.derivative(activations.resolve("relu"), torch.tensor([-1.0, 2.0]))
        tensor([0., 1.])
    """
    if not isinstance(activation, Activation):  # schemes come here at every step, with one
        activation = resolve(activation, lipschitz=False)
    if not validation.real_tensor(x, "x").is_floating_point():
        raise TypeError(f"x must be floating point, got {x.dtype}; x.float() converts.")
    tracked = x.requires_grad and torch.is_grad_enabled()
    if not tracked and (known := _SLOPES.get(activation.function)) is not None:
        return known(x)
    with torch.enable_grad():
        at = x if tracked else x.detach().requires_grad_(True)
        try:
            value = activation(at)
            if not value.requires_grad:  # a constant
                return torch.zeros_like(x)
            slope: Tensor = torch.autograd.grad(value.sum(), at, create_graph=tracked)[0]
        except (RecursionError, NotImplementedError):  # its own
            raise
        except RuntimeError as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise RuntimeError(
                f"activation {activation.name!r} could not be differentiated: {reason}. It must be made of"
                " torch's operations."
            ) from error
    return slope


ASSUMPTION = "Assumption 4.2 of Cohen et al. (2021)"
_SCALED = "scaled_softplus, scaled_silu, scaled_gelu"
_ORDERS = ("σ", "σ'", "σ''")


@by_default
@_kept
def expansion(activation: Activation) -> Expansion:
    """Return σ'(0), σ''(0) and σ'''(0), from the table or by automatic differentiation of a callable.

    Raises NoTheoremError, naming the assumption, unless σ(0) = 0, σ'(0) ≠ 0 and σ is twice continuously
    differentiable at 0 with a third derivative that stays bounded there. σ'(0) ≠ 1 is no obstacle: σ =
    σ'(0)·σ̃ with σ̃'(0) = 1. That σ is C³ away from 0 with a bounded third derivative is NOT checked. That it
    is linear is decided by its values at a few x of either sign between 1e-4 and 1e6.

    Examples:
        >>> from deeplimit.layers import activations
        >>> activations.expansion(activations.resolve("silu"))
        Expansion(slope=0.5, curvature=0.5, third=0.0, linear=False)
        >>> activations.expansion(activations.resolve(lambda x: x.sin() + 0.25 * x**2, lipschitz=False))
        Expansion(slope=1.0, curvature=0.5, third=-1.0, linear=False)
    """
    if activation == _NAMED.get(activation.name):
        slope, curvature, third = activation.slope, activation.curvature, activation.third
        if slope is None or curvature is None:
            order = "σ'(0)" if slope is None else "σ''(0)"
            raise NoTheoremError(
                f"{ASSUMPTION} needs {order}, and {activation.name} has none: it is not smooth at 0."
            )
    else:
        slope, curvature, third = _differentiate(activation)
    if abs(activation.at_zero) > 1e-12:
        raise NoTheoremError(
            f"{ASSUMPTION} needs σ(0) = 0, and {activation.name} has σ(0) = {activation.at_zero:.4g}, which"
            f" every layer adds again. Subtract it; {_SCALED} are centred, with slope 1."
        )
    if slope == 0.0:
        raise NoTheoremError(
            f"{ASSUMPTION} needs σ'(0) = 1, to which {activation.name} cannot be scaled: its σ'(0) is 0."
        )
    sides = slopes(activation)
    return Expansion(slope, curvature, third, sides is not None and sides.positive == sides.negative)


def _differentiate(activation: Activation) -> tuple[float, float, float | None]:
    """Return σ'(0), σ''(0) and σ'''(0) of a callable; None for the third where it jumps at 0.

    Raises NoTheoremError where one of the others jumps at 0, or the third blows up there.
    """
    steps = (1e-7, 1e-4, 1e-2)
    with torch.enable_grad():
        points = [0.0, *(sign * step for step in steps for sign in (-1.0, 1.0))]
        x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
        derivatives = []
        try:
            derivatives.append(activation.function(x))
            for _ in range(3):
                (following,) = torch.autograd.grad(derivatives[-1].sum(), x, create_graph=True)
                # A derivative that is constant has no graph; adding 0·x gives the next one something to
                # differentiate.
                derivatives.append(following + 0.0 * x)
        except (RecursionError, NotImplementedError):  # its own
            raise
        except RuntimeError as error:
            raise NoTheoremError(
                f"{ASSUMPTION} needs σ'(0) and σ''(0), but {activation.name} could not be differentiated:"
                f" {error}."
            ) from error
    values = torch.stack([derivative.detach() for derivative in derivatives])
    for order in range(3):
        at, left, right = values[order, :3].tolist()
        if _jumps(values[order]):
            raise NoTheoremError(
                f"{ASSUMPTION} needs a σ that is smooth at 0, but {activation.name} has {_ORDERS[order]} ="
                f" {left:.4g} at {-steps[0]:g}, {at:.4g} at 0 and {right:.4g} at {steps[0]:g}."
            )
    close, far = values[3, 3:5].abs().max().item(), values[3, 5:].abs().max().item()
    if not close <= 5.0 * far + 1.0:
        raise NoTheoremError(
            f"{ASSUMPTION} needs a bounded third derivative, but that of {activation.name} grows from"
            f" {far:.3g} at ±{steps[2]:g} to {close:.3g} at ±{steps[1]:g}."
        )
    slope, curvature, third = (_without_rounding(value) for value in values[1:, 0].tolist())
    return slope, curvature, None if _jumps(values[3]) else third


def _jumps(values: Tensor) -> bool:
    """Return whether a derivative jumps at 0, by its values at 0, ±1e-7 and ±1e-4 (the first five).

    The gap of a continuous one shrinks with the step; what is left of it a thousand times nearer is a jump.
    """
    at, left, right, *farther = values[:5].tolist()
    gap = max(abs(left - at), abs(right - at), abs(right - left))
    gap_farther = max(abs(value - at) for value in farther)
    return not (gap <= 1e-7 * (1.0 + abs(left) + abs(right)) or gap <= 0.1 * gap_farther)


def _without_rounding(derivative: float) -> float:
    """Return 0 for a derivative that is only round-off of sums that cancel, such as 1e-17."""
    return 0.0 if abs(derivative) < 1e-12 else derivative
