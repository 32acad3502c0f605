"""Where a law across the layers and a residual exponent lead, said of modules: what is proved, for what,
and what is not.
"""

from __future__ import annotations

from deeplimit.theory.regime import Regime
from deeplimit.weights import FractionalBrownian, IncrementProcess, Process

MARION = "of Marion et al. (2025)"
HU_LIU_NUALART = "Hu, Liu and Nualart (2016)"
CAVEAT = (
    "Proved, where it is, for the recursions h + L^-exponent V σ(W h) of the papers and nothing else in a"
    " layer; for modules with normalisation, attention, convolutions or biases it says which scaling to"
    " expect, not that this limit exists."
)


def outlook(process: Process, exponent: float) -> Regime:
    """Return what deep residual branches with such weights tend to: the papers' recursions provably,
    modules by analogy.

    `process` is a law that `tiles.law_across_layers` accepts.
    """
    if isinstance(process, IncrementProcess):
        return _independent(process, exponent)
    if isinstance(process, FractionalBrownian):
        return _fractional(process, exponent)
    return _smooth(exponent)


def without_scale(process: Process) -> Regime:
    """Return what is said of weights with the exponent 0: they may lie within a branch, whose output
    decides.
    """
    return Regime(
        "unscaled",
        None,
        None,
        None,
        "no residual scale. Within a branch that is right, and the exponent of the output projection"
        f" decides; an output projection without it makes the hidden state explode with {process.describe()}."
        f" {CAVEAT}",
    )


def _side(exponent: float, critical: float) -> int:
    return 0 if abs(exponent - critical) < 1e-9 else 1 if exponent > critical else -1


def _regime(
    name: str, theorem: str | None, convergence: str | None, explanation: str, critical: float
) -> Regime:
    closest = "" if name in ("sde", "ode", "young") else f"the same law with exponent={critical:g}."
    return Regime(name, theorem, None, convergence, f"{explanation} {CAVEAT}", closest)


def _independent(process: IncrementProcess, exponent: float) -> Regime:
    side = _side(exponent, 0.5)
    if side > 0:
        return _regime(
            "identity",
            f"Corollary 5 {MARION}",
            "pathwise",
            f"independent layers with the exponent {exponent:g} > 1/2 add up to nothing as the depth grows:"
            " the branches together tend to the identity.",
            0.5,
        )
    if side < 0:
        return _regime(
            "explosion",
            f"Corollary 5 {MARION}",
            None,
            f"independent layers with the exponent {exponent:g} < 1/2 make the hidden state grow without"
            " bound: exponentially in a power of the depth where a branch grows with its input, like L^(1/2"
            " - exponent) where it is normalised first.",
            0.5,
        )
    gaussian = process.is_gaussian
    return _regime(
        "sde",
        f"Proposition 11 {MARION}" + ("" if gaussian else ", by Donsker's invariance principle"),
        "pathwise" if gaussian else "in law",
        "independent layers with the critical exponent 1/2 tend to a stochastic differential equation."
        " Proposition 11 proves it for res-1, h + L^-1/2 V σ(h), with Gaussian V and Lipschitz σ; with two"
        " matrices a branch, or another law, the limit is one in law.",
        0.5,
    )


def _smooth(exponent: float) -> Regime:
    side = _side(exponent, 1.0)
    if side > 0:
        return _regime(
            "identity",
            f"Proposition 13 {MARION}",
            "pathwise",
            f"weights that are smooth in the layer with the exponent {exponent:g} > 1: the branches "
            "together tend to the identity.",
            1.0,
        )
    if side < 0:
        return _regime(
            "explosion",
            f"Proposition 14 {MARION}",
            None,
            f"weights that are smooth in the layer add up coherently, too much with the exponent {exponent:g}"
            " < 1. Proposition 14 proves explosion for res-1 with the identity as activation; other branches"
            " may explode, saturate or contract.",
            1.0,
        )
    return _regime(
        "ode",
        f"Proposition 12 {MARION}",
        "pathwise",
        "weights that are smooth in the layer with the critical exponent 1 tend to an ordinary differential"
        " equation, if all the weights of a branch are smooth.",
        1.0,
    )


def _fractional(process: FractionalBrownian, exponent: float) -> Regime:
    hurst = float(process.hurst)
    critical = process.critical_exponent
    side = _side(exponent, critical)
    figure = f"Figure 7 {MARION}, for res-3"
    if side > 0:
        return _regime(
            "identity",
            None,
            None,
            f"fractional Brownian weights (H = {hurst:g}) with the exponent {exponent:g} > max(H, 1/2) ="
            f" {critical:g}: the branches together tend to the identity, by simulation ({figure}), without a"
            " theorem.",
            critical,
        )
    if side < 0:
        return _regime(
            "explosion",
            None,
            None,
            f"fractional Brownian weights (H = {hurst:g}) with the exponent {exponent:g} < max(H, 1/2) ="
            f" {critical:g}: the hidden state grows without bound, by simulation ({figure}), without a"
            " theorem."
            + (
                " Where weights enter linearly, as in res-1, layers with H < 1/2 nearly cancel and may"
                " contract." * (hurst < 0.5)
            ),
            critical,
        )
    if hurst < 0.5:
        return _regime(
            "no theorem",
            None,
            None,
            f"negatively correlated layers (H = {hurst:g}) with the exponent 1/2, which is the critical one"
            f" by simulation ({figure}): neither explosion nor identity. No theorem names a limit; Young's"
            " integral needs H > 1/2.",
            critical,
        )
    return _regime(
        "young",
        f"{HU_LIU_NUALART} for the Euler scheme, applied to res-1",
        "pathwise",
        f"fractional Brownian weights (H = {hurst:g}) with the exponent H tend to a Young equation in res-1,"
        " h + L^-H V σ(h), for smooth σ. With two matrices a branch no theorem is known: simulations find"
        f" the critical exponent H where an activation is between them ({figure}); where none is, as for the"
        " values of attention, layers add up like L^max(2H - 1, 1/2) only.",
        critical,
    )
