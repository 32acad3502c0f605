"""How fast, and whether to the right limit: per-path errors become an order with an interval, a floor and a
verdict.
"""

from deeplimit.convergence.comparison import compare
from deeplimit.convergence.report import CompareReport

__all__ = ["CompareReport", "compare"]
