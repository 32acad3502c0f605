"""Weights without a module: branches whose order names tell by convention, and those that stay a guess."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.trained.diagnosis.invariants import invariants
from deeplimit.trained.diagnosis.layer_families import families
from deeplimit.trained.diagnosis.sources import source_of
from tests.helpers.refusals import row

DEPTH, WIDTH, HIDDEN = 6, 4, 6


class Block(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, h):
        return h + self.fc2(torch.tanh(self.fc1(h))) / DEPTH


def network(hidden):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.ModuleDict({"blocks": nn.Sequential(*(Block(WIDTH, hidden) for _ in range(DEPTH)))})


def named(one, other, width=WIDTH, hidden=HIDDEN, **more):
    """Return layers with two weights of these names, the second one first, and more by name."""
    stream = torch.Generator().manual_seed(0)
    shapes = {other: (width, hidden), one: (hidden, width)} | more
    return {
        f"blocks.{k}.{name}": torch.randn(shape, generator=stream)
        for k in range(DEPTH)
        for name, shape in shapes.items()
    }


def found_in(weights):
    source = source_of(weights)
    left_out, orders = {}, []
    made = {each.name: each.values for each in invariants(source, families(source), left_out, orders=orders)}
    return made, left_out, orders


@pytest.mark.parametrize("hidden", [HIDDEN, WIDTH])
def test_a_state_dict_has_the_products_that_its_module_has(hidden):
    weights = network(hidden).state_dict()
    made, left_out, orders = found_in(weights)
    assert [name.partition(": ")[2] for name in made] == ["product", "read Gram", "write Gram"]
    for k in range(DEPTH):
        known = weights[f"blocks.{k}.fc2.weight"].double() @ weights[f"blocks.{k}.fc1.weight"].double()
        torch.testing.assert_close(made["blocks.*: product"][k], known)
    assert left_out == {}
    assert len(orders) == 1


@pytest.mark.parametrize("hidden", [HIDDEN, 3, WIDTH])
@pytest.mark.parametrize(
    "pair",
    [
        ("linear1", "linear2"),
        ("mlp.up_proj", "mlp.down_proj"),
        ("w1", "w2"),
        ("wi", "wo"),
        ("intermediate.dense", "output.dense"),
    ],
    ids="-".join,
)
def test_names_by_convention_tell_which_weight_reads_the_stream(pair, hidden):
    made, left_out, orders = found_in(named(f"{pair[0]}.weight", f"{pair[1]}.weight", hidden=hidden))
    assert {tuple(each.shape[1:]) for each in made.values()} == {(WIDTH, WIDTH)}
    assert (len(made), left_out) == (3, {})
    assert [order.index(pair[0]) < order.index(pair[1]) for order in orders] == [True]


def test_weights_of_two_sizes_in_a_sequential_run_in_the_order_of_their_numbers():
    made, left_out, _ = found_in(named("0.weight", "2.weight"))
    assert {tuple(each.shape[1:]) for each in made.values()} == {(WIDTH, WIDTH)}
    assert left_out == {}


def test_a_gate_beside_named_weights_is_read_as_before():
    gated = named("up_proj.weight", "down_proj.weight", **{"gate_proj.weight": (HIDDEN, WIDTH)})
    made, _, orders = found_in(gated)
    assert len(made) == 4
    assert orders == []  # shapes alone tell the width


GUESSES = {
    "names": ("one.weight", "other.weight", HIDDEN),
    "names, square": ("one.weight", "other.weight", WIDTH),
    "numbers, square": ("0.weight", "2.weight", WIDTH),
    "branches, square": ("branch1.weight", "branch2.weight", WIDTH),
    "an adapter": ("adapter.down.weight", "adapter.up.weight", HIDDEN),
    "parameters": ("w1", "w2", HIDDEN),
    "c_fc, square": ("c_fc.weight", "c_proj.weight", WIDTH),
}


@pytest.mark.parametrize("case", [*GUESSES])
def test_where_names_leave_a_guess_no_order_is_assumed(case):
    one, other, hidden = GUESSES[case]
    made, left_out, orders = found_in(named(one, other, hidden=hidden))
    assert (made, orders) == ({}, [])
    assert [*left_out] == [f"blocks.*.{other}", f"blocks.*.{one}"]


def test_a_third_weight_of_the_hidden_width_leaves_the_order_open():
    made, left_out, _ = found_in(named("wi_0.weight", "wi_1.weight", hidden=4, **{"wo.weight": (4, 4)}))
    assert made == {}
    assert len(left_out) == 3


@pytest.mark.parametrize(
    ("call", "error", "wanted"),
    [
        row(
            "square",
            lambda: dl.diagnose(named("one.weight", "other.weight", hidden=WIDTH)),
            ValueError,
            "one.weight",
            "fc1.weight",
            "fc2.weight",
            "batch",
        ),
        row(
            "two widths",
            lambda: dl.diagnose(named("one.weight", "other.weight")),
            ValueError,
            "one.weight",
            f"{WIDTH} or {HIDDEN}",
            "fc1.weight",
            "batch",
        ),
    ],
)
def test_a_refusal_says_what_to_give(call, error, wanted):
    with pytest.raises(error) as refused:
        call()
    text = str(refused.value)
    assert all(word in text for word in wanted)


def test_reports_of_state_dicts_and_files_say_what_names_told(tmp_path):
    from safetensors.torch import save_file

    weights = named("fc1.weight", "fc2.weight")
    save_file(weights, tmp_path / "own.safetensors")
    reports = [dl.diagnose(weights), dl.diagnose(str(tmp_path / "own.safetensors"))]
    assert [each.p_value for each in reports[0].objects] == [each.p_value for each in reports[1].objects]
    for report in reports:
        assert sum("fc1.weight" in each and "fc2.weight" in each for each in report.reservations) == 1
    report = dl.diagnose({DEPTH: weights})
    assert sum("fc1.weight" in each for each in report.reservations) == 1
