"""Controls read what noise does for a network: networks whose answer is known by construction."""

import numpy as np
import pytest
import torch
from torch import nn

from deeplimit.trained.diagnosis.depth_controls import _rotation, depth_controls
from deeplimit.trained.diagnosis.depth_controls_report import UNMATCHED

DEPTH, WIDTH = 64, 6


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TIMES = torch.arange(DEPTH, dtype=torch.float64)[:, None, None] / DEPTH
TREND = torch.cos(2 * TIMES) * normal(0, WIDTH, WIDTH) + TIMES * normal(1, WIDTH, WIDTH)
NOISE = normal(2, DEPTH, WIDTH, WIDTH)


def energy(stacks):
    """The quadratic variation, which the noise's covariance decides."""
    return stacks["A"].square().sum()


def sum_of_layers(stacks):
    """The integral of the trend, to which noise adds next to nothing."""
    return stacks["A"].mean(0).norm()


def secret(stacks):
    """High for these very layers only."""
    return (stacks["A"] * NOISE).sum() / NOISE.square().sum()


@pytest.mark.parametrize(
    ("evaluate", "reading"), [(sum_of_layers, "trend alone"), (energy, "new noise"), (secret, "")]
)
def test_the_reading_is_what_the_number_depends_on(evaluate, reading):
    report = depth_controls({"A": 0.3 * TREND + NOISE}, evaluate)
    assert report.reading == reading, str(report)


@pytest.mark.parametrize(
    ("names", "evaluate", "told"),
    [(("V", "W"), secret, True), (("V", "W"), sum_of_layers, False), (("b",), secret, False)],
)
def test_hidden_units_that_may_be_in_any_order_have_a_caveat(names, evaluate, told):
    """Where replacing single entries does harm, and a layer has hidden units between two matrices."""
    shapes = {"V": (WIDTH, 3), "W": (3, WIDTH), "b": (WIDTH,)}
    stacks = {"A": 0.3 * TREND + NOISE} | {name: normal(5, DEPTH, *shapes[name]) for name in names}
    assert (UNMATCHED in depth_controls(stacks, evaluate).reservations) is told


def test_new_noise_keeps_the_covariance_of_entries():
    """A rotation over layers leaves the sum over layers of products of entries as it is."""
    seen = []
    depth_controls(
        {"A": NOISE * torch.linspace(0.1, 2.0, WIDTH)},
        lambda stacks: seen.append(stacks["A"]) or 1.0,
        draws=3,
    )
    gram = [np.asarray(each.flatten(1).T @ each.flatten(1)) for each in seen]
    kept = [each for each in gram[1:] if np.trace(each) > 0.5 * np.trace(gram[0])]
    assert len(kept) >= 6  # noise elsewhere and new noise, three times each
    assert not np.allclose(seen[2], seen[3])


def test_new_noise_of_one_kind_of_layers_does_not_reach_another_kind():
    turn = _rotation((0, 1, 0, 1, 0, 0), torch.Generator().manual_seed(0))
    torch.testing.assert_close(turn @ turn.T, torch.eye(6, dtype=torch.float64))
    assert float(turn[[0, 2, 4, 5]][:, [1, 3]].abs().max()) == 0.0
    assert float(turn[0, 2].abs()) > 0.0


def test_half_the_layers_have_mean_weights_and_twice_the_factor():
    seen = []
    weights = {"A": TREND[:5], "b": TREND[:5, 0], "delta": torch.tensor(0.2, dtype=torch.float64)}
    report = depth_controls(weights, lambda stacks: seen.append(stacks) or 1.0, draws=1, halve=True)
    half = seen[-1]
    assert report.controls[-1].name == "half the layers"
    torch.testing.assert_close(half["A"][0], (TREND[0] + TREND[1]) / 2)
    torch.testing.assert_close(half["A"][2], TREND[4])
    torch.testing.assert_close(half["delta"], torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))

    def forward(self, h):
        for block in self.blocks:
            h = h + torch.tanh(block(h)) / 12
        return h


def test_a_module_is_copied_and_whole_layers_move_together():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Blocks()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    pairs = {(float(block.weight.detach().sum()), float(block.bias.detach().sum())) for block in model.blocks}
    seen = []

    def evaluate(network):
        seen.append({(float(b.weight.detach().sum()), float(b.bias.detach().sum())) for b in network.blocks})
        return network(torch.ones(2, 4)).sum()

    report = depth_controls(model, evaluate, draws=2)
    assert report.depth == 12
    assert seen[0] == pairs
    assert seen[-2:] == [pairs, pairs]  # layers in another order: the same layers
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert len({report.original, *report.control("layers in another order").values}) == 3


def linear_layers():
    with torch.random.fork_rng():
        return nn.Sequential(*(nn.Linear(2, 2) for _ in range(6)))


@pytest.mark.parametrize(
    ("weights", "options", "error", "said"),
    [
        (3, {}, TypeError, "weights"),
        ({"A": NOISE, "b": NOISE[:3, 0]}, {}, ValueError, "'b': 3"),
        ({"A": NOISE[:3]}, {}, ValueError, "4"),
        ({"A": NOISE}, {"only": "C*"}, ValueError, r"'C\*'"),
        ({"A": NOISE}, {"draws": 0}, ValueError, "draws"),
        (linear_layers(), {"halve": True}, ValueError, "halve"),
        ({"A": NOISE}, {"tolerance": -1.0}, ValueError, "tolerance"),
        ({"A": NOISE * float("nan")}, {}, ValueError, r"weights\['A'\]"),
    ],
)
def test_bad_arguments_are_refused_by_name(weights, options, error, said):
    with pytest.raises(error, match=said):
        depth_controls(weights, lambda network: 1.0, **options)


def test_an_evaluation_that_is_no_number_is_refused():
    for value, kind in (("good", TypeError), (float("nan"), ValueError), (torch.ones(2), TypeError)):
        with pytest.raises(kind, match="evaluate"):
            depth_controls({"A": NOISE}, lambda stacks, value=value: value)
