"""What an optimizer does to each parameter, read from its groups before any step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from deeplimit.modules.trace.branches import Layout
from deeplimit.modules.trace.recording import matrix


@dataclass(frozen=True)
class Settings:
    """Learning rate, epsilon and weight decay of one parameter; nan where the optimizer has none.

    Attributes:
        name: name of the parameter.
        inside: whether it is in a residual branch.
        weight: whether it is a weight: at least two axes longer than one.
        trains: whether it requires a gradient.
        rate, epsilon, decay: of its group; a rate of 0 if it is in no group.
    """

    name: str
    inside: bool
    weight: bool
    trains: bool
    rate: float
    epsilon: float
    decay: float


def settings_of(model: nn.Module, optimizer: torch.optim.Optimizer, found: Layout) -> tuple[Settings, ...]:
    """Return the settings of all parameters, in the module's order."""
    inside = {name for join in found.joins for name in join.parameters}
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    settings = []
    for full, parameter in model.named_parameters():
        name = full.removeprefix("_orig_mod.")
        group = groups.get(id(parameter), {"lr": 0.0})
        settings.append(
            Settings(
                name,
                name in inside,
                matrix(parameter.shape),
                parameter.requires_grad,
                float(group["lr"]),
                float(group.get("eps", math.nan)),
                float(group.get("weight_decay", math.nan)),
            )
        )
    return tuple(settings)
