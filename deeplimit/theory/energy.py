"""The constants of Marion et al. (2025), Section 2, and exact means and limit laws that follow from them.

All follow from a few numbers of the network: a = L^-2β, and q = E|g(h)|² / |h|², the share of the energy that
the block g keeps. Where a layer adds α V g with V centred, independent of all else and of variance 1/d per
entry, E|h_{k+1}|² = (1 + aq) E|h_k|².
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deeplimit.driving import Dependence
from deeplimit.layers.activations import Slopes, slopes
from deeplimit.theory.theorem import PAPERS, Network, are_independent, is_one_of, laws, sides


@dataclass(frozen=True)
class Block:
    """A residual block α V g(h) with independent layers whose g keeps a known share of the energy on average.

    Attributes:
        kept_least, kept_most: Bounds of q, which differ if the block reads the state itself and treats its
            signs differently.
        eighth: C in E|g(h)|⁸ ≤ C|h|⁸, for this block and width. Even moments of Gaussian weights dominate
            those of the other named laws.
        sub_gaussian: s; 1 for the Gaussian, uniform and Rademacher laws.
        has_atoms: Whether W h may be exactly 0 where σ has a kink, which (A4) of Marion et al. (2025) does
            not allow for.
    """

    kept_least: float
    kept_most: float
    eighth: float
    sub_gaussian: float
    has_atoms: bool = False

    @property
    def kept(self) -> float | None:
        """q itself; None where only its bounds are known."""
        return self.kept_least if self.kept_least == self.kept_most else None

    @property
    def satisfies_a2(self) -> bool:
        """Whether ½|h|² ≤ E|g(h)|² ≤ |h|², the first half of (A2) of Marion et al. (2025); the second is a
        finite `eighth`.
        """
        return self.kept_least >= 0.5 - 1e-12 and self.kept_most <= 1.0 + 1e-12


@dataclass(frozen=True)
class Covered:
    """A network's block, or why Section 2 of Marion et al. (2025) does not cover the network."""

    block: Block | None = None
    why_not: str = ""


def block(network: Network) -> Block | None:
    """Return what is known of the network's block; None where Section 2 does not cover it (`covered`)."""
    return covered(network).block


def covered(network: Network) -> Covered:
    """Return the network's block, or why Section 2 of Marion et al. (2025) does not cover the network."""
    why_not = _not_covered(network)
    if why_not:
        return Covered(why_not=why_not)
    inner = sides(network)[1]
    found = slopes(network.recursion.activation)
    assert found is not None  # else it is not covered
    squares = (found.positive**2, found.negative**2)
    if inner is None:
        return Covered(Block(min(squares), max(squares), max(squares) ** 4, 1.0))
    mean = sum(squares) / 2
    atoms = inner.atoms and found.positive != found.negative
    return Covered(Block(mean, mean, _eighth_moment(network.width, found), 1.0, atoms))


def _not_covered(network: Network) -> str:
    """Return why Section 2 does not cover a network; empty where it does."""
    facts = laws(network)
    if not is_one_of(network, *PAPERS):
        return f"Section 2 is about h + α V σ(W h), not about {network.recursion.name}"
    if any(fact.found for fact in facts):
        return "the draws of the sampler are not independent"
    if any(fact.dependence != Dependence.INDEPENDENT for fact in facts):
        return "layers are not independent"
    if not all(are_independent(fact) and fact.symmetric and fact.sub_gaussian == 1.0 for fact in facts):
        return "the law of the weights is the user's, and its sub-Gaussian constant is not known"
    if sides(network)[0] is None:
        return "no weight matrix follows the activation (Remark 2)"
    if slopes(network.recursion.activation) is None:
        return f"{network.recursion.activation.name} does not keep a fixed share of the energy, as (A2) asks"
    return ""


def _eighth_moment(width: int, found: Slopes) -> float:
    """Return E(|σ(z)|²/d)⁴ for z ~ N(0, I) in d dimensions, a fourth moment of d independent terms."""
    m1, m2, m3, m4 = (
        (found.positive ** (2 * k) + found.negative ** (2 * k)) / 2 * math.prod(range(1, 2 * k, 2))
        for k in (1, 2, 3, 4)
    )
    d = width
    pairs, triples = d * (d - 1), d * (d - 1) * (d - 2)
    total = d * m4 + pairs * (4 * m3 * m1 + 3 * m2**2) + 6 * triples * m2 * m1**2 + triples * (d - 3) * m1**4
    return total / d**4


def expected_square(network: Network, depth: int) -> float | None:
    """Return log E|h_L|²/|h_0|² = L log(1 + aq), exact at every depth and width; None if not known."""
    known = block(network)
    if known is None or known.kept is None:
        return None
    return depth * math.log1p(float(depth) ** (-2.0 * network.exponent) * known.kept)


def log_normal(network: Network, depth: int) -> tuple[float, float] | None:
    """Return mean and standard deviation of the normal limit of log |h_L|/|h_0|; None if not known.

    The limit is dH = √(q/d) |H| dβ over a time La, for every law of the weights that `block` knows (only
    their variances are left in it): N(½ q La (1 - 2/d), q La / d), reached with an error of relative order
    a.
    """
    known = block(network)
    if known is None or known.kept is None:
        return None
    time = known.kept * float(depth) ** (1.0 - 2.0 * network.exponent)
    return 0.5 * time * (1.0 - 2.0 / network.width), math.sqrt(time / network.width)
