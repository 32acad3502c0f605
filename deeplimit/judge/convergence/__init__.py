"""How fast, and to the right limit? Per-path errors become an order with interval, a floor, a verdict."""

from deeplimit.judge.convergence.comparison import compare
from deeplimit.judge.convergence.report import CompareReport

__all__ = ["CompareReport", "compare"]
