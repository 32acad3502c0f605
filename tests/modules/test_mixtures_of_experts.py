"""A mixture of as many experts as the stream is wide: no shape tells the router from an output projection."""

import pytest
import torch
from families import library
from hooked_updates import assert_as_hooked
from residual_stacks import DEPTHS, states
from torch import nn
from torch.nn import functional as F

import deeplimit as dl

WIDTH = 16
pytestmark = pytest.mark.usefixtures("one_thread")


def dense(experts, x, logits):
    chances = logits.softmax(-1)
    return sum(chances[:, [k]] * experts.one(k, x) for k in range(WIDTH))


def routed(experts, x, logits, gate=torch.softmax):
    chosen, index = logits.topk(2, -1)
    gates, out = gate(chosen, -1), torch.zeros_like(x)
    for k in range(WIDTH):
        token, place = (index == k).nonzero(as_tuple=True)
        if len(token):
            out.index_add_(0, token, experts.one(k, x[token]) * gates[token, place, None])
    return out


def by_sigmoids(experts, x, logits):
    return routed(experts, x, logits, lambda chosen, axis: chosen.sigmoid())


def dispatched(experts, x, logits):
    chosen, index = logits.softmax(-1).topk(2, -1)
    masks = F.one_hot(index, WIDTH).to(x)
    given = torch.einsum("td,te->etd", x, masks.sum(1))
    returned = F.gelu(given @ experts.up.transpose(1, 2)) @ experts.down.transpose(1, 2)
    return torch.einsum("etd,te->td", returned, (masks * chosen[..., None]).sum(1))


class Experts(nn.Module):
    def __init__(self, mix, scale):
        super().__init__()
        self.router, self.mix = nn.Linear(WIDTH, WIDTH, bias=False), mix
        nn.init.normal_(self.router.weight, std=0.02)
        self.up = nn.Parameter(0.02 * torch.randn(WIDTH, 2 * WIDTH, WIDTH))
        self.down = nn.Parameter(0.02 * scale * torch.randn(WIDTH, WIDTH, 2 * WIDTH))

    def one(self, k, x):
        return F.linear(F.gelu(F.linear(x, self.up[k])), self.down[k])

    def forward(self, x):
        flat = x.flatten(0, 1)
        return self.mix(self, flat, self.router(flat)).view_as(x)


class Mixture(nn.Module):
    """Pre-norm blocks of experts alone, with GPT-2's rule for this many branches, times a fault."""

    def __init__(self, depth, mix, fault=1.0):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))
        self.experts = nn.ModuleList(Experts(mix, fault * depth**-0.5) for _ in range(depth))

    def forward(self, x):
        x = self.entry(x)
        for norm, experts in zip(self.norms, self.experts, strict=True):
            x = x + experts(norm(x))
        return x


@pytest.mark.parametrize("mix", [routed, by_sigmoids, dispatched])
def test_the_update_of_a_mixture_is_what_its_module_returns(mix):
    found = assert_as_hooked(lambda: Mixture(3, mix), states(2, 32, WIDTH), lambda model: model.experts)
    assert [branch.output for branch in found] == [(f"experts.{index}.down",) for index in range(3)]


@pytest.mark.parametrize("mix", [dense, routed, by_sigmoids, dispatched])
def test_a_router_of_the_streams_width_is_no_output_projection(mix):
    for fault in (1, 3):
        report = dl.check_depth(
            lambda depth: Mixture(depth, mix, fault),  # noqa: B023
            DEPTHS,
            batch=states(2, 32, WIDTH),
            expected="gpt-2",
        )
        blamed = {finding.parameter: round(finding.factor) for finding in report.findings}
        assert blamed == ({} if fault == 1 else {"experts.*.down": fault}), str(report)


def test_a_bias_for_each_of_the_experts_is_no_weight():
    class Biased(Experts):
        def __init__(self, mix, scale):
            super().__init__(mix, scale)
            self.down_bias = nn.Parameter(torch.randn(WIDTH, WIDTH))

        def one(self, k, x):
            return super().one(k, x) + self.down_bias[k]

    class Within(Mixture):
        def __init__(self, depth):
            super().__init__(depth, routed)
            self.experts = nn.ModuleList(Biased(routed, 1.0) for _ in range(depth))

    found = assert_as_hooked(lambda: Within(2), states(2, 32, WIDTH), lambda model: model.experts)
    assert [branch.output for branch in found] == [(f"experts.{index}.down",) for index in range(2)]
    assert not [name for branch in found for name in branch.inner if name.endswith("bias")]


@pytest.mark.nightly
@pytest.mark.thirdparty
def test_two_attentions_per_layer_and_a_mixture_beside_them_have_numbers_and_lines():
    """LongCat-Flash, whose table had nan and whose lines called a module that was not imported."""
    longcat = library("transformers").LongcatFlashForCausalLM
    sizes = {"hidden_size": 32, "ffn_hidden_size": 64, "expert_ffn_hidden_size": 32, "vocab_size": 64}
    heads = {"num_attention_heads": 2, "q_lora_rank": 16, "kv_lora_rank": 16, "head_dim": 8}
    heads |= {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "max_position_embeddings": 64}
    experts = {"n_routed_experts": 4, "zero_expert_num": 2, "moe_topk": 2}
    factory = dl.sweep(longcat, longcat.config_class, "num_layers", **sizes, **heads, **experts)
    report = dl.check_depth(factory, [2, 4], batch=torch.arange(16).reshape(2, 8), expected="gpt-2")
    assert [branch.counts for branch in report.branches] == [(4, 8), (4, 8), (2, 4)]
    assert "nan" not in str(report)
    weights = [finding for finding in report.findings if finding.about == "weight"]
    assert len(weights) == 2
    with torch.random.fork_rng():
        model = factory(2)
        for finding in weights:
            exec(finding.fix, {"model": model, "torch": torch})


class Added(nn.Module):
    """One layer of experts that are added with weights, times depth**-1/2."""

    def __init__(self, depth, width=12, experts=4):
        super().__init__()
        self.router, self.scale = nn.Linear(width, experts, bias=False), depth**-0.5
        self.experts = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(experts))

    def forward(self, h):
        shares = self.router(h).softmax(-1)
        return h + self.scale * sum(shares[:, [k]] * each(h) for k, each in enumerate(self.experts))


def test_a_line_for_experts_counts_layers_and_not_experts():
    def built(depth, line="pass"):
        model = nn.Sequential(*(Added(depth) for _ in range(depth)))
        exec(line, {"model": model, "torch": torch})
        return model

    asked = {"batch": torch.randn(6, 12, generator=torch.Generator().manual_seed(1)), "expected": 1.0}
    report = dl.check_depth(built, (4, 8, 16), **asked)
    (line,) = {finding.fix for finding in report.findings}
    assert report.verdict == "not as expected"
    assert dl.check_depth(lambda depth: built(depth, line), (4, 8, 16), **asked).verdict == "as expected"
