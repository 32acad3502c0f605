"""Sweeps of networks whose weights cannot be compared over depth: what their branches add to noise is."""

import copy
import math

import pytest
import torch
from test_twins import apart, objects
from torch import nn
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.trained.diagnosis import networks_of_sweep
from deeplimit.trained.diagnosis.layer_families import SameLayersError
from deeplimit.trained.diagnosis.networks_of_sweep import networks_of
from deeplimit.trained.diagnosis.stacks import NOISE

WIDTH, HIDDEN, DEPTHS = 6, 9, (6, 12, 24, 48)
ROWS = torch.randn(24, WIDTH, generator=torch.Generator().manual_seed(0))
TOKENS = ROWS.reshape(4, 6, WIDTH)


class FusedGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.both, self.down = nn.Linear(WIDTH, 2 * HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, h):
        gate, up = self.both(h).chunk(2, -1)
        return self.down(functional.silu(gate) * up)


class Energy(nn.Module):
    """-W' tanh(W h): the drift that all layers share on average."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(HIDDEN, WIDTH) / WIDTH**0.5)

    def forward(self, h):
        return -torch.tanh(h @ self.w.T) @ self.w / HIDDEN**0.5


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.reads, self.writes = norm(nn.Linear(WIDTH, HIDDEN)), norm(nn.Linear(HIDDEN, WIDTH))

    def forward(self, h):
        return self.writes(torch.tanh(self.reads(h)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        for name in "qkvo":
            setattr(self, name, nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5))

    def forward(self, h):
        weights = torch.softmax(h @ self.q @ (h @ self.k).mT / WIDTH**0.5, -1)
        return weights @ (h @ self.v) @ self.o


class MLP(nn.Sequential):
    def __init__(self):
        layers = (nn.Linear(*sizes, bias=False) for sizes in ((WIDTH, HIDDEN), (HIDDEN, WIDTH)))
        super().__init__(next(layers), nn.Tanh(), next(layers))


class Linear(nn.Module):
    """W R R' h: no weight of a chain from the stream to the stream, and linear."""

    def __init__(self):
        super().__init__()
        self.w, self.r = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Parameter(torch.randn(WIDTH, HIDDEN))

    def forward(self, h):
        return h @ self.r @ self.r.T @ self.w


class Network(nn.Module):
    def __init__(self, depth, *branches, exponent=0.5):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(branch() for branch in branches) for _ in range(depth))
        self.scale = depth**-exponent

    def forward(self, h):
        for layer in self.layers:
            for branch in layer:
                h = h + self.scale * branch(h)
        return h


def smooth(network, seed=0):
    """Make the weights of layers values of one random function of time, alike at all depths."""
    depth = len(network.layers)
    times = (torch.arange(depth) + 0.5) / depth
    with torch.no_grad(), seeded(seed):
        for layers in zip(*(each.parameters() for each in network.layers), strict=True):
            parts = [torch.randn_like(layers[0]) / WIDTH**0.5 / (1 + k) for k in range(3)]
            for t, weight in zip(times, layers, strict=True):
                weight.copy_(sum(part * torch.cos(math.pi * k * t) for k, part in enumerate(parts)))
    return network


def sweep(*branches, of=lambda network: network, exponent=0.5, depths=DEPTHS):
    with seeded(0):
        return {depth: of(Network(depth, *branches, exponent=exponent)) for depth in depths}


def batch_of(branch):
    return TOKENS if branch is Attention else ROWS


@pytest.mark.parametrize("branch", [FusedGate, Normalised, Attention])
def test_independent_layers_whose_weights_have_no_counterparts_are_independent(branch):
    report = dl.diagnose(sweep(branch, depths=DEPTHS[:3]), batch=batch_of(branch))
    assert report.verdict == "no trend"
    assert [finding.weight for finding in report.findings] == [f"layers.*.0: {NOISE}"]
    slope = report.findings[0].norms["root mean square"]
    assert slope.interval[0] < -0.5 < slope.interval[1]
    assert any("layers.*.0." in caveat for caveat in report.reservations)


def test_a_drift_that_all_layers_share_is_no_independence():
    assert dl.diagnose(sweep(Energy), batch=ROWS).verdict != "no trend"


class Kinks(nn.Module):
    """Grows like its input, as a linear map does: relu(A h) + relu(B h), mapped back."""

    def __init__(self):
        super().__init__()
        sizes = ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
        self.a, self.b, self.o = (nn.Linear(*size, bias=False) for size in sizes)

    def forward(self, h):
        return self.o(torch.relu(self.a(h)) + torch.relu(self.b(h)))


@pytest.mark.parametrize("branch", [FusedGate, Attention, Energy, Kinks])
def test_smooth_layers_whose_weights_have_no_counterparts_are_an_ode(branch):
    report = dl.diagnose(sweep(branch, of=smooth, exponent=1.0), batch=batch_of(branch))
    assert report.verdict == "neural-ode"
    assert report.beta_interval[0] < 1 < report.beta_interval[1]


def test_smooth_linear_branches_are_a_linear_ode():
    report = dl.diagnose(sweep(Linear, of=smooth, exponent=1.0), batch=ROWS)
    assert report.findings[0].weight.endswith(NOISE)
    assert report.verdict == "linear-ode"


def test_branches_beside_readable_ones_have_a_say():
    def mixed(network):
        smooth_part = smooth(Network(len(network.layers), FusedGate), 3)
        for layer, other in zip(network.layers, smooth_part.layers, strict=True):
            layer[1].load_state_dict(other[0].state_dict())
        return network

    report = dl.diagnose(sweep(MLP, FusedGate, of=mixed, depths=DEPTHS[:3]), batch=ROWS)
    verdicts = {finding.weight: finding.verdict for finding in report.findings}
    assert verdicts["layers.*.0: product"] == "no trend"
    assert verdicts[f"layers.*.1: {NOISE}"] == "cannot tell"  # an ODE's, whose kind three depths leave open
    assert f"layers.*.0: {NOISE}" not in verdicts  # its weights say it
    assert report.verdict not in ("no trend", "neural-ode")


def test_twins_of_a_fused_gate_have_the_same_objects():
    network = sweep(FusedGate)[12]
    twin, broken = copy.deepcopy(network), copy.deepcopy(network)
    with torch.no_grad():
        for layer, other in zip(twin.layers, broken.layers, strict=True):
            order = torch.randperm(HIDDEN, generator=torch.Generator().manual_seed(1))
            both = torch.cat([order, order + HIDDEN])
            for one in (layer[0], other[0]):
                one.both.weight.copy_(one.both.weight[both])
                one.both.bias.copy_(one.both.bias[both])
            layer[0].down.weight.copy_(layer[0].down.weight[:, order])
    assert apart(objects(network, 12, ROWS), objects(twin, 12, ROWS)) < 1e-5
    assert apart(objects(network, 12, ROWS), objects(broken, 12, ROWS)) > 0.1


def test_copies_of_one_layer_are_copies_as_functions_too():
    def tied(network):
        for layer in network.layers[1:]:
            layer[-1].load_state_dict(network.layers[0][-1].state_dict())
        return network

    with pytest.raises(SameLayersError) as refused:
        dl.diagnose(sweep(FusedGate, of=tied), batch=ROWS)
    assert refused.value.reason.startswith("layers.*.0 ")
    for network in networks_of(sweep(MLP, FusedGate, of=tied), batch=ROWS):
        assert not any(name.endswith(NOISE) for name in network.stacks)


class Scaled(nn.Module):
    """c (gate(h) + other(h)), c the residual factor, which is negative in every second layer."""

    def __init__(self, c, inside=False):
        super().__init__()
        self.gate, self.other, self.c, self.inside = FusedGate(), FusedGate(), c, inside

    def forward(self, h):
        first, second = self.gate(h), self.other(h)
        return self.c * first + self.c * second if self.inside else self.c * (first + second)


@pytest.mark.parametrize("inside", [True, False])
def test_what_scales_a_sum_of_branches_scales_each_of_them(inside):
    with seeded(0):
        network = Network(8, FusedGate, exponent=0.0)
        for k, layer in enumerate(network.layers):
            layer[0] = Scaled((-1) ** k / 8, inside)
        plain = copy.deepcopy(network)
        for layer in plain.layers:
            layer[0] = Scaled(1.0)
    plain.load_state_dict(network.state_dict())
    signs = torch.tensor([(-1.0) ** k / 8 for k in range(8)]).reshape(8, 1, 1)
    found, before = objects(network, 8, ROWS), objects(plain, 8, ROWS)
    assert apart(found, {name: signs * each for name, each in before.items()}) < 1e-5


def test_a_sum_that_is_subtracted_has_the_sign_of_what_is_added():
    class Minus(Network):
        def forward(self, h):
            for first, second in self.layers:
                h = h - self.scale * (first(h) + second(h))
            return h

    class Plus(Network):
        def forward(self, h):
            for first, second in self.layers:
                h = h + -self.scale * (first(h) + second(h))
            return h

    with seeded(0):
        minus, plus = Minus(8, FusedGate, FusedGate), Plus(8, FusedGate, FusedGate)
    plus.load_state_dict(minus.state_dict())
    assert apart(objects(minus, 8, ROWS), objects(plus, 8, ROWS)) < 1e-5


def test_the_size_of_states_is_no_size_of_layers():
    class Embedded(Network):
        def forward(self, h):
            return super().forward(len(self.layers) * h)

    with seeded(0):
        network, plain = Embedded(8, FusedGate), Network(8, FusedGate)
    plain.load_state_dict(network.state_dict())
    assert apart(objects(network, 8, ROWS), objects(plain, 8, ROWS)) < 1e-5


@pytest.mark.parametrize("add", [True, False])
def test_sizes_move_between_factors_of_a_product_and_not_between_summands(add):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.o = (nn.Linear(*n) for n in ((WIDTH, 9), (WIDTH, 9), (9, WIDTH)))

        def forward(self, h):
            a, b = torch.relu(self.a(h)), torch.relu(self.b(h))
            return self.o(a + b if add else a * b)

    network = sweep(Two)[12].double()
    twin, sizes = copy.deepcopy(network), torch.linspace(0.5, 3.0, 9, dtype=torch.float64)
    with torch.no_grad():
        for k, layer in enumerate(twin.layers):
            moved = sizes.roll(k)
            for read in (layer[0].a, layer[0].b):
                read.weight.mul_(moved[:, None])
                read.bias.mul_(moved)
            layer[0].o.weight.div_(moved if add else moved**2)
    batch = ROWS.double()
    torch.testing.assert_close(twin(batch), network(batch))
    mine = objects(network, 12, batch)
    assert all(name.endswith(NOISE) for name in mine) == add
    assert apart(mine, objects(twin, 12, batch)) < (1e-5 if add else 1e-9)


def test_branches_that_cannot_be_run_again_leave_readable_ones_alone(monkeypatch):
    def refuse(*_):
        raise ValueError("its path depends on its states.")

    monkeypatch.setattr(networks_of_sweep, "responses", refuse)
    network, *_ = networks_of(sweep(MLP, FusedGate), batch=ROWS)
    assert "layers.*.0: product" in network.stacks
    assert {name.split(".both")[0].split(".down")[0] for name in network.unread} == {"layers.*.1"}
    with pytest.raises(ValueError, match="its path depends on its states"):
        networks_of(sweep(FusedGate), batch=ROWS)


def test_branches_that_are_silent_before_training_are_not_replaced_by_functions():
    def silent(network):
        for layer in network.layers:
            nn.init.zeros_(layer[0][2].weight)
        return network

    for network in networks_of(sweep(MLP, of=silent), batch=ROWS):
        assert not network.unread
        assert not any(name.endswith(NOISE) for name in network.stacks)


def test_copies_of_a_null_are_named_as_its_own():
    def square():
        return nn.Sequential(nn.Tanh(), nn.Linear(WIDTH, WIDTH, bias=False))

    def tied(depth):
        network = Network(depth, square)
        for layer in network.layers:
            layer.load_state_dict(network.layers[0].state_dict())
        return network

    untrained, _ = dl.diagnose(sweep(square, depths=DEPTHS[:3]), batch=ROWS, null=tied).nulls
    assert untrained.reason.startswith("layers.*.")


def test_layers_that_were_asked_for_by_name_are_not_replaced():
    with pytest.raises(ValueError, match=r"layers\.\*\.0\.both"):
        dl.diagnose(sweep(FusedGate), batch=ROWS, layers="layers.{}.0")


def test_files_with_weights_that_cannot_be_compared_name_them():
    shapes = {"fc1.weight": (8, 6), "fc2.weight": (6, 8), "mix.weight": (5, 5)}
    with seeded(0):
        networks = {
            depth: {f"h.{k}.{name}": torch.randn(shapes[name]) for k in range(depth) for name in shapes}
            for depth in DEPTHS
        }
    assert [{*network.unread} for network in networks_of(networks)] == [{"h.*.mix.weight"}] * 4
    report = dl.diagnose(networks)
    assert any("h.*.mix.weight" in caveat for caveat in report.reservations)


class Experts(nn.Module):
    """A sum of three perceptrons, which may stand in any order."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(MLP() for _ in range(3))

    def forward(self, h):
        return sum(expert(h) for expert in self.experts)


def of_one_truth(*are_smooth):
    """Return what makes some experts of every layer smooth over layers; the others stay independent."""

    def change(network):
        other = smooth(copy.deepcopy(network), 3)
        with torch.no_grad():
            for layer, smoothed in zip(network.layers, other.layers, strict=True):
                for place in are_smooth:
                    layer[0].experts[place].load_state_dict(smoothed[0].experts[place].state_dict())
        return network

    return change


@pytest.mark.parametrize("are_smooth", [(), (0,), (1, 2), (0, 1, 2)])
def test_experts_of_one_sum_are_compared_by_their_sum(are_smooth):
    """The first expert alone once spoke for all: "no trend" where the two others were smooth."""
    report = dl.diagnose(sweep(Experts, of=of_one_truth(*are_smooth), depths=DEPTHS[:3]), batch=ROWS)
    (finding,) = report.findings
    assert finding.weight.endswith(NOISE)
    assert (report.verdict == "no trend") == (not are_smooth)


def test_the_order_of_experts_in_a_sum_says_nothing():
    network = sweep(Experts, depths=DEPTHS[1:2])[12]
    twin = copy.deepcopy(network)
    for turn, layer in enumerate(twin.layers):
        every = [*layer[0].experts]
        layer[0].experts = nn.ModuleList(every[(place + turn) % 3] for place in range(3))
    (one,), (other,) = (networks_of({12: each}, None, ROWS) for each in (network, twin))
    assert one.stacks.keys() == other.stacks.keys() == {f"layers.*.0.experts.*: {NOISE}"}
    for name, stack in one.stacks.items():
        torch.testing.assert_close(other.stacks[name].values, stack.values)
