"""`simulate`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.options import (
    ActivationName,
    Exponent,
    Hurst,
    LengthScale,
    Network,
    Weights,
    Width,
    imported,
    make_network,
    parse_numbers,
)
from deeplimit.cli.shared import Run, command
from deeplimit.common.depths_as_text import parse_depths


@command("json", "html")
def simulate(
    network: Network = "res1",
    width: Width = 40,
    activation: ActivationName = None,
    weights: Weights = "brownian",
    length_scale: LengthScale = None,
    hurst: Hurst = None,
    exponent: Exponent = None,
    depths: Annotated[
        str | None, typer.Option(help="16:256:x4, 100:500:+100 or 10,15,27; left out: 16,64,256.")
    ] = None,
    equation: Annotated[
        str | None,
        typer.Option(
            help=(
                "In place of a network: your equation, package.module:object, an SDE or ODE, a torchsde"
                " object or a function f(t, h), from states 0 of --width entries."
            )
        ),
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Of --equation: numbers of steps, like --depths; left out: 256.")
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(help="Of --equation: package.module:object, a Scheme; left out: by its noise."),
    ] = None,
    paths: Annotated[int, typer.Option(help="Number of paths.")] = 8,
    limit: Annotated[
        str | None,
        typer.Option(help="Your own limit, package.module:object; left out: the network's, if it has one."),
    ] = None,
    times: Annotated[
        str | None, typer.Option(help="Times at which states are kept: 0:1:33 or 0,0.5,1; left out: all.")
    ] = None,
    keep: Annotated[
        str, typer.Option(help="states, or summaries: mean, covariance and quantiles of any number of paths.")
    ] = "states",
    keep_weights: Annotated[
        bool, typer.Option("--keep-weights", help="Keep the weights of every layer, too.")
    ] = False,
    coupling: Annotated[
        str, typer.Option(help="projected (products of the noise alone), pathwise (all increments) or auto.")
    ] = "auto",
    reference: Annotated[
        int | None, typer.Option(help="Steps of an SDE limit's grid; left out: twice the deepest network.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Tolerance of an ODE limit's solver; left out: by the dtype.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or float64; left out: chosen by the weights.")
    ] = None,
    coordinate: Annotated[int, typer.Option(help="The entry of the state that --plot draws.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write all states here (.safetensors, or .csv).")] = None,
    *,
    run: Run,
) -> None:
    """Simulate a network at several depths beside its limit, or an equation, on the same paths.

    Example: deeplimit simulate --width 4 --depths 16,256 --plot paths.png --save paths.safetensors

    Example: deeplimit simulate --paths 10000 --keep summaries --depths 1024 --plot fan.png
    """
    import deeplimit as dl
    from deeplimit.common import files, validation

    if save is not None:
        validation.writable_file(save, "--save", (".safetensors", ".csv"))
    what: Any = None
    if equation is None:
        if steps is not None or scheme is not None:
            raise ValueError("--steps and --scheme are for --equation; a network has --depths.")
        what, x = make_network(network, width, activation, weights, length_scale, hurst, exponent), None
    else:
        import torch

        of_networks = (network != "res1", weights != "brownian", activation, length_scale, hurst, exponent)
        if any(given is not None and given is not False for given in of_networks):
            raise ValueError(
                "--network, --activation, --weights, --length-scale, --hurst and --exponent make a network,"
                " and --equation takes its place; leave either out."
            )
        what, x = imported("--equation", equation), torch.zeros(1, width)
    entries = math.prod(what.state_shape) if equation is None else width
    validation.integer(coordinate, "--coordinate", minimum=0, maximum=entries - 1)
    trajectories = dl.simulate(
        what,
        x,
        depths=None if depths is None else parse_depths(depths),
        steps=None if steps is None else parse_depths(steps),
        paths=paths,
        limit=None if limit is None else imported("--limit", limit),
        scheme=None if scheme is None else imported("--scheme", scheme),
        times=None if times is None else parse_numbers(times, "--times"),
        keep=keep,
        keep_weights=keep_weights,
        coupling=coupling,
        reference=reference,
        tolerance=tolerance,
        dtype=dtype,
        **run.arguments(),
    )
    run.finish(trajectories, coordinate=coordinate)
    if save is not None and save.suffix == ".csv":
        with files.whole_file(save) as temporary:
            trajectories.to_frame().to_csv(temporary, index=False)
    elif save is not None:
        trajectories.save(save)
