"""Initialisers for PyTorch modules: weights that follow one law across the layers, with the residual scale
L^-exponent.

As in `torch.nn.init`, a trailing underscore says that tensors are filled in place. An initialiser takes the
weights of one role: one tensor per layer, in order of depth. The dependence between the layers' weights
decides which limit a deep network has. The weights become

    L^-exponent · gain/√fan_in · Z_k,  k = 1 … L,

where each entry of Z is an independent path of one weight law, with variance 1 at every layer. `residual_`
does this for a whole model.

Examples:
    >>> import torch, deeplimit as dl
    >>> Linear, ReLU = torch.nn.Linear, torch.nn.ReLU
    >>> blocks = [torch.nn.Sequential(Linear(32, 128), ReLU(), Linear(128, 32)) for _ in range(24)]
    >>> generator = torch.Generator().manual_seed(0)
    >>> into = [block[0].weight for block in blocks]
    >>> into = dl.init.fractional_(into, hurst=0.7, exponent=0, seed=generator)
    >>> out = dl.init.fractional_([block[2].weight for block in blocks], hurst=0.7, seed=generator)
    >>> out.limit, out.exponent, f"{out.standard_deviation:.3g}"
    ('young', 0.7, '0.00956')
"""

from deeplimit.networks.initialise.one_role import fractional_, iid_, sample_, smooth_
from deeplimit.networks.initialise.residual import residual_
from deeplimit.networks.initialise.result import Initialisation, ResidualInitialisation, RoleInitialisation

__all__ = [
    "Initialisation",
    "ResidualInitialisation",
    "RoleInitialisation",
    "fractional_",
    "iid_",
    "residual_",
    "sample_",
    "smooth_",
]
