"""Has a solver its order, and is what it tends to the solution? Errors or runs become an order and a verdict.

`order_report` judges errors that somebody has. `solver_check` runs a solver at several numbers of steps on
one path (`shared_path`, `runs`) and judges what it finds (`verdict`, `wording`, `solver_report`).
`work_precision` judges an adaptive one at its tolerances (`work_report`).
"""

from deeplimit.judge.solver.order_report import OrderReport, order
from deeplimit.judge.solver.solver_check import check_solver
from deeplimit.judge.solver.solver_report import FunctionOrder, SolverReport
from deeplimit.judge.solver.work_precision import work_precision
from deeplimit.judge.solver.work_report import WorkReport

__all__ = [
    "FunctionOrder",
    "OrderReport",
    "SolverReport",
    "WorkReport",
    "check_solver",
    "order",
    "work_precision",
]
