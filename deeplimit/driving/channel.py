"""What a weight's path is made of: channels, by which a network and an equation are joined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from deeplimit.common import validation

FINITE_VARIANCE = 2.0
"""Moments that sums of independent increments need to tend to Brownian motion (Donsker)."""


class ChannelKind(StrEnum):
    """What a channel is; an equation can share it only if it reads this kind."""

    BROWNIAN = "Brownian motion"
    """Increments of Brownian motion, or what drives an Itô process."""
    INCREMENTS = "independent increments"
    """Sums of independent draws of another law; Brownian motion at infinite depth if they have a variance."""
    FRACTIONAL = "fractional Brownian motion"
    FUNCTION = "a function of time"
    RECORDED = "recorded weights"
    SEPARATE = "weights of its own at every depth"
    """Every depth draws its weights anew, as torch blocks do: two depths share no noise."""


@dataclass(frozen=True)
class Channel:
    """One part of what a weight's path is made of.

    Attributes:
        name: The weight, or the part of it, in a word.
        kind: What it is.
        shape: Shape of its value at one time, without the paths.
        moments: Increments have all moments up to this order: infinity for normal ones, 0 where not even a
            variance is known.
        response: What the layers add up to, as a multiple of the Brownian motion that drives them; 1 for
            independent layers, None where layers depend on each other in a way that is not stated.
        memory: Σ_{k ≥ 1} of the correlations of layers k apart; 0 for independent ones.

    Raises TypeError for a name that is no text and a kind that is no `ChannelKind`. NOT checked: that a path
    has these channels.
    """

    name: str
    kind: ChannelKind
    shape: tuple[int, ...]
    moments: float = math.inf
    response: float | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        validation.text(self.name, "name")
        validation.instance(self.kind, "kind", ChannelKind, "a ChannelKind, such as ChannelKind.BROWNIAN")

    @property
    def drives_brownian_motion(self) -> bool:
        """Whether its increments are those of a Brownian motion, or sum up to one at infinite depth."""
        finite = self.kind is ChannelKind.INCREMENTS and self.moments >= FINITE_VARIANCE
        return finite or self.kind is ChannelKind.BROWNIAN

    @property
    def is_function(self) -> bool:
        """Whether it is a function of time, the same at every depth, which the network alone may read."""
        return self.kind in (ChannelKind.FUNCTION, ChannelKind.RECORDED)

    def __str__(self) -> str:
        unknown = self.kind is ChannelKind.INCREMENTS and self.moments < FINITE_VARIANCE
        return f"{self.name}: {self.kind.value}" + ", of which no finite variance is stated" * unknown
