"""Rows of language models and encoders of transformers, tiny and with random weights.

Sizes are set by name: a configuration gets those of `SMALL` that it knows. No row but those of `SCALED`
scales a branch by depth, so that the honest expectation is the exponent 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from configurations import Configuration, Layout
from families import HEADS, SPECIAL, VOCABULARY, WIDTH, library, seq2seq, tokens
from torch import nn

SMALL: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "embedding_size", "emb_dim", "d_embed", "dim", "width"), WIDTH
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"), HEADS),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), HEADS),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "dff", "d_inner", "ffn_hidden_size"), 2 * WIDTH),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 2 * WIDTH),
    **dict.fromkeys(("head_dim", "v_head_dim", "qk_nope_head_dim", "d_head", "d_kv"), WIDTH // HEADS),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), WIDTH // HEADS),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "moe_intermediate_size"), 64),
    **dict.fromkeys(("shared_expert_intermediate_size",), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("n_shared_experts", "moe_num_shared_experts", "n_group", "topk_group", "n_groups"), 1),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 32),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim", "mamba_n_heads"), 8),
    **dict.fromkeys(("mamba_d_state", "mamba_d_head", "mamba_chunk_size", "state_size"), 16),
    "mamba_n_groups": 1,
    "sliding_window": 16,
    "first_k_dense_replace": 0,
    "vocab_size": VOCABULARY,
    "use_cache": False,
    **SPECIAL,
}
LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
)


@functools.cache
def known(config: str) -> Any:
    """A configuration as its library makes it, to see which fields it has."""
    return getattr(library("transformers"), config)()


def build(depth: int, *, model: str, config: str, options: dict[str, Any]) -> nn.Module:
    """A model of transformers, small, of this depth."""
    default = known(config)
    sizes = {name: value for name, value in SMALL.items() if hasattr(default, name)}
    sizes |= {name: depth for name in LAYERS if hasattr(default, name)}
    module = library("transformers")
    return getattr(module, model)(getattr(module, config)(**(sizes | options)))


def row(
    model: str,
    layout: Layout,
    batch: Callable[[], Any] = tokens,
    expected: float | str = 0.0,
    *,
    name: str = "",
    config: str = "",
    near: float = 2e-3,
    **options: Any,
) -> Configuration:
    """One model class; its configuration's class has the same name but for what the model is for."""
    for end in ("ForCausalLM", "LMHeadModel", "Decoder", "Model", "WithLMHeadModel"):
        if not config and model.endswith(end):
            config = f"{model.removesuffix(end)}Config"
    factory = functools.partial(build, model=model, config=config, options=options)
    return Configuration(name or model, factory, batch, layout, expected, near=near)


def rows(layout: Layout, end: str, names: str, **more: Any) -> Iterator[Configuration]:
    """Models of one layout, listed by what their classes' names begin with."""
    return (row(name + end, layout, **more) for name in names.split())


LAYER = "model.layers.*"
LLAMA = {LAYER: "self_attn<input_layernorm mlp<post_attention_layernorm"}
PARALLEL = {LAYER: "self_attn<input_layernorm mlp<input_layernorm"}
EXPERTS_FIRST, GATE_FIRST, ROUTER_FIRST = (
    {
        LAYER: f"self_attn<input_layernorm mlp.{names}=mlp.experts<post_attention_layernorm"
        " mlp.shared_experts<post_attention_layernorm"
    }
    for names in ("{experts,gate}", "{gate,experts}", "{router,experts}")
)
SPARSE = {LAYER: "self_attn<input_layernorm block_sparse_moe<post_attention_layernorm"}
AFTER = {  # normalised after the branch only
    LAYER: "self_attn=post_attention_layernorm<self_attn mlp=post_feedforward_layernorm<mlp"
}
AROUND = {  # before and after
    LAYER: "self_attn=post_attention_layernorm<input_layernorm"
    " mlp=post_feedforward_layernorm<pre_feedforward_layernorm"
}
BERT = "attention=attention.output.dense<attention {intermediate,output}=output.dense<intermediate"
PRE_BERT = "attention=attention.output.dense<attention.LayerNorm {intermediate,output}=output.dense<LayerNorm"
XL_BERT = (
    "attention=attention.output.dense<attention.self_attn_layer_norm"
    " {intermediate,output}=output.dense<LayerNorm"
)
BART = "self_attn<self_attn {fc1,fc2}=fc2<fc1"
PRE_BART = "self_attn<self_attn_layer_norm {fc1,fc2}=fc2<final_layer_norm"
GPT2 = {"transformer.h.*": "attn<ln_1 mlp<ln_2"}
SIMPLE = {"layers.*": "self_attn<input_layernorm mlp<post_attention_layernorm"}
CROSSED = {
    "encoder.layers.*": BART,
    "decoder.layers.*": "self_attn<self_attn encoder_attn<encoder_attn {fc1,fc2}=fc2<fc1",
}
PRE_CROSSED = {
    "encoder.layers.*": PRE_BART,
    "decoder.layers.*": f"{PRE_BART} encoder_attn<encoder_attn_layer_norm",
}


def t5(attention: str = "SelfAttention", mlp: str = "DenseReluDense") -> Layout:
    out = mlp if mlp == "mlp" else "dropout"
    return {
        "encoder.block.*": f"layer.0.{attention}=layer.0.dropout<layer.0.layer_norm"
        f" layer.1.{mlp}=layer.1.{out}<layer.1.layer_norm",
        "decoder.block.*": "layer.0.SelfAttention=layer.0.dropout<layer.0.layer_norm"
        " layer.1.EncDecAttention=layer.1.dropout<layer.1.layer_norm"
        f" layer.2.{mlp}=layer.2.{out}<layer.2.layer_norm",
    }


TEXT = [
    *rows(LLAMA, "ForCausalLM", "Arcee BitNet Cwm Doge Ernie4_5 Gemma Glm GptOss GraniteSWA Helium"),
    *rows(LLAMA, "ForCausalLM", "Jais2 Mistral Mixtral Qwen2 Qwen3 Qwen3Moe Phi3 SmolLM3 Starcoder2 Olmoe"),
    # The later the layer, the less its second attention takes away from the first.
    row("DiffLlamaForCausalLM", {LAYER: "self_attn<input_layernorm^0.2 mlp<post_attention_layernorm"}),
    row("GraniteForCausalLM", LLAMA, name="granite-1.0"),
    row("ApertusForCausalLM", {LAYER: "self_attn<attention_layernorm mlp<feedforward_layernorm"}),
    row("BambaForCausalLM", {LAYER: "mamba<input_layernorm feed_forward<pre_ff_layernorm"}),
    row("FalconMambaForCausalLM", {"backbone.layers.*": "mixer<norm"}),
    row("Lfm2ForCausalLM", {LAYER: "self_attn<operator_norm feed_forward<ffn_norm"}),
    row("VaultGemmaForCausalLM", {LAYER: "self_attn<input_layernorm mlp<pre_feedforward_layernorm"}),
    row("XGLMForCausalLM", {LAYER: PRE_BART}),
    row("OpenAIGPTLMHeadModel", {"transformer.h.*": "attn<attn mlp<mlp"}),
    row("MiniMaxForCausalLM", {LAYER: "self_attn<self_attn mlp<mlp"}),
    row("ModernBertDecoderForCausalLM", {LAYER: "attn<attn_norm^0.5 mlp<mlp_norm^0.5"}, expected="gpt-2"),
    *rows(PARALLEL, "ForCausalLM", "Cohere2 Cohere2Moe Phi", near=0.25),
    row("CodeGenForCausalLM", {"transformer.h.*": "attn<ln_1 mlp<ln_1"}),
    *rows(AFTER, "ForCausalLM", "Exaone4 FlexOlmo Olmo3"),
    row("Gemma3ForCausalLM", AROUND, config="Gemma3TextConfig"),
    row(
        "Glm4ForCausalLM",
        {
            LAYER: "self_attn=post_self_attn_layernorm<input_layernorm"
            " mlp=post_mlp_layernorm<post_attention_layernorm"
        },
    ),
    row(
        "HyperCLOVAXForCausalLM",
        {LAYER: "self_attn=post_norm1<input_layernorm mlp=post_norm2<post_attention_layernorm"},
    ),
    *rows(EXPERTS_FIRST, "ForCausalLM", "DeepseekV2 Dots1 Glm4Moe"),
    row("AriaTextForCausalLM", ROUTER_FIRST),
    *rows(SPARSE, "ForCausalLM", "GraniteMoe GraniteMoeSWA GraniteMoeShared"),
    row("JetMoeForCausalLM", {LAYER: "self_attention<input_layernorm mlp<post_attention_layernorm"}),
    row(
        "GraniteMoeHybridForCausalLM",
        {
            LAYER: "mamba<input_layernorm block_sparse_moe<post_attention_layernorm"
            " shared_mlp<post_attention_layernorm"
        },
    ),
    row(
        "GPTNeoXJapaneseForCausalLM",
        {"gpt_neox_japanese.layers.*": "attention<input_layernorm mlp<post_attention_layernorm"},
    ),
    row(
        "CTRLLMHeadModel",
        {"transformer.h.*": "multi_head_attention=dropout1<layernorm1 ffn<layernorm2"},
    ),
    row(
        "CpmAntForCausalLM",
        {
            "cpmant.encoder.layers.*": "self_att.self_attention<self_att.layernorm_before_attention"
            " ffn.ffn<ffn.layernorm_before_ffn"
        },
    ),
    *rows({"model.decoder.layers.*": BART}, "ForCausalLM", "Bart BlenderbotSmall Marian Mvp PLBart TrOCR"),
    *rows(
        {"model.decoder.layers.*": PRE_BART}, "ForCausalLM", "BigBirdPegasus Blenderbot MBart Pegasus Whisper"
    ),
    row("BioGptForCausalLM", {"biogpt.layers.*": PRE_BART}),
    row("BertGenerationDecoder", {"bert.encoder.layer.*": BERT}, config="BertGenerationConfig"),
    row("XLMRobertaXLForCausalLM", {"roberta.encoder.layer.*": XL_BERT}),
    row("RoCBertForCausalLM", {"roc_bert.encoder.layer.*": BERT}),
    row("CamembertForCausalLM", {"roberta.encoder.layer.*": BERT}),
    row("Data2VecTextForCausalLM", {"data2vec_text.encoder.layer.*": BERT}),
    row("ElectraForCausalLM", {"electra.encoder.layer.*": BERT}),
    *rows({"encoder.layer.*": BERT}, "Model", "Ernie LayoutLM Longformer MarkupLM Tapas Roberta"),
    *rows({"encoder.layer.*": BERT}, "Model", "XLMRoberta ConvBert Deberta DebertaV2 RoFormer Splinter"),
    *rows({"encoder.layer.*": BERT}, "Model", "Yoso Nystromformer RemBert IBert"),
    row("EsmModel", {"encoder.layer.*": PRE_BERT}),
    row(
        "DistilBertModel",
        {"transformer.layer.*": "attention<attention ffn<ffn"},
    ),
    *rows(SIMPLE, "Model", "EuroBert OpenAIPrivacyFilter"),
    row("UltrabertModel", SIMPLE),
    *rows({"layers.*": "self_attn<self_attn mlp<mlp"}, "Model", "Gte NomicBert JinaEmbeddingsV3"),
    row("FNetModel", {"encoder.layer.*": "-=output.dense<intermediate"}),
    *rows({"": "attentions.*<attentions.* ffns.*<ffns.*"}, "Model", "XLM Flaubert"),
    row("RwkvModel", {"blocks.*": "attention<ln1 feed_forward<ln2"}),
    *rows(t5(), "Model", "MT5 UMT5", batch=seq2seq),
    row("LongT5Model", t5("LocalSelfAttention"), seq2seq),
    row("SwitchTransformersModel", t5(mlp="mlp"), seq2seq),
    *rows(CROSSED, "Model", "Bart FSMT Marian", batch=seq2seq),
    *rows(PRE_CROSSED, "Model", "Pegasus M2M100 MBart", batch=seq2seq),
]
