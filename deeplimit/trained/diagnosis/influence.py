"""Block influence and angles of layers, beside those of independent layers that all add as much.

The later of two equal layers turns a longer state, so it turns it less: with independent updates of mean
square v² on a state of mean square c, cos(h_k, h_l) = √((c + kv²)/(c + lv²)) for k < l, in the limit of
infinite width. The influence 1 − cos of one layer then falls like 1/(2(k + c/v²)), with no difference between
the layers. Scores for pruning are read against that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
import torch
from scipy.special import ndtri

from deeplimit.common.fields import Shape
from deeplimit.trained.diagnosis.stream_states import StreamStates

PerLayer = Annotated[np.ndarray, Shape("states-1")]
CONFIDENCE = 0.99
"""All layers of one stream differ from equal ones by chance with the probability that is left, in all."""


@final
@dataclass(frozen=True, eq=False)
class Influence:
    """How much each layer of one stream turns its state, averaged over states.

    A state is one token, or one pixel; each has the same weight in the average. The equal layers that it is
    compared with add its mean update to it.

    Attributes:
        angles: angles in units of π between the states before layers k and l (K + 1, K + 1).
        expected_angles: those of independent equal layers (K + 1, K + 1).
        names: name of each layer, by its first branch (K,).
        influence: 1 − cos of the states before and after each layer (K,).
        errors: standard errors of the influence over rows of the batch (K,); infinite for one row.
        expected: influence of independent equal layers from the first state on (K,).
        at_size: influence of one such layer on the state as large as it is before each layer (K,).
        spread: standard deviation of `at_size` over draws of the layer, at this width, for one state (K,).
        gain: mean square of an update divided by that of the first state: v²/c.
        growth: mean square of the last state divided by that of the first; 1 + K v²/c for independent layers,
            more for layers whose updates add up.
    """

    angles: Annotated[np.ndarray, Shape("states states")]
    expected_angles: Annotated[np.ndarray, Shape("states states")]
    names: Annotated[tuple[str, ...], Shape("states-1")]
    influence: PerLayer
    errors: PerLayer
    expected: PerLayer
    at_size: PerLayer
    spread: PerLayer
    gain: float
    growth: float

    @property
    def excess(self) -> np.ndarray:
        """Influence beyond that of an equal layer on the same state (K,)."""
        beyond: np.ndarray = self.influence - self.at_size
        return beyond

    @property
    def differs(self) -> np.ndarray:
        """Whether each layer differs from equal ones (K,), with a family-wise confidence of 99 %."""
        bound = ndtri(1 - (1 - CONFIDENCE) / 2 / len(self.names))
        allowed: np.ndarray = bound * np.hypot(self.errors, self.spread)
        outside: np.ndarray = np.abs(self.excess) > allowed
        return outside


def influence(stream: StreamStates) -> Influence:
    """Return the influence of every layer of one stream.

    Args:
        stream: states before every layer and after the last.

    States that are zero somewhere have no direction there, and are left out.

    Raises:
        ValueError: for states that are not finite, and where each of them is zero before some layer or after
            the last.

    Not checked: whether states are alike enough for one mean. Errors count rows of the batch as independent.

    Examples:
        >>> states = torch.randn(9, 2, 3, 64, generator=torch.Generator().manual_seed(0)).cumsum(0)
        >>> found = influence(StreamStates(tuple("abcdefgh"), states, 3))
        >>> bool(found.differs.any())
        False
    """
    states = stream.states.movedim(stream.channels, -1).double()
    depth, width = len(states) - 1, states.shape[-1]
    flat = states.reshape(depth + 1, -1, width).transpose(0, 1)  # (states, K + 1, d)
    row = torch.arange(states.shape[1]).repeat_interleave(len(flat) // states.shape[1])
    moving = (flat != 0).any(2).all(1)
    flat, row = flat[moving], row[moving]
    sizes = flat.norm(dim=2)
    if not len(flat) or not bool(torch.isfinite(sizes).all()):
        raise ValueError(
            f"the states of the stream that begins with {stream.names[0]} must be finite and some other than"
            " zero: look for weights that are not finite."
        )
    units = flat / sizes[:, :, None]
    cosines = (units @ units.transpose(1, 2)).clamp(-1.0, 1.0)  # (states, K + 1, K + 1)
    start = sizes[:, 0].square() / width
    update = (flat[:, 1:] - flat[:, :-1]).square().mean((1, 2))
    grown = start[:, None] + update[:, None] * torch.arange(depth + 1)
    ratio = grown[:, :, None] / grown[:, None, :]
    known = torch.minimum(ratio, 1 / ratio).sqrt()
    now = 1 - cosines.diagonal(1, 1, 2)
    rows = [now[row == number].mean(0) for number in sorted(set(row.tolist()))]
    scatter = torch.stack(rows).std(0) / math.sqrt(len(rows)) if len(rows) > 1 else now[0] + math.inf
    before = sizes[:, :-1].square() / width
    share = update[:, None] / (before + update[:, None])
    # To first order in 1/√d: the update's component along the state, and its size, both of a normal update.
    spread = share * (share + (1 - share) / 2).sqrt() / math.sqrt(width)
    return Influence(
        angles=_angles(cosines),
        expected_angles=_angles(known),
        names=stream.names,
        influence=now.mean(0).numpy(),
        errors=scatter.numpy(),
        expected=(1 - known.diagonal(1, 1, 2)).mean(0).numpy(),
        at_size=(1 - (1 - share).sqrt()).mean(0).numpy(),
        spread=spread.mean(0).numpy(),
        gain=float(update.mean() / start.mean()),
        growth=float(sizes[:, -1].square().sum() / sizes[:, 0].square().sum()),
    )


def _angles(cosines: torch.Tensor) -> np.ndarray:
    """Return mean angles in units of π; a state has no angle with itself, whatever round-off says."""
    angles = (cosines.arccos() / math.pi).mean(0)
    angles.fill_diagonal_(0.0)
    return angles.numpy()
