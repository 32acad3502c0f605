"""Every report is what it was when it was frozen: to the last bit on that machine, closely on others."""

import copy
import math

import pytest
import torch

from .freeze import FOLDER, MACHINE, computed, differences, is_number, is_recorded_machine, stored
from .specimens import SPECIMENS

EXACT = is_recorded_machine()
SIGNS = torch.empty(8).bernoulli_(0.5, generator=torch.Generator().manual_seed(3)).tolist()
DRAWS_ARE_THE_SAME = SIGNS == [1, 1, 0, 1, 0, 0, 1, 1]
SAMPLE = "compare-brownian"


SLOW = ("compare-smooth-res3", "reproduce-figure-1")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.nightly] * (n in SLOW)) for n in SPECIMENS]
)
def test_a_report_is_what_it_was(name):
    changed = differences(name, stored(name), computed(name), exact=EXACT)
    if changed and not DRAWS_ARE_THE_SAME:
        pytest.skip("this torch draws signs and exponential numbers otherwise than that of the reports")
    assert not changed, "\n".join(["numbers changed:", *changed])


def test_every_specimen_is_frozen_and_every_frozen_report_has_a_specimen():
    files = {path.stem for path in FOLDER.iterdir() if path != MACHINE}
    assert files == set(SPECIMENS)


def altered(change):
    """The differences, bit by bit and to the tolerance, that a change of the sample leaves."""
    frozen = stored(SAMPLE)
    fresh = copy.deepcopy(frozen)
    change(fresh)
    return [differences(SAMPLE, frozen, fresh, exact=exact) for exact in (True, False)]


def test_one_bit_is_reported_by_specimen_key_and_both_values():
    old = stored(SAMPLE)["errors"][2]
    new = math.nextafter(old, math.inf)
    exact, close = altered(lambda report: report["errors"].__setitem__(2, new))
    assert exact == [f"{SAMPLE}: errors[2]: frozen {old!r}, now {new!r}"]
    assert close == []


@pytest.mark.parametrize("name", SPECIMENS)
def test_every_number_is_compared(name):
    frozen, count = stored(name), 0

    def moved(value):
        nonlocal count
        if isinstance(value, dict):
            return {key: moved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [moved(item) for item in value]
        count += is_number(value)
        return value + 1 if is_number(value) else value

    fresh = moved(frozen)
    assert len(differences(name, frozen, fresh, exact=True)) == count > 0


def test_a_change_beyond_rounding_is_reported_on_any_machine():
    for report in altered(lambda report: report.update(constant=report["constant"] * (1 + 1e-4))):
        assert len(report) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.update(verdict="cannot tell"),
        lambda report: report.update(theorem=None),
        lambda report: report.update(rate="nan"),
        lambda report: report.pop("rate"),
        lambda report: report.pop("reason"),
        lambda report: report["errors"].pop(),
        lambda report: report.update(diverged=[True] * 4),
    ],
)
def test_what_is_no_number_must_be_the_same_on_any_machine(change):
    assert all(altered(change))


def test_words_may_change_and_keys_may_be_added():
    def reword(report):
        report.update(reason="another", network="", reservations=["one", "two", "three"], added=1.0)

    assert altered(reword) == [[], []]


def test_decimals_in_words_may_not_change():
    frozen = {"says": "0.6018 ≤ E |h|² ≤ 1.441"}
    assert not differences("bound", frozen, {"says": "between 0.6018 and 1.441"}, exact=True)
    assert differences("bound", frozen, {"says": "0.6018 ≤ E |h|² ≤ 1.442"}, exact=True)
