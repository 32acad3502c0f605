"""Depth checks of the families that people train: every residual branch found, exponents as documented,
departures named.

What each family promises, and where that is written, is on the page docs/families.md. Numbers hold for the
versions named there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from families import FAMILIES, HEADS, VOCABULARY, WIDTH, library

import deeplimit as dl

pytestmark = [pytest.mark.thirdparty, pytest.mark.usefixtures("model_libraries")]

DEPTHS, FEWER = (2, 4, 8, 16), (2, 4, 8)
TIMES_TOO_LARGE = math.sqrt(32)  # an output projection without its 1/sqrt(2L) at depth 16


@dataclass(frozen=True)
class Case:
    """A family, what is expected of it, its kinds of branches with their exponents (None: zero), and what
    is to blame.

    blamed: parameter to factor (None: no factor); the verdict is "not as expected" if there is any.
    """

    family: str
    expected: float | str
    kinds: dict[str, float | None]
    blamed: dict[str, float | None] = field(default_factory=dict)
    depths: tuple[int, ...] = DEPTHS
    verdict: str = ""
    fixed: tuple[str, ...] = ()  # kinds of which there are as many at every depth


def both(stem: str, attention: str, mlp: str, exponent: float | None) -> dict[str, float | None]:
    return {f"{stem}.{attention}": exponent, f"{stem}.{mlp}": exponent}


def unscaled(stem: str, *names: str, factor: float = TIMES_TOO_LARGE) -> dict[str, float | None]:
    return {f"{stem}.{name}.weight": factor for name in names}


LAYER, BLOCK, ENCODER = "model.layers.*", "transformer.h.*", "encoder.layer.*"
BERT = both(ENCODER, "attention", "{intermediate,output}", 0)
CASES = [
    # The promise is kept: GPT-2's 1/sqrt(2L) on both output projections.
    Case("gpt2", "gpt-2", both(BLOCK, "attn", "mlp", 0.5)),
    Case("gpt-bigcode", "gpt-2", both(BLOCK, "attn", "mlp", 0.5)),
    Case("imagegpt", "gpt-2", both(BLOCK, "attn", "mlp", 0.5)),
    Case("modernbert", "gpt-2", both("layers.*", "attn", "mlp", 0.5)),
    # On attention only; on the queries, keys and values instead; on the recurrence only.
    Case(
        "nanochat", "gpt-2", {f"{LAYER}.self_attn": 0.5, f"{LAYER}.mlp": 0}, unscaled(f"{LAYER}.mlp", "fc2")
    ),
    Case(
        "clip-text",
        "gpt-2",
        both("encoder.layers.*", "self_attn", "mlp", 0.5),
        unscaled("encoder.layers.*.self_attn", "out_proj", factor=8)
        | unscaled("encoder.layers.*.self_attn", "q_proj", "k_proj", "v_proj", factor=0.25)
        | unscaled("encoder.layers.*.mlp", "fc2", factor=math.sqrt(2)),
    ),
    Case(
        "recurrent-gemma",
        0.5,
        {f"{LAYER}.temporal_block (1)": 0.5, f"{LAYER}.mlp_block": 0, f"{LAYER}.temporal_block (2)": 0.5},
        unscaled(f"{LAYER}.mlp_block", "down_proj", factor=math.sqrt(8)),
    ),
    Case(
        "nemotron-h",
        0.5,
        {f"{LAYER}.mixer (1)": 0.5, f"{LAYER}.mixer (2)": 0, f"{LAYER}.mixer (3)": 0},
        {f"{LAYER}.mixer.down_proj.weight": math.sqrt(8), f"{LAYER}.mixer.o_proj.weight": 2},
    ),
    # The original scales by depth, the port does not.
    Case(
        "gpt-neox",
        "gpt-2",
        both("gpt_neox.layers.*", "mlp", "attention", 0),
        unscaled("gpt_neox.layers.*", "mlp.dense_4h_to_h", "attention.dense"),
    ),
    Case("gpt-j", "gpt-2", both(BLOCK, "attn", "mlp", 0), unscaled(BLOCK, "attn.out_proj", "mlp.fc_out")),
    Case(
        "opt",
        "gpt-2",
        both("model.decoder.layers.*", "self_attn", "{fc1,fc2}", 0),
        unscaled("model.decoder.layers.*", "self_attn.out_proj", "fc2"),
    ),
    Case(
        "mpt",
        "gpt-2",
        both("transformer.blocks.*", "attn", "ffn", 0),
        unscaled("transformer.blocks.*", "attn.out_proj", "ffn.down_proj"),
    ),
    Case("megatron-bert", "gpt-2", BERT, unscaled(ENCODER, "attention.output.dense", "output.dense")),
    Case(
        "olmo",
        "gpt-2",
        both(LAYER, "self_attn", "mlp", 0),
        unscaled(LAYER, "self_attn.o_proj", "mlp.down_proj"),
    ),
    Case(
        "hf-beit",
        "gpt-2",
        both("layers.*", "attention", "mlp", 0),
        unscaled("layers.*", "attention.o_proj", "mlp.fc2")
        | {
            "layers.*.lambda_1": 0.1,
            "layers.*.lambda_2": 0.1,
        },
    ),
    Case(
        "vjepa2",
        "gpt-2",
        both(ENCODER, "attention", "mlp", 0),
        unscaled(ENCODER, "attention.proj", "mlp.fc2", factor=4),
        depths=FEWER,
        fixed=("predictor.layer.0.attention", "predictor.layer.0.mlp"),
    ),
    Case(
        "mamba",
        0.5,
        {"backbone.layers.*.mixer": 0},
        unscaled("backbone.layers.*.mixer", "out_proj", factor=2),
        depths=FEWER,
    ),
    Case("mamba-rescaled", 0.5, {"backbone.layers.*.mixer": 0.5}, depths=FEWER),
    # Multipliers of the forward: c/sqrt(L) twice, and one that its configuration leaves alone.
    Case("minicpm3", "depth-mup", both(LAYER, "self_attn", "mlp", 0.5)),
    Case("esmc", "depth-mup", both("layers.*", "self_attn", "mlp", 0.5)),
    Case(
        "granite",
        "depth-mup",
        both(LAYER, "self_attn", "mlp", 0),
        {f"multiplier of {LAYER}.{name}": math.sqrt(8) for name in ("self_attn", "mlp")},
    ),
    # No scaling is promised, and there is none: before, after and around the branch, in parallel, with
    # tied layers.
    Case("llama", 0.0, both(LAYER, "self_attn", "mlp", 0)),
    Case("bloom", 0.0, both(BLOCK, "self_attention", "mlp", 0)),
    Case("falcon", 0.0, both(BLOCK, "mlp", "self_attention", 0)),
    Case("cohere", 0.0, both(LAYER, "self_attn", "mlp", 0)),
    Case("gemma2", 0.0, both(LAYER, "self_attn", "mlp", 0)),
    Case("olmo2", 0.0, both(LAYER, "self_attn", "mlp", 0)),
    Case("bert", 0.0, BERT),
    Case("roberta-prelayernorm", 0.0, BERT),
    Case(
        "albert",
        0.0,
        both("encoder.albert_layer_groups.0.albert_layers.0", "attention", "{ffn,ffn_output}", 0),
    ),
    Case(
        "t5",
        0.0,
        both("encoder.block.*", "layer.0.SelfAttention", "layer.1.DenseReluDense", 0)
        | both("decoder.block.*", "layer.0.SelfAttention", "layer.1.EncDecAttention", 0)
        | {"decoder.block.*.layer.2.DenseReluDense": 0},
        depths=FEWER,
    ),
    Case("vit", 0.0, both("blocks.*", "attn", "mlp", 0)),
    Case("mixer", 0.0, both("blocks.*", "mlp_tokens", "mlp_channels", 0)),
    Case(
        "swin", 0.0, both("layers.0.blocks.*", "attn", "mlp", 0) | both("layers.1.blocks.*", "attn", "mlp", 0)
    ),
    Case("resnet-plain", 0.0, {"layer1.*": 0, "layer2.*": 0}),
    # LayerScale: as large at every depth.
    Case("deit3", 0.0, both("blocks.*", "attn", "mlp", 0)),
    Case("resmlp", 0.0, both("blocks.*", "linear_tokens", "mlp_channels", 0)),
    Case(
        "convnext",
        0.0,
        {"stages.0.blocks.*": 0, "stages.1.blocks.*": 0},
        fixed=("stages.2.blocks.0", "stages.3.blocks.0"),
    ),
    Case(
        "cait",
        0.0,
        both("blocks.*", "attn", "mlp", 0),
        fixed=("blocks_token_only.*.attn", "blocks_token_only.*.mlp"),
    ),
    # Branches that start from zero; one of them should and does not, two others do unannounced.
    Case("resnet", "rezero", {"layer1.*": None, "layer2.*": None}),
    Case("nfnet", "rezero", {"stages.0.*": None, "stages.1.*": None}),
    Case(
        "swin2",
        "rezero",
        both("layers.0.blocks.*", "attn", "mlp", None) | both("layers.1.blocks.*", "attn", "mlp", None),
        depths=FEWER,
    ),
    Case(
        "hf-swin2",
        "rezero",
        both("encoder.layers.0.blocks.*", "attention", "{intermediate,output}", 0)
        | both("encoder.layers.1.blocks.*", "attention", "{intermediate,output}", 0),
        {
            f"encoder.layers.{stage}.blocks.*.layernorm_{side}.weight": None
            for stage in (0, 1)
            for side in ("before", "after")
        },
        depths=FEWER,
    ),
    Case(
        "xlstm",
        1.0,
        {"backbone.blocks.*.mlstm_layer": 1, "backbone.blocks.*.ffn": None},
        {"backbone.blocks.*.ffn.proj_up_gate.weight": 0},
        depths=FEWER,
    ),
    Case(
        "neomme",
        0.5,
        both("layers.*", "self_attn", "mlp", None),
        {"layers.*.self_attn.output_projection.o_proj.weight": 0, "layers.*.mlp.down_proj.weight": 0},
    ),
]


# One for each way in which networks are put together; the others take these ways again.
ORDINARY = {
    *("gpt2", "clip-text", "nemotron-h", "hf-beit", "vjepa2", "granite", "falcon", "albert", "t5"),
    *("swin", "convnext", "cait", "resnet", "hf-swin2", "neomme"),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.family, marks=() if case.family in ORDINARY else pytest.mark.nightly)
        for case in CASES
    ],
)
def test_a_family_scales_with_depth_as_documented(case):
    family = FAMILIES[case.family]
    report = dl.check_depth(family.factory, case.depths, batch=family.batch, expected=case.expected)
    deepening = {branch.kind: branch for branch in report.branches if branch.kind not in case.fixed}
    assert set(deepening) == set(case.kinds)
    assert {branch.kind for branch in report.branches} == set(case.kinds) | set(case.fixed)
    for kind, exponent in case.kinds.items():
        branch = deepening[kind]
        if exponent is None:
            assert branch.exponent is None
            assert max(branch.sizes) == 0
            assert branch.meaning.startswith("identity")
            continue
        low, high = branch.exponent_interval
        assert low - 0.05 <= exponent <= high + 0.05, f"{kind}: {branch.exponent:.3f} [{low:.3f}, {high:.3f}]"
        assert abs(branch.exponent - exponent) < 0.1 or high - low > 0.4
        assert branch.power_law or high - low < 0.2
    blamed = {finding.parameter: finding.factor for finding in report.findings}
    assert set(blamed) == set(case.blamed)
    for parameter, factor in case.blamed.items():
        assert blamed[parameter] == (None if factor is None else pytest.approx(factor, rel=0.2)), parameter
    assert report.verdict == (case.verdict or ("not as expected" if case.blamed else "as expected"))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", [case for case in CASES if not case.blamed], ids=lambda case: case.family)
def test_no_seed_raises_a_false_alarm_about_a_family(case, seed, record_property):
    family = FAMILIES[case.family]
    report = dl.check_depth(family.factory, FEWER, batch=family.batch, expected=case.expected, seed=seed)
    record_property("correct families", str(report.verdict))
    assert report.verdict != "not as expected", report


@pytest.mark.parametrize(
    ("name", "size"),
    [("deit3", 1e-6), ("cait", 1e-4), ("convnext", 1e-6), ("resmlp", 1e-4), ("hf-beit", 0.1)],
)
def test_the_size_of_layer_scale_is_read_off(name, size):
    report = dl.check_depth(FAMILIES[name].factory, [1, 2], batch=FAMILIES[name].batch)
    gains = [part for branch in report.branches for part in branch.parts if part.role == "gain"]
    assert gains
    assert all(gain.sizes == pytest.approx((size, size)) for gain in gains)


@pytest.mark.parametrize(
    ("name", "output", "first"),
    [
        ("beit", "fc2", 2),
        pytest.param("vit-fix-init", "fc2", 2, marks=pytest.mark.nightly),
        pytest.param("beam", None, 3, marks=pytest.mark.nightly),
    ],
)
def test_what_is_scaled_by_the_layer_is_not_taken_for_what_is_scaled_by_the_depth(name, output, first):
    """BEiT divides layer l's output projections by sqrt(2 l): each layer is the same at any depth, deeper
    ones are smaller.
    """
    report = dl.check_depth(FAMILIES[name].factory, DEPTHS, batch=FAMILIES[name].batch, expected=0.5)
    mlp = next(branch for branch in report.branches if branch.kind.endswith("mlp"))
    # The mean square over layers goes like log(L)/L: between no scaling and 1/sqrt(L).
    squares = [sum(1 / (2 * layer + first) for layer in range(depth)) / depth for depth in DEPTHS]
    assert mlp.sizes == pytest.approx(
        [mlp.sizes[0] * math.sqrt(square / squares[0]) for square in squares], rel=0.1
    )
    assert mlp.layered == pytest.approx(math.sqrt((2 * 15 + first) / first), rel=0.15)
    assert report.verdict in ("cannot tell", "not as expected")
    assert any("layers of one network differ" in text for text in report.reservations)
    if output is not None:
        projection = next(part for part in mlp.parts if part.role == "output")
        assert output in projection.name
        assert projection.sizes == pytest.approx([0.02 * math.sqrt(square) for square in squares], rel=0.02)


def test_a_configuration_is_swept_and_a_batch_made_up_for_it():
    transformers = library("transformers")
    sizes = {"n_embd": WIDTH, "n_head": HEADS, "vocab_size": VOCABULARY, "n_positions": 64}
    factory = dl.sweep(transformers.GPT2LMHeadModel, transformers.GPT2Config, "n_layer", **sizes)
    assert dl.check_depth(factory, FEWER, expected="gpt-2").verdict == "as expected"


@pytest.mark.nightly
def test_from_pretrained_repeats_the_scaling_of_mamba(tmp_path):
    """The page says so; where this fails, transformers has mended it."""
    family = FAMILIES["mamba-rescaled"]
    with torch.random.fork_rng():
        model = family.factory(4)
    model.save_pretrained(tmp_path)
    with torch.random.fork_rng():
        again = type(model).from_pretrained(tmp_path)
    before, after = (each.backbone.layers[0].mixer.out_proj.weight for each in (model, again))
    if library("transformers").__version__ == "5.23.0":
        torch.testing.assert_close(after, before / math.sqrt(4))
