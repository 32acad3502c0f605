"""Numbers that rows of the table state, and constants of blocks, against moments and powers computed here."""

import dataclasses
import math
import re
from math import comb

import pytest
import torch
from test_bounds_and_orders import STATED
from users import OneMatrix, laplace

import deeplimit as dl
from deeplimit import theory
from deeplimit.theory import fractional_weights


def fractional(make, hurst, exponent=None, **given):
    law = dl.FractionalBrownian(hurst)
    return make(3, "tanh", weights=law, exponent=hurst if exponent is None else exponent, **given)


@pytest.mark.parametrize(
    ("hurst", "rate", "corrections"),
    [
        (0.55, 0.6, (0.8, 1.0)),
        (0.6, 0.7, (0.6, 1.0)),
        (0.74, 0.98, (0.1, 1.0)),  # next to a logarithm, which counts as the power 0.1
        (0.75, 1.0, (0.1, 1.0)),
        (0.9, 1.0, (0.6, 1.0)),
    ],
)
def test_the_modified_euler_scheme_has_the_orders_of_its_second_order_terms(hurst, rate, corrections):
    """Their variance sums k^(4H - 4), beside a whole power of 1/L: |4H - 3| apart."""
    regime = dl.modified_res1(3, "tanh", weights=dl.FractionalBrownian(hurst)).regime()
    assert (regime.name, regime.rate_is_bound) == ("young", False)
    assert regime.rate == pytest.approx(rate)
    assert regime.corrections == pytest.approx(corrections)
    assert ("√log L" in regime.explanation) == (hurst == 0.75)


@pytest.mark.parametrize(
    ("hurst", "rate", "second"), [(0.55, 0.1, 0.5), (0.6, 0.2, 0.5), (0.75, 0.5, 0.5), (0.9, 0.8, 0.2)]
)
def test_the_euler_scheme_of_a_young_equation_has_a_second_source_of_error(hurst, rate, second):
    """Of order min(2H - 1/2, 1), beside 2H - 1; it may hide the first."""
    regime = fractional(dl.res1, hurst).regime()
    assert regime.rate == pytest.approx(rate)
    assert regime.second_orders == pytest.approx((second,))
    assert regime.corrections == pytest.approx(sorted({rate, second, 1.0}))
    assert regime.hides


@pytest.mark.parametrize(
    ("hurst", "exponent", "rate", "second"),
    [
        (0.7, 0.9, 0.2, ()),
        (0.3, 0.6, 0.2, (0.1,)),  # products of neighbours 2·0.6 - 1, beside the sum 0.6 - 0.3
        (0.3, 0.7, 0.4, ()),
        (0.3, 0.9, 0.6, (0.2,)),
        (0.45, 0.8, 0.35, (0.25,)),
    ],
)
def test_above_the_critical_exponent_the_larger_of_two_sums_gives_the_order(hurst, exponent, rate, second):
    regime = fractional(dl.res1, hurst, exponent).regime()
    assert (regime.name, regime.theorem) == ("identity", None)
    assert regime.rate == pytest.approx(rate)
    assert regime.corrections == pytest.approx(sorted({round(rate, 9), 1.0}))
    assert regime.second_orders == pytest.approx(second)
    assert regime.hides is (hurst < 0.5)
    assert "max(H, 1/2) = " + f"{max(hurst, 0.5):g}" in regime.explanation


def test_two_hurst_indices_are_named_where_no_row_covers_them():
    laws = (dl.FractionalBrownian(0.6), dl.FractionalBrownian(0.8))
    regime = dl.res2(3, "tanh", weights=laws, exponent=0.8).regime()
    assert regime.name == "no theorem"
    assert {"0.6", "0.8"} <= set(re.findall(r"\d\.\d", regime.explanation))
    assert regime.closest.startswith(fractional_weights.CLOSEST)


@dataclasses.dataclass(frozen=True)
class Fractional(OneMatrix):
    """A user's law that states what fractional Brownian weights do, and perhaps that it has biases."""

    biased: bool

    @property
    def facts(self):
        of_weights = {"hurst": 0.7, "natural_exponent": 0.7, "biased": self.biased}
        return dl.Facts.of_normal_entries(dl.Dependence.FRACTIONAL, **of_weights)


@pytest.mark.parametrize(("biased", "name"), [(False, "identity"), (True, "no theorem")])
def test_rows_on_fractional_weights_are_on_matrices_alone(biased, name):
    assert dl.inner(3, "tanh", weights=Fractional(biased), exponent=0.9).regime().name == name


def test_no_order_is_stated_where_layers_do_not_enter_linearly():
    regime = fractional(dl.res2, 0.7, 0.9).regime()
    assert (regime.name, regime.rate, regime.corrections) == ("identity", None, (1.0,))
    assert regime.second_orders == ()
    assert not regime.hides


@pytest.mark.parametrize("name", STATED)
def test_further_terms_are_smaller_than_the_first(name):
    regime = STATED[name][0].regime()
    for said in (regime, *([regime.gap] if regime.gap else [])):
        assert min(said.corrections) > 0
        assert min(said.second_orders, default=1.0) > 0
        assert 1.0 in said.corrections


ITO = dl.Ito(A=0.1)


@pytest.mark.parametrize(
    ("beta", "activation", "gone", "rate", "corrections", "seconds", "gap"),
    [
        # Squares L^-1, L^-2 and L^-2g, and of the trend's part products L^-3g and L^-(1 + g).
        (1.7, "tanh", 0.7, 0.5, (0.4, 0.7, 1.0, 1.1), (0.2, 0.5), 0.7),
        (1.2, "tanh", 0.2, 0.2, (0.2, 0.6, 0.8, 1.0, 1.6), (0.3, 0.8), 0.2),
        (1.2, "silu", 0.2, 0.2, (0.2, 0.6, 0.8, 1.0, 1.6), (0.3, 0.8), 0.2),
        (3.0, "tanh", 2.0, 0.5, (1.0, 2.0, 3.0, 5.0), (0.5, 1.5), 1.0),
        (3.0, "silu", 2.0, 0.5, (1.0, 2.0, 3.0, 5.0), (0.5, 1.5), 0.5),
    ],
)
def test_powers_of_a_diffusion_whose_trend_vanishes(beta, activation, gone, rate, corrections, seconds, gap):
    trend = dl.Trend(lambda t: torch.eye(2) * (1.0 + t))
    if activation == "silu":
        activation = "scaled_silu"
    regime = dl.inner(2, activation, trend=trend, noise=ITO, alpha=0.0, beta=beta).regime()
    assert regime.rate == pytest.approx(rate)
    assert regime.corrections == pytest.approx(corrections)
    assert regime.second_orders == pytest.approx(seconds)
    assert regime.gap.rate == pytest.approx(gap)
    assert regime.scheme_rate == 0.5
    assert f"vanishes like L^-{gone:g}" in regime.explanation


def leaky(x):
    return torch.where(x > 0, x, 0.8 * x)


@pytest.mark.parametrize(
    ("activation", "positive", "negative"), [("relu", 1.0, 0.0), ("identity", 1.0, 1.0), (leaky, 1.0, 0.8)]
)
@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_the_eighth_moment_of_a_block_is_that_of_a_sum_of_squares(activation, positive, negative, width):
    """Moments of a sum of d independent terms by the binomial theorem, one term after the other."""
    normal = (1, 1, 3, 15, 105)
    one = [(positive ** (2 * k) + negative ** (2 * k)) / 2 * normal[k] for k in range(5)]
    one[0] = 1.0
    total = [1.0, 0.0, 0.0, 0.0, 0.0]
    for _ in range(width):
        total = [sum(comb(n, k) * total[k] * one[n - k] for k in range(n + 1)) for n in range(5)]
    known = theory.block(dl.res2(width, activation))
    assert known.eighth == pytest.approx(total[4] / width**4, rel=1e-12)
    assert known.kept == pytest.approx(one[1], rel=1e-12)
    assert known.sub_gaussian == 1.0
    assert known.satisfies_a2


def test_a_block_that_reads_the_state_keeps_between_its_two_slopes():
    known = theory.block(dl.res1(5, leaky))
    assert (known.kept_least, known.kept_most) == pytest.approx((0.64, 1.0))
    assert known.kept is None
    assert (known.eighth, known.sub_gaussian, known.has_atoms) == (1.0, 1.0, False)
    twice = theory.block(dl.res1(5, lambda x: 2 * x))
    assert (twice.kept, twice.eighth) == pytest.approx((4.0, 256.0))
    assert not twice.satisfies_a2
    assert not theory.block(dl.res1(5, "relu")).satisfies_a2


def test_atoms_matter_where_the_kink_is_at_0():
    """W h of Rademacher weights may be 0, where ReLU has its kink and the identity has none."""
    for activation, law, expected in (
        ("relu", "rademacher", True),
        ("relu", "gaussian", False),
        ("identity", "rademacher", False),
    ):
        weights = dl.Brownian() if law == "gaussian" else dl.IID(law)
        assert theory.block(dl.res2(4, activation, weights=weights)).has_atoms is expected


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (dl.inner(3, "relu"), "no weight matrix follows the activation"),
        (dl.res3(3, weights=dl.SmoothGaussian()), "layers are not independent"),
        (dl.res2(3, "tanh"), "tanh does not keep a fixed share"),
        (dl.res2(3, "relu", weights=dl.IID(laplace)), "the law of the weights is the user's"),
    ],
    ids=str,
)
def test_a_block_that_the_section_does_not_cover_says_why(network, reason):
    assert reason in theory.covered(network).why_not
    assert theory.block(network) is None
    assert theory.expected_square(network, 10) is None
    assert theory.log_normal(network, 10) is None


@pytest.mark.parametrize(("exponent", "depth"), [(0.5, 100), (0.4, 50), (0.75, 16)])
def test_the_squared_norm_and_its_logarithm_grow_by_a_share_per_layer(exponent, depth):
    """Res-3 keeps one half: a factor 1 + a/2 per layer, and a normal law of variance L a/2 over the width."""
    network = dl.res3(6, exponent=exponent)
    a = depth ** (-2 * exponent)
    assert theory.expected_square(network, depth) == pytest.approx(depth * math.log(1 + a / 2), rel=1e-12)
    mean, deviation = theory.log_normal(network, depth)
    assert deviation == pytest.approx(math.sqrt(depth * a / 2 / 6), rel=1e-12)
    assert mean == pytest.approx(depth * a / 4 * (1 - 2 / 6), rel=1e-12)


ROUGH, LONG = dl.FractionalBrownian(0.3), dl.FractionalBrownian(0.8)


@pytest.mark.parametrize(
    ("network", "critical", "predicted", "vanishes", "faster"),
    [
        (dl.res3(4, exponent=0.8), 0.5, -0.6, 0.5, None),
        (dl.res3(4, exponent=0.3), 0.5, 0.4, 0.5, None),
        (dl.res3(2, exponent=0.3), 0.5, None, 0.5, None),  # |h_L| itself does not grow at width 2
        (dl.res1(2, lambda h: torch.tanh(h) + 2, exponent=0.3), 0.5, 0.4, 0.5, None),  # σ(0) is not 0
        # Large states stop where all entries are negative: at width 2 γ is 0.64 where 1 - 2β is 0.8.
        (dl.res1(2, "sigmoid", exponent=0.3), 0.5, None, 0.5, None),
        (dl.res1(9, lambda h: h * torch.relu(1 - h.abs()), exponent=0.3), 0.5, None, 0.5, None),
        (dl.res2(9, lambda h: h * torch.relu(1 - h.abs()), exponent=0.3), 0.5, None, 0.5, None),
        (dl.res2(4, "sigmoid", exponent=0.3), 0.5, 0.4, 0.5, None),  # half of W h is positive
        (dl.res1(4, "sin", exponent=0.3), 0.5, 0.4, 0.5, None),
        (dl.res1(4, "silu", exponent=0.3), 0.5, None, 0.5, None),  # neither bounded nor homogeneous
        (dl.res1(4, "silu", exponent=0.6), 0.5, -0.2, 0.5, None),
        (dl.inner(4, "tanh", weights=dl.Brownian(), exponent=0.7), 0.5, -0.4, 0.5, None),
        (dl.res2(4, "tanh", weights=LONG, exponent=0.9), 0.6, -0.6, 0.6, 0.1),
        (dl.res2(4, "tanh", weights=dl.FractionalBrownian(0.9), exponent=0.8), 0.8, 0.0, 0.8, 0.3),
        # ReLU(W h) keeps a mean, so that the exponent is that of V alone.
        (dl.res2(4, "relu", weights=dl.FractionalBrownian(0.7), exponent=0.8), 0.7, -0.2, 0.7, 0.2),
        (dl.res2(4, "tanh", weights=dl.SmoothGaussian(), exponent=1.5), 1.0, -1.0, 1.0, None),
        (dl.res2(4, "tanh", weights=dl.FractionalBrownian(0.7), exponent=0.6), 0.5, -0.2, 0.5, None),
        (dl.res2(4, "tanh", weights=dl.FractionalBrownian(0.7), exponent=0.4), 0.5, None, 0.5, None),
        (dl.res1(4, "tanh", weights=LONG, exponent=0.8), 0.8, 0.0, 0.8, 0.3),
        (dl.res1(4, "tanh", weights=LONG, exponent=1.0), 0.8, -0.4, 0.8, 0.3),
        (dl.res1(4, "tanh", weights=LONG, exponent=0.7), 0.8, None, 0.8, 0.3),
        (dl.res1(4, "tanh", weights=dl.SmoothGaussian(), exponent=1.25), 1.0, -0.5, 1.0, None),
        (dl.res1(4, "tanh", weights=ROUGH, exponent=0.6), None, None, 0.5, None),
        (dl.res2(4, "tanh", weights=ROUGH, exponent=0.6), 0.5, None, 0.5, None),
    ],
    ids=str,
)
def test_growth_is_known_as_far_as_sums_of_layers_tell(network, critical, predicted, vanishes, faster):
    """A sum of L layers is of size L^c, and the squared change of size L^{2(c - β)}."""
    known = theory.growth_of(network)
    given = {"critical": critical, "predicted": predicted, "vanishes_beyond": vanishes, "faster": faster}
    for name, value in given.items():
        found = getattr(known, name)
        assert (found is None) == (value is None), name
        assert found is None or found == pytest.approx(value, abs=1e-12), name
