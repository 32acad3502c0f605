"""Rows of image models of transformers and timm, tiny and with random weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from configurations import Configuration, Layout
from configurations_text import row, rows
from families import HEADS, IMAGE, WIDTH, images, of, pixels, resnet, staged, vit
from torch import nn

SIZES = {"image_size": IMAGE, "patch_size": 8}
ViT_HF = {"layers.*": "attention<layernorm_before mlp<layernorm_after"}
DINO = {"encoder.layer.*": "attention<norm1 mlp<norm2"}
CLIP = {"encoder.layers.*": "self_attn<layer_norm1 mlp<layer_norm2"}
CLIP_SCALED = {"encoder.layers.*": "self_attn<layer_norm1^0.5 mlp<layer_norm2^0.5"}  # as CLIP: in q, k and v
HUGGING = [
    *rows(ViT_HF, "Model", "DeiT IJepa ViT ViTMAE ViTMSN Pixio", batch=pixels, **SIZES),
    *rows(DINO, "Model", "Dinov2 Dinov2WithRegisters", batch=pixels, **SIZES),
    row("VitDetModel", DINO, pixels, **SIZES),
    row("DINOv3ViTModel", {"model.layer.*": "attention<norm1 mlp<norm2"}, pixels, **SIZES),
    row("MLCDVisionModel", CLIP_SCALED, pixels, 0.5, config="MLCDVisionConfig", **SIZES),
    row(
        "SiglipVisionModel",
        CLIP | {"head": "mlp<layernorm"},
        pixels,
        config="SiglipVisionConfig",
        **SIZES,
    ),
    row(
        "Aimv2VisionModel",
        {"encoder.layers.*": "attention<rms_norm1 ffn<rms_norm2"},
        pixels,
        config="Aimv2VisionConfig",
        **SIZES,
    ),
    row(
        "DPTModel",
        {"encoder.layer.*": "attention<layernorm_before {intermediate,output}=output.dense<layernorm_after"},
        pixels,
        **SIZES,
    ),
    row(
        "Data2VecVisionModel",
        {
            "encoder.layer.*": "attention=attention<layernorm_before|0.1"
            " {intermediate,output}=output.dense<layernorm_after|0.1"
        },
        pixels,
        **SIZES,
    ),
]


def image(
    name: str, factory: Callable[[int], nn.Module], layout: Layout, expected: float | str = 0.0, **more: Any
) -> Configuration:
    """A row of timm."""
    return Configuration(name, factory, images, layout, expected, **more)


def made(module: str, name: str, **fixed: Any) -> Callable[[int], nn.Module]:
    """A class of timm that counts its blocks in `depth`."""

    def factory(depth: int) -> nn.Module:
        sizes = {
            "img_size": IMAGE,
            "patch_size": 8,
            "num_classes": 10,
            "embed_dim": WIDTH,
            "num_heads": HEADS,
        }
        return getattr(of(module), name)(depth=depth, **(sizes | fixed))

    return factory


def block(name: str) -> Callable[[int], nn.Module]:
    """timm's vision transformer with another of its blocks."""
    return lambda depth: vit(depth, block_fn=getattr(of("vision_transformer"), name))


def narrow(module: str, name: str, field: str, **fixed: Any) -> Callable[[int], nn.Module]:
    """A network of four stages of timm, of which the last two have one block."""
    return staged(
        module, name, tail=(1, 1), **({field: (32,) * 4} if field != "embed_dim" else {field: 32}), **fixed
    )


def layers(module: str, block_class: str, **fixed: Any) -> Callable[[int], nn.Module]:
    return lambda depth: resnet(depth, block=getattr(of(module), block_class), **fixed)


def two_stages(module: str, name: str, **fixed: Any) -> Callable[[int], nn.Module]:
    return lambda depth: getattr(of(module), name)(depths=(depth, depth), num_classes=10, **fixed)


def opened(last: str, exponent: str = "0") -> Layout:
    """Stages of timm's ResNet; a block with a projected shortcut opens the second."""
    names = (("layer1.*", "layer1.*"), ("layer2.*", "layer2.[1-9]"))
    return {"": " ".join(f"{kind}={block}.{last}<{block}^{exponent}" for kind, block in names)}


PRE = {"blocks.*": "attn<norm1 mlp<norm2"}
ADDED = {"blocks.*": "attn=ls1<norm1 mlp=ls2<norm2"}  # behind LayerScale
AFTER = {"blocks.*": "attn=norm1<attn mlp=norm2<mlp"}
# Layer l's output projections are divided by sqrt(2l): 0.3 is the slope of its root mean square over layers.
BY_LAYER = {"blocks.*": "attn<norm1^0.3 mlp<norm2^0.3"}
STAGES = {"stages.*.blocks.*": "-=drop_path<-"}
TIMM = [
    *(
        image(f"timm-{name}", functools.partial(vit, **options), PRE)
        for name, options in {
            "vit-qk-norm": {"qk_norm": True},
            "vit-registers": {"reg_tokens": 4},
            "vit-without-positions": {"pos_embed": "none"},
            "vit-pre-norm": {"pre_norm": True},
            "vit-without-bias": {"qkv_bias": False},
            "vit-average-pool": {"global_pool": "avg", "class_token": False},
        }.items()
    ),
    image("timm-vit-fix-init", functools.partial(vit, fix_init=True), BY_LAYER, "mitchell"),
    image("timm-vit-layer-scale", functools.partial(vit, init_values=0.1), ADDED),
    image("timm-vit-post-norm", block("ResPostBlock"), AFTER),
    image("timm-eva", made("eva", "Eva"), BY_LAYER, "mitchell"),
    image("timm-eva-swiglu", made("eva", "Eva", swiglu_mlp=True, use_rot_pos_emb=True), BY_LAYER, "mitchell"),
    image("timm-eva-post-norm", made("eva", "Eva", use_post_norm=True), AFTER),
    image("timm-deit-distilled", made("deit", "VisionTransformerDistilled"), PRE),
    image("timm-relative-positions", made("vision_transformer_relpos", "VisionTransformerRelPos"), ADDED),
    image(
        "timm-pit",
        lambda depth: of("pit").PoolingVisionTransformer(
            img_size=IMAGE,
            patch_size=4,
            stride=4,
            base_dims=[16, 16],
            depth=[depth, depth],
            heads=[2, 4],
            mlp_ratio=4,
            num_classes=10,
            stem_type="overlap",
        ),
        {"transformers.*.blocks.*": "attn<norm1 mlp<norm2"},
    ),
    image(
        "timm-nest",
        two_stages(
            "nest", "Nest", img_size=IMAGE, patch_size=2, num_levels=2, embed_dims=(32, 64), num_heads=(2, 4)
        ),
        {"levels.*.transformer_encoder.*": "attn<norm1 mlp<norm2"},
    ),
    image(
        "timm-pvt2",
        two_stages(
            "pvt_v2",
            "PyramidVisionTransformerV2",
            embed_dims=(32, 64),
            num_heads=(2, 4),
            sr_ratios=(2, 1),
            mlp_ratios=(4, 4),
        ),
        {"stages.*.blocks.*": "attn<norm1 mlp<norm2"},
    ),
    image(
        "timm-sequencer",
        lambda depth: of("sequencer").Sequencer2d(
            layers=(depth, depth),
            img_size=IMAGE,
            patch_sizes=(4, 2),
            embed_dims=(32, 64),
            hidden_sizes=(8, 16),
            mlp_ratios=(3, 3),
            num_classes=10,
        ),
        {"stages.*.blocks.*": "rnn_tokens<norm1 mlp_channels<norm2"},
    ),
    image(
        "timm-convnext2",
        narrow("convnext", "ConvNeXt", "dims", patch_size=2, use_grn=True, ls_init_value=None),
        {"stages.*.blocks.*": "-=mlp<-"},
    ),
    image("timm-metaformer", narrow("metaformer", "MetaFormer", "dims"), {"stages.*.blocks.*": "mlp<norm2"}),
    image("timm-inception-next", narrow("inception_next", "MetaNeXt", "dims"), STAGES),
    image("timm-fasternet", narrow("fasternet", "FasterNet", "embed_dim"), STAGES),
    image("timm-mambaout", narrow("mambaout", "MambaOut", "dims"), {"stages.*.blocks.*": "-=ls<norm"}),
    image(
        "timm-resnet-bottleneck",
        layers("resnet", "Bottleneck", channels=(16,) * 4, zero_init_last=False),
        opened("bn3"),
        opening=1,
    ),
    image(
        "timm-resnet-bottleneck-zero",
        layers("resnet", "Bottleneck", channels=(16,) * 4),
        opened("bn3", "inf"),
        "rezero",
        opening=1,
    ),
    image(
        "timm-resnet-squeeze",
        layers(
            "resnet", "BasicBlock", channels=(64,) * 4, zero_init_last=False, block_args={"attn_layer": "se"}
        ),
        opened("se"),
        opening=1,
    ),
    image(
        "timm-resnext",
        layers(
            "resnet", "Bottleneck", channels=(16,) * 4, zero_init_last=False, cardinality=4, base_width=64
        ),
        opened("bn3"),
        opening=1,
    ),
]
