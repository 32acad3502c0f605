"""Rows on layers with a short memory: a Wong-Zakai limit with the Green-Kubo variance, and the identity."""

from __future__ import annotations

from typing import final

from deeplimit.driving import Channel, ChannelKind, Dependence
from deeplimit.equations import Identity, Limit
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


LONG = 2.0
"""Sum of correlations above which the drift of correlated neighbours may be as large as the noise at depths
that can be run. AR(1) of 0.5 has 1, and the measured order at the exponent 0.6 is right; 0.9 has 9, and ReLU
shows 0.36 in place of 0.1."""


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


@final
class ColouredIdentity(Theorem):
    """Layers of short memory above the exponent 1/2: their sum vanishes. In no paper."""

    def matches(self, network: Network) -> bool:
        return is_one_of(network, Res1) and side(network.exponent, 0.5) > 0 and _channel(network) is not None

    def regime(self, network: Network) -> Regime:
        exponent, channel = network.exponent, _channel(network)
        lasting = channel is not None and channel.memory is not None and channel.memory > LONG
        return Regime(
            "identity",
            None,
            # Layers are a martingale's steps and differences that telescope (Gordin): sums of L of them have
            # size √L, and correlated neighbours leave a drift of its square.
            exponent - 0.5,
            "pathwise",
            "layers with a short memory and an exponent above 1/2 have a vanishing sum: the network tends to"
            " the identity. The order exponent - 1/2 is that of the sum's standard deviation.",
            corrections=(exponent - 0.5, 2 * exponent - 1.0, 1.0),
            second_orders=(exponent - 0.5,) * lasting,
            interfere=lasting,
            hides=lasting,
            hypotheses=(lipschitz(network), *of_the_weights(network)),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


ROWS: tuple[Theorem, ...] = (ColouredNoise(), ColouredIdentity())
