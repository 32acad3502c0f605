"""`check-solver`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deeplimit.cli.options import imported
from deeplimit.cli.shared import Run, command
from deeplimit.common.depths_as_text import parse_depths

OURS = ("euler-maruyama", "milstein", "heun", "rk4")


@command("device", "workers", "dask", "store")
def check_solver(
    scheme: Annotated[
        str,
        typer.Argument(
            help=(
                "euler-maruyama, milstein, heun or rk4 of the library; torchsde:srk, torchdiffeq:rk4 and"
                " other methods of theirs; or package.module:function, solver(equation, x, brownian, times)."
            )
        ),
    ],
    problem: Annotated[
        str,
        typer.Option(
            help="A name in testing.PROBLEMS (a wrong one lists all), or package.module:object, a Problem."
        ),
    ] = "geometric Brownian motion",
    steps: Annotated[str, typer.Option(help="16:256:x2 or 16,32,64.")] = "16,32,64,128,256",
    paths: Annotated[str, typer.Option(help="Number of paths, or auto.")] = "auto",
    kind: Annotated[str, typer.Option(help="strong, path by path; or weak, of means.")] = "strong",
    order: Annotated[
        float | None, typer.Option(help="The documented order; left out: the scheme's, if it has one.")
    ] = None,
    reference: Annotated[
        str, typer.Option(help="What stands for the solution: exact, fine, none or auto.")
    ] = "auto",
    confidence: Annotated[float, typer.Option(help="Level of the order's interval.")] = 0.95,
    *,
    run: Run,
) -> None:
    """Has a solver its documented order, and is what it tends to the solution?

    Exit code: 0 documented order, faster, or measured where none is documented; 1 not the order or not the
    limit, 2 bad usage, 3 cannot tell.

    Example: deeplimit check-solver milstein --plot order.png

    Example: deeplimit check-solver torchsde:milstein --problem circle
    """
    import deeplimit as dl

    chosen = _problem(problem)
    report = dl.check_solver(
        _scheme(scheme),
        chosen.equation,
        chosen.x,
        steps=parse_depths(steps),
        paths=paths if paths == "auto" else _count(paths),
        kind=kind,
        order=order,
        reference=reference,
        seed=run.seed,
        confidence=confidence,
        progress=not run.quiet,
    )
    passed = dict.fromkeys(("documented order", "faster than documented", "measured"), 0)
    failed = dict.fromkeys(("not the documented order", "not the limit"), 1)
    run.finish(report, passed | failed | {"cannot tell": 3})


def _count(text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"--paths must be a number of paths or auto, got {text!r}.")
    return int(text)


def _scheme(text: str) -> Any:
    """Return a scheme of the library, a method's name, or the user's function."""
    import deeplimit as dl

    schemes = (dl.EulerMaruyama(), dl.Milstein(), dl.Heun(), dl.RK4())
    ours: dict[str, Any] = dict(zip(OURS, schemes, strict=True))
    if text in ours:
        return ours[text]
    package, _, name = text.partition(":")
    if name and package in ("torchsde", "torchdiffeq"):
        return text
    if not name:
        raise ValueError(
            f"SCHEME must be one of {', '.join(OURS)}, torchsde:METHOD, torchdiffeq:METHOD or"
            f" package.module:function, got {text!r}."
        )
    return imported("SCHEME", text)


def _problem(text: str) -> Any:
    from deeplimit.testing import PROBLEMS, Problem

    if text in PROBLEMS:
        return PROBLEMS[text]
    if ":" not in text:
        raise ValueError(
            f"--problem must be one of {', '.join(PROBLEMS)}, or package.module:object, got {text!r}."
        )
    found = imported("--problem", text)
    if not isinstance(found, Problem):
        raise ValueError(f"--problem {text!r} must be a testing.Problem, got {type(found).__name__}.")
    return found
