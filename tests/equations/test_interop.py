"""The library's limits in torchsde and torchdiffeq as they are, and users' own objects in `compare`."""

import numpy as np
import pytest
import torch
import torchdiffeq
import torchsde
from runs import walk

import deeplimit as dl


class GivenIncrements(torchsde.BaseBrownian):
    """A Brownian motion that hands torchsde the very increments that the library drew."""

    def __init__(self, increments, steps):
        super().__init__()
        self.increments, self.steps = increments, steps
        self._shape = increments.shape[1:]

    def __call__(self, ta, tb=None, return_U=False, return_A=False):
        first, last = round(float(ta) * self.steps), round(float(tb) * self.steps)
        return self.increments[first:last].sum(dim=0)

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self.increments.dtype)
    device = property(lambda self: self.increments.device)
    levy_area_approximation = "none"

    def __repr__(self):
        return "GivenIncrements()"

    def display(self):
        return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_reference_equals_torchsde_euler_on_the_same_increments(activation):
    from deeplimit.common.randomness import Purpose, generator

    steps, width, paths = 64, 5, 6
    network = dl.res1(width, activation)
    _, _, limits = walk(network, [8, 32], paths=paths, seed=9)
    stream = generator(9, Purpose.NETWORK_WEIGHTS, 0, 0)
    draws = torch.stack(
        [
            torch.empty(paths, width, width).double().normal_(0, steps**-0.5, generator=stream)
            for _ in range(steps)
        ]
    )
    sde = network.limit()
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    motion = GivenIncrements(draws.flatten(2), steps)
    with torch.random.fork_rng():  # torchsde draws a probe from the global generator
        ys = torchsde.sdeint(sde, limits[0], times, bm=motion, method="euler", dt=1 / steps)
    torch.testing.assert_close(ys, limits, rtol=1e-12, atol=1e-13)


def test_reference_equals_torchdiffeq_on_the_same_weights():
    """One path of random smooth weights; an independent solver (fixed-step, eighth of a step apart) of the
    limit as passed.
    """
    network = dl.inner(3, "tanh", weights=dl.SmoothGaussian(0.3))
    limit = network.limit()
    x = torch.tensor([[0.5, -1.0, 0.2]], dtype=torch.float64)
    times = torch.linspace(0, 1, 257, dtype=torch.float64)
    solution = torchdiffeq.odeint(limit, x, times, method="rk4")
    from deeplimit.equations.solvers import solve

    mine = solve(limit, x, times[::64], 1e-9)
    torch.testing.assert_close(mine, solution[::64], rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_library_limits_run_in_the_users_solvers_unchanged():
    sde = dl.res1(3, "tanh").limit()
    with torch.random.fork_rng():
        assert torchsde.sdeint(
            sde, torch.ones(2, 3), torch.tensor([0.0, 1.0]), dt=0.1, method="euler"
        ).shape == (2, 2, 3)
    for network in (dl.res3(3, weights=dl.SmoothGaussian()), dl.res1(3, "tanh", exponent=0.9)):
        assert torchdiffeq.odeint(network.limit(), torch.ones(2, 3), torch.tensor([0.0, 1.0])).shape == (
            2,
            2,
            3,
        )


def test_odeint_reads_the_same_draw_each_time_and_another_for_another_seed():
    limit = dl.res1(3, "tanh", weights=dl.SmoothGaussian()).limit()
    other = type(limit)(limit.recursion, limit.weights, limit.width, seed=1)
    h = torch.ones(2, 3)
    assert torch.equal(limit(0.3, h), limit(0.3, h))
    assert not torch.equal(limit(0.3, h), other(0.3, h))


def users_sde(methods, noise_type="general", width=3):
    """A torchsde-style object with just these methods, equal to the neural SDE of res-1 with tanh."""
    library = dl.res1(width, "tanh").limit()
    body = {
        "f": lambda self, t, y: torch.zeros_like(y),
        "g": lambda self, t, y: library.g(t, y),
        "g_prod": lambda self, t, y, v: library.g_prod(t, y, v),
        "f_and_g": lambda self, t, y: (torch.zeros_like(y), library.g(t, y)),
        "f_and_g_prod": lambda self, t, y, v: (torch.zeros_like(y), library.g_prod(t, y, v)),
    }
    return type(
        "Users", (), {"sde_type": "ito", "noise_type": noise_type, **{name: body[name] for name in methods}}
    )()


@pytest.mark.parametrize("methods", [("f", "g"), ("f", "g_prod"), ("f_and_g",), ("f_and_g_prod",)])
def test_users_own_form_of_the_right_sde_gives_the_same_errors(methods):
    network = dl.res1(3, "tanh")
    mine, theirs = (
        dl.compare(network, limit, depths=[8, 16, 32], paths=100) for limit in (None, users_sde(methods))
    )
    assert theirs.errors == pytest.approx(mine.errors, rel=1e-4)
    assert theirs.theorem is None
    assert mine.theorem is not None


def test_diagonal_and_scalar_noise_get_as_many_brownian_motions_as_they_have():
    class Diagonal:
        sde_type, noise_type = "ito", "diagonal"

        def f(self, t, y):
            return -y

        def g(self, t, y):
            return 0.1 * torch.ones_like(y)

    smooth = dl.res1(3, "tanh", weights=dl.SmoothGaussian())
    report = dl.compare(smooth, dl.Independent(Diagonal()), depths=[4, 8, 16], paths=60)
    assert report.verdict != "converges"
    one = dl.res1(1, "tanh")
    scalar = type(
        "Scalar", (), {"sde_type": "ito", "noise_type": "scalar", "f": lambda s, t, y: torch.zeros_like(y)}
    )
    scalar.g = lambda s, t, y: torch.tanh(y).unsqueeze(-1)
    matched = dl.compare(one, scalar(), depths=[8, 16, 32, 64], paths=200)
    # Its reference is Milstein's scheme on a finer grid, which scalar noise allows: other paths are drawn.
    own = dl.compare(one, depths=[8, 16, 32, 64], paths=200)
    assert (np.abs(matched.errors - own.errors) < 6 * own.standard_errors).all()


def test_a_module_as_limit_sets_the_dtype_and_is_left_without_gradients():
    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, t, h):
            return self.linear(h)

    with torch.random.fork_rng():
        field = Field()
    report = dl.compare(dl.res1(2, "tanh", weights=dl.SmoothGaussian()), field, depths=[4, 8, 16], paths=40)
    assert report.dtype == "float32"
    assert field.linear.weight.grad is None
