"""A call that nobody asked to show its progress says once, in the log, that it takes long and how long."""

import logging

import pytest

import deeplimit as dl
from deeplimit.common import measurement


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(measurement.time, "perf_counter", lambda: now[0])
    return now


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "deeplimit"]


def test_after_ten_seconds_one_line_says_how_long_it_will_take(clock, caplog):
    with measurement.shown(None, "compare") as move:
        for clock[0], fraction in ((1.0, 0.02), (9.0, 0.18), (11.0, 0.2), (12.0, 0.21)):
            move(fraction)
    assert told(caplog) == [
        "compare: 20 % done after 11 s, about 44 s to go. progress=True shows a bar, False nothing."
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_what_a_store_held_took_no_time(clock, caplog):
    with measurement.shown(None, "compare") as move:
        move(0.5)
        clock[0] = 20.0
        move(0.5)
        assert told(caplog) == []
        move(0.6)
    assert "60 % done after 20 s, about 80 s to go" in told(caplog)[0]


def test_nothing_is_said_at_the_end_or_where_it_is_not_wanted(clock, caplog):
    with measurement.shown(None, "compare") as move:
        clock[0] = 20.0
        move(1.0)
    with measurement.shown(False, "compare") as move:
        assert move is None
    assert told(caplog) == []


@pytest.mark.parametrize(("asked", "lines"), [(None, 1), (False, 0)])
def test_a_long_comparison_is_announced_once(asked, lines, monkeypatch, caplog):
    monkeypatch.setattr(measurement, "SECONDS_IN_SILENCE", 0.0)
    dl.compare(dl.res1(2), depths=[4, 8], paths=20_000, progress=asked)
    assert len([line for line in told(caplog) if "to go" in line]) == lines
