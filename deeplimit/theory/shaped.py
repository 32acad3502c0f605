"""Rows on shaped networks, whose width grows with their depth; derived in docs/theorems/shaped.md."""

from __future__ import annotations

from typing import cast, final

from deeplimit.driving import Dependence
from deeplimit.equations import CovarianceSDE, Limit
from deeplimit.layers import ShapedMLP
from deeplimit.theory.theorem import Network, Regime, Theorem, is_one_of, laws, side

LI = "Li, Nica and Roy (2022), covariance SDE of shaped networks"
LI_KEY = "li2022"


def _depth_to_width(network: Network) -> float | None:
    """Return T where every layer is L/T rows of independent standard normal numbers; else None."""
    (facts,) = laws(network)
    stated = facts.dependence == Dependence.INDEPENDENT and facts.gaussian and facts.independent_entries
    return facts.depth_to_width if stated else None


def _is_shaped(network: Network) -> bool:
    return is_one_of(network, ShapedMLP) and _depth_to_width(network) is not None


def _shape_vanishes(network: Network) -> bool:
    """Whether φ is linear, or tends to the identity too fast to leave a drift."""
    above = side(network.exponent, 0.5) > 0
    return above or cast("ShapedMLP", network.recursion).difference == 0.0


def _covariance_sde(network: Network, difference: float) -> Limit:
    ratio = _depth_to_width(network)
    assert ratio is not None
    return CovarianceSDE(network.width, ratio, difference)


@final
class ShapedCovariance(Theorem):
    """Li, Nica and Roy (2022): slopes within n^-1/2 of the identity leave the drift ν."""

    def matches(self, network: Network) -> bool:
        return _is_shaped(network) and side(network.exponent, 0.5) == 0 and not _shape_vanishes(network)

    def regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            LI,
            None,
            "in law",
            "width and depth grow together, and φ has slopes within n^-1/2 of the identity. The covariance of"
            " the inputs tends to a diffusion in law; no path joins the layers of different depths.",
            citations=(LI_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return _covariance_sde(network, cast("ShapedMLP", network.recursion).difference)


@final
class LinearCovariance(Theorem):
    """The covariance SDE of linear networks: slopes that are equal, or closer to the identity than n^-1/2."""

    def matches(self, network: Network) -> bool:
        return _is_shaped(network) and _shape_vanishes(network)

    def regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            LI,
            None,
            "in law",
            "width and depth grow together, and φ is linear, or tends to the identity faster than n^-1/2. The"
            " covariance of the inputs tends in law to that of a linear network, without the drift ν.",
            citations=(LI_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return _covariance_sde(network, 0.0)


ROWS: tuple[Theorem, ...] = (ShapedCovariance(), LinearCovariance())


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a shaped network, and the closest one that has a limit."""
    if not is_one_of(network, ShapedMLP):
        return None
    if _depth_to_width(network) is None:
        return (
            "limits are known for layers of L/T rows of standard normal numbers alone, as in HiddenUnits.",
            "shaped_mlp(inputs).",
        )
    return (
        "below the exponent 1/2 the drift ν of correlations grows without bound, and inputs align at once.",
        "shaped_mlp(inputs, exponent=0.5).",
    )
