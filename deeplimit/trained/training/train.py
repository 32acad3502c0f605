"""`train`: networks of many depths on the same data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deeplimit.common import validation as checks
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.layers.stacked import BIAS
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.trained.datasets.data import Data, held_out
from deeplimit.trained.training.checkpoint import Checkpoint
from deeplimit.trained.training.ends import Ends, usual_ends
from deeplimit.trained.training.initialisation import FACTOR, FromWeightLaws, Initialisation
from deeplimit.trained.training.losses import LossFunction, loss_of
from deeplimit.trained.training.network_pass import Parametrisation
from deeplimit.trained.training.optimizers import Adam, Optimizer
from deeplimit.trained.training.points import Callback, TrainingPoint, one_at_a_time
from deeplimit.trained.training.report import DELTA, TrainingReport
from deeplimit.trained.training.run import TrainedNetwork, Training
from deeplimit.trained.training.stop import Ending, Stop
from deeplimit.version import versions


@by_default
def train(
    network: ResidualNetwork,
    depths: Sequence[int],
    data: Data,
    *,
    validation: tuple[Any, Any] | None = None,
    loss: str | LossFunction | None = None,
    optimizer: Optimizer | None = None,
    clip: float | None = None,
    batch: int | None = 32,
    epochs: int = 200,
    stop: Stop | None = None,
    repeats: int = 1,
    initial: Initialisation | None = None,
    tied: str | Iterable[str] = (),
    nonnegative: str | Iterable[str] = (),
    fixed: str | Iterable[str] = (),
    ends: Ends | None = None,
    checkpointing: bool = False,
    seed: int = 0,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    callback: Callable[[TrainingPoint], Any] | None = None,
    progress: Progress | bool | None = None,
) -> TrainingReport:
    """Train residual networks of several depths on the same data, several of each depth at once.

    Gradients are exact. Those of `fully_connected`, `inner`, `res1`, `res2`, `res3` and `convolutional` are
    written by hand; a user's recursion is differentiated automatically.

    Args:
        network: recursion, width d and residual exponent; its weight laws draw the weights before training.
        depths: numbers of layers L.
        data: a `datasets.Data`, inputs (n, *shape) and targets (n, outputs) or labels (n,).
        validation: pair (x, y) of a validation set, inputs and targets as those of `data`. Loss and accuracy
            on it are kept after every epoch, and decide nothing.
        loss: "squared error" (mean over inputs and outputs) or "cross entropy"; by default what suits the
            targets. Or a function of outputs (n, outputs) and targets (n, outputs) or (n,) of one network, in
            torch's operations, that returns a loss per input (n,) or their mean (). It is tried on four
            inputs before training.
        optimizer: `SGD`, `Adam` or `AdamW`; `Adam(0.01)` if left out.
        clip: Euclidean norm, above 0, that the gradient of one network keeps below, as by
            torch.nn.utils.clip_grad_norm_; every network of a depth has a norm of its own.
        batch: inputs per step; None for all of them. The last batch of an epoch may be smaller.
        epochs: number of epochs at most.
        stop: when training ends before; `Stop()`, never, if left out.
        repeats: networks per depth, with independent weights and orders of the inputs.
        initial: weights before training; `FromWeightLaws()` if left out.
        tied: names of weights that all layers share, such as "delta" for one factor δ of all layers.
        nonnegative: names of weights of which the absolute value is taken.
        fixed: names of weights that are not trained, such as "b".
        ends: what stands before and after the layers; if left out nothing where shapes agree, else trained
            linear maps.
        checkpointing: whether to keep the states of √L layers alone, and compute the others twice. Results
            are the same.
        seed: decides weights and orders of inputs, by depth and repeat.
        dtype: torch.float32 (by default) or torch.float64.
        checkpoints: folder in which a run that is killed leaves what it needs to go on, every minute.
        callback: function of a `TrainingPoint`, called after every epoch of every network. Returning True
            ends the training of that network, None or False changes no bit, and an exception ends the call.
            It is not called for networks that a store holds, for they are not trained again.
        device: "cpu" or "cuda".
        workers: number of threads. Small networks gain nothing from threads on a CPU; an executor of
            processes uses all cores.
        executor: any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit.
        store: file, or `Store`, that keeps finished networks: a call made again trains only what is missing.
        progress: function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A `TrainingReport`. Its `weights()` go to `diagnose`, its `trained()` to `compare` and `stability`.

    Raises:
        TypeError: for arguments of another kind.
        ValueError: for values out of range, data whose shapes do not fit, and unknown names of weights; for a
            loss that is not finite or not differentiable; for a callback with an executor, whose processes it
            could not reach, and one that returns True beside a store or checkpoints, which do not know it.

    Not checked: that training has converged; `report.endings` says why it ended. That a loss that returns one
    number returns a mean over inputs, and that rows of the validation set are not among those for training.

    Examples:
        >>> import deeplimit as dl
        >>> data = dl.datasets.synthetic_system(width=4, count=128, test=32)
        >>> network = dl.fully_connected(4, "tanh", exponent=0.0)
        >>> settings = dict(tied="delta", nonnegative="delta", initial=dl.SmallGaussian(), epochs=5)
        >>> report = dl.train(network, [8, 16, 32], data, **settings)
        >>> report.endings[0], sorted(report.weights()[8][0])
        (('epochs',), ['A', 'b', 'delta'])
    """
    given = {**locals()}
    if not isinstance(network, ResidualNetwork):
        raise TypeError(f"network must be a ResidualNetwork, such as res1(10); got {checks.named(network)}.")
    if not isinstance(data, Data):
        raise TypeError(
            f"data must be a Data, such as datasets.digits() or datasets.Data.of(x, y); got"
            f" {checks.named(data)}."
        )
    for name, value, kind, example in (
        ("optimizer", optimizer, Optimizer, "Adam(0.01)"),
        ("stop", stop, Stop, "Stop(loss=1e-3)"),
        ("initial", initial, Initialisation, "FromWeightLaws()"),
        ("ends", ends, Ends, f"LinearEnds({data.inputs[0].numel()}, {data.outputs})"),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be such as {example}; got {checks.named(value)}.")
    if not isinstance(checkpointing, bool):
        raise TypeError(f"checkpointing must be True or False, got {checks.named(checkpointing)}.")
    objective = loss_of(loss, data)
    if callback is not None:
        checks.function(callback, "callback", "a function of a TrainingPoint")
        if executor is not None:
            raise ValueError(
                "callback is called in this process, but executor= trains in others; leave out one of them."
            )
    chosen = usual_ends(data.shape, data.outputs, network.state_shape) if ends is None else ends
    chosen.check(data.shape, data.outputs, network.state_shape)
    known = _known(network)
    parametrisation = Parametrisation(
        network,
        chosen,
        tied=_names(tied, "tied", known),
        nonnegative=_names(nonnegative, "nonnegative", known),
        fixed=_names(fixed, "fixed", known),
        checkpointing=checkpointing,
    )
    if parametrisation.fixed == set(known) and not chosen.trained:
        raise ValueError(
            f"fixed must leave something to train, got all of {', '.join(map(repr, known))}, and no trained"
            " ends."
        )
    checked = checks.depths(depths, at_least=1)
    beginning = FromWeightLaws() if initial is None else initial
    beginning.check(network, checked)
    training = Training(
        parametrisation,
        checked,
        checks.integer(repeats, "repeats", minimum=1, maximum=2**20),
        data,
        None if validation is None else held_out(validation, data, "validation"),
        loss if callable(loss) else objective.name,
        Adam(0.01) if optimizer is None else optimizer,
        None if clip is None else checks.real(clip, "clip", above=0.0),
        None if batch is None else checks.integer(batch, "batch", minimum=1),
        checks.integer(epochs, "epochs", minimum=1, maximum=2**20),
        Stop() if stop is None else stop,
        beginning,
        checks.dtype(dtype) or torch.float32,
        checks.seed(seed),
        Checkpoint(_folder(checkpoints)),
        Callback(
            None if callback is None else one_at_a_time(callback),
            may_stop=store is None and checkpoints is None,
        ),
        device=checks.device(device),
    )
    training.try_loss()
    started = time.perf_counter()
    networks = Running.checked(workers, executor, store, progress).measure(training)
    return _report(training, networks, time.perf_counter() - started).called_by("train", given)


def _known(network: ResidualNetwork) -> list[str]:
    """Return the names of a layer's weights; raise where two of them, or one and a bias, share a name."""
    recursion = network.recursion
    names = [weight.name for weight in recursion.weights] + [BIAS] * recursion.takes_bias
    for name in names:
        if "." in name or names.count(name) > 1:
            raise ValueError(
                f"network has a recursion with a weight {name!r}; training needs names without a dot, each of"
                f" one weight, and {BIAS!r} is the bias."
            )
    return names


def _folder(given: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder for checkpoints, which may not exist yet."""
    if given is None:
        return None
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"checkpoints must be a folder, got {checks.named(given)}.")
    folder = Path(given)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"checkpoints must be a folder, but {str(folder)!r} is a file; give another path.")
    return folder


def _names(given: str | Iterable[str], argument: str, known: list[str]) -> frozenset[str]:
    """Return names of weights; "delta" stands for δ."""
    hint = f"a name or names of weights, such as {known[0]!r}"
    names = [given] if isinstance(given, str) else checks.entries(given, argument, hint)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must hold names of weights, got {checks.named(name)}.")
    found = frozenset(FACTOR if name == DELTA else name for name in names)
    unknown = sorted(map(repr, found - set(known)))
    if unknown:
        names_known = ", ".join(repr(DELTA if name == FACTOR else name) for name in known)
        raise ValueError(f"{argument} must hold names of weights, {names_known}; got {', '.join(unknown)}.")
    return found


def _report(training: Training, networks: list[TrainedNetwork], seconds: float) -> TrainingReport:
    shape = len(training.depths), training.repeats

    def per_network(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=float).reshape(shape)

    def per_epoch(values: list[np.ndarray]) -> np.ndarray:
        found = np.full((len(values), max(map(len, values))), np.nan)
        for row, value in zip(found, values, strict=True):
            row[: len(value)] = value
        return found.reshape(*shape, -1)

    held = training.validation is not None
    labelled = held and training.data.classes is not None
    words = [one.ending.value for one in networks]
    diverged = words.count(Ending.DIVERGED)
    reservations = []
    if diverged:
        reservations.append(
            f"{diverged} of {len(words)} networks diverged and have no weights here; a smaller learning rate"
            " may help."
        )
    network = training.parametrisation.network
    report = TrainingReport(
        network=network.describe(),
        data=training.data.describe(),
        settings=training.describe(),
        depths=np.array(training.depths),
        repeats=training.repeats,
        train_losses=per_network([float(one.losses[-1]) for one in networks]),
        test_losses=per_network([one.test_loss for one in networks]),
        accuracies=per_network([one.accuracy for one in networks]),
        epochs=np.array([len(one.losses) for one in networks]).reshape(shape),
        endings=tuple(tuple(words[row * shape[1] : (row + 1) * shape[1]]) for row in range(shape[0])),
        histories=per_epoch([one.losses for one in networks]),
        validation_histories=per_epoch([one.validated[:, 0] for one in networks]) if held else None,
        validation_accuracies=per_epoch([one.validated[:, 1] for one in networks]) if labelled else None,
        loss=training.objective.name,
        seed=training.seed,
        seconds=seconds,
        versions=versions(),
        reservations=tuple(reservations),
        citations=tuple(dict.fromkeys((*training.data.citations, *training.initial.citations(network)))),
    )
    return report.of(training, networks)
