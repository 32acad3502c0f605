"""σ(h + L^-β (Δ ∗ σ(A ∗ h) + F ∗ h)) for all layers of several networks, forward, and backward by hand."""

from __future__ import annotations

from typing import cast, final

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from deeplimit.common.arrays import Array, ArrayLibrary
from deeplimit.layers.activations import Activation, derivative
from deeplimit.layers.stacked import StackedPass, Stacks

Kept = tuple[Tensor, Tensor, Tensor, Tensor]
"""Of one layer: its input, A ∗ h, σ(A ∗ h), and the argument of the outer σ."""


@final
class ConvolutionPass(StackedPass):
    """Two kernels per layer, and where there is a shortcut a third; networks one at a time.

    Args:
        outer, inner, shortcut: names of Δ, A and F among the stacks; the last may be None.
        activation: σ.
        library: what arrays are made with.
    """

    def __init__(
        self, outer: str, inner: str, shortcut: str | None, activation: Activation, library: ArrayLibrary
    ) -> None:
        self.outer, self.inner, self.shortcut = outer, inner, shortcut
        self.activation, self.library = activation, library
        self.is_relu = activation == Activation.by_name("relu")

    def forward(self, state: Array, stacks: Stacks, depth: int, exponent: float) -> Array:
        self.scale = depth**-exponent
        self.kernels = {name: self.library.tensor(stack) for name, stack in stacks.items()}
        self.kept: list[list[Kept]] = []
        with torch.no_grad():
            ends = [self._one(h, s) for s, h in enumerate(self.library.tensor(state))]
            return self.library.array(torch.stack(ends))

    def _one(self, h: Tensor, s: int) -> Tensor:
        """Return the end state (n, c, height, width) of network s."""
        kept = []
        for k in range(len(self.kernels[self.inner])):
            a = self._convolved(h, self.inner, k, s)
            z = self.activation(a)
            branch = self._convolved(z, self.outer, k, s)
            if self.shortcut is not None:
                branch = branch + self._convolved(h, self.shortcut, k, s)
            before = h + self.scale * branch
            kept.append((h, a, z, before))
            h = self.activation(before)
        self.kept.append(kept)
        return h

    def _convolved(self, h: Tensor, name: str, k: int, s: int) -> Tensor:
        kernel = self.kernels[name][k, s]
        return conv2d(h, kernel, padding=kernel.shape[-1] // 2)

    def backward(self, gradient: Array) -> tuple[Array, dict[str, Array]]:
        found = {name: torch.empty_like(stack) for name, stack in self.kernels.items()}
        before = []
        with torch.no_grad():
            for s, g in enumerate(self.library.tensor(gradient)):
                for k in range(len(self.kept[s]) - 1, -1, -1):
                    g = self._back(g, k, s, found)  # noqa: PLW2901  # the gradient of the layer before
                before.append(g)
        return self.library.array(torch.stack(before)), {
            name: self.library.array(stack) for name, stack in found.items()
        }

    def _back(self, g: Tensor, k: int, s: int, found: dict[str, Tensor]) -> Tensor:
        """Return the gradient of the state before layer k of network s; write those of its kernels."""
        h, a, z, before = self.kept[s][k]
        of_sum = g * self._slope(before)
        of_branch = self.scale * of_sum
        of_a = self._transposed(of_branch, z, self.outer, k, s, found) * self._slope(a)
        of_h = of_sum + self._transposed(of_a, h, self.inner, k, s, found)
        if self.shortcut is not None:
            of_h = of_h + self._transposed(of_branch, h, self.shortcut, k, s, found)
        return of_h

    def _transposed(
        self, g: Tensor, operand: Tensor, name: str, k: int, s: int, found: dict[str, Tensor]
    ) -> Tensor:
        """Return the gradient of a convolution's operand; write that of its kernel."""
        kernel = self.kernels[name][k, s]
        padding = (kernel.shape[-1] // 2,) * 2
        of_operand, of_kernel, _ = torch.ops.aten.convolution_backward(
            g, operand, kernel, None, (1, 1), padding, (1, 1), False, (0, 0), 1, (True, True, False)
        )
        found[name][k, s] = of_kernel
        return cast(Tensor, of_operand)

    def _slope(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype) if self.is_relu else derivative(self.activation, x)
