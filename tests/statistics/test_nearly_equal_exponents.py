"""Exponents that nearly coincide are fitted as if they did: few terms, and no other result than at the
coincidence itself.
"""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from pairs import SLOWING as TREND

import deeplimit as dl
from deeplimit.statistics.power_law import DISTINCT, MOST_TERMS, ErrorEstimates

NOISE = dl.Ito(A=0.1, b=0.1)


def fitted(regime):
    """What the fit makes of a regime's powers: its corrections, and its second contributions."""
    depths = np.array([16, 64, 256])
    estimates = ErrorEstimates(
        depths,
        -np.log(depths),
        np.eye(3),
        np.zeros(3),
        100,
        corrections=regime.corrections,
        second_orders=regime.second_orders,
    )
    return estimates.powers, estimates.second_powers


nearly_nothing = st.one_of(
    st.just(0.0), st.floats(-0.03, 0.03), st.sampled_from([1e-12, -1e-9, 1e-6, -1e-4, 0.001, -0.002])
)


@given(
    alpha=st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1 / 3, 0.5, 2 / 3]), nearly_nothing.map(abs)),
    place=st.sampled_from(
        [lambda a: 1 - a, lambda a: a, lambda a: 2 * a, lambda a: 1 + a, lambda a: 1.5, lambda a: 0.5]
    ),
    off=nearly_nothing,
    noise=st.sampled_from([None, NOISE, dl.Ito(b=0.1)]),
    holder=st.sampled_from([1.0, 0.5, 0.501, 0.98]),
    activation=st.sampled_from(["tanh", "scaled_silu"]),
)
def test_the_terms_of_the_fit_are_few_and_distinct_whatever_the_exponents(
    alpha, place, off, noise, holder, activation
):
    trend = dl.Trend(TREND.A, TREND.b, holder=holder)
    beta = max(place(alpha) + off, 0.0)
    regime = dl.inner(2, activation, trend=trend, noise=noise, alpha=alpha, beta=beta).regime()
    powers, seconds = fitted(regime)
    assert 1 <= len(powers) <= MOST_TERMS <= 40
    assert len(seconds) <= len(regime.second_orders)
    for distances in (np.diff([0.0, *powers]), np.diff(seconds)):
        assert (distances > DISTINCT - 1e-6).all()  # powers are rounded to 1e-6


@given(corrections=st.lists(st.integers(1, 40).map(lambda k: k / 20), max_size=4), off=st.floats(0.0, 0.002))
def test_ordinary_exponents_have_all_their_sums_and_a_small_change_of_them_adds_none(corrections, off):
    """The twin: every sum of twentieths, counted here, is a term; the same exponents given twice, a little
    off, are no more.
    """
    generators = sorted({*corrections, 1.0})
    depths = np.array([16, 64, 256])
    made = [
        ErrorEstimates(depths, -np.log(depths), np.eye(3), np.zeros(3), 100, corrections=given_corrections)
        for given_corrections in (tuple(generators), (*generators, *(power + off for power in generators)))
    ]
    most = max(round(20 * 4 * generators[0]), 20)
    sums = {0}
    for _ in range(most):
        sums |= {a + round(20 * b) for a in sums for b in generators if a + round(20 * b) <= most}
    assert made[0].powers == pytest.approx([k / 20 for k in sorted(sums - {0})][:MOST_TERMS])
    np.testing.assert_array_equal(made[1].powers, made[0].powers)


@pytest.mark.parametrize(
    ("activation", "noise"),
    [
        ("scaled_silu", NOISE),
        *(
            pytest.param(*given, marks=pytest.mark.nightly)
            for given in (("scaled_silu", None), ("tanh", NOISE), ("tanh", None))
        ),
    ],
)
def test_an_order_next_to_a_coincidence_is_measured_as_well_as_at_it(activation, noise):
    at, near = (
        dl.compare(
            dl.inner(2, activation, trend=TREND, noise=noise, alpha=alpha, beta=beta),
            depths=[16, 32, 64, 128, 256],
            paths=600,
            seed=1,
        )
        for alpha, beta in ((0.5, 0.5), (0.501, 0.499))
    )
    assert at.verdict == near.verdict == "converges"
    assert near.rate_interval[0] < near.predicted_rate < near.rate_interval[1]
    assert near.rate == pytest.approx(at.rate, abs=0.005)
    assert (
        np.diff(near.rate_interval)[0] < np.diff(at.rate_interval)[0] + 0.005
    )  # multiples of L^-0.002 make it 0.1 wider


def test_an_order_of_next_to_nothing_is_not_given_out_for_more_than_is_known():
    """The trend leaves L^-0.001 of itself: the interval holds that, and no verdict is given."""
    report = dl.compare(
        dl.inner(2, "tanh", trend=TREND, noise=NOISE, alpha=0.0, beta=1.001),
        depths=[16, 32, 64, 128, 256],
        paths=200,
        seed=1,
    )
    assert report.verdict == "cannot tell", str(report)
    low, high = report.rate_interval  # NaN where no order is given
    assert not low > report.predicted_rate
    assert not high < report.predicted_rate
