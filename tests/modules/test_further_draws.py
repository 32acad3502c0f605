"""Where only the scatter of layers leaves a verdict open, networks are drawn again, as often as needed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.modules.depth_check import further_draws
from deeplimit.modules.depth_check.exponents import Exponent, differ, fit, reach
from deeplimit.modules.depth_check.further_draws import MOST, draws_needed

DEPTHS = [2, 4, 8]
WIDTH = 6  # of so few entries, a weight's gain scatters by a third


class Narrow(nn.Module):
    def __init__(
        self, depth: int, power: float, *, seed: int | None = None, profile: float = 0.0, width: int = WIDTH
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        drawn = None if seed is None else torch.Generator().manual_seed(seed)
        for number, layer in enumerate(self.layers):
            std = width**-0.5 * (number + 1) ** -profile * depth**-power
            nn.init.normal_(layer.weight, std=std, generator=drawn)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(torch.tanh(x))
        return x


class Tied(Narrow):
    """Copies of one layer."""

    def __init__(self, depth: int, power: float) -> None:
        super().__init__(depth, power)
        for layer in self.layers[1:]:
            layer.weight.data.copy_(self.layers[0].weight.data)


def checked(
    build: Callable[[int], nn.Module],
    expected: float | None = 0.5,
    batch: torch.Tensor | None = None,
    **how: object,
) -> tuple[dl.DepthReport, float]:
    """Return the report and how many times each depth was built."""
    calls: list[int] = []

    def factory(depth: int) -> nn.Module:
        calls.append(depth)  # a store must not take it for another factory once it was called
        return build(depth)

    given = torch.ones(2, WIDTH) if batch is None else batch
    report = dl.check_depth(factory, DEPTHS, batch=given, expected=expected, **how)
    return report, len(calls) / len(DEPTHS)


def only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(further_draws, "MOST", 1)


@pytest.mark.parametrize("seed", range(3))
def test_right_exponents_that_one_draw_cannot_tell_are_told_by_several(seed, monkeypatch):
    report, built = checked(functools.partial(Narrow, power=0.5), seed=seed)
    assert report.verdict == "as expected", report
    assert 1 < built <= MOST
    low, high = report.branches[0].exponent_interval
    assert low < 0.5 < high
    only_once(monkeypatch)
    before, built = checked(functools.partial(Narrow, power=0.5), seed=seed)
    assert (before.verdict, built) == ("cannot tell", 1)
    once = before.branches[0].exponent_interval
    assert high - low < once[1] - once[0]


def test_a_wrong_exponent_that_one_draw_cannot_tell_is_found_and_named(monkeypatch):
    wrong = functools.partial(Narrow, power=0.0)
    report, _ = checked(wrong, seed=1)
    assert report.verdict == "not as expected"
    assert [(one.parameter, one.about) for one in report.findings] == [("layers.*.weight", "exponent")]
    assert report.findings[0].fix
    only_once(monkeypatch)
    assert checked(wrong, seed=1)[0].verdict == "cannot tell"


def test_a_finer_tolerance_takes_a_narrower_interval():
    near, batch = functools.partial(Narrow, power=0.55, width=16), torch.ones(2, 16)
    fine, coarse = (checked(near, 0.5, batch, tolerance=tolerance) for tolerance in (0.02, 0.1))
    assert coarse[0].verdict == "as expected"
    assert fine[0].verdict != "as expected"
    assert fine[1] > coarse[1]  # more draws
    near = functools.partial(Narrow, power=0.5)
    assert checked(near, tolerance=0.01)[0].verdict == "cannot tell"


@pytest.mark.parametrize(
    ("value", "half", "within"),
    [(0.5, 0.08, True), (0.56, 0.062, True), (0.57, 0.05, None), (0.56, 0.045, True), (0.62, 0.05, False)],
)
def test_an_exponent_off_by_more_than_its_tolerance_needs_an_interval_that_holds_it(value, half, within):
    assert Exponent(value, 0.0, value - half, value + half, True).within(0.5, 0.05) is within


def test_a_check_that_decides_at_once_builds_each_depth_once():
    wide = functools.partial(nn.TransformerEncoderLayer, 32, 2, 64, batch_first=True, norm_first=True)
    report, built = checked(
        lambda depth: nn.Sequential(*(wide() for _ in range(depth))), 0.0, torch.ones(8, 5, 32)
    )
    assert (report.verdict, built) == ("as expected", 1)
    assert checked(functools.partial(Narrow, power=0.5), None)[1] == 1


def test_layers_from_a_generator_of_their_own_are_no_further_draws():
    report, built = checked(functools.partial(Narrow, power=0.5, seed=3))
    assert built > 1
    assert report.verdict == "cannot tell"


def test_a_profile_over_layers_is_not_drawn_again():
    report, built = checked(functools.partial(Narrow, power=0.0, profile=1.0))
    assert report.branches[0].layered > 3
    assert (report.verdict, built) == ("cannot tell", 1)


def test_large_networks_are_not_drawn_again(monkeypatch):
    monkeypatch.setattr(further_draws, "LARGE", 100)
    report, built = checked(functools.partial(Narrow, power=0.5))
    assert (report.verdict, built) == ("cannot tell", 1)


def test_the_number_of_draws_follows_the_width_of_the_interval(monkeypatch):
    only_once(monkeypatch)
    report, _ = checked(functools.partial(Narrow, power=0.5))
    monkeypatch.undo()

    def needed(half: float) -> int:
        branch = dataclasses.replace(report.branches[0], exponent_interval=(0.5 - half, 0.5 + half))
        return draws_needed(dataclasses.replace(report, branches=(branch,)))

    assert [needed(half) for half in (0.15, 0.24, 0.3, 3.0)] == [2, 4, 6, MOST]
    assert draws_needed(dataclasses.replace(report, verdict="as expected")) == 1


def test_further_draws_are_kept_in_a_store_and_come_from_no_other_seed(tmp_path):
    right, store = functools.partial(Narrow, power=0.5), dl.Store(tmp_path / "s.db", name="narrow")
    first, built = checked(right, store=store)
    again, more = checked(right, store=store)
    assert (built > 1, more) == (True, 0)
    assert again == first
    _, fewer = checked(right, store=store, confidence=0.95)
    _, others = checked(right, store=store, confidence=0.999)
    assert (fewer, others) == (0, MOST - built)


def test_a_function_of_the_fraction_done_sees_no_fraction_twice():
    seen: list[float] = []
    checked(functools.partial(Narrow, power=0.5), progress=seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(("power", "scatter"), [(0.5, 0.2), (0.5, 0.3), (0.6, 0.2)])
def test_two_analyses_together_keep_the_level(power, scatter):
    """The draws are lognormal; 300 calls at a level of 95 %, the half of which is what one side may err."""
    random, calls, alarms, missed, level = np.random.default_rng(0), 300, 0, 0, 0.95

    def drawn(times: int) -> list[np.ndarray]:
        return [np.exp(scatter * random.normal(size=depth * times)) * depth**-power for depth in DEPTHS]

    for _ in range(calls):
        sizes = drawn(1)
        found = fit(DEPTHS, sizes, level)
        if found.within(0.5, 0.1) is None:
            draws = min(MOST, int(np.ceil(((found.high - found.low) / reach(0.1)) ** 2)))
            if draws > 1:
                more = [np.concatenate(pair) for pair in zip(sizes, drawn(draws - 1), strict=True)]
                found = fit(DEPTHS, more, 1 - (1 - level) / 2)
        assert isinstance(found, Exponent)
        alarms += found.within(0.5, 0.1) is False
        missed += not found.low <= power <= found.high
    # Binomial bounds at three standard errors.
    assert alarms <= calls * 0.05 + 3 * (calls * 0.05 * 0.95) ** 0.5
    assert missed <= calls * 0.075 + 3 * (calls * 0.075 * 0.925) ** 0.5


def test_a_profile_within_three_times_is_told_from_scatter_by_further_draws():
    """1/sqrt(l): the average over layers falls with depth, though no layer knows the depth."""
    report, built = checked(
        functools.partial(Narrow, power=0.0, profile=0.5, width=10), 0.0, torch.ones(2, 10)
    )
    assert (report.verdict, built) == ("cannot tell", MOST)
    draws = np.exp(0.1 * np.random.default_rng(0).normal(size=(8, 6)))
    assert not differ([draws])
    assert differ([draws * np.arange(1, 7) ** -0.5])
    assert not differ([draws[:1]])
    assert not differ([draws * 0])


def test_sizes_of_weights_of_few_entries_explain_no_scatter():
    """A layer's size is its weight's, times a number that scatters by a hundredth as much."""
    random, depths = np.random.default_rng(0), [4, 8, 16, 32]
    drawn = [np.exp(0.5 * random.normal(size=depth)) for depth in depths]
    weights = [each / np.sqrt(np.mean(each**2)) for each in drawn]
    sizes = [each * np.exp(0.005 * random.normal(size=len(each))) for each in weights]

    def length(entries):
        weighed = [[(size, entries) for size in row] for row in weights]
        found = fit(depths, sizes, 0.95, weighed=weighed)
        return found.high - found.low

    alone = fit(depths, sizes, 0.95)
    assert length(10_000) < 0.3 * (alone.high - alone.low)
    assert length(4) > 0.7 * (alone.high - alone.low)
