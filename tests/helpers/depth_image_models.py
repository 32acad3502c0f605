"""Networks on images of known residual exponent, right and with one planted fault each: ViT, ResNet,
MLP-Mixer, Fixup.
"""

from __future__ import annotations

import torch
from depth_models import CHANNELS, MLP, WIDTH, Attention, initialise, scale
from torch import nn
from torch.nn import functional as F


class Gained(nn.Module):
    """LayerScale by addcmul (a vector), or ReZero without norms (a scalar of no dimension)."""

    def __init__(self, gains, kind):
        super().__init__()
        self.attn, self.mlp = Attention(causal=False), MLP()
        self.norms = nn.ModuleList(
            nn.LayerNorm(WIDTH) if kind == "layerscale" else nn.Identity() for _ in range(2)
        )
        shape = (WIDTH,) if kind == "layerscale" else ()
        self.gain1, self.gain2 = (nn.Parameter(torch.full(shape, gain)) for gain in gains)
        self.kind = kind

    def forward(self, x):
        if self.kind == "layerscale":
            x = torch.addcmul(x, self.attn(self.norms[0](x)), self.gain1)
            return torch.addcmul(x, self.gain2, self.mlp(self.norms[1](x)))
        x = x + self.gain1 * self.attn(self.norms[0](x))
        return x + self.mlp(self.norms[1](x)) * self.gain2


class ViT(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, kernel_size=4, stride=4)
        self.position = nn.Parameter(0.02 * torch.randn(1, 17, WIDTH))
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), dim=1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def vit(depth, kind="layerscale", rule="1/sqrt(L)", bug=None, law="xavier_uniform"):
    """Vision transformer whose branches carry a gain: 1/√L a channel (LayerScale), or zero (ReZero)."""
    gains = [[scale(rule, bug, depth, index, name) for name in ("attn", "mlp")] for index in range(depth)]
    model = ViT([Gained(pair, kind) for pair in gains])
    initialise(model, law)
    return model


class BasicBlock(nn.Module):
    """As in torchvision: `out += identity`, then ReLU; the shortcut is projected where the shape changes."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """Two stages of half the blocks each."""

    def __init__(self, depth):
        super().__init__()
        self.conv1, self.bn1, self.relu = (
            nn.Conv2d(3, CHANNELS, 3, 1, 1, bias=False),
            nn.BatchNorm2d(CHANNELS),
            nn.ReLU(),
        )
        half = depth // 2
        self.layer1 = nn.Sequential(*(BasicBlock(CHANNELS, CHANNELS, 1) for _ in range(half)))
        sizes = [(CHANNELS, 2 * CHANNELS, 2)] + [(2 * CHANNELS, 2 * CHANNELS, 1)] * (depth - half - 1)
        self.layer2 = nn.Sequential(*(BasicBlock(*size) for size in sizes))
        self.fc = nn.Linear(2 * CHANNELS, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def resnet(depth, rule="0", bug=None):
    """ResNet of stages whose last BatchNorm of a block has the gain that the rule asks for: zero, or 1/√L."""
    model = ResNet(depth)
    blocks = [*model.layer1, *model.layer2]
    for index, block in enumerate(blocks):
        stage = (
            "attn" if index < len(model.layer1) else "mlp"
        )  # "one branch forgotten" is the second stage here
        nn.init.constant_(block.bn2.weight, scale(rule, bug, depth, index, stage))
        if bug == "first norm instead of last":
            nn.init.constant_(block.bn1.weight, scale(rule, None, depth))
            nn.init.ones_(block.bn2.weight)
        if bug == "bias not zero":
            nn.init.constant_(block.bn2.bias, 0.1)
    return model


class MixerBlock(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.token_mlp, self.channel_mlp = MLP(tokens, 2 * WIDTH), MLP(WIDTH, 2 * WIDTH)

    def forward(self, x):
        x = x + self.token_mlp(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channel_mlp(self.norm2(x))
        return x


class Mixer(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, kernel_size=4, stride=4)
        self.blocks = nn.ModuleList(MixerBlock(16) for _ in range(depth))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patch(images).permute(0, 2, 3, 1).flatten(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def mixer(depth, bug=None, law="fan_in"):
    """MLP-Mixer: tokens are mixed through a transpose, channels without; GPT-2's rule on both second
    layers.
    """
    model = Mixer(depth)
    initialise(model, law)
    ends = {"fc1 instead of fc2": ("token_mlp.fc1.weight", "channel_mlp.fc1.weight")}.get(
        bug, ("fc2.weight", "fc2.bias")
    )
    renamed = {"one branch forgotten": "channel_mlp", "the other branch forgotten": "token_mlp"}
    kept = (renamed[bug],) if bug in renamed else ()
    with torch.no_grad():
        for index, block in enumerate(model.blocks):
            for name, parameter in block.named_parameters():
                if name.endswith(ends) and not name.startswith(kept or "-"):
                    parameter.mul_(scale("1/sqrt(2L)", None if bug in renamed else bug, depth, index))
    return model


class FixupBlock(nn.Module):
    """As in the authors' code: scalar biases, a scalar multiplier of one, shortcuts by pooling and zeros."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.bias1a, self.bias1b, self.bias2a, self.bias2b = (nn.Parameter(torch.zeros(1)) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(1))
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.downsample = nn.AvgPool2d(1, stride=stride) if stride != 1 else None

    def forward(self, x):
        identity = x
        out = F.relu(self.conv1(x + self.bias1a) + self.bias1b)
        out = self.conv2(out + self.bias2a) * self.scale + self.bias2b
        if self.downsample is not None:
            identity = self.downsample(x + self.bias1a)
            identity = torch.cat((identity, torch.zeros_like(identity)), 1)
        out += identity
        return F.relu(out)


class FixupNet(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.conv1, self.bias1 = nn.Conv2d(3, CHANNELS, 3, 1, 1, bias=False), nn.Parameter(torch.zeros(1))
        half = depth // 2
        self.layer1 = nn.Sequential(*(FixupBlock(CHANNELS, CHANNELS, 1) for _ in range(half)))
        sizes = [(CHANNELS, 2 * CHANNELS, 2)] + [(2 * CHANNELS, 2 * CHANNELS, 1)] * (depth - half - 1)
        self.layer2 = nn.Sequential(*(FixupBlock(*size) for size in sizes))
        self.bias2, self.fc = nn.Parameter(torch.zeros(1)), nn.Linear(2 * CHANNELS, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.conv1(x) + self.bias1)))
        return self.fc(x.mean((2, 3)) + self.bias2)


def fixup(depth, bug=None, rule="1/sqrt(L)"):
    """Fixup: the second convolution zero, the first of He's law times L^(-1/(2·2-2)) = L^-½; the head
    zero.
    """
    model = FixupNet(depth)
    for index, block in enumerate([*model.layer1, *model.layer2]):
        for module in (block.conv1, block.conv2):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        with torch.no_grad():
            law = scale(rule, bug, depth, index) if bug != "exponent of three layers" else depth**-0.25
            block.conv1.weight.mul_(law)
            block.conv2.weight.mul_(1.0 if bug == "last layer not zero" else 0.0)
            if bug == "bias not zero":
                block.bias2b.fill_(0.1)
    nn.init.zeros_(model.fc.weight)
    nn.init.zeros_(model.fc.bias)
    return model


def images(seed=0):
    return torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
