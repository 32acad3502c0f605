"""`dl.init.residual_`: one law across the layers of a model's branches, and nothing else touched."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats
from told_parts import Told
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.branches import Branch
from deeplimit.networks.initialise import residual, roles

DEPTH, WIDTH = 6, 64
LEVEL = 1e-6


class Conv1D(nn.Module):
    """As in the package transformers: x @ weight + bias, weight (in, out)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.zeros(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        return x @ self.weight + self.bias


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = Conv1D(WIDTH, 4 * WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, depth=DEPTH):
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(depth)])
        self.head = nn.Linear(WIDTH, 3)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(9)
            for name, parameter in self.named_parameters():
                parameter.normal_(generator=generator).mul_(0.05 if "up" in name else 0.3)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def branch(k, stream=0, prefix="blocks", **changes):
    own = f"{prefix}.{k}"
    parts = {
        "kind": f"{prefix}.*",
        "name": own,
        "stream": stream,
        "index": k,
        "output": (f"{own}.down.weight",),
        "inner": (f"{own}.up.weight",),
        "gains": (),
    }
    return Branch(**(parts | changes))


@pytest.fixture
def found(monkeypatch):
    """Let the test say what is found in a model."""

    def say(branches, heads=(0, 0)):
        monkeypatch.setattr(
            residual,
            "find_parts",
            lambda model, batch, blocks: (tuple(Told(item) for item in branches), heads),
        )

    say([branch(k) for k in range(DEPTH)])
    return say


@pytest.fixture
def model():
    with torch.random.fork_rng():
        return Model()


def normalised(tensors, scale):
    return torch.stack([tensor.detach().double().reshape(-1) for tensor in tensors]).numpy() / scale


def scores(values, expected):
    measured = values @ values.T / values.shape[1]
    return float(np.abs((measured - expected) / np.sqrt((1.0 + expected**2) / values.shape[1])).max())


def noise(hurst, layers=DEPTH):
    lags = np.abs(np.subtract.outer(np.arange(layers), np.arange(layers))).astype(float)
    return 0.5 * ((lags + 1) ** (2 * hurst) - 2 * lags ** (2 * hurst) + np.abs(lags - 1) ** (2 * hurst))


FAR = stats.norm.isf(LEVEL / DEPTH**2)


@pytest.mark.statistical
def test_output_and_inner_weights_follow_the_law_with_and_without_the_scale(found, model):
    before = float(torch.stack([block.up.weight for block in model.blocks]).detach().square().mean().sqrt())
    done = dl.init.residual_(model, hurst=0.8, seed=3)
    down = DEPTH**-0.8 / math.sqrt(4 * WIDTH)  # the fan-in of an (in, out) weight is its first dimension
    outputs = normalised([block.down.weight for block in model.blocks], down)
    inner = normalised([block.up.weight for block in model.blocks], before)
    assert scores(outputs, noise(0.8)) < FAR
    assert scores(inner, noise(0.8)) < FAR
    assert scores(inner, noise(0.76)) > FAR
    cross = inner @ outputs.T / outputs.shape[1]
    assert np.abs(cross).max() * math.sqrt(outputs.shape[1]) < FAR
    by_part = {role.part: role for role in done.roles}
    assert by_part["output"].role == "blocks.*.down.weight"
    assert by_part["output"].fan_in == 4 * WIDTH
    assert by_part["output"].standard_deviation == pytest.approx(down)
    assert by_part["inner"].standard_deviation == pytest.approx(before)
    assert by_part["inner"].before == pytest.approx(before)
    assert by_part["inner"].layers == tuple(range(1, DEPTH + 1))
    assert (done.limit, done.exponent, done.hurst, done.model) == ("young", 0.8, 0.8, "Model")
    content = done.to_dict()["roles"][0]
    assert (content["role"], content["layers"]) == ("blocks.*.down.weight", [1, 2, 3, 4, 5, 6])
    assert "blocks.*.down.weight" in str(done)


def test_nothing_else_is_touched(found, model):
    before = copy.deepcopy(model.state_dict())
    dl.init.residual_(model)
    for name, value in model.state_dict().items():
        changed = not torch.equal(value, before[name])
        assert changed == name.endswith(("up.weight", "down.weight", "down.bias")), name
    inner = model.blocks[2].up.weight.detach().clone()
    done = dl.init.residual_(model, process=dl.SmoothGaussian(0.2), weights="output", seed=1)
    assert not torch.equal(model.blocks[0].down.weight, before["blocks.0.down.weight"])
    assert torch.equal(model.blocks[2].up.weight, inner)
    assert [role.part for role in done.roles] == ["output"]
    assert len(done.notes) == 1
    assert (done.limit, done.length_scale, done.hurst) == ("ode", 0.2, None)


@pytest.mark.parametrize(
    ("given", "exponent", "limit"),
    [
        ({}, 0.5, "sde"),
        ({"hurst": 0.5}, 0.5, "sde"),
        ({"hurst": 0.25}, 0.5, "no theorem"),
        ({"process": dl.IID("rademacher")}, 0.5, "sde"),
        ({"process": dl.SmoothGaussian()}, 1.0, "ode"),
        ({"process": dl.FractionalBrownian(0.6), "exponent": 0.4}, 0.4, "explosion"),
        ({"exponent": 0}, 0.0, "explosion"),
        ({"exponent": 1}, 1.0, "identity"),
    ],
)
def test_the_law_and_the_exponent(found, model, given, exponent, limit):
    done = dl.init.residual_(model, gain=2.0, **given)
    assert (done.exponent, done.limit) == (exponent, limit)
    output = next(role for role in done.roles if role.part == "output")
    assert output.standard_deviation == pytest.approx(2.0 * DEPTH**-exponent / math.sqrt(4 * WIDTH))
    measured = float(
        torch.stack([block.down.weight for block in model.blocks]).detach().square().mean().sqrt()
    )
    assert measured == pytest.approx(output.standard_deviation, rel=0.05)


def test_the_same_seed_and_the_same_generator_give_the_same_model(found, model):
    again, other, drawn, drawn_again = (copy.deepcopy(model) for _ in range(4))
    for target, seed in ((model, 5), (again, 5), (other, 6)):
        dl.init.residual_(target, hurst=0.3, seed=seed)
    for target in (drawn, drawn_again):
        dl.init.residual_(target, hurst=0.3, seed=torch.Generator().manual_seed(5))
    same = [torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(model.blocks[0].up.weight, other.blocks[0].up.weight)
    assert torch.equal(drawn.blocks[3].down.weight, drawn_again.blocks[3].down.weight)


@pytest.mark.statistical
def test_streams_have_depths_and_numbers_of_their_own(found):
    with torch.random.fork_rng():
        model = nn.ModuleDict({"encoder": Model(4).blocks, "decoder": Model(8).blocks})
    found([branch(k, 0, "encoder") for k in range(4)] + [branch(k, 1, "decoder") for k in range(8)])
    done = dl.init.residual_(model, process=dl.IID("rademacher"))
    for name, depth in (("encoder", 4), ("decoder", 8)):
        size = model[name][1].down.weight.abs()
        torch.testing.assert_close(size.detach(), torch.full_like(size, depth**-0.5 / math.sqrt(4 * WIDTH)))
    assert [(role.stream, role.depth) for role in done.roles] == [(0, 4), (0, 4), (1, 8), (1, 8)]
    first, second = (torch.sign(model[name][0].down.weight.detach()) for name in ("encoder", "decoder"))
    assert abs(float((first * second).mean())) * math.sqrt(first.numel()) < FAR


def test_branches_are_ordered_by_execution_not_as_they_are_listed(found, model):
    other = copy.deepcopy(model)
    dl.init.residual_(model, hurst=0.9)
    found([branch(k) for k in reversed(range(DEPTH))])
    dl.init.residual_(other, hurst=0.9)
    assert torch.equal(model.blocks[1].up.weight, other.blocks[1].up.weight)


def signs(*shape):
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(1)) * 2.0 - 1.0


def test_what_was_not_drawn_from_a_centred_law_is_left_and_named(found, model):
    found(
        [
            branch(k, inner=(f"blocks.{k}.up.weight", f"blocks.{k}.rates", f"blocks.{k}.mixing"))
            for k in range(DEPTH)
        ]
    )
    for block in model.blocks:
        block.rates = nn.Parameter(torch.arange(1.0, 17.0).log().repeat(WIDTH, 1))
        block.mixing = nn.Parameter(torch.eye(WIDTH))
    # Copies of one layer say no more against it than the layer does: 2 standard errors stay 2.
    shifted = model.blocks[0].up.weight.detach()
    shifted += 2.0 * 0.05 / shifted.numel() ** 0.5 - shifted.mean()
    for block in model.blocks:
        block.up.weight = nn.Parameter(shifted.clone())
    done = dl.init.residual_(model)
    assert {role.role for role in done.roles} == {"blocks.*.down.weight", "blocks.*.up.weight"}
    assert sum("its mean is not 0" in note for note in done.notes) == 2
    assert torch.equal(model.blocks[2].mixing, torch.eye(WIDTH))


@pytest.mark.statistical
def test_a_layer_of_another_shape_keeps_its_place(found, model):
    with torch.no_grad():
        model.blocks[0].up.weight = nn.Parameter(0.05 * signs(4 * WIDTH, WIDTH // 2))
    done = dl.init.residual_(model, hurst=0.9, seed=7)
    layers = {role.shape: role.layers for role in done.roles if role.part == "inner"}
    assert layers == {(4 * WIDTH, WIDTH // 2): (1,), (4 * WIDTH, WIDTH): (2, 3, 4, 5, 6)}
    rest = normalised([block.up.weight for block in list(model.blocks)[1:]], 0.05)
    assert scores(rest, noise(0.9)[1:, 1:]) < FAR
    assert sum("layers only" in note for note in done.notes) == 2


@pytest.mark.statistical
def test_positions_of_a_smooth_law_are_those_of_the_whole_stack(found, model):
    places = [0, 2, 5]
    found([branch(k) if k in places else branch(k, inner=(f"blocks.{k}.other",)) for k in range(DEPTH)])
    for k in (1, 3, 4):
        model.blocks[k].other = nn.Parameter(torch.ones(3, 3))
    dl.init.residual_(model, process=dl.SmoothGaussian(0.3))
    values = normalised([model.blocks[k].up.weight for k in places], 0.05)
    lags, packed = (np.abs(np.subtract.outer(at, at)) for at in (np.array(places) / DEPTH, np.arange(3) / 3))
    assert scores(values, np.exp(-(lags**2) / (2 * 0.3**2))) < FAR
    assert scores(values, np.exp(-(packed**2) / (2 * 0.3**2))) > FAR


def test_a_branch_of_which_there_is_one_is_left_and_named(found, model):
    found([*(branch(k) for k in range(DEPTH - 1)), branch(DEPTH - 1, kind="last", name="last")])
    before = model.blocks[-1].down.weight.detach().clone()
    done = dl.init.residual_(model)
    assert torch.equal(model.blocks[-1].down.weight, before)
    assert any(note.startswith("last is left as it was") for note in done.notes)
    assert done.roles[0].depth == DEPTH - 1


def test_inner_weights_of_zeros_stay_zeros(found, model):
    for block in model.blocks:
        block.up.weight.data.zero_()
    done = dl.init.residual_(model)
    assert not model.blocks[0].up.weight.any()
    assert any("all zeros" in note for note in done.notes)
    assert [role.part for role in done.roles] == ["output"]


@pytest.mark.parametrize(
    ("module", "name", "shape", "expected"),
    [
        (nn.Linear(5, 7), "weight", (7, 5), 5),
        (nn.Conv2d(6, 4, 3, groups=2), "weight", (4, 3, 3, 3), 27),
        (nn.Conv1d(6, 4, 5), "weight", (4, 6, 5), 30),
        (nn.ConvTranspose2d(6, 4, 3, groups=2), "weight", (6, 2, 3, 3), 27),
        (Conv1D(7, 5), "weight", (5, 7), 5),
        (nn.MultiheadAttention(8, 2), "in_proj_weight", (24, 8), 8),
        (nn.MultiheadAttention(8, 2), "out_proj.weight", (8, 8), 8),
        (nn.ParameterDict({"w": torch.zeros(2, 3, 4)}), "w", (2, 3, 4), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_the_fan_in_is_that_of_the_module(module, name, shape, expected):
    model = nn.ModuleDict({"part": module})
    tensor = dict(model.named_parameters())[f"part.{name}"]
    assert tuple(tensor.shape) == shape
    assert roles.fan_in(model, f"part.{name}", tensor) == expected
    if not isinstance(module, (nn.MultiheadAttention, nn.ParameterDict, nn.ConvTranspose2d)):
        with torch.no_grad():  # an output is the sum of so many products
            tensor.fill_(1.0)
            module.bias.zero_()
            channels = getattr(module, "in_channels", 5)
            x = torch.ones(1, channels, *([5] * (tensor.ndim - 2)))
            assert float(module(x).max()) == expected


@pytest.mark.parametrize(
    ("parameter", "outputs", "role"),
    [
        ("h.3.attn.into.weight", ["h.3.attn.back.weight", "h.4.attn.back.weight"], "h.*.attn.into.weight"),
        ("blocks.3.0.weight", ["blocks.3.2.weight", "blocks.4.2.weight"], "blocks.*.0.weight"),
        ("blocks.3.3.weight", ["blocks.3.5.weight", "blocks.4.5.weight"], "blocks.*.3.weight"),
        ("s.1.b.2.conv.weight", ["s.1.b.2.out.weight", "s.1.b.3.out.weight"], "s.1.b.*.conv.weight"),
        ("s.1.b.0.conv.w", ["s.1.b.0.out.w", "s.0.b.1.out.w", "s.0.b.0.out.w"], "s.*.b.*.conv.w"),
        ("block12.up", ["block12.down", "block2.down"], "block*.up"),
        ("tables.3.weight", ["blocks.3.weight", "blocks.4.weight"], "tables.*.weight"),
        ("shared.weight", ["h.3.attn.weight", "h.4.attn.weight"], "shared.weight"),
        ("h.0.weight", ["h.0.weight", "h.0.weight"], "h.0.weight"),
    ],
)
def test_a_role_is_a_parameter_with_its_layer_left_open(parameter, outputs, role):
    words = [output.split(".") for output in outputs]
    assert roles.role_name(parameter, words[0], words) == role


@pytest.mark.parametrize("failure", [RuntimeError("no memory"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_failure_midway_changes_no_tensor(failure, monkeypatch):
    with torch.random.fork_rng():
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    before = [each.detach().clone() for each in model.parameters()]
    write, calls = residual.write_layers, []

    def failing(*arguments):
        calls.append(write(*arguments))
        if len(calls) == 2:
            raise failure

    monkeypatch.setattr(residual, "write_layers", failing)
    with pytest.raises(type(failure)):
        dl.init.residual_(model, batch=torch.zeros(1, 5, 8))
    assert len(calls) == 2
    assert all(map(torch.equal, before, model.parameters()))


class Experts(nn.Module):
    """One layer: a sum of experts, weighed by a router."""

    def __init__(self, width=24, experts=3):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width)) for _ in range(experts)
        )

    def forward(self, h):
        shares = self.router(h).softmax(-1)
        return h + sum(shares[..., j : j + 1] * each(h) for j, each in enumerate(self.experts))


def test_experts_of_one_sum_are_one_layer_and_the_law_runs_over_layers():
    """Level 1e-6: correlations of 768 entries have standard errors below 0.037."""
    with seeded(0):
        model = nn.Sequential(*(Experts() for _ in range(8)))
    done = dl.init.residual_(model, hurst=0.8, batch=torch.ones(2, 24))
    assert {role.depth for role in done.roles} == {8}
    weights = torch.stack(
        [torch.stack([each[2].weight.detach().flatten() for each in layer.experts]) for layer in model]
    )
    assert abs(float(weights.std()) * 32**0.5 / 8**-0.8 - 1) < 0.05
    assert float(torch.cosine_similarity(weights[1:], weights[:-1], dim=-1).mean()) > 0.4  # 2^0.6 - 1 = 0.52
    assert torch.cosine_similarity(weights[:, 1:], weights[:, :-1], dim=-1).mean().abs() < 0.1


@pytest.mark.parametrize(
    ("factor", "named"), [(1.0, False), (DEPTH**-0.5, True), (1 / DEPTH, True), (0.7, False)]
)
def test_a_number_of_the_forward_is_no_part_of_the_weights_exponent(factor, named):
    """One network leaves open whether 0.41 is 6^-1/2; if so, branches fall with exponent 1."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(DEPTH))

        def forward(self, x):
            for block in self.blocks:
                x = x + factor * block(torch.tanh(x))
            return x

    with seeded(0):
        model = Scaled()
    done = dl.init.residual_(model, batch=torch.ones(2, 8))
    assert done.scaled_further == (factor != 1)
    assert any(f"{DEPTH}^-" in note for note in done.notes) == named
