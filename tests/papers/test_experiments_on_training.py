"""The experiments on trained networks pass their checks, and planted contradictions fail them."""

import types
from dataclasses import replace

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.measurement import Running
from deeplimit.papers.figures import (
    mean_field_training as mean_field,
    stop_rule,
    tied_initialisation as tied,
    trained_network_and_its_limit as followed,
)
from deeplimit.papers.figures.over_repeats import Mean, fitted_order, order_against_deepest

EXPERIMENTS = (
    "trained-limit",
    "tied-initialisation",
    "mean-field-training",
    "trained-transformers",
    "stop-rule",
)
DEPTHS = np.array([8.0, 16.0, 32.0, 64.0])


@pytest.mark.nightly
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_passes_at_its_quick_size(name, tmp_path):
    done = dl.reproduce(name, quick=True, store=tmp_path / "store")
    assert done.passed, str(done)
    assert any(check.stated.startswith("control") for check in done.checks)
    done.save(tmp_path / "done.json")
    again = dl.load_report(tmp_path / "done.json")
    assert (again.figure, str(again)) == (name, str(done))
    for file, report in (("a.png", done), ("b.png", again)):
        report.plot(tmp_path / file)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize("alike", [False, True])
def test_other_beginnings_are_not_taken_for_equal_layers_at_all_depths(monkeypatch, alike):
    monkeypatch.setattr(tied, "ARMS", tied.ARMS[:1])
    monkeypatch.setattr(tied, "FromWeightLaws", lambda **_: dl.FromWeightLaws(same_in_all_layers=alike))
    done = dl.reproduce("tied-initialisation", quick=True)
    assert [check.passed for check in done.checks] == [False, False]


@pytest.mark.parametrize("planted", [0.0, 0.2])
def test_errors_that_depend_on_the_width_are_seen(planted):
    cells = [(64, 4), (16, 16), (4, 64), (8, 4)]
    noise = torch.randn(4, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    squares = (1 + 0.2 * noise) * np.array([1.0, 1.0 + planted, 1.0 + 2 * planted, 9.0])[:, None]
    together, ratios = mean_field._same_units(cells, squares)
    assert together == 256
    assert list(ratios) == ["M = 4", "M = 16", "M = 64"]
    assert all(one.sure[0] <= 1.0 <= one.sure[1] for one in ratios.values()) == (planted == 0.0)


def test_the_known_constant_is_the_second_moment_of_tanh():
    x = torch.randn(5, mean_field.WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    g = torch.randn(400_000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    sizes = x.norm(dim=1) / mean_field.WIDTH**0.5
    squares = torch.tanh(sizes[:, None] * g).square()
    error = float(squares.mean(0).std()) / len(g) ** 0.5
    assert mean_field.known_constant(x) ** 2 == pytest.approx(float(squares.mean()), abs=5 * error)


@pytest.mark.parametrize("order", [0.25, 0.5, 1.0, 2.0])
def test_the_order_against_a_network_of_known_depth_is_found(order):
    assert order_against_deepest(DEPTHS, DEPTHS**-order - 128.0**-order, 128) == pytest.approx(
        order, rel=1e-6
    )
    assert order_against_deepest(DEPTHS, np.ones(4), 128) == 0.0


@pytest.mark.parametrize(("order", "found"), [(1.0, True), (0.5, False)])
def test_order_one_is_told_from_one_half(order, found):
    noise = torch.randn(16, generator=torch.Generator().manual_seed(3), dtype=torch.float64).numpy()
    errors = (DEPTHS**-order - 128.0**-order)[:, None] * np.exp(0.2 * noise)
    low, high = fitted_order(DEPTHS, errors**2, 128).interval(0.99)
    assert (low <= 1.0 <= high) == found


def told(slopes, noise):
    errors = {name: 0.2 * (DEPTHS / 8.0)[:, None] ** power * np.exp(noise) for name, power in slopes.items()}
    return {name: followed.Told.of(DEPTHS, 128, each) for name, each in errors.items()}, errors


@pytest.mark.parametrize(
    ("own", "other", "passed"),
    [
        (-0.9, 0.0, [True, True, True, True]),
        (0.0, 0.0, [False, False, True, True]),
        (-0.9, -0.9, [True, False, True, False]),
    ],
)
def test_a_limit_that_is_not_the_runs_own_fails_its_check(own, other, passed):
    arm = followed.ARMS[1]
    noise = 0.1 * torch.randn(4, 12, generator=torch.Generator().manual_seed(4), dtype=torch.float64).numpy()
    found, errors = told({followed.OWN: own, followed.OTHER: other, followed.SLOPE: 0.0}, noise)
    gain = Mean.of(np.log(errors[followed.OWN] / errors[followed.OTHER])[-1] + 0.05 * noise[0])
    assert [check.passed for check in followed._checks(arm, found, gain, (8, 16, 32, 64, 128))] == passed


@pytest.mark.parametrize("arm", followed.ARMS[:2])
def test_training_in_one_call_or_in_many_counts_up_to_the_end(arm, monkeypatch):
    told = []

    def trained(*given, progress, repeats, **more):
        progress(0.5)
        progress(1.0)
        return types.SimpleNamespace(repeats=repeats, weights=dict)

    monkeypatch.setattr(followed, "train", trained)
    arm.train((8, 16), 0, "cpu", Running.checked(None, None, None, told.append))
    assert told == sorted(told)
    assert told[-1] == 1.0


def clusters(count, classes=4):
    """Inputs around the corners of a cube, with one-hot targets."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(count) % classes
    x = torch.nn.functional.one_hot(labels, classes) + 0.1 * torch.randn(count, classes, generator=generator)
    return dl.datasets.Data.of(x, torch.nn.functional.one_hot(labels, classes).float(), test=40)


@pytest.mark.parametrize(
    ("name", "loss", "right", "passed"),
    [
        (stop_rule.PUBLISHED, 0.0275, 0.6, True),
        (stop_rule.PUBLISHED, 0.0200, 0.8, False),
        (stop_rule.PUBLISHED, 0.0400, 0.1, False),
        (f"{stop_rule.LONGER}, tanh", 0.002, 0.95, True),
        (f"{stop_rule.LONGER}, tanh", 0.0275, 0.6, False),
        (stop_rule.LABELS, 0.4, 0.8, True),
        (stop_rule.LABELS, 1.4, 0.6, False),
    ],
)
def test_networks_on_the_plateau_are_told_from_those_beyond_it(name, loss, right, passed):
    reached = {"losses": np.full((2, 3), loss), "train": np.full((2, 3), right)}
    assert stop_rule.judged(name, reached, 0.0274).passed == passed


def test_the_published_patience_is_counted_in_steps():
    data = clusters(190)
    sweep = stop_rule.patient(replace(stop_rule.TANH[0], data=lambda *_: data), quick=False)
    assert sweep.patience * len(data.inputs) // stop_rule.BATCH == stop_rule.PATIENCE == 9375


def test_whitened_inputs_have_one_variance_and_the_same_affine_fit():
    data = clusters(200)
    white = stop_rule.whitened(data)
    covariance = torch.cov(white.inputs.double().T)
    torch.testing.assert_close(
        covariance / stop_rule.SPREAD**2, torch.eye(4, dtype=torch.float64), atol=1e-5, rtol=0
    )
    assert stop_rule.affine_fit(white)[0] == pytest.approx(stop_rule.affine_fit(data)[0], rel=1e-4)
    assert not torch.equal(white.test_inputs, data.test_inputs)


def test_neighbours_and_labels_are_those_of_the_targets():
    data = clusters(200)
    assert stop_rule.nearest_neighbours(data) == 1.0
    wrong = replace(data, targets=data.targets.roll(1, dims=1))
    assert stop_rule.nearest_neighbours(wrong) == 0.0
    named = stop_rule.labelled(data)
    assert (named.classes, named.targets.tolist()) == (4, data.targets.argmax(1).tolist())
