"""h + L^-β δ V σ(W h + b) for all layers of several networks, forward, and backward by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast, final

import torch
from torch import Tensor

from deeplimit.common.arrays import Array, ArrayLibrary, Buffers
from deeplimit.layers.activations import Activation, derivative
from deeplimit.layers.stacked import BIAS, StackedPass, Stacks

WHOLE_VECTORS = 64
"""A multiple of the entries that any processor computes at once."""


@final
class EntrywiseActivation:
    """σ and σ' on arrays.

    tanh, ReLU and the identity have their slope from their value, so the value may overwrite its argument.
    """

    def __init__(self, activation: Activation, library: ArrayLibrary) -> None:
        self.activation, self.library = activation, library
        self.name = activation.name if Activation.by_name(activation.name) == activation else ""
        self.overwrites = self.name in ("tanh", "relu", "identity")

    def value(self, u: Array, out: Array) -> None:
        """Write σ(u) to `out`, which may be u if `overwrites`."""
        if self.name == "tanh":
            self.library.xp.tanh(u, out=out)
        elif self.name == "relu":
            u.clip(0, None, out=out) if self.library.on_cpu else torch.clamp(u, min=0, out=out)
        else:
            self.library.tensor(out).copy_(_by_vectors(self.activation, self.library.tensor(u)))

    def slopes(self, u: Array, value: Array, out: Array) -> None:
        """Write σ'(u) to `out`, for all layers at once; `value` is σ(u). If `overwrites`, u is not read."""
        slopes, values = self.library.tensor(out), self.library.tensor(value)
        if self.name == "tanh":
            torch.addcmul(
                torch.ones((), dtype=slopes.dtype, device=slopes.device), values, values, value=-1, out=slopes
            )
        elif self.name == "relu":
            slopes.copy_(values > 0)
        elif self.name == "identity":
            slopes.fill_(1.0)
        else:
            slopes.copy_(_by_vectors(partial(derivative, self.activation), self.library.tensor(u)))


def _by_vectors(function: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """Return a function of each entry, the same to the last bit wherever the entry stands.

    torch computes whole vectors of entries in one way, and those that are left over at the end in another.
    So zeros are appended until none is left over.
    """
    count = u.numel()
    padded = u.new_zeros(-(-count // WHOLE_VECTORS) * WHOLE_VECTORS)
    padded[:count] = u.reshape(-1)
    return function(padded)[:count].reshape(u.shape)


@final
class PlainPass(StackedPass):
    """h + L^-β δ V σ(W h + b), where V, W, b and δ may be left out; a recursion with a δ has no V.

    Args:
        outer, inner, factor: names of V, W and δ among the stacks; None where there is none.
        activation: σ, applied entry by entry.
        library: what arrays are made with.
        scale: a further factor, the same in all layers.
    """

    def __init__(
        self,
        outer: str | None,
        inner: str | None,
        factor: str | None,
        activation: Activation,
        library: ArrayLibrary,
        scale: float = 1.0,
    ) -> None:
        self.further = scale
        self.outer, self.inner, self.factor, self.library = outer, inner, factor, library
        self.activation = EntrywiseActivation(activation, library)
        self.buffers = Buffers(library)

    def forward(self, state: Array, stacks: Stacks, depth: int, exponent: float) -> Array:
        xp = self.library.xp
        count = len(next(iter(stacks.values())))
        self._prepare(state.shape, stacks, count, self.further * depth**-exponent)
        h, u, z, value = self.h, self.u, self.z, self.activation.value
        across_inner = None if self.inners is None else [w.swapaxes(-1, -2) for w in self.inners]
        across_outer = None if self.outers is None else [v.swapaxes(-1, -2) for v in self.outers]
        biases = list(stacks[BIAS][:, :, None, :]) if BIAS in stacks else None
        h[0][...] = state
        for k in range(count):
            now, after = h[k], h[k + 1]
            if across_inner is None:
                value(now, z[k])
            else:
                xp.matmul(now, across_inner[k], out=u[k])
                if biases is not None:
                    xp.add(u[k], biases[k], out=u[k])
                value(u[k], z[k])
            if across_outer is None:
                xp.multiply(z[k], self.factors[k], out=after)
            else:
                xp.matmul(z[k], across_outer[k], out=after)
                xp.multiply(after, self.scale, out=after)
            xp.add(now, after, out=after)
        return h[count]

    def _prepare(self, shape: tuple[int, ...], stacks: Stacks, count: int, scale: float) -> None:
        """Take the weights of these layers, and buffers of their size."""
        networks, n, width = shape
        self.stacks, self.scale = stacks, scale
        self.outers, self.inners = (
            None if name is None else list(stacks[name]) for name in (self.outer, self.inner)
        )
        hidden = width if self.inners is None else self.inners[0].shape[-2]
        self.states, self.h = self.buffers.layers("h", count + 1, networks, n, width)
        self.values, self.z = self.buffers.layers("z", count, networks, n, hidden)
        self.inside, self.u = self.states[:-1], self.h[:-1]
        if self.inners is not None:
            name = "z" if self.activation.overwrites else "u"
            self.inside, self.u = self.buffers.layers(name, count, networks, n, hidden)
        if self.factor is None:
            self.factors = [scale] * count
        else:
            self.factors = list((stacks[self.factor] * scale)[:, :, None, None])

    def backward(self, gradient: Array) -> tuple[Array, dict[str, Array]]:
        xp, buffers, count = self.library.xp, self.buffers, len(self.z)
        gradients, g = buffers.layers("g", *self.states.shape)
        of_inside, inner = buffers.layers("gu", *self.values.shape)
        of_branch, outer = buffers.layers("gy", *self.states[:-1].shape) if self.outers else (None, [])
        slopes, d = buffers.layers("slopes", *self.values.shape)
        self.activation.slopes(self.inside, self.values, slopes)
        if self.outers is None:  # then σ' and the layer's factor multiply the same numbers
            factors = (
                self.scale
                if self.factor is None
                else (self.stacks[self.factor] * self.scale)[:, :, None, None]
            )
            xp.multiply(slopes, factors, out=slopes)
        now = g[count]
        now[...] = gradient
        for k in range(count - 1, -1, -1):
            before = g[k]
            if self.outers is None:
                xp.multiply(now, d[k], out=inner[k])
            else:
                xp.multiply(now, self.scale, out=outer[k])
                xp.matmul(outer[k], self.outers[k], out=inner[k])
                xp.multiply(inner[k], d[k], out=inner[k])
            if self.inners is None:
                xp.add(inner[k], now, out=before)
            else:
                xp.matmul(inner[k], self.inners[k], out=before)
                xp.add(before, now, out=before)
            now = before
        found: dict[str, Array] = {}
        if self.outer is not None:
            found[self.outer] = xp.matmul(cast(Array, of_branch).swapaxes(-1, -2), self.values)
        if self.inner is not None:
            found[self.inner] = xp.matmul(of_inside.swapaxes(-1, -2), self.states[:-1])
        if BIAS in self.stacks:
            found[BIAS] = of_inside.sum(-2)
        if self.factor is not None:
            found[self.factor] = (gradients[1:] * self.values).sum((-2, -1)) * self.scale
        return now, found
