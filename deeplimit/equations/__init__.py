"""What a network becomes at infinite depth: the limit equations.

The library's limits are plain torchsde objects (`f`, `g`, `g_prod`, `sde_type`, `noise_type`) and
torchdiffeq functions `f(t, h)`. `users_own` reads a user's objects of either kind.
"""

from deeplimit.equations.attention import AttentionSDE
from deeplimit.equations.base import (
    CompiledStep,
    FunctionValue,
    Independent,
    Limit,
    Motion,
    ODELimit,
    SDELimit,
    Stepper,
)
from deeplimit.equations.coloured import ColouredSDE
from deeplimit.equations.covariance import CovarianceSDE
from deeplimit.equations.drive import Drive, Sharing
from deeplimit.equations.given import ODE, SDE, read_limit
from deeplimit.equations.in_law import IsotropicSDE, LawLimit
from deeplimit.equations.isotropic import AveragedODE, RadialSDE
from deeplimit.equations.linearised import ItoCorrectedSDE, LinearODE
from deeplimit.equations.mixed import MixedSDE
from deeplimit.equations.neural import Identity, NeuralODE, NeuralSDE
from deeplimit.equations.schemes import (
    RK4,
    EulerMaruyama,
    Exact,
    Heun,
    Milstein,
    Noise,
    Scheme,
    TorchSDE,
)
from deeplimit.equations.solvers import Solver
from deeplimit.equations.young import NeuralYoung

__all__ = [
    "AttentionSDE",
    "AveragedODE",
    "CompiledStep",
    "ColouredSDE",
    "CovarianceSDE",
    "Stepper",
    "FunctionValue",
    "Motion",
    "ODE",
    "RK4",
    "SDE",
    "EulerMaruyama",
    "Exact",
    "Heun",
    "Milstein",
    "Noise",
    "Scheme",
    "Solver",
    "TorchSDE",
    "Drive",
    "Identity",
    "Independent",
    "IsotropicSDE",
    "ItoCorrectedSDE",
    "LawLimit",
    "Limit",
    "LinearODE",
    "MixedSDE",
    "NeuralODE",
    "NeuralSDE",
    "NeuralYoung",
    "ODELimit",
    "RadialSDE",
    "SDELimit",
    "Sharing",
    "read_limit",
]
