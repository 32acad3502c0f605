"""How the projected coupling is asked for, refused and reported; states of extreme sizes, and what
overflows.
"""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from couplings import Setting, neural_sde, push, run_recorded
from refusals import covariance
from runs import task_of
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.driving import TrendAndNoise
from deeplimit.layers import OneProduct, Res1
from deeplimit.simulation.kernels import numba_pass as compiled, triton_pass as fused

RES1 = dl.res1(8, "tanh")
INNER = dl.inner(3, "scaled_gelu", noise=dl.Ito(A=0.1, b=0.1))


def compare(network, *args, **knobs):
    return dl.compare(network, *args, **({"depths": [4, 8, 16], "paths": 64, "workers": 1} | knobs))


@pytest.fixture(params=["torch", "compiled"])
def loops(request, monkeypatch):
    """Both ways to run the projected coupling, where numba is installed."""
    if request.param == "compiled" and compiled.loops() is None:
        pytest.skip("numba is not installed")
    monkeypatch.setattr(compiled, "ENABLED", request.param == "compiled")
    monkeypatch.setattr(compiled, "WORTHWHILE", 0)
    return request.param


class Leaning(dl.SDELimit):
    """A user's limit that takes the increments in a way of its own."""

    equation = "dH = 0.9 dB σ(H)"

    def noise_size(self, h):
        return h.shape[1] ** 2

    def increment(self, time, step, h, noise):
        return 0.9 * RES1.limit().g_prod(time, h, noise)


class Mine:
    """A user's torchsde object."""

    sde_type, noise_type = "ito", "general"

    def f(self, t, y):
        return torch.zeros_like(y)

    def g_prod(self, t, y, v):
        return torch.einsum("pij,pj->pi", v.reshape(-1, 8, 8), torch.tanh(y)) / 8**0.5


def ito(width=3, **noise):
    return dl.inner(width, "tanh", noise=dl.Ito(**noise))


UNEQUAL = torch.tensor([[1.0, 2.0, 1.0], [2.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
RANDOM = {
    "A": covariance,
    "auxiliary": dl.AuxiliaryDiffusion(lambda t, v: -v, lambda t, v: torch.ones_like(v)),
}
NOISE, LIMIT = "are not known to be Gaussian matrix noise", "the limit may read whole increments"
FACTORS = "constant row and column covariances"
IMPOSSIBLE = {
    "two matrices": (dl.res2(3, "tanh", weights=dl.Brownian()), dl.Identity(), "needs more of its weights"),
    "uniform weights": (dl.res1(3, weights=dl.IID("uniform")), dl.Identity(), NOISE[:-13]),
    "functions of time": (dl.res1(3, "tanh", weights=dl.SmoothGaussian()), None, NOISE),
    "a trend alone": (dl.inner(3, "tanh", trend=push(3), alpha=0.5, beta=0.5), None, NOISE),
    "a user's limit": (RES1, Mine(), LIMIT),
    "a user's subclass": (RES1, Leaning(), LIMIT),
    "biases alone": (ito(b=0.1), None, NOISE),
    "covarying noises": (ito(A=0.1, b=0.1, cross=0.01 * torch.ones(3, 3, 3)), None, rf"covarying\) {NOISE}"),
    "a drift": (ito(A=0.1, b=0.1, drift=push(3)), None, rf"with drift\) {NOISE}"),
    "rates of time": (ito(A=lambda t: 0.1 + t), None, NOISE),
    "biases of time": (ito(A=0.1, b=lambda t: 0.1 + t), None, NOISE),
    "random rates": (ito(**RANDOM), None, rf"of random volatility\) {NOISE}"),
    "entries of no rows and columns": (ito(A=UNEQUAL), None, FACTORS),
    "a full tensor": (ito(A=torch.eye(9).reshape(3, 3, 3, 3)), None, FACTORS),
    "a limit's rates of time": (
        INNER, dataclasses.replace(INNER.limit(), noise=dl.Ito(A=lambda t: 0.1 + t, b=0.1)), LIMIT
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_where_products_do_not_suffice_projected_is_refused_and_auto_takes_matrices(name):
    network, limit, reason = IMPOSSIBLE[name]
    with pytest.raises(ValueError, match=f"coupling='projected' draws products.*{reason}"):
        compare(network, limit, coupling="projected")
    assert not str(compare(network, limit).coupling).startswith("projected")


def test_a_limit_that_reads_noise_of_its_own_is_no_obstacle():
    for limit in (dl.Independent(Mine()), dl.Identity(), lambda t, h: -h):
        assert compare(RES1, limit, coupling="projected").coupling.startswith("projected: every depth read")


BOTH = dl.inner(3, "tanh", trend=dl.SmoothGaussian(), noise=dl.Ito(A=0.05), alpha=0.5, beta=0.5)


@pytest.mark.parametrize(
    ("network", "limit", "reads"),
    [
        (RES1, None, "every depth and the limit"),
        (RES1, dl.Independent(RES1.limit()), "the limit reads independent noise"),
        (RES1, dl.Identity(), "the limit reads none of it"),
        (BOTH, None, "the limit reads their functions of time"),
    ],
)
def test_the_report_says_which_noise_the_limit_reads(network, limit, reads):
    said = compare(network, limit, coupling="projected").coupling
    assert said.startswith("projected: every depth")
    assert reads in said


def test_auto_is_projected_from_the_width_on_at_which_it_pays():
    for width, coupling in ((7, "pathwise"), (8, "projected")):
        report = compare(dl.res1(width, "tanh"))
        assert report.coupling.startswith(coupling)
        assert report.errors.tolist() == compare(dl.res1(width, "tanh"), coupling=coupling).errors.tolist()


def at_six_depths(network, coupling, dtype, paths):
    return compare(network, depths=[4, 6, 9, 16, 24, 32], paths=paths, coupling=coupling, dtype=dtype)


@cache
def whole_matrices(*given):
    """The pathwise coupling, which has one way to run."""
    network, dtype, paths = given
    return at_six_depths(network, "pathwise", dtype, paths)


@pytest.mark.parametrize(
    ("dtype", "paths"), [("float32", 1500), pytest.param("float64", 4000, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(
    "network", [dl.res1(9, "tanh"), dl.inner(9, "scaled_gelu", noise=dl.Ito(A=0.02, b=0.1))], ids=str
)
def test_the_couplings_draw_other_numbers_and_agree_within_their_standard_errors(
    network, dtype, paths, loops
):
    """Six depths, at six standard errors of the difference: one in 10^8 by chance."""
    each = [at_six_depths(network, "projected", dtype, paths), whole_matrices(network, dtype, paths)]
    assert (each[0].errors != each[1].errors).all()
    spread = np.hypot(each[0].standard_errors, each[1].standard_errors)
    assert (abs(each[0].errors - each[1].errors) < 6 * spread).all(), (each[0].errors, each[1].errors, spread)


@pytest.mark.parametrize("coupling", ["projected", "pathwise"])
def test_the_command_line_passes_the_coupling_on(coupling):
    call = ["compare", "--width", "8", "--depths", "4,8,16", "--paths", "32", "--coupling", coupling]
    result = CliRunner().invoke(app, call)
    assert result.exit_code in (0, 3)  # 3: so few paths cannot tell
    assert f"{coupling}: every depth" in result.output


@pytest.mark.parametrize("power", [-100, -70, 90])
def test_errors_scale_with_the_states_as_far_as_single_precision_goes(power, loops):
    """σ = ReLU commutes with powers of two, so must the noise: squares of such states are 0 or infinite in
    float32.
    """
    network, x = dl.res1(8, "relu"), torch.ones(1, 8)
    one, other = (
        compare(network, x=size * x, coupling="projected", depths=[4, 6, 10]) for size in (1.0, 2.0**power)
    )
    assert one.raw_errors.min() > 0.1
    np.testing.assert_allclose(
        other.raw_errors / 2.0**power, one.raw_errors, rtol=1e-12
    )  # states to the bit; means in float64


@pytest.mark.parametrize(
    "start", [6.0, *(pytest.param(start, marks=pytest.mark.nightly) for start in (5.0, 7.0))]
)
def test_saturated_activations_have_errors_as_small_in_single_precision_as_in_double(start, loops):
    """Where σ is flat, vectors are 1e-3 to 1e-6 from the reference's. Tails are heavy, a few paths decide:
    so factors of 4.

    A version that took the reference out of residuals once, and read overlaps off the vectors, was a
    hundred times off at 6.
    """
    x = torch.full((1, 16), start)
    single, double = (
        compare(
            dl.res1(16, "tanh"),
            x=x,
            norm="final",
            depths=[16, 32, 64, 128],
            paths=512,
            coupling="projected",
            dtype=dtype,
        )
        for dtype in ("float32", "float64")
    )
    rounding = (
        2.0**-24 * start * 16**0.5 * 256**0.5
    )  # of 256 additions to 16 states of this size, as in pathwise
    assert (single.raw_errors < 4 * double.raw_errors + rounding).all(), (
        single.raw_errors,
        double.raw_errors,
    )


def test_dead_units_give_no_nan(loops):
    """All vectors are 0 on one path in two, and the reference's is for good; on the others single units
    die and revive.
    """
    x = torch.cat([-torch.ones(1, 8), torch.linspace(-1.0, 1.0, 8)[None]])
    report = compare(dl.res1(8, "relu"), x=x, coupling="projected", depths=[4, 6, 10])
    assert report.diverged.tolist() == [0, 0, 0]
    assert np.isfinite(report.errors).all()
    still = compare(dl.res1(8, "relu"), x=x[:1], coupling="projected", depths=[4, 6, 10])
    assert still.raw_errors.tolist() == [0.0, 0.0, 0.0]


def test_paths_that_overflow_touch_no_other():
    """One input in three is too large, or is not finite; the errors of all other paths are the same to the
    bit.
    """
    limit = neural_sde("identity", 8)
    task = Setting(dl.res1(8, "identity", exponent=0.0), limit, (4, 6, 20)).task(
        "projected", 96, 0, torch.float32
    )
    well = run_recorded(task).errors()
    assert torch.isfinite(well).all()
    for size in (1e37, torch.inf, torch.nan):
        h0 = task.h0.clone()
        h0[1] *= size
        errors = run_recorded(dataclasses.replace(task, h0=h0)).errors().unflatten(0, (-1, 3))
        assert not torch.isfinite(errors[:, 1, 2]).any(), "the deepest network's, of that input"
        torch.testing.assert_close(
            errors[:, [0, 2]], well.unflatten(0, (-1, 3))[:, [0, 2]], rtol=0.0, atol=0.0
        )


@pytest.mark.parametrize(("depths", "against"), [([4, 8, 64, 512], "identity"), ([4, 6, 10, 500], "own")])
def test_a_network_that_overflows_is_lost_alone(depths, against, loops):
    """With exponent 0 the deepest network grows like 2^(L/2) and is lost; shallow ones and the limit are
    not, as pathwise.
    """
    network = dl.res1(8, "identity", exponent=0.0)
    limit = dl.Identity() if against == "identity" else neural_sde("identity", 8)
    for coupling in ("projected", "pathwise"):
        report = compare(network, limit, x=torch.ones(1, 8), depths=depths, norm="final", coupling=coupling)
        assert report.diverged.tolist() == [0, 0, 0, 64], coupling


def test_a_limit_that_overflows_leaves_the_networks_their_noise(loops):
    """Its own errors are lost; what the networks hear of it must not be: they go on as on a path without
    it.
    """
    explosive = dl.NeuralSDE(Res1(dl.activations.resolve(lambda h: 1e30 * h)), (dl.Brownian(),), 8)
    report = compare(RES1, explosive, x=torch.ones(1, 8), coupling="projected")
    assert report.diverged.tolist() == [64, 64, 64]
    assert report.verdict == "cannot tell"


def test_one_network_that_is_given_is_no_sample():
    fixed = dl.res1(3, "tanh", weights=dl.Trend(lambda t: torch.eye(3)))
    with pytest.raises(ValueError, match="all networks are the same"):
        dl.compare(fixed, x=torch.ones(2, 3), depths=[2, 4], same_network=True)


def test_laws_recursions_and_limits_of_the_users_own_go_through_no_compiled_loop(monkeypatch):
    """What a subclass changes, loops that know the library's own by name would not hear of."""

    class Damped(OneProduct):
        name, weights, formula = "damped", Res1.weights, Res1.formula

        def operand(self, h):
            return self.activation(h)

        def finish(self, product, layer, exponent):
            return 0.1 * product * layer.scale(exponent)

    monkeypatch.setattr(compiled, "WORTHWHILE", 0)
    damped = dataclasses.replace(RES1, recursion=Damped(RES1.recursion.activation))
    odd = dl.ResidualNetwork(dl.PreNorm("tanh"), 8).limit()
    scaled = dl.res1(8, "tanh", weights=TrendAndNoise(None, dl.Ito(A=0.01), 1.0), exponent=0.0)
    for network, limit in ((damped, RES1.limit()), (RES1, odd), (scaled, RES1.limit())):
        task = task_of(network, limit, coupling="projected", dtype=None, paths=64)
        assert not fused.is_known(task)
        assert network is scaled or not compiled.applies(task)


@pytest.mark.parametrize("coupling", ["projected", "pathwise"])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_errors_of_one_networks_inputs_are_averaged_to_the_power_p(coupling, p):
    """Scaled inputs of a linear network: a path's errors are proportional to the scales, so that their
    mean is known.
    """
    knobs = {"coupling": coupling, "p": p, "dtype": "float64"}
    network, x, scales = dl.res1(6, "identity"), torch.ones(1, 6), torch.tensor([[1.0], [2.0], [4.0]])
    one = compare(network, x=x, same_network=True, **knobs)
    three = compare(network, x=scales * x, same_network=True, **knobs)
    mean = float((scales.double() ** p).mean() ** (1 / p))
    # Inputs that are multiples of one another ask for no other noise: pathwise the draws are the same
    # ones.
    tolerance = (
        1e-9
        if coupling == "pathwise"
        else 6 * float(np.hypot(one.standard_errors, three.standard_errors / mean).max())
    )
    np.testing.assert_allclose(three.raw_errors / mean, one.raw_errors, rtol=0, atol=tolerance)
