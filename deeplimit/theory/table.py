"""The theorem table: which limit a network has, how fast, by which statement — or why none applies."""

from __future__ import annotations

from deeplimit import activations
from deeplimit.ground.validation import NoTheoremError
from deeplimit.limits.equations import Identity, Limit, NeuralODE, NeuralSDE
from deeplimit.limits.in_law import IsotropicSDE
from deeplimit.recursions import Inner, Recursion, Res1, Res2
from deeplimit.theory.fractional_weights import classify_fractional, limit_of_fractional
from deeplimit.theory.regime import Regime
from deeplimit.theory.shrinking_weights import classify_plane, limit_of_plane
from deeplimit.weights import (
    FractionalBrownian,
    FunctionProcess,
    IncrementProcess,
    Process,
    SmoothGaussian,
    TrendAndNoise,
)

MARION = "of Marion et al. (2025)"
PAIRED = (
    "res1 with the same weights and exponent=0.5 (Proposition 11), or SmoothGaussian weights with exponent=1"
    " (Proposition 12)."
)


def classify(recursion: Recursion, weights: tuple[Process, ...], exponent: float) -> Regime:
    """Return the regime of a network with this recursion, these laws and this residual exponent."""
    if isinstance(weights[0], TrendAndNoise):
        return classify_plane(recursion, weights[0], exponent)
    if all(isinstance(process, IncrementProcess) for process in weights):
        gaussian = all(isinstance(process, IncrementProcess) and process.is_gaussian for process in weights)
        if isinstance(recursion, Inner):
            return _inner_independent(exponent)
        return _independent(recursion, gaussian, _is_isotropic(recursion, weights), exponent)
    if fractional := _fractional(weights):
        return classify_fractional(recursion, fractional, exponent)
    if all(isinstance(process, FunctionProcess) for process in weights):
        return _smooth(recursion, weights, exponent)
    return Regime(
        "no theorem",
        None,
        None,
        None,
        "the weight matrices have laws of different kinds (independent layers, functions of time, fractional"
        " Brownian motion); no proposition covers the mix.",
        "SmoothGaussian or Trend weights for all matrices, with exponent=1 (Proposition 12).",
    )


def limit_of(recursion: Recursion, weights: tuple[Process, ...], exponent: float, width: int) -> Limit:
    """Return the limit equation; raise NoTheoremError where there is none to pair with on the same noise."""
    if isinstance(weights[0], TrendAndNoise):
        return limit_of_plane(recursion, weights[0], exponent, width)
    if fractional := _fractional(weights):
        return limit_of_fractional(recursion, fractional, exponent, width)
    regime = classify(recursion, weights, exponent)
    if regime.name == "identity":
        return Identity()
    if regime.name == "ode":
        functions = tuple(process for process in weights if isinstance(process, FunctionProcess))
        return NeuralODE(recursion, functions, width)
    if regime.name == "sde" and isinstance(recursion, Res1):
        increments = tuple(process for process in weights if isinstance(process, IncrementProcess))
        return NeuralSDE(recursion, increments, width)
    if regime.name == "sde" and _is_isotropic(recursion, weights):
        return IsotropicSDE(width)
    raise no_limit(recursion, weights, exponent)


def no_limit(recursion: Recursion, weights: tuple[Process, ...], exponent: float) -> NoTheoremError:
    """Return the refusal of a network that has no limit on its own noise: why, and the closest setting
    that has one.
    """
    refusal = _refusal(recursion, weights, exponent)
    independent = all(process.facts.dependence == "independent" for process in weights)
    own = " compare_laws(resnet, limit) takes a limit of your own: a torchsde object or a LawLimit."
    return NoTheoremError(refusal + own if independent else refusal)


def _refusal(recursion: Recursion, weights: tuple[Process, ...], exponent: float) -> str:
    regime = classify(recursion, weights, exponent)
    return (
        f"cannot pair {recursion.name} ({', '.join(process.describe() for process in weights)}, exponent"
        f" {exponent:g}) with a limit because {regime.explanation} Closest: {regime.closest}"
    )


def _fractional(weights: tuple[Process, ...]) -> tuple[FractionalBrownian, ...]:
    """Return the laws if all of them are fractional Brownian, else nothing."""
    fractional = tuple(process for process in weights if isinstance(process, FractionalBrownian))
    return fractional if len(fractional) == len(weights) else ()


def in_law_only(recursion: Recursion, weights: tuple[Process, ...], exponent: float) -> NoTheoremError:
    """Return the refusal of a network whose limit is known in law only, where the same noise is asked for."""
    refusal = _refusal(recursion, weights, exponent)
    return NoTheoremError(f"{refusal} compare_laws compares the laws of h_L and of the limit instead.")


def _is_isotropic(recursion: Recursion, weights: tuple[Process, ...]) -> bool:
    """Whether the branch V ReLU(W h) has covariance |h|²/(2d) I: a symmetric W passes exactly half of
    |h|².
    """
    rectified = isinstance(recursion, Res2) and recursion.activation == activations.resolve("relu")
    return rectified and all(
        isinstance(process, IncrementProcess) and process.is_symmetric for process in weights
    )


def _independent(recursion: Recursion, gaussian: bool, isotropic: bool, exponent: float) -> Regime:
    if exponent > 0.5:
        return Regime(
            "identity",
            f"Corollary 5 {MARION}",
            exponent - 0.5,
            "pathwise",
            "independent layers with an exponent above 1/2 add up to nothing: the network tends to the"
            " identity. Corollary 5 bounds the norm under its assumption (A2), ½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖² (not"
            " checked); the order exponent - 1/2 is that of the martingale's standard deviation, for any"
            " Lipschitz activation.",
            corrections=(2 * exponent - 1.0, 1.0),
        )
    if exponent < 0.5:
        return Regime(
            "explosion",
            f"Corollary 5 {MARION}",
            None,
            None,
            "independent layers with an exponent below 1/2 make the hidden state grow without bound."
            " Corollary 5 proves it for d ≥ 9 under its assumption (A2), ½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖², which res-3"
            " satisfies and tanh does not; not checked.",
            (
                "the same network with exponent=0.5, which has a limit."
                if isinstance(recursion, Res1)
                else PAIRED
            ),
        )
    if not isinstance(recursion, Res1):
        return Regime(
            "sde",
            None,
            None,
            "in law",
            f"{recursion.name} multiplies two independent matrices a layer; their product is no increment of"
            " the driving path, so its diffusion limit holds in law only and no Euler scheme runs on the"
            " same noise."
            + (
                " Of every layer's branch the covariance is |h|²/(2d) I, so that limit is dH = |H|/√(2d) dβ."
                if isotropic
                else ""
            ),
            PAIRED,
        )
    if not gaussian:
        return Regime(
            "sde",
            f"Proposition 11 {MARION}, by Donsker's invariance principle",
            None,
            "in law",
            "the weights are not Gaussian, so the SDE is a limit in law only. On one path, coarse layers are"
            " normalised sums of the reference's draws (no longer of the named law).",
            "weights=Brownian(), for which the limit is pathwise.",
        )
    return Regime(
        "sde",
        f"Proposition 11 {MARION}",
        0.5,
        "pathwise",
        "independent Gaussian layers at the critical exponent 1/2: the network is the Euler-Maruyama scheme"
        " of a neural SDE. " + _lipschitz(recursion),
    )


def _inner_independent(exponent: float) -> Regime:
    return Regime(
        "no theorem",
        None,
        None,
        None,
        f"independent layers of size 1 inside the activation (exponent {exponent:g}) are outside Propositions"
        " 11 and 12; layers that are increments, of size L^-1/2, are what Theorem 4.4 of Cohen et al. (2021)"
        " is about.",
        "inner(..., noise=Ito(A=1/d), alpha=0) (Theorem 4.4), SmoothGaussian or Trend weights with exponent=1"
        " (Proposition 12), or res1 (Proposition 11).",
    )


def _smooth(recursion: Recursion, weights: tuple[Process, ...], exponent: float) -> Regime:
    if exponent > 1.0:
        return Regime(
            "identity",
            f"Proposition 13 {MARION}",
            exponent - 1.0,
            "pathwise",
            "weights that are functions of time with an exponent above 1: the network tends to the identity.",
            corrections=(exponent - 1.0, 1.0),
        )
    if exponent < 1.0:
        random = all(isinstance(process, SmoothGaussian) for process in weights)
        proved = random and isinstance(recursion, Res1) and recursion.activation.name == "identity"
        return Regime(
            "explosion" if random else "no theorem",
            f"Proposition 14 {MARION}" if proved else None,
            None,
            None,
            "weights that are functions of time add up coherently, too much of them below exponent 1."
            " Proposition 14 proves explosion for res-1 with the identity activation where V(0) transposed"
            " has a positive eigenvalue; other networks may explode, saturate or contract.",
            "the same network with exponent=1, which has a limit.",
        )
    smoothness = min(function.smoothness for process in weights for function in process.functions)
    rough = smoothness < 1.0
    return Regime(
        "ode",
        None if rough else f"Proposition 12 {MARION}",
        smoothness,
        "pathwise",
        (
            "weights that are only Hölder functions of time, which Proposition 12 does not cover"
            if rough
            else "weights that are Lipschitz functions of time"
        )
        + " at the critical exponent 1: the network is an Euler scheme of a neural ODE. "
        + _lipschitz(recursion),
        corrections=(1.0 - smoothness, 1.0) if rough else (1.0,),
    )


def _lipschitz(recursion: Recursion) -> str:
    activation = recursion.activation
    if activation.lipschitz is None:
        return f"Not checked: that {activation.name} is Lipschitz (only that it grows at most linearly)."
    return f"{activation.name} is Lipschitz, as the proposition asks."
