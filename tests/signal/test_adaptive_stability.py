"""`stability` with depths="auto" and draws="auto": what is raised, and the same numbers again."""

import dataclasses

import numpy as np
import pytest

import deeplimit as dl
from deeplimit.signal.adaptive import MeasuringStability
from deeplimit.statistics import adaptive_sampling
from deeplimit.statistics.adaptive_sampling import share

LONG = 3600.0
SMALL = adaptive_sampling.Size((10, 20, 40, 80), 30)


@pytest.fixture
def analysed(monkeypatch):
    """A call near the critical exponent that takes two looks, however fast the machine is."""
    monkeypatch.setattr(adaptive_sampling, "MOST_ANALYSES", 2)
    monkeypatch.setattr(MeasuringStability, "start", SMALL)
    return dl.stability(dl.res1(4, "relu", exponent=0.47), depths="auto", draws="auto", budget=LONG, seed=1)


def test_the_last_look_is_the_fixed_call_of_its_size_bit_for_bit(analysed):
    first, last = analysed.looks
    assert (first.depths, first.paths) == (SMALL.depths, SMALL.count)
    assert first.verdict == "cannot tell"
    assert last.depths[-1] > 80 or last.paths > 30
    assert analysed.hidden_growth.confidence == last.confidence == 1 - 0.05 * share(1)
    fixed = dl.stability(
        dl.res1(4, "relu", exponent=0.47), last.depths, draws=last.paths, confidence=last.confidence, seed=1
    )
    for name in ("log_hidden_ratio", "log_hidden_change", "log_gradient_ratio", "log_gradient_change"):
        assert np.array_equal(getattr(analysed, name), getattr(fixed, name), equal_nan=True)
    assert analysed.hidden_growth.interval == fixed.hidden_growth.interval
    shared = analysed.hidden_growth.sure
    assert analysed.hidden_growth.certainty == 1 - 0.001 * share(1)
    assert shared[0] < fixed.hidden_growth.sure[0] < fixed.hidden_growth.sure[1] < shared[1]
    assert np.array_equal(
        analysed.path(3).log_hidden_ratio[last.depths[0]][-1], analysed.log_hidden_ratio[0, 3]
    )
    assert "2 of at most" in str(analysed)


def test_what_no_exponent_is_fitted_to_asks_for_nothing():
    """Such as networks that overflowed, which more of them would do as well."""
    report = dl.stability(dl.res3(4), [10, 20, 40], draws=40)
    growth = dataclasses.replace(report.hidden_growth, exponent=np.nan, verdict=dl.Verdict.CANNOT_TELL)
    lost = dataclasses.replace(report, verdict=dl.Verdict.CANNOT_TELL, hidden_growth=growth)
    assert MeasuringStability(None, None).request(lost).order == ()


def test_one_depth_asks_for_more_and_few_draws_for_more(monkeypatch):
    monkeypatch.setattr(adaptive_sampling, "MOST_ANALYSES", 2)
    one = dl.stability(dl.res3(4), [10], draws="auto", budget=LONG)
    assert len(one.looks) == 1
    assert one.needs.depths[-1] > 10
    monkeypatch.setattr(MeasuringStability, "start", adaptive_sampling.Size((10, 20, 40), 8))
    few = dl.stability(dl.res3(4), [10, 20, 40], draws="auto", budget=LONG)
    assert few.looks[-1].paths > 8


def test_deeper_networks_take_over_the_blocks_of_the_same_depths(tmp_path):
    store = tmp_path / "runs.sqlite"
    dl.stability(dl.res3(4), [5, 10, 20], draws=20, store=store)
    dl.stability(dl.res3(4), [5, 10, 20, 40], draws=20, store=store)
    first, second = dl.Store(store).runs()
    assert first.specification == second.specification
    assert second.total > first.total
