"""Twenty bases of five libraries in which faults are planted, and which pass once they are scaled rightly.

A base is a network without any depth scaling and without biases at the ends of its branches. `Scaled` puts a
factor on its branches, by what people use: a number in the forward, the output projection, or a gain.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from families import FAMILIES, HEADS, IMAGE, VOCABULARY, images, library, pixels, tokens
from planted_faults import plain, tower
from residual_stacks import states
from stand_in_mixers import WIDTH, Attention, FeedForward
from stand_in_networks import GraphBlock, Net, graph, pictures
from stand_in_stacks import Block, Stack, vectors
from torch import nn

Number = Callable[[int, int, str], float]
"""depth, layer, kind of branch -> the factor on it."""


@dataclass(frozen=True)
class Kind:
    """One kind of branch of a base.

    Attributes:
        name: What a report calls it.
        output: Name in a layer of the projection's weight.
        inner: Name in a layer of another weight of the branch.
        module: Name in a layer of the module whose output the branch adds; the projection's if empty.
        gain: Name in a layer of the parameter that scales the branch, if there is one.
    """

    name: str
    output: str
    inner: str
    module: str = ""
    gain: str = ""

    @property
    def returns(self) -> str:
        return self.module or self.output.rpartition(".")[0]


@dataclass(frozen=True)
class DepthBase:
    """A network that can be built at any depth, and what its branches are called.

    Attributes:
        layers: Name of the list of layers.
        starred: What a report calls a layer.
    """

    name: str
    build: Callable[[int], nn.Module]
    batch: Callable[[], Any]
    layers: str
    kinds: tuple[Kind, ...]
    starred: str = ""
    parallel: bool = False
    per_layer: int = 0

    @property
    def stem(self) -> str:
        return self.starred or f"{self.layers}.*"

    def of(self, model: nn.Module) -> list[nn.Module]:
        return list(model.get_submodule(self.layers).children())

    def unscaled(self, depth: int) -> nn.Module:
        """The network without biases at the ends of its branches, all layers drawn apart."""
        model = self.build(depth)
        for layer in self.of(model):
            for kind in self.kinds:
                bias = dict(layer.named_parameters()).get(kind.output.removesuffix("weight") + "bias")
                if bias is not None:
                    nn.init.zeros_(bias)
        return model

    def kind(self, which: str) -> Kind:
        """The kind of branch that is first or last in a layer."""
        return self.kinds[{"first": 0, "last": -1}[which]]


def on_output(module: nn.Module, factor: float) -> None:
    """Multiply what a module returns, or the first of it."""

    def scaled(_: nn.Module, __: Any, out: Any) -> Any:
        return (factor * out[0], *out[1:]) if isinstance(out, tuple) else factor * out

    module.register_forward_hook(scaled)


def by_numbers(base: DepthBase, number: Number, model: nn.Module, depth: int) -> nn.Module:
    for place, layer in enumerate(base.of(model)):
        for kind in base.kinds:
            factor = number(depth, place, kind.name)
            if factor != 1.0:
                on_output(layer.get_submodule(kind.returns), factor)
    return model


def by_weights(base: DepthBase, number: Number, model: nn.Module, depth: int) -> nn.Module:
    with torch.no_grad():
        for place, layer in enumerate(base.of(model)):
            for kind in base.kinds:
                layer.get_parameter(kind.output).mul_(number(depth, place, kind.name))
    return model


def by_gains(base: DepthBase, number: Number, model: nn.Module, depth: int) -> nn.Module:
    for place, layer in enumerate(base.of(model)):
        for kind in base.kinds:
            nn.init.constant_(layer.get_parameter(kind.gain), number(depth, place, kind.name))
    return model


def redrawn(model: nn.Module, std: float | None = 0.02) -> nn.Module:
    """torch's own stacks are copies of one layer; draw all weights."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=std or parameter[0].numel() ** -0.5)
    return model


def of_family(name: str, layers: str, *kinds: Kind, **more: Any) -> DepthBase:
    options = more.pop("options", {})
    family = FAMILIES[name]

    def build(depth: int) -> nn.Module:
        return family.factory(depth, **options)

    return DepthBase(name, build, family.batch, layers, kinds, **more)


def of_transformers(
    name: str, model: str, config: str, depth: str, layers: str, *kinds: Kind, **options: Any
) -> DepthBase:
    batch = options.pop("batch", tokens)

    def build(count: int) -> nn.Module:
        module = library("transformers")
        built: nn.Module = getattr(module, model)(getattr(module, config)(**{depth: count}, **options))
        return built

    return DepthBase(name, build, batch, layers, kinds)


def gpt2(depth: int) -> nn.Module:
    """Without the rule that transformers applies."""
    model = FAMILIES["gpt2"].factory(depth)
    for name, parameter in model.named_parameters():
        if name.endswith("c_proj.weight"):
            nn.init.normal_(parameter, std=0.02)
    return model


def encoder(depth: int, first: bool = True) -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=first)
    return redrawn(nn.TransformerEncoder(layer, depth, enable_nested_tensor=False))


def decoder(depth: int) -> nn.Module:
    layer = nn.TransformerDecoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
    return redrawn(nn.TransformerDecoder(layer, depth))


def torchvision_vit(depth: int) -> nn.Module:
    library("timm")  # which mends torchvision's operators where they do not load
    from torchvision.models import VisionTransformer

    return redrawn(VisionTransformer(IMAGE, 8, depth, HEADS, 64, 128, num_classes=10))


def torchvision_swin(depth: int) -> nn.Module:
    library("timm")
    from torchvision.models import SwinTransformer

    return SwinTransformer([2, 2], 48, [depth], [4], [4, 4], stochastic_depth_prob=0.0, num_classes=10)


def resmlp(depth: int) -> nn.Module:
    model = FAMILIES["resmlp"].factory(depth)
    for block in model.blocks:
        for gain in (block.ls1, block.ls2):
            nn.init.ones_(gain)
    return model


def convnext(depth: int) -> nn.Module:
    module = library("timm").models.convnext
    model: nn.Module = module.ConvNeXt(
        depths=(depth, 1, 1, 1), dims=(48,) * 4, patch_size=2, num_classes=10, ls_init_value=1.0
    )
    return model


def dinov2(depth: int) -> nn.Module:
    module = library("transformers")
    sizes = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "image_size": IMAGE,
        "patch_size": 8,
        "mlp_ratio": 2,
    }
    return module.Dinov2Model(module.Dinov2Config(num_hidden_layers=depth, **sizes))


def whisper(depth: int) -> nn.Module:
    module = library("transformers")
    sizes = {"d_model": 64, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "num_mel_bins": 8}
    config = module.WhisperConfig(encoder_layers=depth, max_source_positions=16, **sizes)
    return module.models.whisper.modeling_whisper.WhisperEncoder(config)


def spectrogram() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))}


def narrow() -> torch.Tensor:
    return torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))


def two_narrow() -> tuple[torch.Tensor, torch.Tensor]:
    return narrow(), narrow().flip(1)


def own(depth: int, order: str = "pre") -> nn.Module:
    return plain(Stack(depth, lambda: Block({"attn": Attention(), "mlp": FeedForward()}, order)))


class Perceptron(nn.Module):
    """A residual MLP on vectors without norms."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, WIDTH), nn.Linear(WIDTH, 2)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"up": nn.Linear(WIDTH, 2 * WIDTH), "down": nn.Linear(2 * WIDTH, WIDTH)})
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        for layer in self.layers:
            h = h + layer["down"](torch.tanh(layer["up"](h)))
        return self.last(h)


def messages(depth: int) -> nn.Module:
    return Net(nn.Linear(WIDTH, WIDTH), [GraphBlock("mean") for _ in range(depth)])


SMALL = {"hidden_size": 64, "num_attention_heads": 4, "vocab_size": VOCABULARY}
MHA = {"module": "self_attn"}
BASES = {
    base.name: base
    for base in (
        DepthBase(
            "gpt2",
            gpt2,
            tokens,
            "transformer.h",
            (
                Kind("attn", "attn.c_proj.weight", "attn.c_attn.weight"),
                Kind("mlp", "mlp.c_proj.weight", "mlp.c_fc.weight"),
            ),
        ),
        of_family(
            "llama",
            "model.layers",
            Kind("self_attn", "self_attn.o_proj.weight", "self_attn.v_proj.weight"),
            Kind("mlp", "mlp.down_proj.weight", "mlp.up_proj.weight"),
            options={"intermediate_size": 128},
        ),
        of_family(
            "opt",
            "model.decoder.layers",
            Kind("self_attn", "self_attn.out_proj.weight", "self_attn.v_proj.weight"),
            Kind("{fc1,fc2}", "fc2.weight", "fc1.weight"),
        ),
        of_family(
            "gpt-neox",
            "gpt_neox.layers",
            Kind("attention", "attention.dense.weight", "attention.query_key_value.weight"),
            Kind("mlp", "mlp.dense_4h_to_h.weight", "mlp.dense_h_to_4h.weight"),
            parallel=True,
        ),
        of_family(
            "falcon",
            "transformer.h",
            Kind("self_attention", "self_attention.dense.weight", "self_attention.query_key_value.weight"),
            Kind("mlp", "mlp.dense_4h_to_h.weight", "mlp.dense_h_to_4h.weight"),
            parallel=True,
        ),
        of_family(
            "mpt",
            "transformer.blocks",
            Kind("attn", "attn.out_proj.weight", "attn.Wqkv.weight"),
            Kind("ffn", "ffn.down_proj.weight", "ffn.up_proj.weight"),
        ),
        of_transformers(
            "t5-encoder",
            "T5EncoderModel",
            "T5Config",
            "num_layers",
            "encoder.block",
            Kind("layer.0.SelfAttention", "layer.0.SelfAttention.o.weight", "layer.0.SelfAttention.v.weight"),
            Kind(
                "layer.1.DenseReluDense",
                "layer.1.DenseReluDense.wo.weight",
                "layer.1.DenseReluDense.wi.weight",
            ),
            d_model=64,
            d_kv=16,
            d_ff=128,
            num_heads=4,
            vocab_size=VOCABULARY,
            dropout_rate=0.0,
        ),
        of_transformers(
            "qwen3-moe",
            "Qwen3MoeForCausalLM",
            "Qwen3MoeConfig",
            "num_hidden_layers",
            "model.layers",
            Kind("self_attn", "self_attn.o_proj.weight", "self_attn.v_proj.weight"),
            Kind("mlp", "mlp.experts.down_proj", "mlp.experts.gate_up_proj", module="mlp"),
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=128,
            moe_intermediate_size=64,
            num_experts=4,
            num_experts_per_tok=2,
            **SMALL,
        ),
        DepthBase(
            "whisper",
            whisper,
            spectrogram,
            "layers",
            (
                Kind("self_attn", "self_attn.out_proj.weight", "self_attn.v_proj.weight"),
                Kind("{fc1,fc2}", "fc2.weight", "fc1.weight"),
            ),
        ),
        DepthBase(
            "dinov2",
            dinov2,
            pixels,
            "encoder.layer",
            (
                Kind(
                    "attention",
                    "attention.o_proj.weight",
                    "attention.v_proj.weight",
                    gain="layer_scale1.lambda1",
                ),
                Kind("mlp", "mlp.fc2.weight", "mlp.fc1.weight", gain="layer_scale2.lambda1"),
            ),
        ),
        of_family("mamba", "backbone.layers", Kind("mixer", "mixer.out_proj.weight", "mixer.in_proj.weight")),
        of_family(
            "vit",
            "blocks",
            Kind("attn", "attn.proj.weight", "attn.qkv.weight"),
            Kind("mlp", "mlp.fc2.weight", "mlp.fc1.weight"),
        ),
        of_family(
            "mixer",
            "blocks",
            Kind("mlp_tokens", "mlp_tokens.fc2.weight", "mlp_tokens.fc1.weight"),
            Kind("mlp_channels", "mlp_channels.fc2.weight", "mlp_channels.fc1.weight"),
        ),
        DepthBase(
            "resmlp",
            resmlp,
            images,
            "blocks",
            (
                Kind("linear_tokens", "linear_tokens.weight", "", gain="ls1"),
                Kind("mlp_channels", "mlp_channels.fc2.weight", "mlp_channels.fc1.weight", gain="ls2"),
            ),
        ),
        DepthBase(
            "convnext",
            convnext,
            images,
            "stages.0.blocks",
            (Kind("", "mlp.fc2.weight", "mlp.fc1.weight", gain="gamma"),),
        ),
        DepthBase(
            "torchvision-vit",
            torchvision_vit,
            images,
            "encoder.layers",
            (
                Kind(
                    "self_attention",
                    "self_attention.out_proj.weight",
                    "self_attention.in_proj_weight",
                    "self_attention",
                ),
                Kind("mlp", "mlp.3.weight", "mlp.0.weight"),
            ),
            starred="encoder.layers.encoder_layer_*",
        ),
        DepthBase(
            "torchvision-swin",
            torchvision_swin,
            images,
            "features.1",
            (
                Kind("attn", "attn.proj.weight", "attn.qkv.weight", "attn"),
                Kind("mlp", "mlp.3.weight", "mlp.0.weight"),
            ),
        ),
        DepthBase(
            "encoder",
            encoder,
            narrow,
            "layers",
            (
                Kind("self_attn", "self_attn.out_proj.weight", "self_attn.in_proj_weight", "self_attn"),
                Kind("{linear1,linear2}", "linear2.weight", "linear1.weight"),
            ),
        ),
        DepthBase(
            "decoder",
            decoder,
            two_narrow,
            "layers",
            (
                Kind("self_attn", "self_attn.out_proj.weight", "self_attn.in_proj_weight", "self_attn"),
                Kind(
                    "multihead_attn",
                    "multihead_attn.out_proj.weight",
                    "multihead_attn.in_proj_weight",
                    "multihead_attn",
                ),
                Kind("{linear1,linear2}", "linear2.weight", "linear1.weight"),
            ),
        ),
        DepthBase(
            "own",
            own,
            vectors,
            "blocks",
            (
                Kind("attn", "attn.out.weight", "attn.value.weight"),
                Kind("mlp", "mlp.fc2.weight", "mlp.fc1.weight"),
            ),
        ),
        DepthBase("tower", tower, pictures, "blocks", (Kind("body", "body.2.weight", "body.0.weight"),)),
        DepthBase(
            "perceptron",
            Perceptron,
            functools.partial(states, 12, 16),
            "layers",
            (Kind("", "down.weight", "up.weight"),),
        ),
        DepthBase(
            "graph",
            messages,
            graph,
            "blocks",
            (Kind("message", "message.out.2.weight", "message.send.weight"),),
        ),
    )
}
