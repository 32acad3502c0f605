"""`compare`, `compare-laws` and `validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplimit.cli.options import (
    EXIT_CODES,
    NETWORKS,
    ActivationName,
    Budget,
    Exponent,
    Hurst,
    LengthScale,
    Weights,
    Width,
    count_or_auto,
    depths_or_auto,
    imported,
    make_attention,
    make_fully_connected,
    make_network,
    make_shaped,
    weight_law,
)
from deeplimit.cli.shared import Run, command

if TYPE_CHECKING:
    from deeplimit.networks.residual_network import ResidualNetwork
    from deeplimit.papers.scoreboard import RowResult


@command()
def compare(
    network: Annotated[
        str, typer.Option(help="res1, res2, res3, inner, prenorm (RMS) or attention.")
    ] = "res1",
    width: Width = 40,
    activation: ActivationName = None,
    weights: Weights = "brownian",
    length_scale: LengthScale = None,
    hurst: Hurst = None,
    exponent: Exponent = None,
    depths: Annotated[
        str,
        typer.Option(help="16:1024:x2, 100:500:+100, 10,15,27,100, or auto: 16:256:x2, deeper as needed."),
    ] = "auto",
    paths: Annotated[
        Any,
        typer.Option(
            parser=count_or_auto,
            metavar="INTEGER|auto",
            help="Number of independent networks, or auto: 512, more as needed.",
        ),
    ] = "auto",
    budget: Budget = None,
    norm: Annotated[
        str, typer.Option(help="sup (over layers), sup-continuous (over all times) or final.")
    ] = "sup",
    p: Annotated[float, typer.Option(help="The L^p norm over paths.")] = 2.0,
    quantity: Annotated[
        str, typer.Option(help="state, or gradient: of ½|h_L|² by the state of each layer.")
    ] = "state",
    confidence: Annotated[float, typer.Option(help="Confidence level of the order's interval.")] = 0.95,
    reference: Annotated[
        int | None,
        typer.Option(
            help="Depth of an SDE limit's grid, at least twice the deepest network; left out: chosen."
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Tolerance of an ODE limit's solver; left out: by the dtype.")
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            help=(
                "Your own limit, package.module:object: a torchsde SDE or a function f(t, h); left out: the"
                " network's."
            )
        ),
    ] = None,
    trend: Annotated[
        str | None,
        typer.Option(
            help="inner: the trend Ā, b̄ of its weights, package.module:object, a Trend; none if left out."
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(help="inner: variance of each entry of W^A per unit of time; none if left out."),
    ] = None,
    bias_noise: Annotated[
        float | None,
        typer.Option(help="inner: variance of each entry of W^b per unit of time; none if left out."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="inner with trend or noise: the branch is multiplied by L^-alpha; 0 if left out."),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(help="inner with trend or noise: the trend is multiplied by L^-beta; 1 if left out."),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="attention: number of tokens; left out: 8.")] = None,
    inverse_temperature: Annotated[
        float | None, typer.Option(help="attention: κ, the factor of scores in the softmax; left out: 1.")
    ] = None,
    coupling: Annotated[
        str, typer.Option(help="projected (products of the noise alone), pathwise (all increments) or auto.")
    ] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help="float32 or float64; left out: chosen by the weights.")
    ] = None,
    *,
    run: Run,
) -> None:
    """Compare a residual network with its infinite-depth limit: does it converge, to that limit, how fast?

    Independent layers with exponent 1/2 lead to a neural SDE (order 1/2 in 1/depth), smooth ones with
    exponent 1 to a neural ODE (order 1). With --trend, --noise or --bias-noise, inner has the weights of
    Cohen et al. (2021): a trend that shrinks with depth, plus noise; the limit is a linear ODE or an SDE. All
    depths and the limit read the same noise.

    Exit code: 0 converges, 1 does not converge, 2 bad usage, 3 cannot tell.

    Where --depths or --paths is left out or auto, the command looks at larger sizes until the verdict stands,
    or --budget seconds (30) have passed. With both given, it looks once.

    Example: deeplimit compare --network res1 --width 40 --depths 16:1024:x2 --plot p.png --json r.json

    Example: deeplimit compare --network res1 --activation relu --depths auto --paths auto --budget 30
    """
    from deeplimit.common import validation
    from deeplimit.judge.convergence import compare as run_compare

    resnet: ResidualNetwork
    validation.choice(network, "--network", (*NETWORKS, "attention"))
    if network != "attention" and (tokens is not None or inverse_temperature is not None):
        raise ValueError(f"--tokens and --inverse-temperature are for --network attention, got {network}.")
    if any(value is not None for value in (trend, noise, bias_noise, alpha, beta)):
        if network != "inner" or weights != "brownian" or exponent is not None:
            raise ValueError(
                "--trend, --noise, --bias-noise, --alpha and --beta are for --network inner, with no"
                " --weights or --exponent."
            )
        resnet = make_fully_connected(width, activation, trend, noise, bias_noise, alpha, beta)
    elif network == "attention":
        law, kappa = weight_law(weights, length_scale, hurst), inverse_temperature
        number, factor = 8 if tokens is None else tokens, 1.0 if kappa is None else kappa
        resnet = make_attention(width, activation, law, exponent, number, factor)
    else:
        resnet = make_network(network, width, activation, weights, length_scale, hurst, exponent)
    report = run_compare(
        resnet,
        None if limit is None else imported("--limit", limit),
        depths=depths_or_auto(depths),
        paths=paths,
        budget=budget,
        norm=norm,
        p=p,
        quantity=quantity,
        confidence=confidence,
        reference=reference,
        tolerance=tolerance,
        coupling=coupling,
        dtype=dtype,
        **run.arguments(),
    )
    run.finish(report, EXIT_CODES)


@command()
def compare_laws(
    network: Annotated[str, typer.Option(help="res1, res2, res3, inner, prenorm or shaped.")] = "res3",
    width: Annotated[int, typer.Option(help="Width d of the hidden state; of shaped, its inputs.")] = 40,
    activation: ActivationName = None,
    weights: Annotated[
        str, typer.Option(help="brownian (i.i.d. Gaussian), uniform or rademacher.")
    ] = "brownian",
    exponent: Annotated[
        float | None,
        typer.Option(help="The branch is multiplied by L^-exponent; left out: the critical one."),
    ] = None,
    depths: Annotated[
        str, typer.Option(help="8:128:x2, 10:50:+10, 8,16,32 (three or more), or auto: deeper as needed.")
    ] = "auto",
    draws: Annotated[
        Any,
        typer.Option(
            parser=count_or_auto, metavar="INTEGER|auto", help="Independent draws of each law, or auto."
        ),
    ] = "auto",
    budget: Budget = None,
    level: Annotated[
        float, typer.Option(help="Probability of a false alarm in any of the tests and in the verdict.")
    ] = 1e-3,
    tolerance: Annotated[
        float, typer.Option(help="Differences that count as none, in standard deviations of the limit.")
    ] = 0.1,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the scheme of a limit that cannot be drawn exactly; left out: chosen."),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            help=(
                "Your own limit, package.module:object: a torchsde SDE or a LawLimit; left out: the"
                " network's."
            )
        ),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 (the default) or float64.")] = None,
    depth_to_width: Annotated[
        float | None, typer.Option(help="shaped: depth over width, by which depths are divided; left out: 1.")
    ] = None,
    slopes: Annotated[
        str | None, typer.Option(help="shaped: c₊ and c₋ of its activation, such as 0,-1 (left out).")
    ] = None,
    *,
    run: Run,
) -> None:
    """Compare the law of a network's last state with that of its limit, from independent draws.

    For networks with independent layers: res3, res2 with --activation relu, or res1 with weights of any law;
    and for shaped networks, whose width grows with the depth. Nothing is coupled, so it gives no order.

    Exit code: 0 same law, 1 another law, 2 bad usage, 3 cannot tell.

    Example: deeplimit compare-laws --network res3 --width 8 --plot laws.png --html laws.html
    """
    from deeplimit.judge.in_law import compare_laws as run_compare_laws

    if network == "shaped":
        if activation is not None or weights != "brownian":
            raise ValueError("--network shaped has Gaussian weights and --slopes: leave out the others.")
        resnet = make_shaped(width, exponent, depth_to_width, slopes)
    else:
        if depth_to_width is not None or slopes is not None:
            raise ValueError(f"--depth-to-width and --slopes are for --network shaped, got {network}.")
        resnet = make_network(network, width, activation, weights, None, None, exponent)
    report = run_compare_laws(
        resnet,
        None if limit is None else imported("--limit", limit),
        depths=depths_or_auto(depths),
        draws=draws,
        budget=budget,
        level=level,
        tolerance=tolerance,
        steps=steps,
        dtype=dtype,
        **run.arguments(),
    )
    run.finish(report, {"same law": 0, "another law": 1, "cannot tell": 3})


@command("quiet")
def validate(
    quick: Annotated[
        bool, typer.Option("--quick", help="Depths up to 512: some ten minutes on 2 cores.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows whose name has this text, such as 'Thm 4.3'.")
    ] = None,
    *,
    run: Run,
) -> None:
    """Check every theorem numerically, together with a deliberately wrong limit that must be rejected.

    The file of --json is written after every row; rows that it holds are not run again. In names of rows,
    \\[M] is Marion et al. (2025) and \\[C] Cohen et al. (2021).

    Exit code: 0 every row agrees and every control is caught, 1 a row disagrees, 2 bad usage, 3 cannot tell.

    Example: deeplimit validate --quick --json board.json --plot board.png
    """
    from deeplimit.papers.scoreboard import validate as run_validate
    from deeplimit.papers.scoreboard.report import table_of

    header = table_of(()).lines()

    def show(row: RowResult) -> None:
        while header:  # it waits for the first row, so that bad usage prints one line and no more
            run.say(header.pop())
        run.say(str(row))

    shared = {**run.arguments(), "progress": None}  # the rows show it
    resume = None if run.pipes else run.json  # which is written by it
    board = run_validate(quick=quick, only=only, resume=resume, on_row=show, **shared)
    run.say("\n".join(["", *board.troubles(), board.headline]))
    if run.pipes:
        run.write_json(board)
    if run.plot is not None:
        board.plot(run.plot, compact=run.compact)
    if run.html is not None:
        board.save_html(run.html)
    raise typer.Exit({"agrees": 0, "disagrees": 1, "cannot tell": 3}[board.verdict])
