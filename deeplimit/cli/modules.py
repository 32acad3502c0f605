"""`check`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.options import imported
from deeplimit.cli.shared import Run, command
from deeplimit.common.depths_as_text import parse_depths

CODES = {"as expected": 0, "measured": 0, "not as expected": 1, "cannot tell": 3}


@command()
def check(
    factory: Annotated[str, typer.Argument(help="package.module:function, a function depth -> nn.Module.")],
    depths: Annotated[str, typer.Option(help="4:32:x2 or 4,8,16,32.")] = "4,8,16,32",
    expected: Annotated[
        str | None,
        typer.Option(
            help=(
                "An exponent (0.5, 1), a rule (gpt-2, completep, mitchell; a wrong name lists all), or"
                " auto: the rule that fits best; with --train completep or depth-mup; left out: measure only."
            )
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help=(
                "tokens:BATCHxLENGTH:VOCABULARY, normal:SIZExSIZE..., or package.module:function that returns"
                " a batch; "
                "left out: made up from the module's configuration or first layer."
            )
        ),
    ] = None,
    blocks: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of module names, such as 'model.layers.*'; may be repeated."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="How far an exponent may lie from the expected one; left out: 0.1, with --train 0.2."
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Joint confidence level of the exponents' intervals.")
    ] = 0.99,
    train: Annotated[
        bool, typer.Option("--train", help="Check a few training steps, too: do learning rates carry over?")
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(help="With --train: package.module:function, (model, depth) -> torch.optim.Optimizer."),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="package.module:function, the model's output -> a scalar tensor; left out: made up."
        ),
    ] = None,
    steps: Annotated[str, typer.Option(help="With --train: numbers of steps, 1,4.")] = "1,4",
    widths: Annotated[
        str | None,
        typer.Option(help="With --train: 64,128,256, and factory(depth, width); the check in width, too."),
    ] = None,
    rate_factors: Annotated[
        str | None,
        typer.Option(
            help="With --train: 0.1,0.3,1,3,10, factors of the learning rates; the best over depths."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="With --train: networks per depth.")] = 4,
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

    Example: deeplimit check mypkg.models:make --train --optimizer mypkg.models:adam --expected completep
    """
    import deeplimit as dl
    from deeplimit.cli import continuous_integration as reviewed
    from deeplimit.common import files, validation

    if sarif is not None:
        validation.writable_file(sarif, "--sarif", (".sarif", ".json"))
    shared = run.arguments()
    # The factory's name stands for what it builds, in the current folder's code, files and settings.
    shared["store"] = None if run.store is None else dl.Store(run.store, f"check {factory}")
    shared["device"] = None if run.device == "cpu" else run.device
    levels = parse_depths(depths)
    if train != (optimizer is not None):
        raise ValueError(
            "--train needs --optimizer package.module:function, a function (model, depth) ->"
            " torch.optim.Optimizer."
            if train
            else f"--optimizer {optimizer} is used with --train only, got no --train."
        )
    build = imported("FACTORY", factory)
    asked: dict[str, Any] = {
        "batch": _batch(batch, run.seed),
        "expected": _expected(expected),
        "blocks": blocks or None,
        "loss": None if loss is None else imported("--loss", loss),
        "confidence": confidence,
        **({} if tolerance is None else {"tolerance": tolerance}),
        **shared,
    }
    try:
        if optimizer is None:
            report: Any = dl.check_depth(build, levels, **asked)
        else:
            report = dl.check_training(
                build,
                levels,
                optimizer=imported("--optimizer", optimizer),
                steps=_numbers(steps, "--steps", int, "1,4"),
                widths=None if widths is None else _numbers(widths, "--widths", int, "64,128,256"),
                rate_factors=(
                    None
                    if rate_factors is None
                    else _numbers(rate_factors, "--rate-factors", float, "0.1,0.3,1,3,10")
                ),
                seeds=seeds,
                **asked,
            )
    except Exception as error:  # whatever the user's module does when it is built and run
        raise _noted(error) from error
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
    raise typer.Exit(CODES[report.verdict])


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
