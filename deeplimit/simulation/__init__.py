"""The network at every depth and its limit, advanced together on the same noise in one streaming pass.

`task` is the specification, with the statistics that are kept of a path; `coupled_errors` makes it and is the
measurement; `pathwise` is the pass itself over one block of paths, which `kernels` has faster forms of;
`moments` keeps what is measured.
"""

from deeplimit.simulation.coupled_errors import Coupled, CoupledErrors, make_task
from deeplimit.simulation.moments import Moments
from deeplimit.simulation.task import Statistic, Task

__all__ = ["Coupled", "CoupledErrors", "Moments", "Statistic", "Task", "make_task"]
