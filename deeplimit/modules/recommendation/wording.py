"""Why a recommendation has its verdict, as sentences by the names of the rules."""

from __future__ import annotations

from deeplimit.common.verdict import Sentences
from deeplimit.modules.recommendation.scaling_line import SMALL
from deeplimit.modules.recommendation.verdict import Evidence

SMALLER = " at least (with more, all updates together vanish before layers have learnt)"


def factor(value: float) -> str:
    """Return a factor with two digits."""
    return f"{value:.2g}x"


def _exponents(e: Evidence) -> str:
    """Return the measured exponents, from the smallest to the largest."""
    if not e.exponents:
        return "no exponent that was measured, as they are zero at the start"
    told = []
    for wanted in sorted({wanted for _, wanted in e.exponents}):
        found = [value for value, need in e.exponents if need == wanted]
        ends = dict.fromkeys(f"{round(value, 2) + 0.0:.2f}" for value in (min(found), max(found)))
        more = SMALLER if min(found) - wanted > SMALL else ""
        told.append(f"exponents {' to '.join(ends)} and need {wanted:g}{more}")
    return ", and ".join(told)


ALIGNED = (
    "{}: the layers start equal (or share their weights), so that updates add up like the depth. If they are"
    " not meant to, draw each layer again; the exponent is then 0.5."
)
REASONS: Sentences[Evidence] = {
    "is_mended": lambda e: (
        f"the branches have {_exponents(e)}; at depth {e.depth} the signal grows {factor(e.before.signal)}"
        f" and the gradient {factor(e.before.gradient)}; after the code {factor(e.after.signal)} and"
        f" {factor(e.after.gradient)}"
    ),
    "skip_is_wrong": lambda e: (
        f"the branches have {_exponents(e)}, but no factor of a branch sets this"
        f" right: {'; '.join(e.unsound)}. At depth {e.depth} the signal grows {factor(e.before.signal)}, the"
        f" gradient {factor(e.before.gradient)}"
    ),
    "is_right": lambda e: (
        f"the branches have {_exponents(e)}; at depth {e.depth} the signal grows"
        f" {factor(e.before.signal)}, the gradient {factor(e.before.gradient)}"
    ),
    "no_line_passed": lambda e: (
        f"at depth {e.depth} the signal grows {factor(e.before.signal)} and the gradient"
        f" {factor(e.before.gradient)}, and no line of code that was tried mended that at every depth"
    ),
}
