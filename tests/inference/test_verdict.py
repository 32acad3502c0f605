"""Each piece of evidence, one at a time: the fit's parts, the verdict it leads to, the doubt that is said."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.convergence.verdict import Evidence, judge
from deeplimit.convergence.wording import reservations
from deeplimit.inference.power_law import MODEL_ERROR, ErrorEstimates, Floor, above_floor, fit_floor

DEPTHS = np.array([16, 32, 64, 128, 256])


def test_few_paths_have_few_degrees_of_freedom_and_an_inflated_covariance():
    """m = 5 depths and 17 paths: Student with 12 degrees, and the mean of an inverse Wishart matrix."""
    estimates = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 1e-4 * np.eye(5), np.zeros(5), 17, 1.0)
    assert estimates.degrees == 12
    np.testing.assert_allclose(estimates.noise, (1e-4 * 16 / 10 + MODEL_ERROR**2) * np.eye(5))


def test_the_references_bias_is_taken_from_what_lies_above_the_floor_only():
    true, share = DEPTHS**-0.5, 0.3
    bias = 0.5 * np.log1p(-DEPTHS / 512)
    floor = np.sqrt(
        share / (1 - share) * true[-1] ** 2 * np.exp(2 * bias[-1])
    )  # share of the deepest raw square
    raw = np.sqrt(true**2 * np.exp(2 * bias) + floor**2)
    estimates = ErrorEstimates(DEPTHS, np.log(raw), 1e-4 * np.eye(5), bias, 400)
    corrected = above_floor(estimates, share)
    np.testing.assert_allclose(np.exp(corrected.log_errors - corrected.log_bias), np.sqrt(true**2 + floor**2))
    np.testing.assert_allclose(above_floor(estimates, 0.0).log_bias, bias)


def test_a_floor_that_the_data_say_nothing_about_is_spread_over_all_shares():
    """The prior of the share is flat on 0 to 1, whatever the spacing of the nodes that integrate it."""
    vague = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 100.0 * np.eye(5), np.zeros(5), 10**6, 1.0)
    floor = fit_floor(vague, 0.5)
    assert 0.45 < floor.share < 0.65
    assert 0.04 < floor.lower < 0.12
    assert 0.4 < floor.probability < 0.6


def test_an_order_within_the_prior_needs_no_floor_to_explain_it():
    vague = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 1e-4 * np.eye(5), np.zeros(5), 10**5, 3.0)
    assert fit_floor(vague, None).probability < 0.01


def evidence(**altered):
    """Return evidence for a clear "converges" of order 1/2, altered."""
    clear = {"interval": (0.45, 0.55), "sure_upper": 0.6, "floor": Floor(0.0, 0.0, 0.01, 0.0), "order": 0.5}
    return Evidence(
        **{
            **clear,
            "last_slope": 0.5,
            "last_slope_error": 0.01,
            "rate": 0.5,
            "reach": 0.0,
            "previous_slope": 0.5,
            "fallen": 1.0,
            "fallen_error": 0.05,
            "kurtosis": 5.0,
            "count": 1000,
            **altered,
        }
    )


LEVEL = Floor(0.8, 0.7, 0.9, 0.9995)


@pytest.mark.parametrize(
    ("altered", "name", "words"),
    [
        ({}, "converges", "fall with depth"),
        ({"interval": (-0.03, 0.04)}, "does not converge", "order at most 0.040"),
        ({"interval": (0.001, 0.04), "order": 0.06, "sure_upper": 0.07}, "converges", "fall with depth"),
        ({"interval": (0.001, 0.06)}, "cannot tell", "slightly off"),
        ({"interval": (-0.01, 0.55)}, "cannot tell", "contains 0"),
        (
            {"interval": (-0.3, 0.3), "fallen": -0.5, "last_slope": -0.03, "last_slope_error": 0.01},
            "does not converge",
            "1.65 times",
        ),
        (
            {"interval": (-0.3, 0.3), "fallen": -0.5, "last_slope": 0.03, "last_slope_error": 0.01},
            "cannot tell",
            "contains 0",
        ),
        (
            {"interval": (-0.3, 0.3), "fallen": 0.1, "last_slope": -0.03, "last_slope_error": 0.01},
            "cannot tell",
            "contains 0",
        ),
        (
            {"reach": 0.11, "rate": 0.61},
            "cannot tell",
            "deepest local slope is 0.50, an extrapolation says 0.61",
        ),
        ({"reach": 0.09}, "converges", "fall with depth"),
        ({"floor": LEVEL, "last_slope": 0.1}, "does not converge", "80 % of the deepest squared error"),
        ({"floor": LEVEL, "last_slope": 0.34}, "cannot tell", "no power law"),
        ({"floor": LEVEL, "last_slope": 0.32, "last_slope_error": 0.01}, "cannot tell", "no power law"),
        ({"floor": LEVEL, "last_slope": 0.32, "last_slope_error": 0.001}, "does not converge", "level off"),
        (
            {"floor": LEVEL, "last_slope": 0.32, "last_slope_error": 0.001, "order": None},
            "does not converge",
            "level off",
        ),
        (
            {"floor": LEVEL, "last_slope": 0.331, "last_slope_error": 0.0, "order": None},
            "cannot tell",
            "no power law",
        ),
        ({"floor": LEVEL, "last_slope": 0.1, "kurtosis": 251.0}, "cannot tell", "make up the average"),
        ({"floor": LEVEL, "last_slope": 0.1, "kurtosis": 249.0}, "does not converge", "level off"),
        ({"floor": Floor(0.8, 0.7, 0.9, 0.9985), "last_slope": 0.1}, "cannot tell", "has probability 1.00"),
        ({"floor": Floor(0.2, 0.0, 0.4, 0.06)}, "cannot tell", "has probability 0.06"),
        ({"floor": Floor(0.2, 0.0, 0.4, 0.04)}, "converges", "at most 40 %"),
        ({"floor": Floor(0.2, 0.03, 0.4, 0.04)}, "cannot tell", "looks like a floor"),
        ({"sure_upper": 0.49}, "cannot tell", "more slowly than this network"),
        ({"sure_upper": 0.49, "order": None}, "converges", "fall with depth"),
    ],
)
def test_each_piece_of_evidence_leads_to_the_verdict_it_should(altered, name, words):
    if altered.get("interval") == (0.001, 0.06):
        altered = {**altered, "sure_upper": 0.07}
    verdict = judge(evidence(**altered))
    assert verdict.name == name, verdict
    assert words in verdict.reason


def reserved(**altered):
    """Return the reservations about numbers that deserve none, altered."""
    plain = {
        "depths": (8, 16),
        "diverged": np.zeros(2, dtype=int),
        "limit_lost": 0,
        "paths": 400,
        "kurtosis": np.full(2, 5.0),
    }
    plain |= {
        "reference_error": 1e-6,
        "errors": np.array([0.2, 0.1]),
        "rounding": 1e-6,
        "swollen": False,
        "narrow": True,
        "rate": 0.5,
    }
    plain |= {"interval": (0.45, 0.55), "predicted": 0.5, "contradicts": False, "drift": (0.04, 0.01)}
    return list(reservations(**{**plain, **altered}))


@pytest.mark.parametrize(
    ("altered", "words"),
    [
        ({"limit_lost": 3}, "the limit itself was not finite on 3 of 400"),
        ({"diverged": np.array([0, 2])}, "2 of 400 paths were not finite at depth 16"),
        ({"paths": 99}, "99 paths are few"),
        ({"kurtosis": np.array([5.0, 101.0])}, "kurtosis 101"),
        ({"reference_error": 0.006}, "the reference's own error"),
        ({"swollen": True}, "changes some errors by more than half"),
        ({"rounding": 0.006}, "float64"),
        ({"interval": (0.51, 0.55)}, "excludes the predicted order 0.5"),
        ({"interval": (0.45, 0.49)}, "excludes the predicted order 0.5"),
        ({"contradicts": True}, "contradicts the theorem"),
        ({"drift": (0.06, 0.01)}, "still drift, by 0.06"),
    ],
)
def test_each_doubt_is_said_and_said_only_when_there_is_one(altered, words):
    assert reserved() == reserved(drift=(0.2, 0.07), reference_error=0.004, rounding=0.004) == []
    (text,) = reserved(**altered)
    assert words in text


def test_each_setting_has_the_regime_the_rate_and_the_statement_of_its_theorem():
    smooth, gaussian = dl.SmoothGaussian(), dl.Brownian()
    table = [
        (gaussian, 0.8, "identity", "Corollary 5", 0.3),
        (gaussian, 0.5, "sde", "Proposition 11", 0.5),
        (gaussian, 0.4, "explosion", "Corollary 5", None),
        (smooth, 1.25, "identity", "Proposition 13", 0.25),
        (smooth, 1.0, "ode", "Proposition 12", 1.0),
    ]
    for weights, exponent, name, statement, rate in table:
        regime = dl.res1(3, "tanh", weights=weights, exponent=exponent).regime()
        assert (regime.name, regime.rate) == (name, None if rate is None else pytest.approx(rate))
        assert regime.theorem.startswith(f"{statement} of Marion")


@pytest.mark.parametrize(("size", "verdict"), [(5e-6, "cannot tell"), (2e-5, "does not converge")])
def test_errors_that_stop_at_a_few_times_the_rounding_are_not_called_wrong(size, verdict):
    nearly_still = dl.res1(1, "identity", weights=dl.Trend(lambda t: size * torch.ones(1, 1)))
    x = 1 + 0.2 * torch.rand(200, 1, generator=torch.Generator().manual_seed(0))
    report = dl.compare(nearly_still, dl.Identity(), x=x, depths=[4, 8, 16], paths=200, dtype="float32")
    assert report.verdict == verdict, str(report)
    assert ("rounding and the reference allow" in report.reason) == (verdict == "cannot tell")
