"""What is known of the ratios before anything is drawn: exact means, limit laws, how they grow, and the
constants of (A1), (A2).

All follow from a few numbers of the network: a = L^-2β, and q = E|g(h)|² / |h|², the share of the energy
that the block g keeps. Where a layer adds α V g with V centred, independent of all else and of variance
1/d per entry, E|h_{k+1}|² = (1 + aq) E|h_k|².
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deeplimit.activations import Slopes, expansion, is_bounded, is_odd, slopes
from deeplimit.ground.validation import NoTheoremError
from deeplimit.networks import ResidualNetwork
from deeplimit.recursions import PlainBranch
from deeplimit.weights import IID, FractionalBrownian, FunctionProcess, IncrementProcess, Trend, TrendAndNoise


def plain_branch(network: ResidualNetwork) -> PlainBranch:
    """Return the network's recursion, if it is of the one form that signal and gradient are propagated
    through.

    Raises ValueError for one that adds more than h + α V σ(W h + b).
    """
    if isinstance(network.recursion, PlainBranch):
        return network.recursion
    raise ValueError(
        f"network must be res1, res2, res3 or inner, got {network.recursion.name}, which adds"
        f" {network.recursion.formula}; res1 has the same signal up to what vanishes with the depth."
    )


@dataclass(frozen=True)
class Block:
    """A residual block α V g(h) with independent layers whose g keeps a known share of the energy on
    average.

    Attributes:
        kept: q; between `kept_least` and `kept_most` if the block reads the state itself and treats its
            signs differently.
        eighth: C in E|g(h)|⁸ ≤ C|h|⁸, for this block and width (at most that of Gaussian weights, whose
            even moments dominate those of the other named laws).
        sub_gaussian: s; 1 for the Gaussian, uniform and Rademacher laws.
        has_atoms: Whether W h may be exactly 0 where σ has a kink, which [M] (A4) does not allow for.
    """

    kept_least: float
    kept_most: float
    eighth: float
    sub_gaussian: float
    has_atoms: bool = False

    @property
    def kept(self) -> float | None:
        return self.kept_least if self.kept_least == self.kept_most else None

    @property
    def satisfies_a2(self) -> bool:
        """Whether ½|h|² ≤ E|g(h)|² ≤ |h|², the first half of [M] (A2); the second half is that `eighth` is
        finite.
        """
        return self.kept_least >= 0.5 - 1e-12 and self.kept_most <= 1.0 + 1e-12


def block(network: ResidualNetwork) -> Block | str:
    """Return what is known of the network's block, or the reason why Section 2 of [M] does not cover it."""
    if not all(isinstance(law, IncrementProcess) for law in network.weights):
        return "layers are not independent"
    if not all(isinstance(law, IncrementProcess) and law.is_symmetric for law in network.weights):
        return "the law of the weights is the user's own, and its sub-Gaussian constant is not known"
    outer, inner = plain_branch(network).sides(network.weights)
    if outer is None:
        return "no weight matrix follows the activation (Remark 2)"
    sides = slopes(network.recursion.activation)
    if sides is None:
        return f"{network.recursion.activation.name} does not keep a fixed share of the energy, as (A2) asks"
    squares = (sides.positive**2, sides.negative**2)
    if inner is None:
        return Block(min(squares), max(squares), max(squares) ** 4, 1.0)
    mean = sum(squares) / 2
    atoms = isinstance(inner, IID) and inner.law == "rademacher" and sides.positive != sides.negative
    return Block(mean, mean, _eighth_moment(network.width, sides), 1.0, atoms)


def _eighth_moment(width: int, sides: Slopes) -> float:
    """Return E(|σ(z)|²/d)⁴ for z ~ N(0, I) in d dimensions: a fourth moment of a sum of d independent
    terms.
    """
    m1, m2, m3, m4 = (
        (sides.positive ** (2 * k) + sides.negative ** (2 * k)) / 2 * math.prod(range(1, 2 * k, 2))
        for k in (1, 2, 3, 4)
    )
    d = width
    pairs, triples = d * (d - 1), d * (d - 1) * (d - 2)
    total = d * m4 + pairs * (4 * m3 * m1 + 3 * m2**2) + 6 * triples * m2 * m1**2 + triples * (d - 3) * m1**4
    return total / d**4


def expected_square(network: ResidualNetwork, depth: int) -> float | None:
    """Return log E|h_L|²/|h_0|² = L log(1 + aq), exact at every depth and width; None where it is not
    known.
    """
    known = block(network)
    if isinstance(known, str) or known.kept is None:
        return None
    return depth * math.log1p(float(depth) ** (-2.0 * network.exponent) * known.kept)


def log_normal(network: ResidualNetwork, depth: int) -> tuple[float, float] | None:
    """Return mean and standard deviation of the normal law that log |h_L|/|h_0| tends to as a → 0; None
    where not known.

    The limit is dH = √(q/d) |H| dβ over a time La, for every law of the weights that `block` knows (only
    their variances are left in it): N(½ q La (1 - 2/d), q La / d), reached with an error of relative order
    a.
    """
    known = block(network)
    if isinstance(known, str) or known.kept is None:
        return None
    time = known.kept * float(depth) ** (1.0 - 2.0 * network.exponent)
    return 0.5 * time * (1.0 - 2.0 / network.width), math.sqrt(time / network.width)


def predicted_growth(network: ResidualNetwork) -> float | None:
    """Return γ in |h_L - h_0|²/|h_0|² ~ L^γ (log(1 + ...) ~ L^γ where it explodes exponentially); None
    where not known.

    2(c - β) from the critical exponent c on; below it the growth is faster than any such law, but for
    independent layers, where it is 1 - 2β still (not at widths 1 and 2, where |h_L| does not grow although
    its mean square does).
    """
    beta, critical = network.exponent, critical_exponent(network)
    outer, inner = plain_branch(network).sides(network.weights)
    if critical is None or any(isinstance(law, TrendAndNoise) for law in network.weights):
        return None
    if any(isinstance(law, Trend) for law in network.weights):
        return None  # its integral may vanish
    if critical > 0.5:
        return 2.0 * (critical - beta) if beta >= critical else None
    if isinstance(outer, IncrementProcess) or (outer is None and isinstance(inner, IncrementProcess)):
        if beta >= 0.5:
            return 1.0 - 2.0 * beta
        activation = network.recursion.activation
        known = slopes(activation) is not None or is_bounded(activation)
        return 1.0 - 2.0 * beta if known and (network.width > 2 or activation.at_zero != 0.0) else None
    rough = any(isinstance(law, FractionalBrownian) and law.hurst < 0.5 for law in network.weights)
    return 1.0 - 2.0 * beta if beta >= 0.5 and not rough else None


def critical_exponent(network: ResidualNetwork) -> float | None:
    """Return the residual exponent between explosion and identity; None where it is not known.

    What layers add to the state forgets its past like k^{2c - 2}, c = 1/2 where it is independent, H for
    fractional Brownian weights, 1 for functions of time, so that the sum over the layers is of size L^c.
    Of V g(h) both factors count, c_V + c_g - 1: g forgets nothing where it has no weights of its own or a
    mean, as ReLU(W h) has; of an odd σ it is as forgetful as W.

    Not known: layers with H < 1/2 that enter linearly, which nearly cancel; a sampler inside σ, which may
    be skewed; weights that shrink with the depth inside a σ that is not smooth, or not 0, at 0.
    """
    outer, inner = plain_branch(network).sides(network.weights)
    if any(isinstance(law, TrendAndNoise) for law in network.weights):
        try:
            expansion(network.recursion.activation)
        except NoTheoremError:
            return None
        return min(law.critical_exponent for law in network.weights)
    if outer is None and isinstance(inner, IncrementProcess) and not inner.is_symmetric:
        return None
    odd = is_odd(network.recursion.activation)
    skewed = (
        isinstance(inner, IncrementProcess)
        and not inner.is_symmetric
        and slopes(network.recursion.activation) is None
    )
    if skewed and odd and not isinstance(outer, IncrementProcess):
        return None
    rough = any(isinstance(law, FractionalBrownian) and law.hurst < 0.5 for law in network.weights)
    if rough and (inner is None or (outer is None and odd)):
        return None
    stands = 1.0 if outer is None else outer.critical_exponent
    reads = 1.0 if inner is None or not odd else inner.critical_exponent
    return max(0.5, round(stands + reads - 1.0, 12))


def vanishes_beyond(network: ResidualNetwork) -> float | None:
    """Return the largest residual exponent at which the change is known not to vanish; None where nothing
    is known.

    Layers with H < 1/2 that enter linearly nearly cancel, but the mean of products of neighbouring layers
    remains at β = 1/2.
    """
    if any(isinstance(law, (Trend, TrendAndNoise)) for law in network.weights):
        return None  # a trend's integral may vanish
    if any(isinstance(law, FractionalBrownian) and law.hurst < 0.5 for law in network.weights):
        return max(0.5, critical_exponent(network) or 0.5)
    return critical_exponent(network)


def faster(network: ResidualNetwork) -> float | None:
    """Return by what power of 1/L the incoherent part of a change is smaller than the coherent one; None
    where there is one part.

    Of the squared change L^{2(c - β)} is coherent and L^{1 - 2β} is not, so that of its root the power is
    c - 1/2.
    """
    critical = critical_exponent(network)
    smooth = all(isinstance(law, FunctionProcess) for law in network.weights)
    return round(critical - 0.5, 9) if critical is not None and critical > 0.5 and not smooth else None
