"""`check` and `check-training`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.options import imported
from deeplimit.cli.shared import Run, command
from deeplimit.common.depths_as_text import parse_depths

EXIT_CODES = {"as expected": 0, "measured": 0, "not as expected": 1, "cannot tell": 3}

Factory = Annotated[str, typer.Argument(help="package.module:function, a function depth -> nn.Module.")]
Depths = Annotated[str, typer.Option(help="4:32:x2 or 4,8,16,32.")]
Batch = Annotated[
    str | None,
    typer.Option(
        help=(
            "tokens:BATCHxLENGTH:VOCABULARY, normal:SIZExSIZE..., or package.module:function that returns a"
            " batch; left out: made up from the module's configuration or first layer."
        )
    ),
]
Blocks = Annotated[
    list[str] | None,
    typer.Option(help="Pattern of module names, such as 'model.layers.*'; may be repeated."),
]
Tolerance = Annotated[float, typer.Option(help="How far an exponent may lie from the expected one.")]
Confidence = Annotated[float, typer.Option(help="Joint confidence level of the exponents' intervals.")]
Loss = Annotated[
    str | None,
    typer.Option(help="package.module:function, the model's output -> a scalar tensor; left out: made up."),
]


@command()
def check(
    factory: Factory,
    depths: Depths = "4,8,16,32",
    expected: Annotated[
        str | None,
        typer.Option(
            help=(
                "An exponent (0.5, 1), a rule (gpt-2, completep, mitchell; a wrong name lists all), or"
                " auto: the rule that fits best; left out: measure only."
            )
        ),
    ] = None,
    batch: Batch = None,
    blocks: Blocks = None,
    tolerance: Tolerance = 0.1,
    confidence: Confidence = 0.99,
    loss: Loss = None,
    sarif: Annotated[
        Path | None,
        typer.Option("--sarif", help="Write the findings here as SARIF 2.1.0, for code scanning (.sarif)."),
    ] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Print the findings as annotations of GitHub Actions, too.")
    ] = False,
    *,
    run: Run,
) -> None:
    """Do a module's residual branches scale with depth as intended? Answered in seconds, before training.

    Exit code: 0 as expected (or nothing was expected), 1 not as expected, 2 bad usage, 3 cannot tell.

    Example: deeplimit check mypkg.models:make_model --depths 4,8,16,32 --expected 0.5 --html report.html
    """
    import deeplimit as dl
    from deeplimit.cli import continuous_integration as reviewed
    from deeplimit.common import files, validation

    if sarif is not None:
        validation.writable_file(sarif, "--sarif", (".sarif", ".json"))
    shared = _shared(run, f"check {factory}")
    build = imported("FACTORY", factory)
    report = _called(
        dl.check_depth,
        build,
        parse_depths(depths),
        batch=_batch(batch, run.seed),
        expected=_expected(expected),
        blocks=blocks or None,
        tolerance=tolerance,
        confidence=confidence,
        loss=None if loss is None else imported("--loss", loss),
        **shared,
    )
    source = reviewed.source_of(build, factory)
    if annotations:
        with reviewed.without_commands(run.say):
            run.finish(report)
        for line in reviewed.workflow_commands(report, source):
            run.say(line)
    else:
        run.finish(report)
    if sarif is not None:
        with files.whole_file(sarif) as place:
            place.write_text(reviewed.sarif(report, source), encoding="utf-8")
    raise typer.Exit(EXIT_CODES[report.verdict])


@command()
def check_training(
    factory: Factory,
    optimizer: Annotated[
        str, typer.Option(help="package.module:function, (model, depth) -> torch.optim.Optimizer.")
    ],
    depths: Depths = "4,8,16,32",
    expected: Annotated[
        str | None, typer.Option(help="completep or depth-mup; left out: measure only.")
    ] = None,
    batch: Batch = None,
    blocks: Blocks = None,
    loss: Loss = None,
    steps: Annotated[str, typer.Option(help="Numbers of steps, 1,4.")] = "1,4",
    widths: Annotated[
        str | None, typer.Option(help="64,128,256, and factory(depth, width); the check in width, too.")
    ] = None,
    rate_factors: Annotated[
        str | None,
        typer.Option(help="0.1,0.3,1,3,10, factors of the learning rates; the best over depths."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Networks per depth.")] = 4,
    tolerance: Tolerance = 0.2,
    confidence: Confidence = 0.99,
    *,
    run: Run,
) -> None:
    """Do learning rates carry over from one depth to another? Trains a few steps at several depths.

    Exit code: 0 as expected (or nothing was expected), 1 not as expected, 2 bad usage, 3 cannot tell.

    Example: deeplimit check-training mypkg.models:make --optimizer mypkg.models:adam --expected completep
    """
    import deeplimit as dl

    shared = _shared(run, f"check-training {factory}")
    report = _called(
        dl.check_training,
        imported("FACTORY", factory),
        parse_depths(depths),
        optimizer=imported("--optimizer", optimizer),
        batch=_batch(batch, run.seed),
        loss=None if loss is None else imported("--loss", loss),
        steps=_numbers(steps, "--steps", int, "1,4"),
        expected=expected,
        blocks=blocks or None,
        widths=None if widths is None else _numbers(widths, "--widths", int, "64,128,256"),
        rate_factors=(
            None
            if rate_factors is None
            else _numbers(rate_factors, "--rate-factors", float, "0.1,0.3,1,3,10")
        ),
        seeds=seeds,
        tolerance=tolerance,
        confidence=confidence,
        **shared,
    )
    run.finish(report, EXIT_CODES)


def _shared(run: Run, name: str) -> dict[str, Any]:
    """Return the shared arguments; in a store `name` stands for what the factory builds."""
    import deeplimit as dl

    return run.arguments() | {
        "store": None if run.store is None else dl.Store(run.store, name),
        "device": None if run.device == "cpu" else run.device,
    }


def _called(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return what a function returns; what a user's module raises has its notes in its message."""
    try:
        return function(*given, **named)
    except Exception as error:  # whatever the user's module does when it is built and run
        raise _noted(error) from error


def _noted(error: Exception) -> Exception:
    """Return the error with its notes in its message, since only that is printed."""
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", []))
    kind = "" if isinstance(error, (ValueError, TypeError)) else f"{type(error).__name__}: "
    message = f"{kind}{error}".rstrip()
    return ValueError(f"{message.rstrip('.')}.{notes}" if notes else message)


def _numbers(text: str, option: str, kind: type[int] | type[float], example: str) -> list[Any]:
    """Return numbers of one type that commas separate."""
    try:
        return [kind(item) for item in text.split(",")]
    except ValueError:
        what = "integers" if kind is int else "numbers"
        raise ValueError(
            f"{option} must be {what} separated by commas, such as {example}; got {text!r}."
        ) from None


def _expected(text: str | None) -> float | str | None:
    """Return --expected as a number where it is one."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _batch(text: str | None, seed: int) -> Any:
    """Return the batch that --batch describes."""
    import torch

    if text is None:
        return None
    generator = torch.Generator().manual_seed(seed % 2**64)
    tokens = re.fullmatch(r"tokens:(\d+)x(\d+):(\d+)", text)
    if tokens is not None:
        rows, length, vocabulary = (int(item) for item in tokens.groups())
        return torch.randint(0, vocabulary, (rows, length), generator=generator)
    normal = re.fullmatch(r"normal:(\d+(?:x\d+)*)", text)
    if normal is not None:
        return torch.randn([int(item) for item in normal[1].split("x")], generator=generator)
    if text.startswith(("tokens:", "normal:")):
        raise ValueError(f"--batch must look like tokens:2x64:50257 or normal:4x3x32x32, got {text!r}.")
    return imported("--batch", text)
