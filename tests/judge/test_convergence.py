"""Propositions 11 and 12 measured, over drawn networks; and every wrong limit caught.

Intervals here have confidence 1 - 1e-5, so that one example in 100,000 may miss by chance.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

import deeplimit as dl
from deeplimit import zoo

CONFIDENCE = 1 - 1e-5


def leaky(x):
    """A user's callable: leaky ReLU with the slope that res-2 asks for."""
    return torch.where(x > 0, x, 0.8 * x)


activations = st.sampled_from(["tanh", "relu", "identity", "softplus", "sin", leaky])
widths = st.integers(1, 64)
depth_grids = st.one_of(
    st.builds(
        lambda first, count: [first * 2**i for i in range(count)], st.integers(8, 16), st.integers(4, 5)
    ),
    st.lists(st.integers(8, 150), min_size=4, max_size=6, unique=True)
    .map(sorted)
    .filter(lambda d: d[-1] >= 6 * d[0]),
)
scales = st.floats(0.1, 10.0)
seeds = st.integers(0, 2**32)


def inputs(width, scale, seed):
    return scale * torch.randn(16, width, generator=torch.Generator().manual_seed(seed))


FEW = settings(max_examples=settings.default.max_examples // 6)


@FEW
@given(width=widths, activation=activations, depths=depth_grids, scale=scales, seed=seeds)
def test_interval_contains_one_half_for_gaussian_res1_whatever_the_network(
    device, width, activation, depths, scale, seed
):
    report = dl.compare(
        dl.res1(width, activation),
        x=inputs(width, scale, seed),
        depths=depths,
        paths=400 if width <= 16 else 100,
        seed=seed,
        confidence=CONFIDENCE,
        device=device,
    )
    assume(report.rule != "rests_on_two_paths")  # else no interval is given
    low, high = report.rate_interval
    assert low < 0.5 < high, str(report)
    assert report.predicted_rate == 0.5
    assert report.verdict != "does not converge", str(report)


@FEW
@given(
    width=st.integers(1, 12),
    activation=activations,
    kind=st.sampled_from(["res1", "res2", "res3", "inner"]),
    length_scale=st.floats(0.1, 1.0),
    depths=depth_grids,
    scale=scales,
    seed=seeds,
)
def test_interval_contains_one_for_smooth_weights_whatever_the_network(
    device, width, activation, kind, length_scale, depths, scale, seed
):
    weights = dl.SmoothGaussian(length_scale)
    network = (
        dl.res3(width, weights=weights)
        if kind == "res3"
        else getattr(dl, kind)(width, activation, weights=weights)
    )
    report = dl.compare(
        network,
        x=inputs(width, scale, seed),
        depths=depths,
        paths=48,
        seed=seed,
        confidence=CONFIDENCE,
        tolerance=1e-7,
        device=device,
    )
    assume(report.rule != "rests_on_two_paths")  # else no interval is given
    low, high = report.rate_interval
    assert low < 1.0 < high, str(report)
    assert report.verdict != "does not converge", str(report)


def test_a_wrong_limit_is_caught_without_a_theorem_too():
    """No predicted order to lean on: the user's ODE for a network that has another."""
    network = dl.res1(3, "tanh", weights=dl.SmoothGaussian(0.3))
    limit = network.limit()
    report = dl.compare(network, lambda t, h: limit(t, h), depths=[16, 32, 64, 128, 256], paths=200)
    assert report.verdict == "does not converge"
    assert report.theorem is None
    assert report.predicted_rate is None


def test_prop_11_at_the_papers_width_is_narrow_and_flat():
    """d = 40, L = 16 ... 1024, 512 paths."""
    depths = [16, 32, 64, 128, 256, 512, 1024]
    report = dl.compare(dl.res1(width=40, activation="tanh"), depths=depths, paths=512)
    low, high = report.rate_interval
    assert low < 0.5 < high
    assert high - low < 0.04
    scaled = report.errors * report.depths**0.5
    assert abs(scaled / scaled.mean() - 1).max() < 0.05
    assert report.verdict == "converges"


@pytest.mark.parametrize("p", [1, 1.5, 4])
def test_the_order_is_one_half_in_every_lp_norm(p):
    report = dl.compare(dl.res1(8, "tanh"), depths=[16, 32, 64, 128], paths=800, p=p, confidence=CONFIDENCE)
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    assert report.verdict == "converges"


def test_the_theorems_own_norm_is_larger_and_its_interval_spans_the_logarithm():
    network = dl.res1(6, "tanh")
    layer_grid, over_time = (dl.compare(network, norm=norm, paths=400) for norm in ("sup", "sup-continuous"))
    assert (over_time.raw_errors > 1.5 * layer_grid.raw_errors).all()
    assert over_time.rate_interval[0] < 0.5 < over_time.rate_interval[1]
    assert over_time.verdict == "converges"
    assert any("all times" in text for text in over_time.reservations)


def test_several_inputs_are_taken_in_turn_and_an_input_layer_is_drawn_once():
    network = dl.res1(4, "tanh")
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    by_hand = dl.compare(network, x=x[torch.arange(30) % 3], depths=[4, 8], paths=30)
    assert dl.compare(network, x=x, depths=[4, 8], paths=30).errors.tolist() == by_hand.errors.tolist()
    wide = torch.randn(5, 100, generator=torch.Generator().manual_seed(0))
    first = dl.compare(network, x=wide, depths=[4, 8], paths=30)
    assert first.errors.tolist() == dl.compare(network, x=wide, depths=[4, 8], paths=30).errors.tolist()
    assert (
        first.errors.tolist() != dl.compare(network, x=wide, depths=[4, 8], paths=30, seed=1).errors.tolist()
    )


def test_a_network_that_equals_its_limit_converges_without_an_order():
    still = dl.res1(2, "relu")
    report = dl.compare(
        still, x=-torch.ones(1, 2), depths=[4, 8], paths=16
    )  # ReLU of a negative state moves nothing
    assert (report.verdict, report.rule) == ("converges", "equals_the_limit")
    assert np.isnan(report.rate)


def test_errors_within_rounding_of_the_limit_are_none():
    zero = dl.res1(2, "tanh", weights=dl.Trend(lambda t: torch.zeros(2, 2)))
    report = dl.compare(zero, depths=[4, 8], paths=16)
    assert (report.verdict, report.rule) == ("converges", "equals_the_limit_up_to_rounding")
    assert np.isnan(report.local_slopes).all()


def test_a_wrong_limit_is_not_excused_by_large_inputs():
    x = torch.tensor([[1e7, 1.0, 1.0, 1.0]])
    given = {"x": x, "depths": [8, 16, 32, 64], "paths": 64}
    single, double = (
        dl.compare(dl.res1(4, "tanh"), dl.Identity(), **given, dtype=dtype)
        for dtype in ("float32", "float64")
    )
    assert (single.verdict, double.verdict) == ("cannot tell", "does not converge")


def test_a_limit_that_is_lost_is_named_as_the_one_at_fault():
    network = dl.res1(3, "tanh")
    sde = network.limit()
    lost = zoo.AlteredSDE(
        sde, drift=lambda y: torch.where(y.abs() > 1.5, torch.full_like(y, float("nan")), torch.zeros_like(y))
    )
    report = dl.compare(network, lost, x=torch.zeros(1, 3) + 1.0, depths=[8, 16, 32], paths=200)
    assert report.verdict == "cannot tell"
    assert any(text.startswith("the limit itself was not finite on") for text in report.reservations)


def test_divergence_is_counted_named_and_never_averaged_away():
    """h doubles its size 30 times a layer and overflows float32 at large depth; the limit given stays
    finite.
    """
    explosive = dl.res1(2, "identity", weights=dl.Trend(lambda t: 60.0 * torch.eye(2)), exponent=0.5)
    report = dl.compare(
        explosive, lambda t, h: torch.zeros_like(h), depths=[2, 4, 64], paths=40, dtype="float32"
    )
    assert report.diverged.tolist() == [0, 0, 40]
    assert report.errors[2] == float("inf")
    assert report.verdict == "does not converge"
    assert any("40 of 40 paths" in text for text in report.reservations)


def test_few_diverging_paths_forbid_a_verdict():
    x = torch.ones(20, 2)
    x[3] = 3e38
    report = dl.compare(dl.res1(2, "identity"), x=x, depths=[4, 8, 16, 32], paths=20)
    assert report.diverged.min() >= 1
    assert (report.verdict, report.rule) == ("cannot tell", "some_paths_diverge")


CURVED = dl.res1(1, "tanh", weights=dl.Trend(lambda t: torch.ones(1, 1) * (1 + t)))


@pytest.mark.parametrize(("norm", "word"), [("final", "converges"), ("sup", "does not converge")])
def test_the_last_layer_alone_is_judged_by_itself(norm, word):
    """One-dimensional flows depend on the time integral alone: paths differ, and meet again at the end."""
    report = dl.compare(
        CURVED, lambda t, h: 1.5 * torch.tanh(h), norm=norm, depths=[16, 32, 64, 128], paths=16
    )
    assert report.verdict == word
    wrong = dl.compare(
        CURVED, lambda t, h: 1.45 * torch.tanh(h), norm=norm, depths=[16, 32, 64, 128], paths=16
    )
    assert wrong.verdict == "does not converge"


@dataclass(frozen=True)
class FirstEntry(dl.Statistic):
    name = "the first entry"

    def fold(self, kept, distance, count):
        return torch.maximum(kept, distance)

    def distance(self, limit, state):
        return (limit - state).flatten(1)[:, 0].abs().double()


def test_a_distance_of_its_own_is_judged_by_itself():
    """The limit is wrong in the second entry, which the statistic does not read."""
    turn = torch.diag(torch.tensor([1.0, -1.0]))
    network = dl.res1(2, "identity", weights=dl.Trend(lambda t: turn))
    half = torch.diag(torch.tensor([1.0, -2.0])).double()
    given = {"norm": FirstEntry(), "depths": [16, 32, 64, 128], "paths": 16}
    assert dl.compare(network, lambda t, h: h @ half, **given).verdict != "does not converge"
    assert dl.compare(network, lambda t, h: h @ -half, **given).verdict == "does not converge"
