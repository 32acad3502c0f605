"""Rows of stand-ins: what other packages build, in a few lines each and with torch's weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from configurations import Configuration, Layout
from stand_in_mixers import FEEDS, MIXERS
from stand_in_stacks import (
    Decoder,
    Scale,
    gated,
    inverse_root,
    macaron,
    only,
    power,
    stack,
    torch_decoder,
    torch_encoder,
    two,
    vectors,
)
from torch import nn

PRE = "attn<norm_attn mlp<norm_mlp"


def blocks(text: str) -> Layout:
    return {"blocks.*": text}


def scaled(exponent: str, stream: str = "norm_") -> Layout:
    """Both branches behind their scale, with this exponent."""
    return blocks(
        " ".join(f"{name}=scale_{name}<{stream or ''}{name}^{exponent}" for name in ("attn", "mlp"))
    )


def own(
    name: str,
    layout: Layout,
    factory: Callable[[int], nn.Module] = stack,
    expected: float | str = 0.0,
    batch: Callable[[], Any] = vectors,
    near: float = 2e-3,
    **options: Any,
) -> Configuration:
    return Configuration(name, functools.partial(factory, **options), batch, layout, expected, near=near)


def zero(depth: int) -> nn.Module:
    return Scale(0.0)


def small(depth: int) -> nn.Module:
    return Scale(1e-4, wide=True)


def tenth(depth: int) -> nn.Module:
    return Scale(0.1, wide=True)


def learned(depth: int) -> nn.Module:
    return Scale(depth**-0.5)


BARE = blocks("attn<attn mlp<mlp")
STACKS = [
    *(own(f"mixer-{name}", blocks(PRE), mixer=name) for name in MIXERS),
    *(own(f"feed-{name}", blocks(PRE), feed=name) for name in FEEDS if name != "gelu"),
    *(
        own(f"only-{name}", blocks("mlp<norm_mlp"), only, branch=name)
        for name in ("swiglu", "experts", "gru", "fourier")
    ),
    own("post-norm", BARE, order="post"),
    own("sandwich", blocks("attn=after_attn<norm_attn mlp=after_mlp<norm_mlp"), order="sandwich"),
    own("norm-after", blocks("attn=after_attn<attn mlp=after_mlp<mlp"), order="after"),
    own("parallel", blocks("attn<norm_attn mlp<norm_attn"), order="parallel", near=0.25),
    own("in-place", blocks(PRE), order="in place"),
    own("subtracted", blocks(PRE), order="subtracted"),
    own("without-norm", BARE, order="bare"),
    own("rms-norm", blocks(PRE), norm=nn.RMSNorm),
    own("shared", blocks(PRE), shared=True),
    own("shared-completep", scaled("1"), expected="completep", scale=power(1.0), shared=True),
    own(
        "macaron",
        blocks("ff1=scale_ff1<norm_ff1 attn<norm_attn conv<norm_conv ff2=scale_ff2<norm_ff2"),
        macaron,
    ),
    own("gated-residual", blocks(PRE), gated),
    own("decoder", blocks("attn<norm_attn cross<norm_cross mlp<norm_mlp"), Decoder, batch=two),
    own(
        "torch-decoder",
        {"layers.*": "self_attn<norm1 multihead_attn<norm2 {linear1,linear2}=linear2<norm3"},
        torch_decoder,
        batch=two,
    ),
    own("torch-encoder", {"layers.*": "self_attn<norm1 {linear1,linear2}=linear2<norm2"}, torch_encoder),
    own(
        "torch-encoder-post",
        {"layers.*": "self_attn<self_attn {linear1,linear2}=linear2<linear1"},
        torch_encoder,
        first=False,
    ),
    *(
        own(
            f"{name}-{order.replace(' ', '-')}",
            scaled(str(exponent)),
            expected=expected,
            scale=power(exponent, times),
            order=order,
        )
        for name, expected, exponent, times in (
            ("depth-mup", "depth-mup", 0.5, 1.0),
            ("depth-mup-tuned", "depth-mup", 0.5, 3.0),
            ("completep", "completep", 1.0, 1.0),
            ("quarter", 0.25, 0.25, 1.0),
            ("three-halves", 1.5, 1.5, 1.0),
        )
        for order in ("pre", "in place")
    ),
    own("one-over-root-learned", scaled("0.5"), expected=0.5, scale=learned),
    own("one-over-root-bare", scaled("0.5", ""), expected=0.5, scale=inverse_root, order="bare"),
    own("rezero", scaled("inf", ""), expected="rezero", scale=zero, order="bare"),
    own("skip-init", scaled("inf"), expected="rezero", scale=zero),
    own("layer-scale-small", scaled("0"), scale=small),
    own("layer-scale-tenth", scaled("0"), scale=tenth),
    *(
        own(f"depth-mup-{mixer}", scaled("0.5"), expected="depth-mup", mixer=mixer, scale=power(0.5))
        for mixer in ("state-space", "long-convolution", "grouped-query", "token-mlp", "retention")
    ),
    *(
        own(f"completep-{feed}", scaled("1"), expected="completep", feed=feed, scale=power(1.0))
        for feed in ("swiglu", "experts", "relu2")
    ),
]
