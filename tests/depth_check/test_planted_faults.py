"""Planted faults: caught, the right parameter named, by the right factor, in the right layers, and no other.

`planted_faults` holds the table; `make families` runs all of it and prints how many were caught.
"""

from __future__ import annotations

import pytest
from planted import DEPTHS, Planted
from planted_faults import FAULTS, WEIGHTS

import deeplimit as dl

pytestmark = pytest.mark.thirdparty

ORDINARY = 6  # one fault of so many is part of `make test`


def marked(faults: list[Planted]) -> list[object]:
    chosen = []
    for place, fault in enumerate(faults):
        marks = [] if place % ORDINARY == 0 else [pytest.mark.families]
        if fault.pending:
            marks.append(pytest.mark.xfail(strict=True, reason=fault.pending))
        chosen.append(pytest.param(fault, marks=marks, id=fault.name))
    return chosen


def test_the_faults_are_told_apart_by_name():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 150


@pytest.mark.parametrize("fault", marked(FAULTS))
@pytest.mark.usefixtures("one_thread")
def test_a_planted_fault_is_caught_and_told(fault, record_property):
    report = dl.check_depth(fault.factory, DEPTHS, batch=fault.batch, expected=fault.expected)
    record_property("planted faults", str(report.verdict))
    found = {finding.parameter: finding for finding in report.findings}
    factors = {
        wrong.parameter: wrong.factor is None
        or found[wrong.parameter].factor == pytest.approx(wrong.factor, rel=0.15)
        for wrong in fault.wrong
        if wrong.parameter in found
    }
    record_property("named", str(len(factors) == len(fault.wrong)))
    record_property("factor right", str(len(factors) == len(fault.wrong) and all(factors.values())))
    assert report.verdict == "not as expected", report
    assert found.keys() == {wrong.parameter for wrong in fault.wrong}, report
    assert all(factors.values()), report
    for wrong in fault.wrong:
        assert not wrong.layers or found[wrong.parameter].layers == wrong.layers, report


@pytest.mark.parametrize("base", ["gpt2", "llama", "megatron-bert", "vit", "stack", "post-norm", "tower"])
@pytest.mark.usefixtures("one_thread")
def test_the_bases_without_a_fault_pass(base):
    found = next(one for one in WEIGHTS if one.name == base)
    assert dl.check_depth(found.right, DEPTHS, batch=found.batch, expected="gpt-2").ok
