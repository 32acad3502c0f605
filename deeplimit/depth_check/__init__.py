"""Whether a module's residual branches scale with depth as they should: measured at a few depths, and judged.

`measurement` asks every branch about the same stream; `exponents` and `scaling` fit over depths; `rules` and
`findings` judge.
"""

from deeplimit.depth_check.check import branch_scalars, check_depth, probe, sweep
from deeplimit.depth_check.report import DepthReport
from deeplimit.depth_check.rules import Rule

__all__ = ["DepthReport", "Rule", "branch_scalars", "check_depth", "probe", "sweep"]
