"""The names of `deeplimit.testing`, for type checkers and for the package, which loads them lazily."""

from . import strategies as strategies
from .depth_scaling import assert_depth_scaling as assert_depth_scaling
from .depth_transfer import assert_depth_transfer as assert_depth_transfer
from .laws import check_law as check_law
from .limits import check_limit as check_limit
from .orders import assert_converges as assert_converges, assert_order as assert_order
from .problems import PROBLEMS as PROBLEMS, Fault as Fault, Problem as Problem
from .recursions import check_recursion as check_recursion
from .reports import check_report as check_report
