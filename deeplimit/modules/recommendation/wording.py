"""Why a recommendation has its verdict, as sentences by the names of the rules."""

from __future__ import annotations

from deeplimit.common.verdict import Sentences
from deeplimit.modules.recommendation.verdict import Evidence


def factor(value: float) -> str:
    """Return a factor with two digits."""
    return f"{value:.2g}x"


def _exponents(e: Evidence) -> str:
    """Return the measured exponents, from the smallest to the largest."""
    ends = [f"{value:.2f}" for value in (min(e.exponents), max(e.exponents))] if e.exponents else []
    return f"exponents {' to '.join(dict.fromkeys(ends))}" if ends else "no exponent that was measured"


ALIGNED = (
    "{}: the layers start equal (or share their weights), so that updates add up like the depth. If they are"
    " not meant to, draw each layer again; the exponent is then 0.5."
)
REASONS: Sentences[Evidence] = {
    "is_mended": lambda e: (
        f"at depth {e.depth} the signal grows {factor(e.before.signal)} and the gradient"
        f" {factor(e.before.gradient)}; after the code {factor(e.after.signal)} and"
        f" {factor(e.after.gradient)}"
    ),
    "skip_is_wrong": lambda e: (
        f"the branches have {_exponents(e)} and need {e.wanted:g}, but no factor of a branch sets the skips"
        f" right: {'; '.join(e.unsound)}. At depth {e.depth} the signal grows {factor(e.before.signal)}, the"
        f" gradient {factor(e.before.gradient)}"
    ),
    "is_right": lambda e: (
        f"the branches have {_exponents(e)} and need {e.wanted:g}, and at depth {e.depth} the signal grows"
        f" {factor(e.before.signal)}, the gradient {factor(e.before.gradient)}"
    ),
    "no_line_passed": lambda e: (
        f"at depth {e.depth} the signal grows {factor(e.before.signal)} and the gradient"
        f" {factor(e.before.gradient)}, and no line of code that was tried mended that at every depth"
    ),
}
