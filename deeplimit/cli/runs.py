"""`runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplimit.cli.shared import stop

HEADER = f"{'key':<12}  {'done':>5}/{'total':<5}  {'version':<8}  {'begun (UTC)':<16}  what"


def runs(
    store: Annotated[Path, typer.Argument(help="The file that --store wrote.")],
    drop: Annotated[
        str | None, typer.Option(help="Remove the measurement with this key, its beginning, or its name.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, specifications too.")
    ] = False,
) -> None:
    """List what a store holds: key, finished blocks, version, date, what was measured.

    Exit code: 0, or 2 for bad usage.

    Example: deeplimit runs runs.sqlite
    """
    import dataclasses
    from json import dumps

    from deeplimit.ground.store import Store

    try:
        opened = Store(store)
        found = opened.runs() if drop is None else (opened.drop(drop),)
    except (ValueError, TypeError, OSError) as error:
        stop(error)
    if json:
        typer.echo(dumps([dataclasses.asdict(run) for run in found], ensure_ascii=False, indent=1))
        return
    typer.echo("Removed:" if drop is not None else HEADER)
    for run in found:
        typer.echo(str(run))
