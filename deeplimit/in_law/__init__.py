"""Whether the law of h_L tends to the limit's at time 1: independent draws, tests per depth, a verdict.

`simulation` draws, `statistics` tests and extrapolates to infinite depth, `verdict` decides, `report` tells.
"""

from deeplimit.in_law.comparison import compare_laws
from deeplimit.in_law.one_draw import OneDraw
from deeplimit.in_law.report import LawReport

__all__ = ["LawReport", "OneDraw", "compare_laws"]
