"""Whether the law of h_L tends to the limit's at time 1: independent draws, tests per depth, a verdict.

`comparison` holds what users call: `simulation` draws, `two_sample` tests at each depth, `inference`
extrapolates to infinite depth, `verdict` decides, `report` tells. `one_draw` draws one of them again.
"""

from deeplimit.judge.in_law.comparison import compare_laws
from deeplimit.judge.in_law.one_draw import OneDraw
from deeplimit.judge.in_law.report import LawReport

__all__ = ["LawReport", "OneDraw", "compare_laws"]
