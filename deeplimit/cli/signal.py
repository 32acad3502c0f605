"""`stability` and `phase`."""

from __future__ import annotations

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
    factory_of,
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
    from deeplimit.common import validation
    from deeplimit.signal import phase_diagram

    validation.choice(of, "--of", ("hidden", "gradient"))
    diagram = phase_diagram(
        factory_of(network, activation),
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
