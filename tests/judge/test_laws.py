"""Laws at time 1: drawn exactly, tested two by two, extrapolated to infinite depth; every right limit beside
wrong ones.
"""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from samplers import FAR, skewed
from scipy.stats import binom, kstest, norm

import deeplimit as dl
from deeplimit.common.verdict import first
from deeplimit.driving import layers_in_law
from deeplimit.judge.in_law import two_sample
from deeplimit.judge.in_law.one_draw import OneDraw
from deeplimit.judge.in_law.simulation import features, last_states, random_directions, rounding_share
from deeplimit.judge.in_law.verdict import rules

DEPTHS = [8, 16, 32, 64, 128]


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def score(values, expected):
    values = np.asarray(values)
    return float((values.mean() - expected) / (values.std() / len(values) ** 0.5))


def gaussian(shape, generator):  # the library cannot know that this is Gaussian, and so draws every entry
    return torch.randn(shape, generator=generator)


@dataclasses.dataclass(frozen=True)
class Changed(dl.LawLimit):
    """The limit of res-3 with another variance or mean of its log norm."""

    width: int
    variance: float = 1.0
    shift: float = 0.0

    @property
    def equation(self):
        return f"log norm with {self.variance:g} times the variance, shifted by {self.shift:g}"

    def draw(self, h0, generator):
        limit = dl.IsotropicSDE(self.width)
        h = limit.draw(h0, generator)
        log = (h.norm(dim=1) / h0.norm(dim=1)).log()
        new = limit.log_norm_mean + (log - limit.log_norm_mean) * self.variance**0.5 + self.shift
        return h * (new - log).exp()[:, None]


# The isotropic SDE


def ends(width, rate, count=20000, seed=0):
    """Log norm and cosine with h_0 of draws of H_1."""
    start = torch.zeros(count, width, dtype=torch.float64)
    start[:, 0] = 2.0
    end = dl.IsotropicSDE(width, rate).draw(start, stream(seed))
    length = end.norm(dim=1)
    return (length / 2).log().numpy(), (end[:, 0] / length).numpy()


@pytest.mark.statistical
@pytest.mark.parametrize(("width", "rate"), [(2, 0.5), (3, 0.5), (5, 4.0), (30, 0.5)])
def test_isotropic_draws_have_the_known_harmonics_and_a_normal_log_norm(width, rate):
    log, cosine = ends(width, rate)
    d, time = width, rate / width
    # Zonal harmonics of degree n decay at rate n (n + d - 2)/2; those of degrees 1, 2, 3 are 1 at h_0.
    harmonics = (cosine, (d * cosine**2 - 1) / (d - 1), ((d + 2) * cosine**3 - 3 * cosine) / (d - 1))
    for degree, harmonic in enumerate(harmonics, start=1):
        assert abs(score(harmonic, math.exp(-degree * (degree + d - 2) * time / 2))) < FAR
    assert abs(score(cosine, math.exp(-(d - 1) * time))) > 10  # twice the time
    assert kstest(log, norm(rate / 2 * (1 - 2 / d), (rate / d) ** 0.5).cdf).pvalue > 1e-5
    assert kstest(log, norm(rate / 2 * (1 - 2 / d), (2 * rate / d) ** 0.5).cdf).pvalue < 1e-20
    assert abs(np.corrcoef(log, cosine)[0, 1]) * len(log) ** 0.5 < FAR


@pytest.mark.statistical
def test_in_the_plane_the_direction_is_a_brownian_motion_on_the_circle():
    _, cosine = ends(2, 0.5)
    angle = np.arccos(np.clip(cosine, -1, 1))  # at time 1/4 a turn of π is 6 standard deviations away
    assert kstest(angle, lambda a: 2 * norm.cdf(a / 0.5) - 1).pvalue > 1e-5
    assert kstest(angle, lambda a: 2 * norm.cdf(a / 0.53) - 1).pvalue < 1e-10


@pytest.mark.statistical
def test_a_line_keeps_its_sign_and_directions_are_even_around_h0():
    end = dl.IsotropicSDE(1).draw(torch.tensor([[1.0], [-1.0]]).repeat(5000, 1), stream())
    assert (end[::2] > 0).all()
    assert (end[1::2] < 0).all()
    assert abs(score(end[::2].log().numpy(), -0.25)) < FAR
    start = torch.full((20000, 3), 1.0, dtype=torch.float64)
    end = dl.IsotropicSDE(3).draw(start, stream())
    aside = end - (end * start).sum(dim=1, keepdim=True) / 3 * start
    covariance = (aside.T @ aside / len(aside)).numpy()
    expected = np.trace(covariance) / 2 * (np.eye(3) - 1 / 3)
    assert np.abs(covariance - expected).max() < 0.01 * np.trace(covariance)


@pytest.mark.parametrize(
    ("growth", "draws", "verdict"), [(0.0, 10_000, "same law"), (0.2, 2000, "another law")]
)
def test_the_equation_simulated_by_torchsde_has_the_law_that_is_drawn(growth, draws, verdict):
    limit = dl.IsotropicSDE(2)
    sde = SimpleNamespace(
        f=lambda t, h: limit.f(t, h) + growth * h, g=limit.g, sde_type="ito", noise_type="general"
    )
    report = dl.compare_laws(dl.res3(2), sde, depths=[8, 16, 32, 64], steps=64, draws=draws, tolerance=0.15)
    assert report.verdict == verdict, str(report)


# Networks


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["gaussian", "uniform", "rademacher"])
def test_mean_squares_of_res3_are_known_at_every_depth(law):
    report = dl.compare_laws(dl.res3(5, weights=dl.IID(law)), depths=[2, 4, 8], draws=8000)
    exact = (1 + 1 / (2 * report.depths)) ** report.depths
    wrong = (1 + 1 / report.depths) ** report.depths
    assert (np.abs(report.mean_squares - exact) < FAR * report.mean_square_errors).all()
    assert (np.abs(report.mean_squares - wrong) > 10 * report.mean_square_errors).all()


@pytest.mark.parametrize("make", [dl.res1, dl.res2, dl.inner])
def test_drawing_products_agrees_with_drawing_matrices(make):
    start = torch.ones(20000, 3, dtype=torch.float64)
    directions = random_directions(3, seed=0)

    def sample(law, seed, exponent=0.5):
        network = make(3, "tanh", weights=law, exponent=exponent)
        h = last_states(network, 3, start, stream(seed))
        return features(h, start, directions).numpy()

    products, matrices = sample(dl.Brownian(), 1), sample(dl.IID(gaussian), 2)
    for k in range(products.shape[1]):
        assert two_sample.kolmogorov_smirnov(products[:, k], matrices[:, k])[1] > 1e-6
    other = sample(dl.IID(gaussian), 3, exponent=0.4)
    assert two_sample.kolmogorov_smirnov(products[:, 0], other[:, 0])[1] < 1e-6


@pytest.mark.statistical
def test_a_gaussian_layer_has_the_variance_of_a_matrix_times_a_vector():
    vector = torch.tensor([[3.0, 4.0]]).repeat(50000, 1)
    layer = next(layers_in_law(dl.Brownian(), 16, (2, 2), 50000, stream(), vector.dtype))
    product = layer.apply(vector, 0.5)
    squares = product.square().numpy()
    for column in range(2):  # L^(1/2 - 1/2) times N(0, 1/16) entries over √2, times |v| = 5
        assert abs(score(squares[:, column], 25 / 32)) < FAR
    assert abs(score((product[:, 0] * product[:, 1]).numpy(), 0.0)) < FAR


# The known cases, right limits and wrong ones, are measured in tests/cases.


def test_one_hidden_unit_has_the_law_of_its_limit():
    report = dl.compare_laws(dl.res3(1), depths=DEPTHS)
    assert report.verdict == "same law", str(report)


WRONG = {
    "diffusion 5 % too large": dl.IsotropicSDE(8, 0.5 * 1.05**2),
    "diffusion 5 % too small": dl.IsotropicSDE(8, 0.5 * 0.95**2),
    "variance 1/d": Changed(8, variance=2.0),
    "drift": Changed(8, shift=0.05),
}


@pytest.mark.parametrize(
    "name",
    [
        "diffusion 5 % too large",
        pytest.param("diffusion 5 % too small", marks=pytest.mark.nightly),
        pytest.param("variance 1/d", marks=pytest.mark.nightly),
        "drift",
    ],
)
def test_wrong_limits_are_caught(name):
    report = dl.compare_laws(dl.res3(8), WRONG[name], depths=DEPTHS[:4], draws=20000)
    assert report.verdict == "another law", str(report)
    assert report.differs.all()


@pytest.mark.parametrize(
    "network",
    [
        dl.res1(4, "sin"),
        *(
            pytest.param(
                dl.res1(4, "tanh", weights=dl.IID("uniform"), exponent=beta), marks=pytest.mark.nightly
            )
            for beta in (0.4, 0.6)
        ),
    ],
    ids=str,
)
def test_wrong_exponents_and_activations_are_caught(network):
    limit = dl.res1(4, "tanh").limit()
    assert dl.compare_laws(network, limit, depths=[8, 16, 32, 64]).verdict == "another law"


def test_a_skewed_sampler_reaches_its_limit_at_order_one_half():
    report = dl.compare_laws(dl.res1(2, "tanh", weights=dl.IID(skewed)), depths=[2, 8, 32, 128], draws=8000)
    assert report.verdict != "another law", str(report)
    assert report.differs[0]
    assert any("not known to be symmetric" in text for text in report.reservations)


@pytest.mark.statistical
@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.nightly)])
def test_right_limits_are_not_called_wrong_however_often_one_asks(count):
    knobs = {"depths": [8, 16, 32], "draws": 1000, "level": 0.05, "tolerance": 1.0}
    verdicts = [dl.compare_laws(dl.res3(3), seed=seed, **knobs).verdict for seed in range(count)]
    assert verdicts.count("another law") <= binom.isf(1e-5, count, 0.05)


def test_too_few_draws_cannot_tell_and_say_what_would():
    report = dl.compare_laws(dl.res3(4), depths=[4, 8, 16], draws=300)
    assert report.verdict == "cannot tell"
    assert "times as many draws" in report.reason
    assert any("300 draws are few" in text for text in report.reservations)


class ThreefoldNoise(dl.LawLimit):
    equation = "h_0 + 3 Z"

    def draw(self, h0, generator):
        return h0 + 3 * torch.randn(h0.shape, generator=generator).to(h0)


def test_inputs_that_swallow_every_layer_in_round_off_cannot_be_told():
    """At 1e9 float32 keeps h_0 through all layers. Then even three times too much noise had the same law."""
    network, x = dl.res1(4, "tanh"), torch.full((1, 4), 1e9, dtype=torch.float64)
    for limit in (None, ThreefoldNoise()):
        report = dl.compare_laws(network, limit, x, depths=[8, 16, 32, 64], draws=500)
        assert (report.verdict, report.rule) == ("cannot tell", "is_swallowed_by_rounding")
    homogeneous = dl.compare_laws(dl.res3(4), x=x, depths=[8, 16, 32, 64], draws=500)
    assert homogeneous.rule != "is_swallowed_by_rounding"  # its layers grow with the inputs


@pytest.mark.parametrize(("share", "is_said"), [(0.11, True), (0.09, False)])
def test_round_off_counts_from_the_tolerance_on(share, is_said):
    quiet = {"coarse": (0.0, 0), "floors": np.ones(1), "margins": np.zeros(1), "remains": np.ones(1)}
    evidence = SimpleNamespace(lost=0, rounding=share, tolerance=0.1, **quiet)
    assert (first(rules, evidence).rule == "is_swallowed_by_rounding") is is_said


def test_double_precision_tells_where_single_precision_cannot():
    x = 1e6 * torch.ones(1, 4, dtype=torch.float64)
    report = dl.compare_laws(dl.res1(4, "tanh"), x=x, depths=[8, 16, 32, 64], draws=500, dtype="float64")
    assert report.rule != "is_swallowed_by_rounding"


def test_networks_that_overflow_are_counted_and_cannot_be_told():
    network = dl.res1(2, "identity", exponent=0.0)
    report = dl.compare_laws(network, dl.res1(2, "identity").limit(), depths=[4, 64, 1024], draws=300)
    assert report.verdict == "cannot tell"
    assert report.diverged[-1] > 0
    assert report.diverged[0] == 0
    assert f"{report.diverged.sum()} draws were not finite" in report.reason


def test_round_off_grows_with_the_steps_of_the_deepest_network_or_of_the_limit():
    """float32 rounds each of n sums by 2^-23 at the most, uniformly: √(n/12) of that together."""
    sample = SimpleNamespace(features=np.array([[0.0, -2.0], [0.0, 2.0]]))  # a spread of 2 along h_0

    def of(steps, *depths):
        plan = SimpleNamespace(dtype=torch.float32, steps=steps, depths=depths)
        return rounding_share(plan, [sample] * len(depths))

    assert of(10, 4, 8, 1200) == pytest.approx(2.0**-23 * 10 / 2)
    assert of(4800, 4, 8, 1200) == pytest.approx(2.0**-23 * 20 / 2)


def test_a_plot_of_one_draw_has_every_layer_of_the_coordinate_at_its_time():
    states = {depth: np.arange(3.0 * (depth + 1)).reshape(depth + 1, 3) for depth in (3, 6)}
    draw = OneDraw(0, (3, 6), states, np.array([7.0, 8.0, 9.0]), ("a",), np.zeros((2, 1)), np.zeros(1))
    *lines, end = draw.plot(coordinate=2).get_lines()
    for line, depth in zip(lines, (3, 6), strict=True):
        assert line.get_xdata() == pytest.approx([k / depth for k in range(depth + 1)])
        assert line.get_ydata().tolist() == [3.0 * k + 2.0 for k in range(depth + 1)]
    assert end.get_xydata().tolist() == [[1.0, 9.0]]
