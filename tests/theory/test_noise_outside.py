"""V noise and W a function of time: orders, exact solutions, a second route, and limits that are wrong."""

import pytest
import torch
from samplers import FAR

import deeplimit as dl
from deeplimit.driving import layers_of
from deeplimit.layers import activations
from deeplimit.papers.cases.noise_outside import turning

TURNING, SMOOTH, UNIFORM = dl.Trend(turning), dl.SmoothGaussian(0.5), dl.IID("uniform")


def network(activation="tanh", inside=TURNING, outside=None, exponent=None, width=4):
    return dl.res2(width, activation, weights=(outside or dl.Brownian(), inside), exponent=exponent)


def number(function, **more):
    return dl.Trend(lambda t: torch.tensor([[float(function(t))]]), **more)


@pytest.mark.statistical
@pytest.mark.parametrize("inside", [TURNING, SMOOTH], ids=["given", "random"])
def test_the_order_is_one_half_and_another_path_is_caught(inside):
    """Level 1e-3 for the interval."""
    knobs = dict(depths=[16, 32, 64, 128, 256], paths=1500, seed=3)
    report = dl.compare(network(inside=inside), confidence=0.999, **knobs)
    low, high = report.rate_interval
    assert (report.verdict, report.predicted_rate) == ("converges", 0.5)
    assert low < 0.5 < high
    other = dl.compare(network(inside=inside), dl.Independent(network(inside=inside).limit()), **knobs)
    assert other.verdict == "does not converge"


def test_the_network_is_the_scheme_of_its_limit_step_by_step():
    """Reading W at the start of a step instead is another recursion."""
    made, rng = network(), torch.Generator().manual_seed(0)
    limit, depth = made.limit(), 8
    outside, inside = (layers_of(law, depth, (4, 4), 5, rng, torch.float64) for law in made.weights)
    function = (TURNING.sample((4, 4), 1, rng, torch.float64, torch.device("cpu")),)
    h = start = torch.randn(5, 4, generator=rng, dtype=torch.float64)
    ours = early = start
    for k, layers in enumerate(zip(outside, inside, strict=True)):
        noise = layers[0].values.flatten(1)
        h = made.recursion.advance(h, layers, 0.5)
        ours = ours + limit.moved((k + 1) / depth, ours, noise, function)
        early = early + limit.increment(k / depth, 1 / depth, early, noise)
    torch.testing.assert_close(ours, h)
    assert not torch.allclose(early, h, atol=1e-3)


def test_with_the_identity_inside_it_is_the_equation_of_proposition_11():
    rng = torch.Generator().manual_seed(0)
    h, noise = (torch.randn(5, size, dtype=torch.float64, generator=rng) for size in (3, 9))
    ours = network(inside=dl.Trend(lambda t: torch.eye(3)), width=3).limit()
    theirs = dl.res1(3, "tanh").limit()
    torch.testing.assert_close(ours.g(0.3, h), theirs.g(0.3, h))
    torch.testing.assert_close(ours.increment(0.3, 0.1, h, noise), theirs.increment(0.3, 0.1, h, noise))


@pytest.mark.statistical
def test_in_one_dimension_the_solution_is_an_exponential_martingale():
    """dH = w_t H dB: ln(H_1/h_0) has mean -½∫w² and variance ∫w², w = 1 + t, 7/3. Level 1e-5 each."""
    one = network("identity", number(lambda t: 1 + t), width=1)
    drive = dict(depths=[64, 256], paths=4000, seed=1, norm="final", dtype="float64")
    h0, rest = torch.ones(1, 1), 7 / 3
    end = torch.stack([log_end(one, h0, 512, seed) for seed in range(4)]).flatten()
    score = (end.mean() + rest / 2) / (rest / len(end)) ** 0.5
    assert abs(score) < FAR + 0.4  # Euler's bias on 512 steps is 0.4 standard errors
    assert abs(end.var() / rest - 1) < FAR * (2 / len(end)) ** 0.5
    report = dl.compare(one, x=h0.double(), **drive)
    assert report.errors[1] < 0.7 * report.errors[0]


def log_end(made, h0, depth, seed):
    """Logarithms of the last states of 1000 networks."""
    rng, h = torch.Generator().manual_seed(seed), h0.double().repeat(1000, 1)
    laws = [
        layers_of(law, depth, shape, 1000, rng, torch.float64)
        for law, shape in zip(made.weights, made.weight_shapes, strict=True)
    ]
    for layers in zip(*laws, strict=True):
        h = made.recursion.advance(h, layers, made.exponent)
    return h[:, 0].abs().log()


@pytest.mark.parametrize(
    ("made", "name", "rate", "is_bound"),
    [
        (network(), "sde", 0.5, False),
        (network("relu", SMOOTH), "sde", 0.5, False),
        (dl.res3(4, weights=(dl.Brownian(), SMOOTH), exponent=0.5), "sde", 0.5, False),
        (network(inside=number(abs, holder=0.3), width=1), "sde", 0.3, True),
        (network(inside=number(abs, holder=0.8), width=1), "sde", 0.5, False),
        (network(exponent=0.9), "identity", 0.4, False),
        (network(outside=UNIFORM, exponent=0.9), "identity", 0.4, False),
    ],
    ids=str,
)
def test_every_exponent_has_its_regime(made, name, rate, is_bound):
    regime = made.regime()
    assert (regime.name, regime.rate, regime.rate_is_bound) == (name, pytest.approx(rate), is_bound)
    assert regime.convergence == "pathwise"


@pytest.mark.parametrize(
    "made",
    [
        network(outside=UNIFORM),
        network(outside=dl.AR1(0.5), exponent=0.5),
        network(exponent=0.4),
        network(torch.sign),
        network(inside=number(lambda t: t > 0.37), width=1),
        dl.res2(4, "tanh", weights=(SMOOTH, dl.Brownian()), exponent=0.5),
    ],
    ids=str,
)
def test_elsewhere_there_is_none(made):
    assert made.regime().theorem is None
    with pytest.raises(dl.NoTheoremError):
        made.limit()


@pytest.mark.statistical
def test_above_the_exponent_the_order_is_the_predicted_one():
    """Level 1e-3. A limit that turns states is caught."""
    made, knobs = network(outside=UNIFORM, exponent=0.9), dict(depths=[16, 32, 64, 128], paths=400)
    low, high = dl.compare(made, confidence=0.999, **knobs).rate_interval
    assert low < 0.4 < high
    turning_state = dl.compare(made, lambda t, h: 0.5 * h.roll(1, dims=1), **knobs)
    assert turning_state.verdict == "does not converge"


TANH = activations.resolve("tanh")
BAD = {
    "activation": (TypeError, ("tanh", TURNING, 4)),
    "inside": (TypeError, (TANH, dl.Brownian(), 4)),
    "width": (ValueError, (TANH, TURNING, 0)),
    "shape": (ValueError, (TANH, TURNING, 3)),
    "seed": (ValueError, (TANH, TURNING, 4, -1)),
}


@pytest.mark.parametrize("argument", BAD)
def test_a_bad_limit_is_refused_by_the_argument(argument):
    error, given = BAD[argument]
    with pytest.raises(error, match=argument):
        dl.MixedSDE(*given)


def test_a_limit_called_by_itself_reads_the_draw_of_its_seed():
    one, same, other = (dl.MixedSDE(TANH, SMOOTH, 4, seed) for seed in (0, 0, 1))
    h, noise = torch.ones(2, 4), torch.ones(2, 16)
    assert torch.equal(one.g_prod(0.2, h, noise), same.g_prod(0.2, h, noise))
    assert not torch.equal(one.g_prod(0.2, h, noise), other.g_prod(0.2, h, noise))
    assert one == other
    assert not one.f(0.0, h).any()
