"""Controls read what noise does for a network: networks whose answer is known by construction."""

import numpy as np
import pytest
import torch
from torch import nn

from deeplimit.trained.diagnosis.depth_controls import _rotation, depth_controls
from deeplimit.trained.diagnosis.depth_controls_report import MOSTLY_NOISE, READINGS, UNMATCHED

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


@pytest.mark.parametrize(("rest", "reading"), [(1e-4, "largest layers alone"), (0.2, "")])
def test_a_few_layers_that_do_all_are_named_and_the_others_are_not_said_to_matter(rest, reading):
    """Two of 64 layers are of size 1 and do not commute; of the wrong twin every layer is needed."""
    layers = rest * normal(3, DEPTH, WIDTH, WIDTH)
    layers[20], layers[41] = normal(4, WIDTH, WIDTH), normal(5, WIDTH, WIDTH)

    def last(stacks):
        h = normal(6, WIDTH, 40)
        for matrix in stacks["A"]:
            h = h + torch.tanh(matrix @ h)
        return h

    mine = last({"A": layers})
    report = depth_controls({"A": layers}, lambda stacks: 0.1 + (last(stacks) - mine).square().mean())
    assert report.reading == reading, str(report)
    assert report.largest == ((20, 41) if reading else ())
    assert not report.is_as_good("layers in another order")


def test_a_network_without_an_error_is_compared_with_what_its_branches_do():
    """An error rate of 0, next to which every other number is infinitely larger."""
    best = sum_of_layers({"A": 0.3 * TREND + NOISE})
    report = depth_controls({"A": 0.3 * TREND + NOISE}, lambda stacks: (sum_of_layers(stacks) - best).abs())
    assert report.original == 0.0 < report.allowed < report.control("branches off").mean
    assert report.reading == "trend alone", str(report)


@pytest.mark.parametrize(
    ("names", "evaluate", "told"),
    [(("V", "W"), secret, True), (("V", "W"), sum_of_layers, False), (("b",), secret, False)],
)
def test_hidden_units_that_may_be_in_any_order_have_a_caveat(names, evaluate, told):
    """Where replacing single entries does harm, and a layer has hidden units between two matrices."""
    shapes = {"V": (WIDTH, 3), "W": (3, WIDTH), "b": (WIDTH,)}
    stacks = {"A": 0.3 * TREND + NOISE} | {name: normal(5, DEPTH, *shapes[name]) for name in names}
    report = depth_controls(stacks, evaluate)
    assert (UNMATCHED in report.reservations) is told
    # Another order of hidden units would do the same, so that nothing is said of layers.
    assert report.headline.startswith("cannot tell") is told


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


class Block(nn.Module):
    """F(h) = V tanh(W h)/L, hidden units in any order; it returns F(h), h + F(h), or that in a tuple."""

    def __init__(self, inner, outer, depth, kind):
        super().__init__()
        self.inner, self.outer, self.depth, self.kind = nn.Parameter(inner), nn.Parameter(outer), depth, kind

    def forward(self, h):
        added = torch.tanh(h @ self.inner.mT) @ self.outer.mT / self.depth
        return {"branch": added, "state": h + added, "tuple": (h + added, added)}[self.kind]


class Network(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, h):
        for block in self.blocks:
            returned = block(h)
            h = {"branch": lambda: h + returned, "state": lambda: returned, "tuple": lambda: returned[0]}[  # noqa: B023
                self.blocks[0].kind if hasattr(self.blocks[0], "kind") else self.blocks[0].own.kind
            ]()
        return h


def network_of(kind, *, trend=1.0, noise=0.0, depth=16):
    """Return a network whose functions are smooth in depth, or have independent parts of size `noise`."""
    draws = torch.Generator().manual_seed(0)
    first, second, third, fourth = (torch.randn(6, 4, generator=draws) for _ in range(4))
    blocks = []
    for k in range(depth):
        t, order = (k + 0.5) / depth, torch.randperm(6, generator=draws)
        inner = first * torch.tensor(2 * t).cos() + second * torch.tensor(3 * t).sin()
        outer = 0.8 * trend * (third * torch.tensor(2 * t).sin() + fourth * t).mT
        outer = outer + noise * torch.randn(4, 6, generator=draws)
        blocks.append(Block(inner[order], outer[:, order], depth, kind))
    return Network(blocks)


STATES = torch.randn(32, 4, generator=torch.Generator().manual_seed(3))


def loss_beside(model):
    """Return a loss that is .05 of what all layers change, for the network as it is."""
    target = model(STATES).detach()
    least = 0.05 * float((target - STATES).square().mean())
    return lambda network: float((network(STATES).detach() - target).square().mean()) + least


@pytest.mark.parametrize("kind", ["branch", "state", "tuple"])
@pytest.mark.usefixtures("one_thread")
def test_blocks_are_replaced_as_functions_whatever_the_order_of_hidden_units(kind):
    model = network_of(kind)
    report = depth_controls(model, loss_beside(model), batch=STATES, draws=4)
    assert report.reading == "trend alone"
    assert report.noise_share["blocks.*"] < 0.01
    assert report.reservations == ()
    by_weights = depth_controls(model, loss_beside(model), draws=4)
    assert by_weights.reading == ""
    assert by_weights.reservations


@pytest.mark.usefixtures("one_thread")
def test_functions_with_independent_parts_need_their_noise():
    model = network_of("state", noise=3.0)
    report = depth_controls(model, loss_beside(model), batch=STATES, draws=4)
    assert report.reading != "trend alone"
    assert report.noise_share["blocks.*"] > 0.1


@pytest.mark.usefixtures("one_thread")
def test_combinations_of_functions_are_those_of_the_blocks():
    model = network_of("state", noise=1.0)
    seen = []

    def evaluate(network):
        seen.append(network)
        return 1.0

    depth_controls(model, evaluate, batch=STATES, draws=1, layers="blocks.{}")
    assert torch.equal(seen[0](STATES), model(STATES))
    assert torch.equal(seen[1](STATES), STATES)  # branches off
    added = torch.stack([block(STATES) - STATES for block in model.blocks]).detach()
    for network in seen[2:]:
        for replaced in network.blocks:
            shares = torch.zeros(16)
            for block, share in zip(replaced.blocks, replaced.shares, strict=True):
                shares[next(k for k, each in enumerate(network.blocks) if each.own is block)] = share
            expected = STATES + torch.einsum("l,lnd->nd", shares, added)
            assert torch.allclose(replaced(STATES), expected, atol=1e-5)


class Bent(Network):
    def forward(self, h):
        for block in self.blocks:
            h = h + torch.tanh(block(h))
        return h


@pytest.mark.parametrize(
    ("weights", "options", "said"),
    [
        ({"A": NOISE}, {"batch": STATES}, "batch"),
        (Bent(network_of("branch").blocks), {"batch": STATES}, "bends"),
        (nn.Linear(4, 4), {"batch": STATES}, "list"),
        (network_of("state"), {"batch": STATES, "layers": "layers.{}"}, "layers"),
        (network_of("state"), {"batch": STATES, "halve": True}, "halve"),
        (Network([network_of("state").blocks[0]] * 5), {"batch": STATES}, "weights"),
    ],
    ids=["stacks", "bent", "no list", "another list", "halve", "one block"],
)
def test_blocks_that_are_no_such_functions_are_refused(weights, options, said):
    with pytest.raises(ValueError, match=said):
        depth_controls(weights, lambda network: 1.0, **options)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_a_sum_that_smoothing_keeps_is_no_ode_where_layers_are_mostly_noise(noise):
    rng = np.random.default_rng(3)
    layers = np.cos(np.arange(24) / 24)[:, None, None] + noise * rng.normal(size=(24, 4, 4))
    found = depth_controls({"A": layers}, lambda given: float(given["A"].sum(axis=0).mean()))
    assert found.reading == "trend alone"
    said = READINGS[found.reading] if noise < 1 else MOSTLY_NOISE
    assert found.headline == f"{said}."


def test_matrices_that_are_never_in_one_layer_leave_no_largest_one():
    """Every product of a layer's matrices is 0, so that none has a share of their squares."""
    even = (torch.arange(DEPTH) % 2 == 0).to(torch.float64)[:, None, None]
    stacks = {"V": even * normal(1, DEPTH, WIDTH, 3), "W": (1 - even) * normal(2, DEPTH, 3, WIDTH)}
    report = depth_controls(stacks, lambda given: given["V"].square().sum() + given["W"].square().sum())
    assert report.largest == ()
    assert report.control("largest layers alone") is None
