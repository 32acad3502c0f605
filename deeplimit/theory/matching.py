"""Questions that several rows ask of a network, and the wording of assumptions and refusals."""

from __future__ import annotations

from deeplimit.common.validation import NoTheoremError
from deeplimit.driving import Dependence, Facts
from deeplimit.layers import Inner, Recursion, Res1, Res2, Res3
from deeplimit.layers.activations import steepening
from deeplimit.theory.hypotheses import Hypothesis
from deeplimit.theory.orders import SAME
from deeplimit.theory.theorem import Network

MARION = "of Marion et al. (2025)"
COHEN = "of Cohen et al. (2021)"
MARION_KEY, COHEN_KEY, HU_KEY = "marion2025", "cohen2021", "hu2016"

PAPERS: tuple[type[Recursion], ...] = (Res1, Res2, Res3, Inner)
"""The recursions of Marion et al. (2025), Table 1 and Remark 2: h + L^-exponent V σ(W h + b), V or W left
out.
"""

OUTER: dict[type[Recursion], int] = {Res1: 0, Res2: 0, Res3: 0}
INNER: dict[type[Recursion], int] = {Res2: 1, Res3: 1, Inner: 0}
"""Which weight multiplies outside σ, and which inside, by the exact type of the recursion."""


def is_one_of(network: Network, *kinds: type[Recursion]) -> bool:
    """Return whether the recursion is exactly of one of these types, and has as many weights as it reads."""
    kind = type(network.recursion)
    return kind in kinds and len(network.weights) == len(kind.weights)


def sides(network: Network) -> tuple[Facts | None, Facts | None]:
    """Return what is known of the weight outside σ and of the one inside; None where there is none.

    The network must be of one of the papers' recursions.
    """
    kind, facts = type(network.recursion), laws(network)
    outer, inner = OUTER.get(kind), INNER.get(kind)
    return None if outer is None else facts[outer], None if inner is None else facts[inner]


def laws(network: Network) -> tuple[Facts, ...]:
    """Return what is known of each weight law, at the network's width."""
    return tuple(law.facts.at(network.width) for law in network.weights)


def are_independent(facts: Facts) -> bool:
    """Return whether layers are independent of each other, with entries as (A1) of Marion et al. (2025) asks.

    Entries of unit variance whose independence is stated, or was tested on draws and not refuted.
    """
    entries = facts.independent_entries is True or (facts.independent_entries is None and bool(facts.tested))
    return facts.dependence == Dependence.INDEPENDENT and facts.unit_variance and entries and not facts.found


def layers_are_independent(network: Network) -> bool:
    """Return whether `are_independent` holds of every weight."""
    return all(are_independent(facts) for facts in laws(network))


def layers_are_functions(network: Network) -> bool:
    """Return whether layers are values of functions of time whose Hölder exponent is stated."""
    return all(facts.dependence == Dependence.SMOOTH and facts.holder is not None for facts in laws(network))


def side(exponent: float, critical: float) -> int:
    """Return 0 where two exponents are equal, 1 where the first is larger and -1 where it is smaller.

    The one comparison of exponents: sums such as 0.1 + 0.6 carry round-off of a few units in the last place,
    and no two exponents that mean different things are as close as SAME.
    """
    if abs(exponent - critical) <= SAME * max(1.0, abs(exponent), abs(critical)):
        return 0
    return 1 if exponent > critical else -1


def of_the_weights(network: Network) -> tuple[Hypothesis, ...]:
    """Return what was tested of the weight laws, and what nobody has stated of them."""
    facts = network.facts
    return (
        *(Hypothesis.holds("weights as stated", text) for text in facts.tested),
        *(Hypothesis.unknown("weights as stated", f"not known: {text}.") for text in facts.not_known),
    )


def reservations(network: Network) -> list[str]:
    """Return what every report on this network must say of its weights: what is unknown, or was refuted."""
    facts = network.facts
    notes = []
    if facts.found:
        notes.append(f"the sampler's draws are not independent: {'; '.join(facts.found)}.")
    if facts.not_known:
        notes.append(f"not known of the weights: {'; '.join(facts.not_known)}.")
    return notes


def lipschitz(network: Network) -> Hypothesis:
    """Return whether σ is Lipschitz, which nearly every statement asks."""
    activation, name = network.recursion.activation, "σ is Lipschitz"
    if activation.lipschitz is not None:
        return Hypothesis.holds(name, f"{activation.name} is Lipschitz.")
    if (steep := steepening(activation)) is not None:
        return Hypothesis.fails(name, f"{activation.name} is not Lipschitz: {steep}.")
    return Hypothesis.unknown(
        name, f"that {activation.name} is Lipschitz (it was probed: neither jumps nor slopes that grow)."
    )


def refused(network: Network, explanation: str, closest: str) -> str:
    """Return the refusal of a network without a limit on its noise: why, and the closest that has one."""
    facts = network.facts
    if facts.weight_exponent is not None:
        activation, beta = network.recursion.activation.name, facts.weight_exponent
        exponents = f"σ = {activation}, α = {network.exponent:g}, β = {beta:g}"
    else:
        described = ", ".join(dict.fromkeys(law.describe() for law in network.weights))
        exponents = f"{described}, exponent {network.exponent:g}"
    return f"cannot pair {network.recursion.name} ({exponents}) with a limit because {explanation}" + (
        f" Closest: {closest}" if closest else ""
    )


def refusal(network: Network, explanation: str, closest: str) -> NoTheoremError:
    """Return the refusal of a network without a limit on its noise, with what can be done instead."""
    return NoTheoremError(f"{refused(network, explanation, closest)} {measured_without_theorem(network)}")


def measured_without_theorem(network: Network) -> str:
    """Return which functions measure a limit that the user gives, without any theorem."""
    independent = all(facts.dependence == Dependence.INDEPENDENT for facts in laws(network))
    in_law = "; compare_laws(resnet, limit) takes a LawLimit or a torchsde object, too" if independent else ""
    return f"Your limit needs no theorem: compare(resnet, limit) measures it path by path{in_law}."
