"""The row on layers with a short memory: a Wong-Zakai limit with the Green-Kubo variance."""

from __future__ import annotations

from typing import final

from deeplimit.driving import Channel, ChannelKind, Dependence
from deeplimit.equations import Limit
from deeplimit.equations.coloured import ColouredSDE
from deeplimit.layers import Res1
from deeplimit.layers.activations import has_kink
from deeplimit.theory.theorem import (
    Hypothesis,
    Network,
    Regime,
    Theorem,
    is_one_of,
    laws,
    lipschitz,
    of_the_weights,
    side,
)


def _channel(network: Network) -> Channel | None:
    """Return the channel of layers that remember, if the one weight has entries as (A1) asks."""
    (facts,), (law,) = laws(network), network.weights
    entries = facts.gaussian and facts.unit_variance and facts.independent_entries is True
    if facts.dependence is not Dependence.STATIONARY or not entries:
        return None
    channels = law.channels(network.recursion.weight_shapes(network.width)[0])
    known = (
        len(channels) == 1 and channels[0].kind is ChannelKind.BROWNIAN and channels[0].response is not None
    )
    return channels[0] if known else None


@final
class ColouredNoise(Theorem):
    """Layers of short memory at the exponent 1/2: derived on the page Elsewhere, measured, in no paper."""

    def matches(self, network: Network) -> bool:
        return is_one_of(network, Res1) and side(network.exponent, 0.5) == 0 and _channel(network) is not None

    def regime(self, network: Network) -> Regime:
        slope, name = "σ' is continuous", network.recursion.activation.name
        kinked = has_kink(network.recursion.activation)
        return Regime(
            "sde",
            None,
            None,
            "pathwise",
            "layers with a short memory at the critical exponent 1/2: they add up to a Brownian motion whose"
            " variance is the sum of all correlations, and neighbours that are correlated leave a drift. The"
            " order is not known.",
            hypotheses=(
                lipschitz(network),
                *(
                    (Hypothesis.unknown(slope, f"that the kink of {name} leaves the drift as it is."),)
                    * kinked
                ),
                *of_the_weights(network),
            ),
        )

    def limit(self, network: Network) -> Limit:
        channel = _channel(network)
        assert channel is not None  # matches asked
        assert channel.response is not None
        assert channel.memory is not None
        return ColouredSDE(network.recursion.activation, channel.response, channel.memory, network.width)


ROWS: tuple[Theorem, ...] = (ColouredNoise(),)
