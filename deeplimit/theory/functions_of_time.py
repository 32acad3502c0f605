"""What is seen of functions of time that a user gives: jumps, expansion, and Euler's first term."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from deeplimit.driving import FunctionLaw, layers_of
from deeplimit.driving.path import values_of
from deeplimit.theory.theorem import Hypothesis

if TYPE_CHECKING:
    from deeplimit.theory.theorem import Network

T = TypeVar("T")


def _kept(function: Callable[..., T]) -> Callable[..., T]:
    """Keep the last answers; laws and networks that cannot be hashed are looked at each time."""
    cached = lru_cache(maxsize=256)(function)

    @wraps(function)
    def called(*arguments: object) -> T:
        try:
            hash(arguments)
        except TypeError:
            return function(*arguments)
        return cached(*arguments)

    return called


CONTINUOUS = "weights are as continuous in time as stated"
CELLS = 256
"""Cells of [0, 1] that are looked at first: a jump of a hundredth of the function's size stands out."""
FOLLOWED = 8
"""Cells with the largest changes, each of which is cut into QUARTERS again and again."""
QUARTERS, CUTS = 4, 10
"""Down to 1/CELLS/4^10 = 4e-9, where float64 still tells a change of size 4e-9 from round-off."""
NEARLY = 0.2
"""A Hölder exponent seen this much below the stated one refutes it: t log t, which is Hölder with every
exponent below 1, is seen as 0.86."""
VISIBLE = 1e3
"""Changes below this many units in the last place are round-off, and are not followed further."""


def as_stated(laws: tuple[FunctionLaw, ...], width: int) -> tuple[Hypothesis, ...]:
    """Return whether functions of time are as continuous as stated: Gaussian ones are, by their law.

    Others are probed: a jump, or a value that grows without bound, refutes any Hölder exponent.
    """
    found = []
    for law in laws:
        stated = law.facts.holder
        if law.facts.gaussian or stated is None:
            continue
        seen = _hoelder(law, width)
        if seen is not None and seen < stated - NEARLY:
            what = "jumps or grows without bound" if seen < NEARLY else f"changes like |t - s|^{seen:.2g}"
            why = f"a function of time, stated to be Hölder-{stated:g}, {what}."
            found.append(Hypothesis.fails(CONTINUOUS, why))
        else:
            why = f"that the given functions of time are Hölder with exponent {stated:g}, as stated."
            found.append(Hypothesis.unknown(CONTINUOUS, why))
    return tuple(dict.fromkeys(found))


@_kept
def _hoelder(law: FunctionLaw, width: int) -> float | None:
    """Return the power of its length by which the largest change falls; None where nothing is seen."""
    try:
        with torch.no_grad():
            return min(_falls(law, shape) for shape in ((width, width), (width,), ()) if _fits(law, shape))
    except (TypeError, ValueError):  # it cannot be read at any time, or has another shape
        return None


def _fits(law: FunctionLaw, shape: tuple[int, ...]) -> bool:
    try:
        law.check(shape)
        _values(law, shape, torch.tensor([0.5], dtype=torch.float64))
    except Exception:  # noqa: BLE001  # whatever a user's law does with a shape that is none of its network's
        return False
    return True


def _values(law: FunctionLaw, shape: tuple[int, ...], times: Tensor) -> Tensor:
    """Return A and b at these times, (times, numbers), of one draw."""
    generator = torch.Generator().manual_seed(0)
    function = law.sample(shape, 1, generator, torch.float64, torch.device("cpu"))
    parts = [part for part in values_of(function, times, shape, 1) if part is not None]
    return torch.cat([part.reshape(len(times), -1) for part in parts], dim=1)


def _falls(law: FunctionLaw, shape: tuple[int, ...]) -> float:
    # The first layer of a network of depth 2^30 reads the function at 2^-30.
    times = torch.linspace(0.0, 1.0, CELLS + 1, dtype=torch.float64).clamp(min=2.0**-30)
    values = _values(law, shape, times)
    size = float(values.abs().max())
    changes = values.diff(dim=0).abs().amax(dim=1)
    least = VISIBLE * torch.finfo(torch.float32).eps * size  # users' tensors are float32 as a rule
    worst = 1.0
    for cell in changes.topk(FOLLOWED).indices.tolist():
        start, length, first = float(times[cell]), 1.0 / CELLS, float(changes[cell])
        change, cuts = first, 0
        while change > least and cuts < CUTS:
            # With the cells beside it: next to a cusp the largest change is in the neighbour.
            around = torch.arange(-QUARTERS, 2 * QUARTERS + 1, dtype=torch.float64)
            within = start + length / QUARTERS * around
            try:
                inner = _values(law, shape, within.clamp(2.0**-30, 1.0)).diff(dim=0).abs().amax(dim=1)
            except ValueError:  # it was finite at all times before, and is not near this one
                return 0.0
            at = int(inner.argmax())
            change, start, length, cuts = float(inner[at]), float(within[at]), length / QUARTERS, cuts + 1
        if cuts >= 2 and change > 0:
            power = torch.log(torch.tensor(first / change)) / torch.log(torch.tensor(float(QUARTERS)))
            worst = min(worst, float(power) / cuts)
    return worst


@_kept
def is_one(law: FunctionLaw) -> bool:
    """Return whether a number that is a function of time is 1 at 0, 1 and at CELLS - 1 times in between.

    NOT checked: that it is 1 at all other times.
    """
    scale = law.entry_scale(())
    with torch.no_grad():  # most are not, and three times show it
        return all(
            bool(
                (scale * _values(law, (), torch.linspace(0.0, 1.0, count, dtype=torch.float64)) == 1.0).all()
            )
            for count in (3, CELLS + 1)
        )


TIMES = 33
"""Times at which a trend is read to see whether it expands."""


@_kept
def expands(law: FunctionLaw, width: int, slope: float) -> Hypothesis:
    """Return whether dH = σ'(0)(A_t H + b_t) dt expands, as far as its matrices at a few times tell.

    The symmetric part of A decides whether |H| can grow at all; of a constant A the real parts of its
    eigenvalues decide whether it does.
    """
    name, open_question = "the trend expands", "that the trend neither vanishes, contracts nor drives σ to 0."
    if not law.facts.deterministic:
        return Hypothesis.unknown(name, open_question)
    generator = torch.Generator().manual_seed(0)
    function = law.sample((width, width), 1, generator, torch.float64, torch.device("cpu"))
    times = torch.linspace(0.0, 1.0, TIMES, dtype=torch.float64)
    values, bias = values_of(function, times, (width, width), 1)
    matrices = slope * law.entry_scale((width, width)) * values[:, 0]
    size = float(matrices.abs().max())
    pushed = bias is not None and float(bias.abs().max()) > 0
    symmetric = torch.linalg.eigvalsh((matrices + matrices.mT) / 2)
    if float(symmetric.max()) <= 1e-9 * max(size, 1e-300) and not pushed:
        return Hypothesis.fails(
            name, "no state grows: the trend vanishes, turns states or contracts them, at every time."
        )
    if float((matrices - matrices[:1]).abs().max()) <= 1e-9 * size and not pushed:
        largest = float(torch.linalg.eigvals(matrices[0]).real.max())
        if largest > 1e-6 * size:
            return Hypothesis.holds(name, "the trend is constant, and expands.")
        if largest < -1e-6 * size:
            return Hypothesis.fails(name, "the trend is constant, and contracts every state in the end.")
    if not pushed and not _grows(matrices / max(size, 1e-300)):
        return Hypothesis.fails(name, "the flow of the trend, however strong, leaves no state larger.")
    return Hypothesis.unknown(name, open_question)


def _grows(matrices: Tensor) -> bool:
    """Whether the flow of N A_t, A at equal times (K, d, d), is larger at N = 32 than at its start."""
    middle = (matrices[1:] + matrices[:-1]) / (2 * (len(matrices) - 1))
    flow = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    for step in torch.linalg.matrix_exp(32.0 * middle):
        flow = step @ flow
    return bool(torch.linalg.matrix_norm(flow, 2) > 1.0 + 1e-3)


SEEN = (64, 128, 256)
"""Depths whose differences show the first term of Euler's error."""
STARTS = 3
STEEPER = 1.5
"""Differences that fall by this power or faster have no term of order 1: between 1 and 2 there is none."""
NOTHING = 1e-11
"""Differences of this relative size are round-off of 256 sums,"""
NOTHING_IN_FLOAT32 = 1e-7
"""and of this size where users' functions return float32: a first term as small is 1e-5/L at the most."""


@_kept
def first_term_vanishes(network: Network) -> bool:
    """Return whether a network of given functions of time has no error of order 1/L, seen at three depths.

    Layers are read at (k + 1)/L, so that the first term is ½(f·∇f - ∂f/∂t) along the flow. It can vanish on
    a curved path, and need not on a straight one (docs/theorems/proposition-12.md).
    """
    if not all(law.facts.deterministic for law in network.weights):
        return False
    ends, single = {}, True
    for depth in SEEN:
        generator = torch.Generator().manual_seed(0)
        h = torch.randn(STARTS, *network.recursion.state_shape(network.width), generator=generator).double()
        shapes = network.recursion.weight_shapes(network.width)
        laws = [
            layers_of(law, depth, shape, STARTS, generator, torch.float64)
            for law, shape in zip(network.weights, shapes, strict=True)
        ]
        with torch.no_grad():
            for layers in zip(*laws, strict=True):
                single = single and all(_is_single(layer.values) for layer in layers)
                h = network.recursion.advance(h, layers, network.exponent)
        ends[depth] = h
    coarse, fine = (float((ends[2 * depth] - ends[depth]).abs().max()) for depth in SEEN[:2])
    size = float(ends[SEEN[0]].abs().max())
    nothing = NOTHING_IN_FLOAT32 if single else NOTHING
    return bool(fine <= nothing * size or coarse >= 2.0**STEEPER * fine)


def _is_single(values: Tensor) -> bool:
    """Return whether numbers are those of float32, or few digits long."""
    return torch.equal(values, values.float().to(values.dtype))
