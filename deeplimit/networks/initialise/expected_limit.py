"""What the theorem table says of a stand-in recursion with a module's weights: a guide for the module.

The papers prove limits for their own recursions only. For a module they say which scaling to expect.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from deeplimit.driving import Dependence, Facts, WeightLaw, critical_exponent, together
from deeplimit.layers import Recursion, Res1, Res3, activations
from deeplimit.theory import Regime, find, theorem
from deeplimit.theory.fractional_weights import EULER_SCHEME

CAVEAT = (
    "The theorems hold for the papers' recursions h + L^-exponent V σ(W h), with nothing else in a layer."
    " A module with normalisation, attention, convolutions or biases should be scaled like this, but"
    " no theorem says that its limit exists."
)
SIMULATED = "Figure 7 of Marion et al. (2025), for res-3"
STAND_IN_WIDTH = 9
"""Width of the recursion that stands for the module: Corollary 5 of Marion et al. (2025) asks for d ≥ 9."""


@dataclass(frozen=True)
class _StandIn:
    """One of the papers' recursions, with the module's weight law for each of its weights."""

    recursion: Recursion
    weights: tuple[WeightLaw, ...]
    exponent: float
    width: int = STAND_IN_WIDTH

    @property
    def facts(self) -> Facts:
        return together(tuple(law.facts.at(self.width) for law in self.weights))


def expected_limit(law: WeightLaw, exponent: float) -> Regime:
    """Return where deep residual branches with such weights lead, by a recursion that stands for them.

    `law` is one that `filling.law_across_layers` accepts.
    """
    critical = critical_exponent(law)
    at_critical = theorem.side(exponent, critical) == 0
    network = _stand_in(law, critical if at_critical else exponent, at_critical)
    found = find(network).regime
    named = "1/2" if critical == 0.5 else f"{critical:g}"
    side = f"{exponent:g} {'>' if exponent > critical else '<'} {named}"
    where = f"critical exponent {named}" if at_critical else f"exponent {side}, the critical one"
    notes = [
        f"{network.recursion.name} with the {where}:",
        found.explanation,
        _for_modules(found.name, law.facts),
        f"Not known of this law: {', '.join(law.facts.not_known)}." if law.facts.not_known else "",
        CAVEAT,
    ]
    return dataclasses.replace(
        found,
        theorem=f"{EULER_SCHEME}, applied to res-1" if found.name == "young" else found.theorem,
        explanation=" ".join(note for note in notes if note),
        closest="" if at_critical else f"the same law with exponent={critical:g}.",
    )


def unscaled(law: WeightLaw) -> Regime:
    """Return what is said of the exponent 0: right within a branch whose output projection has the scale."""
    return Regime(
        "unscaled",
        None,
        None,
        None,
        "These weights have no residual scale. Within a branch that is right: the exponent of the output"
        " projection decides. An output projection without a scale makes the hidden state explode with"
        f" {law.describe()}. {CAVEAT}",
    )


def _stand_in(law: WeightLaw, exponent: float, at_critical: bool) -> _StandIn:
    """Return res-1 with the identity; for fractional weights res-3, unless the Young equation is the limit.

    Marion et al. (2025) simulated fractional weights with res-3.
    """
    facts = law.facts
    young = at_critical and facts.hurst is not None and facts.hurst > 0.5
    if facts.dependence == Dependence.FRACTIONAL and not young:
        return _StandIn(Res3(activations.resolve("relu")), (law, law), exponent)
    return _StandIn(Res1(activations.resolve("identity")), (law,), exponent)


def _for_modules(name: str, facts: Facts) -> str:
    """Return what differs where a branch is not that of the stand-in."""
    if name == "sde":
        return "With two matrices per branch the convergence is in law, also for Gaussian weights."
    if name == "ode":
        return "This asks that all weights of a branch are smooth."
    if name == "young":
        return (
            "With two matrices per branch no theorem is known. Simulations find the critical exponent H where"
            f" an activation with a mean, such as ReLU, stands between the matrices ({SIMULATED}). Where none"
            " does, as for the values of attention, or an odd one such as tanh, layers add up only like"
            " L^max(2H - 1, 1/2)."
        )
    if name == "explosion" and facts.dependence == Dependence.INDEPENDENT:
        return "Where its input is normalised, a branch makes it grow only like L^(1/2 - exponent)."
    negative = facts.hurst is not None and facts.hurst < 0.5
    if name == "explosion" and negative:
        return "Where weights enter linearly, as in res-1, layers nearly cancel and may contract."
    if name == "no theorem" and negative:
        return f"By simulation ({SIMULATED}) this exponent leads neither to explosion nor to the identity."
    return ""
