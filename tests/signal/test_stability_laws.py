"""What is known of the ratios at initialisation is what is measured: moments, limit laws, bounds, regimes,
verdicts.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

import deeplimit as dl
from deeplimit import theory
from deeplimit.signal import bounds
from deeplimit.signal.growth_verdict import CANNOT_TELL, EXPLOSION, IDENTITY
from deeplimit.signal.passes import backward, forward
from deeplimit.signal.products import GaussianInLaw
from deeplimit.signal.task import draw_network
from deeplimit.weights import IndependentLaw

LEVEL = 1e-5
Z = stats.norm.isf(LEVEL / 2)
SYMMETRIC = {"gaussian": dl.Brownian(), "uniform": dl.IID("uniform"), "rademacher": dl.IID("rademacher")}


def leaky(x):
    return functional.leaky_relu(x, 0.8)


def measure(network, depth, draws, seed=0, **more):
    return dl.stability(network, [depth], draws=draws, seed=seed, dtype="float64", **more)


def score(log_values, assumed):
    """The z-score of the mean square exp(2 log) against `assumed`."""
    squares = np.exp(2 * log_values)
    return abs(squares.mean() - assumed) / (squares.std() / len(squares) ** 0.5)


@pytest.mark.parametrize("law", sorted(SYMMETRIC))
@pytest.mark.parametrize(("exponent", "depth"), [(0.5, 1), (0.5, 6), (0.0, 2), (1.0, 4)])
def test_mean_squares_of_signal_and_gradient_are_the_closed_forms(law, exponent, depth):
    """(1 + a/2)^L for res-3 and (1 + a)^L for linear res-1, at every depth and width; the other's is
    rejected.
    """
    a = depth ** (-2 * exponent)
    for make, kept in ((lambda **k: dl.res3(5, **k), 0.5), (lambda **k: dl.res1(5, "identity", **k), 1.0)):
        network = make(weights=SYMMETRIC[law], exponent=exponent)
        report = measure(network, depth, 20_000)
        exact = (1 + kept * a) ** depth
        for ratio, change in (
            (report.log_hidden_ratio[0], report.log_hidden_change[0]),
            (report.log_gradient_ratio[0], report.log_gradient_change[0]),
        ):
            assert score(ratio, exact) < Z
            assert score(change, exact - 1) < Z
            assert score(ratio, (1 + (1.5 - kept) * a) ** depth) > Z
        assert theory.expected_square(network, depth) == pytest.approx(math.log(exact), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("of", ["log_hidden_ratio", "log_gradient_ratio"])
def test_the_norm_of_deep_gaussian_networks_is_log_normal(of):
    width, depth, draws = 20, 1000, 3000
    network = dl.res3(width)
    mean, deviation = theory.log_normal(network, depth)
    assert mean == pytest.approx(0.25 * (1 - 2 / width))
    assert deviation == pytest.approx((1 / (2 * width)) ** 0.5)
    values = getattr(dl.stability(network, [depth], draws=draws), of)[0]
    if of == "log_hidden_ratio":
        assert stats.kstest(values, "norm", (mean, deviation)).pvalue > LEVEL
        assert stats.kstest(values, "norm", (0.25, deviation)).pvalue < LEVEL
    # The gradient's factors are of the same mean square, and its logarithm is normal too.
    standard = (values - values.mean()) / values.std()
    assert stats.kstest(standard, "norm").pvalue > LEVEL
    assert stats.kstest(values, "norm", (mean, 2**0.5 * deviation)).pvalue < LEVEL


HOMOGENEOUS = {
    "res1 leaky": lambda d: dl.res1(d, leaky),
    "res1 relu": lambda d: dl.res1(d, "relu"),
    "res2 leaky": lambda d: dl.res2(d, leaky),
    "res3": lambda d: dl.res3(d),
    "inner relu": lambda d: dl.inner(d, "relu", weights=dl.Brownian()),
    "inner identity": lambda d: dl.inner(d, "identity", weights=dl.Brownian()),
}
OTHER = {
    "res1 tanh": lambda d: dl.res1(d, "tanh"),
    "res2 softplus": lambda d: dl.res2(d, "softplus"),
    "inner tanh": lambda d: dl.inner(d, "tanh", weights=dl.Brownian()),
}


def walk(network, depth, draws, *, in_law, seed=0):
    """Return (h_0, h_L, p_0, p_L), each (draws, d), of networks drawn in law or whole."""
    scales = torch.tensor(depth**-network.exponent, dtype=torch.float64)
    layers = draw_network(
        network,
        depth,
        draws,
        lambda i: torch.Generator().manual_seed(10 * seed + i),
        torch.float64,
        scales,
        in_law=in_law,
    )
    generator = torch.Generator().manual_seed(seed + 5)
    start, end = (
        torch.randn(draws, network.width, 1, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    signal, gates = forward(layers, start)
    gradient = backward(layers, gates, end)
    ends = (start, signal.value * signal.log_unit.exp(), gradient.value * gradient.log_unit.exp(), end)
    return [tensor[:, :, 0] for tensor in ends]


def unconditioned(self, k, v):
    """Gᵀv as if nothing were known of G: what the joint law of signal and gradient must not be drawn by."""
    size = torch.linalg.vector_norm(v, dim=1, keepdim=True)
    return torch.empty_like(v).normal_(0.0, 1.0 / self.root, generator=self.generator) * size


def gap_of_eulers_identity(network):
    """A network that scaling passes through is J h_0 = h_L, so p_0·h_0 = p_L·h_L draw by draw."""
    start, last, first, end = walk(network, 7, 50, in_law=True)
    return float(((first * start).sum(1) - (end * last).sum(1)).abs().max())


@pytest.mark.parametrize("name", sorted(HOMOGENEOUS))
@pytest.mark.parametrize("width", [1, 2, 6])
def test_gradients_drawn_in_law_belong_to_the_signal(name, width, monkeypatch):
    assert gap_of_eulers_identity(HOMOGENEOUS[name](width)) < 1e-11
    monkeypatch.setattr(GaussianInLaw, "transpose", unconditioned)
    assert gap_of_eulers_identity(HOMOGENEOUS[name](width)) > 1e-2


def statistics(states):
    """Return functions of signal and gradient, alone and jointly, (6, draws)."""
    start, last, first, end = states
    hidden = (last.norm(dim=1) / start.norm(dim=1)).log()
    gradient = (first.norm(dim=1) / end.norm(dim=1)).log()
    changes = [((last - start).norm(dim=1) + 1e-9).log(), ((first - end).norm(dim=1) + 1e-9).log()]
    joint = [
        hidden + gradient,
        hidden - gradient,
        changes[0] - changes[1],
        (first * start).sum(1),
        (first * last).sum(1),
    ]
    return torch.stack([hidden, gradient, *changes, *joint]).numpy()


def least_p_value(a, b):
    return min(stats.ks_2samp(x, y).pvalue for x, y in zip(statistics(a), statistics(b), strict=True))


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(HOMOGENEOUS | OTHER))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_products_drawn_in_law_have_the_joint_law_of_whole_matrices(name, width):
    network = (HOMOGENEOUS | OTHER)[name](width)
    whole, in_law = (walk(network, 4, 6000, in_law=known, seed=known) for known in (False, True))
    assert least_p_value(whole, in_law) > LEVEL / 9


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(HOMOGENEOUS | OTHER))
def test_products_without_conditioning_have_another_joint_law(name, monkeypatch):
    network = (HOMOGENEOUS | OTHER)[name](2)
    whole = walk(network, 4, 6000, in_law=False)
    monkeypatch.setattr(GaussianInLaw, "transpose", unconditioned)
    assert least_p_value(whole, walk(network, 4, 6000, in_law=True, seed=1)) < LEVEL / 9


@dataclass(frozen=True)
class Scaled(IndependentLaw):
    """Gaussian layers of another variance than (A1) asks for."""

    variance: float

    @property
    def facts(self):
        return dl.Facts(dl.Dependence.INDEPENDENT, gaussian=True, independent_entries=True)

    def draw(self, step, out, generator):
        out.normal_(0.0, (self.variance * step) ** 0.5, generator=generator)

    def entry_scale(self, shape):
        return super().entry_scale(shape) * self.variance**0.5  # products in law have unit variance

    def describe(self):
        return "scaled"


def scaled_measure(network, variance, depth, draws):
    """The network with weights of another variance, its matrices drawn whole."""
    from deeplimit.signal import measure as module

    loud = type(network)(
        network.recursion, network.width, (Scaled(variance),) * len(network.weights), network.exponent
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "known_in_law", lambda _: False)
        return dl.stability(loud, [depth], draws=draws)


def broken(network, report, depth):
    """Return the bounds that some δ breaks, and those tested at some δ, by statement."""
    known = theory.block(network)
    a = depth ** (-2 * network.exponent)
    wrong, tested = set(), set()
    for delta in np.linspace(0.05, 0.95, 19):
        for bound in [
            *bounds.hidden_bounds(known, network.width, depth, a, delta),
            bounds.change_bound("Proposition 7", depth, a, delta),
        ]:
            if isinstance(bound, tuple):
                continue
            tested.add(bound.statement)
            logs = {"Proposition 3": report.log_hidden_change, "Proposition 7": report.log_gradient_change}
            values = 2 * logs.get(bound.statement, report.log_hidden_ratio)[0]
            if stats.binom.sf(bound.violations(values) - 1, len(values), delta) < LEVEL / 19:
                wrong.add(bound.statement)
    return wrong, tested


ALL_FOUR = {"Proposition 3", "Proposition 4 (i)", "Proposition 4 (ii)", "Proposition 7"}


@pytest.mark.parametrize(
    "network", [dl.res3(64), dl.res1(64, leaky), dl.res2(64, leaky), dl.res1(64, "identity")], ids=str
)
def test_probability_bounds_hold_over_their_whole_range(network):
    assert broken(network, dl.stability(network, [1000], draws=100), 1000) == (set(), ALL_FOUR)


def test_weights_that_violate_a1_break_the_upper_bounds():
    """Of variance 3 instead of 1, in width 64, where all four bounds apply."""
    network = dl.res1(64, "identity")
    report = scaled_measure(network, 3.0, 700, 60)
    assert broken(network, report, 700)[0] == ALL_FOUR - {"Proposition 4 (i)"}


def test_weights_that_violate_a1_break_the_lower_bound():
    """Of variance 0.05: the bound is above 1 from width 128 on only for large δ, and at width 400 for δ =
    0.75.
    """
    network, depth = dl.res1(400, "identity"), 1300
    logs = np.random.default_rng(0).normal(
        0.5 * 0.05, (0.05 / 400) ** 0.5, (1, 60)
    )  # log-normal: drawing it whole is slow
    known = theory.block(network)
    found = {
        b.statement: b
        for b in bounds.hidden_bounds(known, 400, depth, 1 / depth, 0.75)
        if not isinstance(b, tuple)
    }
    assert found["Proposition 4 (i)"].violations(2 * logs[0]) == 60
    honest = np.random.default_rng(0).normal(0.5 * (1 - 2 / 400), (1 / 400) ** 0.5, 60)
    assert found["Proposition 4 (i)"].violations(2 * honest) == 0


def test_bounds_are_refused_where_their_conditions_fail():
    known = theory.block(dl.res3(64))

    def refused(width, depth, exponent, delta=0.25):
        rows = bounds.hidden_bounds(known, width, depth, depth ** (-2 * exponent), delta)
        return {row[0]: row[1] for row in rows if isinstance(row, tuple)}

    assert refused(64, 1000, 0.5) == {}
    known = theory.block(dl.res1(64, "identity"))  # C = s = 1: 3a ≤ 1/64, and 2 (7a + 4/64 + 392 a³) ≤ 10/64
    assert "Proposition 4 (ii)" in refused(64, 191, 0.5)
    assert "Proposition 4 (ii)" not in refused(64, 193, 0.5)
    assert "Proposition 4 (i)" in refused(64, 448, 0.5)
    assert refused(64, 449, 0.5) == {}
    known = theory.block(dl.res3(64))
    assert "d ≥ 64" in refused(63, 1000, 0.5)["Proposition 4 (i)"]
    assert "L a = 2.51" in refused(64, 100, 0.4)["Proposition 3"]
    assert set(refused(64, 10, 0.5)) == {"Proposition 4 (i)", "Proposition 4 (ii)"}
    assert "condition (5) asks for δ ≥" in refused(64, 500, 0.5, 1e-300)["Proposition 4 (i)"]


@pytest.mark.parametrize(
    ("network", "least", "most"), [(dl.res3(16), 0.5, 0.5), (dl.res1(16, leaky), 0.64, 1.0)], ids=str
)
def test_the_constants_of_the_block_are_its_moments(network, least, most):
    """C and the kept energy by drawing g(h), not by formula."""
    known = theory.block(network)
    assert (known.kept_least, known.kept_most) == (pytest.approx(least), pytest.approx(most))
    if len(network.recursion.weights) == 2:
        g = torch.relu(
            torch.randn(400_000, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        )
        eighth = (g.square().sum(1) / 16) ** 4
        assert abs(float(eighth.mean()) - known.eighth) < Z * float(eighth.std()) / len(g) ** 0.5
        assert abs(float(eighth.mean()) - 1.3 * known.eighth) > Z * float(eighth.std()) / len(g) ** 0.5


def mean_rows(network, report):
    rows = bounds.evaluate(
        network,
        int(report.depths[0]),
        report.log_hidden_ratio[0],
        report.log_hidden_change[0],
        report.log_gradient_change[0],
        0.25,
    )
    return {
        row.statement: row.holds
        for row in rows
        if row.statement in ("Lemma 15", "Proposition 8", "exact mean")
    }


@pytest.mark.parametrize(
    "network", [dl.res3(16), dl.res1(16, leaky), dl.res1(16, "identity", exponent=1.0)], ids=str
)
def test_mean_bounds_hold_and_are_broken_by_other_variances(network):
    depth = 40
    honest = mean_rows(network, dl.stability(network, [depth], draws=1000))
    assert set(honest.values()) == {True}
    for variance in (0.4, 1.6):
        assert set(mean_rows(network, scaled_measure(network, variance, depth, 1000)).values()) == {False}


def test_dead_layers_are_numbers_to_a_mean_but_none_to_a_mean_of_logarithms():
    """One unit: half of the first layers do nothing, and log(1 + 0) is a number."""
    assert (dl.stability(dl.res3(1), [1, 4, 30], draws=40).log_hidden_change == -np.inf).any()
    assert np.isfinite(dl.stability(dl.res3(1), [1, 4, 30], draws=40).hidden_growth.exponent)


@pytest.mark.parametrize("draws", [3, 20, 120])
def test_heavy_tails_do_not_make_true_bounds_look_broken(draws):
    """Where the mean lies in draws that were not seen, nothing is claimed; a Student interval would be wrong
    one time in ten.
    """
    found = [
        bound
        for seed in range(12)
        for network in (
            dl.res1(1, "identity", exponent=0.25),
            dl.res3(4),
            dl.res3(8, exponent=0.4),
            dl.res3(16, exponent=0.25),
        )
        for bound in dl.stability(network, [5, 20, 80], draws=draws, seed=seed, workers=1).broken
    ]
    assert found == []


def test_rounding_does_not_make_true_bounds_look_broken():
    for network in (
        dl.res3(64, exponent=3.0),
        dl.res3(64, exponent=3.3),
        dl.res3(64, exponent=40.0),
        dl.res3(4, exponent=100.0),
    ):
        for dtype in ("float32", "float64"):
            report = dl.stability(network, [2, 40, 600], draws=20, dtype=dtype)
            assert report.broken == ()
            assert report.verdict == IDENTITY


SMOOTH = {
    "res1 identity": lambda exponent: dl.res1(12, "identity", weights=dl.SmoothGaussian(), exponent=exponent)
}
SMOOTH["res1 tanh"] = lambda exponent: dl.res1(12, "tanh", weights=dl.SmoothGaussian(), exponent=exponent)
SMOOTH["res3"] = lambda exponent: dl.res3(12, weights=dl.SmoothGaussian(), exponent=exponent)


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_smooth_weights_at_exponent_2_change_like_one_over_the_depth(name):
    """Prop. 13, and at exponent 1 the change is bounded."""
    depths = [30, 60, 120, 240, 480]  # from where they resolve the weights' length scale, 0.1
    report = dl.stability(SMOOTH[name](2.0), depths, draws=150)
    assert report.verdict == IDENTITY
    assert report.predicted_growth == -2.0
    assert report.hidden_growth.interval[0] - 0.02 < -2 < report.hidden_growth.interval[1] + 0.02
    bounded = dl.stability(SMOOTH[name](1.0), depths, draws=150)
    assert bounded.verdict == "stable"


def test_smooth_weights_explode_below_exponent_1():
    """Prop. 14: res-1, σ = identity."""
    assert dl.stability(SMOOTH["res1 identity"](0.5), [10, 30, 100, 300], draws=60).verdict == EXPLOSION


@pytest.mark.parametrize(
    ("network", "critical"),
    [
        (dl.inner(12, "relu", weights=dl.Brownian(), exponent=1.0), 1.0),
        (dl.inner(12, "tanh", weights=dl.Brownian()), 0.5),
        (dl.res2(12, "identity", weights=dl.FractionalBrownian(0.9), exponent=0.8), 0.8),
        (dl.res3(12, weights=dl.FractionalBrownian(0.9), exponent=0.9), 0.9),
        (dl.res1(12, "tanh", weights=dl.FractionalBrownian(0.7), exponent=0.7), 0.7),
    ],
    ids=str,
)
def test_the_critical_exponent_tells_branches_with_a_mean_from_those_without(network, critical):
    """A branch that keeps a mean adds up like its slower factor alone; an odd one forgets faster than either
    factor.
    """
    assert theory.growth_of(network).critical == critical
    depths, draws = [30, 100, 300, 1000], 40
    at = {
        beta: dl.stability(type(network)(**(vars(network) | {"exponent": beta})), depths, draws=draws)
        for beta in (critical - 0.25, critical)
    }
    assert at[critical - 0.25].hidden_growth.verdict == EXPLOSION
    assert abs(at[critical].hidden_growth.exponent) < 0.12


def verdicts(network, seeds, draws=60, depths=(10, 30, 100, 300)):
    return [dl.stability(network, depths, draws=draws, seed=seed, workers=1).verdict for seed in range(seeds)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "make",
    [lambda exponent: dl.res3(8, exponent=exponent), lambda exponent: dl.res1(8, "tanh", exponent=exponent)],
    ids=["res3", "tanh"],
)
def test_verdicts_are_right_where_they_are_given(make):
    """At the critical exponent four tails of 0.05 % may err: 5 of 100 would be a chance of 1e-5."""
    critical = verdicts(make(0.5), 100)
    assert sum(verdict in (IDENTITY, EXPLOSION) for verdict in critical) <= 4
    assert stats.binom.sf(4, 100, 0.002) < LEVEL
    assert critical.count(CANNOT_TELL) < 50
    if make(0.5).recursion.activation.name == "relu":
        assert set(verdicts(make(0.25), 20)) == {EXPLOSION}
    assert set(verdicts(make(1.0), 20)) == {IDENTITY}


@pytest.mark.statistical
@pytest.mark.parametrize("exponent", [0.25, 0.4, 0.5, 0.6, 0.75, 1.0])
def test_the_interval_of_the_growth_exponent_covers_the_truth(exponent):
    """At least 93 %: of 60 fewer than 45 would be a chance of 1e-5. Off by 0.4 it is never covered."""
    truth, count = 1 - 2 * exponent, 60
    reports = [
        dl.stability(dl.res3(16, exponent=exponent), [10, 30, 100, 300], draws=60, seed=s, workers=1)
        for s in range(count)
    ]
    for growths in ([r.hidden_growth for r in reports], [r.gradient_growth for r in reports]):
        covered = [
            sum(g.interval[0] <= value <= g.interval[1] for g in growths)
            for value in (truth, truth + 0.4, truth - 0.4)
        ]
        assert covered[0] >= 45
        assert max(covered[1:]) < 5
    assert stats.binom.cdf(44, count, 0.93) < LEVEL
