"""The synthetic system of Cohen et al., whose states are the targets of their trained networks."""

from __future__ import annotations

import math

import torch

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.randomness import Purpose, generator
from deeplimit.trained.datasets.data import Data

STEPS = 100
"""How many steps the system takes."""


@by_default
def synthetic_system(
    width: int = 10, count: int = 1024, test: int = 256, *, normalise: str = "both", seed: int = 0
) -> Data:
    """Return inputs in the cube and where the system of Cohen et al. takes them.

    Inputs x are uniform on [-1, 1]^d. From z_0 = x on, z_{k+1} = z_k + K^{-1/2} tanh(sin(t_k) z_k + cos(t_k))
    with t_k = 5πk/K and K = 100. The target is z_K/‖z_K‖. The public code counts k from 0 and is followed
    here; the paper counts from 1. The system is computed in float64 and kept in float32.

    Args:
        width: d, of inputs and targets.
        count: number of inputs for training (n, d).
        test: number of inputs for testing.
        normalise: "both" divides the inputs by their norms, too, once targets are computed from them as
            they were drawn. The public code does that. "targets" leaves them alone, as the paper says.
        seed: what decides the inputs. The first `count` do not depend on how many are for testing.

    Raises TypeError and ValueError for sizes below 1 and for other words in `normalise`.

    Examples:
        >>> import deeplimit as dl
        >>> data = dl.datasets.synthetic_system()
        >>> data.describe()
        'synthetic system: 1024 inputs of shape (10,), 256 for testing, 10 outputs'
        >>> round(float(data.inputs[0].norm()), 6), round(float(data.targets[0].norm()), 6)
        (1.0, 1.0)
    """
    d = validation.integer(width, "width", minimum=1)
    train = validation.integer(count, "count", minimum=1)
    rows = train + validation.integer(test, "test", minimum=1)
    validation.choice(normalise, "normalise", ("both", "targets"))
    x = torch.empty(rows, d, dtype=torch.float64)
    x.uniform_(-1.0, 1.0, generator=generator(validation.seed(seed), Purpose.DATA_INPUTS))
    z = x
    for step in range(STEPS):
        time = 5 * math.pi * step / STEPS
        z = z + STEPS**-0.5 * torch.tanh(math.sin(time) * z + math.cos(time))
    targets = (z / z.norm(dim=1, keepdim=True)).float()
    inputs = (x / x.norm(dim=1, keepdim=True) if normalise == "both" else x).float()
    name = "synthetic system" if normalise == "both" else "synthetic system, inputs not normalised"
    return Data(
        name, inputs[:train], targets[:train], inputs[train:], targets[train:], citations=("cohen2021",)
    )
