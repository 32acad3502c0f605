"""What single lines of the depth checks are there for: each test fails if one of them is changed."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.depth_check.exponents import Exponent, fit

WIDTH = 16


def states(rows=8):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))


class Steps(nn.Module):
    """`depth` steps h -> step(h, module), each with a module of its own."""

    def __init__(self, depth, step, make=lambda: nn.Linear(WIDTH, WIDTH, bias=False)):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(make() for _ in range(depth))
        self.step = step

    def forward(self, x):
        h = self.entry(x)
        for layer in self.layers:
            h = self.step(h, layer)
        return h


def probe(step, make=lambda: nn.Linear(WIDTH, WIDTH, bias=False), batch=None, depth=3):
    with seeded(0):
        model = Steps(depth, step, make)
    return dl.probe(model, states() if batch is None else batch)


def parts(report, place=0):
    return {(part.role, part.name): part.sizes[0] for part in report.branches[place].parts}


class Gained(nn.Module):
    def __init__(self, shape=(WIDTH,), value=0.25):
        super().__init__()
        self.inner, self.weight = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gain = nn.Parameter(torch.full(shape, value))
        self.table = nn.Embedding(3, WIDTH)

    def forward(self, h):
        return self.weight(torch.tanh(self.inner(h)))


@pytest.mark.parametrize(
    "step",
    [
        lambda h, layer: h + 0.25 * layer(torch.tanh(h)),
        lambda h, layer: h + layer(torch.tanh(h)) / 4.0,
        lambda h, layer: h - layer(torch.tanh(h)) / torch.tensor(4.0),
        lambda h, layer: torch.add(h, layer(torch.tanh(h)), alpha=0.25),
        lambda h, layer: torch.sub(h, layer(torch.tanh(h)), alpha=0.25),
        lambda h, layer: h + layer(torch.tanh(h)).mul_(0.5).div_(2.0),
    ],
)
def test_multipliers_are_read_however_they_are_written(step):
    assert parts(probe(step))["multiplier", "multiplier"] == pytest.approx(0.25)


@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH), (1, 1, 1), ()])
def test_gains_of_any_shape_are_gains(shape):
    report = probe(lambda h, layer: h + (layer.gain * layer(h)).view_as(h), lambda: Gained(shape))
    sizes = parts(report)
    assert sizes["gain", "layers.*.gain"] == pytest.approx(0.25)
    assert {name for role, name in sizes if role == "output"} == {"layers.*.weight.weight"}
    assert {name for role, name in sizes if role == "inner"} == {"layers.*.inner.weight"}


@pytest.mark.parametrize(
    "step",
    [
        lambda h, layer: torch.addcmul(h, layer(h), layer.gain, value=2.0),
        lambda h, layer: h.clone().addcmul_(layer.gain, layer(h), value=2.0),
    ],
)
def test_the_factors_of_an_addcmul_are_a_branch_its_gain_and_a_multiplier(step):
    report = probe(step, Gained)
    twin = probe(lambda h, layer: h + 2.0 * layer.gain * layer(h), Gained)
    sizes = parts(report)
    assert (sizes["gain", "layers.*.gain"], sizes["multiplier", "multiplier"]) == (0.25, 2.0)
    assert report.branches[0].sizes == pytest.approx(twin.branches[0].sizes)


def test_gains_that_are_made_of_a_parameter_are_read_as_they_act():
    report = probe(lambda h, layer: h + 2.0 * torch.exp(layer.gain - 1.0).clamp(max=9.0) * layer(h), Gained)
    assert parts(report)["gain", "layers.*.gain"] == pytest.approx(2.0 * math.exp(-0.75), rel=1e-5)


def test_what_is_looked_up_for_each_row_is_no_gain():
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    report = probe(lambda h, layer: h + layer.table(labels) * layer(h), Gained)
    assert not any(role == "gain" for role, _ in parts(report))


def test_additions_without_a_graph_keep_the_count():
    def step(h, layer):
        with torch.no_grad():
            noted = h + h
        return h + layer(torch.tanh(h)) + 0.0 * noted

    wanted = probe(lambda h, layer: h + layer(torch.tanh(h)))
    assert probe(step).branches[0].sizes == wanted.branches[0].sizes


def test_constants_and_parameters_added_in_between_do_not_break_a_stream():
    report = probe(lambda h, layer: h + layer(h) + layer.gain + 1.0, Gained)
    assert [stream.branches for stream in report.streams] == [(3,)]


def test_two_branches_of_one_state_added_one_after_the_other_are_two():
    report = probe(lambda h, layer: h + layer.inner(h) + layer.weight(torch.tanh(h)), Gained)
    assert [branch.kind for branch in report.branches] == ["layers.*.inner", "layers.*.weight"]
    assert [stream.branches for stream in report.streams] == [(6,)]
    assert not report.branches[0].normalised


def test_a_sum_inside_a_branch_is_a_part_of_it():
    report = probe(
        lambda h, layer: h + layer.weight(torch.relu(layer.table.weight[0] * h + layer.inner(h))), Gained
    )
    assert [branch.kind for branch in report.branches] == ["layers.*"]
    assert parts(report).keys() >= {("output", "layers.*.weight.weight"), ("inner", "layers.*.inner.weight")}


def test_a_skip_around_a_whole_stack_is_no_branch():
    """As in networks for super-resolution: out = x + last(stack(first(x)))."""

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.entry, self.first, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.stack = Steps(4, lambda h, layer: h + layer(torch.tanh(h)))

        def forward(self, x):
            x = self.entry(x)
            return x + self.last(self.stack(self.first(x)))

    with seeded(0):
        report = dl.probe(Around(), states())
    assert [branch.kind for branch in report.branches] == ["stack.layers.*"]
    assert [stream.branches for stream in report.streams] == [(4,)]


@pytest.mark.parametrize(
    "activation", [torch.relu, F.gelu, F.silu, F.leaky_relu, F.elu, F.hardtanh, torch.tanh, F.mish]
)
def test_activations_after_a_sum_do_not_break_a_stream(activation):
    report = probe(lambda h, layer: activation(h + layer(h)))
    assert [stream.branches for stream in report.streams] == [(3,)]


def test_numbers_before_the_skip_are_its_own():
    for step in (
        lambda h, layer: 2.0 * h + layer(torch.tanh(h)),
        lambda h, layer: layer(torch.tanh(h)) + h * 2.0,
        lambda h, layer: torch.add(layer(torch.tanh(h)), h, alpha=2.0),
    ):
        assert parts(probe(step))["skip", "skip"] == pytest.approx(2.0)


def test_numbers_around_a_sum_of_branches_reach_each_of_them():
    report = probe(
        lambda h, layer: h + 0.5 * torch.add(layer.inner(h), torch.tanh(layer.weight(h)), alpha=0.5), Gained
    )
    assert [branch.kind for branch in report.branches] == ["layers.*.inner", "layers.*.weight"]
    assert [parts(report, place)["multiplier", "multiplier"] for place in (0, 1)] == pytest.approx(
        [0.5, 0.25]
    )
    alone = probe(lambda h, layer: h + 0.5 * layer.inner(h), Gained, depth=1)
    both = probe(lambda h, layer: h + 0.5 * (layer.inner(h) + layer.weight(h)), Gained, depth=1)
    assert both.branches[0].sizes == pytest.approx(alone.branches[0].sizes, rel=1e-5)


def test_a_sum_of_embeddings_is_no_block():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(9, WIDTH), nn.Embedding(8, WIDTH)
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, words):
            h = self.words(words) + self.places(torch.arange(8).expand_as(words))
            for layer in self.layers:
                h = h + layer(h)
            return h

    class Stage(Positions):
        def forward(self, words):
            h = self.words(words)
            h = self.layers[0](h) + self.layers[1](torch.tanh(h))
            return h + self.layers[2](h)

    words = torch.arange(8)[None]
    with seeded(0):
        assert dl.probe(Positions(), words).branches[0].counts == (3,)
        assert dl.probe(Stage(), words).branches[-1].counts == (2,)  # with the block that opens the stage


def test_a_router_is_not_what_projects_back():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.expert = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)

        def forward(self, h):
            return torch.sigmoid(self.router(h)) * self.expert(h)

    sizes = parts(probe(lambda h, layer: h + layer(h), Routed))
    assert {name for role, name in sizes if role == "output"} == {"layers.*.expert.weight"}


def test_kinds_of_one_name_and_different_shapes_are_told_apart():
    """A mixer of tokens and one of channels in one list."""

    def step(h, layer):
        return h + layer(h) if layer.in_features == WIDTH else h + layer(h.T).T

    makes = iter([8, WIDTH] * 3)
    report = probe(step, lambda: nn.Linear(*[next(makes)] * 2, bias=False), depth=6)
    assert [branch.kind for branch in report.branches] == ["layers.* (1)", "layers.* (2)"]
    assert [branch.counts for branch in report.branches] == [(3,), (3,)]


def test_streams_that_are_positive_are_asked_with_positive_noise():
    def sizes(entry):
        with seeded(0):
            model = Steps(4, lambda h, layer: torch.relu(h + layer(h)))
        model.entry = nn.Sequential(model.entry, *entry)
        return model, dl.probe(model, states()).branches[0].sizes[0]

    model, probed = sizes([nn.ReLU()])
    start = torch.relu(model.entry[0](states()))
    noise = torch.randn(start.shape, generator=torch.Generator().manual_seed(0)).abs()
    updates = [float(layer(noise).detach().norm() / noise.norm()) for layer in model.layers]
    assert probed == pytest.approx(math.sqrt(sum(value**2 for value in updates) / 4), rel=1e-4)


def test_a_join_in_place_is_cut_in_place():
    def step(h, layer):
        h = h.clone()
        named = h
        h += layer(torch.tanh(h))
        return 0.5 * (named + h)

    assert probe(step).branches[0].sizes == pytest.approx(
        probe(lambda h, layer: h + layer(torch.tanh(h))).branches[0].sizes
    )


def test_updates_of_several_shapes_are_not_added_up():
    """A stage that halves the image without a projection."""

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.entry = nn.Conv2d(3, 4, 1)
            self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))

        def forward(self, x):
            x = self.entry(x)
            for place, layer in enumerate(self.layers):
                x = x + layer(x)
                x = F.avg_pool2d(x, 2) if place == 1 else x
            return x

    with seeded(0):
        report = dl.probe(Pooled(), torch.ones(1, 3, 8, 8))
    assert report.branches[0].counts == (4,)


def test_scatter_misfit_and_rounding_set_the_interval():
    """By hand: two depths, one scatter; the slope's standard error is sqrt(sum of variances) / log 2."""
    sizes = [[1.0, 1.2], [0.5, 0.7, 0.6, 0.6]]
    squares = [np.square(group) / np.mean(np.square(group)) for group in sizes]
    scatter = sum(float(np.sum((group - 1) ** 2)) for group in squares) / 4 / 4
    wanted = math.sqrt(scatter / 2 + scatter / 4 + 2e-6) / math.log(2)
    assert fit([1, 2], sizes, 0.95).error == pytest.approx(wanted)
    exact = fit([1, 2, 4], [[1.0, 1.0], [0.5, 0.5], [0.25, 0.25]], 0.99)
    assert 1e-3 < exact.high - exact.low < 0.02
    assert fit([1, 2, 4], [[1.0, 1.0], [0.5, 0.5], [0.25, 0.25]], 0.99, 2**-8).error > 3 * exact.error
    bent = fit([1, 2, 4], [[1.0, 1.0], [1.0, 1.0], [0.25, 0.25]], 0.99)
    assert (bent.power_law, bent.low, bent.high) == (
        False,
        pytest.approx(0.0, abs=0.01),
        pytest.approx(2.0, abs=0.01),
    )
    assert bent.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.30, 0.38, False), (0.30, 0.41, None), (0.36, 0.40, None), (0.30, 0.45, True), (0.42, 0.46, True)],
)
def test_an_interval_beside_the_exponent_agrees_where_it_is_near(low, high, expected):
    """A multiplier of depth^-0.36 is not "as expected" where 1/2 is, nor surely further off than 0.1."""
    assert Exponent((low + high) / 2, 0.0, low, high, True).within(0.5, 0.1) is expected


def test_an_interval_that_reaches_the_next_class_is_no_answer_on_either_side():
    wide = fit([1, 2], [[1.0, 1.6, 0.4], [0.7, 1.1, 0.3]], 0.99)
    assert wide.low < 0.0
    assert wide.high > 1.0
    assert wide.within(0.5, 0.1) is None
    for target in (wide.low + 0.2, wide.high - 0.2):
        assert wide.within(target, 0.1) is None
    assert wide.within(wide.high + 0.2, 0.1) is False


def test_intervals_of_several_kinds_hold_together():
    def step(h, layer):
        return h + layer.weight(torch.tanh(h)) + layer.inner(torch.relu(h))

    def width(how, make):
        report = dl.check_depth(lambda depth: Steps(depth, how, make), [4, 8, 16], batch=states())
        low, high = report.branches[0].exponent_interval
        return high - low

    def alone(h, layer):
        h = h + layer.weight(torch.tanh(h))
        return h + 0.0

    assert width(step, Gained) > 1.02 * width(alone, Gained)
