"""`dl.check_solver` where coefficients jump or are steep as functions of the state."""

import itertools
from types import SimpleNamespace

import pytest
import torch

import deeplimit as dl
from deeplimit.judge.solver import runs

GBM = dl.testing.PROBLEMS["geometric Brownian motion"]


class OfState(torch.nn.Module):
    """An SDE with diagonal noise, whose coefficients are functions of the state alone."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, drift, diffusion):
        super().__init__()
        self.drift, self.diffusion = drift, diffusion

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.diffusion(y)


STATES = {
    "diffusion_jumps": OfState(torch.zeros_like, lambda y: torch.where(y >= 0, 1.0, -1.0).to(y)),
    "diffusion_is_steep": OfState(torch.zeros_like, lambda y: torch.tanh(50 * y)),
    "drift_jumps_slowly": OfState(lambda y: -torch.sign(y), torch.ones_like),
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rule", "start"), [("diffusion_jumps", 0.0), ("diffusion_is_steep", 0.1), ("drift_jumps_slowly", 0.0)]
)
def test_no_solver_is_accused_where_coefficients_jump_or_are_not_resolved(rule, start):
    """Tanaka's equation has no solution on a given path; drifts that jump leave Milstein the order 3/4."""
    report = dl.check_solver("milstein", STATES[rule], torch.full((1, 1), start))
    assert (report.verdict, report.rule) == ("cannot tell", rule)


def test_tanakas_equation_has_no_order_to_judge_by():
    report = dl.check_solver(
        "euler", STATES["diffusion_jumps"], torch.zeros(1, 1), steps=(16, 32, 64, 128), paths=256
    )
    assert report.verdict == "cannot tell"


@pytest.mark.parametrize(
    ("sde", "seen"),
    [
        (STATES["diffusion_jumps"], (False, True)),
        (STATES["drift_jumps_slowly"], (True, False)),
        (STATES["diffusion_is_steep"], (False, False)),
        (OfState(torch.tanh, torch.sin), (False, False)),
    ],
)
def test_jumps_and_slopes_of_coefficients_are_seen(sde, seen):
    def shape(x):
        return x.shape[1:]

    equation = SimpleNamespace(
        drift=lambda t, x: sde.f(t, x), diffusion=lambda t, x, b: sde.g(t, x) * b, brownian_shape=shape
    )
    found = runs.irregularities(
        SimpleNamespace(x=torch.full((2, 3), 0.1).double(), equation=equation, random=True)
    )
    assert (found.drift_jumps, found.diffusion_jumps) == seen
    if sde is STATES["diffusion_is_steep"]:
        assert 25 < found.slope < 50
    elif not seen[1]:
        assert found.slope < 1.01


@pytest.mark.parametrize(
    ("fault", "expected"), [(True, "not the limit"), (False, "documented order")], ids=("redrawn", "right")
)
def test_a_steep_diffusion_excuses_no_fault_where_a_right_scheme_is_seen_to_converge(fault, expected):
    """The diffusion is steep at 2.5, where few paths come, and Euler's scheme has its order."""
    far = dl.SDE(
        lambda t, h: -h,
        lambda t, h, dB: 0.5 * (1 + 0.6 * torch.tanh(60 * (h - 2.5))) * dB,
        noise="diagonal",
    )
    start = torch.full((1, 1), 1.0).double()
    assert runs.irregularities(SimpleNamespace(x=start, equation=far, random=True)).slope ** 2 > 64
    solver = GBM.faults["noise redrawn"].solver if fault else dl.EulerMaruyama()
    report = dl.check_solver(solver, far, start, steps=(8, 16, 32, 64), paths=256, order=0.5)
    assert report.verdict == expected


@pytest.mark.parametrize("slope", [40, 80])
def test_no_fault_is_said_of_steep_diffusions_in_which_a_right_scheme_fails_too(slope):
    steep = OfState(torch.zeros_like, lambda y: torch.tanh(slope * y))
    asked = {"steps": (8, 16, 32, 64), "paths": 256, "order": 0.5}
    assert (
        dl.check_solver(dl.EulerMaruyama(), steep, torch.full((1, 1), 0.1), **asked).verdict == "cannot tell"
    )


def test_a_fault_is_named_where_coefficients_are_smooth():
    """A solver that draws new noise at each number of steps, where nothing excuses it."""
    calm = OfState(torch.zeros_like, torch.tanh)

    def redrawn(equation, x, brownian, times):
        stream = torch.Generator().manual_seed(len(times))
        for start, end in itertools.pairwise(times):
            drawn = torch.randn(x.shape, generator=stream, dtype=x.dtype) * (end - start).sqrt()
            x = x + equation.diffusion(start, x, drawn)
        return x

    report = dl.check_solver(redrawn, calm, torch.full((1, 1), 1.0), steps=(8, 16, 32, 64), order=0.5)
    assert report.verdict in ("not the limit", "not the documented order")
