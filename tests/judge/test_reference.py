"""The reference's own error where theory does not know it; norms, L^p and explosion under Theorems 4.3 and
4.4.
"""

import dataclasses

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.papers.cases import case
from deeplimit.papers.cases.noises import covariances
from deeplimit.papers.cases.trends import sphere

DEPTHS = [16, 32, 64, 128]
BENT = dl.inner(4, "scaled_gelu", noise=dl.Ito(A=0.04, b=0.1))
LINEAR_CASE = case("[C] Thm 4.3: scaled_silu, α = 0.5, β = 0.5")
LINEAR = LINEAR_CASE.network


def compare(network, *args, **knobs):
    return dl.compare(network, *args, **({"x": sphere(), "depths": DEPTHS, "paths": 2000} | knobs))


@pytest.mark.parametrize(
    ("noise", "paths"),
    [
        ("rows and columns", 1000),
        *(
            pytest.param(noise, 4000, marks=pytest.mark.nightly)
            for noise in ("one variance", "stochastic volatility", "variance of time")
        ),
    ],
)
def test_errors_without_the_references_share_agree_with_a_much_finer_reference(noise, paths):
    """Different noise (another grid), so within 6 standard errors; the raw error at the deepest is far
    outside.
    """
    network = dl.inner(4, "tanh", noise=covariances()[noise])
    coarse, fine = (compare(network, paths=paths, reference=depth) for depth in (256, 1024))
    spread = np.hypot(coarse.standard_errors, fine.standard_errors)
    assert (abs(coarse.errors - fine.errors) < 6 * spread).all(), (coarse.errors, fine.errors, spread)
    assert coarse.raw_errors[-1] < fine.errors[-1] - 6 * spread[-1]


def test_what_the_reference_hides_is_the_known_share_of_the_schemes_error():
    """σ = identity: the network is the scheme, and theory says √(1 - L Σ Δ²) at every depth (theory 4.1)."""
    report = compare(dl.inner(4, "identity", noise=dl.Ito(A=0.04, b=0.1)))
    known = np.sqrt(1 - report.depths / 256)
    np.testing.assert_allclose(report.raw_errors / report.errors, known, rtol=1e-5)
    assert known[-1] < 0.8


@pytest.mark.nightly
def test_depths_that_do_not_divide_each_other_have_a_coarser_reference_too():
    network = dl.inner(4, "identity", noise=dl.Ito(A=0.04, b=0.1))
    given = {"depths": [10, 15, 27, 50, 100], "paths": 4000}
    report, fine = compare(network, **given), compare(network, **given, reference=5400)
    spread = np.hypot(report.standard_errors, fine.standard_errors)
    assert (abs(report.errors - fine.errors) < 6 * spread).all()
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]


@pytest.mark.parametrize("p", [1, 3])
def test_the_order_holds_in_other_lp_norms(p):
    report = compare(BENT, p=p, paths=4000, confidence=0.999)
    assert report.verdict == "converges", str(report)
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    wrong = compare(BENT, dataclasses.replace(BENT.limit(), curvature=0.0), p=p, paths=4000)
    assert wrong.verdict == "does not converge"


@pytest.mark.nightly
def test_the_theorems_own_sup_over_all_times_is_larger_and_converges_too():
    layers, times = (compare(BENT, norm=norm, confidence=0.999) for norm in ("sup", "sup-continuous"))
    assert (times.raw_errors > 1.5 * layers.raw_errors).all()
    assert times.verdict == "converges"
    assert times.rate_interval[0] < 0.5 < times.rate_interval[1]
    ode_layers, ode_times = (compare(LINEAR, norm=norm, paths=200) for norm in ("sup", "sup-continuous"))
    assert (ode_times.raw_errors >= ode_layers.raw_errors).all()
    assert ode_times.raw_errors[0] > ode_layers.raw_errors[0]
    assert ode_times.verdict == "converges"


def test_theorem_4_3_holds_for_every_initialisation_by_itself():
    """The worst of 400 paths falls by the order's factor; against the neural ODE it does not."""
    report = compare(LINEAR, paths=400)
    assert (report.worst >= report.raw_errors).all()
    assert report.worst[0] / report.worst[-1] > 0.8 * 8**0.5
    wrong = compare(LINEAR, LINEAR_CASE.wrong[0].limit, paths=400)
    assert wrong.worst[-1] > wrong.worst[0] / 1.5


def test_explosion_is_counted_and_no_verdict_rests_on_the_survivors():
    """With σ''(0) > 0 the limit's drift ½σ''Q grows like H²: from a large start it is lost in finite time."""
    explosive = dl.inner(2, "scaled_gelu", noise=dl.Ito(A=1.0))
    report = compare(explosive, x=torch.tensor([[3.0, 3.0], [0.01, 0.0]]), paths=64)
    assert report.diverged.min() >= 1
    assert (report.verdict, report.rule) == ("cannot tell", "some_paths_diverge")
    assert np.isnan(report.rate)


def test_the_limit_of_one_noise_is_wrong_for_another_on_the_same_brownian_motion():
    """Same number of Brownian motions, so the limit is driven by them; its W is another one."""
    other = dl.inner(4, "scaled_gelu", noise=dl.Ito(A=0.08, b=0.1)).limit()
    assert compare(BENT, other).verdict == "does not converge"
    same = dl.inner(4, "scaled_gelu", noise=dl.Ito(A=0.04, b=0.1)).limit()
    report = compare(BENT, same)
    assert report.verdict == "converges"
    assert report.theorem is None, "another object with the same numbers is a claim of the user's"


def test_an_own_torchsde_object_is_driven_by_w_a_row_by_row_then_w_b():
    class Mine:
        sde_type, noise_type = "ito", "general"

        def f(self, t, y):
            return (
                0.5
                * 4
                / (2 * torch.pi) ** 0.5
                * (0.04 * y.square().sum(dim=1, keepdim=True) + 0.1).expand_as(y)
            )

        def g_prod(self, t, y, v):
            matrix = v[:, :16].reshape(-1, 4, 4)
            return 0.2 * torch.einsum("pij,pj->pi", matrix, y) + 0.1**0.5 * v[:, 16:]

    own, theirs = compare(BENT), compare(BENT, Mine())
    np.testing.assert_allclose(theirs.errors, own.errors, rtol=1e-3)
    assert theirs.verdict == "converges"

    class Transposed(Mine):
        def g_prod(self, t, y, v):
            return super().g_prod(
                t, y, torch.cat([v[:, :16].reshape(-1, 4, 4).mT.reshape(-1, 16), v[:, 16:]], dim=1)
            )

    assert compare(BENT, Transposed()).verdict == "does not converge"


def test_independent_noise_never_converges_and_a_random_trend_is_shared():
    assert compare(BENT, dl.Independent(BENT.limit())).verdict == "does not converge"
    smooth = dl.inner(
        3, "tanh", trend=dl.SmoothGaussian(1.0), noise=dl.Ito(A=0.02, b=0.1), alpha=0.5, beta=0.5
    )
    report = compare(smooth, x=None, paths=600, depths=[*DEPTHS, 256])
    assert report.verdict != "does not converge", str(report)
    assert report.errors[-1] < report.errors[0] / 2
    assert compare(smooth, dl.Independent(smooth.limit()), x=None, paths=300).verdict == "does not converge"
