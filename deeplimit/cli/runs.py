"""`runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deeplimit.cli.shared import stop

HEADER = f"{'key':<12}  {'done':>5}/{'total':<5}  {'version':<8}  {'begun (UTC)':<16}  what"


def runs(
    store: Annotated[Path, typer.Argument(help="The file that --store wrote.")],
    show: Annotated[
        str | None, typer.Option(help="Show the measurement with this key, its beginning, or its name.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the list, or what --show names with its blocks, here (.json or .csv)."),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(help="Remove the measurement with this key, its beginning, or its name.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, specifications too.")
    ] = False,
) -> None:
    """List what a store holds: key, finished blocks, version, date, what was measured.

    --show prints one measurement: versions, blocks, what decides its numbers. --export writes its blocks as
    they are; the call that began it, made again with the same store, merges them into its report.

    Exit code: 0, or 2 for bad usage.

    Example: deeplimit runs runs.sqlite

    Example: deeplimit runs runs.sqlite --show 3f0a --export blocks.json
    """
    import dataclasses
    from json import dumps

    from deeplimit.common import export as exporting
    from deeplimit.common.report import one_line, printable
    from deeplimit.common.store import Store

    try:
        if drop is not None and (show is not None or export is not None):
            raise ValueError("--drop removes a measurement: show or export it in a call before.")
        opened = Store(store)
        if export is not None:
            exporting.export(opened, show, export)
        lines = [] if show is None or json else [*exporting.told(opened, show)]
        one = opened.drop(drop) if drop is not None else None if show is None else opened.run(show)
        found = opened.runs() if one is None else (one,)
    except (ValueError, TypeError, OSError) as error:
        stop(error)
    if lines:
        typer.echo(printable("\n".join(lines)))
        return
    if json:
        typer.echo(dumps([dataclasses.asdict(run) for run in found], ensure_ascii=False, indent=1))
        return
    typer.echo("Removed:" if drop is not None else HEADER)
    for run in found:
        typer.echo(one_line(str(run)))
