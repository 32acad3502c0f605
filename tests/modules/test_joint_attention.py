"""Two streams that read each other by attention over their joined tokens, and streams that are joined."""

import pytest
import torch
from hooked_updates import assert_as_hooked
from torch import nn
from torch.nn import functional as F

import deeplimit as dl

WIDTH, HEADS, IMAGE, TEXT = 16, 2, 10, 6
pytestmark = pytest.mark.usefixtures("one_thread")


class Gated(nn.Module):
    """What adaLN adds: a projection, times a linear function of the condition."""

    def __init__(self, inside):
        super().__init__()
        self.gate, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(inside, WIDTH)

    def forward(self, y, condition):
        return self.gate(condition)[:, None] * self.back(y)


class Side(nn.Module):
    """One stream's own weights in a block of an MM-DiT."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.attn = nn.Linear(WIDTH, 3 * WIDTH), Gated(WIDTH)
        self.up, self.mlp = nn.Linear(WIDTH, 2 * WIDTH), Gated(2 * WIDTH)


def attention(qkv):
    q, k, v = qkv.unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = Side(), Side()

    def forward(self, image, text, condition):
        both = torch.cat([self.image.qkv(self.image.norm1(image)), self.text.qkv(self.text.norm1(text))], 1)
        mixed = attention(both).split([image.shape[1], text.shape[1]], 1)
        returned = []
        for side, x, y in zip((self.image, self.text), (image, text), mixed, strict=True):
            h = x + side.attn(y, condition)
            returned.append(h + side.mlp(F.gelu(side.up(side.norm2(h))), condition))
        return returned


class Single(nn.Module):
    """A block over the joined streams, which takes them apart and gives them apart."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.attn = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), Gated(WIDTH)

    def forward(self, image, text, condition):
        x = torch.cat([text, image], 1)
        x = x + self.attn(attention(self.qkv(self.norm(x))), condition)
        return x[:, text.shape[1] :], x[:, : text.shape[1]]


class MMDiT(nn.Module):
    def __init__(self, doubles, singles=0):
        super().__init__()
        self.image, self.text, self.time = (nn.Linear(8, WIDTH) for _ in range(3))
        self.doubles = nn.ModuleList(Double() for _ in range(doubles))
        self.singles = nn.ModuleList(Single() for _ in range(singles))

    def forward(self, image, text, time):
        image, text, condition = self.image(image), self.text(text), self.time(time)
        for block in (*self.doubles, *self.singles):
            image, text = block(image, text, condition)
        return image, text


def inputs():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*shape, 8, generator=generator) for shape in ((2, IMAGE), (2, TEXT), (2,)))


def branches(model):
    sides = [side for block in model.doubles for side in (block.image, block.text)]
    return [part for side in sides for part in (side.attn, side.mlp)] + [one.attn for one in model.singles]


def test_both_streams_of_joint_attention_have_all_their_branches():
    found = assert_as_hooked(lambda: MMDiT(3), inputs(), branches)
    assert [branch.stream for branch in found] == [0, 0, 1, 1] * 3
    names = [
        f"doubles.{block}.{side}.{part}.back.weight"
        for block in range(3)
        for side in ("image", "text")
        for part in ("attn", "mlp")
    ]
    assert [branch.output for branch in found] == [(name,) for name in names]
    report = dl.check_depth(MMDiT, [2, 4, 8], batch=inputs())
    assert [kind.counts for kind in report.branches] == [(2, 4, 8)] * 4
    assert "belong to no residual branch" not in str(report)


def test_streams_joined_and_taken_apart_in_every_block_are_one_stream():
    found = assert_as_hooked(lambda: MMDiT(1, 3), inputs(), branches)
    assert [branch.stream for branch in found] == [0, 0, 1, 1, 2, 2, 2]
    report = dl.check_depth(lambda depth: MMDiT(1, depth), [2, 4, 8], batch=inputs())
    assert (2, 4, 8) in [kind.counts for kind in report.branches]
    assert [stream.branches for stream in report.streams] == [(2, 2, 2), (2, 2, 2), (2, 4, 8)]
