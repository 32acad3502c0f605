"""A campaign: 150 faults of thirty kinds in networks of five libraries, and 150 right configurations.

A fault must be caught, named with its factor and its layers, and the printed lines must set it right at every
depth. A right configuration may not be called wrong. `make families` runs all rows and prints the rates.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import pytest
import torch
from depth_faults import DEPTH_FAULTS, DepthFault
from depth_rights import DEPTH_RIGHTS, DepthRight
from planted import DEPTHS

import deeplimit as dl
from deeplimit.modules.depth_check.fixes import IN_FORWARD

pytestmark = [pytest.mark.thirdparty, pytest.mark.usefixtures("model_libraries")]

ORDINARY = 15  # every fifteenth row is part of `make test`
CLOSE = math.log(1.2)
"""Factors of exponents that are fitted to three depths."""


def rows(every: list[Any]) -> list[Any]:
    """Mark all rows but a few as nightly, and what is not reached yet."""
    marked = []
    for place, row in enumerate(every):
        marks = [] if place % ORDINARY == 0 else [pytest.mark.nightly]
        pending = getattr(row, "pending", "")
        marks += [pytest.mark.xfail(strict=True, reason=pending)] if pending else []
        marked.append(pytest.param(row, id=str(row), marks=marks))
    return marked


def test_the_campaign_has_the_rows_that_its_rates_are_stated_for():
    assert len({str(fault) for fault in DEPTH_FAULTS}) == len(DEPTH_FAULTS) == 150
    assert len({str(right) for right in DEPTH_RIGHTS}) == len(DEPTH_RIGHTS) == 150
    assert len(Counter(fault.kind for fault in DEPTH_FAULTS)) >= 15
    for table in (DEPTH_FAULTS, DEPTH_RIGHTS):
        assert 2 * sum(row.exponent in (0.5, 1.0) for row in table) >= len(table)


def told(fault: DepthFault, report: dl.DepthReport) -> bool:
    """Whether the findings are about what is wrong and nothing else, with factor and layers."""
    found = {finding.parameter: finding for finding in report.findings}
    if set(found) - {name for one in fault.told for name in one.names}:
        return False
    for one in fault.told:
        finding = next((found[name] for name in one.names if name in found), None)
        if finding is None or (one.layers and finding.layers != one.layers):
            return False
        if one.factor is not None and (
            not finding.factor or abs(math.log(finding.factor / one.factor)) > CLOSE
        ):
            return False
    return True


def mended(fault: DepthFault, lines: list[str], depth: int) -> torch.nn.Module:
    model = fault.factory(depth)
    for line in lines:
        exec(line, {"model": model, "torch": torch})
    return model


@pytest.mark.parametrize("fault", rows(DEPTH_FAULTS))
@pytest.mark.usefixtures("one_thread")
def test_a_fault_is_caught_and_told_and_its_lines_set_it_right(fault, record_property):
    report = dl.check_depth(fault.factory, DEPTHS, batch=fault.batch, expected=fault.expected)
    named = told(fault, report)
    record_property("campaign, faults", str(report.verdict))
    record_property("campaign, named", str(named))
    assert report.verdict == "not as expected", report
    assert named, report
    fixes = [fix for fix in dict.fromkeys(finding.fix for finding in report.findings) if fix]
    lines = [fix for fix in fixes if not fix.startswith(IN_FORWARD)]
    if not lines or lines != fixes:
        return  # lines for a forward are no code of their own
    build = functools.partial(mended, fault, lines)
    again = dl.check_depth(build, DEPTHS, batch=fault.batch, expected=fault.expected)
    record_property("campaign, after the printed lines", str(again.verdict))
    assert again.verdict == "as expected", again


@pytest.mark.parametrize("right", rows(DEPTH_RIGHTS))
@pytest.mark.usefixtures("one_thread")
def test_a_right_configuration_is_not_called_wrong(right: DepthRight, record_property):
    report = dl.check_depth(right.factory, DEPTHS, batch=right.batch, expected=right.expected)
    record_property("campaign, right configurations", str(report.verdict))
    assert report.verdict == "as expected", report
