"""The command line: parse, call the public function, print; heavy imports wait until a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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


class OneLine(TyperGroup):
    """Ends bad usage in one line with what was typed, as every other error ends, and not in a box."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        named = {"prog_name": prog_name, "complete_var": complete_var, **extra}
        named["windows_expand_args"] = windows_expand_args
        given = sys.argv[1:] if args is None else [*args]
        if not standalone_mode or not given:  # without a command the help is shown
            return super().main(args, standalone_mode=standalone_mode, **named)
        try:
            code = super().main(args, standalone_mode=False, **named)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            path = getattr(getattr(error, "ctx", None), "command_path", "deeplimit")
            said = " ".join(error.format_message().split()).rstrip(".")
            typer.echo(f"Error: {said}{_typed(error, given)}. {path} --help lists the options.", err=True)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what an interrupted one has kept is said before it ends."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            for note in getattr(stopped, "__notes__", ()):
                typer.echo(note, err=True)
            raise


def _typed(error: Exception, args: Sequence[str]) -> str:
    """Return what was typed behind the option that an error is about, or what was taken for one, in words."""
    names = getattr(getattr(error, "param", None), "opts", ())
    short = getattr(error, "option_name", "")
    for place, text in enumerate(args):
        name, equals, value = text.partition("=")
        if name in names:
            found = value if equals else next(iter(args[place + 1 :]), None)
            return "" if found is None or repr(found) in str(error) else f", got {found!r}"
        if len(short) == 2 and text.startswith(short) and text != short:
            return f", got {text!r}"
    return ""


app = typer.Typer(
    name="deeplimit",
    cls=OneLine,
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
