"""One factor for all learning rates, at which the shallowest network is not saturated after the steps."""

from __future__ import annotations

import dataclasses
import math

from deeplimit.modules.training_check.findings import many
from deeplimit.modules.training_check.one_network import AfterSteps
from deeplimit.modules.training_check.runs import TrainedNetworks, shown

SATURATED = 0.1
"""Relative change of a branch beyond which exponents read low: the features of deep networks move by their
whole size. At 0.24 a power of 1/2 reads 0.32, at 0.08 it reads 0.5.
"""
SMALLEST = 1e-9
"""Factor of the learning rates below which something else is wrong."""


def unsaturated(trained: TrainedNetworks) -> tuple[TrainedNetworks, AfterSteps]:
    """Return the measurement with the largest factor up to 1 that was found to leave branches unsaturated.

    Beside it stands the shallowest network as it is after training at the given rates.

    The first seed of the shallowest depth is trained until it is found. It aims at four fifths of the bound,
    so that other seeds stay near it, too.
    """
    factor = 1.0
    at_given: AfterSteps | None = None
    while factor > SMALLEST:
        tried = dataclasses.replace(trained, factor=factor)
        after = tried.run(0)
        at_given = at_given or after
        # What starts at zero changes by a share of the stream per layer: all layers together count.
        moved = [
            change * (branch.count if branch.size == 0 else 1)
            for branch in after.branches
            if branch.size > 0 or after.streams[branch.stream].size > 0
            for change in branch.changes
        ]
        worst = max((value if math.isfinite(value) else math.inf for value in moved), default=0.0)
        if worst == 0:
            raise ValueError(
                f"no residual branch of factory({shown(trained.sizes[0])}) has changed after"
                f" {many(trained.steps[-1], 'step')}: check that optimizer(model, depth) holds the"
                " branches' parameters at a learning rate above 0, and that the loss depends on them. If the"
                " head starts at zero, they move from the second step on: raise steps=."
            )
        if worst <= SATURATED:
            return tried, at_given
        factor *= max(0.8 * SATURATED / worst, 1 / 16)
    raise ValueError(
        f"factory({shown(trained.sizes[0])}) changes by more than a tenth, or diverges, at every learning"
        f" rate down to {SMALLEST:g} of those given: check the loss and the batch for nan and infinity."
    )
