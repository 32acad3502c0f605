"""Recorded weights: layer k of depth L is what was recorded, from tensors, modules or files; nothing else."""

import pytest
import safetensors.torch
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.specification import describe

DEPTHS = (4, 8, 16)
TURN = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)


def drawn(seed=0, width=2):
    stream = torch.Generator().manual_seed(seed)
    return {L: torch.randn(L, width, width, generator=stream, dtype=torch.float64) / L for L in DEPTHS}


def by_hand(stack, h, biases=None):
    for k, matrix in enumerate(stack):
        h = h + torch.tanh(h @ matrix.T + (0.0 if biases is None else biases[k]))
    return h


def distance_from_standing_still(weights, h0, recursion=dl.inner):
    """Return |h_L - h_0| at each depth, as compare measures it against the identity."""
    network = recursion(2, "tanh", weights=weights, exponent=0.0)
    return dl.compare(
        network, dl.Identity(), h0, depths=list(DEPTHS), paths=len(h0), norm="final", p=1
    ).errors


def test_the_network_reads_exactly_the_recorded_layers_of_each_depth():
    h0 = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stacks = drawn()
    found = distance_from_standing_still(dl.Recorded(stacks), h0)
    for depth, error in zip(DEPTHS, found, strict=True):
        moved = (by_hand(stacks[depth], h0) - h0).norm(dim=1).mean()
        assert error == pytest.approx(float(moved), rel=1e-12)
    backwards = dl.Recorded({L: stack.flip(0) for L, stack in stacks.items()})
    assert distance_from_standing_still(backwards, h0)[0] != pytest.approx(found[0], rel=1e-6)


def test_recorded_biases_are_added_inside_the_activation():
    h0, stacks = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64), drawn()
    biases = {L: torch.linspace(0, 1, 2 * L, dtype=torch.float64).reshape(L, 2) for L in DEPTHS}
    weights = dl.Recorded({L: {"A": stacks[L], "b": biases[L]} for L in DEPTHS})
    assert weights.facts.biased
    found = distance_from_standing_still(weights, h0)
    for depth, error in zip(DEPTHS, found, strict=True):
        moved = (by_hand(stacks[depth], h0, biases[depth]) - h0).norm(dim=1).mean()
        assert error == pytest.approx(float(moved), rel=1e-12)


def test_layers_sampled_from_a_function_of_time_tend_to_its_equation():
    depths = [8, 16, 32, 64]
    weights = dl.Recorded({L: TURN.expand(L, 2, 2) / L for L in depths})
    network = dl.res1(2, "identity", weights=weights, exponent=0.0)
    assert network.regime().name == "no theorem"
    report = dl.compare(network, lambda t, h: h @ TURN.T, depths=depths, paths=200)
    assert report.verdict == "converges"
    assert report.rate == pytest.approx(1.0, abs=0.05)
    assert report.predicted_rate is None
    wrong = dl.compare(network, lambda t, h: h @ TURN, depths=depths, paths=200)
    assert wrong.verdict == "does not converge"


def test_stability_of_recorded_weights_is_measured_at_recorded_depths_only():
    depths = [8, 16, 32, 64]
    weights = dl.Recorded({L: torch.eye(2).expand(L, 2, 2) / L for L in depths})
    network = dl.res1(2, "identity", weights=weights, exponent=0.0)
    report = dl.stability(network, depths=depths, draws=4)
    for depth, ratios in zip(depths, report.hidden_ratio, strict=True):
        assert ratios == pytest.approx([(1 + 1 / depth) ** depth] * 4, rel=1e-5)
    with pytest.raises(ValueError, match=r"depths .*\[8, 16, 32, 64\].*\[128\]"):
        dl.stability(network, depths=[64, 128], draws=4)


def test_depths_that_were_not_recorded_are_refused_by_name():
    network = dl.res1(2, "tanh", weights=dl.Recorded(drawn()), exponent=0.0)
    with pytest.raises(ValueError, match=r"depths .*\[4, 8, 16\].*\[32\]"):
        dl.compare(network, dl.Identity(), depths=[8, 16, 32])


def test_modules_state_dicts_and_files_give_the_same_weights(tmp_path):
    with torch.random.fork_rng():
        nets = {
            L: nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(2, 2) for _ in range(L))}) for L in DEPTHS
        }
    names = ("blocks.{}.weight", "blocks.{}.bias")
    expected = {
        L: {
            "A": torch.stack([block.weight for block in net["blocks"]]),
            "b": torch.stack([block.bias for block in net["blocks"]]),
        }
        for L, net in nets.items()
    }
    files, stacked = {}, {}
    for L, net in nets.items():
        files[L], stacked[L] = tmp_path / f"{L}.safetensors", tmp_path / f"stacked-{L}.safetensors"
        safetensors.torch.save_file(net.state_dict(), files[L])
        safetensors.torch.save_file({k: v.detach() for k, v in expected[L].items()}, stacked[L])
    weights = dl.Recorded(expected)
    assert weights == dl.Recorded.from_modules(nets, *names)
    assert weights == dl.Recorded.from_modules({L: net.state_dict() for L, net in nets.items()}, *names)
    assert weights == dl.Recorded.from_files(files, *names)
    assert weights == dl.Recorded.from_files(stacked, "A", "b")


def test_blocks_are_ordered_by_number_and_may_count_from_one():
    stack = torch.arange(12.0).reshape(12, 1, 1)
    named = {f"layers.{k + 1}.weight": stack[k] for k in reversed(range(12))}
    assert dl.Recorded.from_modules({12: named}, "layers.{}.weight") == dl.Recorded({12: stack})


def test_equality_hash_and_store_key_go_by_content():
    one, same, other = dl.Recorded(drawn()), dl.Recorded(drawn()), dl.Recorded(drawn(seed=1))
    assert one == same
    assert hash(one) == hash(same)
    assert describe(one, "weights") == describe(same, "weights")
    assert one != other
    assert describe(one, "weights") != describe(other, "weights")


def test_weights_that_change_later_do_not_change_what_was_recorded():
    stacks = drawn()
    weights = dl.Recorded(stacks)
    stacks[4].zero_()
    assert weights == dl.Recorded(drawn())
    assert float(weights.stacks[4]["A"].abs().sum()) > 0


REFUSED = {
    "a depth that is no number": (lambda: dl.Recorded({"4": torch.ones(4, 2, 2)}), TypeError, "depth"),
    "two shapes": (
        lambda: dl.Recorded({1: torch.ones(1, 2, 2), 2: torch.ones(2, 3, 3)}),
        ValueError,
        r"stacks .*\(2, 2\).*\(3, 3\)",
    ),
    "biases of another width": (
        lambda: dl.Recorded({1: {"A": torch.ones(1, 2, 2), "b": torch.ones(1, 3)}}),
        ValueError,
        r"stacks\[1\]\['b'\] .*\(1, 2\).*\(1, 3\)",
    ),
    "one layer in place of all": (
        lambda: dl.Recorded.from_modules({4: {"w": torch.ones(2, 3)}}, "w"),
        ValueError,
        r"^weight='w' .*\(2, 3\).* 4 layers",
    ),
    "no file": (lambda: dl.Recorded.from_files({2: "gone"}), ValueError, r"files\[2\] = 'gone'"),
    "a missing exponent": (
        lambda: dl.res1(2, "tanh", weights=dl.Recorded({1: torch.ones(1, 2, 2)})),
        ValueError,
        "exponent",
    ),
    "another width": (
        lambda: dl.res1(3, "tanh", weights=dl.Recorded({1: torch.ones(1, 2, 2)}), exponent=0.0),
        ValueError,
        r"stacks .*\(3, 3\).*\(2, 2\)",
    ),
    "biases for res-1": (
        lambda: dl.res1(
            2,
            "tanh",
            weights=dl.Recorded({1: {"A": torch.ones(1, 2, 2), "b": torch.ones(1, 2)}}),
            exponent=0.0,
        ),
        ValueError,
        r"res1 .*\bb\b",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_recording_is_refused_by_name(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_recorded_weights_are_equal_where_their_numbers_are():
    ones = torch.ones(4, 2, 2)
    assert dl.Recorded({4: ones}) == dl.Recorded({4: ones.double()}) == dl.Recorded({4: ones.int()})
    assert dl.Recorded({4: 0 * ones}) == dl.Recorded({4: -0.0 * ones})
    assert dl.Recorded({4: ones}) != dl.Recorded({4: ones + 1e-6})
