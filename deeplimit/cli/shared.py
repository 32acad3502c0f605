"""What all commands that take time share: their options, how errors end, where results go."""

from __future__ import annotations

import functools
import inspect
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer

BAD_USAGE = 2
STANDARD_OUTPUT = ("-", "/dev/stdout")


@dataclass(frozen=True)
class Run:
    """The shared options of one call, in the order in which `--help` lists them."""

    seed: Annotated[int, typer.Option(help="Everything random derives from it.")] = 0
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu"
    workers: Annotated[
        int | None, typer.Option(help="Number of threads; left out: one per core. Changes no number.")
    ] = None
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers compute, tcp://host:8786.")
    ] = None
    store: Annotated[
        Path | None,
        typer.Option(help="File that keeps finished blocks; called again, only what is missing is computed."),
    ] = None
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the figure here (.png, .pdf or .svg).")
    ] = None
    compact: Annotated[
        bool, typer.Option("--compact", help="Pictures as wide as a journal's column, 3.3 inches.")
    ] = False
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", help="Write the report here (.json). - is standard output; the text goes to errors."
        ),
    ] = None
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained page here (.html).")
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code an error came from.")
    ] = False
    executor: Any = None  # of the Dask scheduler

    def arguments(self) -> dict[str, Any]:
        """Return what every function that takes time takes."""
        return {
            "seed": self.seed,
            "device": self.device,
            "workers": self.workers,
            "executor": self.executor,
            "store": self.store,
            "progress": not self.quiet,
        }

    @property
    def pipes(self) -> bool:
        """Whether --json names standard output, or another pipe or device, and no file."""
        if str(self.json) in STANDARD_OUTPUT:
            return True
        if self.json is None:
            return False
        try:
            mode = self.json.stat().st_mode
        except OSError:  # there is no such thing yet
            return False
        return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)

    def say(self, text: str) -> None:
        """Print text, to standard error where standard output is for the JSON alone."""
        typer.echo(text, err=str(self.json) in STANDARD_OUTPUT)

    def write_json(self, report: Any) -> None:
        """Write the numbers where --json says, if it was given."""
        if str(self.json) in STANDARD_OUTPUT:
            typer.echo(report.to_json(), nl=False)
        elif self.json is not None and self.pipes:
            self.json.write_text(report.to_json(), encoding="utf-8")
        elif self.json is not None:
            report.save(self.json)

    def finish(self, report: Any, codes: Mapping[str, int] | None = None, **drawing: Any) -> None:
        """Print the report, write the numbers, the picture and the page, and leave with its verdict's code.

        It is printed first: where the disk is full, the result is on the screen at least.
        """
        self.say(str(report))
        self.write_json(report)
        if self.plot is not None:
            report.plot(self.plot, compact=self.compact, **drawing)
        if self.html is not None:
            report.save_html(self.html)
        if codes is not None:
            raise typer.Exit(codes[report.verdict])


NAMES = tuple(name for name in get_type_hints(Run) if name != "executor")


def command(
    *without: str, errors: tuple[type[Exception], ...] = (ValueError, TypeError, RuntimeError, OSError)
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function whose argument `run` is a `Run`: the shared options take its place.

    `without` names those that the command does not have; `errors` are told in one line.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        shared = get_type_hints(Run, include_extras=True)
        names = [name for name in NAMES if name not in without]
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "run"]
        parameters = [each.replace(annotation=hints[each.name]) for each in parameters]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters += [
            inspect.Parameter(name, kind, default=getattr(Run, name), annotation=shared[name])
            for name in names
        ]

        @functools.wraps(function)
        def wrapped(**values: Any) -> None:
            run = Run(**{name: values.pop(name) for name in names})
            try:
                _check_files(run)
                with _executor_at(run.dask) as executor:
                    function(**values, run=Run(**{**vars(run), "executor": executor}))
            except typer.Exit:
                raise
            except Exception as error:
                if run.traceback:
                    raise
                stop(error, expected=isinstance(error, errors))

        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
        del wrapped.__wrapped__
        return wrapped

    return decorated


def _check_files(run: Run) -> None:
    """Refuse files that cannot be written before any work is done for them."""
    from deeplimit.common import axes, validation

    if run.plot is not None:
        validation.writable_file(run.plot, "--plot", axes.SUFFIXES)
    if run.json is not None and not run.pipes:
        validation.writable_file(run.json, "--json", (".json",))
    if run.html is not None:
        validation.writable_file(run.html, "--html", (".html",))


@contextmanager
def _executor_at(address: str | None) -> Iterator[Any]:
    """Yield an executor over the workers of a Dask scheduler; None without an address."""
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError as error:
        raise ValueError("--dask needs Dask: pip install 'deeplimit[distributed]'.") from error
    try:
        client: Any = distributed.Client(address, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ValueError(f"--dask {address!r} has no Dask scheduler that answers: {error}.") from error
    with client:
        yield client.get_executor()


def stop(error: Exception, expected: bool = True) -> NoReturn:
    """Print what went wrong in a line, and leave with the code for bad usage."""
    told = " ".join([str(error), *getattr(error, "__notes__", ())])
    from deeplimit.common.report import printable

    if not expected:
        told = f"{type(error).__name__}: {told} (--traceback shows where it comes from)"
    typer.echo(f"Error: {printable(told)}", err=True)
    raise typer.Exit(BAD_USAGE)
