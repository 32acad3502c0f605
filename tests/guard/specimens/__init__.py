"""Small reports of every verb, weight law, recursion, coupling and norm, through public names alone.

Each specimen takes no argument and returns what has a `to_dict()`, or a dict of plain Python where the
library makes no report. Nothing here may read a private name: these must survive any move of its insides.
"""

from __future__ import annotations

import deeplimit as dl

from .comparisons import COMPARE
from .initialisation import INIT
from .laws import LAWS
from .modules import DEPTH, branch_scalars
from .stability import PHASE, STABILITY
from .theory import activations, limits, regimes

SPECIMENS = {
    **{f"compare-{name}": make for name, make in COMPARE.items()},
    **{f"laws-{name}": make for name, make in LAWS.items()},
    **{f"stability-{name}": make for name, make in STABILITY.items()},
    **{f"phase-{name}": make for name, make in PHASE.items()},
    **{f"depth-{name}": make for name, make in DEPTH.items()},
    **{f"init-{name}": make for name, make in INIT.items()},
    "depth-scalars": branch_scalars,
    "theory-regimes": regimes,
    "theory-limits": limits,
    "theory-activations": activations,
    "validate-neural-ode": lambda: dl.validate(quick=True, only="α = 1, β = 0"),
    "validate-linear-ode": lambda: dl.validate(quick=True, only="erf, α = 0.5", seed=1),
    "reproduce-figure-1": lambda: dl.reproduce("marion-fig1", quick=True),
}
