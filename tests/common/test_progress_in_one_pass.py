"""Functions that run user code in one pass show how far they are, as those that measure in blocks do."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common import measurement
from tests.helpers.refusals import assert_refused


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, h):
        return h + 3 * self.second(torch.relu(self.first(h)))


def stack(depth):
    return nn.Sequential(*(Block() for _ in range(depth)))


SDE = dl.SDE(drift=lambda t, h: -h, diffusion=lambda t, h, dB: dB, noise="additive")
X = torch.ones(2, 4)
CALLS = {
    "identify": lambda **how: dl.identify(stack, X, depths=(2, 3, 4), draws=16, **how),
    "recommend": lambda **how: dl.recommend(stack, 6, batch=X, depths=(2, 3, 4), **how),
    "check_solver": lambda **how: dl.check_solver(
        dl.EulerMaruyama(), SDE, X[:, :2], steps=(2, 4, 8), paths=16, **how
    ),
    "check_solver, weak": lambda **how: dl.check_solver(
        dl.EulerMaruyama(), SDE, X[:, :2], steps=(2, 4, 8), paths=16, kind="weak", **how
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_fractions_grow_to_one_and_the_report_is_the_same(call):
    seen = []
    report = CALLS[call](progress=seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 1.0
    assert len(seen) > 4
    assert 0.0 < seen[0] < 0.5
    assert report == CALLS[call](progress=False)


@pytest.mark.parametrize(("asked", "lines"), [(None, 1), (False, 0)])
@pytest.mark.parametrize("call", CALLS)
def test_one_line_is_logged_where_nobody_asked(call, asked, lines, monkeypatch, caplog):
    monkeypatch.setattr(measurement, "SECONDS_IN_SILENCE", 0.0)
    CALLS[call](progress=asked)
    assert len([each for each in caplog.records if "to go" in each.getMessage()]) == lines


@pytest.mark.parametrize("call", CALLS)
def test_what_progress_raises_comes_through_with_a_note(call):
    def stop(fraction):
        if fraction > 0.6:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough") as stopped:
        CALLS[call](progress=stop)
    assert any("progress" in note for note in stopped.value.__notes__)


@pytest.mark.parametrize("call", CALLS)
def test_another_kind_of_progress_is_refused(call):
    assert_refused(lambda: CALLS[call](progress=3), TypeError, "progress", "3")
