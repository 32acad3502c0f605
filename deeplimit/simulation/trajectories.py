"""The result of `simulate`: states of networks and limit over time, their summaries, pictures and files."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from deeplimit.common import axes as drawing, files, page, validation
from deeplimit.common.axes import FITTED, MEASURED
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import threads_per_operation
from deeplimit.common.report import Column, Table, lines, printable
from deeplimit.common.serialised import Origin
from deeplimit.common.specification import describe, digest
from deeplimit.simulation.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIX: Final = ".safetensors"
FORMAT: Final = "deeplimit-trajectories"
VERSION: Final = 2
WITHOUT_DIGEST: Final = 1
"""The version whose files have no digest over their content."""
MOST_LINES: Final = 12
"""More paths than this are drawn as a fan of quantiles, since their lines would cover each other."""
BANDS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


@final
@dataclass(frozen=True, eq=False)
class Trajectories:
    """States of a network at several depths, and of its limit, on the same driving paths.

    P paths, depth L, width d, n inputs. Where states are kept, `states` has them; else `summaries` has what
    is known of them.

    Attributes:
        what: the network, or the equation with its scheme, in words.
        limit: equation of the limit; None where there is none.
        depths: numbers of layers, or of steps.
        times: by depth, the times k/L of its states (L + 1,), or (K,) with `times=`.
        states: by depth, h_0 … h_L as (P, L + 1, *state_shape); (P, n, L + 1, *state_shape) with
            `same_network`. With `times=`, the states h_⌊tL⌋ (P, K, *state_shape).
        limit_times: times of the limit's states (N + 1,): those of all layers; None where there is none.
        limit_states: the limit at these times (P, N + 1, *state_shape).
        weights: by depth and name, the weights of every layer (P, L, *shape) as the network's formula has
            them, with `keep_weights`; biases are named V_b for a weight V.
        summaries: by depth, a `Summary` of all paths, with `keep="summaries"`.
        limit_summary: that of the limit.
        lost: by depth, the number of paths whose states are not all finite.
        limit_lost: that of the limit.
        paths: number of paths.
        seed: what everything random derives from.
        coupling: how the noise was drawn.
        inputs: where the paths start, in words.
        device: where it was computed.
        dtype: dtype of the states.
        seconds: how long it took.
        versions: versions of this library and of what it runs on.
        same_network: whether all inputs went through each path's network, so that states have n of them.
        unit: what `depths` counts: "depth" of a network, "steps" of an equation.
        remarks: what to know of the call: why there is no limit, or which inputs were not used.

    Examples:
        >>> import deeplimit as dl
        >>> t = dl.simulate(dl.res1(4, "tanh"), depths=[16, 64], paths=3)
        >>> error = (t.states[16] - t.limit_at(16)).norm(dim=2)
        >>> error.shape, t.summary(64).mean.shape, t.lost
        (torch.Size([3, 17]), (65, 4), {16: 0, 64: 0})
    """

    what: str
    limit: str | None
    depths: tuple[int, ...]
    times: Mapping[int, Tensor]
    states: Mapping[int, Tensor]
    limit_times: Tensor | None
    limit_states: Tensor | None
    weights: Mapping[int, Mapping[str, Tensor]]
    summaries: Mapping[int, Summary]
    limit_summary: Summary | None
    lost: Mapping[int, int]
    limit_lost: int
    paths: int
    seed: int
    coupling: str
    inputs: str
    device: str
    dtype: str
    seconds: float
    versions: Mapping[str, str]
    same_network: bool = False
    unit: str = "depth"
    remarks: tuple[str, ...] = ()
    _origin: Origin = field(default_factory=Origin)

    kind: ClassVar[str] = "simulate"

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("", self.what),
            ("limit", self.limit or "none"),
            ("noise", self.coupling),
            ("inputs", self.inputs),
            (
                "",
                f"{self.paths} paths, seed {self.seed}, {self.dtype} on {self.device}, {self.seconds:.1f} s",
            ),
        ]

    def __str__(self) -> str:
        told = [f"- {text}" for text in self.reservations]
        parts = [lines(self._facts()), str(self._table()).splitlines(), ["Caveats:", *told] if told else []]
        return printable("\n\n".join("\n".join(part) for part in parts if part))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        facts, told = page.facts(self._facts()), page.items(self.reservations)
        picture = drawing.to_svg(lambda axes: self._draw(axes, 0, self.depths))
        sections = [("", facts), ("", self._table().to_html()), ("", picture), ("Caveats", told)]
        return printable(f"<div>{page.body(sections)}</div>")

    @property
    def reservations(self) -> tuple[str, ...]:
        """What to know before the numbers are used: the call's remarks, and paths that are not finite."""
        lost = [f"{count} at depth {depth}" for depth, count in self.lost.items() if count]
        lost += [f"{self.limit_lost} of the limit"] if self.limit_lost else []
        if not lost:
            return self.remarks
        kept = "their states hold NaN or infinity" if self.states else "means and covariances leave them out"
        told = f"Of {self.paths} paths, these are not finite at some time: {', '.join(lost)}; {kept}."
        return (*self.remarks, told)

    def summary(self, depth: int | None = None) -> Summary:
        """Return mean, covariance and quantiles over time: of a depth, or of the limit where it is None.

        Raises TypeError or ValueError for a depth, or a limit, that was not simulated.
        """
        name = None if depth is None else self._depth(depth)
        kept = self.limit_summary if name is None else self.summaries.get(name)
        if kept is not None:
            return kept
        return Summary.of(*self._flat(name))

    def limit_at(self, depth: int) -> Tensor:
        """Return the limit at the times of a depth's states, of the shape of `states[depth]`.

        Raises TypeError or ValueError for a depth that was not simulated, and where no limit or no states are
        kept.
        """
        mine, (states, times) = self.times[self._depth(depth)], self._series(None)
        places = torch.searchsorted(times, mine)
        return states.index_select(2 if self.same_network else 1, places)

    def modules(self, depth: int, path: int) -> nn.Sequential:
        """Return a sampled network as torch blocks, one per layer, whose weights are parameters.

        Applied to inputs (n, *state_shape) it gives h_L: `states[depth][path, -1]` from that path's h_0, up
        to round-off. The path is drawn again. Of an equation, blocks are the scheme's steps on the sampled
        noise. Blocks of your own come in evaluation mode.

        Args:
            depth: L, one of `depths`.
            path: number of the path, from 0.

        Raises:
            TypeError: For numbers of another kind.
            ValueError: For numbers that were not simulated; weights that were never drawn, since `coupling`
                draws their products alone; and trajectories from a file that cannot hold a user's own
                network or equation.

        Examples:
            >>> import torch, deeplimit as dl
            >>> t = dl.simulate(dl.res1(4, "tanh"), depths=[16, 64])
            >>> blocks = t.modules(64, path=3)
            >>> start, end = t.states[64][3, :1], t.states[64][3, -1:]
            >>> len(blocks), torch.allclose(blocks(start), end, atol=1e-5), blocks[0].V.requires_grad
            (64, True, True)
        """
        number, measurement = self._depth(depth), self._origin.again()
        with threads_per_operation(1, measurement.device):
            made: nn.Sequential = measurement.path(path, number)
        return made

    def _named(self, depth: int) -> str:
        return f"{depth} steps" if self.unit == "steps" else f"depth {depth}"

    def _depth(self, depth: object) -> int:
        number = validation.integer(depth, "depth", minimum=1)
        if number not in self.depths:
            raise ValueError(f"depth must be one of {list(self.depths)}, got {number}.")
        return number

    def _series(self, depth: int | None) -> tuple[Tensor, Tensor]:
        """Return states and times of a depth, or of the limit; ValueError where they are not kept."""
        if depth is None and self.limit is None:
            raise ValueError(" ".join(["trajectories have no limit to read.", *self.remarks]))
        states = self.limit_states if depth is None else self.states.get(depth)
        times = self.limit_times if depth is None else self.times[depth]
        if states is None or times is None:
            raise ValueError(
                "trajectories hold no states, since they were simulated with keep='summaries'; simulate with"
                " keep='states', or read summaries."
            )
        return states, times

    def _table(self) -> Table:
        of = [*self.depths, *([None] if self.limit is not None else [])]
        columns = [
            Column(self.unit, ["limit" if depth is None else str(depth) for depth in of]),
            Column("|mean of last state|", [self._last(depth)[0] for depth in of], ".4g"),
            Column("its spread", [self._last(depth)[1] for depth in of], ".4g"),
        ]
        if self.limit_states is not None:
            columns.append(Column("rms distance at 1", [*self._distances(), None], ".4g"))
        lost = [self.limit_lost if depth is None else self.lost[depth] for depth in of]
        return Table((*columns, Column("not finite", lost)))

    def _last(self, depth: int | None) -> tuple[float | None, float | None]:
        """Return the size of the mean of the last state, and the root of its total variance."""
        if self.states:
            states, times = self._flat(depth)
            summary = Summary.of(states[:, -1:], times[-1:])
        else:
            summary = self.summary(depth)
        count = int(summary.count[-1])
        spread = float(np.sqrt(summary.squares[-1].sum() / (count - 1))) if count > 1 else None
        return float(np.linalg.norm(summary.mean[-1])) if count else None, spread

    def _distances(self) -> list[float | None]:
        """Return the root mean square distance to the limit at the last time, by depth."""
        found: list[float | None] = []
        for depth in self.depths:
            gap = (self.states[depth] - self.limit_at(depth)).select(1 + self.same_network, -1).double()
            size = math.sqrt(float(gap.square().sum()) / (self.paths * self._starts))
            found.append(size if math.isfinite(size) else None)
        return found

    def to_frame(self) -> Any:
        """Return a pandas.DataFrame in long form; raise ImportError without pandas.

        One row per depth (infinity for the limit), path, input and time, with the entries h0, h1, … of the
        state. Of summaries one row per depth, time and entry, with mean, standard deviation and quantiles.
        """
        import pandas

        parts = []
        for depth in (*self.depths, *([None] if self.limit is not None else [])):
            label = math.inf if depth is None else float(depth)
            if not self.states:
                summary = self.summary(depth)
                times, size = summary.mean.shape
                quantiles = summary.quantile(BANDS).reshape(len(BANDS), -1)
                content: dict[str, Any] = {
                    "time": np.repeat(summary.times, size),
                    "entry": np.tile(np.arange(size), times),
                    "mean": summary.mean.reshape(-1),
                    "std": np.sqrt(summary.variance).reshape(-1),
                    **{f"q{100 * q:02.0f}": row for q, row in zip(BANDS, quantiles, strict=True)},
                }
            else:
                states, times_of = self._series(depth)
                rows = states if self.same_network else states[:, None]
                paths, inputs, count = rows.shape[:3]
                entries = rows.reshape(paths * inputs * count, -1).numpy()
                content = {"path": np.repeat(np.arange(paths), inputs * count)}
                if self.same_network:
                    content["input"] = np.tile(np.repeat(np.arange(inputs), count), paths)
                content["time"] = np.tile(times_of.numpy(), paths * inputs)
                content |= {f"h{place}": entries[:, place] for place in range(entries.shape[1])}
            parts.append(pandas.DataFrame({"depth": label, **content}))
        return pandas.concat(parts, ignore_index=True)

    def plot(
        self,
        ax: Axes | str | os.PathLike[str] | None = None,
        coordinate: int = 0,
        *,
        depth: int | None = None,
        compact: bool = False,
    ) -> Axes:
        """Draw an entry of the state against time, network over limit, and return the axes.

        Up to 12 paths are lines: the limit grey and wide, each depth in a colour over it. More, and
        summaries, are a fan: the median of one depth with bands of 50 % and 90 % of its paths, and the same
        quantiles of the limit.

        Args:
            ax: axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
            coordinate: number of the entry, in the flattened state.
            depth: the one depth to draw; left out: all where there are lines, the deepest of a fan.
            compact: whether the picture is as wide as a journal's column, 3.3 inches, with few words.

        Raises:
            TypeError: For arguments of another kind.
            ValueError: For an entry that states do not have, a depth that was not simulated, and a path that
                cannot be written to.
        """
        chosen = self.depths if depth is None else (self._depth(depth),)
        place = validation.integer(coordinate, "coordinate", minimum=0, maximum=self._entries - 1)
        return drawing.plot(lambda axes: self._draw(axes, place, chosen), ax, compact=compact)

    def _draw(self, axes: Axes, place: int, depths: tuple[int, ...]) -> None:
        lines = bool(self.states) and self.paths * self._starts <= MOST_LINES
        (self._draw_lines if lines else self._draw_fan)(axes, depths, place)
        lost = sum(self.lost[each] for each in depths) + self.limit_lost
        limit = "no limit" if self.limit is None else f"limit: {self.limit}"
        title = [self.what, limit, *([f"{lost} paths are not finite"] if lost else [])]
        drawing.label(axes, "time $k/L$", f"entry {place} of the state", title)
        axes.set_xlim(0.0, 1.0)
        axes.grid(alpha=0.3)
        if not lines:  # room for the legend: bands fill the axes
            low, high = axes.get_ylim()
            axes.set_ylim(low, high + 0.25 * (high - low))
            drawing.legend(axes, ncols=2, loc="upper left")
        else:
            drawing.legend(axes)

    @property
    def _entries(self) -> int:
        """The number of entries of a state."""
        if not self.states:
            return int(self.summaries[self.depths[0]].mean.shape[1])
        return math.prod(self.states[self.depths[0]].shape[2 + self.same_network :])

    @property
    def _starts(self) -> int:
        states = next(iter(self.states.values()), None)
        return int(states.shape[1]) if self.same_network and states is not None else 1

    def _flat(self, depth: int | None) -> tuple[Tensor, np.ndarray]:
        """Return states (P · n, K, d) and times (K,) of a depth, or of the limit."""
        states, times = self._series(depth)
        return (states.flatten(0, 1) if self.same_network else states).flatten(2), times.numpy()

    def _draw_lines(self, axes: Axes, depths: tuple[int, ...], place: int) -> None:
        from matplotlib import colormaps

        if self.limit is not None:
            states, times = self._flat(None)
            drawn = axes.plot(times, states[:, :, place].T, color="0.75", lw=2.5)
            drawn[0].set_label("limit")
        shades = colormaps["viridis"](np.linspace(0.85, 0.25, len(depths)))
        for depth, shade in zip(depths, shades, strict=True):
            states, times = self._flat(depth)
            drawn = axes.plot(times, states[:, :, place].T, color=shade, lw=1, drawstyle="steps-post")
            drawn[0].set_label(self._named(depth))

    def _draw_fan(self, axes: Axes, depths: tuple[int, ...], place: int) -> None:
        depth = depths[-1]
        times, (low, lower, middle, upper, high) = self._fan(depth, place)
        for (bottom, top), share, alpha in (((low, high), 90, 0.2), ((lower, upper), 50, 0.3)):
            style: dict[str, Any] = {
                "color": MEASURED,
                "lw": 0,
                "alpha": alpha,
                "label": f"{self._named(depth)}, {share} %",
            }
            axes.fill_between(times, bottom, top, **style)
        axes.plot(times, middle, color=MEASURED, label=f"{self._named(depth)}, median")
        if self.limit is not None:
            times, rows = self._fan(None, place)
            for row, q in zip(rows, BANDS, strict=True):
                label = "limit, the same" if q == 0.5 else None
                axes.plot(times, row, "--", color=FITTED, lw=1, label=label)

    def _fan(self, depth: int | None, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return times (K,) and the quantiles of one entry that a fan shows (5, K)."""
        if not self.states:
            summary = self.summary(depth)
            return summary.times, summary.quantile(BANDS)[:, :, place]
        states, times = self._flat(depth)
        return times, Summary.of(states[:, :, [place]], times).quantile(BANDS)[:, :, 0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all numbers to a safetensors file, whole or not at all; `Trajectories.load` reads it back.

        Raises TypeError or ValueError, before anything is written, for a path that cannot be written to
        (.safetensors).
        """
        checked = validation.writable_file(path, "path", (SUFFIX,))
        tensors: dict[str, Tensor] = {f"times/{depth}": times for depth, times in self.times.items()}
        tensors |= {f"states/{depth}": states for depth, states in self.states.items()}
        limit = {"times/limit": self.limit_times, "states/limit": self.limit_states}
        tensors |= {name: tensor for name, tensor in limit.items() if tensor is not None}
        for depth, weights in self.weights.items():
            tensors |= {f"weights/{depth}/{name}": tensor for name, tensor in weights.items()}
        for label, summary in (*self.summaries.items(), ("limit", self.limit_summary)):
            if summary is not None:
                arrays = summary.arrays().items()
                tensors |= {f"summary/{label}/{name}": torch.from_numpy(value) for name, value in arrays}
        plain = {name: getattr(self, name) for name in PLAIN}
        content = {"version": VERSION, **plain, "measurement": self._origin.written()}
        with files.whole_file(checked) as temporary:
            whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
            told = json.dumps(content)
            save_file(whole, temporary, metadata={FORMAT: told, "digest": _digest(told, whole)})

    @staticmethod
    @by_default
    def load(path: str | os.PathLike[str]) -> Trajectories:
        """Return the trajectories that `save` wrote.

        Raises TypeError or ValueError for a path without such a file.

        Examples:
            >>> import tempfile, deeplimit as dl
            >>> t = dl.simulate(dl.res1(4, "tanh"), depths=[16])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     t.save(f"{folder}/t.safetensors")
            ...     again = dl.Trajectories.load(f"{folder}/t.safetensors")
            >>> bool((again.states[16] == t.states[16]).all())
            True
        """
        source = validation.as_path(path, "path")
        if not source.is_file():
            raise ValueError(f"No such file: {str(source)!r}.")
        try:
            with safe_open(source, framework="pt") as opened:
                metadata = opened.metadata() or {}
                told = metadata.get(FORMAT)
                names = opened.keys()
                tensors = {name: opened.get_tensor(name) for name in names}
            content = json.loads(told) if told is not None else {}
        except (OSError, SafetensorError, ValueError, RecursionError) as error:
            raise ValueError(f"{str(source)!r} cannot be read as trajectories: {error}.") from error
        version = content.get("version") if isinstance(content, dict) else None
        if version not in (VERSION, WITHOUT_DIGEST):
            raise ValueError(
                f"{str(source)!r} holds no trajectories that this version reads (version"
                f" {version!r}, not {VERSION}); `Trajectories.save` writes such files."
            )
        if version == VERSION and metadata.get("digest") != _digest(str(told), tensors):
            raise ValueError(
                f"{str(source)!r} holds damaged trajectories: its bytes are not those that were saved."
                " Simulate again; the same seed gives the same paths."
            )
        return _read(tensors, content, str(source))


PLAIN = tuple(
    entry.name
    for entry in dataclasses.fields(Trajectories)
    if entry.type in ("str", "str | None", "int", "float", "bool", "tuple[int, ...]")
    or entry.name in ("lost", "versions", "remarks")
)


def _digest(told: str, tensors: Mapping[str, Tensor]) -> str:
    """Return what stands for the whole content of a file."""
    return digest({"told": told, "tensors": describe({**tensors}, "tensors")})


def assembled(arrays: Mapping[str, Any], facts: Mapping[str, Any], origin: Origin) -> Trajectories:
    """Return trajectories of named numbers, `times/16`, `states/limit`, `summary/16/mean`, …"""

    def tensors(group: str) -> dict[int, Tensor]:
        return {
            d: torch.as_tensor(arrays[f"{group}/{d}"]) for d in facts["depths"] if f"{group}/{d}" in arrays
        }

    def summary(label: object) -> Summary | None:
        first = f"summary/{label}/"
        found = {n.removeprefix(first): np.asarray(each) for n, each in arrays.items() if n.startswith(first)}
        return Summary.from_arrays(found) if found else None

    weights: dict[int, dict[str, Tensor]] = {}
    for name, value in arrays.items():
        if name.startswith("weights/"):
            _, depth, weight = name.split("/", 2)
            weights.setdefault(int(depth), {})[weight] = torch.as_tensor(value)
    summaries = {depth: made for depth in facts["depths"] if (made := summary(depth)) is not None}
    limit = [arrays.get(name) for name in ("times/limit", "states/limit")]
    limit_times, limit_states = (None if each is None else torch.as_tensor(each) for each in limit)
    states, limit_summary = tensors("states"), summary("limit")
    counted = facts.get("lost") or {
        depth: summaries[depth].lost if summaries else _lost(states[depth]) for depth in facts["depths"]
    }
    limit_lost = limit_summary.lost if limit_summary is not None else 0
    if limit_states is not None:
        limit_lost = _lost(limit_states)
    given = {name: value for name, value in facts.items() if name not in ("lost", "limit_lost")}
    return Trajectories(
        times=tensors("times"),
        states=states,
        limit_times=limit_times,
        limit_states=limit_states,
        weights=weights,
        summaries=summaries,
        limit_summary=limit_summary,
        lost=counted,
        limit_lost=limit_lost,
        _origin=origin,
        **given,
    )


def _lost(states: Tensor) -> int:
    """Return how many paths of states (P, …) are not all finite."""
    return int((~torch.isfinite(states).flatten(1).all(dim=1)).sum())


def _read(tensors: Mapping[str, Tensor], content: Mapping[str, Any], path: str) -> Trajectories:
    try:
        facts = {name: content[name] for name in PLAIN}
        facts |= {name: tuple(facts[name]) for name in ("depths", "remarks")}
        facts["lost"] = {int(depth): count for depth, count in facts["lost"].items()}
        return assembled(tensors, facts, Origin.read(content["measurement"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path!r} holds damaged trajectories: {type(error).__name__}: {error}.") from error
