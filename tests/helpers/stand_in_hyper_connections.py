"""Hyper-connections: n copies of the residual stream, mixed before every branch by small matrices.

Zhu et al. 2024: with the copies H of shape (n, d), H' = A_r^T H + B f(A_m^T H), and their sum at the end. The
matrices are parameters (static), or such plus a function of the copies (dynamic). DeepSeek's version keeps
A_r doubly stochastic.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 16


class Branch(nn.Module):
    """A pre-norm perceptron; torch initialises it, so that nothing depends on depth."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        with torch.no_grad():
            self.down.weight.mul_(scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(self.norm(x))))


class Connections(nn.Module):
    """One layer of hyper-connections on copies (batch, tokens, copies, width)."""

    def __init__(self, layer: int, copies: int, kind: str, scale: float = 1.0) -> None:
        super().__init__()
        self.branch, self.kind = Branch(scale), kind
        read = torch.zeros(copies, 1)
        read[layer % copies] = 1.0
        self.mix = nn.Parameter(torch.cat([read, torch.eye(copies)], 1))  # (A_m | A_r)
        self.write = nn.Parameter(torch.ones(copies))  # B
        if kind != "static":
            self.norm = nn.LayerNorm(WIDTH)
            self.to_mix, self.to_write = (nn.Linear(WIDTH, n, bias=False) for n in (copies + 1, 1))
            self.share = nn.Parameter(torch.full((2,), 0.01))

    def matrices(self, copies: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (A_m | A_r) and B, the same for all tokens or one for each."""
        if self.kind == "static":
            return self.mix, self.write
        normed = self.norm(copies)
        mix = self.mix + self.share[0] * torch.tanh(self.to_mix(normed))
        write = self.write + self.share[1] * torch.tanh(self.to_write(normed)).squeeze(-1)
        if self.kind != "stochastic":
            return mix, write
        kept = mix[..., 1:].exp()
        for _ in range(5):
            kept = kept / kept.sum(-1, keepdim=True)
            kept = kept / kept.sum(-2, keepdim=True)
        return torch.cat([mix[..., :1].sigmoid(), kept], -1), 2 * write.sigmoid()

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        mix, write = self.matrices(copies)
        if self.kind == "static":
            mixed = torch.einsum("btsd,sr->btrd", copies, mix)
            return mixed[:, :, 1:] + torch.einsum("btd,s->btsd", self.branch(mixed[:, :, 0]), write)
        if self.kind == "dynamic":
            mixed = mix.transpose(-2, -1) @ copies
            return mixed[..., 1:, :] + write[..., None] * self.branch(mixed[..., 0, :])[..., None, :]
        read = torch.einsum("bts,btsd->btd", mix[..., 0], copies)
        kept = torch.einsum("btsr,btsd->btrd", mix[..., 1:], copies)
        return kept + torch.einsum("bts,btd->btsd", write, self.branch(read))


class HyperConnected(nn.Module):
    def __init__(self, depth: int, copies: int = 4, kind: str = "static", scale: float = 1.0) -> None:
        super().__init__()
        self.entry, self.copies = nn.Linear(WIDTH, WIDTH), copies
        self.layers = nn.ModuleList(Connections(layer, copies, kind, scale) for layer in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        copies = self.entry(x)[..., None, :].expand(-1, -1, self.copies, -1)
        for layer in self.layers:
            copies = layer(copies)
        return copies.sum(-2)


class Summed(HyperConnected):
    """The static version with a list of copies and sums of products with numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        copies = [self.entry(x)] * self.copies
        for layer in self.layers:
            mixed = [
                sum(layer.mix[j, k] * copies[j] for j in range(self.copies)) for k in range(self.copies + 1)
            ]
            update = layer.branch(mixed[0])
            copies = [skip + weight * update for skip, weight in zip(mixed[1:], layer.write, strict=True)]
        return sum(copies)


class Stacked(HyperConnected):
    """A list of copies, put together where they are mixed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        copies = [self.entry(x)] * self.copies
        for layer in self.layers:
            mixed = torch.einsum("sbtd,sr->rbtd", torch.stack(copies), layer.mix)
            update = layer.branch(mixed[0])
            copies = [skip + weight * update for skip, weight in zip(mixed[1:], layer.write, strict=True)]
        return sum(copies)


class Plain(HyperConnected):
    """The residual network that one copy with all ones is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for layer in self.layers:
            x = x + layer.branch(x)
        return x
