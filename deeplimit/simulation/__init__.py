"""The network at every depth and its limit, advanced together on the same noise in one streaming pass.

`task` is the specification and `planning` makes it; `pathwise` is the pass itself over one block of paths,
which `kernels` has faster forms of; `statistics` says what is kept of a path and `accumulator` keeps it;
`coupled_errors` is the measurement.
"""

from deeplimit.simulation.coupled_errors import Coupled, CoupledErrors, make_task
from deeplimit.simulation.moments import Moments
from deeplimit.simulation.statistics import Statistic
from deeplimit.simulation.task import Task

__all__ = ["Coupled", "CoupledErrors", "Moments", "Statistic", "Task", "make_task"]
