"""One network's signal and gradient, layer by layer: what entered a report as its last numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np
from torch import Tensor

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED
from deeplimit.common.report import Column, Table
from deeplimit.signal.scaled_state import Signal

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True, eq=False)
class OneSignal:
    """Sizes of signal and gradient after every layer of one network per depth, in natural logarithms.

    Arrays have an entry per layer, (L + 1,); of a phase diagram also a column per input, (L + 1, n). States
    themselves may be larger than any float, so only their logarithms are kept.

    Attributes:
        index: number of the draw.
        depths: numbers of layers.
        log_hidden_ratio, log_hidden_change: by depth, log |h_k|/|h_0| and log |h_k - h_0|/|h_0| for
            k = 0 … L.
        log_gradient_ratio, log_gradient_change: by depth, log |p_k|/|p_L| and log |p_k - p_L|/|p_L| for
            k = L … 0, in the order of the backward pass.
    """

    index: int
    depths: tuple[int, ...]
    log_hidden_ratio: dict[int, np.ndarray]
    log_hidden_change: dict[int, np.ndarray]
    log_gradient_ratio: dict[int, np.ndarray]
    log_gradient_change: dict[int, np.ndarray]

    def __str__(self) -> str:
        ends = {
            "ln |h_L|/|h_0|": self.log_hidden_ratio,
            "ln |h_L-h_0|/|h_0|": self.log_hidden_change,
            "ln |p_0|/|p_L|": self.log_gradient_ratio,
            "ln |p_0-p_L|/|p_L|": self.log_gradient_change,
        }
        columns = [
            Column(name, [float(np.mean(logs[depth][-1])) for depth in self.depths], ".4f")
            for name, logs in ends.items()
        ]
        return "\n".join([f"draw {self.index}", str(Table((Column("depth", self.depths), *columns)))])

    def plot(self, ax: Axes | str | None = None) -> Axes:
        """Draw the sizes of signal and gradient of the deepest network against the layer.

        `ax` is axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        """
        return drawing.plot(self._draw, ax)

    def _draw(self, axes: Axes) -> None:
        depth = self.depths[-1]
        layers = np.arange(depth + 1)
        signal, gradient = self.log_hidden_ratio[depth], self.log_gradient_ratio[depth]
        for k, column in enumerate(np.atleast_2d(signal.T)):
            axes.plot(layers, column, color=MEASURED, lw=1, label="signal" if k == 0 else None)
        for k, column in enumerate(np.atleast_2d(gradient.T)):
            axes.plot(layers[::-1], column, "--", color=FITTED, lw=1, label="gradient" if k == 0 else None)
        axes.set_xlabel("layer k")
        axes.set_ylabel("$\\ln(|h_k| / |h_0|)$, $\\ln(|p_k| / |p_L|)$")
        drawing.legend(axes)


@dataclass
class Watch:
    """Keeps the logarithms of the entries (P, n) numbered `rows` and `columns`, as a pass goes on."""

    rows: int
    columns: int | slice
    logs: list[list[np.ndarray]] = field(default_factory=lambda: [[], [], [], []])
    start: Tensor | None = None
    end: Tensor | None = None

    def begin(self, start: Tensor, end: Tensor) -> None:
        """Take the states (P, d, n) from which signal and gradient start."""
        self.start, self.end = start, end
        self.signal(Signal.starting_at(start))
        self.gradient(Signal.starting_at(end))

    def signal(self, signal: Signal) -> None:
        """Take in the signal after a layer."""
        self._keep(signal, self.start, self.logs[:2])

    def gradient(self, signal: Signal) -> None:
        """Take in the gradient before a layer."""
        self._keep(signal, self.end, self.logs[2:])

    def _keep(self, signal: Signal, origin: Tensor | None, kept: list[list[np.ndarray]]) -> None:
        assert origin is not None, "begin comes first"
        for logs, told in zip(kept, signal.logarithms(origin), strict=True):
            logs.append(told[self.rows, self.columns].cpu().numpy())


def one_signal(index: int, watches: dict[int, Watch]) -> OneSignal:
    """Return what was seen at every depth."""
    ratio, change, gradient_ratio, gradient_change = (
        {depth: np.stack(watch.logs[which]) for depth, watch in watches.items()} for which in range(4)
    )
    return OneSignal(index, tuple(watches), ratio, change, gradient_ratio, gradient_change)
