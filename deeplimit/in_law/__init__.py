"""Whether the law of h_L tends to that of the limit at time 1: independent draws of both, tests at each
depth, a verdict.

`simulation` draws, `statistics` tests and extrapolates to infinite depth, `verdict` decides, `report` tells.
"""

from deeplimit.in_law.comparison import compare_laws
from deeplimit.in_law.report import LawReport

__all__ = ["LawReport", "compare_laws"]
