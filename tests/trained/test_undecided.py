"""Layers whose verdict is "cannot tell": what is known of them, and how many networks would decide."""

import dataclasses
import math

import pytest
import torch

import deeplimit as dl
from deeplimit.trained.diagnosis.undecided import known

REAL = 0.003


def noise(depth, seed, width=4):
    return torch.randn(depth, width, width, generator=torch.Generator().manual_seed(seed))


def drifting(depth, seed, width=5, turn=0.1, size=0.9):
    """Layers that share a large part, turn slowly, and have noise."""
    first, second = noise(2, seed, width)
    angles = turn * torch.arange(depth)[:, None, None]
    return torch.cos(angles) * first + torch.sin(angles) * second + size * noise(depth, seed + 1, width)


def diagnosed(*stacks):
    return dl.diagnose([dict(A=each) for each in stacks] if len(stacks) > 1 else dict(A=stacks[0]))


@pytest.fixture(scope="module")
def shared():
    return diagnosed(drifting(12, 0))


def test_layers_that_share_a_part_are_not_like_independent_ones(shared):
    (one,) = shared.objects
    found = known(shared.objects, 1, REAL)
    assert one.verdict == "cannot tell"
    assert (found.reading, found.order) == ("shared", False)
    assert found.noise == one.noise_interval
    assert found.hurst == one.hurst_interval


def test_as_many_networks_as_are_said_to_decide_do_decide(shared):
    number = known(shared.objects, 1, REAL).networks
    assert 1 < number <= 6
    pooled = diagnosed(*(drifting(12, 2 * seed) for seed in range(number)))
    assert pooled.objects[0].correlation == "decaying"


def test_independent_layers_of_few_entries_read_as_such():
    report = diagnosed(noise(8, 3))
    found = known(report.objects, 1, REAL)
    assert report.objects[0].verdict == "cannot tell"
    assert found.reading == "like independent"
    assert found.noise[1] == 1.0


def test_nothing_is_added_where_all_objects_can_tell():
    report = diagnosed(noise(24, 0, 12))
    assert report.objects[0].verdict == "independent"
    assert known(report.objects, 1, REAL) is None
    assert [label for label, _ in report._facts()] == []


def test_what_is_known_and_what_would_decide_come_first_in_a_line_each(shared):
    lines = str(shared).splitlines()
    low, high = shared.objects[0].noise_interval
    assert f"{low:.2f} to {high:.2f}" in lines[0]
    assert [line.split("  ")[0] for line in lines[1:3]] == ["known", "to decide"]
    assert f"{low:.2f} to {high:.2f}" in lines[1]
    assert f"{known(shared.objects, 1, REAL).networks} networks" in lines[2]


def test_a_number_of_networks_that_nobody_would_train_is_not_named(shared):
    (one,) = shared.objects
    flat = dataclasses.replace(one, p_value=0.45, hurst=0.61)
    assert known((flat,), 1, REAL).networks is None
    near = dataclasses.replace(one, p_value=0.45, hurst=0.5, hurst_interval=(0.35, 0.65))
    assert known((near,), 2, REAL).networks == math.ceil(2 * 1.5**2)


def test_layers_that_are_surely_smooth_are_not_like_independent_ones(shared):
    (one,) = shared.objects
    open_ended = dataclasses.replace(one, noise=0.0, noise_interval=(0.0, 1.0), correlation="cannot tell")
    smooth = dataclasses.replace(open_ended, hurst=0.99, hurst_interval=(0.99, 1.0))
    either = dataclasses.replace(open_ended, hurst=0.6, hurst_interval=(0.4, 0.99))
    assert known((smooth,), 1, REAL).reading == "mixed"
    assert known((either,), 1, REAL).reading == "like independent"


@pytest.mark.parametrize(("depth", "reading"), [(6, "few layers"), (7, None)])
def test_too_few_layers_are_said_to_have_too_few_orders(depth, reading):
    report = diagnosed(drifting(depth, 0, size=0.05))
    found = known(report.objects, 1, REAL)
    assert (None if found is None else found.reading) == reading
    assert found is None or found.layers == depth


def test_noise_of_few_layers_is_not_in_an_order_that_stands_out():
    readings = [known(diagnosed(noise(6, seed)).objects, 1, REAL) for seed in range(6)]
    assert sum(found is not None and found.reading == "few layers" for found in readings) <= 1
