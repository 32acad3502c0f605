"""Small members of the families of networks that people train, built offline with random weights at any
depth.

Widths are small but honest (64 to 128); normalisation, heads and initialisation are the library's own.
`FAMILIES[name].factory` draws weights from torch's global generator, as the libraries do, and
`FAMILIES[name].batch()` is what the network takes.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

os.environ.setdefault(
    "HF_HUB_OFFLINE", "1"
)  # read when the libraries are imported: what would download fails at once
WIDTH, HEADS, VOCABULARY, TOKENS, IMAGE = 64, 4, 256, 16, 32
OPERATORS: list[torch.library.Library] = []  # a Library that is collected takes its operators with it


def mend_torchvision() -> None:
    """Declare torchvision's operators where it has none.

    timm and transformers import torchvision where it is installed, and its wheel on PyPI is built for CUDA:
    beside a torch for the CPU its C++ operators do not load, and importing it stops at the first one that it
    describes to the compiler, "operator torchvision::nms does not exist". No model here needs them (they are
    for detection), so their names are enough; declared only where the import really fails.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        registrations = Path(importlib.util.find_spec("torchvision").origin).parent / "_meta_registrations.py"
        library = torch.library.Library("torchvision", "DEF")
        for name in sorted(set(re.findall(r"torchvision::(\w+)", registrations.read_text(encoding="utf-8")))):
            library.define(f"{name}(Tensor x) -> Tensor")
        OPERATORS.append(library)


@functools.cache
def library(name: str) -> Any:
    """transformers or timm, without its chatter; where it is not installed the test is skipped."""
    mend_torchvision()
    module = pytest.importorskip(name, reason=f"{name} is not installed (it comes with '.[models,vision]')")
    if name == "transformers":
        module.logging.set_verbosity_error()
        module.logging.disable_progress_bar()
    return module


def tokens(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(3, VOCABULARY, (2, TOKENS), generator=generator),
        **more,
    }  # 0 to 2 may mean padding


def seq2seq() -> dict[str, torch.Tensor]:
    return tokens(decoder_input_ids=tokens()["input_ids"].flip(1))


def images() -> torch.Tensor:
    return torch.randn(2, 3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(0))


def videos() -> dict[str, torch.Tensor]:
    return {"pixel_values_videos": images()[:, None].expand(-1, 4, -1, -1, -1).clone()}


def pixels() -> dict[str, torch.Tensor]:
    return {"pixel_values": images()}


@dataclass(frozen=True)
class Family:
    """One family: a library, how to build it at a depth, and what it takes."""

    library: str
    build: Callable[..., nn.Module]
    batch: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)

    def factory(self, depth: int, **more: Any) -> nn.Module:
        library(self.library)
        return self.build(depth, **(self.options | more))


FAMILIES: dict[str, Family] = {}

# What the configurations of transformers call the same things.
PLAIN = {"hidden_size": WIDTH, "num_attention_heads": HEADS}
USUAL = PLAIN | {"intermediate_size": 4 * WIDTH, "max_position_embeddings": 64}
LLAMA_LIKE = PLAIN | {
    "num_key_value_heads": HEADS,
    "intermediate_size": 3 * WIDTH,
    "max_position_embeddings": 64,
}
HEAD = {"head_dim": WIDTH // HEADS}
GPT2_LIKE = {"n_embd": WIDTH, "n_head": HEADS, "n_positions": 64}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BEIT = PLAIN | {"intermediate_size": 4 * WIDTH, "image_size": IMAGE, "patch_size": 8}
SWIN = {"patch_size": 2, "embed_dim": WIDTH, "num_heads": (2, 4), "window_size": 4}
VIDEO = {
    "crop_size": IMAGE,
    "patch_size": 8,
    "frames_per_clip": 4,
    "hidden_size": 96,
    "num_attention_heads": HEADS,
}
LATENT = {"kv_lora_rank": 32, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8}
STATE_SPACE = {"mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16}
HYBRID = ["linear_attention", "mlp", "full_attention", "mlp"]


def hf(
    name: str, model: str, config: str, depth: Any = "num_hidden_layers", batch: Any = tokens, **options: Any
) -> None:
    """A family of transformers: class, configuration, and the field that counts layers, or a function that
    gives all of them.
    """

    def build(layers: int, **settings: Any) -> nn.Module:
        module = library("transformers")
        settings = ({depth: layers} if isinstance(depth, str) else depth(layers)) | settings
        return getattr(module, model)(getattr(module, config)(**settings))

    text = {"vocab_size": VOCABULARY} | SPECIAL if batch in {tokens, seq2seq} else {}
    FAMILIES[name] = Family("transformers", build, batch, text | options)


hf("gpt2", "GPT2LMHeadModel", "GPT2Config", "n_layer", **GPT2_LIKE)
hf("gpt-bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", "n_layer", **GPT2_LIKE)
hf("imagegpt", "ImageGPTForCausalImageModeling", "ImageGPTConfig", "n_layer", **GPT2_LIKE)
hf("gpt-neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", **USUAL)
hf("gpt-j", "GPTJForCausalLM", "GPTJConfig", "n_layer", rotary_dim=8, **GPT2_LIKE)
hf("llama", "LlamaForCausalLM", "LlamaConfig", **LLAMA_LIKE)
hf(
    "opt",
    "OPTForCausalLM",
    "OPTConfig",
    ffn_dim=256,
    word_embed_proj_dim=WIDTH,
    max_position_embeddings=64,
    **PLAIN,
)
hf("bloom", "BloomForCausalLM", "BloomConfig", "n_layer", hidden_size=WIDTH, n_head=HEADS)
hf("mpt", "MptForCausalLM", "MptConfig", "n_layers", d_model=WIDTH, n_heads=HEADS, max_seq_len=64)
hf("falcon", "FalconForCausalLM", "FalconConfig", ffn_hidden_size=256, max_position_embeddings=64, **PLAIN)
hf("cohere", "CohereForCausalLM", "CohereConfig", **LLAMA_LIKE)
hf("gemma2", "Gemma2ForCausalLM", "Gemma2Config", **HEAD, **LLAMA_LIKE)
hf("olmo", "OlmoForCausalLM", "OlmoConfig", **LLAMA_LIKE)
hf("olmo2", "Olmo2ForCausalLM", "Olmo2Config", **LLAMA_LIKE)
hf("granite", "GraniteForCausalLM", "GraniteConfig", residual_multiplier=0.22, **LLAMA_LIKE)
hf("minicpm3", "MiniCPM3ForCausalLM", "MiniCPM3Config", **LATENT, **LLAMA_LIKE)
hf(
    "neomme",
    "NeoMMEModel",
    "NeoMMEConfig",
    embedding_rank=32,
    document_token_id=None,
    image_token_id=None,
    **HEAD,
    **LLAMA_LIKE,
)
hf("esmc", "EsmcModel", "EsmcConfig", mask_token_id=3, **LLAMA_LIKE)
hf(
    "beam",
    "BeamForCausalLM",
    "BeamConfig",
    lambda n: {"num_hidden_layers": n, "mlp_layer_types": ["dense"] * n},
    **HEAD,
    **LLAMA_LIKE,
)
hf("nanochat", "NanoChatForCausalLM", "NanoChatConfig", **LLAMA_LIKE)
hf("mamba", "MambaForCausalLM", "MambaConfig", hidden_size=WIDTH)
hf("mamba-rescaled", "MambaForCausalLM", "MambaConfig", hidden_size=WIDTH, rescale_prenorm_residual=True)
hf(
    "nemotron-h",
    "NemotronHForCausalLM",
    "NemotronHConfig",
    lambda n: {"layer_types": (HYBRID * n)[:n]},
    use_cache=False,
    **HEAD,
    **STATE_SPACE,
    **LLAMA_LIKE,
)
hf(
    "recurrent-gemma",
    "RecurrentGemmaForCausalLM",
    "RecurrentGemmaConfig",
    lru_width=WIDTH,
    attention_window_size=TOKENS,
    intermediate_size=6 * WIDTH,
    use_cache=False,
    **PLAIN,
)
hf(
    "xlstm",
    "xLSTMForCausalLM",
    "xLSTMConfig",
    hidden_size=WIDTH,
    num_heads=HEADS,
    embedding_dim=WIDTH,
    use_cache=False,
)
hf("bert", "BertModel", "BertConfig", **USUAL)
hf("megatron-bert", "MegatronBertModel", "MegatronBertConfig", **USUAL)
hf("roberta-prelayernorm", "RobertaPreLayerNormModel", "RobertaPreLayerNormConfig", **USUAL)
hf("albert", "AlbertModel", "AlbertConfig", embedding_size=WIDTH, **USUAL)
hf("modernbert", "ModernBertModel", "ModernBertConfig", cls_token_id=1, sep_token_id=2, **USUAL)
hf("clip-text", "CLIPTextModel", "CLIPTextConfig", **USUAL)
hf(
    "t5",
    "T5ForConditionalGeneration",
    "T5Config",
    "num_layers",
    seq2seq,
    d_model=WIDTH,
    d_kv=16,
    d_ff=256,
    num_heads=HEADS,
)
hf("hf-beit", "BeitModel", "BeitConfig", batch=pixels, **BEIT)
hf("hf-swin2", "Swinv2Model", "Swinv2Config", lambda n: {"depths": (n, n)}, pixels, image_size=IMAGE, **SWIN)
hf(
    "vjepa2",
    "VJEPA2Model",
    "VJEPA2Config",
    batch=videos,
    pred_hidden_size=96,
    pred_num_hidden_layers=1,
    **VIDEO,
)


def timm(name: str, build: Callable[..., nn.Module]) -> None:
    """A family of timm."""
    FAMILIES[name] = Family("timm", build, images)


def of(module: str) -> Any:
    library("timm")
    return importlib.import_module(f"timm.models.{module}")


PATCHES = {"img_size": IMAGE, "patch_size": 8, "num_classes": 10}
ViT = PATCHES | {"embed_dim": WIDTH, "num_heads": HEADS}


def mixer(depth: int, **options: Any) -> nn.Module:
    return of("mlp_mixer").MlpMixer(num_blocks=depth, embed_dim=WIDTH, **PATCHES, **options)


def resmlp(depth: int, **options: Any) -> nn.Module:
    module = of("mlp_mixer")
    layers = {
        "block_layer": module.ResBlock,
        "norm_layer": module.Affine,
        "mlp_ratio": 4,
    }  # as in timm's resmlp_12_224
    return mixer(depth, **(layers | options))


def resnet(depth: int, **options: Any) -> nn.Module:
    module = of("resnet")
    options = {"block": module.BasicBlock, "channels": (64, 64, 64, 64)} | options
    return module.ResNet(layers=(depth, depth, 1, 1), num_classes=10, **options)


def nfnet(depth: int, **options: Any) -> nn.Module:
    """As timm's dm_nfnet_f0 (skipinit, squeeze and excitation, an additional convolution), narrow."""
    module = of("nfnet")
    config = module._dm_nfnet_cfg(depths=(depth, depth), channels=(64, 128))
    return module.NormFreeNet(config, num_classes=10, **({"group_size": 16, "stem_chs": 64} | options))


def staged(module: str, name: str, tail: tuple[int, ...] = (), **fixed: Any) -> Callable[..., nn.Module]:
    return lambda n, **options: getattr(of(module), name)(
        depths=(n, n, *tail), num_classes=10, **(fixed | options)
    )


def vit(depth: int, **options: Any) -> nn.Module:
    return of("vision_transformer").VisionTransformer(depth=depth, **(ViT | options))


timm("vit", vit)
timm("vit-fix-init", functools.partial(vit, fix_init=True))
timm("deit3", functools.partial(vit, init_values=1e-6, no_embed_class=True))  # as in timm's deit3_*
timm("cait", lambda depth, **options: of("cait").Cait(depth=depth, **(ViT | options)))
timm("beit", lambda depth, **options: of("beit").Beit(depth=depth, **(ViT | options)))
timm("swin", staged("swin_transformer", "SwinTransformer", img_size=IMAGE, **SWIN))
timm("swin2", staged("swin_transformer_v2", "SwinTransformerV2", img_size=IMAGE, **SWIN))
timm("convnext", staged("convnext", "ConvNeXt", tail=(1, 1), dims=(64, 64, 64, 64), patch_size=2))
timm("mixer", mixer)
timm("resmlp", resmlp)
timm("resnet", resnet)
timm("resnet-plain", functools.partial(resnet, zero_init_last=False))
timm("nfnet", nfnet)
