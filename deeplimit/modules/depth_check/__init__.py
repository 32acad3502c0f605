"""Whether a module's residual branches scale with depth as they should: measured at a few depths, and judged.

`one_depth` measures every branch on the same stream; `scaling` combines depths by the fits of `exponents`;
`judgement` holds them against `rules` or an exponent, and writes `findings`.
"""

from deeplimit.modules.depth_check.check import branch_scalars, check_depth, probe, sweep
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.rules import Rule

__all__ = ["DepthReport", "Rule", "branch_scalars", "check_depth", "probe", "sweep"]
