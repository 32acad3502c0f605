"""NaN that an activation makes of finite states is no overflow, and so no explosion."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.signal.undefined import undefined


def with_a_hole(x):
    return torch.sqrt((x - 0.2) * (x - 0.4))


def with_a_trapped_derivative(x):
    """Its values are finite everywhere; autograd multiplies 0 by the slope NaN that it leaves out."""
    return torch.where(x > 0.0, torch.sqrt(x * x + x), x)


def test_an_activation_that_is_nan_somewhere_is_named_and_is_no_explosion():
    report = dl.stability(dl.res1(8, with_a_hole), [10, 30, 100], draws=30)
    assert np.isnan(report.log_hidden_change[-1]).mean() > 0.5
    for growth in (report.hidden_growth, report.gradient_growth):
        assert growth.verdict == "cannot tell"
        assert "'with_a_hole'" in growth.reason
    assert report.verdict == "cannot tell"
    assert report.overflowed.sum() == 0
    assert not any("overflowed" in told for told in report.reservations)


def test_a_derivative_that_is_nan_is_named_for_the_gradient_alone():
    report = dl.stability(dl.res1(8, with_a_trapped_derivative), [10, 30, 100], draws=60)
    assert np.isfinite(report.hidden_growth.exponent)
    assert report.gradient_growth.verdict == "cannot tell"
    assert "derivative" in report.gradient_growth.reason
    assert "'with_a_trapped_derivative'" in report.gradient_growth.reason


def test_overflow_is_still_an_explosion():
    report = dl.stability(dl.inner(4, "relu", trend=dl.Trend(lambda t: 1e3 * torch.eye(4))), [10, 30, 100])
    assert "NaN" not in report.hidden_growth.reason
    linear = dl.res1(8, lambda x: 9.0 * x + torch.sin(x), exponent=0.0)
    exploded = dl.stability(linear, [30, 100, 300], draws=20)
    assert exploded.overflowed[-1] == 20
    assert exploded.verdict == "explosion"


@pytest.mark.parametrize(("largest", "named"), [(1.0, True), (20.0, False)])
def test_nan_of_blocks_is_overflow_only_where_changes_are_large(largest, named):
    network = dl.module_network(lambda depth: [torch.nn.Identity() for _ in range(depth)], width=3)
    logs = np.array([[0.0, largest], [np.nan, np.nan]])
    found = undefined(network, logs, logs)
    assert bool(found.hidden) is named
    assert found.hidden == found.gradient
