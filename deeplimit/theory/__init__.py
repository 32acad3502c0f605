"""The theorem table: which limit a network has, how fast, by which statement, or that none applies."""

from deeplimit.theory.regime import Regime
from deeplimit.theory.table import classify, in_law_only, limit_of

__all__ = ["Regime", "classify", "in_law_only", "limit_of"]
