"""What a network becomes at infinite depth: the limit equations.

The library's own limits are plain torchsde objects (`f`, `g`, `g_prod`, `sde_type`, `noise_type`) and
torchdiffeq functions `f(t, h)`; a user's own objects of either kind are read by `users_own`.
"""

from deeplimit.limits.equations import Identity, Independent, Limit, NeuralODE, NeuralSDE, ODELimit, SDELimit
from deeplimit.limits.in_law import IsotropicSDE, LawLimit
from deeplimit.limits.linearised import ItoCorrectedSDE, LinearODE
from deeplimit.limits.users_own import UserODE, UserSDE, read_limit
from deeplimit.limits.young import NeuralYoung

__all__ = [
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
    "UserODE",
    "UserSDE",
    "read_limit",
]
