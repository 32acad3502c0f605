"""`diagnose`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.cli.shared import Run, command

NAMED = 6
"""Files that an error names."""
ONE_NETWORK = ("measured", "copies", "independent", "common trend", "smooth trend", "rough")


@command("device", "workers", "dask", "store", "quiet")
def diagnose(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Weights by depth, 32=a.safetensors; without number where metadata hold depth. Or one file."
        ),
    ],
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    homogeneous: Annotated[
        bool,
        typer.Option("--homogeneous", help="The activation is homogeneous, as ReLU: diagnose |δ|A and |δ|b."),
    ] = False,
    spatial: Annotated[
        str | None, typer.Option(help="Input of convolutions, HEIGHTxWIDTH: norms of linear operators.")
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Name of the layers with {} for their number, where tensors' names leave it open."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Group of each layer of one network, such as 0,0,1,1, by commas.")
    ] = None,
    *,
    run: Run,
) -> None:
    """What are trained weights as functions of depth: a trend, a trend with noise, or neither?

    A file given twice, or two files of one depth, are networks of several seeds. One file without a number
    is one network: whether the order of its layers is real, and how rough they are.

    Exit code: 0 a verdict, or one network measured, 2 bad usage, 3 cannot tell.

    Example: deeplimit diagnose 32=a.safetensors 64=b.safetensors 128=c.safetensors --html report.html
    """
    import deeplimit as dl
    from deeplimit.common import validation

    weights: dict[int, list[Path]] = {}
    one = len(files) == 1 and re.match(r"\d+=", files[0]) is None
    for text in [] if one else files:
        depth, path = _depth_and_path(text)
        weights.setdefault(depth, []).append(path)
    given: Any = files[0] if one else weights
    settings: dict[str, Any] = {
        "confidence": confidence,
        "homogeneous": homogeneous,
        "spatial": _spatial(spatial),
        "layers": layers,
        "groups": _groups(groups),
        "seed": run.seed,
    }
    pairs = [(depth, k, path) for depth, own in weights.items() for k, path in enumerate(own)]
    names = [f"weights[{depth}][{k}] is {path}" for depth, k, path in pairs[:NAMED]]
    with validation.noted(f"Here {', '.join(names) or f'weights is {given}'}."):
        report = dl.diagnose(given, **settings)
    codes = dict.fromkeys((*ONE_NETWORK, "linear-ode", "neural-ode", "sde", "sparse", "no trend"), 0)
    run.finish(report, codes | {"cannot tell": 3})


def _depth_and_path(text: str) -> tuple[int, Path]:
    """Return the depth that is given before a path, or in the file's metadata; it is never guessed."""
    from safetensors import SafetensorError, safe_open

    given = re.fullmatch(r"(\d+)=(.+)", text, re.DOTALL)
    if given is not None:
        return int(given[1]), Path(given[2])
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"FILES must be files that exist, got {text!r}.")
    told = None
    if path.suffix.lower() == ".safetensors":
        try:
            with safe_open(path, framework="pt") as opened:
                told = (opened.metadata() or {}).get("depth")
        except (OSError, SafetensorError) as error:
            raise ValueError(f"FILES must be whole, but {text!r} cannot be read: {error}.") from error
    if told is None:
        raise ValueError(
            f"FILES needs the depth of {text!r}, which its metadata do not hold: give 32={text}."
        )
    if not told.isdigit():
        raise ValueError(f"FILES must hold depth as an integer in the metadata, got {told!r} in {text!r}.")
    return int(told), path


def _groups(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if re.fullmatch(r"\d+(,\d+)*", text) is None:
        raise ValueError(f"--groups must look like 0,0,1,1, got {text!r}.")
    return [int(number) for number in text.split(",")]


def _spatial(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if found is None:
        raise ValueError(f"--spatial must look like 32x32, got {text!r}.")
    return int(found[1]), int(found[2])
