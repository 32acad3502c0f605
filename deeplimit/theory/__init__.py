"""The theorem table: which limit a network has, how fast, by which statement, or that none applies."""

from deeplimit.theory.clock import CorrelationClock
from deeplimit.theory.energy import Block, block, covered, expected_square, log_normal
from deeplimit.theory.table import find, gradients_of, growth_of, in_law_only, limit_of
from deeplimit.theory.theorem import Growth, Hypothesis, Network, Regime, Theorem, Truth, reservations

__all__ = [
    "Block",
    "CorrelationClock",
    "Growth",
    "Hypothesis",
    "Network",
    "Regime",
    "Theorem",
    "Truth",
    "block",
    "covered",
    "expected_square",
    "find",
    "gradients_of",
    "growth_of",
    "in_law_only",
    "limit_of",
    "log_normal",
    "reservations",
]
