"""One draw of a comparison of laws: the network's states at every depth, and the limit's independent draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from deeplimit.common import axes as drawing, validation
from deeplimit.common.report import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True, eq=False)
class OneDraw:
    """One draw of each law, from one start: F features of m depths. The draws are independent of each other.

    So a network and its limit have no distance here: what entered the tests are `features`.

    Attributes:
        index: number of the draw.
        depths: numbers of layers (m,).
        states: by depth, h_0 … h_L (L + 1, *state_shape).
        limit_state: the limit at time 1 (*state_shape).
        names: names of the features (F,).
        features, limit_features: the numbers that are tested, of the network (m, F) and of the limit (F,).
    """

    index: int
    depths: tuple[int, ...]
    states: dict[int, np.ndarray]
    limit_state: np.ndarray
    names: tuple[str, ...]
    features: np.ndarray
    limit_features: np.ndarray

    def __str__(self) -> str:
        rows = np.vstack([self.features, self.limit_features]).T
        columns = [Column(name, row, ".4f") for name, row in zip(self.names, rows, strict=True)]
        table = Table((Column("depth", [*map(str, self.depths), "limit"]), *columns))
        return "\n".join([f"draw {self.index}", str(table)])

    def plot(self, ax: Axes | str | None = None, coordinate: int = 0) -> Axes:
        """Draw one coordinate of the network at every depth against time, and the limit's at time 1.

        Args:
            ax: Axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
            coordinate: Number of the coordinate, in the flattened state.

        Raises ValueError for a coordinate that states do not have.
        """
        place = validation.integer(coordinate, "coordinate", minimum=0, maximum=self.limit_state.size - 1)
        return drawing.plot(lambda axes: self._draw(axes, place), ax)

    def _draw(self, axes: Axes, place: int) -> None:
        for depth in self.depths:
            values = self.states[depth].reshape(depth + 1, -1)[:, place]
            times = np.arange(depth + 1) / depth
            axes.plot(times, values, drawstyle="steps-post", linewidth=1, label=f"depth {depth}")
        axes.plot([1.0], self.limit_state.reshape(-1)[[place]], "o", color="black", label="limit")
        axes.set_xlabel("time $k/L$")
        axes.set_ylabel(f"coordinate {place}")
        drawing.legend(axes)
