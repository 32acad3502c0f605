"""Findings end with the line of code that sets right what they name: run on the model, the check passes."""

import math
from functools import partial

import pytest
import torch
from depth_cases import WRONG
from depth_models import WIDTH, tokens
from test_published_rules import network
from test_rule_attribution import Block, Conditioned, Network, conditions, deepnorm, gpt, multiplied
from torch import nn

import deeplimit as dl
from deeplimit.modules.depth_check.findings import Finding, grouped
from deeplimit.modules.depth_check.fixes import IN_FORWARD, IN_INIT, Fixes

DEPTHS = [3, 6, 12]


def mended(factory, lines):
    """The same models, with lines of code run on each as they stand."""

    def build(depth):
        model = factory(depth)
        for line in lines:
            exec(line, {"model": model, "torch": torch})
        return model

    return build


def lines_of(report):
    lines = [finding.fix for finding in report.findings if finding.fix]
    # Branches that share a gain have one line, which is told once.
    mended = {finding.parameter for finding in report.findings if finding.fix}
    assert all(finding.parameter in mended for finding in report.findings), report
    return [line for line in dict.fromkeys(lines) if not line.startswith(IN_FORWARD)]


def multiplied_by_root(depth, shift=0, power=0.5):
    """Multipliers 1/sqrt(L + shift), or of another power."""
    model = Network(Block(multiplier=(depth + shift) ** -power) for _ in range(depth))
    for _, _, weight in model.matrices():
        nn.init.normal_(weight, std=0.02)
    return model


def late(depth):
    """The second half of the layers has no multiplier, at the largest depth only."""
    model = multiplied(depth)
    if depth == DEPTHS[-1]:
        for block in model.blocks[depth // 2 :]:
            block.multiplier = 1.0
    return model


def late_gains(depth):
    """Gains of 1/sqrt(L), which the second half lacks at the largest depth only."""
    model = network(depth, "layerscale")
    for layer, block in enumerate(model.blocks):
        nn.init.constant_(block.gain, 1.0 if depth == DEPTHS[-1] and 2 * layer >= depth else depth**-0.5)
    return model


def experts(depth, right=False):
    """Weights whose names have two numbers."""

    class Expert(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.parts = (
                nn.LayerNorm(WIDTH),
                nn.ModuleList(
                    nn.Sequential(
                        nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU(), nn.Linear(WIDTH, WIDTH, bias=False)
                    )
                    for _ in range(3)
                ),
            )

        def forward(self, x):
            y = self.norm(x)
            return x + self.parts[0](y) + self.parts[1](y) + self.parts[2](y)

    model = Network(Expert() for _ in range(depth))
    for _, _, weight in model.matrices():
        nn.init.normal_(weight, std=0.02)
    return model


PLANTED = {
    "gpt 0.02: fc1 instead of fc2",
    "gpt 0.02: init and multiplier, style torch.add",
    "gpt default: bias not scaled",
    "resnet, zero gains: gain reset to one",
    "resnet, zero gains: bias not zero",
}
FAULTS = {
    "not applied": (partial(gpt, fault="not applied"), "gpt-2"),
    "half of the layers": (partial(gpt, fault="half"), "gpt-2"),
    "constant depth": (partial(gpt, fault="constant depth"), "gpt-2"),
    "twice as large": (partial(gpt, fault="twice"), "gpt-2"),
    "the weight beside it": (partial(gpt, fault="qkv"), "gpt-2"),
    "not applied, to a number": (partial(gpt, fault="not applied"), 0.5),
    "applied, to another number": (gpt, 1.0),
    "weights where multipliers are asked for": (gpt, "depth-mup"),
    "multipliers where weights are asked for": (multiplied, "gpt-2"),
    "multipliers of one more layer": (partial(multiplied, shift=1), "completep"),
    "roots of one more layer": (partial(multiplied_by_root, shift=1), "depth-mup"),
    "multipliers of nearly the right power": (partial(multiplied_by_root, power=0.55), "depth-mup"),
    "some multipliers": (late, "completep"),
    "multipliers, to a number": (multiplied, 0.5),
    "some gains, to a number": (late_gains, 0.5),
    "no gain": (gpt, "rezero"),
    "no gain of a stated size": (gpt, "layerscale"),
    "a gain of another size": (partial(network, rule="layerscale", fault="misread"), "layerscale"),
    "a gain that is not zero": (partial(network, rule="layerscale"), "rezero"),
    "layers counted twice": (partial(network, rule="mitchell", fault="misread"), "mitchell"),
    "small-init": (gpt, "small-init"),
    "values": (partial(deepnorm, fused="nothing"), "deepnorm"),
    "queries and keys": (partial(deepnorm, fused="queries and keys"), "deepnorm"),
    "several experts": (experts, "gpt-2"),
} | {case.name: (case.factory, case.expected, case.batch()) for case in WRONG if case.name in PLANTED}


# These take the ways of others again, with another number.
AGAIN = {"half of the layers", "twice as large", "applied, to another number", "not applied, to a number"}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.nightly) if fault in AGAIN else fault for fault in FAULTS]
)
def test_the_printed_lines_mend_the_model(fault):
    factory, expected, *of_images = FAULTS[fault]
    batch = of_images[0] if of_images else tokens()
    report = dl.check_depth(factory, DEPTHS, batch=batch, expected=expected)
    assert report.verdict == "not as expected", report
    lines = lines_of(report)
    assert lines
    assert all(str(report).count(line) == 1 for line in lines)
    again = dl.check_depth(mended(factory, lines), DEPTHS, batch=batch, expected=expected)
    assert again.verdict == "as expected", "\n".join([*lines, str(again)])


class Named(nn.Module):
    """A stack whose name holds what ends a text in code."""

    def __init__(self, depth, name):
        super().__init__()
        self.name = name
        self.add_module(name, gpt(depth))

    def forward(self, x):
        return getattr(self, self.name)(x)


@pytest.mark.parametrize("name", ['a"b', "a'b\"c", 'a", n)] + [1 / 0', "a\nb\\"])
def test_a_line_quotes_names_that_would_end_its_texts(name):
    factory = partial(Named, name=name)
    report = dl.check_depth(factory, DEPTHS, batch=tokens(), expected=1.0)
    lines = lines_of(report)
    assert lines, report
    assert dl.check_depth(mended(factory, lines), DEPTHS, batch=tokens(), expected=1.0).ok


@pytest.mark.parametrize(
    "line",
    ["model.absent.data.mul_(2)", "for i in :", "1 / 0", "next(model.parameters()).data.mul_(torch.nan)"],
)
def test_a_line_that_does_not_run_at_every_depth_is_not_printed(monkeypatch, line):
    monkeypatch.setattr(Fixes, "multiply", lambda *_: line)
    report = dl.check_depth(gpt, DEPTHS, batch=tokens(), expected=1.0)
    assert report.verdict == "not as expected"
    assert not any(finding.fix for finding in report.findings)
    assert line not in str(report)
    parameter = report.findings[0].parameter
    assert any(told.startswith(parameter) and "3" in told for told in report.reservations)


def test_a_factory_that_cannot_be_called_again_costs_no_report():
    called = []

    def once(depth):
        if depth in called:
            raise OSError("the file is gone")
        called.append(depth)
        return gpt(depth)

    report = dl.check_depth(once, DEPTHS, batch=tokens(), expected=1.0)
    assert report.verdict == "not as expected"
    assert not any(finding.fix for finding in report.findings)
    assert any("OSError" in told for told in report.reservations)


def gated(depth, fault):
    """Gates whose weights and biases are as torch makes them, or whose biases alone are."""
    model = Conditioned(depth, zero=False)
    for block in model.blocks if fault == "bias" else ():
        nn.init.zeros_(block.ada[1].weight)
    return model


@pytest.mark.parametrize("fault", ["weight and bias", "bias"])
@pytest.mark.parametrize("rule", ["adaln-zero", "rezero"])
def test_a_gate_is_made_zero_by_the_printed_line(fault, rule):
    factory = partial(gated, fault=fault)
    report = dl.check_depth(factory, [2, 4], batch=conditions(), expected=rule)
    assert {finding.parameter for finding in report.findings} == {"blocks.*.ada.1.weight"}
    again = dl.check_depth(mended(factory, lines_of(report)), [2, 4], batch=conditions(), expected=rule)
    assert again.ok


class Written(Block):
    """A block whose forward is a line of code."""

    def __init__(self, model, layer, line):
        super().__init__()
        self.model, self.layer, self.line = [model], layer, line

    def forward(self, x):
        for norm, branch in (
            (self.norm1, self.attn),
            (self.norm2, lambda y: self.fc2(torch.relu(self.fc1(y)))),
        ):
            names = {"x": x, "norm": norm, "branch": branch, "model": self.model[0], "i": self.layer}
            exec(self.line, names)
            x = names["x"] if "norm" in self.line else norm(names["x"])
        return x


@pytest.mark.parametrize(
    ("expected", "line"), [("norm-depth", "x = x + branch(norm(x))"), ("deepnorm", "x = x + branch(x)")]
)
def test_the_line_for_the_forward_mends_it(expected, line):
    def factory(depth, line=line):
        model = Network([])
        model.blocks.extend(Written(model, layer, line) for layer in range(depth))
        for _, name, weight in model.matrices():
            if expected == "norm-depth":
                nn.init.normal_(weight, std=0.02)
            else:
                beta = (8 * depth) ** -0.25
                nn.init.xavier_normal_(weight, gain=1.0 if "qkv" in name else beta)
                if "qkv" in name:
                    weight.data.chunk(3)[2].mul_(beta)
        return model

    report = dl.check_depth(factory, DEPTHS, batch=tokens(), expected=expected)
    assert report.findings
    (written,) = {finding.fix.removeprefix(IN_FORWARD) for finding in report.findings}
    again = dl.check_depth(partial(factory, line=written), DEPTHS, batch=tokens(), expected=expected)
    assert again.verdict == "as expected", f"{written}\n{again}"


class OneParameter(nn.Module):
    """Layers that have a part each of one parameter, or share it: no list says how many there are."""

    def __init__(self, depth, shared):
        super().__init__()
        self.depth, rows = depth, () if shared else (depth,)
        self.inner = nn.Parameter(torch.randn(*rows, WIDTH, WIDTH) / 50)
        self.outer = nn.Parameter(torch.randn(*rows, WIDTH, WIDTH) / 50)

    def forward(self, x):
        for layer in range(self.depth):
            parts = [each if each.dim() == 2 else each[layer] for each in (self.inner, self.outer)]
            x = x + torch.tanh(x @ parts[0]) @ parts[1]
        return x


@pytest.mark.parametrize(
    ("shared", "expected"),
    [(False, 0.5), (False, "gpt-2"), (True, 1.0), (False, "completep"), (True, "completep")],
)
def test_a_line_about_one_parameter_of_all_layers_is_one_for_its_initialiser(shared, expected):
    x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))
    report = dl.check_depth(partial(OneParameter, shared=shared), DEPTHS, batch=x, expected=expected)
    assert report.verdict == "not as expected"
    (finding,) = report.findings
    assert "found" not in finding.fix
    assert not any("did not run" in told for told in report.reservations)
    if finding.fix.startswith(IN_INIT):

        def mended(depth):
            model = OneParameter(depth, shared)
            exec(finding.fix.removeprefix(IN_INIT), {"self": model, "depth": depth, "torch": torch})
            return model

        assert dl.check_depth(mended, DEPTHS, batch=x, expected=expected).ok
    else:
        assert finding.fix.startswith(f"{IN_FORWARD}x = x + depth ** ")


class Summed(nn.Module):
    """A stack whose residual sums are a line of code; its branches begin with a norm unless `bare`."""

    def __init__(self, depth, line, scale=1.0, bare=False, gated=False):
        super().__init__()
        self.entry, self.line, self.bare = nn.Linear(WIDTH, WIDTH), line, bare
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Linear(3, WIDTH) for _ in range(depth if gated else 0))
        for block in self.blocks:
            nn.init.normal_(block.weight, std=scale / math.sqrt(WIDTH))
        for gate in self.gates:
            nn.init.zeros_(gate.weight)
            nn.init.zeros_(gate.bias)

    def forward(self, x, condition):
        x = self.entry(x)
        for layer, (norm, block) in enumerate(zip(self.norms, self.blocks, strict=True)):
            branch = block if self.bare else nn.Sequential(norm, block)
            names = {"x": x, "norm": norm, "branch": branch, "condition": condition.unsqueeze(1)}
            if self.gates:
                names["gate"] = self.gates[layer]
            exec(self.line, names)
            x = names["x"]
        return x


FORWARDS = {
    "a skip above one": ("x = 1.2 * x + branch(x)", 0.0, {}, "the factor 1.2 on x"),
    "a skip above one, by a rule": ("x = 1.2 * x + branch(x)", "gpt-2", {}, "the factor 1.2 on x"),
    "a sum divided": ("x = (x + branch(x)) / 2**0.5", 0.5, {}, "the factor 0.7071 on x"),
    "a stream that explodes": ("x = x + branch(x)", 0.0, {"bare": True, "scale": 3.0}, "branch(norm(x))"),
    "no gate of a condition": ("x = x + branch(x)", "adaln-zero", {}, "weight and bias zero"),
}


@pytest.mark.parametrize("fault", FORWARDS)
def test_the_line_for_a_sum_or_a_missing_gate_mends_it(fault):
    line, expected, how, told = FORWARDS[fault]

    def factory(depth, line=line, gated=False):
        scale = how.get("scale", 1.0) * depth ** (0.0 if expected == 0.0 else -0.5)
        return Summed(depth, line, **{**how, "scale": scale, "gated": gated})

    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(2, 16, WIDTH, generator=generator), torch.randn(2, 3, generator=generator)
    report = dl.check_depth(factory, [4, 8, 16, 32], batch=batch, expected=expected)
    assert report.verdict == "not as expected", report
    (written,) = {finding.fix for finding in report.findings if finding.fix.startswith(IN_FORWARD)}
    assert told in written
    assert written in str(report)
    # The line of a missing gate also says how to make one: zero.
    mended = partial(factory, line=written.removeprefix(IN_FORWARD), gated="gate" in written)
    again = dl.check_depth(mended, [4, 8, 16, 32], batch=batch, expected=expected)
    assert again.verdict == "as expected", f"{written}\n{again}"


def test_a_wrong_count_is_set_right_at_any_depth():
    """The printed line is no table of the depths that were checked."""
    factory = partial(multiplied, shift=1)
    lines = lines_of(dl.check_depth(factory, DEPTHS, batch=tokens(), expected="completep"))
    again = dl.check_depth(mended(factory, lines), [4, 8], batch=tokens(), expected="completep")
    assert not again.findings, again


def test_dozens_of_like_findings_are_told_once_with_their_names():
    like = [
        Finding(
            "h.*.moe",
            f"h.*.moe.{place}.w2.weight",
            4.0 + place / 1000,
            f"std 0.0{place} is 4 times too large.",
        )
        for place in range(30)
    ]
    other = Finding("h.*.attn", "h.*.attn.o.weight", 2.0, "std 0.1 is 2 times too large.")
    told = grouped([*like, other])
    assert len(told) == 2
    assert told[0].startswith("h.*.moe.*.w2.weight (30 of them")
    assert told[1].startswith("h.*.attn.o.weight: ")
    assert grouped([other]) == [str(other)]
    assert grouped([other, other]) == [str(other)]  # as of a gain that two branches share


def encoder(depth):
    """torch's attention applies its projection's weight itself: a hook on the projection never runs."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, WIDTH, 0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.05)
    return model


class Functional(nn.Module):
    """A block that applies its weights itself and adds: no module returns the update."""

    def __init__(self):
        super().__init__()
        self.up, self.down = (nn.Parameter(0.1 * torch.randn(WIDTH, WIDTH)) for _ in range(2))

    def forward(self, x):
        return x + torch.tanh(x @ self.up) @ self.down


def tokens_of_floats():
    return torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(0))


def test_a_factor_on_attention_is_put_on_the_module_that_projects():
    report = dl.check_depth(encoder, DEPTHS, batch=tokens_of_floats, expected="completep")
    lines = lines_of(report)
    assert any("self_attn.register_forward_hook" in line for line in lines)
    assert dl.check_depth(mended(encoder, lines), DEPTHS, batch=tokens_of_floats, expected="completep").ok


def test_where_no_module_returns_the_update_the_line_is_one_for_the_forward():
    def factory(depth):
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Functional() for _ in range(depth)))

    (finding,) = dl.check_depth(factory, DEPTHS, batch=tokens_of_floats, expected="depth-mup").findings
    assert finding.fix.startswith(f"{IN_FORWARD}x = x + ")


def copied(depth):
    """torch's encoder copies its layer, biases included."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, WIDTH, 0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def test_copies_of_one_layer_are_named_in_every_kind_of_branch_at_once():
    given = {"batch": tokens_of_floats, "expected": 0.5}
    report = dl.check_depth(copied, [4, 12], **given)
    named = {finding.branch for finding in report.findings if finding.about == "copies"}
    assert named == {kind.kind for kind in report.branches}
    assert not dl.check_depth(mended(copied, lines_of(report)), [4, 12], **given).findings


class Sandwich(nn.Module):
    """A norm follows the projection and divides out what is done to it."""

    def __init__(self, multiplier):
        super().__init__()
        self.multiplier = multiplier
        self.project, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, elementwise_affine=False)

    def forward(self, x):
        return x + self.multiplier * self.norm(self.project(torch.tanh(x)))


def test_a_factor_before_a_norm_is_no_line():
    def factory(depth):
        return nn.Sequential(*(Sandwich(1 / depth) for _ in range(depth)))

    (finding,) = dl.check_depth(factory, [4, 8, 16], batch=tokens_of_floats, expected=0.5).findings
    assert finding.parameter.startswith("multiplier")
    assert finding.fix.startswith(IN_FORWARD)


FORGOTTEN = {
    "the last layer": lambda layer, depth: layer == depth - 1,
    "the second half": lambda layer, depth: 2 * layer >= depth,
    "two layers of no pattern": lambda layer, depth: layer in (depth // 3, depth // 2),
}


@pytest.mark.parametrize("expected", [1.0, "completep"])
@pytest.mark.parametrize("where", FORGOTTEN)
def test_layers_that_lack_a_factor_at_every_depth_are_set_right_at_every_depth(where, expected):
    def factory(depth):
        model = Network(Block(multiplier=1 / depth) for _ in range(depth))
        for layer, block in enumerate(model.blocks):
            block.multiplier = 1.0 if FORGOTTEN[where](layer, depth) else 1 / depth
        return model

    report = dl.check_depth(factory, DEPTHS, batch=tokens(), expected=expected)
    assert {finding.layers for finding in report.findings} == {
        tuple(layer for layer in range(DEPTHS[-1]) if FORGOTTEN[where](layer, DEPTHS[-1]))
    }
    lines = lines_of(report)
    assert dl.check_depth(mended(factory, lines), DEPTHS, batch=tokens(), expected=expected).ok


@pytest.mark.parametrize(
    "line",
    ["1 / 0", "model.blocks[0].attn.o.register_forward_hook(lambda module, given, out: out * absent)"],
)
def test_a_line_of_probe_is_run_on_a_copy_before_it_is_printed(monkeypatch, line):
    with torch.random.fork_rng():
        model = gpt(4, fault="not applied")
    before = [parameter.clone() for parameter in model.parameters()]
    report = dl.probe(model, tokens(), expected="gpt-2")
    assert all(finding.fix for finding in report.findings)
    monkeypatch.setattr(Fixes, "initialise", lambda *_: line)
    again = dl.probe(model, tokens(), expected="gpt-2")
    assert again.findings
    assert not any(finding.fix for finding in again.findings)
    for parameter, kept in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, kept)


def test_a_name_with_ends_of_lines_makes_no_line_of_the_report():
    report = dl.check_depth(partial(Named, name="a\nb"), DEPTHS, batch=tokens(), expected=1.0)
    assert report.findings
    lines = str(report).splitlines()
    assert any("a\\nb" in line for line in lines)
    assert not any(line.startswith("b.") for line in lines)


class WithBiases(nn.Module):
    """A branch whose last layer has torch's own biases, which add up like weights."""

    def __init__(self, convolution, width=8):
        super().__init__()
        layer = partial(nn.Conv1d, kernel_size=3, padding=1) if convolution else nn.Linear
        self.first, self.last = layer(width, width), layer(width, width)

    def forward(self, h):
        return h + self.last(torch.nn.functional.gelu(self.first(h)))


@pytest.mark.parametrize("expected", [0.5, 1.0])
@pytest.mark.parametrize("convolution", [False, True])
def test_all_lines_that_a_branch_with_biases_needs_are_printed_at_once(convolution, expected):
    def factory(depth):
        return nn.Sequential(*(WithBiases(convolution) for _ in range(depth)))

    depths, shape = [4, 8, 16], (4, 8, 16) if convolution else (8, 8)
    batch = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    report = dl.check_depth(factory, depths, batch=batch, expected=expected)
    assert [finding.parameter.rpartition(".")[2] for finding in report.findings] == ["weight", "bias"]
    again = dl.check_depth(mended(factory, lines_of(report)), depths, batch=batch, expected=expected)
    assert again.verdict == "as expected", again
