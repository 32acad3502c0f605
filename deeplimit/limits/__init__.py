"""What a network becomes at infinite depth: the limit equations, and the theorems that say which one and how fast.

The library's own limits are plain torchsde objects (`f`, `g`, `g_prod`, `sde_type`, `noise_type`) and torchdiffeq
functions `f(t, h)`; a user's own objects of either kind are read by `adapters`.
"""

from deeplimit.limits.adapters import UserODE, UserSDE, read_limit
from deeplimit.limits.cohen import ItoCorrectedSDE, LinearODE
from deeplimit.limits.equations import Identity, Independent, Limit, NeuralODE, NeuralSDE, ODELimit, SDELimit
from deeplimit.limits.isotropic import IsotropicSDE, LawLimit
from deeplimit.limits.regime import Regime
from deeplimit.limits.theorems import classify, in_law_only, limit_of
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
    "Regime",
    "SDELimit",
    "UserODE",
    "UserSDE",
    "classify",
    "in_law_only",
    "limit_of",
    "read_limit",
]
