"""Laws at time 1: drawn exactly, tested two by two, extrapolated to infinite depth; every right limit beside wrong ones."""

import dataclasses
import json
import math
from types import SimpleNamespace

import matplotlib.figure
import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

import deeplimit as dl
from deeplimit.laws import statistics
from deeplimit.laws.simulation import GaussianLayer, features, last_states, random_directions
from deeplimit.laws.verdict import Evidence, judge

FAR = 4.5  # standard errors; a normal variable is farther with probability 7e-6
DEPTHS = [8, 16, 32, 64, 128]


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def score(values, expected):
    values = np.asarray(values)
    return float((values.mean() - expected) / (values.std() / len(values) ** 0.5))


def gaussian(shape, generator):  # the library cannot know that this is Gaussian, and so draws every entry
    return torch.randn(shape, generator=generator)


def skewed(shape, generator):
    return torch.empty(shape).exponential_(generator=generator) - 1


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


def ends(width, rate, count=40000, seed=0):
    """Log norm and cosine with h_0 of draws of H_1."""
    start = torch.zeros(count, width, dtype=torch.float64)
    start[:, 0] = 2.0
    end = dl.IsotropicSDE(width, rate).draw(start, stream(seed))
    length = end.norm(dim=1)
    return (length / 2).log().numpy(), (end[:, 0] / length).numpy()


@pytest.mark.parametrize(("width", "rate"), [(2, 0.5), (3, 0.5), (10, 0.5), (30, 0.5), (5, 4.0)])
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


def test_in_the_plane_the_direction_is_a_brownian_motion_on_the_circle():
    _, cosine = ends(2, 0.5)
    angle = np.arccos(np.clip(cosine, -1, 1))  # at time 1/4 a turn of π is 6 standard deviations away
    assert kstest(angle, lambda a: 2 * norm.cdf(a / 0.5) - 1).pvalue > 1e-5
    assert kstest(angle, lambda a: 2 * norm.cdf(a / 0.53) - 1).pvalue < 1e-10


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


def test_the_equation_simulated_by_torchsde_has_the_law_that_is_drawn():
    limit = dl.IsotropicSDE(3)
    own = SimpleNamespace(f=limit.f, g=limit.g, sde_type="ito", noise_type="general")
    for sde, verdict in ((own, "same law"), (SimpleNamespace(**vars(own) | {"f": lambda t, h: 0.1 * h}), "another law")):
        report = dl.compare_laws(dl.res3(3), sde, depths=DEPTHS, steps=128)
        assert report.verdict == verdict, str(report)


# Networks


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
        h = last_states(network.recursion, network.weights, network.exponent, 3, start, stream(seed))
        return features(h, start, directions).numpy()

    products, matrices = sample(dl.Brownian(), 1), sample(dl.IID(gaussian), 2)
    for k in range(products.shape[1]):
        assert statistics.kolmogorov_smirnov(products[:, k], matrices[:, k])[1] > 1e-6
    other = sample(dl.IID(gaussian), 3, exponent=0.4)
    assert statistics.kolmogorov_smirnov(products[:, 0], other[:, 0])[1] < 1e-6


def test_a_gaussian_layer_has_the_variance_of_a_matrix_times_a_vector():
    vector = torch.tensor([[3.0, 4.0]]).repeat(50000, 1)
    product = GaussianLayer(None, 16, 0.5, 2**-0.5, generator=stream()).apply(vector, 0.5)
    squares = product.square().numpy()
    for column in range(2):  # L^(1/2 - 1/2) times N(0, 1/16) entries over √2, times |v| = 5
        assert abs(score(squares[:, column], 25 / 32)) < FAR
    assert abs(score((product[:, 0] * product[:, 1]).numpy(), 0.0)) < FAR


RIGHT = {
    "res3": lambda: dl.res3(8),
    "res3, Rademacher": lambda: dl.res3(3, weights=dl.IID("rademacher")),
    "res3, Gaussian and uniform": lambda: dl.res3(4, weights=(dl.Brownian(), dl.IID("uniform"))),
    "res3, one unit": lambda: dl.res3(1),
    "res2 with ReLU": lambda: dl.res2(4, "relu"),
    "res1, tanh, uniform": lambda: dl.res1(4, "tanh", weights=dl.IID("uniform")),
    "res1, ReLU, Rademacher": lambda: dl.res1(3, weights=dl.IID("rademacher")),
    "res1, Gaussian": lambda: dl.res1(6, "softplus"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_limits_have_the_same_law(name):
    report = dl.compare_laws(RIGHT[name](), depths=DEPTHS)
    assert report.verdict == "same law", str(report)


WRONG = {
    "diffusion 10 % too large": dl.IsotropicSDE(8, 0.5 * 1.1**2),
    "diffusion 5 % too large": dl.IsotropicSDE(8, 0.5 * 1.05**2),
    "diffusion 5 % too small": dl.IsotropicSDE(8, 0.5 * 0.95**2),
    "variance 1/d": Changed(8, variance=2.0),
    "drift": Changed(8, shift=0.05),
    "the limit of res-1": dl.res1(8).limit(),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_limits_are_caught(name):
    report = dl.compare_laws(dl.res3(8), WRONG[name], depths=DEPTHS, draws=20000)
    assert report.verdict == "another law", str(report)
    assert report.differs.all()


def test_wrong_exponents_and_activations_are_caught():
    limit = dl.res1(4, "tanh").limit()
    law = dl.IID("uniform")
    for network in (
        dl.res1(4, "tanh", weights=law, exponent=0.4),
        dl.res1(4, "tanh", weights=law, exponent=0.6),
        dl.res1(4, "sin"),
    ):
        assert dl.compare_laws(network, limit, depths=[8, 16, 32, 64]).verdict == "another law"


def test_a_skewed_sampler_reaches_its_limit_at_order_one_half():
    report = dl.compare_laws(dl.res1(2, "tanh", weights=dl.IID(skewed)), depths=[2, 8, 32, 128], draws=8000)
    assert report.verdict != "another law", str(report)
    assert report.differs[0]
    assert any("not known to be symmetric" in text for text in report.reservations)


def test_right_limits_are_not_called_wrong_however_often_one_asks():
    verdicts = [
        dl.compare_laws(dl.res3(3), depths=[8, 16, 32], draws=1000, seed=seed, level=0.05, tolerance=1.0).verdict
        for seed in range(40)
    ]
    assert verdicts.count("another law") <= 9  # of 40 at 5 % each, more than 9 have probability 3e-5


def test_too_few_draws_cannot_tell_and_say_what_would():
    report = dl.compare_laws(dl.res3(4), depths=[4, 8, 16], draws=300)
    assert report.verdict == "cannot tell"
    assert "times as many draws" in report.reason
    assert any("300 draws are few" in text for text in report.reservations)


def test_networks_that_overflow_are_counted_and_cannot_be_told():
    network = dl.res1(2, "identity", exponent=0.0)
    report = dl.compare_laws(network, dl.res1(2, "identity").limit(), depths=[4, 64, 1024], draws=300)
    assert report.verdict == "cannot tell"
    assert report.diverged[-1] > 0
    assert report.diverged[0] == 0
    assert f"{report.diverged.sum()} draws were not finite" in report.reason


# Statistics


def test_holm_multiplies_the_smallest_by_their_number_and_never_reverses_an_order():
    adjusted = statistics.holm(np.array([[0.01, 0.04], [0.03, 0.005]]))
    assert adjusted == pytest.approx(np.array([[0.03, 0.06], [0.06, 0.02]]))
    assert statistics.holm(np.full(3, 0.9)).tolist() == [1.0, 1.0, 1.0]


def test_the_energy_test_is_calibrated_and_sees_what_margins_do_not():
    random = np.random.default_rng(0)
    p = [statistics.energy_test(*random.normal(size=(2, 60, 3)), 0.05, random)[1] for _ in range(300)]
    assert sum(value <= 0.05 for value in p) <= 34  # of 300 at 5 % each, more have probability 1e-5
    assert sum(value <= 0.5 for value in p) >= 110
    x, y = random.normal(size=(2, 300, 1))
    joined, apart = np.hstack([x, x + 0.1 * y]), random.normal(size=(300, 2))
    assert statistics.energy_test(joined, apart, 1e-4, random)[1] < 1e-3


def test_energy_distances_are_those_of_the_definition():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(2, 20, 2))
    y += 1

    def mean(a, b):
        return np.linalg.norm(a[:, None] - b[None], axis=2).mean()

    found, p = statistics.energy_test(x, y, 0.01, random)
    assert found == pytest.approx(2 * mean(x, y) - mean(x, x) - mean(y, y), rel=1e-5)
    assert p <= 1.5 / 201


def test_extrapolation_is_exact_on_its_own_model_and_leaves_out_depths_that_do_not_fit():
    depths = np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
    exact = 0.3 + 2 / depths - 5 / depths**2
    found = statistics.extrapolate(depths, exact, np.full(6, 1e-8), 4e-8, (1.0, 2.0), 1e-4)
    assert found.value == pytest.approx(0.3)
    assert found.fits
    assert found.allowance == 0.0
    assert 2e-4 < found.error < 3e-4
    bent = exact + 60 / depths**4
    assert statistics.extrapolate(depths, bent, np.full(6, 1e-8), 0.0, (1.0, 2.0), 1e-4).value == pytest.approx(0.3, abs=1e-3)
    roots = statistics.extrapolate(depths, 0.3 + depths**-0.5, np.full(6, 1e-8), 0.0, (0.5, 1.0), 1e-4)
    assert roots.value == pytest.approx(0.3)
    assert not statistics.extrapolate(depths, np.log(depths), np.full(6, 1e-8), 0.0, (1.0, 2.0), 1e-4).fits


def test_locations_and_spreads_read_in_standard_deviations():
    random = np.random.default_rng(2)
    own = random.normal(5.0, 3.0, 400_000)
    standard = statistics.Standard.of(own)
    for other, expected in ((own + 0.06, (0.02, 0.0)), (5 + (own - 5) * 1.02, (0.0, 0.02))):
        difference = standard.moments(other)[0] - standard.moments(own)[0]
        assert difference[:2] == pytest.approx(expected, abs=6e-4)


def evidence(differences, floors, margins=0.05, errors=0.01, fits=True, **more):
    differences = np.atleast_2d(np.array(differences, dtype=float))
    count, m = differences.shape
    values = {
        "names": tuple(f"function {k}" for k in range(count)),
        "depths": 32 * 2 ** np.arange(m),
        "differences": differences,
        "errors": np.full((count, m), errors),
        "floors": np.atleast_1d(np.array(floors, dtype=float)),
        "margins": np.full(count, margins),
        "fits": np.full(count, fits),
        "multiple": 4.0,
        "distances": np.linspace(1, 0.1, m)[None],
        "rejected": np.full((1, m), False),
        "statistics": ("log norm",),
        "tolerance": 0.1,
        "lost": 0,
    }
    return Evidence(**values | more)


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        (evidence([0.4, 0.2, 0.1], 0.0), "same law", "none can be more than 0.05"),
        (evidence([0.2, 0.2, 0.2], 0.2, depths=np.array([2, 4, 8])), "cannot tell", "from depths below 64 that is a guess"),
        (evidence([0.4, 0.4, 0.4], 0.4, depths=np.array([2, 4, 8])), "another law", "0.4 ± 0.05"),
        (evidence([0.4, 0.4, 0.4], 0.4), "another law", r"function 0 would still be off the limit's by 0.4 ± 0.05"),
        (evidence([0.02, 0.02, 0.02], 0.06), "cannot tell", "seems to differ"),
        (evidence([-0.1, 0.1, 0.2], 0.3), "cannot tell", "still changes with depth, to 0.2"),  # it may yet come down
        (evidence([0.1, 0.2, 0.2], 0.2), "cannot tell", "still changes with depth"),
        (evidence([-0.4, 0.1, 0.21, 0.2, 0.2], 0.2), "another law", "0.2 ± 0.05"),
        (evidence([0.41, 0.4, 0.4], 0.1), "cannot tell", "seems to differ"),  # a quarter of the deepest would remain
        (evidence([0.4, 0.2, 0.1], 0.0, margins=0.2), "cannot tell", "about 4 times as many draws"),
        (evidence([0.1, 0.3, 0.9], 0.4, fits=False), "another law", "grows with depth, to 0.9"),
        (evidence([0.4, 0.3, 0.3], 0.4, fits=False), "cannot tell", "does not fall like a power"),
        (evidence([-0.3, 0.3, 0.9], 0.4, fits=False), "cannot tell", "does not fall like a power"),
        (evidence([0.4, 0.2, 0.1], 0.0, lost=3), "cannot tell", "3 draws were not finite"),
        (evidence([0.4, 0.2, 0.1], 0.0, rejected=np.full((1, 3), True)), "same law", "no difference"),
        (
            evidence([0.4, 0.2, 0.1], 0.0, rejected=np.full((1, 3), True), distances=np.ones((1, 3))),
            "cannot tell",
            "laws of log norm differ at every depth",
        ),
    ],
)
def test_verdicts_follow_from_the_evidence(given, verdict, words):
    found, reason = judge(given)
    assert found == verdict, reason
    assert words in reason


# Pairing and refusals


def test_res3_has_a_limit_in_law_and_compare_points_to_the_room_for_it():
    for network in (dl.res3(4), dl.res2(4, "relu"), dl.res3(4, weights=dl.IID("rademacher"))):
        assert network.limit() == dl.IsotropicSDE(4)
        assert network.regime().convergence == "in law"
        with pytest.raises(dl.NoTheoremError, match=r"cannot pair res[23] .* in law only .* Closest: res1 .* compare_laws"):
            dl.compare(network, depths=[2, 4])
    for given in (dl.IsotropicSDE(1), dl.Independent(dl.IsotropicSDE(1))):  # one unit: one Brownian motion on either side
        with pytest.raises(ValueError, match=r"known in law only .* compare_laws takes it"):
            dl.compare(dl.res1(1, "tanh"), given, depths=[2, 4])
    report = dl.compare(dl.res1(2, "tanh", weights=dl.IID("uniform")), depths=[4, 8], paths=50)
    assert any("compare_laws" in text for text in report.reservations)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (lambda: dl.res2(4, "tanh"), r"cannot pair res2 .*in law only.* compare_laws also takes a limit of your own"),
        (lambda: dl.res3(4, weights=dl.IID(skewed)), r"cannot pair res3 .*skewed weights.*a LawLimit"),
        (lambda: dl.res3(4, exponent=0.25), r"cannot pair res3 .*grow without bound"),
        (lambda: dl.inner(4), r"cannot pair inner"),
    ],
)
def test_networks_without_a_known_limit_are_refused_by_name(network, words):
    with pytest.raises(dl.NoTheoremError, match=words):
        dl.compare_laws(network())


def go(network=None, *args, **knobs):
    return dl.compare_laws(network or dl.res3(2), *args, **({"depths": [2, 4, 8], "draws": 200} | knobs))


@dataclasses.dataclass(frozen=True)
class Drawn(dl.LawLimit):
    value: object = None
    equation = "a law"

    def draw(self, h0, generator):
        return self.value


BAD = {
    "no network": (lambda: go(torch.nn.Identity()), TypeError, r"resnet must come from res1.*Identity"),
    "functions of time": (lambda: go(dl.res1(2, weights=dl.SmoothGaussian())), ValueError, r"independent layers.*compare pairs"),
    "Itô": (lambda: go(dl.inner(2, "tanh", noise=dl.Ito(A=0.1))), ValueError, r"independent layers.*path by path"),
    "two depths": (lambda: go(depths=[2, 4]), ValueError, r"depths must name at least three.*\[2, 4\]"),
    "depths that fall": (lambda: go(depths=[8, 4, 2]), ValueError, r"strictly increasing"),
    "no depths": (lambda: go(depths=16), TypeError, r"depths must be a list"),
    "few draws": (lambda: go(draws=199), ValueError, r"draws must be at least 200, got 199"),
    "draws a float": (lambda: go(draws=1e4), TypeError, r"draws must be an integer"),
    "level 0": (lambda: go(level=0), ValueError, r"level must be more than 0"),
    "level 0.95": (lambda: go(level=0.95), ValueError, r"level must be at most 0.2, got 0.95"),
    "tolerance 0": (lambda: go(tolerance=0.0), ValueError, r"tolerance must be more than 0"),
    "seed": (lambda: go(seed=-1), ValueError, r"seed must be at least 0"),
    "few steps": (lambda: go(steps=4), ValueError, r"steps must be at least 8, got 4"),
    "workers": (lambda: go(workers=0), ValueError, r"workers must be at least 1"),
    "progress": (lambda: go(progress=1), TypeError, r"progress must be a function"),
    "device": (lambda: go(device="tpu"), ValueError, r"device"),
    "dtype": (lambda: go(dtype=torch.float16), ValueError, r"dtype must be"),
    "x of zeros": (lambda: go(x=torch.tensor([[1.0, 1], [0, 0]])), ValueError, r"starting point 0.*row 1"),
    "x of one dimension": (lambda: go(x=torch.ones(2)), ValueError, r"x must have two dimensions"),
    "x too large": (lambda: go(x=torch.full((1, 2), 1e300, dtype=torch.float64)), ValueError, r"too large for float32"),
    "identity": (lambda: go(dl.res3(2, exponent=1.0)), ValueError, r"noise of its own.*the identity.*compare"),
    "an ODE": (lambda: go(dl.res3(2), lambda t, h: h), ValueError, r"noise of its own.*user's ODE"),
    "another width": (lambda: go(dl.res3(2), dl.IsotropicSDE(3)), ValueError, r"limit has width 3, .* width 2"),
    "a tensor": (lambda: go(dl.res3(2), torch.ones(2)), TypeError, r"limit must be a torchsde-style object"),
    "a law of another shape": (
        lambda: go(dl.res3(2), Drawn(torch.ones(3))),
        ValueError,
        r"must return shape \(1, 2\).*got shape \(3,\)",
    ),
    "a law of None": (lambda: go(dl.res3(2), Drawn()), ValueError, r"as h0; got NoneType"),
    "a rate of 0": (lambda: dl.IsotropicSDE(2, 0.0), ValueError, r"rate must be at least 0.001"),
    "a width of 0": (lambda: dl.IsotropicSDE(0), ValueError, r"width must be at least 1"),
    "unknown": (lambda: go(paths=3), TypeError, r"unexpected keyword argument 'paths'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_are_refused_in_words(name):
    call, error, words = BAD[name]
    with pytest.raises(error, match=words):
        call()


# Reports


@pytest.fixture(scope="module")
def report():
    return dl.compare_laws(dl.res3(3), depths=[2, 4, 8, 16], draws=3000, seed=1)


def same(first, second):
    mine, theirs = (dataclasses.replace(r, seconds=0.0).to_dict() for r in (first, second))
    return mine == theirs


def test_results_depend_on_the_seed_and_on_nothing_else():
    network = dl.res3(5, weights=dl.IID("uniform"))
    knobs = {"depths": [2, 4, 8], "draws": 12000, "seed": 3}
    alone = dl.compare_laws(network, workers=1, **knobs)
    assert same(alone, dl.compare_laws(network, workers=3, **knobs))
    other = dl.compare_laws(network, **knobs | {"seed": 4})
    assert alone.mean_squares.tolist() != other.mean_squares.tolist()
    more = dl.compare_laws(network, **knobs | {"depths": [4, 8, 16]})
    assert more.mean_squares[:2].tolist() == alone.mean_squares[1:].tolist()  # a depth's draws are its own


def test_starting_points_are_taken_in_turn_and_their_size_does_not_matter():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    reports = [dl.compare_laws(dl.res3(2), x=size * x, depths=[2, 4, 8], draws=3000, dtype="float64") for size in (1.0, 8.0)]
    assert reports[0].differences == pytest.approx(reports[1].differences, abs=1e-9)
    assert reports[0].inputs == "3 given, in turn"
    wide = dl.compare_laws(dl.res3(2), x=torch.ones(1, 7), depths=[2, 4, 8], draws=300)
    assert wide.verdict != "another law"


def test_the_verdict_comes_first_and_every_depth_has_a_line(report):
    lines = str(report).splitlines()
    assert lines[0].startswith(f"{report.verdict}: ")
    for depth in report.depths:
        assert sum(line.strip().startswith(f"{depth} ") for line in lines) == 1
    for text in ("level 0.001", "Reservations:", "neither paper states it", "spread along h_0"):
        assert text in str(report)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.verdict = "same law"


def test_a_report_reads_back_as_it_was_and_damage_is_named(report, tmp_path):
    report.save(tmp_path / "r.json")
    loaded = dl.load_report(tmp_path / "r.json")
    assert isinstance(loaded, dl.LawReport)
    assert loaded.to_dict() == report.to_dict()
    assert str(loaded) == str(report)
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["kind"] == "laws"
    for field, value in (("p_values", [[0.5]]), ("verdict", "perhaps"), ("grid", None)):
        broken = json.loads(json.dumps(document))
        broken["report"][field] = value
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        with pytest.raises(ValueError, match="damaged laws report"):
            dl.load_report(tmp_path / "broken.json")


def test_the_plot_shows_every_depth_the_limit_and_their_differences(report, tmp_path):
    axes = report.plot(matplotlib.figure.Figure().add_subplot())
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [*(f"network, {depth} layers" for depth in (2, 4, 8, 16)), "limit"]
    for line, expected in zip(axes.get_lines(), [*report.distributions, report.limit_distribution], strict=True):
        assert line.get_ydata().tolist() == expected.tolist()
        assert (np.diff(line.get_ydata()) >= 0).all()
    (inset,) = axes.child_axes
    assert inset.get_lines()[0].get_ydata().tolist() == (report.distributions[0] - report.limit_distribution).tolist()
    report.plot(tmp_path / "r.png")
    assert (tmp_path / "r.png").stat().st_size > 5000
    with pytest.raises(TypeError, match="ax must be matplotlib Axes"):
        report.plot(3)


def test_progress_runs_to_one():
    seen = []
    dl.compare_laws(dl.res1(3, "tanh"), depths=[2, 4, 8], draws=300, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0)


def test_laws_are_drawn_on_every_device(device):
    report = dl.compare_laws(dl.res3(4), depths=[8, 16, 32], draws=4000, device=device)
    exact = (1 + 1 / (2 * report.depths)) ** report.depths
    assert (np.abs(report.mean_squares - exact) < FAR * report.mean_square_errors).all()
    assert report.verdict != "another law"
