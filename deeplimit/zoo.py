"""Known pairs of network and limit, right ones and wrong ones, for anyone who checks a method.

A right pair must come out "converges" at its order, a wrong one "does not converge". A method that says
otherwise cannot be trusted. Every wrong limit is wrong in one way only. The full list of
cases is on the page [Known cases](../cases.md).
"""

from deeplimit.papers.cases import Case, LawCase, Pair, WrongTwin, cases, law_cases, pairs
from deeplimit.papers.cases.wrong_limits import (
    AlteredSDE,
    exchanged_quadratic,
    neural_ode_of,
    quadratic_without_cross_term,
    quadratic_without_derivative,
    stratonovich_drift,
    with_noise_scaled,
    with_other_quadratic,
)

__all__ = [
    "AlteredSDE",
    "with_noise_scaled",
    "with_other_quadratic",
    "Case",
    "LawCase",
    "exchanged_quadratic",
    "Pair",
    "quadratic_without_cross_term",
    "quadratic_without_derivative",
    "WrongTwin",
    "cases",
    "law_cases",
    "neural_ode_of",
    "pairs",
    "stratonovich_drift",
]
