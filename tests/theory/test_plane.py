"""The plane of exponents (α, β) of Cohen et al. (2021): regimes and orders against a derivation made here,
and measured.

Intervals of measured orders have confidence 1 - 1e-5, so that one example in 100,000 may miss by chance.
"""

import dataclasses
import math
import re
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings, strategies as st
from pairs import NOISES

import deeplimit as dl

CONFIDENCE = 1 - 1e-5
CURVED, STRAIGHT = "scaled_silu", "tanh"  # σ''(0) = 1 and 0
TURN = torch.tensor([[0.1, 0.7], [-0.7, -0.2]], dtype=torch.float64)
PUSH = torch.tensor([0.3, -0.2], dtype=torch.float64)
TREND = dl.Trend(lambda t: (1.0 - 0.5 * t) * TURN, lambda t: t * PUSH)
NOISE = dl.Ito(A=0.1, b=0.1)


def network(alpha, beta, trend, noise, activation, width=2):
    given_trend = TREND if trend is True else trend or None
    return dl.inner(
        width, activation, trend=given_trend, noise=NOISE if noise else None, alpha=alpha, beta=beta
    )


# α, β, trend?, noise?, σ, regime, order, theorem, type of the limit
PLANE = [
    # Hypothesis 1 on the line α + β = 1: the square of the trend leaves L^-β, without one its cube L^-2β,
    # sums L^-1
    (0.5, 0.5, True, False, CURVED, "linear-ode", 0.5, "Theorem 4.3", dl.LinearODE),
    (0.5, 0.5, True, False, STRAIGHT, "linear-ode", 1.0, "Theorem 4.3", dl.LinearODE),
    (0.75, 0.25, True, False, CURVED, "linear-ode", 0.25, "Theorem 4.3", dl.LinearODE),
    (0.25, 0.75, True, False, STRAIGHT, "linear-ode", 1.0, "Theorem 4.3", dl.LinearODE),
    # 0.2 + 0.7 + 0.1 < 1 in floats
    (0.2 + 0.7, 0.1, True, False, CURVED, "linear-ode", 0.1, "Theorem 4.3", dl.LinearODE),
    (0.0, 1.0, True, False, CURVED, "linear-ode", 1.0, None, dl.LinearODE),
    # Hypothesis 2 there: noise leaves L^-α
    (0.5, 0.5, True, True, CURVED, "linear-ode", 0.5, "Theorem 4.4", dl.LinearODE),
    (0.3, 0.7, True, True, CURVED, "linear-ode", 0.3, "Theorem 4.4", dl.LinearODE),
    (0.6, 0.4, True, True, CURVED, "linear-ode", 0.4, "Theorem 4.4", dl.LinearODE),
    (0.6, 0.4, True, True, STRAIGHT, "linear-ode", 0.6, "Theorem 4.4", dl.LinearODE),
    # α = 0: the noise stays, with the trend at β = 1 and without at β > 1
    (0.0, 1.0, True, True, CURVED, "sde", 0.5, "Theorem 4.4", dl.ItoCorrectedSDE),
    (0.0, 1.0, True, True, STRAIGHT, "sde", 0.5, "Theorem 4.4", dl.ItoCorrectedSDE),
    (0.0, 0.2 + 0.7 + 0.1, True, True, STRAIGHT, "sde", 0.5, "Theorem 4.4", dl.ItoCorrectedSDE),
    (0.0, 1.5, True, True, STRAIGHT, "sde", 0.5, "Theorem 4.4", dl.ItoCorrectedSDE),
    (0.0, 0.0, False, True, CURVED, "sde", 0.5, "Theorem 4.4", dl.ItoCorrectedSDE),
    (0.0, 1.25, False, True, STRAIGHT, "sde", 0.5, "Theorem 4.4", dl.ItoCorrectedSDE),
    # α = 1, β = 0: the neural ODE, for any Lipschitz σ
    (1.0, 0.0, True, False, CURVED, "ode", 1.0, "Equation (2)", dl.NeuralODE),
    (1.0, 0.0, True, True, STRAIGHT, "ode", 1.0, "Equation (2)", dl.NeuralODE),
    (1.0, 0.0, True, False, "relu", "ode", 1.0, "Equation (2)", dl.NeuralODE),
    # above the line: nothing stays
    (0.5, 1.0, True, False, CURVED, "identity", 0.5, "expansion", dl.Identity),
    (0.2, 1.5, True, True, CURVED, "identity", 0.2, "expansion", dl.Identity),
    (0.3, 0.0, False, True, CURVED, "identity", 0.3, "expansion", dl.Identity),
    (1.5, 0.0, False, True, STRAIGHT, "identity", 1.5, "expansion", dl.Identity),
    (0.0, 1.5, True, False, STRAIGHT, "identity", 0.5, "expansion", dl.Identity),
    (2.0, 0.0, True, False, "relu", "identity", 1.0, "expansion", dl.Identity),
    # below the line: the trend adds up without bound
    (0.25, 0.5, True, False, STRAIGHT, "explosion", None, "expansion", None),
    (0.0, 0.0, True, True, CURVED, "explosion", None, "expansion", None),
]


@pytest.mark.parametrize(
    ("alpha", "beta", "trend", "noise", "activation", "name", "rate", "theorem", "kind"), PLANE
)
def test_the_plane_point_by_point(alpha, beta, trend, noise, activation, name, rate, theorem, kind):
    made = network(alpha, beta, trend, noise, activation)
    regime = made.regime()
    assert regime.name == name
    assert regime.rate == (None if rate is None else pytest.approx(rate))
    if theorem is None:
        assert regime.theorem is None
    else:
        assert re.search(f"{re.escape(theorem)}.*Cohen et al. .2021.", regime.theorem)
    assert regime.convergence == (None if rate is None else "pathwise")
    if kind is None:
        with pytest.raises(
            dl.NoTheoremError, match=rf"α = {alpha:g}, β = {beta:g}.*without bound.*alpha \+ beta = 1"
        ):
            made.limit()
        return
    limit = made.limit()
    assert type(limit) is kind
    if kind is dl.ItoCorrectedSDE:
        assert limit.trend is (TREND if trend and beta == pytest.approx(1.0) else None)
        assert limit.noise is NOISE
        assert (limit.slope, limit.curvature) == (1.0, 1.0 if activation == CURVED else 0.0)
        # Drift and noise together leave errors of order 1 beside the noise's of order 1/2.
        assert regime.scheme_second_orders == ((0.5,) if limit.trend is not None else ())
    if kind is dl.LinearODE:
        assert (limit.trend, limit.slope) == (TREND, 1.0)


def derived(alpha, beta, trend, noise, curved, holder):
    """(regime, order, bound?) from the powers of 1/L that each term of σ(M) leaves in the sum of L layers.

    σ(M) = M + ½σ''M² + σ'''M³/6 with M = L^-β m + ΔW, every layer multiplied by L^-α. What has power 0 is the
    limit, the least other power the order. ΔW sums to L^-α, ΔW² to L^-α Q with fluctuations of L^-(α + 1/2),
    and ΔW³ to L^-(α + 1). Where noise multiplies states, freezing them over a layer leaves L^-(α + 1/2), too.
    """
    first = alpha + beta - 1
    powers = []
    if trend:
        if first < 0:
            return "explosion", None, False
        if beta == 0:  # σ does not act as its expansion; noise is averaged to L^-α
            return (
                ("ode", min(1, holder), holder < 1)
                if first == 0
                else ("identity", min([first, alpha] if noise else [first]), False)
            )
        powers += [first, first + beta if curved else first + 2 * beta]
        powers += [1] if first == 0 and holder == 1 else []
    if noise:
        powers += [alpha, alpha + (1 if noise == "additive" and not curved else Fraction(1, 2))]
    name = "sde" if noise and alpha == 0 else "linear-ode" if trend and first == 0 else "identity"
    order = min([power for power in powers if power > 0], default=2)
    bound = trend and first == 0 and holder < order  # such a trend leaves no more than L^-holder
    return name, holder if bound else order, bound


twentieths = st.integers(0, 50).map(lambda k: Fraction(k, 20))


@given(
    alpha=st.one_of(twentieths, st.just(Fraction(0))),
    beta=st.one_of(twentieths, st.none()),  # None: on the line α + β = 1, where it can be
    which=st.sampled_from(
        [(True, None), (True, "additive"), (True, "matrix"), (False, "additive"), (False, "matrix")]
    ),
    curved=st.booleans(),
    holder=st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 4)]),
)
@settings(max_examples=4 * settings.default.max_examples)
def test_the_plane_is_what_counting_powers_gives(alpha, beta, which, curved, holder):
    trend, noise = which
    beta = abs(1 - alpha) if beta is None else beta
    made = dl.inner(
        2,
        CURVED if curved else STRAIGHT,
        trend=dl.Trend(TREND.A, TREND.b, holder=float(holder)) if trend else None,
        noise={"additive": dl.Ito(b=0.1), "matrix": NOISE, None: None}[noise],
        alpha=float(alpha),
        beta=float(beta),
    )
    name, rate, bound = derived(alpha, beta, trend, noise, curved, holder)
    assert (made.regime().name, made.regime().rate_is_bound) == (name, bound)
    assert made.regime().rate == (None if rate is None else pytest.approx(float(rate)))


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "elu", "softplus", "sigmoid"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 1.0), (0.0, 2.0), (0.5, 0.5), (0.5, 1.0), (0.2, 0.2)])
def test_activations_without_an_expansion_are_refused_by_the_assumptions_name(activation, alpha, beta):
    made = network(alpha, beta, True, True, activation)
    assert made.regime().name == "no theorem"
    with pytest.raises(
        dl.NoTheoremError, match=rf"Assumption 4\.2.*{activation} has.*Closest: .*scaled_silu"
    ):
        made.limit()
    with pytest.raises(ValueError, match=rf"Assumption 4\.2.*{activation} has"):
        dl.compare(made, depths=[4, 8], paths=8)


# Measured orders: random trends, noises and activations.


def rotation_of(size, seed, *shape):
    """A random array, a matrix of norm `size` at most where it is one."""
    array = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return size * array / torch.linalg.vector_norm(array)


def smooth(t, phase):
    return math.cos(2.0 * t + phase)


def rough(t, phase):
    """As Weierstrass' function, Hölder 1/2 down to times of 1/3571, shorter than any layer here; no multiple
    of a layer's.
    """
    golden = (1 + 5**0.5) / 2
    return 0.25 * sum(
        golden ** (-k / 2) * math.cos(golden**k * 2 * math.pi * t + (phase + 1) * k**2) for k in range(18)
    )


SHAPES = {"smooth": smooth, "rough": rough}


def random_trend(shape, width, seed):
    """Ā of norm 0.8 at most, b̄ of 0.4."""
    one, two, bias = (
        rotation_of(0.4, seed, width, width),
        rotation_of(0.4, seed + 1, width, width),
        rotation_of(0.4, seed + 2, width),
    )
    phase = (seed % 7) / 7
    function = SHAPES[shape]
    return dl.Trend(
        lambda t: function(t, phase) * one + smooth(t, phase) * two,
        lambda t: function(t, phase) * bias,
        holder=0.5 if shape == "rough" else 1.0,
    )


def between(low, high):
    """Exponents on a grid of twentieths."""
    return st.integers(round(20 * low), round(20 * high)).map(lambda k: k / 20)


EXPONENTS = {  # (α, β), trend?, noise?
    "line": st.tuples(between(0.2, 0.8).map(lambda a: (a, 1 - a)), st.just(True), st.booleans()),
    "sde": st.tuples(st.just((0.0, 1.0)), st.booleans(), st.just(True)),
    "sde, trend gone": st.tuples(between(1.2, 2.5).map(lambda b: (0.0, b)), st.just(True), st.just(True)),
    "identity": st.tuples(
        st.tuples(between(0.3, 1.0), between(0.2, 0.7)).map(lambda p: (p[0], 1 - p[0] + p[1])),
        st.just(True),
        st.booleans(),
    ),
    "neural ODE": st.tuples(st.just((1.0, 0.0)), st.just(True), st.booleans()),
}


SLOW = ("neural ODE",)


@pytest.mark.parametrize(
    "place", [pytest.param(p, marks=[pytest.mark.nightly] * (p in SLOW)) for p in EXPONENTS]
)
@settings(max_examples=settings.default.max_examples // 12)  # of each of the five places
@given(
    data=st.data(),
    activation=st.sampled_from(["tanh", "sin", "silu", "scaled_silu", "scaled_softplus", "scaled_gelu"]),
    shape=st.sampled_from(list(SHAPES)),
    kind=st.sampled_from([*NOISES]),
    seed=st.integers(0, 2**31),
)
def test_measured_orders_are_the_predicted_ones(place, data, activation, shape, kind, seed):
    """Or the verdict is that one cannot tell; never that a network does not reach its own limit."""
    (alpha, beta), trend, noisy = data.draw(EXPONENTS[place], label="α, β, trend, noise")
    made = dl.inner(
        2,
        activation,
        trend=random_trend(shape, 2, seed) if trend else None,
        noise=NOISES[kind] if noisy else None,
        alpha=alpha,
        beta=beta,
    )
    ode = not isinstance(made.limit(), dl.ItoCorrectedSDE)
    report = dl.compare(
        made,
        depths=[16, 32, 64, 128, 256],
        paths=200 if noisy else 30,
        seed=seed,
        confidence=CONFIDENCE,
        tolerance=1e-6 if ode else None,
    )
    assert report.verdict != "does not converge", str(report)
    if math.isnan(report.rate):
        assert report.verdict == "cannot tell", str(report)
        return
    low, high = report.rate_interval
    assert report.predicted_rate < high, str(report)
    if not made.regime().rate_is_bound:
        assert low < report.predicted_rate, str(report)


def swapped(noise):
    """Rows and columns of a Kronecker covariance exchanged."""
    return dl.Ito(A=dl.Kronecker(noise.A.C, noise.A.R), b=noise.b)


STRONG = dl.Trend(lambda t: 2.0 * TURN, lambda t: PUSH)
SKEW = dl.Ito(
    A=dl.Kronecker(torch.diag(torch.tensor([0.5, 0.1])), torch.diag(torch.tensor([0.2, 1.0]))), b=0.1
)
LOUD = dl.Ito(A=0.05, b=0.4, cross=torch.tensor([[[0.13, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.13]]]))
NEAR = torch.tensor([[0.7, -0.6], [0.3, 0.5]])  # not far out, where the quadratic drift may explode


def saturated(t, h):
    """dH = tanh(Ā H + b̄) dt, which is the limit at α = 1, β = 0 and nowhere else."""
    return torch.tanh(h @ STRONG.A(t).to(h).T + STRONG.b(t).to(h))


def on_plane(activation, alpha, beta, trend=None, noise=None):
    return dl.inner(2, activation, trend=trend, noise=noise, alpha=alpha, beta=beta)


def changed(network, **changes):
    return network, dataclasses.replace(network.limit(), **changes)


CERTAIN = {  # networks whose verdict must be "converges", with the order
    "Hypothesis 1": (lambda: on_plane(STRAIGHT, 0.25, 0.75, STRONG), 1.0),
    "Hypothesis 1, curved": (lambda: on_plane(CURVED, 0.25, 0.75, TREND), 0.75),
    "noise on the line": (lambda: on_plane(STRAIGHT, 0.5, 0.5, TREND, LOUD), 0.5),
    "neural ODE": (lambda: on_plane("relu", 1.0, 0.0, STRONG), 1.0),
    "SDE": (lambda: on_plane(CURVED, 0.0, 1.0, None, SKEW), 0.5),
    "SDE with trend": (lambda: on_plane(CURVED, 0.0, 1.0, TREND, SKEW), 0.5),
    "volatility": (
        lambda: on_plane(STRAIGHT, 0.0, 1.0, None, dl.stochastic_volatility(A=SKEW.A, b=0.1)),
        0.5,
    ),
    "identity": (lambda: on_plane(STRAIGHT, 0.5, 1.0, TREND), 0.5),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_right_limits_are_confirmed(name, device):
    make, rate = CERTAIN[name]
    report = dl.compare(
        make(), x=NEAR, depths=[16, 32, 64, 128, 256], paths=1000, seed=1, confidence=0.999, device=device
    )
    assert report.verdict == "converges", str(report)
    assert report.predicted_rate == pytest.approx(rate)
    low, high = report.rate_interval
    assert low < rate < high, str(report)


@pytest.mark.parametrize("beta", [1.0, 1.75, 3.0])
def test_additive_noise_without_curvature_is_reached_at_order_one(beta):
    """ΔW^b is summed without error and its square is absent: its cubes, of size L^-3/2, leave L^-1 in L
    layers.
    """
    additive = on_plane(STRAIGHT, 0.0, beta, TREND, dl.Ito(b=0.4))
    report = dl.compare(additive, x=NEAR, depths=[16, 32, 64, 128, 256], paths=600, seed=1)
    expected = 1.0 if beta == 1.0 else min(1.0, beta - 1.0)
    assert expected - 0.15 < report.local_slopes[-1] < expected + 0.15
    assert additive.regime().rate == pytest.approx(expected)


# Wrong limits, each wrong in one way, where `compare` has what it takes to say so.


WRONG = {
    "neural ODE for the linear one": lambda: (on_plane("tanh", 0.25, 0.75, STRONG), saturated),
    "slope 1 for 1/2, ODE": lambda: changed(on_plane("silu", 0.25, 0.75, STRONG), slope=1.0),
    "slope 1 for 1/2, SDE": lambda: changed(on_plane("silu", 0.0, 1.0, None, LOUD), slope=1.0),
    "½σ''Q dropped": lambda: changed(on_plane(CURVED, 0.0, 1.0, STRONG, LOUD), curvature=0.0),
    "½ forgotten": lambda: changed(on_plane(CURVED, 0.0, 1.0, None, LOUD), curvature=2.0),
    "trend kept at β > 1": lambda: changed(on_plane(STRAIGHT, 0.0, 2.0, STRONG, LOUD), trend=STRONG),
    "trend dropped at β = 1": lambda: changed(on_plane(STRAIGHT, 0.0, 1.0, STRONG, LOUD), trend=None),
    "no cross term": lambda: changed(
        on_plane(CURVED, 0.0, 1.0, None, LOUD), noise=dataclasses.replace(LOUD, cross=None)
    ),
    "rows for columns": lambda: changed(on_plane(STRAIGHT, 0.0, 1.0, None, SKEW), noise=swapped(SKEW)),
    "other noise": lambda: (
        on_plane(CURVED, 0.0, 1.0, STRONG, LOUD),
        dl.Independent(on_plane(CURVED, 0.0, 1.0, STRONG, LOUD).limit()),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_limits_on_the_plane_are_caught(name, device):
    network, limit = WRONG[name]()
    given = {"x": NEAR, "depths": [16, 32, 64, 128, 256], "paths": 400, "seed": 1, "device": device}
    assert dl.compare(network, limit, **given).verdict == "does not converge"


def test_layers_that_do_not_shrink_explode_by_no_statement_of_the_papers():
    """The expansion (13) is for β > 0."""
    trend = dl.Trend(lambda t: torch.eye(3, dtype=torch.float64))
    named, own = (
        dl.inner(3, "tanh", trend=trend, alpha=0.4, beta=beta).regime().theorem for beta in (0.3, 0.0)
    )
    assert named.startswith("The expansion (13)")
    assert not own.startswith("The expansion")
