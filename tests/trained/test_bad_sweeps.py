"""What is no sweep over depth is refused: which exception, and which argument and value it names."""

import numpy as np
import pytest
import torch
from refusals import NAN, assert_refused, row

import deeplimit as dl


def stacks(depth, **changes):
    return {"A": torch.ones(depth, 2, 2) * torch.arange(depth)[:, None, None]} | changes


def by_depth(**changes):
    return {8: stacks(8), 16: stacks(16, **changes)}


ROWS = [
    row("no mapping", lambda: dl.diagnose([1, 2]), TypeError, "weights", "1"),
    row("a name", lambda: dl.diagnose({"deep": stacks(8), 9: stacks(9)}), TypeError, "depth", "'deep'"),
    row("twice", lambda: dl.diagnose([stacks(8), stacks(8)]), ValueError, "weights[1]", "weights[0]"),
    row("twice, by depth", lambda: dl.diagnose({8: [stacks(8)] * 2, 9: stacks(9)}), ValueError, "depth 8"),
    row("too shallow", lambda: dl.diagnose({4: stacks(4)}), ValueError, "depth", "6", "4"),
    row("no network", lambda: dl.diagnose({8: 3.0}), TypeError, "weights[8]", "3.0"),
    row("other stacks", lambda: dl.diagnose(by_depth(W=1)), ValueError, "weights[16]", "W"),
    row("depth", lambda: dl.diagnose({16: stacks(8)}), ValueError, "weights[16]['A']", "16", "(8, 2, 2)"),
    row(
        "biases", lambda: dl.diagnose(by_depth(b=torch.ones(8, 2))), ValueError, "weights[16]['b']", "(8, 2)"
    ),
    row("delta", lambda: dl.diagnose(by_depth(delta=torch.ones(3))), ValueError, "['delta']", "(3,)"),
    row("NaN", lambda: dl.diagnose(by_depth(A=torch.full((16, 2), NAN))), ValueError, "weights[16]", "NaN"),
    row("other shapes", lambda: dl.diagnose(by_depth(A=torch.ones(16, 3))), ValueError, "depth 8", "(3,)"),
    row("all zero", lambda: dl.diagnose({8: {"A": torch.zeros(8, 2)}}), ValueError, "weights", "zero"),
    row("no file", lambda: dl.diagnose({8: "gone.safetensors"}), ValueError, "weights[8]"),
    row("confidence", lambda: dl.diagnose(by_depth(), confidence=1.0), ValueError, "confidence", "1"),
    row("homogeneous", lambda: dl.diagnose(by_depth(), homogeneous=1), TypeError, "homogeneous", "1"),
    row("no delta", lambda: dl.diagnose(by_depth(), homogeneous=True), ValueError, "homogeneous", "delta"),
    row("spatial", lambda: dl.diagnose(by_depth(), spatial=8), TypeError, "spatial", "8"),
]


@pytest.mark.parametrize(("call", "error", "pins"), ROWS)
def test_what_is_no_sweep_is_refused_by_its_name(call, error, pins):
    assert_refused(call, error, *pins)


def test_a_weight_that_is_zero_is_left_out_and_named():
    weights = {L: stacks(L, b=torch.zeros(L, 2)) for L in (8, 16, 32)}
    report = dl.diagnose(weights)
    assert [finding.weight for finding in report.findings] == ["A"]
    assert "b is zero" in report.reservations[0]


def test_the_seed_alone_decides_the_sign_flips():
    rng = np.random.default_rng(0)
    weights = {L: {"A": rng.normal(size=(L, 2, 2))} for L in (8, 16, 32)}
    first, again, other = (dl.diagnose(weights, seed=seed).findings[0].trend_p_value for seed in (0, 0, 1))
    assert first == again != other
