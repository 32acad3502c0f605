"""`stability`, `phase` and `reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.options import (
    ActivationName,
    Budget,
    Exponent,
    Hurst,
    LengthScale,
    Network,
    Weights,
    Width,
    count_or_auto,
    depths_or_auto,
    make_network,
    parse_numbers,
)
from deeplimit.cli.shared import Run, command


@command()
def stability(
    network: Network = "res3",
    width: Width = 40,
    activation: ActivationName = None,
    weights: Weights = "brownian",
    length_scale: LengthScale = None,
    hurst: Hurst = None,
    exponent: Exponent = None,
    depths: Annotated[
        str, typer.Option(help="10:10000:x10, 100:500:+100, 10,30,100,300, or auto: deeper as needed.")
    ] = "10,30,100,300,1000",
    draws: Annotated[
        Any,
        typer.Option(parser=count_or_auto, metavar="INTEGER|auto", help="Networks per depth, or auto."),
    ] = 400,
    budget: Budget = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence level of the growth exponents' intervals.")
    ] = 0.95,
    delta: Annotated[
        float, typer.Option(help="δ of the probability bounds of Marion et al. (2025), Section 2.")
    ] = 0.25,
    dtype: Annotated[str | None, typer.Option(help="float32 (the default) or float64.")] = None,
    *,
    run: Run,
) -> None:
    """Does the signal, or the gradient, of a network at initialisation explode or die as the depth grows?

    Exit code: 0 stable, 1 identity or explosion, 2 bad usage, 3 cannot tell.

    Example: deeplimit stability --network res3 --weights uniform --exponent 0.25 --plot s.png
    """
    from deeplimit.signal import stability as run_stability

    resnet = make_network(network, width, activation, weights, length_scale, hurst, exponent)
    report = run_stability(
        resnet,
        depths_or_auto(depths),
        draws=draws,
        budget=budget,
        confidence=confidence,
        delta=delta,
        dtype=dtype,
        **run.arguments(),
    )
    run.finish(report, {"stable": 0, "identity": 1, "explosion": 1, "cannot tell": 3})


@command()
def phase(
    network: Network = "res3",
    width: Width = 40,
    activation: ActivationName = None,
    depth: Annotated[int, typer.Option(help="Depth L; networks ten times shallower are drawn too.")] = 1000,
    hurst: Annotated[
        str, typer.Option(help="Hurst indices, first:last:count or a list such as 0.2,0.5,0.8.")
    ] = "0.05:0.97:12",
    exponents: Annotated[
        str, typer.Option(help="Residual exponents, first:last:count or a list.")
    ] = "0:1.3:27",
    draws: Annotated[int, typer.Option(help="Weight draws per Hurst index.")] = 5,
    inputs: Annotated[int, typer.Option(help="Inputs per weight draw.")] = 10,
    confidence: Annotated[float, typer.Option(help="Confidence level of the boundary's intervals.")] = 0.95,
    dtype: Annotated[str | None, typer.Option(help="float32 (the default) or float64.")] = None,
    of: Annotated[str, typer.Option(help="What --plot shows: hidden or gradient.")] = "hidden",
    *,
    run: Run,
) -> None:
    """Map output and gradient over the Hurst index of the weights and the residual exponent.

    Exit code: 0, or 2 for bad usage.

    Example: deeplimit phase --network res3 --depth 1000 --hurst 0.05:0.97:12 --plot map.png --json map.json
    """
    from functools import partial

    import deeplimit as dl
    from deeplimit.ground import validation

    validation.choice(of, "--of", ("hidden", "gradient"))
    validation.choice(network, "--network", ("res1", "res2", "res3", "inner"))
    if network == "res3" and activation not in (None, "relu"):
        raise ValueError(f"--activation {activation!r} is not for res3, whose activation is ReLU; use res2.")
    factories = {
        name: partial(factory, activation=activation or "tanh")
        for name, factory in (("res1", dl.res1), ("res2", dl.res2), ("inner", dl.inner))
    }
    diagram = dl.phase_diagram(
        factories.get(network, dl.res3),
        width,
        depth,
        hurst=parse_numbers(hurst, "--hurst"),
        exponents=parse_numbers(exponents, "--exponents"),
        draws=draws,
        inputs=inputs,
        confidence=confidence,
        dtype=dtype,
        **run.arguments(),
    )
    run.finish(diagram, of=of)


@command("plot", "json", "html")
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="cohen-fig1 to cohen-fig8, marion-fig1 to marion-fig15, trained-limit, tied-initialisation,"
            " mean-field-training."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="At a reduced size: all of them in a few minutes on 2 cores.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for a PNG and a JSON per figure.")] = Path(
        "out/reproduce"
    ),
    *,
    run: Run,
) -> None:
    """Reproduce figures of Cohen et al. (2021) and Marion et al. (2025), checked against the papers.

    Without --store, figures of one call share what they train in a file that is removed in the end.

    Exit code: 0 every check passes, 1 one fails, 2 bad usage.

    Example: deeplimit reproduce --all --quick
    """
    import contextlib
    import tempfile

    from deeplimit.figures import RECIPES, reproduce as run_reproduce
    from deeplimit.ground import validation

    if every and figures:
        raise ValueError("name figures, or pass --all, not both.")
    if not every and not figures:
        raise ValueError(f"name figures ({', '.join(RECIPES)}), or pass --all.")
    names = (
        list(RECIPES)
        if every
        else [validation.choice(name, "figure", tuple(RECIPES)) for name in figures or []]
    )
    out.mkdir(parents=True, exist_ok=True)
    passed = True
    with contextlib.ExitStack() as stack:
        arguments = run.arguments()
        if arguments["store"] is None and len(names) > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            arguments["store"] = Path(folder) / "figures.sqlite"
        for name in names:
            done = run_reproduce(name, quick=quick, **arguments)
            typer.echo(str(done))  # before it is written: the disk may be full
            done.plot(out / f"{name}.png", compact=run.compact)
            done.save(out / f"{name}.json")
            passed = passed and done.passed
    typer.echo(f"{'Every check passes' if passed else 'A check FAILS'}; pictures and numbers are in {out}.")
    raise typer.Exit(0 if passed else 1)
