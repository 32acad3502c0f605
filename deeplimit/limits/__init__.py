"""What a network becomes at infinite depth: the limit equations.

The library's limits are plain torchsde objects (`f`, `g`, `g_prod`, `sde_type`, `noise_type`) and
torchdiffeq functions `f(t, h)`. `users_own` reads a user's objects of either kind.
"""

from deeplimit.limits.attention import AttentionSDE
from deeplimit.limits.base import Independent, Limit, ODELimit, SDELimit
from deeplimit.limits.covariance import CovarianceSDE
from deeplimit.limits.drive import Drive, Sharing
from deeplimit.limits.follower import CompiledStep, Follower, FunctionValue, Motion
from deeplimit.limits.in_law import IsotropicSDE, LawLimit
from deeplimit.limits.linearised import ItoCorrectedSDE, LinearODE
from deeplimit.limits.neural import Identity, NeuralODE, NeuralSDE
from deeplimit.limits.solvers import Solver
from deeplimit.limits.users_own import UserODE, UserSDE, read_limit
from deeplimit.limits.young import NeuralYoung

__all__ = [
    "AttentionSDE",
    "CompiledStep",
    "CovarianceSDE",
    "Follower",
    "FunctionValue",
    "Motion",
    "Solver",
    "Drive",
    "Identity",
    "Independent",
    "IsotropicSDE",
    "ItoCorrectedSDE",
    "LawLimit",
    "Limit",
    "LinearODE",
    "NeuralODE",
    "NeuralSDE",
    "NeuralYoung",
    "ODELimit",
    "SDELimit",
    "Sharing",
    "UserODE",
    "UserSDE",
    "read_limit",
]
