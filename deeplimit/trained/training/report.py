"""The result of training at many depths: losses, endings, and the trained weights."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, final

import numpy as np
import torch
from safetensors.torch import save_file

from deeplimit.common import axes as drawing, files, validation
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.fields import Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.driving import Recorded
from deeplimit.layers.stacked import BIAS
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.trained.training.initialisation import FACTOR
from deeplimit.trained.training.network_pass import NetworkPass, Parametrisation
from deeplimit.trained.training.run import TrainedNetwork, Training
from deeplimit.trained.training.stop import Ending

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PerNetwork = Annotated[np.ndarray, Shape("depths repeats")]
PerEpoch = Annotated[np.ndarray, Shape("depths repeats epochs")]
DELTA = "delta"
"""What `diagnose` calls residual factors."""


def weights_file(depth: int | str, repeat: int | str) -> str:
    """Return the name of the file that holds a network's weights."""
    return f"depth-{depth}-network-{repeat}.safetensors"


def folder_for_weights(folder: str | os.PathLike[str], depths: Sequence[int], repeats: int) -> Path:
    """Return a folder, made if it is not there, that holds no networks but those of such a run."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    numbers = {path.name: re.findall(r"\d+", path.name) for path in target.glob(weights_file("*", "*"))}
    others = sorted(
        name
        for name, found in numbers.items()
        if len(found) == 2 and not (int(found[0]) in depths and int(found[1]) < repeats)
    )
    if others:
        raise ValueError(
            f"folder={str(folder)!r} holds networks of another run, {others[0]} among {len(others)}:"
            " `diagnose` would take them together. Give an empty folder, or remove them."
        )
    return target


@final
@dataclass(frozen=True, eq=False)
class TrainingReport(Report):
    """Networks of several depths after training, `repeats` of each.

    Attributes:
        network: what was trained, in words.
        data: on what.
        settings: how, in words: weights before training, roles of weights, optimiser, batches and ends.
        depths: numbers of layers (m,).
        repeats: how many networks there are of each depth.
        train_losses: loss in the last epoch (m, repeats), the mean over its batches.
        test_losses, accuracies: on the test set (m, repeats); NaN for the accuracy of targets that are
            numbers, and for networks that diverged.
        epochs: number of epochs of each network (m, repeats).
        endings: why training ended, one word per network: "loss", "patience", "callback", "epochs" or
            "diverged".
        histories: training loss of every epoch (m, repeats, epochs), NaN after the end.
        loss: "squared error", "cross entropy", or what your function is called.
        seed, seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
        citations: sources of the data and of the weights before training.
        validation_histories, validation_accuracies: loss and accuracy on the validation set after every epoch
            (m, repeats, epochs), NaN after the end; None without a validation set, and accuracies without
            classes.
    """

    kind = "training"
    no_paths = "training draws no paths. `weights` gives what was trained"

    network: str
    data: str
    settings: str
    depths: Annotated[np.ndarray, Shape("depths", whole=True, increasing=True)]
    repeats: int
    train_losses: PerNetwork
    test_losses: PerNetwork
    accuracies: PerNetwork
    epochs: Annotated[np.ndarray, Shape("depths repeats", whole=True)]
    endings: tuple[tuple[str, ...], ...]
    histories: PerEpoch
    loss: str
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    citations: tuple[str, ...]
    validation_histories: PerEpoch | None = None
    validation_accuracies: PerEpoch | None = None
    _trained: ClassVar[_Trained | None] = None

    def of(self, training: Training, networks: list[TrainedNetwork]) -> TrainingReport:
        """Return this report, with the networks it is about."""
        object.__setattr__(self, "_trained", _Trained(training, {(n.depth, n.repeat): n for n in networks}))
        return self

    @property
    def networks(self) -> _Trained:
        """The trained networks; ValueError for a report that was read from a file."""
        if self._trained is None:
            raise ValueError(
                "this report was read without its weights. Call train again with the same arguments (a store"
                " holds what is done), or read the files of save_weights with Recorded.from_files."
            )
        return self._trained

    def weights(self) -> dict[int, list[dict[str, torch.Tensor]]]:
        """Return the trained weights as `diagnose` takes them: stacks by depth, one for each network.

        A stack has all layers (L, *shape) by the name of the weight, biases as "b" (L, d). Residual factors
        are "delta", (L,), or () where all layers share one; they include L^-exponent. Networks that diverged
        are left out, and depths where all did.

        Raises ValueError for a report that was read from a file.
        """
        found = {
            int(depth): [self.networks.stacks(int(depth), repeat) for repeat in self._finite(int(depth))]
            for depth in self.depths
        }
        return {depth: stacks for depth, stacks in found.items() if stacks}

    def _finite(self, depth: int) -> list[int]:
        place = [*map(int, self.depths)].index(depth)
        return [r for r, word in enumerate(self.endings[place]) if word != Ending.DIVERGED]

    def trained(self, repeat: int = 0) -> ResidualNetwork:
        """Return one network per depth as a network with recorded weights, for `compare` and `stability`.

        Depths at which this one diverged are left out.

        Raises:
            TypeError: for a repeat that is no integer.
            ValueError: for a repeat that was not trained, and for a report that was read from a file.
        """
        repeat = validation.integer(repeat, "repeat", minimum=0, maximum=self.repeats - 1)
        depths = [int(depth) for depth in self.depths if repeat in self._finite(int(depth))]
        if not depths:
            raise ValueError(f"repeat must be a network that did not diverge at all depths, got {repeat}.")
        return self.networks.recorded(depths, repeat)

    def loss_of(self, stacks: Mapping[str, Any], depth: int, repeat: int = 0, *, test: bool = False) -> float:
        """Return the loss with other weights in the layers: denoised ones, say, or those of another network.

        Args:
            stacks: weights by name as `weights` gives them; those that are left out stay as trained.
            depth: number of layers of the network whose other weights, and whose ends, are used.
            repeat: which one of this depth.
            test: whether on the test set; else on the whole training set.

        Raises:
            TypeError: for anything but tensors by name.
            ValueError: for a network that was not trained or diverged, unknown names, stacks of another
                shape or not finite, and a "delta" other than L^-exponent where layers have no factor.
        """
        return self.networks.loss(stacks, depth, repeat, test)[0]

    def accuracy_of(
        self, stacks: Mapping[str, Any], depth: int, repeat: int = 0, *, test: bool = True
    ) -> float:
        """Return the accuracy with other weights in the layers, as `loss_of`; NaN without classes."""
        return self.networks.loss(stacks, depth, repeat, test)[1]

    def outputs(self, x: torch.Tensor, depth: int, repeat: int = 0) -> torch.Tensor:
        """Return the outputs (n, outputs) of one network for inputs (n, *shape).

        Raises:
            TypeError: for inputs that are no tensor.
            ValueError: for a network that was not trained or diverged, and inputs of another shape.
        """
        return self.networks.outputs(x, depth, repeat)

    def states(self, x: torch.Tensor, depth: int, repeat: int = 0) -> torch.Tensor:
        """Return the states (n, *state shape) of one network before its first layer, for inputs (n, *shape).

        They are x itself without ends, else x after the trained input map, which differs between depths.
        Limits start there: `fitted_limit(...).compare(report.states(x, depth))`. Raises as `outputs`.
        """
        return self.networks.states(x, depth, repeat)

    def save_weights(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write a safetensors file for each network that did not diverge, and return their paths.

        A file holds the stacks of `weights`, and as metadata depth, seed, repeat and the specification. It is
        what `deeplimit diagnose FILES…` and `Recorded.from_files` read.

        Raises ValueError where the folder holds networks of another run that would stay beside these: files
        of such a name at other depths, or with a higher number.
        """
        target = folder_for_weights(folder, [*map(int, self.depths)], self.repeats)
        return [
            self.networks.save(target / weights_file(int(depth), repeat), int(depth), repeat)
            for depth in self.depths
            for repeat in self._finite(int(depth))
        ]

    @property
    def headline(self) -> str:
        """How many networks reached which loss."""
        words = [word for row in self.endings for word in row]
        counts = {ending.value: words.count(ending) for ending in Ending}
        told = {
            "loss": "reached the loss",
            "patience": "stopped improving",
            "callback": "stopped by the callback",
            "epochs": "used all epochs",
            "diverged": "diverged",
        }
        parts = [f"{count} {told[word]}" for word, count in counts.items() if count]
        networks = "1 network" if len(words) == 1 else f"{len(words)} networks"
        return f"{networks} trained: {', '.join(parts)}."

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("network", self.network),
            ("data", self.data),
            ("training", self.settings),
            ("run", f"{self.seconds:.1f} s, seed {self.seed}"),
        ]

    def _table(self) -> Table:
        rows = [" ".join(f"{row.count(word)} {word}" for word in dict.fromkeys(row)) for row in self.endings]
        columns = [
            Column("depth", [*map(int, self.depths)]),
            Column("epochs", np.median(self.epochs, axis=1), ".0f"),
            Column("train loss", _median(self.train_losses), ".3g"),
        ]
        for word, kind, held in (
            ("loss", ".3g", self.validation_histories),
            ("accuracy", ".3f", self.validation_accuracies),
        ):
            if held is not None:
                columns.append(Column(f"validation {word}", _median(self._last(held)), kind))
        columns.append(Column("test loss", _median(self.test_losses), ".3g"))
        if np.isfinite(self.accuracies).any():
            columns.append(Column("test accuracy", _median(self.accuracies), ".3f"))
        columns.append(Column("ended by", rows, left=True))
        return Table(
            tuple(columns), title=f"medians over {self.repeats} networks" if self.repeats > 1 else ""
        )

    def _last(self, histories: np.ndarray) -> np.ndarray:
        """Return what was found after each network's last epoch (m, repeats)."""
        found: np.ndarray = np.take_along_axis(histories, self.epochs[..., None] - 1, axis=2)[..., 0]
        return found

    def _draw(self, axes: Axes) -> None:
        """Draw the losses of every epoch, shallow networks light and deep ones dark; validation dashed."""
        from matplotlib import colormaps
        from matplotlib.ticker import MaxNLocator

        shades = colormaps["viridis"](np.linspace(0.0, 0.9, len(self.depths))[::-1])
        ends = self.depths[0], self.depths[-1]
        for every, lines, dots, what in (
            (self.histories, "-", ".", ""),
            (self.validation_histories, "--", "x", ", validation"),
        ):
            for place, histories in enumerate([] if every is None else every):
                depth, shade = self.depths[place], shades[place]
                for repeat, history in enumerate(histories):
                    shown = np.isfinite(history) & (history > 0)
                    label = f"L = {depth}{what}" if repeat == 0 and depth in ends else None
                    epochs = 1 + np.arange(len(history))
                    style = lines if shown.sum() > 1 else dots
                    axes.plot(epochs[shown], np.log10(history[shown]), style, color=shade, lw=1, label=label)
        drawing.power_axis(axes)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        small, both = drawing.is_small(axes), self.validation_histories is not None
        loss = f"loss ({self.loss})" if both else f"training loss ({self.loss})"
        drawing.label(axes, "epoch", "" if small else loss, [self.data])
        drawing.legend(axes, 8)


def _median(values: np.ndarray) -> np.ndarray:
    """Return the median of each row without its NaN; NaN where nothing else is there."""
    found = np.full(len(values), np.nan)
    for place, row in enumerate(values):
        finite = row[np.isfinite(row)]
        if len(finite):
            found[place] = np.median(finite)
    return found


@final
@dataclass(frozen=True, eq=False)
class _Trained:
    """The networks of one report, by depth and repeat."""

    training: Training
    networks: dict[tuple[int, int], TrainedNetwork]

    def _one(self, depth: object, repeat: object) -> TrainedNetwork:
        key = (
            validation.integer(depth, "depth", minimum=1),
            validation.integer(repeat, "repeat", minimum=0),
        )
        found = self.networks.get(key)
        if found is None:
            depths = sorted({key[0] for key in self.networks})
            raise ValueError(
                f"depth and repeat must name a trained network, got {depth!r} and {repeat!r}; depths are"
                f" {', '.join(map(str, depths))}, repeats 0 to {self.training.repeats - 1}."
            )
        return found

    def _weights(self, one: TrainedNetwork) -> dict[str, torch.Tensor]:
        """Return the weights of all layers (L, *shape), as the network uses them."""
        of = self.training.parametrisation
        found = {}
        for name, value in one.parameters.items():
            if "." not in name:
                weight = torch.from_numpy(value)
                weight = weight.abs() if name in of.nonnegative else weight
                found[name] = weight.expand(one.depth, *weight.shape[1:]) if name in of.tied else weight
        return found

    def stacks(self, depth: int, repeat: int) -> dict[str, torch.Tensor]:
        """Return the weights of one network as `diagnose` takes them."""
        of, one = self.training.parametrisation, self._one(depth, repeat)
        found = {name: value.clone() for name, value in self._weights(one).items()}
        scale = self._scale(depth)
        if FACTOR in found:
            factors = found.pop(FACTOR) * scale
            found[DELTA] = factors[0] if FACTOR in of.tied else factors
        elif of.network.exponent != 0.0:
            found[DELTA] = torch.tensor(scale, dtype=torch.float64)
        return found

    def _scale(self, depth: int) -> float:
        """Return L^-exponent."""
        return math.pow(depth, -self.training.parametrisation.network.exponent)

    def recorded(self, depths: list[int], repeat: int) -> ResidualNetwork:
        """Return the networks of these depths as one network with recorded weights."""
        network = self.training.parametrisation.network
        every = {depth: self._weights(self._one(depth, repeat)) for depth in depths}
        laws = []
        for place, weight in enumerate(network.recursion.weights):
            stacks: dict[int, Any] = {}
            for depth, weights in every.items():
                stack = weights[weight.name].clone()
                with_bias = place == 0 and network.recursion.takes_bias
                stacks[depth] = dict(A=stack, b=weights[BIAS].clone()) if with_bias else stack
            laws.append(Recorded(stacks))
        return ResidualNetwork(network.recursion, network.width, tuple(laws), network.exponent)

    def loss(self, stacks: Mapping[str, Any], depth: int, repeat: int, test: bool) -> tuple[float, float]:
        """Return loss and accuracy with other weights."""
        training, passes = self.training, self._passes(depth)
        parameters = self._parameters(stacks, depth, repeat)
        data = training.data
        inputs, targets = (data.test_inputs, data.test_targets) if test else (data.inputs, data.targets)
        wanted = targets.to(training.device)
        wanted = wanted if data.classes is not None else wanted.to(training.dtype)
        found = passes.measured(parameters, passes.library.array(inputs), wanted, data.classes is not None)
        return float(found[0][0]), float(found[1][0])

    def outputs(self, x: torch.Tensor, depth: int, repeat: int) -> torch.Tensor:
        """Return the outputs of one network."""
        parameters, passes = self._parameters({}, depth, repeat), self._passes(depth)
        pieces = passes.outputs(parameters, passes.library.array(self._inputs(x)))
        return torch.cat([outputs[0] for _, outputs in pieces])

    def states(self, x: torch.Tensor, depth: int, repeat: int) -> torch.Tensor:
        """Return the states of one network before its first layer."""
        parameters, passes = self._parameters({}, depth, repeat), self._passes(depth)
        inputs = passes.library.repeated(passes.library.array(self._inputs(x)), 1)
        state = passes.of.ends.enter(inputs, parameters, passes.library)
        return passes.library.tensor(state)[0].clone()

    def _inputs(self, x: object) -> torch.Tensor:
        inputs = validation.real_tensor(x, "x")
        shape = self.training.data.shape
        if tuple(inputs.shape[1:]) != shape or len(inputs) == 0:
            wanted = ", ".join(map(str, ("n", *shape)))
            raise ValueError(f"x must hold inputs ({wanted}), at least one; got shape {tuple(inputs.shape)}.")
        return validation.finite_tensor(inputs, "x", tuple(inputs.shape))

    def _passes(self, depth: int) -> NetworkPass:
        """Return what runs networks whose parameters are the weights of all layers."""
        training, of = self.training, self.training.parametrisation
        library = ArrayLibrary(training.device, training.dtype)
        return NetworkPass(Parametrisation(of.network, of.ends), depth, training.objective, library)

    def _parameters(self, stacks: Mapping[str, Any], depth: int, repeat: int) -> dict[str, Any]:
        """Return the weights of all layers and the ends of one network, some of the former replaced."""
        one = self._one(depth, repeat)
        if one.ending is Ending.DIVERGED:
            raise ValueError(
                f"depth and repeat must name a network that did not diverge, got {depth} and {repeat}."
            )
        if not isinstance(stacks, Mapping):
            raise TypeError(f"stacks must be tensors by name, got {validation.named(stacks)}.")
        trained = self.stacks(depth, repeat)
        for name in stacks:
            if name not in trained:
                raise ValueError(f"stacks must have names among {sorted(trained)}, got {name!r}.")
        found = {name: torch.from_numpy(value) for name, value in one.parameters.items() if "." in name}
        for name, before in trained.items():
            shapes = ((), (1,), (depth,)) if name == DELTA else (tuple(before.shape),)
            value = validation.finite_tensor(stacks.get(name, before), f"stacks[{name!r}]", *shapes)
            if name == DELTA:
                value = (value.reshape(-1) / self._scale(depth)).expand(depth)
            found[name] = value
        factors = found.pop(DELTA, torch.ones(depth))
        if FACTOR in one.parameters:
            found[FACTOR] = factors
        elif not bool(torch.isclose(factors, torch.ones_like(factors)).all()):
            raise ValueError(
                f"stacks[{DELTA!r}] must be {self._scale(depth):g}, depth**-exponent, for a network without"
                f" residual factors; got {stacks[DELTA]!r}."
            )
        library = ArrayLibrary(self.training.device, self.training.dtype)
        return {name: library.array(value[:, None]) for name, value in found.items()}

    def save(self, path: Path, depth: int, repeat: int) -> Path:
        """Write one network."""
        training = self.training
        stacks = {name: value.contiguous() for name, value in self.stacks(depth, repeat).items()}
        told = {
            "depth": str(depth),
            "repeat": str(repeat),
            "seed": str(training.seed),
            "specification": json.dumps(training.key(), default=str, ensure_ascii=False),
        }
        with files.whole_file(path) as temporary:
            save_file(stacks, temporary, told)
        return path
