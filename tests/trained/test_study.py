"""A study trains with the user's loop, keeps invariants and not weights, and ends in one table."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from refusals import assert_refused, row
from torch import nn

import deeplimit as dl
from deeplimit.common.measurement import measure
from deeplimit.trained.diagnosis.network_report import Examined
from deeplimit.trained.diagnosis.study import Study

WIDTH = 5


class Layer(nn.Module):
    """h + scale · V tanh(W h)."""

    def __init__(self, width, hidden, scale):
        super().__init__()
        self.read, self.write = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.scale = scale

    def forward(self, h):
        return h + self.scale * self.write(torch.tanh(self.read(h)))


def network(depth, exponent=1.0, tied=False, width=WIDTH, hidden=8):
    layers = nn.Sequential(*(Layer(width, hidden, depth**-exponent) for _ in range(depth)))
    if tied:
        for layer in layers[1:]:
            layer.load_state_dict(layers[0].state_dict())
    return layers


def one_matrix(depth):
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth)))


def fit(model, x, y, steps, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def regression(model, depth, seed):
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(seed))
    return fit(model, x, torch.roll(x, 1, dims=1) + torch.tanh(x), 30, 0.02)


def turned(model, depth, seed):
    """Make the layers a smooth function of depth, without training."""
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, like in model[0].named_parameters():
            first, second = torch.randn(2, *like.shape, generator=stream)
            for k, layer in enumerate(model):
                angle = 1.5 * (k + 0.5) / depth
                layer.get_parameter(name).copy_(math.cos(angle) * first + math.sin(angle) * second)
    return model


def numbers(report):
    return [
        (each.network, each.depth, each.size, each.examined.p_value, each.examined.hurst)
        for each in report.rows
    ]


def without_shuffled(report):
    return [each for each in numbers(report) if each[0] != "shuffled"]


def bits(kept, kind):
    """What is kept of one kind of network, as bytes."""
    return {name: value.tobytes() for name, value in kept[kind].write(kind).items()}


@pytest.fixture(scope="module")
def smooth():
    return dl.study(one_matrix, turned, (8, 12, 18), seeds=2)


def test_trained_untrained_and_shuffled_stand_in_one_table(smooth):
    assert smooth.verdict in ("neural-ode", "cannot tell")
    assert {each.network for each in smooth.rows} == {"trained", "untrained", "shuffled"}
    trained = [each for each in smooth.rows if each.network == "trained"]
    others = [each for each in smooth.rows if each.network != "trained"]
    assert all(each.is_ordered for each in trained)
    assert not any(each.is_ordered for each in others)  # the wrong twins
    assert max(each.examined.noise for each in trained) < 0.1 < min(each.examined.noise for each in others)
    assert smooth.of("untrained").verdict in ("no trend", "cannot tell")
    assert_refused(lambda: smooth.of("other"), ValueError, "network", "'other'")


@pytest.mark.parametrize("seeds", [2, 4])
def test_networks_that_are_equal_bit_by_bit_count_once_under_whatever_seeds(seeds):
    """A factory that sets torch's seed makes one network per depth, with which order is never sure."""

    def same(depth):
        torch.manual_seed(depth)
        return one_matrix(depth)

    def stretched(model, depth, seed):
        for parameter in model.parameters():
            parameter.data.mul_(1.5)
        return model

    found, one = (dl.study(same, stretched, (8, 12), each, progress=False) for each in (seeds, 1))
    assert without_shuffled(found) == without_shuffled(one)
    told = [text for text in found.reservations if "depth 8, 12 " in text]
    assert len(told) == 1
    assert not any("depth 8, 12 " in text for text in one.reservations)


def test_networks_that_are_equal_before_training_count_once_before_it():
    """One start at each depth, which training by seeds leaves: at step 0 there is one network."""

    def same(depth):
        torch.manual_seed(depth)
        return one_matrix(depth)

    def train(model, depth, seed, checkpoint):
        checkpoint(model, 0)
        return turned(model, depth, seed)

    found, one = (dl.study(same, train, (8, 12), seeds, progress=False) for seeds in (2, 1))
    rows, alone = (
        [row for row in numbers(each) if row[0] in ("untrained", "checkpoint")] for each in (found, one)
    )
    assert rows == alone
    assert not any("same trained network" in text for text in found.reservations)


@pytest.mark.parametrize("silent", [8, 16])
def test_a_depth_whose_layers_are_copies_is_named_and_the_others_are_judged(silent):
    def train(model, depth, seed):
        if depth == silent:
            for parameter in model.parameters():
                parameter.data.fill_(0.3)
        return model

    report = dl.study(one_matrix, train, (8, 12, 16, 20), 2, progress=False)
    depths = {each.depth for each in report.rows if each.network == "trained"}
    assert depths == {8, 12, 16, 20} - {silent}
    assert report.verdict != "copies"
    assert sum(text.startswith(f"trained networks at L = {silent} are") for text in report.reservations) == 1


def test_the_table_the_picture_and_the_file_hold_every_row(smooth, tmp_path):
    frame = smooth.to_frame()
    assert len(frame) == len(smooth.rows) == 3 * 3
    assert frame["L"].tolist()[:3] == [8, 12, 18]
    assert "trained" in smooth.to_latex()
    smooth.plot(tmp_path / "study.png")
    smooth.save(tmp_path / "study.json")
    again = dl.load_report(tmp_path / "study.json")
    assert numbers(again) == numbers(smooth)
    assert again.headline == smooth.headline


def test_finished_networks_come_from_the_store_and_seeds_extend_it(tmp_path):
    log = tmp_path / "log"

    def counted(model, depth, seed):
        with log.open("a") as file:
            file.write(f"{depth} {seed},")
        return turned(model, depth, seed)

    def trained():
        return sorted(log.read_text().split(",")[:-1])

    def kept(*seeds, **how):
        found = measure(Study(one_matrix, counted, (6, 7), seeds), **how)
        return [bits(each, kind) for each in found for kind in sorted(each)]

    first = kept(4, store=tmp_path / "study.db")
    assert trained() == ["6 4", "7 4"]
    assert kept(4, store=tmp_path / "study.db") == first
    assert len(trained()) == 2
    more = kept(4, 9, store=tmp_path / "study.db")
    assert trained() == ["6 4", "6 9", "7 4", "7 9"]
    assert more == kept(4, 9)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2_000_000  # products, not weights


def test_an_executor_changes_no_bit():
    plan = {"factory": one_matrix, "train": regression, "depths": (6,), "seeds": 2}
    with ThreadPoolExecutor(1) as pool:
        assert numbers(dl.study(**plan, executor=pool)) == numbers(dl.study(**plan))


def test_a_tied_start_is_called_copies():
    report = dl.study(lambda depth: network(depth, tied=True), turned, (6,), seeds=1)
    assert report.of("untrained").verdict == "copies"
    assert report.of("trained").verdict != "copies"


def noise_until(first, steps):
    """A training whose layers are independent at every step before `first`, and mostly smooth from it on."""

    def train(model, depth, seed, checkpoint):
        stream = torch.Generator().manual_seed(1000 * depth + seed)
        start, end = torch.randn(2, WIDTH, WIDTH, generator=stream)
        for step in steps:
            with torch.no_grad():
                for k, layer in enumerate(model):
                    angle = 1.5 * (k + 0.5) / depth
                    trend = (math.cos(angle) * start + math.sin(angle) * end) * (step >= first)
                    layer.weight.copy_(trend + 0.3 * torch.randn(WIDTH, WIDTH, generator=stream))
            checkpoint(model, step)
        return model

    return train


@pytest.fixture(scope="module")
def course():
    return dl.study(one_matrix, noise_until(4, (0, 2, 4, 6)), (10, 14), seeds=2)


def test_the_step_at_which_order_appears_is_found(course, tmp_path):
    assert course.first_ordered() == {"*.weight": {10: 4, 14: 4}}
    during = [each for each in course.rows if each.network == "checkpoint"]
    assert [(each.step, each.depth) for each in during] == [(s, L) for s in (0, 2, 4, 6) for L in (10, 14)]
    assert course.to_frame()["step"].tolist()[-2:] == [6, 6]
    course.plot(tmp_path / "study.png")
    course.save(tmp_path / "study.json")
    assert dl.load_report(tmp_path / "study.json").first_ordered() == course.first_ordered()


def test_one_level_holds_over_objects_depths_and_steps(monkeypatch):
    counts = []

    def counted(name, gram, what, seed, count=1):
        counts.append(count)
        raise ValueError("not needed here")

    def train(model, depth, seed, checkpoint):
        for step in range(4):
            checkpoint(model, step)
        return model

    monkeypatch.setattr(Examined, "of", counted)
    dl.study(network, train, (6, 7), seeds=1)
    objects = 3  # the product of a branch's weights, and what it reads and writes
    assert counts == [objects * 2] * (3 * objects * 2) + [objects * 2 * 4] * (4 * objects * 2)


def test_no_order_appears_where_there_is_none(smooth):
    report = dl.study(one_matrix, noise_until(9, (0, 3)), (10,), seeds=2)
    assert report.first_ordered() == {"*.weight": {10: None}}
    assert smooth.first_ordered() == {}


class Noisy(nn.Module):
    """Draws in every forward, also in evaluation mode."""

    def forward(self, h):
        return h + 0.1 * torch.randn(h.shape)


def watched(model, depth, seed, checkpoint=None):
    """A training in which every random number, the mode and the gradients matter."""
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(seed))
    model = nn.Sequential(model, nn.Dropout(0.1), Noisy()).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(3):
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        if checkpoint is not None:
            checkpoint(model, step)
        optimizer.step()
    return model


def test_checkpoints_change_no_bit_of_training_and_come_back_from_a_store(tmp_path):
    def measured(train, **how):
        return measure(Study(one_matrix, train, (6, 7), (0, 1)), **how)

    seen = measured(watched, store=tmp_path / "study.db")
    alone = measured(lambda model, depth, seed: watched(model, depth, seed))
    again = measured(watched, store=tmp_path / "study.db")
    kinds = {"trained", "untrained", "shuffled"}
    for with_steps, without, read in zip(seen, alone, again, strict=True):
        assert with_steps.keys() == read.keys() == kinds | {f"step {step}" for step in range(3)}
        assert without.keys() == kinds
        assert all(bits(with_steps, kind) == bits(without, kind) for kind in kinds)
        assert all(bits(with_steps, kind) == bits(read, kind) for kind in with_steps)
        assert bits(with_steps, "step 1") != bits(with_steps, "step 2")


def test_steps_that_only_some_seeds_have_are_left_out_and_copies_have_no_order():
    def train(model, depth, seed, checkpoint):
        checkpoint(model, 0)
        for step in range(1, 2 + seed):
            checkpoint(turned(model, depth, seed), step)
        return model

    def copies(depth):
        layers = one_matrix(depth)
        for layer in layers:
            layer.load_state_dict(layers[0].state_dict())
        return layers

    report = dl.study(copies, train, (9,), seeds=2)
    assert [each.step for each in report.rows if each.network == "checkpoint"] == [1]
    assert sum("step" in text for text in report.reservations) == 2


def backwards(model, depth, seed, checkpoint):
    checkpoint(model, 3)
    checkpoint(model, 3)


def of_no_module(model, depth, seed, checkpoint):
    checkpoint(3, 1)


REFUSED = [
    row("steps", lambda: dl.study(one_matrix, backwards, (8, 9)), ValueError, "step", "3"),
    row("module", lambda: dl.study(one_matrix, of_no_module, (8, 9)), TypeError, "checkpoint", "3"),
    row("factory", lambda: dl.study(3, turned, (8, 9)), TypeError, "factory", "3"),
    row("train", lambda: dl.study(network, 3, (8, 9)), TypeError, "train", "3"),
    row("depths", lambda: dl.study(network, turned, (3, 9)), ValueError, "depths", "3"),
    row("seeds", lambda: dl.study(network, turned, (8, 9), [1, 1]), ValueError, "seeds", "[1, 1]"),
    row("by depth", lambda: dl.study(network, turned, (8, 9), {8: [1]}), TypeError, "seeds", "{8: [1]}"),
    row("too many", lambda: dl.study(network, turned, (8, 9), 2000, progress=False), ValueError, "seeds"),
    row("two arguments", lambda: dl.study(network, lambda model, depth: model, (8, 9)), TypeError, "train"),
    row("no depth", lambda: dl.study(lambda: network(8), turned, (8, 9)), TypeError, "factory"),
    row("none", lambda: dl.study(network, lambda *given: None, (8, 9)), TypeError, "train", "None"),
]


@pytest.mark.parametrize(("call", "kind", "names"), REFUSED)
def test_wrong_arguments_are_refused_by_name(call, kind, names):
    assert_refused(call, kind, *names)


def test_a_class_whose_argument_is_the_depth_is_a_factory():
    class Called(Exception):
        pass

    class Net(nn.Module):
        def __init__(self, depth):
            raise Called(depth)

    with torch.random.fork_rng():
        networks = {depth: network(depth) for depth in (6, 8, 10)}
    with pytest.raises(Called):
        dl.study(Net, turned, [6, 8], progress=False)
    with pytest.raises(Called):
        dl.diagnose(networks, batch=torch.ones(1, WIDTH), null=Net)
    with pytest.raises(TypeError, match="factory"):
        dl.study(networks[6], turned, [6, 8])


@pytest.mark.nightly
def test_digits_with_one_over_depth_and_a_tied_start_differ_from_one_over_its_root():
    """Marion et al.: with 1/L and a tied start layers stay smooth; with 1/√L they keep their noise."""
    data = dl.datasets.digits()
    x, y = data.inputs.flatten(1)[:600].float(), data.targets[:600]

    def build(exponent, tied):
        return lambda depth: nn.Sequential(
            nn.Linear(x.shape[1], 12), network(depth, exponent, tied, 12, 12), nn.Linear(12, 10)
        )

    def train(model, depth, seed, checkpoint):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(60):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == 4:
                checkpoint(model, 5)
        return model

    def products(report, kind):
        rows = [row for row in report.rows if row.network == kind and row.examined.name.endswith("product")]
        return np.array([(row.examined.noise, row.examined.hurst, row.is_ordered) for row in rows]).T

    depths = (8, 12, 18, 27, 40)
    ode = dl.study(build(1.0, True), train, depths, seeds=3, batch=x[:4])
    sde = dl.study(build(0.5, False), train, depths, seeds=3, batch=x[:4])
    assert ode.of("untrained").verdict == "copies"
    assert sde.of("untrained").verdict in ("no trend", "cannot tell")
    smooth, rough, untrained = products(ode, "trained"), products(sde, "trained"), products(sde, "untrained")
    assert smooth[0].max() < 0.05  # 0.00 was measured at every depth
    assert rough[0].min() > 0.3  # 0.49 to 0.55: half of the start's noise is left
    assert rough[0].max() < 0.8 < untrained[0].min()  # 0.98 to 1.02
    assert smooth[1].min() > 0.95  # 0.99
    assert rough[1].max() < 0.65  # 0.52 to 0.56
    assert abs(untrained[1] - 0.5).max() < 0.03
    assert (
        smooth[2].sum() == len(depths) > rough[2].sum()
    )  # the order of i.i.d. starts is seen at L = 40 alone
    assert untrained[2].sum() == 0
    (first,) = [steps for name, steps in ode.first_ordered().items() if name.endswith("product")]
    assert first == dict.fromkeys(depths, 5)  # from the first steps on
    assert all(step is None for steps in sde.first_ordered().values() for step in steps.values())


@pytest.mark.nightly
def test_networks_of_train_on_digits_differ_as_their_starts_say():
    """Layers of res-2 that begin alike with 1/L stay smooth, independent ones with 1/√L stay noise."""
    depths, settings = (8, 12, 18, 27, 40), dict(repeats=3, optimizer=dl.Adam(0.003), epochs=15)
    smooth = dl.res2(12, "tanh", weights=dl.SmoothGaussian(), exponent=1.0)
    alike = dl.FromWeightLaws(same_in_all_layers=True)
    ode = dl.train(smooth, depths, dl.datasets.digits(), initial=alike, **settings)
    sde = dl.train(dl.res2(12, "tanh", exponent=0.5), depths, dl.datasets.digits(), **settings)
    assert min(ode.accuracies.min(), sde.accuracies.min()) > 0.9  # means of 0.96 to 0.98 were measured
    assert dl.diagnose(ode.weights()).verdict in ("neural-ode", "cannot tell")  # sizes scatter by 3 %
    assert dl.diagnose(sde.weights()).verdict in ("no trend", "cannot tell")
    for report, ordered in ((ode, True), (sde, False)):
        for stacks in report.weights().values():
            seeds = [{name: stack for name, stack in each.items() if name != "delta"} for each in stacks]
            for found in dl.diagnose(seeds).objects:
                assert (found.verdict == "smooth trend") == ordered
                assert found.noise < 0.05 if ordered else found.noise > 0.9


def left_alone(model, depth, seed):
    return model


def gone(model, depth, seed):
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    return model


def test_training_that_changed_nothing_is_said_first(smooth):
    still = dl.study(one_matrix, left_alone, (6, 8, 10), seeds=1)
    assert "6, 8, 10" in still.reservations[0]
    assert "`train`" in still.reservations[0]
    assert not any("`train`" in text for text in smooth.reservations)


def test_networks_that_are_lost_in_training_are_named_by_depth_and_seed():
    with pytest.raises(ValueError, match="finite") as caught:
        dl.study(one_matrix, gone, (6, 8, 10), seeds=1)
    assert any("train(model, " in note for note in caught.value.__notes__)
