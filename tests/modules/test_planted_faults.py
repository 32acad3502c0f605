"""Planted faults: caught, the right parameter named, by the right factor, in the right layers, and no other.

`planted_faults` holds the table; `make families` runs all of it and prints how many were caught.
"""

from __future__ import annotations

import pytest
from planted import DEPTHS, Planted
from planted_faults import FAULTS, WEIGHTS

import deeplimit as dl

pytestmark = [pytest.mark.thirdparty, pytest.mark.usefixtures("model_libraries")]

ELSEWHERE = ("gpt2", "llama", "megatron-bert", "vit", "post-norm")
ORDINARY = 11  # one fault of so many is part of `make test`, and what no other test is like
ALWAYS = {
    *("deepnorm: alpha squared", "deepnorm: beta in queries, too", "deepnorm: no beta in attn.value.weight"),
    *("rezero: gains of one in attention", "sandwich: no norm after mlp", "completep: in the weights, too"),
    *("vit, LayerScale: reset in the MLP", "stack: left out in one branch", "stack: zero"),
    *("stack: left out in the second half", "stack: a constant for the depth", "completep: L + 1"),
    "completep numbers: left out in the second half",
}


def marked(faults: list[Planted]) -> list[object]:
    chosen = []
    for place, fault in enumerate(faults):
        marks = [] if place % ORDINARY == 0 or fault.name in ALWAYS else [pytest.mark.nightly]
        if fault.pending:
            marks.append(pytest.mark.xfail(strict=True, reason=fault.pending))
        chosen.append(pytest.param(fault, marks=marks, id=fault.name))
    return chosen


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


@pytest.mark.parametrize(
    "base",
    ["stack", "tower", *(pytest.param(name, marks=pytest.mark.nightly) for name in ELSEWHERE)],
)
@pytest.mark.usefixtures("one_thread")
def test_the_bases_without_a_fault_pass(base):
    found = next(one for one in WEIGHTS if one.name == base)
    assert dl.check_depth(found.right, DEPTHS, batch=found.batch, expected="gpt-2").ok
