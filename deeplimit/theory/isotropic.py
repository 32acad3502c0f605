"""Rows on independent layers whose branch has, given the state, an isotropic covariance or a mean.

Of V σ(W h) and of σ(W h) the first two moments given h decide (docs/theorems/in-law.md derives them). Let
Z be standard normal and W Gaussian with entries of variance 1/d. Given h, the entries of W h are independent,
each |h| Z/√d. So

    V σ(W h)   has mean 0 and covariance ψ(|h|) I, ψ(r) = E σ(r Z/√d)²,
    σ(W h)     has mean m(|h|) 1, m(r) = E σ(r Z/√d), and covariance (ψ - m²)(|h|) I; m = 0 for odd σ.

For σ(x) = p x⁺ - q x⁻ and any symmetric law of W, ψ(r) = (p² + q²)/2 · r²/d; for p² = q² and any law.
"""

from __future__ import annotations

from typing import final

from deeplimit.equations import AveragedODE, Identity, IsotropicSDE, Limit, RadialSDE
from deeplimit.layers import Inner, Res2, Res3
from deeplimit.layers.activations import is_odd, slopes
from deeplimit.theory.independent_layers import PAIRED
from deeplimit.theory.orders import Contributions
from deeplimit.theory.theorem import (
    Hypothesis,
    Network,
    Regime,
    Theorem,
    is_one_of,
    layers_are_independent,
    lipschitz,
    of_the_weights,
    side,
    sides,
)

PAGE = "derived on the page Limits in law"
AVERAGED = f"Independent layers inside σ ({PAGE})"
PRODUCT = (
    "multiplies two independent matrices per layer. Their product is not an increment of the driving path, so"
    " its diffusion limit holds in law only."
)
CENTRED = Hypothesis.holds("layers have mean 0", "every layer's branch has mean 0 given the state.")
SUMS = (
    "on one path coarse layers are normalised sums of the finest layers' draws, and so of another law, which"
    " σ bends differently."
)
LEAST, MOST = 1e-3, 100.0
"""Rates that `IsotropicSDE` takes."""


def _is_product(network: Network) -> bool:
    return is_one_of(network, Res2, Res3) and layers_are_independent(network)


def _is_inside(network: Network) -> bool:
    return is_one_of(network, Inner) and layers_are_independent(network) and not network.facts.biased


def _is_centred(network: Network) -> bool:
    """Return whether the branch σ(W h) has mean 0: W is symmetric and σ odd, or σ is linear."""
    both, activation = slopes(network.recursion.activation), network.recursion.activation
    linear = both is not None and both.positive == both.negative
    return linear or (network.facts.symmetric and is_odd(activation))


def _diffusion(network: Network) -> Limit | None:
    """Return the isotropic equation of a branch with mean 0; None where the covariance depends on more."""
    _, inside = sides(network)
    assert inside is not None  # these recursions have a matrix there
    activation, width = network.recursion.activation, network.width
    if (both := slopes(activation)) is not None:
        rate = (both.positive**2 + both.negative**2) / 2
        known = inside.symmetric or abs(both.positive) == abs(both.negative)
        if known and LEAST <= rate <= MOST:
            return IsotropicSDE(width, rate)
    if inside.gaussian and inside.independent_entries is True:
        return RadialSDE(activation, width)
    return None


@final
class IsotropicDiffusion(Theorem):
    """V σ(W h), or σ(W h) with mean 0, at the exponent 1/2: the library's derivation, in no paper."""

    def matches(self, network: Network) -> bool:
        ours = _is_product(network) or (_is_inside(network) and _is_centred(network))
        return ours and side(network.exponent, 0.5) == 0 and _diffusion(network) is not None

    def regime(self, network: Network) -> Regime:
        name, limit = network.recursion.name, self.limit(network)
        how = (
            f"{name} {PRODUCT}"
            if _is_product(network)
            else f"{name} bends every layer's draws by σ. What is bent is not an increment of the driving"
            " path, so its diffusion limit holds in law only."
        )
        size = (
            f"({limit.rate:.4g}/d) |h|² I."
            if isinstance(limit, IsotropicSDE)
            else "ψ(|h|) I with ψ(r) = E σ(r Z/√d)², Z standard normal."
        )
        return Regime(
            "sde",
            None,
            None,
            "in law",
            f"{how} Given the state h, every layer's branch has mean 0 and the covariance {size}",
            PAIRED,
            hypotheses=(CENTRED, lipschitz(network), *of_the_weights(network)),
        )

    def limit(self, network: Network) -> Limit:
        limit = _diffusion(network)
        assert limit is not None  # matches asked
        return limit


@final
class OtherProduct(Theorem):
    """V σ(W h) with W of another law: a diffusion in law, whose covariance depends on more than |h|."""

    def matches(self, network: Network) -> bool:
        return _is_product(network) and side(network.exponent, 0.5) == 0 and _diffusion(network) is None

    def regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            None,
            None,
            "in law",
            f"{network.recursion.name} {PRODUCT} The branch's covariance depends on more than |h|.",
            PAIRED,
            hypotheses=of_the_weights(network),
        )


@final
class InnerIdentity(Theorem):
    """σ(W h) above its critical exponent, 1/2 where the branch has mean 0 and 1 otherwise: it vanishes."""

    def matches(self, network: Network) -> bool:
        return _is_inside(network) and side(network.exponent, 0.5 if _is_centred(network) else 1.0) > 0

    def regime(self, network: Network) -> Regime:
        centred, exponent = _is_centred(network), network.exponent
        what = (
            "independent layers inside σ, with an exponent above 1/2 and a branch of mean 0, have a vanishing"
            " sum"
            if centred
            else "independent layers inside σ with an exponent above 1: the sum of all means vanishes, and"
            " the noise with it"
        )
        known, noise = network.facts.gaussian, exponent - 0.5
        # The mean adds up to L^(1 - exponent), the noise to L^(1/2 - exponent).
        left = Contributions((noise,) if centred else (exponent - 1.0, noise))
        return Regime(
            "identity",
            None,
            left.rate if known else None,
            "pathwise",
            f"{what}: the network tends to the identity." + ("" if known else f" No order is stated: {SUMS}"),
            corrections=(2 * noise, 1.0) if centred else left.corrections,
            second_orders=() if centred else left.second_orders,
            hypotheses=(*((CENTRED,) * centred), lipschitz(network), *of_the_weights(network)),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


@final
class AveragedLayers(Theorem):
    """σ(W h) with Gaussian layers and σ not odd, at the exponent 1: an ODE, whose noise averages out."""

    def matches(self, network: Network) -> bool:
        facts = network.facts
        normal = facts.gaussian and facts.independent_entries is True
        return (
            _is_inside(network) and normal and not _is_centred(network) and side(network.exponent, 1.0) == 0
        )

    def regime(self, network: Network) -> Regime:
        return Regime(
            "ode",
            AVERAGED,
            0.5,
            "pathwise",
            "independent Gaussian layers inside an activation that is not odd, at exponent 1: layers add up"
            " to their means m(|h|) = E σ(|h| Z/√d), and noise of size L^-1/2 is left.",
            hypotheses=(lipschitz(network), *of_the_weights(network)),
        )

    def limit(self, network: Network) -> Limit:
        return AveragedODE(network.recursion.activation, network.width)


ROWS: tuple[Theorem, ...] = (IsotropicDiffusion(), OtherProduct(), InnerIdentity(), AveragedLayers())


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches σ(W h) with independent layers, and the closest one that has a limit."""
    if not _is_inside(network):
        return None
    if _is_centred(network):
        below = side(network.exponent, 0.5) < 0
        return (
            "independent layers inside σ, with a branch of mean 0, "
            + (
                "add up without bound below the exponent 1/2, unless σ stops growing."
                if below
                else "tend at the exponent 1/2 to a diffusion in law; for W that is not Gaussian its"
                " covariance depends on more than |h|."
            ),
            "the same network with Brownian() weights and exponent=0.5.",
        )
    return (
        "independent layers inside an activation that is not odd, or of a skewed law, have means that add up"
        " to L^(1 - exponent): without bound below the exponent 1, unless states settle where the mean is 0,"
        " and to an ODE at 1, if layers are Gaussian.",
        "the same network with Brownian() weights and exponent=1.",
    )
