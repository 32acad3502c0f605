"""Networks of other fields as small stand-ins: images, diffusion, graphs, tables, series, sound, games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from configurations import Configuration
from stand_in_mixers import WIDTH, Attention, FeedForward
from stand_in_stacks import vectors
from torch import nn
from torch.nn import functional as F

import deeplimit as dl

CHANNELS, NODES = 8, 12


class Net(nn.Module):
    """An entry, blocks, a head; every block takes the state and what the batch gives besides."""

    def __init__(self, entry: nn.Module, blocks: list[nn.Module], head: nn.Module | None = None) -> None:
        super().__init__()
        self.entry, self.blocks, self.head = entry, nn.ModuleList(blocks), head or nn.Identity()

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for block in self.blocks:
            x = block(x, *more)
        return self.head(x)


class Around(nn.Module):
    """x + f(x), f made of modules one after the other, with an activation after the sum or none."""

    def __init__(self, *inside: nn.Module, last: nn.Module | None = None, times: float = 1.0) -> None:
        super().__init__()
        self.body, self.last, self.times = nn.Sequential(*inside), last or nn.Identity(), times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        update = self.body(x)
        return self.last(x + (update if self.times == 1.0 else self.times * update))


def conv(kernel: int = 3, dimensions: int = 2, **more: Any) -> nn.Module:
    kinds = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
    return kinds[dimensions](CHANNELS, CHANNELS, kernel, padding=kernel // 2, **more)


def convolutional(depth: int, make: Callable[[], nn.Module], dimensions: int = 2, into: int = 3) -> nn.Module:
    kinds = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
    entry = kinds[dimensions](into, CHANNELS, 3, padding=1)
    return Net(entry, [make() for _ in range(depth)])


def basic(norm: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Around(conv(), norm(), nn.ReLU(), conv(), norm(), last=nn.ReLU())


def preactivated() -> nn.Module:
    return Around(nn.BatchNorm2d(CHANNELS), nn.ReLU(), conv(), nn.BatchNorm2d(CHANNELS), nn.ReLU(), conv())


def nn_unet(dimensions: int) -> Callable[[], nn.Module]:
    """As nnU-Net's residual encoder: instance norms, leaky activations in place."""
    norm = {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}[dimensions]
    return lambda: Around(
        conv(dimensions=dimensions),
        norm(CHANNELS, affine=True),
        nn.LeakyReLU(inplace=True),
        conv(dimensions=dimensions),
        norm(CHANNELS, affine=True),
        last=nn.LeakyReLU(inplace=True),
    )


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(CHANNELS, 4, 1), nn.Conv2d(4, CHANNELS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Timed(nn.Module):
    """A residual block of a diffusion model: the time is added between its convolutions."""

    def __init__(self, zero: bool = True) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, CHANNELS), nn.GroupNorm(2, CHANNELS)
        self.conv1, self.conv2 = conv(), conv()
        self.time = nn.Linear(WIDTH, CHANNELS)
        if zero:
            nn.init.zeros_(self.conv2.weight)
            nn.init.zeros_(self.conv2.bias)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Times(nn.Module):
    """A product, as a module that hooks can see."""

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return gate * x


class Adaptive(nn.Module):
    """A block of DiT: shift, scale and gate from the condition; adaLN-zero starts the gates at zero."""

    def __init__(self, zero: bool = True) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, elementwise_affine=False) for _ in range(2))
        self.attn, self.mlp = Attention(), FeedForward()
        self.gate1, self.gate2 = Times(), Times()
        self.condition = nn.Linear(WIDTH, 6 * WIDTH)
        if zero:
            nn.init.zeros_(self.condition.weight)
            nn.init.zeros_(self.condition.bias)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        parts = self.condition(F.silu(condition))[:, None].chunk(6, -1)
        x = x + self.gate1(self.attn(self.norm1(x) * (1 + parts[0]) + parts[1]), parts[2])
        return x + self.gate2(self.mlp(self.norm2(x) * (1 + parts[3]) + parts[4]), parts[5])


class Message(nn.Module):
    """A layer of a graph network by index_add: sums, means, attention, or messages of edges."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.norm = nn.LayerNorm(WIDTH)
        self.send = nn.Linear(2 * WIDTH if kind == "edge" else WIDTH, WIDTH)
        self.score = nn.Linear(2 * WIDTH, 1)
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def aggregate(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        both = torch.cat((x[source], x[target]), -1)
        message = F.relu(self.send(both)) if self.kind == "edge" else self.send(x[source])
        if self.kind == "attention":
            message = message * torch.sigmoid(self.score(both))
        summed = torch.zeros_like(x).index_add(0, target, message)
        if self.kind == "mean":
            count = torch.zeros(len(x), 1).index_add(0, target, torch.ones(len(target), 1))
            summed = summed / count.clamp(min=1)
        return summed

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.out(self.aggregate(self.norm(x), edges))


class GraphBlock(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.message = Message(kind)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return x + self.message(x, edges)


class GraphTransformer(nn.Module):
    """Messages along edges, attention over all nodes and a feed-forward, as in GPS."""

    def __init__(self) -> None:
        super().__init__()
        self.local, self.attn, self.mlp = Message("edge"), Attention(), FeedForward()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = x + self.local(x, edges)
        x = x + self.attn(self.norm1(x)[None])[0]
        return x + self.mlp(self.norm2(x))


class Cross(nn.Module):
    """A layer of a deep and cross network: x₀ ⊙ W x + x."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.times = nn.Linear(WIDTH, WIDTH), Times()

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return x + self.times(self.linear(x), start)


class Alternating(nn.Module):
    """Attention along one axis of a table, then along the other, then a feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns, self.mlp = Attention(), Attention(), FeedForward()
        self.norm_rows, self.norm_columns, self.norm_mlp = (nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.rows(self.norm_rows(x))
        x = x + self.columns(self.norm_columns(x).transpose(0, 1)).transpose(0, 1)
        return x + self.mlp(self.norm_mlp(x))


class WaveBlock(nn.Module):
    """A layer of WaveNet: a gated dilated convolution; a second output is added up beside the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.dilated = nn.Conv1d(CHANNELS, 2 * CHANNELS, 3, padding=2, dilation=2)
        self.back = nn.Conv1d(CHANNELS, CHANNELS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.dilated(x).chunk(2, 1)
        return x + self.back(torch.tanh(first) * torch.sigmoid(second))


class Swap(nn.Module):
    """Tokens and channels exchanged."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


def linears(*between: nn.Module) -> list[nn.Module]:
    return [nn.Linear(WIDTH, WIDTH), *between, nn.Linear(WIDTH, WIDTH)]


def tables(depth: int, make: Callable[[], nn.Module]) -> nn.Module:
    return Net(nn.Linear(WIDTH, WIDTH), [make() for _ in range(depth)])


def rows() -> torch.Tensor:
    return vectors(1)[0]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def graph() -> tuple[torch.Tensor, torch.Tensor]:
    edges = torch.randint(0, NODES, (2, 40), generator=torch.Generator().manual_seed(0))
    return drawn(NODES, WIDTH), edges


def pictures() -> torch.Tensor:
    return drawn(2, 3, 8, 8)


def series() -> torch.Tensor:
    return drawn(2, 3, 32)


def volume() -> torch.Tensor:
    return drawn(1, 3, 4, 8, 8)


def timed() -> tuple[torch.Tensor, torch.Tensor]:
    return pictures(), drawn(2, WIDTH)


def conditioned() -> tuple[torch.Tensor, torch.Tensor]:
    return vectors(), drawn(2, WIDTH)


def network(
    name: str,
    make: Callable[[], nn.Module],
    batch: Callable[[], Any],
    layout: str,
    expected: float | str | dl.Rule = 0.0,
    build: Callable[..., nn.Module] = tables,
    **more: Any,
) -> Configuration:
    return Configuration(
        name, lambda depth: build(depth, make, **more), batch, {"blocks.*": layout}, expected
    )


BODY = "body<body"
ZERO = dl.Rule("zero", "the branch's last weight starts at zero", "0", None)

images = {"build": convolutional}
NETWORKS = [
    network("resnet-batch-norm", basic(lambda: nn.BatchNorm2d(CHANNELS)), pictures, BODY, **images),
    network("resnet-group-norm", basic(lambda: nn.GroupNorm(2, CHANNELS)), pictures, BODY, **images),
    network("resnet-instance-norm", basic(lambda: nn.InstanceNorm2d(CHANNELS)), pictures, BODY, **images),
    network("resnet-without-norm", lambda: Around(conv(), nn.ReLU(), conv()), pictures, BODY, **images),
    network("resnet-preactivated", preactivated, pictures, BODY, **images),
    network("nn-unet-2d", nn_unet(2), pictures, BODY, **images),
    network("nn-unet-3d", nn_unet(3), volume, BODY, build=convolutional, dimensions=3),
    network(
        "squeeze-and-excitation",
        lambda: Around(conv(), nn.BatchNorm2d(CHANNELS), nn.ReLU(), conv(), Squeeze()),
        pictures,
        BODY,
        **images,
    ),
    network(
        "super-resolution",
        lambda: Around(conv(), nn.ReLU(), conv(), times=0.1),
        pictures,
        f"{BODY}|0.1",
        **images,
    ),
    network(
        "depthwise",
        lambda: Around(conv(7, groups=CHANNELS), nn.GroupNorm(1, CHANNELS), conv(1), nn.GELU(), conv(1)),
        pictures,
        BODY,
        **images,
    ),
    network(
        "inverted-bottleneck",
        lambda: Around(
            nn.Conv2d(CHANNELS, 32, 1),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
            nn.Conv2d(32, 32, 3, padding=1, groups=32),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
            nn.Conv2d(32, CHANNELS, 1),
            nn.BatchNorm2d(CHANNELS),
        ),
        pictures,
        BODY,
        **images,
    ),
    network("game-tower", lambda: Around(nn.ReLU(), conv(), nn.ReLU(), conv()), pictures, BODY, **images),
    network("diffusion-zero", Timed, timed, "-=conv2<norm1^inf", ZERO, **images),
    network("diffusion", lambda: Timed(False), timed, "-=conv2<norm1", **images),
    network("dit-zero", Adaptive, conditioned, "attn=gate1<norm1^inf mlp=gate2<norm2^inf", "adaln-zero"),
    network("dit", lambda: Adaptive(False), conditioned, "attn=gate1<norm1 mlp=gate2<norm2"),
    *(
        network(f"graph-{kind}", lambda kind=kind: GraphBlock(kind), graph, "message<message")
        for kind in ("sum", "mean", "attention", "edge")
    ),
    network("graph-transformer", GraphTransformer, graph, "local<local attn<norm1 mlp<norm2"),
    network("table-resnet", lambda: Around(nn.BatchNorm1d(WIDTH), *linears(nn.ReLU())), rows, BODY),
    network("table-mlp", lambda: Around(*linears(nn.SELU())), rows, BODY),
    network("cross", Cross, lambda: (rows(), drawn(16, WIDTH)), "linear=times<linear"),
    network(
        "row-and-column-attention", Alternating, vectors, "rows<norm_rows columns<norm_columns mlp<norm_mlp"
    ),
    network("wavenet", WaveBlock, series, "-=back<dilated", build=convolutional, dimensions=1),
    network(
        "separable-in-time",
        lambda: Around(
            conv(5, 1, groups=CHANNELS), conv(1, 1), nn.BatchNorm1d(CHANNELS), nn.ReLU(), conv(1, 1)
        ),
        series,
        BODY,
        build=convolutional,
        dimensions=1,
    ),
    network(
        "forecasting-mixer",
        lambda: nn.Sequential(
            Around(nn.LayerNorm(WIDTH), Swap(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), Swap()),
            Around(nn.LayerNorm(WIDTH), *linears(nn.GELU())),
        ),
        vectors,
        "0.body<0.body 1.body<1.body",
    ),
    network("implicit-steps", lambda: Around(*linears(nn.Tanh()), times=0.5), rows, f"{BODY}|0.5"),
]
