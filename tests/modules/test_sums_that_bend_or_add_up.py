"""`check_depth` of streams that a function acts on between sums, and of layers with a part in common."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import deeplimit as dl
from deeplimit.modules.depth_check.stream_meaning import BENT, DYING

WIDTH = 32
X = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(1))


def same(x):
    return x


class Net(nn.Module):
    """h <- after(h + depth**-1/2 act(W h + b)), with a part of all W or b that is the same in all layers."""

    def __init__(self, depth, act=same, after=same, common=0.0, bias=0.0, outer=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))
        self.outer = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth * outer))
        weight, shift = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH)
        for layer in (*self.layers, *self.outer):
            nn.init.normal_(layer.weight, std=WIDTH**-0.5)
            layer.weight.data += common * weight * WIDTH**-0.5
            layer.bias.data = bias * shift.clone()
        self.act, self.after = act, after

    def forward(self, x):
        for place, layer in enumerate(self.layers):
            update = self.act(layer(x))
            update = self.outer[place](update) if self.outer else update
            x = self.after(x + len(self.layers) ** -0.5 * update)
        return x


def checked(seed=3, **options):
    return dl.check_depth(
        lambda depth: Net(depth, **options), (4, 8, 16, 32), batch=X, expected=0.5, seed=seed
    )


AFTER = {
    "tanh": torch.tanh,
    "softsign": functional.softsign,
    "sin": torch.sin,
    "slow": lambda x: x / (1 + 0.1 * x.abs()),
    "gelu": functional.gelu,
}


@pytest.mark.parametrize("name", AFTER)
def test_a_function_between_sums_that_takes_the_state_away_is_the_finding(name):
    """Softsign leaves 1/L of a state, tanh L^-1/2; no earlier state is added, as the report once said."""
    report = checked(after=AFTER[name])
    assert report.verdict == "not as expected"
    assert report.streams[0].meaning == DYING
    assert [finding.about for finding in report.findings] == ["growth"]
    assert report.streams[0].growth[-1] < 0.5


@pytest.mark.parametrize("after", [same, torch.relu, lambda x: x.clamp(-9, 9)], ids=["none", "relu", "far"])
def test_what_leaves_the_state_as_it_is_bends_nothing(after):
    report = checked(after=after)
    assert report.verdict == "as expected"
    assert report.streams[0].meaning == "finite clock"


BENDING = {
    "clamp": lambda x: x.clamp(-1, 1),
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "masked": lambda x: torch.where(torch.arange(WIDTH) % 3 > 0, x, 0.0),
}


@pytest.mark.parametrize("name", BENDING)
def test_a_function_that_leaves_the_state_alone_in_the_end_is_no_finding(name):
    report = checked(after=BENDING[name])
    assert report.verdict == "as expected"
    assert report.streams[0].meaning == BENT


PARTS = {
    "gelu": {"act": functional.gelu},
    "silu": {"act": functional.silu},
    "leaky": {"act": lambda x: functional.leaky_relu(x, 0.5)},
    "bias": {"bias": 0.7},
    "weight": {"common": 0.4},
}


@pytest.mark.parametrize("name", PARTS)
def test_updates_with_a_mean_in_common_ask_for_another_exponent(name):
    """Their drift grows like L^1/2: for GELU the state grows 3-fold at L = 32 and 3000-fold at 512."""
    report = checked(**PARTS[name])
    assert report.verdict == "not as expected"
    assert [finding.about for finding in report.findings] == ["copies"]
    assert report.branches[0].exponent == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("name", ["gelu", "silu", "leaky"])
def test_behind_a_projection_that_is_drawn_apart_an_activation_has_no_mean(name):
    assert checked(**PARTS[name], outer=True).verdict == "as expected"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_small_part_in_common_is_never_as_expected(seed):
    """ELU's mean is a fifth of its size."""
    report = checked(seed, act=functional.elu)
    assert report.verdict in ("not as expected", "cannot tell")


def test_at_exponent_one_a_mean_in_common_is_what_is_expected():
    def factory(depth):
        return Net(depth, act=lambda x: depth**-0.5 * functional.gelu(x))

    assert dl.check_depth(factory, (4, 8, 16, 32), batch=X, expected=1, seed=3).verdict == "as expected"


def test_layers_that_undo_each_other_say_little_by_one_update():
    """Layers W, -W, W', -W', ... of size L**-1/2: each pair is 1 - W W / L, and all together the identity."""

    def factory(depth):
        net = Net(depth)
        for one, other in zip(net.layers[::2], net.layers[1::2], strict=True):
            other.weight.data = -one.weight.data
        return net

    report = dl.check_depth(factory, (4, 8, 16, 32), batch=X, expected=0.5, seed=3)
    assert report.verdict == "cannot tell"
    assert report.branches[0].neighbours == pytest.approx(-0.5, abs=0.1)
    assert any("undo each other" in said for said in report.reservations)


def test_a_first_state_that_every_layer_reads_is_no_function_of_the_sum_before():
    """What an embedding makes of tokens depends on parameters alone, as autograd sees it."""

    class Mixed(Net):
        def __init__(self, depth):
            super().__init__(depth)
            self.stem = nn.Embedding(11, WIDTH)

        def forward(self, tokens):
            first = x = self.stem(tokens)
            for layer in self.layers:
                x = 0.9 * x + 0.1 * first
                x = x + len(self.layers) ** -0.5 * layer(torch.tanh(x))
            return x

    tokens = torch.arange(24).reshape(4, 6) % 11
    report = dl.check_depth(Mixed, (4, 8, 16, 32), batch=tokens, expected=0.5, seed=3)
    assert report.streams[0].meaning not in (BENT, DYING)
    assert max(report.streams[0].mixed) > 0.02


def test_layers_of_a_fractional_law_are_right_at_their_own_index():
    """Updates fall like depth^-0.7, and their sum grows like the power 0.7 of their number."""

    def factory(depth):
        net = Net(depth)
        dl.init.sample_([layer.weight for layer in net.layers], dl.FractionalBrownian(0.7), exponent=0.2)
        return net

    right = dl.check_depth(factory, (4, 8, 16, 32), batch=X, expected=0.7, seed=3)
    assert not right.findings
    wrong = dl.check_depth(factory, (4, 8, 16, 32), batch=X, expected=0.5, seed=3)
    assert wrong.verdict != "as expected"


def test_a_small_part_in_common_is_not_recommended_as_it_is():
    found = dl.recommend(lambda depth: Net(depth, act=functional.elu), 64, batch=X, depths=(4, 8, 16, 32))
    assert found.verdict == "cannot tell"
