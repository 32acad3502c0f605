"""Assumptions are held against networks: where one fails, no theorem is named."""

import math

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.layers import activations
from deeplimit.theory import functions_of_time, growth_of
from deeplimit.theory.table import HOLDING, find
from deeplimit.theory.theorem import Truth, side

SMOOTH, YOUNG = dl.SmoothGaussian(), dl.FractionalBrownian(0.7)


def one(function, **more):
    """Return a 1 x 1 weight that is a function of time."""
    return dl.Trend(lambda t: torch.tensor([[float(function(t))]]), **more)


def bent(x):
    return torch.where(x > 1.3, 2 * x - 1.3, x)


def jumping(x):
    return torch.tanh(x) + 0.01 * (x > 2.345)


def log_linear(x):
    return x * torch.log1p(x.abs())


NOT_LIPSCHITZ = {
    "sign": torch.sign,
    "step": lambda x: (x > 0.4).to(x.dtype),
    "small jump": jumping,
    "floor": torch.floor,
    "root": lambda x: x.abs().sqrt(),
    **{f"root at {at}": (lambda x, at=at: (x - at).abs().sqrt()) for at in (5, 3, -4, 0.5)},
    **{f"step at {at}": (lambda x, at=at: x + 0.01 * (x > at)) for at in (33.3, -137.3, 980.0)},
    "root at 61.7": lambda x: (x - 61.7).abs().sqrt(),
    "sin of squares": lambda x: torch.sin(x**2),
    "x log x": log_linear,
    "x log near 0": lambda x: x * torch.log(x.abs().clamp(min=1e-300)),
}
LIPSCHITZ = {
    "kinked": bent,
    "steep": lambda x: torch.tanh(1000 * x),
    "waves": lambda x: x + 0.1 * torch.sin(10 * x),
    "slow waves": lambda x: x * torch.sin(torch.log1p(x.abs())),
    "late": lambda x: x**2 / (1 + x.abs()),
    "single": lambda x: torch.tanh(x.float()).to(x.dtype),
    "narrow": lambda x: torch.exp(-((100 * (x - 3.3)) ** 2)),
    "zero": lambda x: 0 * x,
    "far kink": lambda x: (x + 317.7).abs(),
    "far and steep": lambda x: torch.tanh(200 * (x - 71.3)),
}


@pytest.mark.parametrize("name", NOT_LIPSCHITZ)
def test_an_activation_that_is_not_lipschitz_is_found(name):
    activation = activations.resolve(NOT_LIPSCHITZ[name])
    assert activations.steepening(activation) is not None


@pytest.mark.parametrize("name", [*LIPSCHITZ, *activations.NAMES])
def test_an_activation_that_is_lipschitz_is_left_alone(name):
    activation = activations.resolve(LIPSCHITZ.get(name, name))
    assert activations.steepening(activation) is None


BESIDE = [lambda x: (x - x.mean(0)) / (1 + x.std(0)), lambda x: x / (1 + x.abs().max()), lambda x: x / len(x)]


@pytest.mark.parametrize("by", BESIDE)
@pytest.mark.filterwarnings("ignore:std")
def test_an_activation_that_reads_other_paths_is_refused(by):
    with pytest.raises(ValueError, match="activation"):
        dl.res1(4, by)


NILPOTENT = torch.tensor([[0.0, 0.1], [0.0, 0.0]])
SKEW = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
NONE = {
    **{f"res1, {name}": dl.res1(4, f) for name, f in NOT_LIPSCHITZ.items()},
    **{f"res1 smooth, {name}": dl.res1(4, f, weights=SMOOTH) for name, f in NOT_LIPSCHITZ.items()},
    **{f"res1 young, {name}": dl.res1(4, NOT_LIPSCHITZ[name], weights=YOUNG) for name in ("step", "root")},
    **{f"identity below, width {d}": dl.res1(d, "identity", exponent=0.25) for d in (1, 2, 4, 8)},
    **{f"res3 below, width {d}": dl.res3(d, exponent=0.3) for d in (1, 3, 8)},
    **{f"below, {name}": dl.res1(16, name, exponent=0.25) for name in ("tanh", "relu", "softplus", "gelu")},
    "young, relu": dl.res1(4, "relu", weights=YOUNG),
    "young, bent": dl.res1(4, bent, weights=YOUNG),
    "skew trend": dl.inner(2, "identity", trend=dl.Trend(lambda t: SKEW), alpha=0.5, beta=0.3),
    "contracting trend": dl.inner(2, "tanh", trend=dl.Trend(lambda t: -torch.eye(2)), alpha=0.2, beta=0.3),
    "no trend": dl.inner(2, "tanh", trend=dl.Trend(lambda t: 0 * SKEW), alpha=0.2, beta=0.3),
    "1/sqrt(t)": dl.res1(1, "tanh", weights=one(lambda t: t**-0.5 if t else 0.0)),
    "jump": dl.res1(1, "tanh", weights=one(lambda t: 1 + (t > 0.37))),
    "table": dl.res1(1, "tanh", weights=one(lambda t: math.floor(20 * t))),
    "rougher than stated": dl.res1(1, "tanh", weights=one(lambda t: abs(t - 0.5) ** 0.5)),
    "a cusp inside a cell": dl.res1(1, "tanh", weights=one(lambda t: abs(t - 0.3712) ** 0.5)),
    "1/sqrt|t - 1/3|": dl.res1(
        1, "tanh", weights=one(lambda t: abs(t - 1 / 3) ** -0.5 if t != 1 / 3 else math.inf)
    ),
    "infinite inside a cell": dl.res1(
        1, "tanh", weights=one(lambda t: abs(t - 513 / 1024) ** -0.5 if t != 513 / 1024 else math.inf)
    ),
    "trend with a jump": dl.inner(1, "tanh", trend=one(lambda t: 1 + (t > 0.37)), alpha=0.5, beta=0.5),
    "unshrunk jump": dl.inner(1, "tanh", trend=one(lambda t: 1 + (t > 0.37)), alpha=1, beta=0),
    "no noise at alpha 0": dl.inner(2, "tanh", trend=dl.Trend(lambda t: SKEW), alpha=0, beta=1),
    "AR1": dl.res1(4, "tanh", weights=dl.AR1(0.5)),
    "res2, sign": dl.res2(4, torch.sign),
    "averaged, step": dl.inner(4, NOT_LIPSCHITZ["step"], exponent=1.0),
    "inner, not odd": dl.inner(4, "softplus"),
}
ONE = {
    **{
        f"critical {e!r}": dl.res1(4, "tanh", exponent=e) for e in (0.49999999999999994, 1.1 - 0.6, 0.1 + 0.4)
    },
    "0.7 + 0.2 + 0.1": dl.res1(4, "tanh", weights=SMOOTH, exponent=0.7 + 0.2 + 0.1),
    "young": dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.1 + 0.6)),
    "res3 above": dl.res3(9, exponent=0.7),
    "identity below, width 9": dl.res1(9, "identity", exponent=0.25),
    "res3 below": dl.res3(9, exponent=0.3),
    "res2 below": dl.res2(12, "leaky_relu", exponent=0.3),
    **{f"res1, {name}": dl.res1(4, f) for name, f in LIPSCHITZ.items()},
    "H = 0.7 - 0.2": dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7 - 0.2)),
    "AR1(0.3 - 0.2 - 0.1)": dl.res1(4, "tanh", weights=dl.AR1(0.3 - 0.2 - 0.1)),
    "a moving average of one": dl.res1(4, "tanh", weights=dl.MovingAverage((3, 0))),
    "AR1(0)": dl.res1(4, "tanh", weights=dl.AR1(0.0)),
    "kink in time": dl.res1(1, "tanh", weights=one(lambda t: abs(t - 0.3))),
    "expanding trend": dl.inner(2, "tanh", trend=dl.Trend(lambda t: torch.eye(2)), alpha=0.2, beta=0.3),
    "averaged": dl.inner(4, "softplus", exponent=1.0),
    "4.3": dl.inner(2, "tanh", trend=dl.Trend(lambda t: SKEW), alpha=0.5, beta=0.5),
    "4.4": dl.inner(2, "tanh", noise=dl.Ito(A=0.1)),
}


@pytest.mark.parametrize("name", NONE)
def test_no_theorem_is_named_where_an_assumption_fails(name):
    regime = NONE[name].regime()
    assert regime.theorem is None
    assert regime.explanation
    found = find(NONE[name])
    if found.fallen and not found.fallen[0].closest:
        assert regime.closest.startswith(HOLDING)


@pytest.mark.parametrize("name", ONE)
def test_a_theorem_is_named_where_its_assumptions_hold_or_are_not_known(name):
    regime = ONE[name].regime()
    assert regime.theorem is not None
    assert not any(each.truth is Truth.FAILS for each in regime.hypotheses)


@pytest.mark.parametrize("critical", [0.5, 0.7, 1.0, 40.0])
def test_exponents_are_compared_by_one_tolerance(critical):
    near = [np.nextafter(critical, 0), critical, np.nextafter(critical, 99), critical * (1 + 1e-12)]
    assert [side(exponent, critical) for exponent in near] == [0, 0, 0, 0]
    assert [side(critical + step, critical) for step in (-1e-4, 1e-4)] == [-1, 1]


def test_where_the_state_need_not_grow_nothing_is_said_of_its_growth():
    """ln|h_L|² of res-1 with the identity drifts by 1 - 2/d: at d = 1 the median dies, at 2 it stays."""
    assert NONE["identity below, width 1"].regime().name == "no theorem"
    assert NONE["identity below, width 4"].regime().name == "explosion"
    assert growth_of(NONE["identity below, width 1"]).predicted is None


def test_states_that_may_stop_are_not_said_to_explode():
    """Of res-1 with ReLU, a state without a positive entry moves no more; a small slope moves it on."""
    assert dl.res1(12, "relu", exponent=0.1).regime().name == "no theorem"
    assert dl.res1(12, "leaky_relu", exponent=0.1).regime().name == "explosion"
    assert dl.res1(12, "relu", exponent=0.6).regime().name == "identity"


@pytest.mark.parametrize(
    ("function", "activation", "vanishes"),
    [
        (lambda t: 1 / (2 - t), "identity", True),  # exact: 1 + V/L = (2 - t)/(2 - t - 1/L)
        (lambda t: 1 / (3 - t), "identity", True),  # up to the round-off of float32
        (lambda t: 1.001 / (3 - t), "identity", False),
        (lambda t: 1 / (1 + t), "identity", False),  # the straight path 1 + t, missed by 1/(L + 1)
        (lambda t: 1.0, "identity", False),
        (lambda t: math.cos(3 * t), "tanh", False),
        (lambda t: 0.0, "tanh", True),
    ],
)
def test_the_order_of_euler_is_exact_unless_its_first_term_vanishes(function, activation, vanishes):
    network = dl.res1(1, activation, weights=one(function))
    assert functions_of_time.first_term_vanishes(network) is vanishes
    assert network.regime().rate_is_bound is vanishes


@pytest.mark.parametrize(
    ("noise", "order"),
    [
        (dl.Ito(A=torch.tensor([[0.0, 0.1], [0.0, 0.0]])), 1.0),
        (dl.Ito(A=torch.tensor([[0.0, 0.1], [0.0, 0.0]]), b=torch.tensor([0.2, 0.0])), 1.0),
        (dl.Ito(A=torch.tensor([[0.0, 0.1], [0.0, 0.0]]), b=0.2), 0.5),  # A b moves
        (dl.Ito(A=torch.tensor([[0.0, 0.1], [0.1, 0.0]])), 0.5),
        (
            dl.Ito(
                A=dl.Kronecker(torch.diag(torch.tensor([1.0, 0.0])), torch.diag(torch.tensor([0.0, 0.1])))
            ),
            1.0,
        ),
        (dl.Ito(A=0.1), 0.5),
        (dl.Ito(A=lambda t: (1 + t) * NILPOTENT), 1.0),
        (dl.Ito(A=lambda t: NILPOTENT if t < 0.45 else NILPOTENT.T), 0.5),
        (dl.Ito(A=NILPOTENT, b=lambda t: t * torch.tensor([0.2, 0.1])), 0.5),
        (dl.Ito(A=NILPOTENT, drift=dl.Trend(lambda t: torch.eye(2))), 1.0),
    ],
)
def test_noise_whose_directions_multiply_to_nothing_has_the_order_of_additive_noise(noise, order):
    regime = dl.inner(2, "tanh", noise=noise).regime()
    assert (regime.rate, regime.scheme_rate) == (order, order)


@pytest.mark.statistical
@pytest.mark.parametrize(("matrix", "order"), [([[0, 0.3], [0, 0]], 1.0), ([[0, 0.3], [0.3, 0]], 0.5)])
def test_the_order_is_one_where_products_vanish_and_one_half_where_they_do_not(matrix, order):
    """Errors fall like L^-order from 8 to 64; standard deviations of the slope are below 0.04. Level 1e-6."""
    network = dl.inner(2, "tanh", noise=dl.Ito(A=torch.tensor(matrix)))
    report = dl.compare(network, depths=[8, 64], paths=1000, p=1)
    assert abs(math.log2(report.errors[0] / report.errors[1]) / 3 - order) < 0.2


def test_a_registered_statement_states_its_hypotheses():
    def assumes(network):
        wide = network.width >= 3
        return (
            (dl.Hypothesis.holds if wide else dl.Hypothesis.fails)("width", f"the width is {network.width}."),
        )

    row = dl.Theorem.register(
        matches=lambda network: network.exponent == 0.75,
        name="ours",
        rate=0.2,
        citation="Doe",
        hypotheses=assumes,
    )
    with row:
        assert dl.inner(3, weights=dl.AR1(0.5), exponent=0.75).regime().theorem == "Doe"
        narrow = dl.inner(2, weights=dl.AR1(0.5), exponent=0.75).regime()
    assert (narrow.theorem, narrow.name) == (None, "no theorem")
    assert "the width is 2" in narrow.explanation


def test_hypotheses_of_another_kind_are_refused_by_name():
    with pytest.raises(TypeError, match="hypotheses"):
        dl.Theorem.register(matches=lambda network: True, name="ours", hypotheses="that it is smooth")
    with (
        dl.Theorem.register(matches=lambda network: True, name="ours", hypotheses=lambda network: ["smooth"]),
        pytest.raises(TypeError, match="hypotheses"),
    ):
        dl.inner(2).regime()


@pytest.mark.parametrize(
    "network",
    [
        dl.fully_connected(3, "tanh", weights=SMOOTH, exponent=1.5),
        dl.ResidualNetwork(dl.PreNorm("tanh"), 3, (SMOOTH,), 1.5),
        dl.res3(3, weights=SMOOTH, exponent=1.5),
    ],
    ids=str,
)
def test_above_exponent_one_functions_of_time_vanish_in_every_recursion(network):
    """Measured at depths 16 to 128; a limit that turns is none."""
    regime = network.regime()
    assert (regime.name, regime.rate, network.limit()) == ("identity", 0.5, dl.Identity())
    more = dict(depths=[16, 32, 64, 128], paths=200)
    low, high = dl.compare(network, **more).rate_interval
    assert low < 0.5 < high
    turning = dl.compare(network, lambda t, h: 0.5 * h.roll(1, dims=1), **more)
    assert turning.verdict == "does not converge"


@pytest.mark.parametrize(
    "trend",
    [
        lambda t: torch.tensor([[-1.0, 50.0], [0.0, -1.0]]),
        lambda t: math.cos(math.pi * t) * torch.eye(2),
        lambda t: torch.tensor([[-0.5, 3.0], [0.0, -2.0]]),
    ],
)
def test_a_trend_that_contracts_in_the_end_or_returns_is_not_called_an_explosion(trend):
    network = dl.inner(2, "identity", trend=dl.Trend(trend), alpha=0.4, beta=0.3)
    assert network.regime().name != "explosion"
    pushed = dl.inner(
        2, "identity", trend=dl.Trend(lambda t: trend(t) + 3 * torch.eye(2)), alpha=0.4, beta=0.3
    )
    assert pushed.regime().name == "explosion"


@pytest.mark.parametrize(
    "sigma", [lambda x: x / (1 + x.norm(dim=-1, keepdim=True)), lambda x: x - x.mean(-1, True)]
)
def test_an_activation_that_reads_the_entries_beside_is_refused(sigma):
    with pytest.raises(ValueError, match="elementwise"):
        dl.res1(6, sigma)


def test_layers_with_a_memory_have_a_limit_at_the_critical_exponent_and_above():
    made = {exponent: dl.res1(4, "tanh", weights=dl.AR1(0.5), exponent=exponent) for exponent in (0.5, 1.5)}
    assert made[0.5].regime().name == "sde"
    assert isinstance(made[0.5].limit(), dl.ColouredSDE)
    assert made[1.5].regime().name == "identity"
    assert dl.res1(4, "tanh", weights=dl.AR1(0.5), exponent=0.3).regime().name == "no theorem"


@pytest.mark.parametrize("law", [dl.AR1(0.5), dl.AR1(-0.5), dl.MovingAverage((1, 0.5, 0.25))])
def test_layers_with_a_memory_tend_to_the_identity_and_to_nothing_else(law):
    network = dl.res1(6, "relu", weights=law, exponent=0.75)
    report = dl.compare(network, depths=(16, 32, 64, 128, 256), paths=512)
    assert (report.verdict, report.predicted_rate) == ("converges", 0.25)
    assert report.rate_interval[0] <= 0.25 <= report.rate_interval[1]
    wrong = dl.compare(network, lambda t, h: h, depths=(16, 32, 64, 128, 256), paths=512)
    assert wrong.verdict == "does not converge"


def test_the_drift_of_a_long_memory_is_not_taken_for_the_order():
    """Errors of ReLU fall like L^-0.36 at depths to 256, where the theorem's order is 0.1."""
    network = dl.res1(6, "relu", weights=dl.AR1(0.9), exponent=0.6)
    report = dl.compare(network, depths=(16, 32, 64, 128, 256), paths=512)
    assert report.verdict != "does not converge"
    assert not report.rate_interval[0] > 0.1


def test_states_that_stop_far_out_are_not_said_to_explode():
    """A bump moves no state beyond 1, and every state gets there; tanh moves all of them on."""
    stops = dl.res1(16, lambda h: h * torch.relu(1 - h.abs()), exponent=0.3)
    assert stops.regime().name != "explosion"
    assert dl.res1(16, "tanh", exponent=0.3).regime().name == "explosion"
    assert dl.stability(stops, depths=[10, 30, 100], draws=20).predicted_growth is None
