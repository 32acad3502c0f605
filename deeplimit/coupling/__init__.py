"""The network at every depth and its limit, advanced together on the same noise in one streaming pass.

`grid` is the union of all layer times, by integers; `readers` turn one driving path into the layers of every
depth; `references` advance the limit; `pathwise` is the pass itself over one block of paths; `runner` is
what runs and merges blocks.
"""

from deeplimit.coupling.moments import Moments
from deeplimit.coupling.planning import make_task
from deeplimit.coupling.runner import Coupled, CoupledErrors
from deeplimit.coupling.task import Task

__all__ = ["Coupled", "CoupledErrors", "Moments", "Task", "make_task"]
