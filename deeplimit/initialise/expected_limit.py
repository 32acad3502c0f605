"""Where weights with one law across the layers and a residual exponent lead: what is proved, and for what.

Everything is read off the facts of the law. The papers prove limits for their own recursions only; for a
module they say which scaling to expect.
"""

from __future__ import annotations

from deeplimit.theory.regime import Regime
from deeplimit.weights import Dependence, Facts, WeightLaw

MARION = "of Marion et al. (2025)"
FIGURE = f"Figure 7 {MARION}, for res-3"
HU_LIU_NUALART = "Hu, Liu and Nualart (2016)"
CAVEAT = (
    "The theorems hold for the papers' recursions h + L^-exponent V σ(W h), with nothing else in a layer."
    " A module with normalisation, attention, convolutions or biases should be scaled like this, but"
    " no theorem says that its limit exists."
)


def expected_limit(law: WeightLaw, exponent: float) -> Regime:
    """Return where deep residual branches with such weights lead: proved for recursions, a guide for modules.

    `law` is one that `filling.law_across_layers` accepts.
    """
    facts = law.facts
    critical = law.critical_exponent
    side = 0 if abs(exponent - critical) < 1e-9 else 1 if exponent > critical else -1
    if facts.dependence == Dependence.INDEPENDENT:
        found = _independent(facts, exponent, side)
    elif facts.dependence == Dependence.FRACTIONAL:
        found = _fractional(facts, exponent, side, critical)
    elif facts.dependence == Dependence.SMOOTH:
        found = _smooth(exponent, side)
    else:
        found = "no theorem", None, None, f"No theorem covers {law.describe()}."
    name, theorem, convergence, explanation = found
    unknown = f" Not known of this law: {', '.join(facts.not_known)}." if facts.not_known else ""
    closest = "" if name in ("sde", "ode", "young") else f"the same law with exponent={critical:g}."
    return Regime(name, theorem, None, convergence, f"{explanation}{unknown} {CAVEAT}", closest)


def unscaled(law: WeightLaw) -> Regime:
    """Return what is said of the exponent 0: right within a branch, whose output projection has the scale."""
    return Regime(
        "unscaled",
        None,
        None,
        None,
        "These weights have no residual scale. Within a branch that is right: the exponent of the output"
        " projection decides. An output projection without a scale makes the hidden state explode with"
        f" {law.describe()}. {CAVEAT}",
    )


Said = tuple[str, str | None, str | None, str]
"""Name of the regime, theorem, kind of convergence, explanation."""


def _independent(facts: Facts, exponent: float, side: int) -> Said:
    if side > 0:
        return (
            "identity",
            f"Corollary 5 {MARION}",
            "pathwise",
            f"With the exponent {exponent:g} > 1/2 the sum of all independent layers vanishes as the depth"
            " grows: the branches together tend to the identity.",
        )
    if side < 0:
        return (
            "explosion",
            f"Corollary 5 {MARION}",
            None,
            f"With the exponent {exponent:g} < 1/2 independent layers make the hidden state grow without"
            " bound: exponentially in a power of the depth where a branch grows with its input, like L^(1/2"
            " - exponent) where its input is normalised.",
        )
    return (
        "sde",
        f"Proposition 11 {MARION}" + ("" if facts.gaussian else ", by Donsker's invariance principle"),
        "pathwise" if facts.gaussian else "in law",
        "Independent layers with the critical exponent 1/2 tend to a stochastic differential equation."
        " Proposition 11 proves it for res-1, h + L^-1/2 V σ(h), with Gaussian V and Lipschitz σ. With two"
        " matrices per branch, or weights that are not Gaussian, the convergence is in law.",
    )


def _smooth(exponent: float, side: int) -> Said:
    if side > 0:
        return (
            "identity",
            f"Proposition 13 {MARION}",
            "pathwise",
            f"With the exponent {exponent:g} > 1 the sum of all smooth layers vanishes as the depth grows:"
            " the branches together tend to the identity.",
        )
    if side < 0:
        return (
            "explosion",
            f"Proposition 14 {MARION}",
            None,
            "Layers that are smooth in depth add up coherently, and the exponent"
            f" {exponent:g} < 1 is too small for that. Proposition 14 proves explosion for res-1 with the"
            " identity as activation; other branches may explode, saturate or contract.",
        )
    return (
        "ode",
        f"Proposition 12 {MARION}",
        "pathwise",
        "Layers that are smooth in depth, with the critical exponent 1, tend to an ordinary differential"
        " equation if all weights of a branch are smooth.",
    )


def _fractional(facts: Facts, exponent: float, side: int, critical: float) -> Said:
    weights = f"fractional Brownian weights (H = {facts.hurst:g})"
    if side > 0:
        return (
            "identity",
            None,
            None,
            f"With {weights} and the exponent {exponent:g} > max(H, 1/2) = {critical:g} the branches"
            f" together tend to the identity, by simulation ({FIGURE}), without a theorem.",
        )
    below = facts.hurst is not None and facts.hurst < 0.5
    if side < 0:
        contracting = (
            " Where weights enter linearly, as in res-1, layers with H < 1/2 nearly cancel and may contract."
        )
        return (
            "explosion",
            None,
            None,
            f"With {weights} and the exponent {exponent:g} < max(H, 1/2) = {critical:g} the hidden state"
            f" grows without bound, by simulation ({FIGURE}), without a"
            f" theorem.{contracting if below else ''}",
        )
    if below:
        return (
            "no theorem",
            None,
            None,
            f"Layers with H = {facts.hurst:g} are negatively correlated. By simulation ({FIGURE}) 1/2 is the"
            " critical exponent: neither explosion nor identity. No theorem names a limit; Young's integral"
            " needs H > 1/2.",
        )
    return (
        "young",
        f"{HU_LIU_NUALART} for the Euler scheme, applied to res-1",
        "pathwise",
        f"With {weights} and the exponent H, res-1, h + L^-H V σ(h), tends to a Young equation for smooth"
        " σ. With two matrices per branch no theorem is known. Simulations find the critical exponent H"
        f" where an activation stands between the matrices ({FIGURE}). Where none does, as for the values"
        " of attention, layers add up only like L^max(2H - 1, 1/2).",
    )
