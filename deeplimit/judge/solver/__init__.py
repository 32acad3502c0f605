"""Has a solver its order, and is what it tends to the solution? Errors or runs become an order and a verdict.

`order_report` judges errors that somebody has. `solver_check` runs a solver at several numbers of steps on
one path (`shared_path`, `runs`) and judges what it finds (`verdict`, `wording`, `solver_report`).
"""

from deeplimit.judge.solver.order_report import OrderReport, order
from deeplimit.judge.solver.solver_check import check_solver
from deeplimit.judge.solver.solver_report import FunctionOrder, SolverReport

__all__ = ["FunctionOrder", "OrderReport", "SolverReport", "check_solver", "order"]
