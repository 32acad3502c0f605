"""What a study says it can decide is what the tests and verdicts behind it can reach, and no more."""

import logging

import numpy as np
import pytest
import torch
from refusals import assert_refused, row
from torch import nn

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.trained.diagnosis import slopes
from deeplimit.trained.diagnosis.hypotheses import NEURAL
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.network_report import Examined
from deeplimit.trained.diagnosis.order_test import order_test
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.diagnosis.study_power import depths_that_tell


def smooth(depth, scale=1.0):
    times = torch.arange(depth, dtype=torch.float64)[:, None, None] / depth
    first, second = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return scale * (torch.cos(times) * first + torch.sin(times) * second)


@pytest.mark.parametrize("depth", [6, 7])
def test_the_smallest_p_value_of_an_order_is_that_of_the_smoothest_layers(depth):
    found = order_test(LayerGram.of(Stack("A", smooth(depth))))
    assert dl.study_power([depth], 1).order_floors[depth] == pytest.approx(found.p_value)
    two = dl.study_power([depth], 2).order_floors[depth]
    assert two == pytest.approx(found.p_value**2 / 2)  # two sides are counted once


def test_more_objects_and_steps_lower_the_level_and_seeds_the_floor():
    assert dl.study_power([7, 12], 1).orders == (7, 12)
    assert dl.study_power([7, 12], 1, objects=4, steps=3).orders == (12,)
    assert dl.study_power([7, 12], 2, objects=4, steps=3).orders == (7, 12)
    assert dl.study_power([7, 12], 1, objects=4, steps=3).order_level == pytest.approx(0.01 / 24)


@pytest.mark.nightly
def test_verdicts_out_of_reach_are_not_reached_and_those_within_are():
    """Three close depths show no size that stays, and more do; noise that stays needs no more than four."""
    rng = np.random.default_rng(1)
    depths = (16, 32, 64, 128)
    weights = depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 6, (0, 1, 2, 3)), 0.3, 0.3, 6, depths)
    assert "sde" in dl.study_power(depths, 1).verdicts
    assert dl.diagnose(weights).verdict == "sde"
    for depths, reached in (((8, 16, 32), False), ((8, 16, 32, 64, 128), True)):
        weights = {depth: {"A": smooth(depth)} for depth in depths}
        power = dl.study_power(depths, 1)
        assert ("neural-ode" in power.verdicts) == reached == (dl.diagnose(weights).verdict == "neural-ode")
    assert dl.study_power([8, 16], 3).verdicts == ("cannot tell",)


def test_widths_are_those_of_networks_that_scatter_so_much():
    depths = np.repeat([8, 16, 32, 64, 128], 2)
    power = dl.study_power([8, 16, 32, 64, 128], 2)
    widths = []
    for seed in range(5):
        sizes = depths**-0.3 * np.exp(0.05 * np.random.default_rng(100 + seed).standard_normal(10))
        low, high = slopes.fit(depths, sizes, 0.99).interval
        widths.append((high - low) / 2)
    assert power.half_width(0.05) == pytest.approx(np.median(widths), rel=0.4)
    assert power.half_width() < power.half_width(0.05) < power.half_width(0.2)
    assert "0.0" in str(power)


@pytest.fixture
def no_rows(monkeypatch):
    """Studies without their rows, which take most of the time."""

    def refused(*given):
        raise ValueError("not needed here")

    monkeypatch.setattr(Examined, "of", refused)


def test_what_cannot_be_decided_is_logged_before_training_and_reported(caplog, no_rows):
    told = []

    def train(model, depth, seed):
        told.append(len(caplog.records))
        return model

    def factory(depth):
        return nn.Sequential(*(nn.Linear(3, 3) for _ in range(depth)))

    with caplog.at_level(logging.WARNING, logger="deeplimit"):
        report = dl.study(factory, train, [6, 7], 1)
        assert told == [2, 2]  # before the first network is trained
        assert len(caplog.records) == 2
        dl.study(factory, train, [6], 1, progress=False)
        assert len(caplog.records) == 2
    lacks = dl.study_power([6, 7], 1).lacks
    assert len(lacks) == 2
    assert set(lacks) <= set(report.reservations)


def scattered(depths, seed):
    """Smooth weights that keep their size but for 3 %, three networks per depth."""
    rng = np.random.default_rng(seed)
    return {L: [{"A": smooth(L, np.exp(0.03 * rng.standard_normal()))} for _ in range(3)] for L in depths}


def test_the_depths_that_are_proposed_would_tell():
    few = dl.study_power([8, 12, 18, 27], 3)
    more = depths_that_tell(few, 0.03)
    assert more.depths[:4] == few.depths
    assert more.half_width(0.03) < NEURAL <= dl.study_power(more.depths[:-1], 3).half_width(0.03)
    assert depths_that_tell(few, 3.0) is None
    verdicts = [[dl.diagnose(scattered(p.depths, s)).verdict for s in range(3)] for p in (few, more)]
    assert verdicts[0].count("cannot tell") >= 2
    assert verdicts[1].count("neural-ode") >= 2


def test_a_study_that_cannot_tell_names_them(no_rows):
    def train(model, depth, seed):
        size = np.exp(0.03 * np.random.default_rng(100 * depth + seed).standard_normal())
        with torch.no_grad():
            for layer, weight in zip(model, smooth(depth, size), strict=True):
                layer.weight.copy_(weight)
        return model

    def factory(depth):
        return nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(depth)))

    report = dl.study(factory, train, [6, 7, 8], 2, progress=False)
    assert report.verdict == "cannot tell"
    assert sum("64" in text and "*.weight" in text for text in report.reservations) == 1


REFUSED = [
    row("depths", lambda: dl.study_power([3, 9]), ValueError, "depths", "3"),
    row("seeds", lambda: dl.study_power([8, 9], 0), ValueError, "seeds", "0"),
    row("far too many", lambda: dl.study_power([8, 9], 10**6), ValueError, "seeds", "1000000"),
    row("objects", lambda: dl.study_power([8, 9], objects="2"), TypeError, "objects", "'2'"),
    row("steps", lambda: dl.study_power([8, 9], steps=-1), ValueError, "steps", "-1"),
    row("scatter", lambda: dl.study_power([8, 9]).half_width(-0.1), ValueError, "scatter", "-0.1"),
]


@pytest.mark.parametrize(("call", "kind", "names"), REFUSED)
def test_wrong_arguments_are_refused_by_name(call, kind, names):
    assert_refused(call, kind, *names)
