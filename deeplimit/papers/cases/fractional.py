"""Layers that are increments of a fractional Brownian motion: the Young equation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from deeplimit.driving import FractionalBrownian
from deeplimit.equations import NeuralYoung
from deeplimit.networks.residual_network import modified_res1, res1
from deeplimit.papers.cases.case import Case, WrongTwin
from deeplimit.papers.cases.wrong_limits import with_noise_scaled

YOUNG, FIGURE_7 = "Hu, Liu & Nualart", "[M] Figure 7"
_EQUATION = r"dH = d^{-1/2}\,dB^{\mathcal{H}}\,\sigma(H)"
_EULER, _MODIFIED = "the Euler scheme", "the modified Euler scheme"


def cases() -> Iterator[Case]:
    """Yield the cases with fractional Brownian weights.

    Their networks are narrow: wider ones reach the order 2H - 1 at depths far beyond those of `validate`
    (docs/theorems/young.md).
    """
    for make, activation, width, hurst, rate, scheme in (
        (res1, "tanh", 1, 0.7, 0.4, _EULER),
        (res1, "sin", 1, 0.65, 0.3, _EULER),
        (modified_res1, "tanh", 2, 0.6, 0.7, _MODIFIED),
        (modified_res1, "sin", 2, 0.65, 0.8, _MODIFIED),
    ):
        network = make(width, activation, weights=FractionalBrownian(hurst))
        limit = cast(NeuralYoung, network.limit())
        too_small = WrongTwin(
            "noise 10 % too small",
            with_noise_scaled(limit, 0.9),
            r"dH = 0.9\,d^{-1/2}\,dB^{\mathcal{H}}\,\sigma(H)",
            "A constant factor 0.9 stays at every depth.",
        )
        yield Case(
            YOUNG,
            f"{network.recursion.name}, {activation}, d = {width}, H = {hurst:g}",
            network,
            _EQUATION,
            rate,
            f"Hu, Liu and Nualart (2016) for {scheme}, applied to networks",
            (too_small,),
            paths=2000,
        )
    weights = FractionalBrownian(0.7)
    expected = WrongTwin(
        "Young equation of β = 0.7 at β = 0.5",
        res1(1, "tanh", weights=weights).limit(),
        _EQUATION,
        "The sum of all updates grows as L^0.2.",
    )
    yield Case(
        FIGURE_7,
        "res-1, tanh, d = 1, H = 0.7, β = 0.5: explosion",
        res1(1, "tanh", weights=weights, exponent=0.5),
        r"\|h_L\| \to \infty",
        None,
        "Marion et al. (2025), Figure 7, by simulation",
        (expected,),
    )
