"""What a statement about states says of gradients by these states: its first variation."""

from __future__ import annotations

import dataclasses

from deeplimit.layers.activations import has_kink
from deeplimit.theory.theorem import Hypothesis, Network, Regime

NONE_KNOWN = (
    "nothing is known of the gradients' order: {why}. They are measured against those of the limit, without a"
    " prediction."
)


def first_variation(regime: Regime, network: Network, *, for_any_slope: bool = False) -> Regime | None:
    """Return what a statement says of gradients by the layers' states; None where σ' jumps.

    State and Jacobian together follow a network of the same form, with σ and σ' in it. If σ' is Lipschitz,
    the order is that of the states (docs/theorems/gradients.md). `for_any_slope` is for statements that need
    no more of σ than a Lipschitz constant.
    """
    activation = network.recursion.activation
    if has_kink(activation) and not for_any_slope:
        return None
    slope = Hypothesis.unknown("σ' is Lipschitz", f"that the slope of {activation.name} is Lipschitz.")
    return dataclasses.replace(
        regime,
        theorem=None if regime.theorem is None else f"first variation of {regime.theorem}",
        explanation=f"{regime.explanation} Gradients follow the first variation, of the same order.",
        hypotheses=(*regime.hypotheses, *(() if for_any_slope else (slope,))),
    )


def none_known(regime: Regime, network: Network) -> Regime:
    """Return that nothing is known of the gradients of a network of which this is known."""
    kinked = has_kink(network.recursion.activation)
    why = f"the slope of {network.recursion.activation.name} jumps" if kinked else "no row of the table says"
    return dataclasses.replace(
        regime,
        theorem=None,
        rate=None,
        explanation=NONE_KNOWN.format(why=why),
        citations=(),
        gap=None,
        rate_is_bound=False,
    )
