"""`compare_laws` with depths="auto" and draws="auto": what is raised, the levels, the same numbers again."""

import dataclasses
import sqlite3

import numpy as np
import pytest
import torch
from listed_rules import undecided_rules

import deeplimit as dl
from deeplimit.judge.in_law import verdict
from deeplimit.judge.in_law.adaptive import ASKS
from deeplimit.statistics import adaptive_sampling
from deeplimit.statistics.adaptive_sampling import share

LONG = 3600.0


@pytest.fixture
def few_looks(monkeypatch):
    """Calls end by their number of looks, not by how fast the machine is."""
    monkeypatch.setattr(adaptive_sampling, "MOST_ANALYSES", 2)


def test_every_rule_that_cannot_tell_says_what_it_asks_for():
    assert undecided_rules(verdict.rules) == set(ASKS)


def test_a_default_call_ends_with_the_right_verdict_at_the_first_look():
    report = dl.compare_laws(dl.res3(2), depths="auto", draws="auto")
    assert (report.verdict, len(report.looks)) == ("same law", 1)
    assert report.level == 1e-3 * share(0)


def test_more_draws_are_taken_where_an_interval_is_too_wide(few_looks, monkeypatch):
    start = adaptive_sampling.Size((8, 16, 32, 64), 1000)
    monkeypatch.setattr("deeplimit.judge.in_law.adaptive.ComparingLaws.start", start)
    report = dl.compare_laws(dl.res3(2), depths="auto", draws="auto", budget=LONG, seed=2)
    first, last = report.looks
    assert (first.rule, first.depths) == ("is_too_uncertain", last.depths)
    assert last.paths == report.draws > 1000
    assert report.level == pytest.approx(1e-3 * share(1))
    fixed = dl.compare_laws(dl.res3(2), depths=last.depths, draws=last.paths, level=report.level, seed=2)
    for field in dataclasses.fields(fixed):
        if isinstance(getattr(fixed, field.name), np.ndarray):
            assert np.array_equal(getattr(report, field.name), getattr(fixed, field.name), equal_nan=True)
    assert fixed.verdict == report.verdict
    assert "2 of at most" in str(report)


def test_the_reason_and_the_line_of_what_is_needed_name_the_same_number_of_draws(monkeypatch):
    """44 times as many draws were said to do, and a line further down named 16 times as many."""
    monkeypatch.setattr(adaptive_sampling, "MOST_ANALYSES", 1)
    start = adaptive_sampling.Size((8, 16, 32, 64), 200)
    monkeypatch.setattr("deeplimit.judge.in_law.adaptive.ComparingLaws.start", start)
    report = dl.compare_laws(dl.res3(2), depths="auto", draws="auto", tolerance=0.05, seed=2)
    assert (report.rule, report.draws) == ("is_too_uncertain", 200)
    reach = float((np.abs(report.floors) + report.floor_margins).max())
    times = verdict.more_draws(reach, report.tolerance)
    assert times > adaptive_sampling.MOST_TIMES
    assert report.needs.paths == times * report.draws
    assert f" {times:.0f} times" in report.reason


def test_fewer_than_four_times_as_many_draws_are_not_said_to_decide():
    assert [verdict.more_draws(reach, 0.1) for reach in (0.11, 0.2, 0.25)] == [4.0, 4.0, 7.0]


def test_steps_for_given_depths_are_refused_where_depths_are_chosen():
    with pytest.raises(ValueError, match=r"^steps=512"):
        dl.compare_laws(dl.res3(2), depths="auto", steps=512)


def test_deeper_networks_take_over_the_blocks_of_the_same_depths(tmp_path):
    path = tmp_path / "runs.sqlite"
    dl.compare_laws(dl.res3(2), depths=[4, 8, 16], draws=300, store=path)
    dl.compare_laws(dl.res3(2), depths=[4, 8, 16, 32], draws=300, store=path)
    first, second = dl.Store(path).runs()
    assert (first.total, second.total) == (4, 5)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM blocks").fetchone()[0] == 5
    connection.close()


@pytest.mark.nightly
def test_the_first_analysis_of_a_modules_blocks_is_as_large_as_the_budget_allows(monkeypatch):
    """Making a block takes as long as hundreds of steps of a network of ours."""
    start = adaptive_sampling.Size((2, 3, 4), 3200)
    monkeypatch.setattr("deeplimit.judge.in_law.adaptive.ComparingLaws.start", start)
    monkeypatch.setattr(adaptive_sampling, "SECONDS", 0.2)
    sde, x, open_size = dl.res1(2, "relu").limit(), torch.ones(1, 2), dict(depths="auto", draws="auto")
    sizes = [
        dl.compare_laws(network, sde, x, **open_size).looks[0].paths
        for network in (blocks, dl.res1(2, "relu"))
    ]
    assert sizes[0] < sizes[1] == 3200


def blocks(depth):
    return [Block(depth) for _ in range(depth)]


class Block(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 2) / (2 * depth) ** 0.5)

    def forward(self, h):
        return torch.relu(h) @ self.weight.T
