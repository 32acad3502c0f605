"""Real `nn.Module`s: which residual branches they hold, how these scale with depth, and whether that is what was meant.

A trace of one forward (`tracing`) and its autograd graph (`graph`) give the residual joins; `branches` names their parts;
`measurement` asks every branch about the same stream; `exponents` and `scaling` fit over depths; `rules` and `findings` judge.
"""

from deeplimit.modules.branches import Branch, find_branches
from deeplimit.modules.check import branch_scalars, check_depth, probe, sweep
from deeplimit.modules.report import DepthReport
from deeplimit.modules.rules import Rule

__all__ = ["Branch", "DepthReport", "Rule", "branch_scalars", "check_depth", "find_branches", "probe", "sweep"]
