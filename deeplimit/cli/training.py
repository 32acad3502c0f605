"""`train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.options import (
    NETWORKS,
    ActivationName,
    Exponent,
    Hurst,
    LengthScale,
    Weights,
    imported,
    make_network,
    weight_law,
)
from deeplimit.cli.shared import Run, command
from deeplimit.common.depths_as_text import parse_depths

FULLY_CONNECTED = "fully-connected"


@command()
def train(
    network: Annotated[
        str,
        typer.Option(
            help=(
                "res1, res2, res3, inner, prenorm or fully-connected (Cohen et al.), or"
                " package.module:object, a ResidualNetwork of yours."
            )
        ),
    ] = FULLY_CONNECTED,
    width: Annotated[int, typer.Option(help="Width d of the hidden state; also the system's.")] = 10,
    activation: ActivationName = None,
    weights: Weights = "brownian",
    length_scale: LengthScale = None,
    hurst: Hurst = None,
    exponent: Exponent = None,
    depths: Annotated[str, typer.Option(help="8:256:x2, 100:500:+100 or 10,15,27.")] = "8,16,32,64",
    data: Annotated[
        str,
        typer.Option(
            help=(
                "system (the synthetic one of Cohen et al.), digits, mnist (both need the extra data), or"
                " package.module:object, a datasets.Data or a function that returns one."
            )
        ),
    ] = "system",
    loss: Annotated[
        str | None, typer.Option(help="'squared error' or 'cross entropy'; left out: what suits the data.")
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="adam, adamw, sgd, or package.module:object, an Optimizer.")
    ] = "adam",
    learning_rate: Annotated[
        float | None, typer.Option(help="Step size of adam, adamw or sgd; left out: 0.01.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Largest Euclidean norm of a network's gradient; left out: any.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Inputs per step; 0 for all of them.")] = 32,
    epochs: Annotated[int, typer.Option(help="Number of epochs at most.")] = 200,
    stop_loss: Annotated[
        float | None, typer.Option(help="Training ends once its loss is below this; left out: never.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without improvement after which it ends; left out: never.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Networks per depth, with independent weights.")] = 1,
    initial: Annotated[
        str,
        typer.Option(
            help="laws (weights are drawn from --weights) or small (Gaussian, of the paper's code)."
        ),
    ] = "laws",
    tied: Annotated[
        list[str] | None, typer.Option(help="Weight that all layers share, such as delta; may be repeated.")
    ] = None,
    nonnegative: Annotated[
        list[str] | None, typer.Option(help="Weight whose absolute value is taken; may be repeated.")
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option(help="Weight that is not trained, such as b; may be repeated.")
    ] = None,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Keep the states of √L layers alone: less memory.")
    ] = False,
    dtype: Annotated[str | None, typer.Option(help="float32 or float64; left out: float32.")] = None,
    checkpoints: Annotated[
        Path | None, typer.Option(help="Folder from which a run that was killed goes on.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Folder for the trained weights, one .safetensors per network.")
    ] = None,
    *,
    run: Run,
) -> None:
    """Train residual networks of several depths on the same data; `diagnose` reads the weights.

    Exit code: 0 unless a network diverged, 1 if one did, 2 bad usage.

    Example: deeplimit train --exponent 0 --initial small --tied delta --epochs 20 --save weights
    """
    import torch

    import deeplimit as dl
    from deeplimit.common import validation
    from deeplimit.trained.training import folder_for_weights

    made = _network(network, width, activation, weights, length_scale, hurst, exponent)
    if stop_loss is not None:
        validation.real(stop_loss, "--stop-loss", above=0.0)
    every = parse_depths(depths)
    if save is not None:
        folder_for_weights(save, every, repeats)  # what cannot be written is refused before any work
    starts = {"laws": dl.FromWeightLaws, "small": dl.SmallGaussian}
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    report = dl.train(
        made,
        every,
        _data(data, width),
        loss=loss,
        optimizer=_optimizer(optimizer, learning_rate),
        clip=clip,
        batch=batch or None,
        epochs=epochs,
        stop=dl.Stop(stop_loss, patience),
        repeats=repeats,
        initial=starts[validation.choice(initial, "--initial", tuple(starts))](),
        tied=tied or (),
        nonnegative=nonnegative or (),
        fixed=fixed or (),
        checkpointing=checkpointing,
        dtype=None if dtype is None else dtypes[validation.choice(dtype, "--dtype", tuple(dtypes))],
        checkpoints=checkpoints,
        **run.arguments(),
    )
    run.finish(report)
    if save is not None:
        report.save_weights(save)
    if any("diverged" in row for row in report.endings):
        raise typer.Exit(1)


def _network(
    name: str,
    width: int,
    activation: str | None,
    weights: str,
    length_scale: float | None,
    hurst: float | None,
    exponent: float | None,
) -> Any:
    """Return the network that the options describe."""
    import deeplimit as dl

    if _named(name, "--network", (*NETWORKS, FULLY_CONNECTED)):
        return imported("--network", name)
    if name != FULLY_CONNECTED:
        return make_network(name, width, activation, weights, length_scale, hurst, exponent)
    law = weight_law(weights, length_scale, hurst)
    return dl.fully_connected(width, activation or "tanh", weights=law, exponent=exponent)


def _data(name: str, width: int) -> Any:
    """Return the data that --data names."""
    import deeplimit as dl

    if _named(name, "--data", ("system", "digits", "mnist")):
        found = imported("--data", name)
        return found() if callable(found) else found
    if name == "system":
        return dl.datasets.synthetic_system(width)
    return dl.datasets.digits() if name == "digits" else dl.datasets.mnist()


def _optimizer(name: str, learning_rate: float | None) -> Any:
    """Return the optimiser that --optimizer and --learning-rate describe."""
    import deeplimit as dl

    kinds = {"adam": dl.Adam, "adamw": dl.AdamW, "sgd": dl.SGD}
    if not _named(name, "--optimizer", tuple(kinds)):
        return kinds[name](0.01 if learning_rate is None else learning_rate)
    if learning_rate is not None:
        raise ValueError(f"--learning-rate {learning_rate:g} is for {', '.join(kinds)}; {name} has its own.")
    return imported("--optimizer", name)


def _named(text: str, option: str, ours: tuple[str, ...]) -> bool:
    """Return whether text names an object of the user's; else it must be one of our words."""
    from deeplimit.common import validation

    return ":" in text or validation.choice(text, option, (*ours, "package.module:object")) not in ours
