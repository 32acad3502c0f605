"""The limits of Cohen et al. (2021) as torchsde objects: what the coupling solves is their Euler or Heun
scheme.
"""

import dataclasses

import pytest
import torch
import torchsde
from noises import randn
from pairs import NOISES, TREND, brownian_increments
from runs import walk

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", NOISES)
def test_the_reference_is_eulers_scheme_of_the_torchsde_object(name):
    """f and g (or g_prod), on the Brownian motions alone, give the path that the coupling computes from the
    drawn weights.
    """
    network = dl.inner(2, "silu", noise=NOISES[name])
    limit = network.limit()
    times, _, limits = walk(network, [4, 10], seed=8)
    increments = brownian_increments(network, [4, 10], seed=8)
    y = z = limit.initial(limits[0])
    for k, noise in enumerate(increments):
        time, step = float(times[k]), float(times[k + 1] - times[k])
        diffused = (limit.g(time, z) @ noise.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(diffused, limit.g_prod(time, z, noise), rtol=1e-12, atol=1e-13)
        y, z = (
            y + limit.f(time, y) * step + limit.g_prod(time, y, noise),
            z + limit.f(time, z) * step + diffused,
        )
        torch.testing.assert_close(y[:, :2], limits[k + 1], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(z[:, :2], limits[k + 1], rtol=1e-9, atol=1e-11)
    own_v = 0 if NOISES[name].auxiliary is None else NOISES[name].auxiliary.size
    assert y.shape == (3, 2 + own_v)
    assert len(times) == len(increments) + 1


@pytest.mark.parametrize("name", NOISES)
def test_with_a_trend_the_reference_is_heuns_scheme_in_it(name):
    """W, its drift included, at the state half a trend's step on, the trend averaged over both ends; Q at the
    start.

    All of it by f and g_prod of the torchsde object, of which a part is what is left out without it.
    """
    network = dl.inner(2, "silu", noise=NOISES[name], trend=TREND)
    limit = network.limit()
    still = dataclasses.replace(limit, trend=None)
    straight = dataclasses.replace(still, curvature=0.0)
    times, _, limits = walk(network, [4, 10], seed=8)
    y = limit.initial(limits[0])
    for k, noise in enumerate(brownian_increments(network, [4, 10], seed=8)):
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
def test_torchsde_solves_the_limit_as_it_is():
    """torchsde's own Euler scheme and Brownian motion, against the same sums done by hand."""
    limit = dl.inner(2, "scaled_softplus", noise=NOISES["two volatilities"], trend=TREND).limit()
    y = limit.initial(randn(5, 2))
    times = torch.linspace(0.0, 1.0, 17, dtype=torch.float64)
    with torch.random.fork_rng():  # torchsde draws from the global generator
        motion = torchsde.BrownianInterval(
            0.0, 1.0, size=(5, limit.noise.motions(2)), dtype=torch.float64, entropy=1
        )
        ys = torchsde.sdeint(limit, y, times, bm=motion, method="euler", dt=1 / 16)
        for k in range(16):
            y = y + limit.f(times[k], y) / 16 + limit.g_prod(times[k], y, motion(times[k], times[k + 1]))
            torch.testing.assert_close(ys[k + 1], y, rtol=1e-9, atol=1e-12)


def test_noise_of_its_own_is_read_at_the_start_of_each_step():
    """There is none before t = 0.6: of four steps the last alone moves the state."""
    network = dl.inner(2, "tanh", noise=dl.Ito(b=lambda t: float(t > 0.6)))
    *still, end = walk(network, [4], limit=dl.Independent(network.limit()), reference=4)[2]
    assert all(torch.equal(state, still[0]) for state in still)
    assert not torch.equal(end, still[0])


def test_the_equation_says_what_is_solved():
    both = dl.inner(2, "silu", noise=dl.Ito(A=0.1, b=0.1), trend=TREND).limit()
    assert both.equation == "dH = 0.5 dW^A H + 0.5 dW^b + 0.25 Q(t, H) dt + 0.5 (Ā_t H + b̄_t) dt, d = 2"
    assert dl.inner(3, "tanh", noise=dl.Ito(b=0.1)).limit().equation == "dH = dW^b, d = 3"
    assert dl.inner(2, "tanh", trend=TREND).limit().equation == "dH = (Ā_t H + b̄_t) dt, d = 2"
