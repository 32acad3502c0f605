"""Why a stack of blocks has its limit, as sentences by the names of the rules."""

from __future__ import annotations

from deeplimit.common.verdict import Sentences
from deeplimit.judge.block_limit.scaling import Power
from deeplimit.judge.block_limit.verdict import ALMOST_EQUAL, Evidence


def power(value: Power | None) -> str:
    """Return "depth^0.02 [-0.01, 0.05]"."""
    if value is None:
        return "no power of the depth"
    return f"depth^{value.exponent:.2f} [{value.low:.2f}, {value.high:.2f}]"


def _like_its_limit(e: Evidence) -> str:
    """Return how far the comparison in law saw."""
    far = f" (Kolmogorov distances up to {max(e.beside.distances):.2f})" if e.beside is not None else ""
    return f"the networks' law is not told apart from the measured diffusion's{far}"


def _of_updates(e: Evidence) -> float:
    """Return the exponent with which one update falls."""
    return 0.0 if e.size is None else -e.size.exponent


def _side(e: Evidence) -> str:
    return "below" if _of_updates(e) < 0.5 else "above"


def _sum(e: Evidence) -> str:
    return f"the sum of all updates fluctuates like {power(e.noise)}"


def _alike(e: Evidence) -> str:
    """Return what layers have in common, near each other or at any distance."""
    near, far = e.deepest.correlations[0], e.deepest.correlations[-1]
    if near < ALMOST_EQUAL and abs(near - far) < 1 - near:
        lag = e.deepest.lags[-1]
        return f"layers have a part in common (correlation {near:.2f}, {far:.2f} at distance {lag})"
    return f"neighbouring layers are alike (correlation {near:.2f})"


AFTER_A_JUMP = (
    "; the first layer moves the state by far more than any other, as a normalisation does, and the limit"
    " begins after it"
)
"""What is added where a limit does not begin at the input."""
REASONS: Sentences[Evidence] = {
    "overflows": lambda e: f"{e.lost:.0%} of the deepest networks overflow",
    "is_not_finite": lambda e: f"{e.lost:.0%} of the networks have states that are not finite",
    "nothing_moves": lambda e: "every update is zero at initialisation",
    "has_heavy_tails": lambda e: (
        f"one update carries {e.deepest.largest_update:.0%} of all squares:"
        " the variance of updates is infinite or nearly so"
    ),
    "layers_depend_on_others": lambda e: (
        f"the sum of all updates varies {e.together:.2f} times as much as that of independent layers, at all"
        f" depths (correlation of neighbours {e.deepest.correlations[0]:.2f}): layers share a part, or"
        " remember each other, which adds to the limit what sums at one state do not show"
    ),
    "remembers_few_layers": lambda e: (
        f"{_sum(e)}, because layers are like others near them (correlation"
        f" {max(e.deepest.correlations):.2f}) at any depth: add depths far beyond that"
    ),
    "grows": lambda e: f"{_sum(e)}, and the state moves by {power(e.displacement)}",
    "layers_are_fixed": lambda e: (
        f"neighbouring layers differ in the same way in every network ({e.deepest.fixed:.0%} of what they"
        " add): weights that are drawn once have no law. If the factory sets a seed, or an initialiser in it"
        " does, let every call draw other weights"
    ),
    "neighbours_undo_each_other": lambda e: (
        f"neighbouring layers undo each other (correlation {e.deepest.correlations[0]:.2f}): what is left is"
        " a drift that sums of updates at one state do not show. dl.res1(..., weights=dl.AR1(...)).limit()"
        " has it"
    ),
    "turns_as_far_at_any_depth": lambda e: (
        f"{_sum(e)}, but the state is not seen to grow: layers contract or turn it, or depths are too few"
    ),
    "grows_in_spite_of_its_parts": lambda e: (
        f"the state moves by {power(e.displacement)} though the sum of all updates at one state does not grow"
    ),
    "vanishes": lambda e: f"all updates together vanish: the state moves by {power(e.displacement)}",
    "parts_and_whole_disagree": lambda e: (
        f"{_sum(e)}, but the state moves by {power(e.displacement)}: updates do not explain the network"
    ),
    "has_a_drift_alone": lambda e: (
        f"the mean of the sum of all updates stays ({power(e.drift)}), fluctuations vanish"
    ),
    "has_smooth_layers": lambda e: (
        f"{_alike(e)}, and the network is {e.ode_distance:.2g} from the ODE through its layers"
    ),
    "is_far_from_its_ode": lambda e: (
        f"layers are aligned, but the network is {e.ode_distance:.2g} from their ODE"
    ),
    "has_one_large_layer": lambda e: f"one layer has {e.deepest.largest_layer:.0%} of the variance of all",
    "has_jumps": lambda e: (
        "few layers carry the sum at any depth: the squares of their shares add up to"
        f" {power(e.concentration)}, where a diffusion has depth^-1"
    ),
    "law_is_another_one": lambda e: (
        "the diffusion with the measured drift and covariance has another law than the network"
    ),
    "has_isotropic_noise": lambda e: (
        "updates are independent over layers, and their covariance is a multiple of the identity"
        f" (statistic {e.deepest.anisotropy:.2f}); {_like_its_limit(e)}"
    ),
    "has_directed_noise": lambda e: (
        "updates are independent over layers, with directions of their own (statistic"
        f" {e.deepest.anisotropy:.2f}, 1 for isotropic ones); {_like_its_limit(e)}"
    ),
    "has_correlated_layers": lambda e: (
        f"the alignment of layers grows like {power(e.alignment)}: neither independent (0) nor smooth (1)"
    ),
    "has_another_exponent": lambda e: (
        f"layers are independent, but one update falls with an exponent surely {_side(e)} 1/2, that of an"
        f" SDE: the sum of all updates {'grows' if _of_updates(e) < 0.5 else 'vanishes'} like"
        f" depth^{0.5 - _of_updates(e):.2f}, slowly. Scale the branches by depth^-1/2 for an SDE"
    ),
    "is_not_resolved": lambda e: f"{_sum(e)}: add depths that are further apart, or more draws",
}
