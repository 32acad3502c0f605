"""Losses and gradients of S networks of one depth, by one pass forward and one backward."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from deeplimit.common.arrays import Array, ArrayLibrary
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.trained.training.ends import Ends
from deeplimit.trained.training.losses import Loss

Arrays = dict[str, Array]
LAYERS_AT_ONCE = 64
"""How many layers keep their states while outputs alone are asked for."""
INPUTS_AT_ONCE = 256


@final
@dataclass(frozen=True)
class Parametrisation:
    """What is trained of a network, and how parameters make weights.

    Attributes:
        network: recursion, width and residual exponent.
        ends: what stands before and after the layers.
        tied: names of weights that all layers share.
        nonnegative: names of weights of which the absolute value is taken.
        fixed: names of weights that keep their first values.
        checkpointing: whether the states of √L layers alone are kept, and the others computed again.
    """

    network: ResidualNetwork
    ends: Ends
    tied: frozenset[str] = frozenset()
    nonnegative: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    checkpointing: bool = False


@final
class NetworkPass:
    """S networks of depth L; parameters are (L, S, *shape), or (1, S, *shape) where all layers share them."""

    def __init__(self, of: Parametrisation, depth: int, loss: Loss, library: ArrayLibrary) -> None:
        self.of, self.depth, self.loss, self.library = of, depth, loss, library
        self.layers = of.network.recursion.stacked_pass(library)
        self.measuring = of.network.recursion.stacked_pass(library)
        self.segment = math.isqrt(depth - 1) + 1 if of.checkpointing else depth

    def stacks(self, parameters: Arrays) -> Arrays:
        """Return the layers' weights (L, S, *shape) that these parameters make."""
        found = {}
        for name, value in parameters.items():
            if "." in name:  # those of the ends
                continue
            if name in self.of.nonnegative:
                value = self.library.xp.abs(value)  # noqa: PLW2901
            if name in self.of.tied:
                value = self.library.repeated(value[0], self.depth)  # noqa: PLW2901
            found[name] = value
        return found

    def losses_and_gradients(
        self, parameters: Arrays, inputs: Array, targets: torch.Tensor
    ) -> tuple[np.ndarray, Arrays]:
        """Return the loss of each network (S,) on inputs (S, n, ...), and the gradients of all parameters."""
        ends, library = self.of.ends, self.library
        stacks = self.stacks(parameters)
        state = ends.enter(inputs, parameters, library)
        starts, last = [], None
        for first in range(0, self.depth, self.segment):
            one_only = self.segment >= self.depth
            starts.append(state if one_only else library.copy(state))
            state = self._forward(starts[-1], stacks, first)
            last = first
        outputs = ends.leave(state, parameters, library)
        losses, of_outputs = self.loss.evaluated(library.tensor(outputs), targets)
        gradient, found = ends.leave_backward(state, parameters, library.array(of_outputs), library)
        pieces: list[Arrays] = []
        for place in range(len(starts) - 1, -1, -1):
            first = place * self.segment
            if first != last:
                self._forward(starts[place], stacks, first)
            gradient, of_stacks = self.layers.backward(gradient)
            pieces.append(of_stacks)
        gradients = {
            name: pieces[0][name]
            if len(pieces) == 1
            else library.concatenated([p[name] for p in pieces[::-1]])
            for name in stacks
        }
        for name in stacks:
            if name in self.of.tied:
                gradients[name] = self._over_layers(gradients[name])
            if name in self.of.nonnegative:
                gradients[name] = gradients[name] * library.xp.sign(parameters[name])
        if ends.trained:
            gradients |= found | ends.enter_backward(inputs, gradient, library)
        return losses.cpu().numpy(), {name: gradients[name] for name in self.trained(parameters)}

    def _over_layers(self, value: Array) -> Array:
        """Return the sum over layers (1, S, *shape), one network at a time: how many decides no bit."""
        sums = [self.library.copy(value[:, s]).sum(0)[None] for s in range(value.shape[1])]
        return np.stack(sums, axis=1) if self.library.on_cpu else torch.stack(sums, dim=1)

    def trained(self, parameters: Arrays) -> list[str]:
        """Return the names of the parameters that are trained."""
        return [
            name
            for name in parameters
            if name not in self.of.fixed and ("." not in name or self.of.ends.trained)
        ]

    def _forward(self, state: Array, stacks: Arrays, first: int) -> Array:
        cut = {name: stack[first : first + self.segment] for name, stack in stacks.items()}
        return self.layers.forward(state, cut, self.depth, self.of.network.exponent)

    def outputs(self, parameters: Arrays, inputs: Array) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield outputs (S, n, outputs) for pieces of inputs (N, ...), which all networks get."""
        stacks, library = self.stacks(parameters), self.library
        networks = len(next(iter(stacks.values()))[0])
        for begin in range(0, len(inputs), INPUTS_AT_ONCE):
            piece = slice(begin, begin + INPUTS_AT_ONCE)
            x = library.repeated(inputs[piece], networks)
            state = self.of.ends.enter(x, parameters, library)
            for first in range(0, self.depth, LAYERS_AT_ONCE):
                cut = {name: stack[first : first + LAYERS_AT_ONCE] for name, stack in stacks.items()}
                state = library.copy(self.measuring.forward(state, cut, self.depth, self.of.network.exponent))
            yield piece, library.tensor(self.of.ends.leave(state, parameters, library))

    def measured(
        self, parameters: Arrays, inputs: Array, targets: torch.Tensor, classes: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return loss and accuracy (S,) on inputs (N, ...); the accuracy is NaN without classes."""
        losses, right = np.zeros(()), np.zeros(())
        for piece, outputs in self.outputs(parameters, inputs):
            wanted = targets[piece].expand(len(outputs), *targets[piece].shape)
            count = wanted.shape[1]
            losses = losses + self.loss.evaluated(outputs, wanted)[0].cpu().numpy() * count
            right = right + self.loss.accuracy(outputs, wanted).cpu().numpy() * count
        total = len(inputs)
        accuracies = right / total
        return losses / total, accuracies if classes else np.full_like(accuracies, np.nan)
