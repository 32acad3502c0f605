"""Options that several commands share, how their texts are read, and the networks that they describe."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplimit.common.depths_as_text import parse_depths

EXIT_CODES = {"converges": 0, "does not converge": 1, "cannot tell": 3}
MOST_NUMBERS = 1000

NETWORKS = ("res1", "res2", "res3", "inner", "prenorm")
"""What --network may be in every command that has it; `compare` takes attention, too."""
Network = Annotated[str, typer.Option(help="res1, res2, res3, inner or prenorm (RMS norm).")]
Width = Annotated[int, typer.Option(help="Width d of the hidden state.")]
ActivationName = Annotated[
    str | None,
    typer.Option(
        "--activation", help="σ of all but res3 and attention: tanh (the default), relu, softplus, sin, ..."
    ),
]
Weights = Annotated[
    str, typer.Option(help="brownian (i.i.d. Gaussian), uniform, rademacher, smooth or fractional.")
]
LengthScale = Annotated[
    float | None,
    typer.Option(help="Length scale of smooth weights, as a time on [0, 1]; 0.1 if left out."),
]
Hurst = Annotated[
    float | None, typer.Option(help="Hurst index of fractional weights, between 0 and 1; 0.7 if left out.")
]
Exponent = Annotated[
    float | None,
    typer.Option(
        help=(
            "The branch is multiplied by L^-exponent; left out: 1/2 for independent, max(H, 1/2) for"
            " fractional, 1 for smooth."
        )
    ),
]

Budget = Annotated[
    float | None,
    typer.Option(help="Seconds for a call with auto; left out: 30. It stops as soon as the verdict stands."),
]


def depths_or_auto(text: str) -> list[int] | str:
    """Return what --depths stands for: "auto", or a list of depths."""
    return "auto" if text.strip() == "auto" else parse_depths(text)


def count_or_auto(text: str | int) -> int | str:
    """Return a number of paths or draws, or "auto"; typer passes defaults here too, as they are."""
    if str(text).strip() == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither an integer nor auto.") from None


def parse_numbers(text: str, option: str) -> list[float]:
    """Return the numbers that '0.05:0.97:12' (first, last and how many) or '0.2,0.5,0.8' stand for."""
    parts = text.replace(" ", "").split(":")
    try:
        if len(parts) == 3:
            first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
            if not 2 <= count <= MOST_NUMBERS:
                raise ValueError(
                    f"{option} {text!r} asks for {count} numbers between two ends; 2 to {MOST_NUMBERS} make"
                    " sense."
                )
            return [first + (last - first) * k / (count - 1) for k in range(count)]
        if len(parts) == 1:
            return [float(item) for item in parts[0].split(",")]
    except ValueError as error:
        if option in str(error):
            raise
    raise ValueError(
        f"{option} must look like 0.05:0.97:12 (first, last, how many) or 0.2,0.5,0.8; got {text!r}."
    )


def make_network(
    name: str,
    width: int,
    activation: str | None,
    weights: str,
    length_scale: float | None,
    hurst: float | None,
    exponent: float | None,
) -> Any:
    """Return the network that the common options describe."""
    factory = factory_of(name, activation)
    return factory(width, weights=weight_law(weights, length_scale, hurst), exponent=exponent)


def weight_law(weights: str, length_scale: float | None, hurst: float | None) -> Any:
    """Return the weight law that the common options describe."""
    import deeplimit as dl
    from deeplimit.common import validation

    laws: dict[str, Callable[[], Any]] = {
        "brownian": dl.Brownian,
        "uniform": lambda: dl.IID("uniform"),
        "rademacher": lambda: dl.IID("rademacher"),
        "smooth": lambda: dl.SmoothGaussian(0.1 if length_scale is None else length_scale),
        "fractional": lambda: dl.FractionalBrownian(0.7 if hurst is None else hurst),
    }
    law: Any = laws[validation.choice(weights, "--weights", tuple(laws))]()
    for option, value, kind in (("--length-scale", length_scale, "smooth"), ("--hurst", hurst, "fractional")):
        if value is not None and weights != kind:
            raise ValueError(f"{option} is for --weights {kind}, got --weights {weights}.")
    return law


def factory_of(name: str, activation: str | None) -> Callable[..., Any]:
    """Return the function that makes the network of --network and --activation, but not attention."""
    import deeplimit as dl
    from deeplimit.common import validation

    factories: dict[str, Callable[..., Any]] = {
        "res1": dl.res1,
        "res2": dl.res2,
        "res3": dl.res3,
        "inner": dl.inner,
        "prenorm": _prenorm,
    }
    factory = factories[validation.choice(name, "--network", NETWORKS)]
    if name != "res3":
        return partial(factory, activation="tanh" if activation is None else activation)
    if activation not in (None, "relu"):
        raise ValueError(f"--activation {activation!r} is not for res3, whose activation is ReLU; use res2.")
    return factory


def _prenorm(width: int, activation: str, weights: Any, exponent: float | None) -> Any:
    import deeplimit as dl

    return dl.ResidualNetwork(dl.PreNorm(dl.activations.resolve(activation)), width, weights, exponent)  # type: ignore[arg-type]


def make_attention(
    width: int, activation: str | None, law: Any, exponent: float | None, tokens: int, kappa: float
) -> Any:
    """Return `attention` with these options."""
    import deeplimit as dl

    if activation is not None:
        raise ValueError(
            f"--activation {activation!r} is not for attention, which has a softmax alone; leave it out."
        )
    return dl.attention(width, tokens=tokens, inverse_temperature=kappa, weights=law, exponent=exponent)


def make_shaped(inputs: int, exponent: float | None, depth_to_width: float | None, slopes: str | None) -> Any:
    """Return `shaped_mlp` with these options."""
    import deeplimit as dl

    pair = (0.0, -1.0) if slopes is None else tuple(parse_numbers(slopes, "--slopes"))
    ratio = 1.0 if depth_to_width is None else depth_to_width
    return dl.shaped_mlp(inputs, depth_to_width=ratio, slopes=pair, exponent=exponent)  # type: ignore[arg-type]


def make_fully_connected(
    width: int,
    activation: str | None,
    trend: str | None,
    noise: float | None,
    bias_noise: float | None,
    alpha: float | None,
    beta: float | None,
) -> Any:
    """Return `inner` with the weights of Hypothesis 1 or 2 of Cohen et al. (2021)."""
    import deeplimit as dl

    given = None if trend is None else imported("--trend", trend)
    ito = None if noise is None and bias_noise is None else dl.Ito(A=noise, b=bias_noise)
    return dl.inner(
        width,
        activation if activation is not None else "tanh",
        trend=given,
        noise=ito,
        alpha=alpha,
        beta=beta,
    )


def imported(option: str, text: str) -> Any:
    """Return the object that `package.module:object` names; the current folder is looked into first."""
    module, _, attribute = text.partition(":")
    if not module or not attribute:
        raise ValueError(f"{option} must look like package.module:object, got {text!r}.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the user's module does when imported
        from deeplimit.common.installation import advice

        told = f"{option} {text!r} could not be loaded: {str(error).rstrip('.')}."
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            told += f" Run the command in the folder that holds {error.name}.py, or install the package."
        raise ValueError(" ".join(filter(None, (told, advice(error))))) from error
    finally:
        sys.path.remove(str(Path.cwd()))
