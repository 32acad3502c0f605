"""Networks on images of known residual exponent, right and with one planted fault each: ResNet, Fixup."""

from __future__ import annotations

import torch
from depth_models import scale
from torch import nn
from torch.nn import functional as F

CHANNELS = 8


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

    def __init__(self, depth, block=BasicBlock):
        super().__init__()
        self.conv1 = nn.Conv2d(3, CHANNELS, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(CHANNELS) if block is BasicBlock else nn.Identity()
        half = depth // 2
        self.layer1 = nn.Sequential(*(block(CHANNELS, CHANNELS, 1) for _ in range(half)))
        sizes = [(CHANNELS, 2 * CHANNELS, 2)] + [(2 * CHANNELS, 2 * CHANNELS, 1)] * (depth - half - 1)
        self.layer2 = nn.Sequential(*(block(*size) for size in sizes))
        self.fc = nn.Linear(2 * CHANNELS, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def resnet(depth, rule="0", bug=None):
    """ResNet of stages whose last BatchNorm of a block has the gain that the rule asks for: zero, or 1/√L."""
    model = ResNet(depth)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    blocks = [*model.layer1, *model.layer2]
    for index, block in enumerate(blocks):
        stage = (
            "attn" if index < len(model.layer1) else "mlp"
        )  # "one branch forgotten" is the second stage here
        nn.init.constant_(block.bn2.weight, scale(rule, bug, depth, index, stage))
        if bug == "bias not zero":
            nn.init.constant_(block.bn2.bias, 0.1)
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


def fixup(depth, bug=None, rule="1/sqrt(L)"):
    """Fixup: the second convolution zero, the first of He's law times L^(-1/(2·2-2)) = L^-½; the head
    zero.
    """
    model = ResNet(depth, FixupBlock)
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
