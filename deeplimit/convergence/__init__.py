"""How fast, and to the right limit? Per-path errors become an order with interval, a floor, a verdict."""

from deeplimit.convergence.comparison import compare
from deeplimit.convergence.report import CompareReport

__all__ = ["CompareReport", "compare"]
