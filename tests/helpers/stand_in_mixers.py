"""What other libraries put into residual branches, in a few lines each: mixers of tokens and feed-forwards.

Each takes and returns (batch, tokens, width). Torch initialises them, so that nothing depends on depth.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, TOKENS = 32, 4, 16


class Attention(nn.Module):
    """Multi-head attention; fewer heads for keys and values, linear, decaying, local or differential."""

    def __init__(self, kind: str = "softmax", groups: int = HEADS) -> None:
        super().__init__()
        self.kind, self.groups, self.inside = kind, groups, WIDTH // HEADS
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key, self.value = (nn.Linear(WIDTH, groups * self.inside) for _ in range(2))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.talking = nn.Linear(HEADS, HEADS, bias=False) if kind == "talking" else None

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        source = x if memory is None else memory

        def heads(values: torch.Tensor, count: int) -> torch.Tensor:
            return values.unflatten(-1, (count, self.inside)).transpose(1, 2)

        q = heads(self.query(x), HEADS)
        k, v = (heads(m(source), self.groups) for m in (self.key, self.value))
        k, v = (t.repeat_interleave(HEADS // self.groups, dim=1) for t in (k, v))
        return self.out(self.mixed(q, k, v).transpose(1, 2).flatten(2))

    def mixed(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.kind == "linear":
            q, k = F.elu(q) + 1, F.elu(k) + 1
            return (q @ (k.transpose(-2, -1) @ v)) / (q @ k.sum(-2, keepdim=True).transpose(-2, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.inside)
        distance = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
        if self.kind == "retention":
            return (scores * torch.where(distance >= 0, 0.9 ** distance.clamp(min=0), 0.0)) @ v
        if self.kind == "alibi":
            scores = scores - 0.1 * distance.abs()
        if self.kind == "local":
            scores = scores.masked_fill(distance.abs() > 3, -math.inf)
        if self.kind == "relu":
            return F.relu(scores) @ v / k.shape[-2]
        weights = F.softmax(scores, -1)
        if self.talking is not None:
            weights = self.talking(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return weights @ v


class StateSpace(nn.Module):
    """As Mamba: gate, short convolution, a diagonal recurrence with steps that depend on the input."""

    def __init__(self, selective: bool = True) -> None:
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.conv = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 4, padding=3, groups=2 * WIDTH)
        self.step = nn.Linear(2 * WIDTH, 2 * WIDTH)
        self.rate = nn.Parameter(torch.linspace(-2.0, 1.0, 2 * WIDTH))
        self.selective = selective

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, gate = self.in_proj(x).chunk(2, -1)
        values = F.silu(self.conv(values.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        steps = F.softplus(self.step(values)) if self.selective else torch.full_like(values, 0.5)
        state, states = torch.zeros_like(values[:, 0]), []
        for token in range(x.shape[1]):
            kept = torch.exp(-steps[:, token] * self.rate.exp())
            state = kept * state + steps[:, token] * values[:, token]
            states.append(state)
        return self.out_proj(torch.stack(states, 1) * F.silu(gate))


class LongConvolution(nn.Module):
    """As Hyena and S4: a convolution as long as the sequence, by Fourier transforms, between two gates."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.filter = nn.Parameter(torch.randn(TOKENS, WIDTH) / math.sqrt(TOKENS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, values = self.into(x).chunk(3, -1)
        length = 2 * x.shape[1]
        kernel = torch.fft.rfft(self.filter[: x.shape[1]], n=length, dim=0)
        mixed = torch.fft.irfft(torch.fft.rfft(first * values, n=length, dim=1) * kernel, n=length, dim=1)
        return self.out(second * mixed[:, : x.shape[1]])


class Fourier(nn.Module):
    """As FNO and AFNO: a linear map of the lowest frequencies, then one of the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = nn.Parameter(torch.randn(4, WIDTH, WIDTH, dtype=torch.cfloat) / math.sqrt(WIDTH))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = torch.einsum("bfi,fio->bfo", torch.fft.rfft(x, dim=1)[:, :4], self.spectrum)
        return self.out(torch.fft.irfft(low, n=x.shape[1], dim=1))


class Recurrent(nn.Module):
    """A layer of torch's LSTM or GRU as a branch."""

    def __init__(self, kind: str = "LSTM") -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(x)[0])


class Convolution(nn.Module):
    """Along tokens: depthwise-separable with a gate (conformer, ConvS2S) or dilated (WaveNet, TCN)."""

    def __init__(self, kind: str = "gated", dilation: int = 1) -> None:
        super().__init__()
        self.kind = kind
        self.first = nn.Linear(WIDTH, 2 * WIDTH)
        groups = WIDTH if kind == "gated" else 1
        self.along = nn.Conv1d(WIDTH, WIDTH, 3, padding=dilation, dilation=dilation, groups=groups)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, gate = self.first(x).chunk(2, -1)
        mixed = self.along((values * torch.sigmoid(gate)).transpose(1, 2)).transpose(1, 2)
        return self.out(F.silu(mixed))


class TokenMLP(nn.Module):
    """MLP-Mixer's mixing of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(TOKENS, 2 * TOKENS), nn.Linear(2 * TOKENS, TOKENS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x.transpose(1, 2)))).transpose(1, 2)


class SpatialGate(nn.Module):
    """gMLP's unit: one half of the channels gates the other along tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm, self.along = nn.LayerNorm(2 * WIDTH), nn.Linear(TOKENS, TOKENS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, gate = F.gelu(self.fc1(x)).chunk(2, -1)
        return self.fc2(values * self.along(self.norm(gate).transpose(1, 2)).transpose(1, 2))


class FeedForward(nn.Module):
    """Two layers with an activation, or with a gate beside it."""

    def __init__(self, kind: str = "gelu") -> None:
        super().__init__()
        self.kind = kind
        self.gated = kind.endswith("glu")
        self.fc1 = nn.Linear(WIDTH, (4 if self.gated else 2) * WIDTH)
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc1(x)
        if self.gated:
            h, gate = h.chunk(2, -1)
            return self.fc2(h * (torch.sigmoid(gate) if self.kind == "glu" else F.silu(gate)))
        return self.fc2(F.relu(h).square() if self.kind == "relu2" else getattr(F, self.kind)(h))


class Experts(nn.Module):
    """A mixture of experts in one batched product, routed softly or to the best two."""

    def __init__(self, count: int = 4, soft: bool = False) -> None:
        super().__init__()
        self.router, self.soft = nn.Linear(WIDTH, count, bias=False), soft
        self.up = nn.Parameter(torch.randn(count, WIDTH, WIDTH) / math.sqrt(WIDTH))
        self.down = nn.Parameter(torch.randn(count, WIDTH, WIDTH) / math.sqrt(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = F.softmax(self.router(x), -1)
        if not self.soft:
            weights = weights * (weights >= weights.topk(2).values[..., -1:])
        each = torch.einsum("btef,efd->bted", F.gelu(torch.einsum("btd,edf->btef", x, self.up)), self.down)
        return (weights[..., None] * each).sum(-2)


MIXERS = {
    **{kind: (lambda kind=kind: Attention(kind)) for kind in ("softmax", "linear", "retention", "alibi")},
    **{kind: (lambda kind=kind: Attention(kind)) for kind in ("local", "relu", "talking")},
    "grouped-query": lambda: Attention(groups=2),
    "multi-query": lambda: Attention(groups=1),
    "state-space": StateSpace,
    "state-space-fixed": lambda: StateSpace(selective=False),
    "long-convolution": LongConvolution,
    "fourier": Fourier,
    "lstm": Recurrent,
    "gru": lambda: Recurrent("GRU"),
    "convolution": Convolution,
    "dilated": lambda: Convolution("dilated", 2),
    "token-mlp": TokenMLP,
    "spatial-gate": SpatialGate,
}
FEEDS = {
    **{
        kind: (lambda kind=kind: FeedForward(kind))
        for kind in ("gelu", "relu", "silu", "relu2", "swiglu", "glu")
    },
    "experts": Experts,
    "soft-experts": lambda: Experts(soft=True),
    "experts-as-many-as-width": lambda: Experts(WIDTH),
}
