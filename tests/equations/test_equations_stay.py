"""What every limit and scheme computes at a few states is what it was, and so is what it says of itself."""

import functools
import inspect

import kept_numbers
import pytest
import torch
from chains import chain_sde

import deeplimit as dl
from deeplimit.equations.drive import Sharing
from deeplimit.equations.schemes import structure_of
from tests.guard.specimens.noise import noises
from tests.guard.specimens.theory import networks

same = functools.partial(kept_numbers.check, "equations")
WIDTH = 3
MATRIX = torch.tensor([[0.0, 1.0, 0.3], [-1.0, 0.0, 0.0], [0.2, 0.0, 0.5]])
TREND = dl.Trend(lambda t: (1 + t) * MATRIX, lambda t: torch.tensor([0.3, -0.3, 0.1]) * t)
MATRICES = dl.Trend(lambda t: (1 + t) * MATRIX)
NOISE = dl.Ito(A=0.05, b=0.1)
LIMITS = {
    "neural SDE": lambda: dl.res1(WIDTH, "tanh").limit(),
    "rectified": lambda: dl.res1(WIDTH, "relu").limit(),
    "neural ODE": lambda: dl.res2(WIDTH, "tanh", weights=MATRICES).limit(),
    "of functions with a bias": lambda: dl.inner(WIDTH, "tanh", trend=TREND, alpha=1.0, beta=0.0).limit(),
    "clustering ODE": lambda: dl.attention(WIDTH, tokens=4, weights=dl.Trend(lambda t: t * MATRIX)).limit(),
    "attention": lambda: dl.attention(WIDTH, tokens=2, inverse_temperature=2.0).limit(),
    "linear ODE": lambda: dl.inner(WIDTH, "tanh", trend=TREND, alpha=0.5, beta=0.5).limit(),
    "corrected SDE": lambda: dl.inner(WIDTH, "scaled_silu", noise=NOISE).limit(),
    "with a trend": lambda: dl.inner(WIDTH, "tanh", trend=TREND, noise=NOISE).limit(),
    "trend of order one": lambda: dl.inner(
        WIDTH, "scaled_silu", trend=TREND, noise=NOISE, alpha=0.0, beta=1.0
    ).limit(),
    "identity": lambda: dl.Identity(),
    "Young": lambda: dl.res1(WIDTH, "tanh", weights=dl.FractionalBrownian(0.7)).limit(),
    "coloured": lambda: dl.res1(WIDTH, "tanh", weights=dl.AR1(0.5)).limit(),
    "moving average": lambda: dl.res1(WIDTH, "relu", weights=dl.MovingAverage((1.0, 0.5))).limit(),
    "noise outside": lambda: dl.res2(WIDTH, "tanh", weights=(dl.Brownian(), MATRICES)).limit(),
    "isotropic": lambda: dl.IsotropicSDE(WIDTH, 0.5),
    "radial": lambda: dl.res2(WIDTH, "tanh").limit(),
    "averaged": lambda: dl.inner(WIDTH, "softplus", exponent=1.0).limit(),
    "covariance": lambda: dl.CovarianceSDE(WIDTH, 0.5, 0.7),
    "chain": lambda: chain_sde("tanh", 0.5, WIDTH),
}
ALONG = [
    dl.res1(WIDTH, "tanh"),
    dl.inner(WIDTH, "tanh", trend=TREND, noise=NOISE),
    dl.res1(WIDTH, "tanh", weights=dl.FractionalBrownian(0.7)),
    dl.res1(WIDTH, "tanh", weights=dl.AR1(0.5)),
]
SIMPLE = (bool, int, float, str, type(None))
WORDS = {"equation", "remark", "kind", "scheme", "name"}


def tried(function):
    try:
        return function()
    except (ValueError, TypeError, NotImplementedError) as error:
        return type(error).__name__


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def facts(of):
    """Return the plain values among an object's public attributes."""
    found = {}
    for name, _ in inspect.getmembers(type(of), lambda value: not callable(value)):
        if not name.startswith("_") and name not in WORDS:
            try:
                value = getattr(of, name)
            except ValueError:
                value = "refused"
            if isinstance(value, SIMPLE) or (
                isinstance(value, tuple) and all(isinstance(each, SIMPLE) for each in value)
            ):
                found[name] = value
    return found


def computed(limit):
    """Return what its methods give, by name."""
    shape = limit.state_shape(WIDTH)
    h = normal(2, *shape, seed=5)
    if isinstance(limit, dl.CovarianceSDE):
        h = torch.linalg.cholesky(h @ h.mT + torch.eye(WIDTH, dtype=torch.float64))
    flat = h.flatten(1)
    found = {"shape": shape, "size": limit.noise_size(h), "surplus": limit.extrapolation_surplus}
    found["orders"] = [limit.order_over_all_times(rate) for rate in (None, 0.25, 0.5, 1.0)]
    found["fewest"] = limit.fewest_steps()
    found["held"] = [limit.held_per_step(Sharing(increments=flag, noise=flag)) for flag in (True, False)]
    motions = limit.noise_size(h) or WIDTH**2
    noise = normal(2, motions, seed=6)
    if hasattr(limit, "f"):
        found["f"] = limit.f(0.3, flat)
    if hasattr(limit, "g"):
        found["g"] = limit.g(0.3, flat)
    if hasattr(limit, "g_prod"):
        found["g_prod"] = limit.g_prod(0.3, flat, noise)
    if hasattr(limit, "increment"):
        found["increment"] = limit.increment(0.2, 0.1, h, noise)
        found["advanced"] = limit.advanced(0.2, 0.1, h, noise)
        found["drifts"] = [limit.drift_of(0.2, h, sense) for sense in ("ito", "stratonovich")]
    if isinstance(limit, dl.ODELimit):
        found["field"] = limit(0.3, h)
        found["functions"] = (len(limit.functions), limit.function_shapes(WIDTH))
    if limit.is_drawable or isinstance(limit, dl.LawLimit):
        found["drawn"] = limit.draw_end(h, torch.Generator().manual_seed(1), 4)
    for name in ("variance", "drift"):
        if callable(getattr(limit, name, None)):
            found[name] = getattr(limit, name)(h if name == "drift" else torch.tensor([0.1, 1.0, 30.0]))
    return found


@pytest.mark.parametrize("name", LIMITS)
def test_what_limits_compute_and_say_of_themselves_stays(name):
    limit = LIMITS[name]()
    same(name, {"facts": facts(limit), **computed(limit), "said": kept_numbers.said(limit.equation)})


@pytest.mark.parametrize("name", LIMITS)
def test_paths_of_limits_stay(name):
    """Of networks that they are the limits of, where there is one: solved on a grid by their own solvers."""
    limit = LIMITS[name]()
    if limit.in_law_only or isinstance(limit, dl.CovarianceSDE | dl.LawLimit):
        pytest.skip("its law alone is known")
    shape = limit.state_shape(WIDTH)
    x, found = normal(3, *shape).float(), []
    for network in ALONG if len(shape) == 1 else [dl.attention(WIDTH, tokens=shape[0])]:
        run = functools.partial(dl.simulate, network, depths=[2, 4], limit=limit, paths=3, x=x)
        found.append(tried(lambda run=run: run().limit_states))
    same(f"path of {name}", found, 1e-4)


def squared(t, h, dB):
    return 0.3 * h**2 * dB


EQUATIONS = {
    "diagonal": lambda **how: dl.SDE(lambda t, h: t - h, squared, noise="diagonal", **how),
    "additive": lambda **how: dl.SDE(
        lambda t, h: -h, lambda t, h, dB: (0.2 + t) * dB, noise="additive", **how
    ),
    "scalar": lambda **how: dl.SDE(
        lambda t, h: -h, lambda t, h, dB: dB * h.flip(1).sin(), noise="scalar", **how
    ),
    "commutative": lambda **how: dl.SDE(lambda t, h: h, squared, noise="commutative", **how),
    "general": lambda **how: dl.SDE(
        lambda t, h: -h, lambda t, h, dB: h.sin() * dB.cumsum(1), noise="general", **how
    ),
}
SCHEMES = [dl.EulerMaruyama(), dl.Milstein(), dl.Heun(), dl.RK4()]
SCHEMES += [
    dl.TorchSDE(each)
    for each in ("euler", "milstein", "srk", "heun", "midpoint", "log_ode", "reversible_heun")
]


@pytest.mark.parametrize("sense", ["ito", "stratonovich"])
@pytest.mark.parametrize("structure", EQUATIONS)
def test_steps_and_orders_of_schemes_stay(structure, sense):
    equation = EQUATIONS[structure](interpretation=sense)
    h = normal(2, 2, seed=3)
    size = equation.noise_size(h)
    found = {"structure": str(structure_of(equation)), "size": size, "facts": facts(equation)}
    for scheme in SCHEMES:
        noise = 0.2 * normal(2, (2 if scheme.reads_areas else 1) * (size or 2), seed=4)
        step = functools.partial(scheme.step, equation, 0.25, 0.1, h, noise)
        orders = [
            tried(functools.partial(order, equation)) for order in (scheme.strong_order, scheme.weak_order)
        ]
        found[f"{scheme.name} {getattr(scheme, 'method', '')}"] = [*orders, tried(step), facts(scheme)]
    same(f"{structure}, {sense}", found)


def test_steps_of_schemes_for_ordinary_equations_stay():
    equation, h = dl.ODE(lambda t, h: t - h**2), normal(2, 2, seed=3)
    found = [
        (
            scheme.step(equation, 0.25, 0.1, h, h.new_zeros(2, 0)),
            scheme.strong_order(equation),
            scheme.weak_order(equation),
        )
        for scheme in SCHEMES[:4]
    ]
    same("ordinary", (found, facts(equation)))


REGIMES = {name: network for name, network in networks().items() if not name.startswith("inner relu")}


@pytest.mark.parametrize("first", range(4))
def test_limits_of_networks_in_every_regime_stay(first):
    found = {}
    for name, network in [*REGIMES.items()][first::4]:
        try:
            limit = network.limit()
        except dl.NoTheoremError:
            found[name] = None
            continue
        h = normal(1, *limit.state_shape(4), seed=5)
        kind = type(limit).__name__
        moved = limit.f(0.3, h) if isinstance(limit, dl.SDELimit) and hasattr(limit, "f") else None
        found[name] = [kind, limit.is_steep, limit.is_random, moved, kept_numbers.said(limit.equation)]
    same(f"regimes {first}", found)


@pytest.mark.parametrize("name", noises())
def test_corrected_equations_of_every_noise_stay(name):
    network = dl.inner(4, "scaled_silu", trend=None, noise=noises()[name])
    found = dl.simulate(network, depths=[2, 4], paths=2, x=normal(2, 4).float())
    same(f"noise {name}", (found.limit_states, found.states[2], found.states[4]), 1e-4)


def test_functions_that_do_not_say_their_arguments_are_called_with_all_of_them():
    """torch's own functions have no signature that Python can read."""
    named = dl.SDE(lambda t, h: t * h, lambda t, h, dB: t + h * dB, noise="diagonal")
    silent = dl.SDE(torch.mul, torch.addcmul, noise="diagonal")
    found = [dl.simulate(each, normal(2, 2), steps=[4], paths=2).states[4] for each in (named, silent)]
    assert torch.equal(*found)
