"""What passes and theory read of weight laws: functions of the facts and channels that a law states."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from deeplimit.driving.autoregressive import AR1
from deeplimit.driving.fractional import FractionalBrownian
from deeplimit.driving.hidden_units import units
from deeplimit.driving.independent import Brownian
from deeplimit.driving.ito import Ito
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Factors, FunctionLaw, Shape, WeightLaw

ONE = torch.ones((), dtype=torch.float64)
OTHER_NAMES = (AR1(0.0), FractionalBrownian(0.5))
"""Laws that are `Brownian()`, whose theorems and passes a network of them then has."""


def simplest(law: WeightLaw) -> WeightLaw:
    """Return the same law in its simplest form, which a network keeps."""
    return Brownian() if law in OTHER_NAMES else law


def channels_of(laws: Iterable[WeightLaw], shapes: Iterable[Shape]) -> tuple[Channel, ...]:
    """Return the channels of several weights, in order."""
    return tuple(channel for law, shape in zip(laws, shapes, strict=True) for channel in law.channels(shape))


def functions_of(channels: Iterable[Channel]) -> tuple[FunctionLaw, ...]:
    """Return the laws of the functions of time that layers read, in order."""
    return tuple(channel.function for channel in channels if channel.function is not None)


def noise_of(channels: Iterable[Channel]) -> Ito | None:
    """Return the Itô process whose increments layers hold; None where there is none, or more than one."""
    driven = [channel for channel in channels if channel.ito is not None]
    processes, parts = {id(channel.ito) for channel in driven}, {channel.name for channel in driven}
    # One process has each of its parts once; two weights of one law have two paths of it.
    return driven[0].ito if len(processes) == 1 and len(parts) == len(driven) else None


def motions_of(channels: Iterable[Channel]) -> int:
    """Return the number of Brownian motions, or of sums of increments, that drive layers."""
    return sum(channel.motions for channel in channels)


def motions_in_words(channels: Iterable[Channel]) -> str:
    """Return what these motions are, in their order."""
    return ", then ".join(
        f"{channel.name}'s {' x '.join(map(str, channel.shape)) or '1'}"
        + ", row by row" * (len(channel.shape) > 1)
        for channel in channels
        if channel.motions
    )


def is_standard(law: WeightLaw, shape: Shape) -> bool:
    """Return whether layers are increments of Brownian motions, one per entry: facts and channels say so."""
    facts = law.facts
    normal = facts.gaussian and facts.unit_variance and facts.independent_entries is True
    return (normal and facts.dependence is Dependence.INDEPENDENT) and all(
        (channel.kind, channel.shape) == (ChannelKind.BROWNIAN, shape) for channel in law.channels(shape)
    )


def factors_of(law: WeightLaw, shape: Shape) -> Factors | None:
    """Return what surrounds the Brownian matrix in a layer's noise; None for noise of another kind."""
    driving = [channel for channel in law.channels(shape) if channel.motions]
    stated = [channel.factors for channel in driving if channel.factors is not None]
    if not stated:
        return Factors(ONE, ONE) if is_standard(law, shape) else None
    # Of other noise, passes on products draw that of an Itô process's biases alone.
    known = all(channel.factors is not None or channel.ito is not None for channel in driving)
    return stated[0] if known and len(stated) == 1 else None


def critical_exponent(law: WeightLaw, shape: Shape = (1, 1)) -> float:
    """Return the residual exponent between explosion and identity; ValueError where none is known.

    Increments add up to a path of one size at the exponent that undoes the layers' own, whatever was found
    out about a sampler.
    """
    if (stated := law.facts.natural_exponent) is not None:
        return stated
    if all(channel.motions for channel in law.channels(shape)):
        return law.layer_exponent
    raise ValueError(
        f"exponent must be given: {law.describe()} have no natural one; 0.5 suits independent layers, 1.0"
        " functions of time, 0 weights that hold their scale already, as trained ones do."
    )


def check_depths(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> None:
    """Raise ValueError where a law has no layers of one of these depths."""
    for channel in law.channels(shape):
        if channel.depths and (missing := sorted(set(depths) - set(channel.depths))):
            raise ValueError(
                f"depths must be recorded ones, {[*channel.depths]}; got {missing}, where no weights are"
                " known."
            )
    if (ratio := law.facts.depth_to_width) is not None:
        for depth in depths:
            units(depth, ratio)
