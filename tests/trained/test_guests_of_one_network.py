"""Networks as users bring them: replicates, nulls, few layers, many objects, convolutions, no norm."""

import copy
import math

import numpy as np
import pytest
import torch
from refusals import assert_refused
from test_guests_of_sweeps import Block, scrambled, shown, smooth
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.order_test import order_test
from deeplimit.trained.diagnosis.wording import ENTRY_BY_ENTRY, NO_MODULE


def untrained(depth=11, width=7, hidden=13):
    return nn.Sequential(*(Block(width, hidden) for _ in range(depth)))


def matrices(depth, width=7, turn=1.5):
    """Layers of one matrix that turn slowly over depth; independent ones for a turn of None."""
    with seeded(4):
        network = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
    if turn is not None:
        first, second = network[0].weight.detach().clone(), network[1].weight.detach().clone()
        with torch.no_grad():
            for k, layer in enumerate(network):
                angle = turn * (k + 0.5) / depth
                layer.weight.copy_(math.cos(angle) * first + math.sin(angle) * second)
    return network


def turning(depth, width, seed, noise=0.05):
    """Layers that turn slowly over depth, with little noise."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, width))
    angles = np.linspace(0, 1.8, depth)[:, None]
    return np.cos(angles) * first + np.sin(angles) * second + noise * rng.normal(size=(depth, width))


def noise(depth):
    """Independent layers."""
    return torch.randn(depth, 9, 9, generator=torch.Generator().manual_seed(depth))


@pytest.mark.nightly
def test_blocks_with_both_biases_and_no_norm_have_grams_on_the_side_of_the_stream():
    network = smooth(14, width=7, hidden=13)
    report = dl.diagnose(network)
    weights = {each.name: each for each in report.objects if each.what == "weights"}
    assert [*weights] == ["*: product", "*: read Gram", "*: write Gram"]
    assert {each.entries for each in weights.values()} == {49}
    assert {str(each.verdict) for each in weights.values()} == {"smooth trend"}
    twin = dl.diagnose(scrambled(network, 1))
    assert shown(report)[:4] == shown(twin)[:4]
    # Names and shapes alone leave the width of the stream open.
    assert_refused(lambda: dl.diagnose(network.state_dict()), ValueError, "weights", "7 or 13", "module")


@pytest.mark.parametrize(("depth", "real"), [(6, False), (7, True), (8, True)])
def test_few_smooth_layers_have_one_answer_about_their_order(depth, real):
    """The smallest p-value of six layers is 4/6!, above the level."""
    report = dl.diagnose({"A": turning(depth, 60, 0)})
    (found,) = report.objects
    assert found.p_value == pytest.approx(4 / math.factorial(depth), rel=0.3)
    assert (len(report.ordered) == 1) is real
    assert (found.correlation == "decaying") is real


@pytest.mark.nightly
def test_the_order_of_fifty_one_smooth_objects_is_real_in_all_of_them():
    names = [chr(97 + k % 26) * (1 + k // 26) for k in range(51)]
    report = dl.diagnose({name: turning(15, 40, k) for k, name in enumerate(names)})
    assert len(report.ordered) == 51
    assert {str(each.verdict) for each in report.objects} == {"smooth trend"}
    # The control: with layers in a random order none is.
    shuffle = np.random.default_rng(0).permutation(15)
    report = dl.diagnose({name: turning(15, 40, k)[shuffle] for k, name in enumerate(names)})
    assert len(report.ordered) <= 1


def test_a_p_value_has_no_floor_that_the_bound_over_many_objects_cannot_reach():
    layers = turning(15, 40, 0)
    assert order_test(LayerGram(layers @ layers.T / 40, 40)).p_value < 0.01 / 500


@pytest.mark.nightly
def test_the_tail_of_the_order_test_is_not_too_small():
    """Against 10^6 orders of nine layers, of which few are as smooth."""
    for seed in range(4):
        layers = turning(9, 30, seed, noise=0.6)
        gram = LayerGram(layers @ layers.T / 30, 30)
        few, many = (order_test(gram, seed=5, permutations=count) for count in (9999, 1_000_000))
        assert many.p_smooth < 1e-3
        assert many.p_smooth / 2 < few.p_smooth < 20 * many.p_smooth


def test_replicates_are_pooled_in_a_list_or_at_one_depth():
    networks = [matrices(9) for _ in range(2)]
    with seeded(2), torch.no_grad():
        for network in networks:
            for parameter in network.parameters():
                parameter.add_(0.5 * torch.randn(parameter.shape) * parameter.std())
    one, both = dl.diagnose(networks[0]), dl.diagnose(networks)
    assert (one.replicates, both.replicates) == (1, 2)
    assert shown(both)[0] == shown(dl.diagnose({9: networks}))[0]
    for alone, pooled in zip(one.objects, both.objects, strict=True):
        assert pooled.name == alone.name
        assert pooled.entries == 2 * alone.entries
    product = both.objects[0]
    assert product.p_value < one.objects[0].p_value < 0.05
    assert product.effective_entries > 1.1 * one.objects[0].effective_entries
    assert_refused(
        lambda: dl.diagnose([matrices(9), matrices(8)]),
        ValueError,
        "weights",
        "weights[1]",
        "numbers of layers",
    )


def test_one_module_at_one_depth_is_one_network():
    network = matrices(9)
    alone = dl.diagnose(network)
    for given in ({9: network}, {9: [network]}):
        assert dl.diagnose(given).verdict == alone.verdict


def test_untrained_and_shuffled_layers_stand_in_the_same_table():
    network = matrices(12)
    report = dl.diagnose(network, null=lambda: matrices(12, turn=None))
    assert report.verdict == "smooth trend"
    names = [each.full_name for each in report.objects]
    for null in (report.untrained, report.shuffled):
        assert [each.full_name for each in null] == names
        assert {str(each.verdict) for each in null} <= {"independent", "cannot tell", "common trend"}
    table = report.to_frame()
    assert table["network"].tolist() == [kind for kind in ("trained", "untrained", "shuffled") for _ in names]
    assert "network" not in dl.diagnose(network).to_frame()
    assert_refused(lambda: dl.diagnose(network, null=lambda: 3), TypeError, "null", "3")
    assert_refused(lambda: dl.diagnose(network, null=lambda depth: network), TypeError, "null must")
    assert_refused(lambda: dl.diagnose({16: network, 8: network}, null=lambda: 3), TypeError, "null must")


@pytest.mark.nightly
def test_the_null_of_several_depths_is_made_at_these_depths():
    made = []

    def factory(depth):
        made.append(depth)
        return untrained(depth, 5, 9)

    report = dl.diagnose({L: smooth(L) for L in (8, 13, 21, 34)}, null=factory, batch=torch.ones(2, 5))
    assert made == [8, 13, 21, 34]
    assert report.verdict == "neural-ode"  # what tanh gets keeps its size
    assert [null.name for null in report.nulls] == ["untrained", "shuffled"]
    assert {str(null.verdict) for null in report.nulls} <= {"no trend", "cannot tell"}


class Residual(nn.Module):
    """h + outer(φ(inner(h))) with convolutions, kernels of one or several sizes."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.inner = nn.Conv2d(channels, channels + 2, kernel, padding=kernel // 2)
        self.outer = nn.Conv2d(channels + 2, channels, kernel, padding=kernel // 2)

    def forward(self, h):
        return h + self.outer(torch.relu(self.inner(h)))


def convolutional(depth, kernel=3):
    with seeded(1):
        network = nn.Sequential(*(Residual(4, kernel) for _ in range(depth)))
        ends = [torch.randn(each.shape) * each.std() for each in network[0].parameters()]
        with torch.no_grad():
            starts = [each.clone() for each in network[0].parameters()]
            for k, block in enumerate(network):
                for parameter, start, end in zip(block.parameters(), starts, ends, strict=True):
                    parameter.copy_(math.cos(1.5 * k / depth) * start + math.sin(1.5 * k / depth) * end)
    return network


@pytest.mark.nightly
def test_kernels_are_compared_by_their_taps():
    network = convolutional(12)
    report = dl.diagnose(network, batch=torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0)))
    weights = {each.name: each for each in report.objects if each.what == "weights"}
    assert [*weights] == ["*: product", "*: read Gram", "*: write Gram"]
    assert {each.entries for each in weights.values()} == {16}
    assert {str(each.verdict) for each in weights.values()} <= {"smooth trend", "rough", "cannot tell"}
    assert {each.correlation for each in weights.values()} == {"decaying"}
    twin = copy.deepcopy(network)
    stream = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for block in twin:
            order, scale = torch.randperm(6, generator=stream), 1 + torch.rand(6, generator=stream)
            block.inner.weight.copy_((block.inner.weight * scale[:, None, None, None])[order])
            block.inner.bias.copy_((block.inner.bias * scale)[order])
            block.outer.weight.copy_((block.outer.weight / scale[None, :, None, None])[:, order])
    again = dl.diagnose(twin, batch=torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0)))
    for first, second in zip(report.objects, again.objects, strict=True):
        assert first.hurst == pytest.approx(second.hurst, abs=1e-4)
        assert first.likeness == pytest.approx(second.likeness, abs=1e-5)


@pytest.mark.nightly
def test_convolutions_of_several_depths_have_a_verdict():
    report = dl.diagnose({L: convolutional(L) for L in (8, 16, 32, 64, 128)}, batch=torch.ones(1, 4, 5, 5))
    assert report.verdict in ("neural-ode", "cannot tell")
    assert report.weight == "*: product"
    assert report.norms["*: product"]["D4"].slope < -3
    assert -0.2 < -report.norms["*: product"]["root mean square"].slope < 0.2


class Normed(nn.Module):
    """h + linear(norm(h)); the gains come first in the state_dict and turn slowly over depth."""

    def __init__(self):
        super().__init__()
        self.norm1, self.linear = nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, h):
        return h + self.linear(self.norm1(h))


@pytest.mark.nightly
def test_no_headline_is_about_the_gains_that_come_first():
    stream, networks = torch.Generator().manual_seed(0), {}
    with seeded(0), torch.no_grad():
        for depth in (8, 16, 32, 64):
            networks[depth] = nn.Sequential(*(Normed() for _ in range(depth)))
            for k, block in enumerate(networks[depth]):
                block.norm1.weight.copy_(1 + torch.cos(torch.arange(6.0) + 2 * k / depth) / 2)
                block.linear.weight.copy_(torch.randn(6, 6, generator=stream) / (6 * depth) ** 0.5)
    report = dl.diagnose(networks)
    assert report.weight == "*.linear.weight"
    assert report.verdict in ("no trend", "cannot tell")
    # Gains belong to what they multiply: moved into the weight, they leave the same answer.
    with torch.no_grad():
        for network in networks.values():
            for block in network:
                block.linear.weight.mul_(block.norm1.weight)
                block.linear.bias.add_(0.0)
                block.norm1.weight.fill_(1.0)
    assert shown(dl.diagnose(networks))[:2] == shown(report)[:2]


def test_a_module_that_lacks_a_batch_is_asked_for_one_and_not_for_itself():
    with seeded(0):
        networks = {depth: nn.Sequential(*(Normed() for _ in range(depth))) for depth in (8, 12, 16)}
    for network in networks.values():
        for block in network:
            block.gain = nn.Parameter(torch.ones(6))  # names do not tell what it multiplies
    assert_refused(lambda: dl.diagnose(networks), ValueError, "batch", "Sequential", "batch=")
    assert dl.diagnose(networks, batch=torch.ones(2, 6)).verdict in ("no trend", "cannot tell")


def test_a_state_dict_has_a_caveat_about_what_stands_in_forward():
    networks = {depth: matrices(depth, 4) for depth in (8, 12)}
    states = {depth: network.state_dict() for depth, network in networks.items()}
    for one in (dl.diagnose(states), dl.diagnose(states[12])):
        assert NO_MODULE in one.reservations
        assert NO_MODULE in str(one)
    # Modules show their forward, and stacks are what the reader made of it.
    for one in (dl.diagnose(networks[12]), dl.diagnose(dict(A=noise(12))), dl.diagnose(networks)):
        assert NO_MODULE not in one.reservations


def test_several_stacks_have_a_caveat_about_the_order_of_hidden_units():
    """Two weights of one branch had no depth structure as stacks, while the module's branches had."""
    assert dl.diagnose({"W": noise(12), "V": noise(12)}).reservations == (ENTRY_BY_ENTRY,)
    states = matrices(12, 4).state_dict()
    for one in (dict(A=noise(12)), matrices(12, 4), states):
        assert ENTRY_BY_ENTRY not in dl.diagnose(one).reservations


def test_what_is_left_open_is_not_said_to_be_absent():
    """Six layers that turn slowly: their order cannot be significant, and shuffled ones differ."""
    smooth_layers, independent = (dl.diagnose({"A": turning(6, 60, 0)}), dl.diagnose({"A": noise(24)}))
    assert smooth_layers.objects[0].correlation == "cannot tell"
    assert independent.objects[0].correlation == "none"
    assert smooth_layers.headline.partition(" (")[0] != independent.headline.partition(" (")[0]


def test_one_depth_has_no_published_steps():
    report = dl.diagnose({9: {"A": turning(9, 9, 0)[:, :, None]}})
    assert report.verdict == "cannot tell"
    assert len(report.published.steps) == 1
    assert "nan" not in str(report).lower()


def test_an_evaluation_that_does_not_see_the_layers_is_named():
    with seeded(0):
        network = untrained(10)
    blind = dl.depth_controls(
        network, lambda model: 1.0 + 0 * float(model(torch.ones(2, 7)).sum().detach()), draws=2
    )
    assert blind.reading == "branches off"
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    seeing = dl.depth_controls(
        smooth(10, 7, 13), lambda model: float((model(x) - x).square().mean().detach()), draws=2
    )
    assert seeing.reading != "branches off"
    assert seeing.control("branches off").mean == 0.0
