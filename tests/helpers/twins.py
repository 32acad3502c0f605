"""Small networks with weights that turn over depth, and twins of them: other weights, the same function.

What a twin may do depends on the network: permute hidden units and heads, flip signs where the activation is
odd, move scales between neighbouring matrices, gains, residual factors and batch normalisations.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from families import mend_torchvision
from torch import Tensor, nn
from torch.nn import functional

from deeplimit.common.global_state import seeded

WIDTH, HIDDEN, HEADS = 6, 9, 2
Twin = Callable[[nn.Module, torch.Generator], None]


@dataclass(frozen=True)
class Architecture:
    """A network by depth, its batch, and what changes one of its layers and not the function.

    Attributes:
        block: makes one layer, or, where `whole` is set, the network of this depth.
        twin: changes one layer in place.
        broken: changes the function: hidden units of what reads alone are permuted.
        batch: inputs of the network.
    """

    block: Callable[[], nn.Module]
    twin: Twin
    broken: Twin
    batch: tuple[int, ...] = (4, WIDTH)
    whole: Callable[[int], nn.Module] | None = None
    layers: Callable[[nn.Module], nn.ModuleList | nn.Sequential] = lambda network: network

    def network(self, depth: int, seed: int = 0) -> nn.Module:
        """Return a network whose weights turn over depth, with a little noise in each layer."""
        with seeded(seed):
            made = nn.Sequential(*(self.block() for _ in range(depth))) if self.whole is None else None
            network = (self.whole(depth) if made is None else made).double().eval()
        turn(self.layers(network), depth, seed)
        return network

    def inputs(self) -> Tensor:
        """Return real inputs, or as many tokens as a first length below zero says."""
        stream = torch.Generator().manual_seed(5)
        if self.batch[0] < 0:
            return torch.randint(0, 17, (3, -self.batch[0]), generator=stream)
        return torch.randn(self.batch, generator=stream, dtype=torch.float64)

    def twin_of(self, network: nn.Module, seed: int = 1, broken: bool = False) -> nn.Module:
        """Return a network of the same function in other weights; of another function if `broken`."""
        stream, other = torch.Generator().manual_seed(seed), copy.deepcopy(network)
        with torch.no_grad():
            for layer in self.layers(other):
                (self.broken if broken else self.twin)(layer, stream)
        return other


def turn(layers: nn.ModuleList | nn.Sequential, depth: int, seed: int) -> None:
    """Fill layers with weights that turn slowly over depth; gains and variances stay positive."""
    stream = torch.Generator().manual_seed(seed + 7)

    def normal(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=stream, dtype=torch.float64)

    names = [name for name, value in layers[0].state_dict().items() if value.is_floating_point()]
    for name in names:
        like = layers[0].state_dict()[name]
        first, second = normal(like), normal(like)
        for k, layer in enumerate(layers):
            angle = 1.6 * (k + 0.5) / depth
            value = math.cos(angle) * first + math.sin(angle) * second + 0.1 * normal(like)
            if like.dim() > 1 and min(like.shape[:2]) > 1:
                value = value / math.sqrt(math.prod(like.shape[1:])) / depth**0.3
            elif like.dim() > 1:
                value = 1.5 * value / math.sqrt(math.prod(like.shape[1:]))
            elif not name.endswith(("bias", "mean")):
                value = torch.exp(0.3 * value)
            else:
                value = 0.3 * value
            with torch.no_grad():
                layer.state_dict()[name].copy_(value)


# --- what twins do ---


def order_of(count: int, stream: torch.Generator) -> Tensor:
    order = torch.randperm(count, generator=stream)
    return order if bool((order != torch.arange(count)).any()) else order.flip(0)


def scales(count: int, stream: torch.Generator, how: str) -> Tensor:
    """Return what hidden units may be multiplied by: 1, a sign, or a positive number."""
    if how == "signs":
        return torch.randint(0, 2, (count,), generator=stream, dtype=torch.float64) * 2 - 1
    if how == "positive":
        return torch.exp(torch.randn(count, generator=stream, dtype=torch.float64))
    if how == "any":
        return scales(count, stream, "signs") * scales(count, stream, "positive")
    return torch.ones(count, dtype=torch.float64)


def along(tensor: Tensor, factor: Tensor, axis: int) -> Tensor:
    return (tensor.movedim(axis, -1) * factor).movedim(-1, axis)


def rows(module: nn.Module, order: Tensor, factor: Tensor | float = 1.0) -> None:
    """Multiply and permute what a layer gives, of a linear map, a convolution or a batch normalisation."""
    factor = torch.as_tensor(factor, dtype=torch.float64).expand(len(order))
    is_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            here = torch.ones_like(factor) if is_norm and name.startswith("running") else factor
            value.copy_(along(value, here, 0)[order])


def columns(module: nn.Module, order: Tensor, factor: Tensor | float = 1.0) -> None:
    """Multiply and permute what a layer takes."""
    factor = torch.as_tensor(factor, dtype=torch.float64).expand(len(order))
    module.weight.copy_(along(module.weight, factor, 1)[:, order])


def hidden(first: list[nn.Module], last: nn.Module, stream: torch.Generator, how: str = "order") -> None:
    """Permute hidden units; the first of what reads is scaled, what writes is scaled back."""
    count = len(first[0].weight)
    order, factor = order_of(count, stream), scales(count, stream, how)
    for place, module in enumerate(first):
        rows(module, order, factor if place == 0 else 1.0)
    columns(last, order, 1 / factor)


def gauge_of_batch_norm(conv: nn.Module, norm: nn.Module, stream: torch.Generator) -> None:
    """Multiply channels of a convolution, its batch normalisation takes that back; gain and variance, too."""
    count = len(conv.weight)
    factor, other = scales(count, stream, "any"), scales(count, stream, "any")
    conv.weight.copy_(along(conv.weight, factor, 0))
    norm.running_mean.mul_(factor)
    norm.weight.mul_(factor.sign())
    norm.running_var.copy_(factor**2 * (norm.running_var + norm.eps) - norm.eps)
    if conv.bias is not None:
        conv.bias.copy_(factor * conv.bias + other)
        norm.running_mean.add_(other)
    spread_of_batch_norm(norm, stream)


def spread_of_batch_norm(norm: nn.Module, stream: torch.Generator) -> None:
    """Move scales between the gain and the variance of a batch normalisation, shifts between its means."""
    factor = scales(len(norm.weight), stream, "positive")
    shift = scales(len(norm.weight), stream, "any")
    gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    norm.running_mean.add_(shift)
    norm.bias.add_(gain * shift)
    norm.running_var.copy_(factor**2 * (norm.running_var + norm.eps) - norm.eps)
    norm.weight.mul_(factor)


def gains(norm: nn.Module, reads: list[nn.Module], stream: torch.Generator, how: str = "any") -> None:
    """Move gains of a normalisation into what reads it, and its shifts into their biases."""
    factor = scales(len(norm.weight), stream, how)
    norm.weight.mul_(factor)
    bias = getattr(norm, "bias", None)
    if bias is not None:
        bias.mul_(factor)
    for module in reads:
        module.weight.copy_(along(module.weight, 1 / factor, 1))
    if bias is not None and all(module.bias is not None for module in reads):
        shift = scales(len(bias), stream, "any")
        bias.add_(shift)
        for module in reads:
            module.bias.sub_(
                (module.weight.flatten(2).sum(2) if module.weight.dim() > 2 else module.weight) @ shift
            )


def mean_of_layer_norm(reads: list[nn.Module], stream: torch.Generator, norm: nn.Module) -> None:
    """Add to what reads a layer normalisation what its removed mean never shows."""
    for module in reads:
        extra = torch.randn(len(module.weight), generator=stream, dtype=torch.float64)
        module.weight.add_(extra[:, None] / norm.weight)
        if module.bias is not None and norm.bias is not None:
            module.bias.sub_(extra * (norm.bias / norm.weight).sum())


def invertible(count: int, size: int, stream: torch.Generator) -> Tensor:
    return torch.linalg.qr(torch.randn(count, size, size, generator=stream, dtype=torch.float64))[
        0
    ] * torch.exp(0.3 * torch.randn(count, 1, 1, generator=stream, dtype=torch.float64))


def heads(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, biases: tuple[Tensor | None, ...], stream: torch.Generator,
    shared: int = 1, turned: bool = True,
) -> None:  # fmt: skip
    """Permute heads, and turn queries with keys and values with outputs; tensors are changed in place.

    Args:
        q, k, v: (heads · size, width), keys and values of `shared` times fewer heads.
        o: (width, heads · size).
        biases: of queries, keys, values and of the output.
        stream: what is drawn from.
        shared: how many heads of queries share keys.
        turned: whether keys may be turned; rotary embeddings forbid it.
    """
    size = len(q) // HEADS
    pairs = len(k) // size
    order = order_of(pairs, stream) if pairs > 1 else torch.zeros(1, dtype=torch.long)
    eye = torch.eye(size, dtype=torch.float64).expand(pairs, size, size)
    turn, stretch = invertible(pairs, size, stream), invertible(pairs, size, stream)
    turn = turn if turned else eye * torch.exp(turn[:, :1, :1])
    back = torch.linalg.inv(turn).transpose(1, 2)

    def moved(value: Tensor, by: Tensor) -> Tensor:
        groups = value.reshape(pairs, -1, size, value.shape[1])
        return torch.einsum("pij,pgjd->pgid", by, groups)[order].reshape(value.shape)

    bias_q, bias_k, bias_v, bias_o = biases
    if bias_v is not None and bias_o is not None:
        shift = torch.randn(len(bias_v), generator=stream, dtype=torch.float64)
        bias_v.add_(shift)
        groups = shift.reshape(pairs, 1, size).expand(pairs, len(q) // size // pairs, size).reshape(-1)
        bias_o.sub_(o @ groups)
    for value, by in ((q, turn), (k, back), (v, stretch)):
        value.copy_(moved(value, by))
    for bias, by in ((bias_q, turn), (bias_k, back), (bias_v, stretch)):
        if bias is not None:
            bias.copy_(moved(bias[:, None], by)[:, 0])
    o.copy_(moved(o.T.contiguous(), torch.linalg.inv(stretch).transpose(1, 2)).T)
    if bias_k is not None:
        bias_k.add_(torch.randn(len(bias_k), generator=stream, dtype=torch.float64))


# --- networks ---


class MLP(nn.Module):
    """h + s · outer(φ(inner(norm(h)))), or norm(h + ...) for a post-norm block."""

    def __init__(self, activation, norm=None, post=False, scale=None, biases=True, factor=1.0):
        super().__init__()
        self.norm1 = nn.Identity() if norm is None else norm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, HIDDEN, bias=biases)
        self.fc2 = nn.Linear(HIDDEN, WIDTH, bias=biases)
        self.activation, self.post, self.factor = activation, post, factor
        if scale is not None:
            self.scale = nn.Parameter(torch.ones(scale))

    def forward(self, h):
        x = h if self.post else self.norm1(h)
        x = self.factor * self.fc2(self.activation(self.fc1(x)))
        x = h + (self.scale * x if hasattr(self, "scale") else x)
        return self.norm1(x) if self.post else x


class Deep(nn.Module):
    """h + third(tanh(second(tanh(first(norm(h))))))."""

    def __init__(self, norm=nn.LayerNorm, width=HIDDEN + 2):
        super().__init__()
        self.norm = norm(WIDTH)
        self.first, self.second = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, width)
        self.third = nn.Linear(width, WIDTH)

    def forward(self, h):
        return h + self.third(torch.tanh(self.second(torch.tanh(self.first(self.norm(h))))))


class SubNormed(nn.Module):
    """h + outer(norm(φ(inner(norm(h))))), a normalisation of hidden units, too."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(HIDDEN)
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, h):
        return h + self.fc2(self.norm2(functional.gelu(self.fc1(self.norm1(h)))))


class Gated(nn.Module):
    """h + down(silu(gate(norm(h))) · up(norm(h)))."""

    def __init__(self, names=("gate", "up")):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, HIDDEN, bias=False))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, h):
        x = self.norm(h)
        return h + self.down(functional.silu(self.gate(x)) * self.up(x))


class Attention(nn.Module):
    """Attention with separate weights, keys of fewer heads where `pairs` is below the number of heads."""

    def __init__(self, pairs=HEADS, biases=True):
        super().__init__()
        size = WIDTH // HEADS
        self.q_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=biases) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, pairs * size, bias=biases) for _ in range(2))
        self.size = size

    def forward(self, x):
        q, k, v = (
            each(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
        mixed = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(self.size), -1) @ v
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def scramble(self, stream):
        q, k, v, o = self.q_proj, self.k_proj, self.v_proj, self.o_proj
        shared = q.out_features // k.out_features
        biases = (q.bias, k.bias, v.bias, o.bias)
        heads(q.weight, k.weight, v.weight, o.weight, biases, stream, shared)

    def reads(self):
        return [self.q_proj, self.k_proj, self.v_proj]


class Fused(nn.Module):
    """Attention with queries, keys and values in one weight, as in a vision transformer."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def scramble(self, stream):
        q, k, v = self.qkv.weight.chunk(3)
        heads(q, k, v, self.proj.weight, (*self.qkv.bias.chunk(3), self.proj.bias), stream)

    def reads(self):
        return [self.qkv]


class Multihead(nn.Module):
    """Attention of torch, of the stream with itself."""

    def __init__(self):
        super().__init__()
        self.inside = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x):
        return self.inside(x, x, x, need_weights=False)[0]

    def scramble(self, stream):
        scramble_multihead(self.inside, stream)

    def reads(self):
        return []


def scramble_multihead(inside: nn.MultiheadAttention, stream: torch.Generator) -> None:
    q, k, v = inside.in_proj_weight.chunk(3)
    biases = (*inside.in_proj_bias.chunk(3), inside.out_proj.bias)
    heads(q, k, v, inside.out_proj.weight, biases, stream)


class Attending(nn.Module):
    """h + attention(norm(h))."""

    def __init__(self, attention, norm=nn.LayerNorm):
        super().__init__()
        self.norm, self.attn = norm(WIDTH), attention()

    def forward(self, h):
        return h + self.attn(self.norm(h))

    def scramble(self, stream):
        self.attn.scramble(stream)
        if reads := self.attn.reads():
            gains(self.norm, reads, stream)
            if isinstance(self.norm, nn.LayerNorm):
                mean_of_layer_norm(reads, stream, self.norm)


class Transformer(nn.Module):
    """Attention and MLP, one after the other or side by side, with layer scale if asked for."""

    def __init__(self, attention=Fused, parallel=False, scaled=False):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(WIDTH), attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
        self.parallel = parallel
        if scaled:
            self.gamma_1, self.gamma_2 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))

    def forward(self, h):
        first, second = (self.gamma_1, self.gamma_2) if hasattr(self, "gamma_1") else (1.0, 1.0)
        x = first * self.attn(self.norm1(h))
        if self.parallel:
            return h + x + second * self.mlp(self.norm2(h))
        h = h + x
        return h + second * self.mlp(self.norm2(h))

    def scramble(self, stream):
        self.attn.scramble(stream)
        hidden([self.mlp[0]], self.mlp[2], stream)
        gains(self.norm1, self.attn.reads(), stream)
        gains(self.norm2, [self.mlp[0]], stream)
        if hasattr(self, "gamma_1"):
            move_scale(self.gamma_1, self.attn.proj, stream)
            move_scale(self.gamma_2, self.mlp[2], stream)


def move_scale(scale: Tensor, write: nn.Module, stream: torch.Generator) -> None:
    """Move a scale of what is written into the weight and the bias that write it."""
    factor = scales(scale.numel(), stream, "any")
    scale.mul_(factor.reshape(scale.shape))
    for value in (write.weight, write.bias):
        if value is not None:
            value.copy_(along(value, 1 / factor.expand(len(value)), 0))


class Mixer(nn.Module):
    """An MLP over tokens and one over channels; there are as many tokens as channels if asked for."""

    def __init__(self, tokens=5):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.tokens = nn.Sequential(nn.Linear(tokens, 4), nn.GELU(), nn.Linear(4, tokens))
        self.channels = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, h):
        h = h + self.tokens(self.norm1(h).transpose(1, 2)).transpose(1, 2)
        return h + self.channels(self.norm2(h))

    def scramble(self, stream):
        hidden([self.tokens[0]], self.tokens[2], stream)
        hidden([self.channels[0]], self.channels[2], stream)
        gains(self.norm2, [self.channels[0]], stream)
        factor = 1.7
        self.norm1.weight.mul_(factor)
        self.norm1.bias.mul_(factor)
        self.tokens[0].weight.div_(factor)


def conv(into: int, out: int, kernel: int = 1, depthwise: bool = False, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(into, out, kernel, padding=kernel // 2, groups=into if depthwise else 1, bias=bias)


class Basic(nn.Module):
    """relu(h + bn(conv(relu(bn(conv(h))))))."""

    def __init__(self, middle=HIDDEN, bias=False, after=True):
        super().__init__()
        self.conv1, self.bn1 = conv(WIDTH, middle, 3, bias=bias), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = conv(middle, WIDTH, 3, bias=bias), nn.BatchNorm2d(WIDTH)
        self.after = after

    def forward(self, h):
        x = h + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(h)))))
        return torch.relu(x) if self.after else x

    def scramble(self, stream):
        for module, norm in ((self.conv1, self.bn1), (self.conv2, self.bn2)):
            gauge_of_batch_norm(module, norm, stream)
        order, factor = (
            order_of(len(self.conv1.weight), stream),
            scales(len(self.conv1.weight), stream, "positive"),
        )
        rows(self.conv1, order)
        rows(self.bn1, order, factor)
        columns(self.conv2, order, 1 / factor)


class Listed(Basic):
    """The same, the convolutions named before the normalisations."""

    def __init__(self):
        super().__init__(after=False)
        first, second = self._modules.pop("bn1"), self._modules.pop("bn2")
        self.bn1, self.bn2 = first, second


class Bottleneck(nn.Module):
    """h + bn(1x1(relu(bn(3x3(relu(bn(1x1(h))))))))."""

    def __init__(self, middle=4):
        super().__init__()
        self.conv1, self.bn1 = conv(WIDTH, middle), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = conv(middle, middle, 3), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = conv(middle, WIDTH), nn.BatchNorm2d(WIDTH)

    def forward(self, h):
        x = torch.relu(self.bn1(self.conv1(h)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return h + self.bn3(self.conv3(x))

    def scramble(self, stream):
        pairs = ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3))
        for module, norm in pairs:
            gauge_of_batch_norm(module, norm, stream)
        for (first, norm), (second, _) in itertools.pairwise(pairs):
            order, factor = order_of(len(first.weight), stream), scales(len(first.weight), stream, "positive")
            rows(first, order)
            rows(norm, order, factor)
            columns(second, order, 1 / factor)


class Inverted(nn.Module):
    """h + bn(1x1(relu(bn(depthwise(relu(bn(1x1(h))))))))."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv(WIDTH, HIDDEN), nn.BatchNorm2d(HIDDEN)
        self.conv2, self.bn2 = conv(HIDDEN, HIDDEN, 3, depthwise=True), nn.BatchNorm2d(HIDDEN)
        self.conv3, self.bn3 = conv(HIDDEN, WIDTH), nn.BatchNorm2d(WIDTH)

    def forward(self, h):
        x = torch.relu(self.bn1(self.conv1(h)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return h + self.bn3(self.conv3(x))

    def scramble(self, stream):
        pairs = ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3))
        for module, norm in pairs:
            gauge_of_batch_norm(module, norm, stream)
        order = order_of(HIDDEN, stream)
        first, second = (scales(HIDDEN, stream, "positive") for _ in range(2))
        rows(self.conv1, order)
        rows(self.bn1, order, first)
        self.conv2.weight.copy_(along(self.conv2.weight, 1 / first, 0)[order])
        rows(self.bn2, order, second)
        columns(self.conv3, order, 1 / second)


class ConvNeXt(nn.Module):
    """h + γ · linear(gelu(linear(norm(depthwise(h)))))."""

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm = conv(WIDTH, WIDTH, 3, depthwise=True, bias=True), nn.LayerNorm(WIDTH)
        self.pwconv1, self.pwconv2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.gamma = nn.Parameter(torch.ones(WIDTH))

    def forward(self, h):
        x = self.norm(self.dwconv(h).permute(0, 2, 3, 1))
        x = self.gamma * self.pwconv2(functional.gelu(self.pwconv1(x)))
        return h + x.permute(0, 3, 1, 2)

    def scramble(self, stream):
        hidden([self.pwconv1], self.pwconv2, stream)
        gains(self.norm, [self.pwconv1], stream)
        move_scale(self.gamma, self.pwconv2, stream)


class PreActivated(nn.Module):
    """h + conv(relu(bn(conv(relu(bn(h))))))."""

    def __init__(self):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(WIDTH), conv(WIDTH, HIDDEN, 3)
        self.bn2, self.conv2 = nn.BatchNorm2d(HIDDEN), conv(HIDDEN, WIDTH, 3)

    def forward(self, h):
        x = self.conv1(torch.relu(self.bn1(h)))
        return h + self.conv2(torch.relu(self.bn2(x)))

    def scramble(self, stream):
        gauge_of_batch_norm(self.conv1, self.bn2, stream)
        spread_of_batch_norm(self.bn1, stream)
        order, factor = order_of(HIDDEN, stream), scales(HIDDEN, stream, "positive")
        rows(self.conv1, order)
        rows(self.bn2, order, factor)
        columns(self.conv2, order, 1 / factor)
        factor = scales(WIDTH, stream, "positive")
        for value in (self.bn1.weight, self.bn1.bias):
            value.mul_(factor)
        columns(self.conv1, torch.arange(WIDTH), 1 / factor)


class Stemmed(nn.Module):
    """The same layers behind a convolution, which the first normalisation follows."""

    def __init__(self, depth):
        super().__init__()
        self.stem = conv(WIDTH, WIDTH, 3)
        self.blocks = nn.ModuleList(PreActivated() for _ in range(depth))

    def forward(self, h):
        h = self.stem(h)
        for block in self.blocks:
            h = block(h)
        return h


class Separable(nn.Module):
    """h + bn(1x1(relu(bn(1x1(bn(depthwise(h))))))): a depthwise convolution reads the stream."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv(WIDTH, WIDTH, 3, depthwise=True), nn.BatchNorm2d(WIDTH)
        self.conv2, self.bn2 = conv(WIDTH, HIDDEN), nn.BatchNorm2d(HIDDEN)
        self.conv3, self.bn3 = conv(HIDDEN, WIDTH), nn.BatchNorm2d(WIDTH)

    def forward(self, h):
        x = torch.relu(self.bn2(self.conv2(self.bn1(self.conv1(h)))))
        return h + self.bn3(self.conv3(x))

    def scramble(self, stream):
        for module, norm in ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3)):
            gauge_of_batch_norm(module, norm, stream)
        order, factor = order_of(HIDDEN, stream), scales(HIDDEN, stream, "positive")
        rows(self.conv2, order)
        rows(self.bn2, order, factor)
        columns(self.conv3, order, 1 / factor)
        factor = scales(WIDTH, stream, "any")
        for value in (self.bn1.weight, self.bn1.bias):
            value.mul_(factor)
        columns(self.conv2, torch.arange(WIDTH), 1 / factor)


class Square(nn.Module):
    """h + conv(bn(h)): one weight that maps the stream to itself."""

    def __init__(self):
        super().__init__()
        self.bn, self.conv = nn.BatchNorm2d(WIDTH), conv(WIDTH, WIDTH, 3, bias=True)

    def forward(self, h):
        return h + self.conv(torch.tanh(self.bn(h)))

    def scramble(self, stream):
        spread_of_batch_norm(self.bn, stream)


class Language(nn.Module):
    """A network of transformers; its layers are at a path."""

    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, tokens):
        return self.inside(input_ids=tokens, use_cache=False).last_hidden_state


def gpt2(depth: int) -> nn.Module:
    mend_torchvision()
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=17, n_positions=12, n_embd=WIDTH, n_layer=depth, n_head=HEADS, n_inner=HIDDEN,
        attn_implementation="eager", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return Language(GPT2Model(config))


def scramble_gpt2(block: nn.Module, stream: torch.Generator) -> None:
    attention, mlp = block.attn, block.mlp
    q, k, v = (each.T for each in attention.c_attn.weight.chunk(3, 1))
    biases = (*attention.c_attn.bias.chunk(3), attention.c_proj.bias)
    heads(q, k, v, attention.c_proj.weight.T, biases, stream)
    order = order_of(HIDDEN, stream)
    mlp.c_fc.weight.copy_(mlp.c_fc.weight[:, order])
    mlp.c_fc.bias.copy_(mlp.c_fc.bias[order])
    mlp.c_proj.weight.copy_(mlp.c_proj.weight[order])
    for norm, read in ((block.ln_1, attention.c_attn), (block.ln_2, mlp.c_fc)):
        factor = scales(WIDTH, stream, "any")
        norm.weight.mul_(factor)
        norm.bias.mul_(factor)
        read.weight.div_(factor[:, None])


def llama(depth: int) -> nn.Module:
    mend_torchvision()
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=17, hidden_size=8, intermediate_size=HIDDEN, num_hidden_layers=depth,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=16,
        attn_implementation="eager",
    )  # fmt: skip
    return Language(LlamaModel(config))


def scramble_llama(block: nn.Module, stream: torch.Generator) -> None:
    attention, mlp = block.self_attn, block.mlp
    weights = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    heads(*(each.weight for each in weights), (None,) * 4, stream, turned=False)
    order, factor = order_of(HIDDEN, stream), scales(HIDDEN, stream, "any")
    rows(mlp.gate_proj, order)
    rows(mlp.up_proj, order, factor)
    columns(mlp.down_proj, order, 1 / factor)
    gains(block.input_layernorm, list(weights[:3]), stream)
    gains(block.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj], stream)


def encoder_layer(first: bool, activation: str = "relu") -> nn.Module:
    return nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=first
    )


def scramble_encoder(layer: nn.Module, stream: torch.Generator) -> None:
    scramble_multihead(layer.self_attn, stream)
    hidden([layer.linear1], layer.linear2, stream, "positive")
    if layer.norm_first:
        gains(layer.norm2, [layer.linear1], stream)


def scramble_gated(layer: nn.Module, stream: torch.Generator) -> None:
    hidden([layer.up, layer.gate], layer.down, stream, "any")
    gains(layer.norm, [layer.gate, layer.up], stream)


def mlp(activation: Callable[[Tensor], Tensor], how: str, **more) -> Architecture:
    def scramble(layer: nn.Module, stream: torch.Generator) -> None:
        hidden([layer.fc1], layer.fc2, stream, how)
        if not layer.post and not isinstance(layer.norm1, nn.Identity):
            gains(layer.norm1, [layer.fc1], stream)
            if isinstance(layer.norm1, nn.LayerNorm):
                mean_of_layer_norm([layer.fc1], stream, layer.norm1)
        if hasattr(layer, "scale"):
            move_scale(layer.scale, layer.fc2, stream)
        if layer.factor != 1.0:
            factor = float(scales(1, stream, "positive"))
            layer.factor *= factor
            layer.fc2.weight.div_(factor)
            if layer.fc2.bias is not None:
                layer.fc2.bias.div_(factor)

    return Architecture(lambda: MLP(activation, **more), scramble, permute("fc1"))


def permute(name: str, axis: int = 0) -> Twin:
    """Return what permutes the units of one weight alone, and so changes the function."""

    def broken(layer: nn.Module, stream: torch.Generator) -> None:
        weight = layer.get_submodule(name).weight
        weight.copy_(weight.index_select(axis, order_of(weight.shape[axis], stream)))

    return broken


def permute_rows(name: str) -> Twin:
    """Return what permutes rows of values within a fused weight."""

    def broken(layer: nn.Module, stream: torch.Generator) -> None:
        values = layer.get_parameter(name).chunk(3)[2]
        values.copy_(values[order_of(len(values), stream)])

    return broken


def scrambled(layer: nn.Module, stream: torch.Generator) -> None:
    layer.scramble(stream)


def of(block: Callable[[], nn.Module], broken: Twin, batch: tuple[int, ...] = (3, 5, WIDTH), **more):
    return Architecture(block, scrambled, broken, batch, **more)


IMAGE = (2, WIDTH, 4, 4)
TABLE: dict[str, Architecture] = {
    "tanh, no norm": mlp(torch.tanh, "signs"),
    "relu, no norm": mlp(torch.relu, "positive"),
    "gelu, no norm": mlp(functional.gelu, "order"),
    "square, no norm, no biases": mlp(torch.square, "order", biases=False),
    "layer norm": mlp(functional.gelu, "order", norm=nn.LayerNorm),
    "rms norm": mlp(torch.relu, "positive", norm=nn.RMSNorm),
    "post-norm": mlp(torch.relu, "positive", norm=nn.LayerNorm, post=True),
    "layer scale": mlp(torch.tanh, "signs", norm=nn.LayerNorm, scale=WIDTH),
    "rezero": mlp(torch.tanh, "signs", scale=1),
    "factor": mlp(torch.tanh, "signs", factor=0.3),
    "swiglu": Architecture(Gated, scramble_gated, permute("gate")),
    "swiglu, gate last": Architecture(lambda: Gated(("up", "gate")), scramble_gated, permute("gate")),
    "three weights": Architecture(
        Deep,
        lambda layer, stream: (
            hidden([layer.first], layer.second, stream, "signs"),
            hidden([layer.second], layer.third, stream, "signs"),
            gains(layer.norm, [layer.first], stream),
        ),
        permute("first"),
    ),
    "three weights, equal widths": Architecture(
        lambda: Deep(width=HIDDEN),
        lambda layer, stream: (
            hidden([layer.first], layer.second, stream, "signs"),
            hidden([layer.second], layer.third, stream, "signs"),
        ),
        permute("first"),
    ),
    "hidden norm": Architecture(
        SubNormed,
        lambda layer, stream: (
            hidden([layer.fc1, layer.norm2], layer.fc2, stream),
            gains(layer.norm2, [layer.fc2], stream),
            gains(layer.norm1, [layer.fc1], stream),
        ),
        permute("fc1"),
    ),
    "attention": of(lambda: Attending(Attention), permute("attn.v_proj")),
    "attention, no biases": of(
        lambda: Attending(lambda: Attention(biases=False), nn.RMSNorm), permute("attn.v_proj")
    ),
    "grouped queries": of(lambda: Attending(lambda: Attention(pairs=1)), permute("attn.v_proj")),
    "fused attention": of(lambda: Attending(Fused), permute_rows("attn.qkv.weight")),
    "attention of torch": of(lambda: Attending(Multihead), permute_rows("attn.inside.in_proj_weight")),
    "encoder, norm first": Architecture(
        lambda: encoder_layer(True), scramble_encoder, permute("linear1"), (3, 5, WIDTH)
    ),
    "encoder, norm last": Architecture(
        lambda: encoder_layer(False), scramble_encoder, permute("linear1"), (3, 5, WIDTH)
    ),
    "vision transformer": of(Transformer, permute("mlp.0")),
    "side by side": of(lambda: Transformer(parallel=True), permute("mlp.0")),
    "layer scales": of(lambda: Transformer(scaled=True), permute("mlp.0")),
    "mixer": of(Mixer, permute("channels.0")),
    "mixer, as many tokens": of(lambda: Mixer(WIDTH), permute("channels.0"), (3, WIDTH, WIDTH)),
    "basic": of(Basic, permute("conv1"), IMAGE),
    "basic, biases": of(lambda: Basic(bias=True, after=False), permute("conv1"), IMAGE),
    "norms named last": of(Listed, permute("conv1"), IMAGE),
    "bottleneck": of(Bottleneck, permute("conv1"), IMAGE),
    "depthwise": of(Inverted, permute("conv1"), IMAGE),
    "convnext": of(ConvNeXt, permute("pwconv1"), IMAGE),
    "preactivated": of(PreActivated, permute("conv1"), IMAGE),
    "behind a stem": of(
        nn.Identity, permute("conv1"), IMAGE, whole=Stemmed, layers=lambda network: network.blocks
    ),
    "separable": of(Separable, permute("conv2"), IMAGE),
    "one convolution": of(Square, permute("conv"), IMAGE),
    "gpt-2": Architecture(
        nn.Identity, scramble_gpt2, permute("mlp.c_fc", 1), (-6,), gpt2, lambda network: network.inside.h
    ),
    "llama": Architecture(
        nn.Identity, scramble_llama, permute("mlp.gate_proj"), (-6,), llama,
        lambda network: network.inside.layers,
    ),
}  # fmt: skip
