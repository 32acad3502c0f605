"""Small reports of every verb, weight law, recursion, coupling and norm, through public names alone.

Each specimen takes no argument and returns what has a `to_dict()`, or a dict of plain Python where the
library makes no report. Nothing here may read a private name: these must survive any move of its insides.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

import deeplimit as dl

WIDTH = 4
MIXING = torch.tensor(
    [
        [0.3, 0.8, -0.2, 0.0],
        [-0.6, 0.2, 0.5, 0.1],
        [0.1, -0.4, 0.3, 0.7],
        [0.2, 0.0, -0.5, -0.3],
    ]
)
PUSH = torch.tensor([0.5, -0.4, 0.3, 0.6])


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mixing(t):
    return MIXING * (0.6 + 0.4 * math.cos(3.0 * t))


def push(t):
    return PUSH * (1.0 + 0.5 * math.sin(2.0 * t))


def rough(t):
    return MIXING * math.sqrt(t)


def skewed(shape, generator):
    return torch.empty(shape).exponential_(generator=generator) - 1


def bent(h):
    return torch.sin(2.0 * h) / 2.0


def sphere():
    x = normal(16, WIDTH, seed=1)
    return x / x.norm(dim=1, keepdim=True)


TREND = dl.Trend(mixing, push)
SMOOTH = dl.SmoothGaussian(0.2)
DEPTHS = (8, 16, 32, 64)


# --- compare --------------------------------------------------------------------------------------


def against(network, limit=None, *, independent=False, **how):
    """Compare a network with a limit, its own if none is given; `independent` gives that noise of its own."""
    other = dl.Independent(network.limit()) if independent else limit
    return dl.compare(network, other, **{"depths": DEPTHS, "paths": 256, **how})


@dataclass(frozen=True)
class General:
    """The neural SDE of res-1 with tanh as one's own torchsde object; right where the factor is 1."""

    factor: float = 1.0
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    def f(self, t, y):
        return torch.zeros_like(y)

    def g_prod(self, t, y, v):
        matrices = v.reshape(len(y), y.shape[1], y.shape[1])
        product = torch.bmm(matrices, torch.tanh(y).unsqueeze(2)).squeeze(2)
        return self.factor * y.shape[1] ** -0.5 * product


class Scalar:
    """The neural SDE of a width of 1, with one motion, in the words `f` and `g`."""

    sde_type = "ito"
    noise_type = "scalar"

    def f(self, t, y):
        return torch.zeros_like(y)

    def g(self, t, y):
        return torch.tanh(y).unsqueeze(2)


def still(t, h):
    return torch.zeros_like(h)


def spiral(t, h):
    return torch.tanh(h) @ mixing(float(t)).to(h.dtype).T


def growing(t):
    return 0.02 + 0.06 * t


def turning(t):
    rows = torch.diag(torch.tensor([0.1, 0.05, 0.02, 0.01]) * (1.0 + t))
    return dl.Kronecker(rows, 0.4 * torch.eye(WIDTH) + 0.1)


def leveraged(t, v):
    return (0.08 * torch.sigmoid(v))[:, [0, 1, 0, 1], None].expand(-1, WIDTH, WIDTH)


def restoring(t, v):
    return -2.0 * v


def shaking(t, v):
    return 2.0 * torch.ones_like(v)


@functools.cache
def noises():
    """Noise with every kind of covariance, by name."""
    spread = normal(WIDTH**2, WIDTH**2, seed=2)
    joint = normal(WIDTH**2 + WIDTH, 3, seed=3)
    joint = 0.015 * joint @ joint.T + 0.01 * torch.eye(len(joint))
    matrix = joint[: WIDTH**2, : WIDTH**2].reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    cross = joint[: WIDTH**2, WIDTH**2 :].reshape(WIDTH, WIDTH, WIDTH)
    tensor = (0.05 * spread @ spread.T / WIDTH**2).reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    rows = dl.Kronecker(torch.diag(torch.tensor([0.2, 0.1, 0.05, 0.02])), 0.3 * torch.eye(WIDTH) + 0.1)
    entries = torch.linspace(0.01, 0.08, WIDTH**2).reshape(WIDTH, WIDTH)
    auxiliary = dl.AuxiliaryDiffusion(restoring, shaking, start=[0.0, 1.0], leverage=-0.7)
    return {
        "number": dl.Ito(A=0.04, b=0.1),
        "matrices-alone": dl.Ito(A=0.04),
        "biases-alone": dl.Ito(b=0.1),
        "entrywise": dl.Ito(A=entries, b=torch.linspace(0.05, 0.2, WIDTH)),
        "kronecker": dl.Ito(A=rows, b=0.02),
        "full": dl.Ito(A=tensor, b=0.1 * torch.eye(WIDTH) + 0.02),
        "cross": dl.Ito(A=matrix, b=joint[WIDTH**2 :, WIDTH**2 :], cross=cross),
        "number-of-time": dl.Ito(A=growing, b=0.1),
        "kronecker-of-time": dl.Ito(A=turning, b=0.02),
        "stochastic-volatility": dl.stochastic_volatility(A=0.04, b=0.1),
        "stochastic-volatility-kronecker": dl.stochastic_volatility(A=rows, leverage=0.3),
        "auxiliary": dl.Ito(A=leveraged, b=0.1, auxiliary=auxiliary),
        "drift": dl.Ito(A=0.04, b=0.1, drift=TREND),
    }


def diffusive(name, activation="scaled_gelu", **how):
    return against(dl.inner(WIDTH, activation, noise=noises()[name]), x=sphere(), depths=(8, 16, 32), **how)


def planar(activation, alpha, beta, noise=None, trend=TREND, **how):
    given = None if noise is None else noises()[noise]
    network = dl.inner(WIDTH, activation, trend=trend, noise=given, alpha=alpha, beta=beta)
    return against(
        network,
        **{"x": sphere(), "depths": (8, 16, 32), "paths": 64 if noise is None else 256, **how},
    )


def pair_of_zoo(name):
    pair = next(pair for pair in dl.zoo.pairs() if pair.name == name)
    return against(pair.network, pair.limit, depths=(8, 16, 32))


COMPARE = {
    "brownian": lambda: against(dl.res1(WIDTH, "tanh"), paths=512),
    "brownian-relu-seed": lambda: against(dl.res1(WIDTH, "relu"), seed=3, confidence=0.9),
    "gaussian-by-name": lambda: against(dl.res1(3, "sin", weights=dl.IID("gaussian")), depths=(4, 8, 16)),
    "uniform": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.IID("uniform"))),
    "rademacher": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.IID("rademacher"))),
    "sampler": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.IID(skewed))),
    "users-activation": lambda: against(dl.res1(3, bent), depths=(4, 8, 16)),
    "smooth-res1": lambda: against(dl.res1(WIDTH, "tanh", weights=SMOOTH), paths=64),
    "smooth-res2-two-laws": lambda: against(
        dl.res2(3, "tanh", weights=(dl.SmoothGaussian(0.5), SMOOTH)), paths=64, depths=(8, 16, 32)
    ),
    "smooth-res3": lambda: against(dl.res3(3, weights=SMOOTH), paths=64, depths=(8, 16, 32)),
    "smooth-inner": lambda: against(dl.inner(3, "tanh", weights=SMOOTH), paths=64, depths=(8, 16, 32)),
    "smooth-float32": lambda: against(
        dl.res1(3, "tanh", weights=SMOOTH), paths=64, depths=(8, 16, 32), dtype="float32", tolerance=1e-5
    ),
    "trend-res1": lambda: against(
        dl.res1(WIDTH, "tanh", weights=dl.Trend(mixing)),
        x=normal(8, WIDTH),
        paths=32,
    ),
    "trend-inner-with-bias": lambda: against(dl.inner(WIDTH, "tanh", weights=TREND), paths=32),
    "trend-holder": lambda: against(dl.res1(WIDTH, "tanh", weights=dl.Trend(rough, holder=0.5)), paths=32),
    "identity-independent": lambda: against(dl.res1(WIDTH, "tanh", exponent=0.8)),
    "identity-smooth": lambda: against(dl.res1(3, "tanh", weights=SMOOTH, exponent=1.5), paths=64),
    "young-res1": lambda: against(dl.res1(1, "tanh", weights=dl.FractionalBrownian(0.7)), paths=128),
    "young-modified-res1": lambda: against(
        dl.modified_res1(2, "sin", weights=dl.FractionalBrownian(0.65)),
        paths=128,
    ),
    "fractional-below-half": lambda: against(
        dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.3), exponent=0.8), still, paths=64
    ),
    "fractional-depths-with-a-common-multiple": lambda: against(
        dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.8)), depths=(4, 6, 9), paths=64
    ),
    # inner of Cohen et al.: every covariance, every part of the plane of exponents
    **{f"noise-{name}": functools.partial(diffusive, name) for name in noises()},
    "sde-with-trend": lambda: planar("scaled_silu", 0.0, 1.0, "number"),
    "sde-tanh-without-second-order": lambda: planar("tanh", 0.0, 1.0, "entrywise"),
    "sde-beta-above-one": lambda: planar("scaled_silu", 0.0, 1.5, "number"),
    "sde-with-smooth-trend": lambda: planar("scaled_silu", 0.0, 1.0, "number", trend=SMOOTH),
    "sde-with-rough-trend": lambda: planar("tanh", 0.0, 1.0, "number", trend=dl.Trend(rough, holder=0.5)),
    "linear-ode": lambda: planar("tanh", 0.5, 0.5),
    "linear-ode-bent": lambda: planar("scaled_silu", 0.3, 0.7),
    "linear-ode-at-alpha-zero": lambda: planar("tanh", 0.0, 1.0),
    "linear-ode-with-noise": lambda: planar("scaled_silu", 0.5, 0.5, "number"),
    "linear-ode-rough": lambda: planar("tanh", 0.5, 0.5, trend=dl.Trend(rough, holder=0.5)),
    "linear-ode-smooth-trend": lambda: planar("tanh", 0.5, 0.5, trend=SMOOTH),
    "plane-neural-ode": lambda: planar("tanh", 1.0, 0.0),
    "plane-neural-ode-with-noise": lambda: planar("tanh", 1.0, 0.0, "number"),
    "plane-identity": lambda: planar("tanh", 0.8, 0.8),
    # couplings
    "projected": lambda: against(dl.res1(8, "tanh"), coupling="projected", depths=(4, 8, 16)),
    "projected-by-itself": lambda: against(dl.res1(32, "tanh"), depths=(4, 8, 16), paths=128),
    "projected-final": lambda: against(
        dl.res1(8, "relu"),
        coupling="projected",
        depths=(4, 8, 16),
        norm="final",
    ),
    "projected-sup-continuous": lambda: against(
        dl.res1(8, "tanh"), coupling="projected", depths=(4, 8, 16), norm="sup-continuous"
    ),
    "projected-inner": lambda: diffusive("number", coupling="projected"),
    "projected-inner-kronecker": lambda: diffusive("kronecker", coupling="projected"),
    "projected-inner-with-trend": lambda: planar("scaled_silu", 0.0, 1.0, "number", coupling="projected"),
    "projected-against-an-ode": lambda: against(dl.res1(8, "tanh"), dl.Identity(), depths=(4, 8, 16)),
    "projected-same-network": lambda: against(
        dl.res1(8, "tanh"), x=normal(3, 8), coupling="projected", same_network=True, depths=(4, 8, 16)
    ),
    "pathwise-same-network": lambda: against(
        dl.res1(WIDTH, "tanh"), x=normal(3, WIDTH), coupling="pathwise", same_network=True, depths=(4, 8, 16)
    ),
    "pathwise-wide": lambda: against(dl.res1(16, "tanh"), coupling="pathwise", depths=(4, 8, 16), paths=64),
    "compiled": lambda: against(dl.res1(40, "tanh"), depths=(16, 32, 64, 128), paths=512),
    "compiled-final": lambda: against(dl.res1(40, "relu"), depths=(16, 32, 64, 128), paths=512, norm="final"),
    "compiled-inner": lambda: against(
        dl.inner(32, "scaled_silu", noise=dl.Ito(A=0.02, b=0.1)),
        depths=(16, 32, 64),
        paths=1024,
    ),
    # limits of the user's own, right and wrong
    "own-general-sde": lambda: against(dl.res1(WIDTH, "tanh"), General()),
    "own-scalar-sde": lambda: against(dl.res1(1, "tanh"), Scalar()),
    "own-ode": lambda: against(
        dl.res1(WIDTH, "tanh", weights=dl.Trend(mixing)),
        spiral,
        x=normal(8, WIDTH),
        paths=32,
    ),
    "wrong-diffusion": lambda: against(dl.res1(WIDTH, "tanh"), General(1.3)),
    "wrong-zero": lambda: against(dl.res1(8, "tanh"), still),
    "wrong-independent-sde": lambda: against(dl.res1(WIDTH, "tanh"), independent=True),
    "wrong-independent-ode": lambda: against(dl.res1(3, "tanh", weights=SMOOTH), independent=True, paths=128),
    "wrong-independent-young": lambda: against(
        dl.res1(1, "tanh", weights=dl.FractionalBrownian(0.7)), independent=True, paths=64
    ),
    "zoo-neural-ode-for-linear-ode": lambda: pair_of_zoo("neural ODE for the linear ODE"),
    "zoo-no-second-order-drift": lambda: pair_of_zoo("second-order drift left out"),
    "zoo-transposed-noise": lambda: pair_of_zoo("transposed noise"),
    "zoo-stratonovich": lambda: pair_of_zoo("Stratonovich for Itô"),
    "zoo-ode-for-sde": lambda: pair_of_zoo("ODE for the SDE network"),
    "zoo-sde-for-ode": lambda: pair_of_zoo("SDE for the ODE network"),
    # norms, powers, inputs, depths
    "final": lambda: against(dl.res1(WIDTH, "tanh"), norm="final"),
    "sup-continuous": lambda: against(dl.res1(WIDTH, "tanh"), norm="sup-continuous"),
    "sup-continuous-ode": lambda: planar("tanh", 0.5, 0.5, norm="sup-continuous"),
    "sup-continuous-sde": lambda: planar("scaled_silu", 0.0, 1.0, "number", norm="sup-continuous"),
    "power-one": lambda: against(dl.res1(WIDTH, "tanh"), p=1),
    "power-four": lambda: against(dl.res1(WIDTH, "tanh"), p=4.0),
    "input-layer": lambda: against(dl.res1(WIDTH, "tanh"), x=normal(5, 7)),
    "float64-with-reference": lambda: against(dl.res1(WIDTH, "tanh"), dtype="float64", reference=256),
    "depths-that-do-not-divide": lambda: against(dl.res1(WIDTH, "tanh"), depths=(5, 7, 12, 31)),
    "depths-that-do-not-divide-ode": lambda: against(
        dl.res1(3, "tanh", weights=SMOOTH),
        depths=(5, 7, 12),
        paths=64,
    ),
    "diverged": lambda: against(dl.res1(WIDTH, "relu", exponent=0.0), still, depths=(16, 64, 256), paths=64),
}


# --- compare_laws ---------------------------------------------------------------------------------


class Shifted(dl.LawLimit):
    """A law of one's own, which is not that of any network here."""

    equation = "a shifted start"

    def draw(self, h0, generator):
        return h0 + torch.empty_like(h0).normal_(generator=generator)


LAWS = {
    "res3": lambda: dl.compare_laws(dl.res3(8), depths=(16, 32, 64), draws=4000, tolerance=0.4),
    "res3-rademacher": lambda: dl.compare_laws(
        dl.res3(WIDTH, weights=dl.IID("rademacher")),
        x=normal(3, WIDTH),
        depths=(8, 16, 32),
        draws=1000,
        seed=2,
    ),
    "res1-uniform": lambda: dl.compare_laws(
        dl.res1(3, "tanh", weights=dl.IID("uniform")),
        depths=(8, 16, 32),
        draws=1000,
    ),
    "res1-sampler": lambda: dl.compare_laws(
        dl.res1(3, "tanh", weights=dl.IID(skewed)),
        depths=(4, 8, 16, 32),
        draws=500,
        steps=64,
        dtype="float64",
    ),
    "wrong-rate": lambda: dl.compare_laws(
        dl.res3(WIDTH),
        dl.IsotropicSDE(WIDTH, rate=2.0),
        depths=(8, 16, 32),
        draws=1000,
    ),
    "own-sde": lambda: dl.compare_laws(
        dl.res1(3, "tanh"),
        General(),
        depths=(8, 16, 32),
        draws=500,
        steps=64,
    ),
    "own-law": lambda: dl.compare_laws(dl.res3(3), Shifted(), depths=(8, 16, 32), draws=500),
}


# --- stability and phase_diagram ------------------------------------------------------------------


def stable(network, **how):
    return dl.stability(network, **{"depths": (8, 24, 72), "draws": 12, **how})


STABILITY = {
    "gaussian-stable": lambda: stable(dl.res3(16), depths=(10, 30, 100, 300), draws=48),
    "gaussian-explosion": lambda: stable(dl.res3(16, exponent=0.25), depths=(10, 40, 160, 640), draws=16),
    "gaussian-identity": lambda: stable(dl.res3(16, exponent=1.0)),
    "gaussian-res1": lambda: stable(dl.res1(12, "relu")),
    "gaussian-res2": lambda: stable(dl.res2(8, "tanh")),
    "gaussian-inner": lambda: stable(dl.inner(8, "tanh", weights=dl.Brownian(), exponent=0.5)),
    "uniform-stable": lambda: stable(
        dl.res3(16, weights=dl.IID("uniform"), exponent=0.5),
        seed=5,
        confidence=0.9,
    ),
    "uniform-explosion": lambda: stable(dl.res3(16, weights=dl.IID("uniform"), exponent=0.25), delta=0.1),
    "uniform-identity": lambda: stable(dl.res3(16, weights=dl.IID("uniform"), exponent=1.0), x=normal(4, 16)),
    "sampler": lambda: stable(dl.res1(8, "tanh", weights=dl.IID(skewed)), depths=(8, 24)),
    "smooth": lambda: stable(dl.res3(8, weights=SMOOTH), x=normal(4, 6)),
    "smooth-identity": lambda: stable(dl.res3(8, weights=SMOOTH, exponent=2.0)),
    "fractional-explosion": lambda: stable(dl.res3(8, weights=dl.FractionalBrownian(0.8), exponent=0.2)),
    "smooth-explosion": lambda: stable(dl.res1(8, "identity", weights=SMOOTH, exponent=0.5), dtype="float64"),
    "fractional-above-half": lambda: stable(dl.res3(8, weights=dl.FractionalBrownian(0.8))),
    "fractional-below-half": lambda: stable(dl.res1(8, "relu", weights=dl.FractionalBrownian(0.3))),
    "ito": lambda: stable(dl.inner(WIDTH, "scaled_silu", noise=noises()["cross"], trend=TREND)),
    "stochastic-volatility": lambda: stable(dl.inner(WIDTH, "tanh", noise=noises()["auxiliary"])),
    "users-activation": lambda: stable(dl.res1(8, bent, weights=dl.IID("rademacher"))),
    "overflow": lambda: stable(dl.res1(8, "softplus", exponent=0.0), depths=(30, 300), draws=4),
    "one-draw": lambda: stable(dl.res3(8), draws=1),
}

PHASE = {
    "res3": lambda: dl.phase_diagram(
        dl.res3,
        width=12,
        depth=100,
        hurst=[0.3, 0.5, 0.8],
        exponents=[0.2, 0.4, 0.6, 0.8, 1.0, 1.2],
        draws=3,
        inputs=2,
    ),
    "res1-tanh": lambda: dl.phase_diagram(
        functools.partial(dl.res1, activation="tanh"),
        width=8,
        depth=40,
        hurst=[0.7],
        exponents=[0.3, 0.9, 1.4],
        draws=2,
        x=normal(3, 5),
        seed=1,
    ),
}


# --- check_depth, probe, init ---------------------------------------------------------------------


def built(make, seed=0):
    """Build a module from a seed, leaving the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


class Stack(nn.Module):
    """h + scale · V tanh(h), V with entries N(0, 1/d): res-1 as a module."""

    def __init__(self, depth, exponent, gain=None):
        super().__init__()
        self.entry = nn.Linear(6, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(depth))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.25)
        self.gains = None if gain is None else nn.ParameterList(torch.full((1,), gain) for _ in range(depth))
        self.scale = depth**-exponent

    def forward(self, x):
        h = self.entry(x)
        for k, layer in enumerate(self.layers):
            branch = self.scale * layer(torch.tanh(h))
            h = h + (branch if self.gains is None else self.gains[k] * branch)
        return h


class Block(nn.Module):
    """A pre-norm block of attention and MLP."""

    def __init__(self, scale):
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        with torch.no_grad():
            self.attention.out_proj.weight.mul_(scale)
            self.mlp[2].weight.mul_(scale)
            self.mlp[2].bias.zero_()

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.between(x))


class Transformer(nn.Module):
    """Tokens to logits; the output projections of N = 2 depth branches are scaled by N^-exponent."""

    def __init__(self, depth, exponent=0.5):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.blocks = nn.ModuleList(Block((2 * depth) ** -exponent) for _ in range(depth))
        self.head = nn.Linear(16, 20)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Images(nn.Module):
    """A residual stack of convolutions with batch norm, all branches of which stay as large at any depth."""

    def __init__(self, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(6, 6, 3, padding=1, bias=False),
                nn.BatchNorm2d(6),
                nn.ReLU(),
                nn.Conv2d(6, 6, 1),
            )
            for _ in range(depth)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return x.mean(dim=(2, 3))


def squared(output):
    return output.square().mean()


def tokens():
    return torch.arange(24).reshape(2, 12) * 7 % 20


def checked(factory, batch, **how):
    return dl.check_depth(factory, **{"depths": (2, 4, 8), "batch": batch, **how})


DEPTH = {
    "sde": lambda: checked(
        lambda depth: Stack(depth, 0.5),
        normal(4, 6),
        expected=0.5,
        depths=(4, 8, 16, 32),
    ),
    "ode": lambda: checked(lambda depth: Stack(depth, 1.0), normal(4, 6), loss=squared),
    "forgotten": lambda: checked(lambda depth: Stack(depth, 0.0), normal(4, 6), expected=0.5, seed=4),
    "rezero": lambda: checked(lambda depth: Stack(depth, 0.0, gain=0.0), normal(4, 6), expected="rezero"),
    "transformer-gpt-2": lambda: checked(Transformer, tokens(), expected="gpt-2"),
    "transformer-exponent": lambda: checked(
        functools.partial(Transformer, exponent=1.0), tokens(), expected=0.5, tolerance=0.2, confidence=0.9
    ),
    "transformer-some-blocks": lambda: checked(
        Transformer,
        tokens(),
        blocks="blocks.*",
        expected="completep",
    ),
    "encoder": lambda: checked(
        lambda depth: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), depth),
        normal(2, 5, 16),
        expected=0.5,
    ),
    "images": lambda: checked(Images, normal(2, 3, 8, 8), expected="fixup"),
    "probe": lambda: dl.probe(built(lambda: Transformer(3)), tokens()),
    "probe-gpt-2": lambda: dl.probe(
        built(lambda: Transformer(3, exponent=0.0)),
        tokens(),
        expected="gpt-2",
        seed=2,
    ),
}


def branch_scalars():
    return dl.branch_scalars(built(lambda: Transformer(3)), tokens())


def sums(tensors):
    """Each tensor as numbers that move with any entry, or with the order of two."""
    found = []
    for tensor in tensors:
        flat = tensor.detach().double().flatten()
        turns = torch.cos(torch.arange(len(flat), dtype=torch.float64))
        found.append([flat[0].item(), flat[-1].item(), flat.sum().item(), (flat * turns).sum().item()])
    return found


def initialised(initialise):
    """Fill five layers of each kind; return what was written and what the initialiser says of it."""
    content = {}
    for name, shape, dtype in (
        ("linear", (6, 9), torch.float32),
        ("convolution", (4, 3, 3, 3), torch.float64),
        ("half", (5, 8), torch.bfloat16),
    ):
        weights = [torch.empty(shape, dtype=dtype) for _ in range(5)]
        done = initialise(weights).to_dict()
        names = (
            "layers",
            "shape",
            "fan_in",
            "gain",
            "exponent",
            "standard_deviation",
            "hurst",
            "length_scale",
        )
        kept = {key: done[key] for key in (*names, "critical_exponent", "theorem")}
        content[name] = {**kept, "leads_to": done["limit"], "weights": sums(weights)}
    return content


def residual(**how):
    model = built(lambda: Transformer(4))
    done = dl.init.residual_(model, batch=tokens(), **how)
    return {
        "weights": {name: sums([value])[0] for name, value in model.named_parameters()},
        "roles": len(done.roles),
    }


INIT = {
    "gaussian": lambda: initialised(lambda weights: dl.init.iid_(weights, seed=1)),
    "uniform": lambda: initialised(lambda weights: dl.init.iid_(weights, law="uniform", gain=2.0)),
    "rademacher": lambda: initialised(lambda weights: dl.init.iid_(weights, law="rademacher", exponent=1.0)),
    "sampler": lambda: initialised(lambda weights: dl.init.sample_(weights, dl.IID(skewed), fan_in=7)),
    "smooth": lambda: initialised(dl.init.smooth_),
    "fractional": lambda: initialised(lambda weights: dl.init.fractional_(weights, hurst=0.7, seed=2)),
    "fractional-below-half": lambda: initialised(
        lambda weights: dl.init.fractional_(weights, hurst=0.3, exponent=0),
    ),
    "residual": lambda: residual(),
    "residual-smooth": lambda: residual(process=SMOOTH, weights="output", biases="keep"),
}


# --- what the theory says, and what limits are ----------------------------------------------------


def networks():
    """Networks in every regime, by name."""
    young, rough_noise = dl.FractionalBrownian(0.7), dl.FractionalBrownian(0.3)
    made = {
        "res1": dl.res1(WIDTH, "tanh"),
        "res1 explosion": dl.res1(WIDTH, "tanh", exponent=0.25),
        "res1 identity": dl.res1(WIDTH, "tanh", exponent=0.8),
        "res1 uniform": dl.res1(WIDTH, "relu", weights=dl.IID("uniform")),
        "res1 sampler": dl.res1(WIDTH, "relu", weights=dl.IID(skewed)),
        "res1 smooth": dl.res1(WIDTH, "tanh", weights=SMOOTH),
        "res1 smooth identity": dl.res1(WIDTH, "tanh", weights=SMOOTH, exponent=1.5),
        "res1 smooth explosion": dl.res1(WIDTH, "identity", weights=SMOOTH, exponent=0.5),
        "res1 rough trend": dl.res1(WIDTH, "tanh", weights=dl.Trend(rough, holder=0.5)),
        "res1 young": dl.res1(WIDTH, "tanh", weights=young),
        "res1 young identity": dl.res1(WIDTH, "tanh", weights=young, exponent=0.9),
        "res1 young explosion": dl.res1(WIDTH, "tanh", weights=young, exponent=0.5),
        "res1 below half": dl.res1(WIDTH, "tanh", weights=rough_noise),
        "res1 below half identity": dl.res1(WIDTH, "tanh", weights=rough_noise, exponent=0.8),
        "modified res1": dl.modified_res1(WIDTH, "tanh", weights=young),
        "res2": dl.res2(WIDTH, "tanh"),
        "res2 relu": dl.res2(WIDTH, "relu"),
        "res2 smooth": dl.res2(WIDTH, "tanh", weights=SMOOTH),
        "res2 mixed": dl.res2(WIDTH, "tanh", weights=(SMOOTH, dl.Brownian())),
        "res2 young": dl.res2(WIDTH, "tanh", weights=young),
        "res3": dl.res3(WIDTH),
        "res3 sampler": dl.res3(WIDTH, weights=dl.IID(skewed)),
        "res3 young": dl.res3(WIDTH, weights=young),
        "inner independent": dl.inner(WIDTH, "tanh", weights=dl.Brownian()),
        "inner smooth": dl.inner(WIDTH, "tanh", weights=SMOOTH),
        "inner young": dl.inner(WIDTH, "tanh", weights=young),
    }
    for activation in ("tanh", "scaled_silu", "relu"):
        for alpha in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5):
            for beta in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5):
                for name in (None, "number", "biases-alone"):
                    noise = None if name is None else noises()[name]
                    network = dl.inner(WIDTH, activation, trend=TREND, noise=noise, alpha=alpha, beta=beta)
                    made[f"inner {activation} {alpha:g} {beta:g} {name}"] = network
    return made


def regimes():
    """The name, the theorem and the powers of every regime, and whether there is a limit."""
    content = {}
    for name, network in networks().items():
        found = network.regime()
        try:
            network.limit()
            has_limit = True
        except dl.NoTheoremError:
            has_limit = False
        powers = [[float(power) for power in some] for some in (found.corrections, found.seconds)]
        flags = [found.interfere, found.hides, has_limit]
        content[name] = [found.name, found.theorem, found.rate, found.convergence, powers, flags]
    return content


def limits():
    """Drift and diffusion of the library's limits at a few states, covariances integrated, and drawn laws."""
    states, content = normal(2, WIDTH, seed=5).double(), {}
    for activation in ("tanh", "sin", "softplus", "relu"):
        sde = dl.res1(WIDTH, activation).limit()
        content[f"neural SDE {activation}"] = [sde.f(0.3, states).tolist(), sums([sde.g(0.3, states)])]
    for name in (
        "number",
        "entrywise",
        "kronecker",
        "full",
        "cross",
        "number-of-time",
        "kronecker-of-time",
        "drift",
    ):
        noise = noises()[name]
        sde = dl.inner(WIDTH, "scaled_silu", trend=TREND, noise=noise).limit()
        parts = [part for part in noise.quadratic_variation(0.7, width=WIDTH) if part is not None]
        q = noise.Q(0.3, states)
        content[f"Ito {name}"] = [
            sde.f(0.3, states).tolist(),
            sums([sde.g(0.3, states)]),
            q.tolist(),
            sums(parts),
        ]
    law = dl.IsotropicSDE(3, rate=0.7)
    content["isotropic"] = law.draw(normal(4, 3).double(), torch.Generator().manual_seed(0)).tolist()
    young = dl.FractionalBrownian(0.7)
    path = young.draw_increments(16, 2, 2, torch.Generator().manual_seed(0), torch.float64)
    solved = dl.res1(2, "tanh", weights=young).limit().solve(torch.ones(2, 2, dtype=torch.float64), path)
    content["young"] = [sums([path]), solved[-1].tolist()]
    return content


def activations():
    """Every named activation at a few points."""
    points = torch.linspace(-3.0, 3.0, 13, dtype=torch.float64)
    return {name: dl.activations.resolve(name)(points).tolist() for name in dl.activations.NAMES}


# --- all of them ----------------------------------------------------------------------------------

SPECIMENS = {
    **{f"compare-{name}": make for name, make in COMPARE.items()},
    **{f"laws-{name}": make for name, make in LAWS.items()},
    **{f"stability-{name}": make for name, make in STABILITY.items()},
    **{f"phase-{name}": make for name, make in PHASE.items()},
    **{f"depth-{name}": make for name, make in DEPTH.items()},
    **{f"init-{name}": make for name, make in INIT.items()},
    "depth-scalars": branch_scalars,
    "theory-regimes": regimes,
    "theory-limits": limits,
    "theory-activations": activations,
    "validate-neural-ode": lambda: dl.validate(quick=True, only="α = 1, β = 0"),
    "validate-linear-ode": lambda: dl.validate(quick=True, only="erf, α = 0.5", seed=1),
    "reproduce-figure-1": lambda: dl.reproduce("marion-fig1", quick=True),
}
