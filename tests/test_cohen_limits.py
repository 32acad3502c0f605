"""The limits of Cohen et al. (2021): the drift that one layer leaves, the equations as torchsde objects, exact solutions.

Statistical tests hold at level 1e-5. Orders against exact solutions are least-squares slopes of log errors, with a
stated tolerance that covers what lower-order terms leave of it at these depths and the slope's own standard error, about 0.02.
"""

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
import sympy
import torch
import torchdiffeq
import torchsde
from scipy import stats
from test_identities import walk

import deeplimit as dl
from deeplimit import activations
from deeplimit.coupling import make_task
from deeplimit.coupling.grid import Grid
from deeplimit.coupling.pathwise import network_readers
from deeplimit.coupling.readers import make_reader

LEVEL = 1e-5


@pytest.fixture(autouse=True)
def one_thread():
    """As in `compare`: threads inside small operations cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_psd(size, seed):
    root = randn(size, size, seed=seed)
    return root @ root.T / size


def own(x):
    """A user's callable with slope 1 and curvature 1/2."""
    return torch.sin(x) + 0.25 * x**2


X = torch.tensor([0.8, -0.5], dtype=torch.float64)  # the state where one layer is looked at
# σ, σ'(0), σ''(0), worked out by hand
SMOOTH = [
    ("scaled_softplus", 1.0, 0.5),
    ("scaled_silu", 1.0, 1.0),
    ("scaled_gelu", 1.0, 4 / math.sqrt(2 * math.pi)),
    ("silu", 0.5, 0.5),
    ("tanh", 1.0, 0.0),
    ("erf", 2 / math.sqrt(math.pi), 0.0),
    (own, 1.0, 0.5),
]
SMOOTH_IDS = [*(name for name, *_ in SMOOTH[:-1]), "own"]


def falling(t, size=0.2):
    """A covariance of W^b that depends on time, with correlations."""
    return size * (1.0 - 0.5 * t) * torch.tensor([[1.0, 0.6], [0.6, 2.0]], dtype=torch.float64)


def rough_weather(t, v):
    return 0.4 / (1.0 + torch.exp(-v[:, 0]))


def rough_entries(t, v):
    return rough_weather(t, v)[:, None, None] * torch.tensor([[1.0, 2.0], [0.5, 0.1]], dtype=torch.float64)


V = dl.AuxiliaryDiffusion(lambda t, v: 0.5 - v, lambda t, v: 1.0 + t + 0.1 * v, start=[0.4, -0.2], leverage=-0.6)
PUSHES = dl.Trend(
    lambda t: (1.0 + t) * torch.tensor([[0.3, -0.4], [0.2, 0.1]], dtype=torch.float64),
    lambda t: torch.tensor([0.2, t - 0.4], dtype=torch.float64),
)
RANDOM_PUSHES = dl.Trend(lambda t, v: v[:, :, None] * PUSHES.A(t), lambda t, v: v + PUSHES.b(t))
JOINT = random_psd(6, 11)
NOISES = {
    "number": dl.Ito(A=0.3),
    "b alone": dl.Ito(b=falling),
    "entries": dl.Ito(A=torch.tensor([[0.1, 0.4], [0.3, 0.05]]), b=[0.2, 0.05]),
    "time": dl.Ito(A=lambda t: 0.1 + 0.4 * t, b=falling, drift=PUSHES),
    "kronecker": dl.Ito(A=dl.Kronecker(random_psd(2, 1), random_psd(2, 2)), b=0.1),
    "tensor": dl.Ito(A=0.3 * random_psd(4, 3).reshape(2, 2, 2, 2), b=falling(0.0)),
    "cross": dl.Ito(A=JOINT[:4, :4].reshape(2, 2, 2, 2), b=JOINT[4:, 4:], cross=JOINT[:4, 4:].reshape(2, 2, 2), drift=PUSHES),
    "stochastic volatility": dl.stochastic_volatility(A=dl.Kronecker(random_psd(2, 4), random_psd(2, 5)), b=falling(0.0)),
    "two volatilities": dl.Ito(A=rough_entries, b=rough_weather, drift=RANDOM_PUSHES, auxiliary=V),
}
TREND = dl.Trend(
    lambda t: torch.tensor([[0.0, 1.0 + t], [-1.0, -0.3]], dtype=torch.float64), lambda t: torch.tensor([0.3 - t, 0.2]).double()
)


def q_by_hand(noise, x, v=None):
    """Q(0, x) (d,) of one state x (d,), index by index from the dense covariance."""
    matrix, vector, cross = noise.rate(0.0, len(x), v).dense()
    q = torch.zeros(len(x), dtype=torch.float64)
    for i in range(len(x)):
        q[i] += 0.0 if vector is None else vector.reshape(len(x), len(x))[i, i]
        for j, k in product(range(len(x)), repeat=2):
            q[i] += 0.0 if matrix is None else x[j] * x[k] * matrix.reshape((len(x),) * 4)[i, j, i, k]
            q[i] += 0.0 if cross is None or k else 2 * x[j] * cross[i, j, i]
    return q


def first_layers(network, depth, paths, x, seed=0):
    """Return L·(h_1 - h_0) of a deep network on many paths, and the same of the noise of its first layer alone, (P, d)."""
    reader = make_reader(network.weights[0], (depth,), len(x), paths, torch.Generator().manual_seed(seed), torch.float64)
    chunk = next(iter(Grid((depth,)).chunks()))
    reader.begin(chunk)
    reader.step(0)
    layer = reader.layer(0)
    moved = network.recursion.residual(x.expand(paths, -1), (layer,), network.exponent)
    along = reader.along
    noise = 0.0 if along.matrix is None else along.matrix @ x
    return depth * moved, depth * (noise + (0.0 if along.bias is None else along.bias))


def scores_of_first_layer(activation, slope, noise, *drifts, paths=10_000, depth=10_000):
    """For each of `drifts` (d,), the largest |z| of the mean of L(h_1 - h_0) against it, L large.

    σ'(0) times the noise itself, whose mean is known, is taken out as a control variate; what is left is of size 1 instead of
    √L. The terms of order 1/L that the limit lacks are 1e-4 of it, a hundredth of the standard error.
    """
    network = dl.inner(2, activation, noise=noise, trend=TREND)
    moved, tangent = first_layers(network, depth, paths, X)
    pushed = noise.drift_at_paths(0.0, None if noise.auxiliary is None else noise.auxiliary.initial(1), X)
    mean = 0.0 if pushed is None else pushed[0][0] @ X + pushed[1][0]
    left = moved - slope * (tangent - mean)
    return [((left.mean(dim=0) - drift).abs() / (left.std(dim=0) / paths**0.5)).max().item() for drift in drifts]


def drift_by_hand(slope, curvature, noise, trend=TREND):
    """½σ''(0)Q(0, X) + σ'(0)(Ā X + b̄) + σ'(0)(drift of W)."""
    v = None if noise.auxiliary is None else noise.auxiliary.initial(1)
    drift = 0.5 * curvature * q_by_hand(noise, X, v)
    if trend is not None:
        drift = drift + slope * (trend.A(0.0) @ X + trend.b(0.0))
    if (pushed := noise.drift_at_paths(0.0, v, X)) is not None:
        drift = drift + slope * (pushed[0][0] @ X + pushed[1][0])
    return drift


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("activation", "slope", "curvature"), SMOOTH, ids=SMOOTH_IDS)
def test_a_layer_moves_by_the_limits_drift_on_average(activation, slope, curvature, name):
    """Level 1e-5 over all cases; the limit's drift is the formula's, and with σ''(0) of the wrong sign it is refused."""
    noise = NOISES[name]
    level = stats.norm.isf(LEVEL / 2 / 2 / len(SMOOTH) / len(NOISES))
    limit = dl.inner(2, activation, noise=noise, trend=TREND).limit()
    drift = limit.f(0.0, limit.initial(X[None]))[0, :2]
    torch.testing.assert_close(drift, drift_by_hand(slope, curvature, noise), rtol=1e-12, atol=1e-12)
    wrong = drift_by_hand(slope, -curvature if curvature else 0.5, noise)
    score, of_wrong = scores_of_first_layer(activation, slope, noise, drift, wrong)
    assert score < level
    assert of_wrong > 3 * level


@pytest.mark.parametrize("name", ["kronecker", "cross"])
def test_what_else_a_wrong_limit_could_say_of_a_layer_is_refused_too(name):
    """Level 1e-5: without ½, without the trend, with rows and columns exchanged, without the cross term."""
    noise, level = NOISES[name], stats.norm.isf(LEVEL / 2 / 2 / 2)
    other = dataclasses.replace(noise, cross=None) if name == "cross" else dl.Ito(A=dl.Kronecker(noise.A.C, noise.A.R), b=noise.b)
    wrong = drift_by_hand(1.0, 2.0, noise), drift_by_hand(1.0, 1.0, noise, trend=None), drift_by_hand(1.0, 1.0, other)
    score, *of_wrong = scores_of_first_layer("scaled_silu", 1.0, noise, drift_by_hand(1.0, 1.0, noise), *wrong)
    assert score < level
    assert min(of_wrong) > 2 * level


def brownian_increments(network, depths, *, x=None, paths=3, seed=0):
    """Return the Brownian increments (K, P, motions) behind `walk` of the same arguments, through readers made anew."""
    task = make_task(
        network,
        network.limit(),
        x,
        depths=tuple(depths),
        reference=None,
        norm="sup",
        p=2.0,
        paths=paths,
        seed=seed,
        device=torch.device("cpu"),
        dtype=torch.float64,
        tolerance=None,
    )
    (reader,) = network_readers(task, 0, len(task.initial_states(0)))
    increments = []
    for chunk in task.grid.chunks():
        reader.begin(chunk)
        for index in range(len(chunk.steps)):
            reader.step(index)
            increments.append(reader.brownian.clone())
    return torch.stack(increments)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("activation", ["scaled_silu", "silu"])
def test_the_reference_is_eulers_scheme_of_the_torchsde_object(activation, name):
    """f and g (or g_prod), on the Brownian motions alone, give the path that the coupling computes from the drawn weights."""
    network = dl.inner(2, activation, noise=NOISES[name])
    limit = network.limit()
    times, _, limits = walk(network, [4, 10], seed=3)
    increments = brownian_increments(network, [4, 10], seed=3)
    y = z = limit.initial(limits[0])
    for k, noise in enumerate(increments):
        time, step = float(times[k]), float(times[k + 1] - times[k])
        diffused = (limit.g(time, z) @ noise.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(diffused, limit.g_prod(time, z, noise), rtol=1e-12, atol=1e-13)
        y, z = y + limit.f(time, y) * step + limit.g_prod(time, y, noise), z + limit.f(time, z) * step + diffused
        torch.testing.assert_close(y[:, :2], limits[k + 1], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(z[:, :2], limits[k + 1], rtol=1e-9, atol=1e-11)
    own_v = 0 if NOISES[name].auxiliary is None else NOISES[name].auxiliary.size
    assert y.shape == (3, 2 + own_v)
    assert len(times) == len(increments) + 1


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("activation", ["scaled_silu", "silu"])
def test_with_a_trend_the_reference_is_heuns_scheme_in_it(activation, name):
    """W, its drift included, at the state half a trend's step on, the trend averaged over both ends; Q at the start.

    All of it by f and g_prod of the torchsde object, of which a part is what is left out without it.
    """
    network = dl.inner(2, activation, noise=NOISES[name], trend=TREND)
    limit = network.limit()
    still = dataclasses.replace(limit, trend=None)
    straight = dataclasses.replace(still, curvature=0.0)
    times, _, limits = walk(network, [4, 10], seed=3)
    y = limit.initial(limits[0])
    for k, noise in enumerate(brownian_increments(network, [4, 10], seed=3)):
        start, end = float(times[k]), float(times[k + 1])
        step = end - start
        slope = limit.f(start, y) - still.f(start, y)
        middle = y + slope * step / 2
        moved = y + (still.f(start, y) - straight.f(start, y) + straight.f(start, middle)) * step
        moved = moved + still.g_prod(start, middle, noise)
        ahead = moved + slope * step
        y = moved + (slope + limit.f(end, ahead) - still.f(end, ahead)) * step / 2
        torch.testing.assert_close(y[:, :2], limits[k + 1], rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["cross", "two volatilities"])
def test_torchsde_solves_the_limit_as_it_is(name):
    """torchsde's own Euler scheme and Brownian motion, against the same sums done by hand."""
    limit = dl.inner(2, "scaled_softplus", noise=NOISES[name], trend=TREND).limit()
    y = limit.initial(randn(5, 2))
    times = torch.linspace(0.0, 1.0, 17, dtype=torch.float64)
    with torch.random.fork_rng():  # torchsde draws from the global generator
        motion = torchsde.BrownianInterval(0.0, 1.0, size=(5, limit.noise.motions(2)), dtype=torch.float64, entropy=1)
        ys = torchsde.sdeint(limit, y, times, bm=motion, method="euler", dt=1 / 16)
        for k in range(16):
            y = y + limit.f(times[k], y) / 16 + limit.g_prod(times[k], y, motion(times[k], times[k + 1]))
            torch.testing.assert_close(ys[k + 1], y, rtol=1e-9, atol=1e-12)


def test_the_equation_says_what_is_solved():
    both = dl.inner(2, "silu", noise=dl.Ito(A=0.1, b=0.1), trend=TREND).limit()
    assert both.equation == "dH = 0.5 dW^A H + 0.5 dW^b + 0.25 Q(t, H) dt + 0.5 (Ā_t H + b̄_t) dt, d = 2"
    assert dl.inner(3, "tanh", noise=dl.Ito(b=0.1)).limit().equation == "dH = dW^b, d = 3"
    assert dl.inner(2, "tanh", trend=TREND).limit().equation == "dH = (Ā_t H + b̄_t) dt, d = 2"


# dH = a H dt + s H dW + κ H² dt in one dimension, κ = ½ c s²: H = h Φ/(1 - κ h ∫Φ), Φ_t = exp((a - s²/2) t + s W_t).


def test_the_scalar_equation_is_solved_by_the_formula():
    """Itô's rule for F(t, W, I) with dI = Φ dt: drift F_t + ½ F_WW + F_I Φ and diffusion F_W."""
    t, w, i, h = sympy.symbols("t W I h", real=True)
    a, s, kappa = sympy.symbols("a s kappa", real=True)
    phi = sympy.exp((a - s**2 / 2) * t + s * w)
    solution = h * phi / (1 - kappa * h * i)
    drift = sympy.diff(solution, t) + sympy.diff(solution, w, 2) / 2 + sympy.diff(solution, i) * phi
    assert sympy.simplify(drift - (a * solution + kappa * solution**2)) == 0
    assert sympy.simplify(sympy.diff(solution, w) - s * solution) == 0
    assert solution.subs({t: 0, w: 0, i: 0}) == h


GROWTH, SIZE, START = 0.3, 0.5, -0.6  # below 0, where κ pulls back: no explosion, and σ''(0) does not mend Euler's error
SCALAR_TREND = dl.Trend(lambda t: torch.full((1, 1), GROWTH, dtype=torch.float64))
DEPTHS = [32, 64, 128, 256, 512]


def exact_errors(network, slope, kappas, paths=1500, seed=1):
    """For each κ, root mean square distances to the formula at t = 1, on the same path, of DEPTHS and of the reference.

    σ'(0) = slope multiplies trend and noise. ∫Φ is summed by the trapezoidal rule on the reference's grid of 2,048 steps; it is
    off by about κ times its step, a hundredth of the smallest error here.
    """
    x = torch.full((1, 1), START, dtype=torch.float64)
    times, states, limits = walk(network, DEPTHS, x=x, paths=paths, seed=seed)
    w = brownian_increments(network, DEPTHS, x=x, paths=paths, seed=seed)[:, :, 0].cumsum(dim=0)
    w = torch.cat([torch.zeros(1, paths, dtype=torch.float64), w])
    t = torch.from_numpy(times)[:, None]
    phi = torch.exp((slope * GROWTH - (slope * SIZE) ** 2 / 2) * t + slope * SIZE * w)
    ends = torch.stack([*(states[depth][-1] for depth in DEPTHS), limits[-1]])[:, :, 0]
    for kappa in kappas:
        below = 1 - kappa * START * torch.trapezoid(phi, t, dim=0)
        assert below.min() > 0.1  # no path comes near the equation's explosion
        yield (ends - START * phi[-1] / below).square().mean(dim=1).sqrt().numpy()


def order(errors):
    return -np.polyfit(np.log(DEPTHS), np.log(errors), 1)[0]


@pytest.mark.parametrize(("activation", "slope", "curvature"), SMOOTH, ids=SMOOTH_IDS)
def test_scalar_networks_reach_the_exact_solution_at_order_one_half_and_no_other(activation, slope, curvature):
    network = dl.inner(1, activation, noise=dl.Ito(A=SIZE**2), trend=SCALAR_TREND)
    kappa = 0.5 * curvature * SIZE**2
    twins = (-kappa, 0.0) if curvature else (0.25 * SIZE**2, -0.25 * SIZE**2)
    right, *wrong = exact_errors(network, slope, (kappa, *twins))
    assert abs(order(right[:-1]) - 0.5) < 0.1
    assert right[-1] < 0.7 * right[-2]  # the reference, four times as deep as the deepest network, is closer
    for errors in wrong:
        assert order(errors[:-1]) < 0.2
        assert errors[-2] > 4 * right[-2]
        assert errors[-1] > 0.9 * errors[-2]  # they have levelled off


PLANE = torch.tensor([[0.2, 1.0], [-2.0, -0.5]], dtype=torch.float64)
SHIFT = torch.tensor([0.5, -1.0], dtype=torch.float64)
CONSTANT = dl.Trend(lambda t: PLANE, lambda t: SHIFT)


def exponential(t, x, slope=1.0):
    """The solution of dH = slope (PLANE H + SHIFT) dt at time t: the exponential of the matrix bordered by SHIFT."""
    bordered = torch.zeros(3, 3, dtype=torch.float64)
    bordered[:2, :2], bordered[:2, 2] = PLANE, SHIFT
    return (torch.linalg.matrix_exp(t * slope * bordered) @ torch.cat([x, x.new_ones(1)]))[:2]


@pytest.mark.parametrize(("activation", "slope", "curvature"), SMOOTH, ids=SMOOTH_IDS)
def test_the_linear_ode_is_the_matrix_exponential(activation, slope, curvature):
    network = dl.inner(2, activation, trend=CONSTANT, alpha=0.5, beta=0.5)
    x = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    times, _, limits = walk(network, [16, 64], x=x, paths=1)
    for time, state in zip(times, limits, strict=True):
        torch.testing.assert_close(state[0], exponential(time, x[0], slope), rtol=1e-7, atol=1e-8)
    (end,) = torchdiffeq.odeint(network.limit(), x, torch.tensor([0.0, 1.0]).double(), rtol=1e-9, atol=1e-9)[-1]
    torch.testing.assert_close(end, exponential(1.0, x[0], slope), rtol=1e-7, atol=1e-8)
    assert type(network.limit()).__name__ == "LinearODE"


@pytest.mark.parametrize(
    ("activation", "slope", "alpha", "expected"),
    [
        ("identity", 1.0, 0.25, 1.0),
        ("tanh", 1.0, 0.25, 1.0),
        ("tanh", 1.0, 0.75, 0.5),
        ("scaled_silu", 1.0, 0.5, 0.5),
        ("silu", 0.5, 0.5, 0.5),
        ("scaled_silu", 1.0, 0.0, 1.0),
        (own, 1.0, 0.25, 0.75),
    ],
)
def test_networks_reach_the_matrix_exponential_at_the_order_of_what_the_tangent_leaves_out(activation, slope, alpha, expected):
    """β with a square left, 2β without, at most 1: no randomness here, and depths large enough for a tolerance of 0.05."""
    network = dl.inner(2, activation, trend=CONSTANT, alpha=alpha, beta=1.0 - alpha)
    x = torch.tensor([[0.3, 0.2]], dtype=torch.float64)
    _, states, _ = walk(network, [512, 4096], x=x, paths=1)
    coarse, fine = ((states[depth][-1][0] - exponential(1.0, x[0], slope)).norm().item() for depth in (512, 4096))
    assert math.log(coarse / fine, 8) == pytest.approx(expected, abs=0.05)
    assert network.regime().rate == pytest.approx(expected)


RANDOM = dl.SmoothGaussian(0.5)


@pytest.mark.parametrize(
    ("alpha", "beta", "noise", "expected"), [(0.25, 0.75, None, 1.0), (0.0, 1.0, dl.Ito(A=0.2, b=0.1), 0.5)], ids=["ODE", "SDE"]
)
def test_a_random_trend_is_the_same_function_for_networks_and_limit(alpha, beta, noise, expected):
    """Path by path; medians, since solutions of random linear equations are heavy-tailed. Tolerance 0.1 at 400 paths."""
    network = dl.inner(3, "tanh", trend=RANDOM, noise=noise, alpha=alpha, beta=beta)
    _, states, limits = walk(network, [32, 512], x=0.3 * randn(1, 3), paths=400)
    coarse, fine = ((states[depth][-1] - limits[-1]).norm(dim=1).median().item() for depth in (32, 512))
    assert math.log(coarse / fine, 16) == pytest.approx(expected, abs=0.1)


def test_a_random_trend_has_entries_of_variance_1_over_d():
    """As in every network: its draw is divided by √d in layers and limits; called by itself, a limit reads one draw."""
    from deeplimit.randomness import Purpose, generator

    path = RANDOM.sample(3, 1, generator(0, Purpose.NETWORK_WEIGHTS, 0, 0), torch.float64, torch.device("cpu"))
    h = randn(5, 3)
    expected = 0.5 * h @ path.at(torch.tensor([0.3]))[0, 0].T / 3**0.5
    ode = dl.inner(3, "silu", trend=RANDOM, alpha=0.5, beta=0.5).limit()
    torch.testing.assert_close(ode(0.3, h), expected)
    sde = dl.inner(3, "silu", trend=RANDOM, noise=dl.Ito(A=0.2)).limit()
    q = dl.Ito(A=0.2).Q(0.3, h)
    torch.testing.assert_close(sde.f(0.3, h), expected + 0.25 * q)


@pytest.mark.parametrize(("activation", "slope", "curvature"), SMOOTH, ids=SMOOTH_IDS)
def test_expansions_are_the_derivatives_at_0(activation, slope, curvature):
    """By hand, and by a derivative taken here: names from the table, and the same functions given as callables."""
    resolved = activations.resolve(activation, lipschitz=False)
    for name in (resolved, activations.resolve(lambda x: resolved.function(x), lipschitz=False)):
        found = activations.expansion(name)
        assert found.slope == pytest.approx(slope, rel=1e-12)
        assert found.curvature == pytest.approx(curvature, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", activations.NAMES)
def test_the_table_of_derivatives_is_what_differentiation_gives(name):
    entry = activations.resolve(name)
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = entry.function(zero)
    assert value.item() == pytest.approx(entry.at_zero, abs=1e-15)
    (first,) = torch.autograd.grad(value, zero, create_graph=True)
    if name in ("relu", "leaky_relu"):
        assert entry.slope is None
        return
    assert first.item() == pytest.approx(entry.slope, rel=1e-12)
    if name == "elu":
        assert entry.curvature is None
        return
    second = torch.autograd.grad(first, zero)[0].item() if first.requires_grad else 0.0
    assert second == pytest.approx(entry.curvature, rel=1e-12, abs=1e-12)


REFUSED = {
    "relu": ("relu", "σ'\\(0\\)"),
    "leaky_relu": ("leaky_relu", "σ'\\(0\\)"),
    "elu": ("elu", "σ''\\(0\\)"),
    "softplus": ("softplus", "σ\\(0\\) = 0.6931"),
    "sigmoid": ("sigmoid", "σ\\(0\\) = 0.5"),
    "jump": (lambda x: x + 0.1 * torch.sign(x), "smooth at 0"),
    "kink": (lambda x: torch.where(x > 0, x, 0.8 * x), "smooth at 0"),
    "small kink": (lambda x: x + 0.001 * x.abs(), "smooth at 0"),
    "leaky relu of slope 0.97": (lambda x: torch.where(x > 0, x, 0.97 * x), "smooth at 0"),
    "small kink of σ'": (lambda x: x + 1e-3 * x * x.abs(), "smooth at 0"),
    "kink of σ'": (lambda x: x + 0.5 * x * x.abs(), "smooth at 0"),
    "kink of σ' as of elu": (lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0))), "smooth at 0"),
    "root in σ'": (lambda x: x + x.abs().pow(1.5) * torch.sign(x), "smooth at 0"),
    "root in σ''": (lambda x: x + 0.1 * x.abs().pow(2.5), "third derivative"),
    "square": (lambda x: x**2, "σ'\\(0\\) is 0"),
    "cube": (lambda x: torch.sin(x) ** 3, "σ'\\(0\\) is 0"),
    "off centre": (lambda x: torch.cos(x), "σ\\(0\\) = 1"),
    "detached": (lambda x: torch.tanh(x.detach()), "differentiated"),
    "numpy": (lambda x: torch.from_numpy(np.tanh(x.detach().numpy())), "differentiated"),
    "stairs": (lambda x: torch.round(x, decimals=6), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_activation_without_the_expansion_is_refused_by_the_assumptions_name(name):
    function, words = REFUSED[name]
    with pytest.raises(dl.NoTheoremError, match=rf"Assumption 4\.2 of Cohen et al\..*{words}") as caught:
        activations.expansion(activations.resolve(function, lipschitz=False))
    assert (function if isinstance(function, str) else "lambda") in str(caught.value)
    with pytest.raises(dl.NoTheoremError, match=r"Assumption 4\.2"):
        dl.inner(2, function, noise=dl.Ito(A=0.1)).limit()


@pytest.mark.parametrize(
    ("function", "slope", "curvature"),
    [
        (lambda x: x, 1.0, 0.0),
        (lambda x: -3.0 * x, -3.0, 0.0),
        (lambda x: x + x**2, 1.0, 2.0),
        (lambda x: 0.1 * torch.sinh(x.clamp(-3, 3)), 0.1, 0.0),
        (lambda x: torch.sin(5.0 * x) / 5.0 + x**2, 1.0, 2.0),
        (torch.nn.Tanh(), 1.0, 0.0),
        (torch.nn.SiLU(), 0.5, 0.5),
        (lambda x: torch.where(x.abs() < 1.0, x, torch.sign(x)), 1.0, 0.0),
    ],
)
def test_callables_smooth_at_0_are_expanded_whatever_they_do_elsewhere(function, slope, curvature):
    found = activations.expansion(activations.resolve(function, lipschitz=False))
    assert found.slope == pytest.approx(slope)
    assert found.curvature == pytest.approx(curvature, abs=1e-12)
