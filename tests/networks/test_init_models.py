"""`dl.init.residual_` on modules as people write them: branches are found, and scale with depth as they were
asked to.
"""

import pytest
import torch
from torch import nn

import deeplimit as dl

WIDTH = 16


@pytest.fixture(autouse=True)
def own_generator():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def encoder(depth, **knobs):
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True, **({"norm_first": True} | knobs))
    model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    for parameter in model.parameters():  # copies of one layer until each is drawn for itself
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter)
    return model


TOKENS = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(0))


class Residual(nn.Module):
    def __init__(self, factor=1.0, gain=None):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.factor = factor
        self.gamma = None if gain is None else nn.Parameter(torch.full((WIDTH,), gain))

    def forward(self, x):
        branch = self.down(torch.relu(self.up(self.norm(x)))) * self.factor
        return x + (branch if self.gamma is None else self.gamma * branch)


class Stage(nn.Module):
    """A stage of a ResNet: batch norms after convolutions, a projected shortcut first."""

    def __init__(self, depth, normed=True):
        super().__init__()
        self.short = nn.Conv2d(3, 8, 1)
        self.conv1 = nn.ModuleList([nn.Conv2d(3 if k == 0 else 8, 8, 3, padding=1) for k in range(depth)])
        self.conv2 = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(8) if normed else nn.Identity() for _ in range(depth)])

    def forward(self, x):
        for k, (first, second, norm) in enumerate(zip(self.conv1, self.conv2, self.norms, strict=True)):
            branch = norm(second(torch.relu(first(x))))
            x = torch.relu((self.short(x) if k == 0 else x) + branch)
        return x


def exponents(depths, **knobs):
    def factory(depth):
        model = encoder(depth)
        dl.init.residual_(model, batch=TOKENS, seed=1, **({"biases": "zero"} | knobs))
        return model

    report = dl.check_depth(factory, depths, batch=TOKENS)
    return {kind.kind: kind.exponent for kind in report.branches}


@pytest.mark.parametrize(
    ("knobs", "exponent"),
    [
        ({}, 0.5),
        ({"hurst": 0.7}, 0.7),
        ({"hurst": 0.3}, 0.5),
        ({"process": dl.SmoothGaussian(0.3)}, 1.0),
        ({"exponent": 0}, 0.0),
    ],
    ids=str,
)
def test_the_exponent_that_was_set_is_the_one_that_a_depth_check_measures(knobs, exponent):
    for kind, measured in exponents([4, 8, 16], **knobs).items():
        assert measured == pytest.approx(exponent, abs=0.12), kind


def test_biases_of_output_projections_are_kept_and_named_or_cleared():
    model = nn.Sequential(*(Residual() for _ in range(4)))
    before = [block.down.bias.detach().clone() for block in model]
    done = dl.init.residual_(model, batch=TOKENS, biases="keep")
    assert all(torch.equal(block.down.bias, old) for block, old in zip(model, before, strict=True))
    (note,) = done.notes
    assert note.startswith("*.down.bias")
    kept = model[2].up.bias.detach().clone()
    assert dl.init.residual_(model, batch=TOKENS).notes == ()
    assert not any(bool(block.down.bias.any()) for block in model)
    assert torch.equal(model[2].up.bias, kept)


def test_roles_of_an_encoder_are_found_by_name():
    done = dl.init.residual_(encoder(6), batch=TOKENS, biases="keep")
    assert {(role.role, role.part, role.layers, role.fan_in) for role in done.roles} == {
        ("layers.*.self_attn.out_proj.weight", "output", (1, 2, 3, 4, 5, 6), WIDTH),
        ("layers.*.self_attn.in_proj_weight", "inner", (1, 2, 3, 4, 5, 6), None),
        ("layers.*.linear2.weight", "output", (1, 2, 3, 4, 5, 6), 32),
        ("layers.*.linear1.weight", "inner", (1, 2, 3, 4, 5, 6), None),
    }
    assert ["bias has" in note for note in done.notes] == [True]  # of linear2; attention starts its own at 0


IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("build", "batch", "words"),
    [
        (lambda: encoder(4, norm_first=False), TOKENS, ["post-norm", "post-norm"]),
        (lambda: nn.Sequential(*(Residual(0.5) for _ in range(4))), TOKENS, ["0.5"]),
        (lambda: nn.Sequential(*(Residual(0.25 + 0.25 * k) for k in range(2))), TOKENS, ["0.25 to 0.5"]),
        (lambda: nn.Sequential(*(Residual(gain=1e-5) for _ in range(4))), TOKENS, ["0.gamma", "1e-05"]),
        (lambda: Stage(5), IMAGES, ["undoes"]),
    ],
)
def test_what_scales_the_branch_beside_its_projection_is_named(build, batch, words):
    notes = dl.init.residual_(build(), batch=batch).notes
    for word in words:
        assert sum(word in note for note in notes) == words.count(word), notes


def test_a_block_that_opens_a_stage_is_a_layer_of_it_but_stays_as_it_was():
    model = Stage(5, normed=False)
    first = model.conv2[0].weight.detach().clone()
    done = dl.init.residual_(model, batch=IMAGES)
    assert not any("undoes" in note for note in done.notes)
    (output,) = (role for role in done.roles if role.part == "output")
    assert (output.role, output.depth, output.layers, output.fan_in) == (
        "conv2.*.weight",
        5,
        (2, 3, 4, 5),
        72,
    )
    assert output.standard_deviation == pytest.approx(5**-0.5 / 72**0.5)
    (inner,) = (role for role in done.roles if role.part == "inner")
    assert (inner.role, inner.layers) == ("conv1.*.weight", (2, 3, 4, 5))
    assert torch.equal(model.conv2[0].weight, first)


def test_tables_inside_a_branch_are_left_as_they_are():
    class Biased(Residual):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 32)

        def forward(self, x):
            bias = self.table(torch.arange(x.shape[1])) @ self.up.weight
            return x + self.down(torch.relu(self.up(self.norm(x) + bias)))

    model = nn.Sequential(*(Biased() for _ in range(3)))
    before = [block.table.weight.detach().clone() for block in model]
    done = dl.init.residual_(model, batch=TOKENS)
    assert all(torch.equal(block.table.weight, old) for block, old in zip(model, before, strict=True))
    assert not any("table" in role.role for role in done.roles)


def test_blocks_may_be_pointed_at():
    model = nn.ModuleDict(
        {
            "a": nn.Sequential(*(Residual() for _ in range(3))),
            "b": nn.Sequential(*(Residual() for _ in range(5))),
        }
    )
    model.forward = lambda x: model["b"](model["a"](x))
    before = model["a"][0].down.weight.detach().clone()
    done = dl.init.residual_(model, batch=TOKENS, blocks="b.*")
    assert {role.depth for role in done.roles} == {5}
    assert torch.equal(model["a"][0].down.weight, before)


def test_global_generators_modes_and_gradients_are_left_alone():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.randn(x.shape[-1])

    model = encoder(3)
    model.norm = Noisy()
    model.layers[1].eval()
    frozen = model.layers[0].linear1.weight.requires_grad_(False)
    before = torch.get_rng_state()
    dl.init.residual_(model, batch=TOKENS)
    assert torch.equal(torch.get_rng_state(), before)
    assert [layer.training for layer in model.layers] == [True, False, True]
    assert not frozen.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
