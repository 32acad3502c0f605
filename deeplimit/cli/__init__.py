"""The command line: parse, call the public function, print; heavy imports wait until a command runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from deeplimit.cli.convergence import compare, compare_laws, validate
from deeplimit.cli.diagnosis import diagnose
from deeplimit.cli.figures import demo, reproduce
from deeplimit.cli.modules import check, check_training
from deeplimit.cli.runs import runs
from deeplimit.cli.signal import phase, stability
from deeplimit.cli.solvers import check_solver
from deeplimit.cli.training import train
from deeplimit.cli.trajectories import simulate

__all__ = ["app", "command_line"]

INTERRUPTED = 130

app = typer.Typer(
    name="deeplimit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Residual networks and their infinite-depth limits: which limit, how fast, how certain.",
)


def _version(asked: bool) -> None:
    if asked:
        from deeplimit.version import __version__

        typer.echo(f"deeplimit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Residual networks and their infinite-depth limits: which limit, how fast, how certain."""


for command in (
    compare,
    compare_laws,
    validate,
    simulate,
    check_solver,
    stability,
    phase,
    check,
    check_training,
    train,
    diagnose,
    reproduce,
    demo,
    runs,
):
    app.command()(command)


def command_line() -> None:
    """Run the command that the arguments name; what Ctrl-C ends is ended at once.

    Python would wait for threads that are in the middle of a block. Their results are not wanted, and a store
    keeps whole blocks only.
    """
    try:
        app()
    except SystemExit as ending:
        if ending.code != INTERRUPTED:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
