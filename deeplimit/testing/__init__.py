"""For test suites: assertions whose failure message is the diagnosis.

`check_law`, `check_recursion`, `check_limit` and `check_report` check your class against the contract of the
library's classes, and name what it breaks.
"""

from deeplimit.testing import strategies
from deeplimit.testing.depth_scaling import assert_depth_scaling
from deeplimit.testing.depth_transfer import assert_depth_transfer
from deeplimit.testing.laws import check_law
from deeplimit.testing.limits import check_limit
from deeplimit.testing.orders import assert_converges, assert_order
from deeplimit.testing.problems import PROBLEMS, Fault, Problem
from deeplimit.testing.recursions import check_recursion
from deeplimit.testing.reports import check_report

__all__ = [
    "PROBLEMS",
    "Fault",
    "Problem",
    "assert_converges",
    "assert_depth_scaling",
    "assert_depth_transfer",
    "assert_order",
    "check_law",
    "check_limit",
    "check_recursion",
    "check_report",
    "strategies",
]
