"""The theorem table as a whole: rows never contradict each other, and say what they can deliver."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from refusals import assert_refused
from users import INDEPENDENT, Gated, Louder, OneMatrix, orthogonal

import deeplimit as dl
from deeplimit import activations, theory
from deeplimit.driving import TrendAndNoise
from deeplimit.layers import (
    Attention,
    FullyConnected,
    Inner,
    ModifiedRes1,
    PreNorm,
    Res1,
    Res2,
    Res3,
    ShapedMLP,
)
from deeplimit.theory.table import ROWS
from deeplimit.theory.theorem import REGISTERED, failing

WIDTH = 3
TURN = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.1]])
PUSH = torch.tensor([0.1, -0.2, 0.3])
OURS = (Res1, Res2, Res3, Inner, ModifiedRes1, FullyConnected, PreNorm, Attention, ShapedMLP)
ACTIVATIONS = ["identity", "tanh", "relu", "leaky_relu", "softplus", "scaled_silu", "sin"]
EXPONENTS = [0.0, 0.1, 0.25, 0.5, 0.6, 0.7, 0.75, 1.0, 1.25, 2.0]

functions = st.one_of(
    st.just(dl.SmoothGaussian()),
    st.builds(dl.Trend, st.just(lambda t: t * TURN), holder=st.sampled_from([0.25, 0.5, 1.0])),
    st.just(dl.Trend(lambda t: t * TURN, lambda t: t * PUSH)),
)
noises = st.sampled_from([None, dl.Ito(A=0.1), dl.Ito(b=0.1), dl.Ito(A=0.1, b=0.1)])
laws = st.one_of(
    st.just(dl.Brownian()),
    st.sampled_from([dl.IID(law) for law in ("gaussian", "uniform", "rademacher", *INDEPENDENT, orthogonal)]),
    functions,
    st.builds(dl.FractionalBrownian, st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.7, 0.75, 0.9])),
    st.builds(TrendAndNoise, st.one_of(st.none(), functions), noises, st.sampled_from(EXPONENTS)),
    st.just(OneMatrix()),
)

numbers = st.sampled_from(
    [
        dl.Brownian(),
        dl.IID("rademacher"),
        dl.SmoothGaussian(),
        dl.Trend(lambda t: torch.tensor(1.0 - t)),
        dl.Trend(lambda t: torch.tensor(t), holder=0.5),
        dl.FractionalBrownian(0.7),
    ]
)


@st.composite
def networks(draw):
    """Any recursion, the library's or a user's, with any laws, whether a factory would make it or not."""
    kind = draw(st.sampled_from([*OURS, Gated, Louder]))
    recursion = _recursion(kind, draw(st.sampled_from(ACTIVATIONS)))
    one, count = draw(laws), len(kind.weights)
    weights = (one,) * count if draw(st.booleans()) else tuple(draw(laws) for _ in range(count))
    if kind is FullyConnected:
        weights = (one, draw(numbers))
    if kind is ShapedMLP:
        weights = (draw(st.sampled_from([dl.HiddenUnits(0.5), dl.IID()])),)
    assume(
        kind in (Inner, FullyConnected) or all(getattr(law, "b", None) is None for law in weights)
    )  # others are refused
    return dl.ResidualNetwork(recursion, WIDTH, weights, draw(st.sampled_from(EXPONENTS)))


@given(networks())
@settings(max_examples=150)
def test_at_most_one_row_of_the_library_matches_any_network(network):
    matching = [row for row in ROWS if row.matches(network) and not failing(row.regime(network).hypotheses)]
    assert len(matching) <= 1, matching
    if type(network.recursion) not in OURS:
        assert matching == []
    regime = network.regime()
    assert (regime.name == "no theorem") == (matching == [])
    assert theory.find(network).row is (matching[0] if matching else None)


@given(networks())
@settings(max_examples=150)
def test_what_a_regime_says_is_what_the_limit_delivers(network):
    """A pathwise limit exists where one is promised; where none is, the refusal says why and what has one."""
    regime = network.regime()
    assert regime.rate is None or 0.0 <= regime.rate <= network.exponent + 1.0
    assert regime.rate is None or regime.convergence == "pathwise"
    assert regime.explanation
    assert all(sentence.endswith(".") for sentence in (*regime.checked, *regime.not_checked))
    assert all(power > 0.0 for power in (*regime.corrections, *regime.second_orders))
    assert str(regime).startswith(regime.name)
    try:
        limit = network.limit()
    except dl.NoTheoremError:
        assert regime.convergence != "pathwise"
        assert regime.closest
        with pytest.raises(dl.NoTheoremError, match=re.escape(f"{regime.explanation} Closest: ")):
            network.limit()
        return
    assert regime.convergence is not None
    in_law = (dl.IsotropicSDE, dl.RadialSDE, dl.CovarianceSDE)
    assert isinstance(limit, dl.LawLimit) == (type(limit) in in_law)
    if isinstance(limit, dl.LawLimit):
        assert regime.convergence == "in law"


@given(networks())
@settings(max_examples=150)
def test_growth_and_regime_of_one_network_agree(network):
    """What is said of the signal's growth, and what is said of the limit, are two readings of one network."""
    known, regime = theory.growth_of(network), network.regime()
    if type(network.recursion) not in OURS:
        assert known == theory.Growth()
    if known.predicted is None:
        return
    if regime.name == "identity":
        assert known.predicted < 0.0
    elif regime.name == "explosion" and network.exponent != known.critical:
        assert known.predicted > 0.0
    elif regime.name in ("sde", "ode", "young"):
        assert math.isclose(known.predicted, 0.0, abs_tol=1e-9)
    if known.vanishes_beyond is not None and network.exponent <= known.vanishes_beyond:
        assert known.predicted >= 0.0


@pytest.mark.nightly
def test_every_row_of_the_library_is_about_some_network():
    """Every combination of the library's recursions, activations, exponents and some laws is looked up."""
    rough = dl.Trend(lambda t: t * TURN, holder=0.5)
    some = [
        dl.Brownian(),
        dl.IID("uniform"),
        dl.SmoothGaussian(),
        rough,
        dl.FractionalBrownian(0.7),
        dl.AR1(0.5),
    ]
    some += [TrendAndNoise(rough, noise, beta) for noise in (None, dl.Ito(A=0.1)) for beta in (0.0, 0.5, 1.0)]
    networks = [
        _network(kind, name, law, exponent)
        for kind in OURS
        for name in ("tanh", "silu", "relu")
        for law in some
        for exponent in (0.0, 0.25, 0.5, 0.7, 1.0, 1.25)
    ]
    networks += [
        dl.res3(9, exponent=0.25),
        *(dl.inner(2, "softplus", noise=dl.Ito(A=0.1), alpha=alpha) for alpha in (0.7, 1.2)),
        *(dl.res2(2, weights=(dl.Brownian(), dl.SmoothGaussian()), exponent=e) for e in (0.5, 0.8)),
        dl.inner(2, trend=dl.Trend(lambda t: torch.eye(2)), alpha=0.1, beta=0.1),
    ]
    spoken = {type(row).__name__ for each in networks if (row := theory.find(each).row) is not None}
    assert spoken == {type(row).__name__ for row in ROWS}


def _recursion(kind, name):
    if kind is Attention:
        return Attention(2)
    return ShapedMLP() if kind is ShapedMLP else kind(activations.resolve(name, lipschitz=False))


def _network(kind, name, law, exponent):
    recursion = _recursion(kind, name)
    others = {FullyConnected: (law, dl.Trend(lambda t: torch.tensor(t))), ShapedMLP: (dl.HiddenUnits(),)}
    weights = others.get(kind, (law,) * len(kind.weights))
    return dl.ResidualNetwork(recursion, WIDTH, weights, exponent)


def about_inner(network):
    return type(network.recursion) is Inner and network.exponent == 0.75


def zero(network):
    return dl.Identity()


def test_a_registered_row_speaks_first_and_goes_away_again():
    network = dl.inner(WIDTH, "tanh", weights=dl.AR1(0.5), exponent=0.75)
    assert network.regime().name == "no theorem"
    with dl.Theorem.register(
        matches=about_inner, name="identity", limit=zero, rate=0.25, citation="Doe (2026), Theorem 1"
    ) as row:
        regime = network.regime()
        assert (regime.name, regime.theorem, regime.rate) == ("identity", "Doe (2026), Theorem 1", 0.25)
        assert network.limit() == dl.Identity()
        report = dl.compare(network, depths=[8, 16, 32, 64, 128], paths=200)
        assert (report.theorem, report.predicted_rate) == ("Doe (2026), Theorem 1", 0.25)
        assert dl.res1(WIDTH, "tanh").regime().name == "sde"
        assert [each.row for each in REGISTERED] == [row]
    assert not REGISTERED
    assert network.regime().name == "no theorem"


def test_the_latest_of_two_registered_rows_speaks():
    network = dl.res1(WIDTH, "tanh")
    first = dl.Theorem.register(matches=lambda network: True, name="first", convergence=None)
    second = dl.Theorem.register(matches=lambda network: True, name="second", convergence=None)
    assert network.regime().name == "second"
    second.remove()
    second.remove()
    assert network.regime().name == "first"
    with pytest.raises(dl.NoTheoremError, match="cannot pair res1"):
        network.limit()
    first.remove()
    assert network.regime().name == "sde"


def test_a_row_states_the_growth_of_a_users_network():
    class Grows(dl.Theorem):
        def matches(self, network):
            return isinstance(network.weights[0], OneMatrix)

        def regime(self, network):
            return dl.Regime("explosion", "ours", None, None, "one matrix adds up like L.", "exponent=1.")

        def growth(self, network):
            return theory.Growth(critical=1.0)

    network = dl.ResidualNetwork(Res1(activations.resolve("tanh")), WIDTH, (OneMatrix(),), 0.5)
    with dl.Theorem.register(Grows()):
        assert theory.growth_of(network).critical == 1.0
        assert dl.stability(network, [10, 30, 100], draws=20).critical_exponent == 1.0
        assert theory.growth_of(dl.res1(WIDTH, "tanh")).critical == 0.5
    assert theory.growth_of(network).critical is None


ROW = {"matches": about_inner, "name": "ode"}


@pytest.mark.parametrize(
    ("given", "error", "pins"),
    [
        ({}, ValueError, ("row", "neither")),
        (ROW | {"matches": 3}, TypeError, ("matches", "3")),
        (ROW | {"matches": lambda: True}, TypeError, ("matches", "lambda")),
        (ROW | {"name": ""}, ValueError, ("name", "''")),
        (ROW | {"name": 3}, TypeError, ("name", "3")),
        (ROW | {"rate": -1.0}, ValueError, ("rate", "0", "-1")),
        (ROW | {"rate": "1"}, TypeError, ("rate", "'1'")),
        (ROW | {"convergence": "weak"}, ValueError, ("convergence", "'weak'")),
        (ROW | {"convergence": None, "limit": zero}, ValueError, ("convergence", "None")),
        ({"row": "a theorem"}, TypeError, ("row", "'a theorem'")),
        (ROW | {"limit": lambda network, depth: None}, TypeError, ("limit", "lambda")),
        (ROW | {"limit": dl.Identity()}, TypeError, ("limit", "Identity")),
        (ROW | {"limit": dl.NeuralODE}, TypeError, ("limit", "NeuralODE")),
        (ROW | {"citation": 3}, TypeError, ("citation", "3")),
        (ROW | {"not_checked": "that"}, TypeError, ("not_checked", "'that'")),
        (ROW | {"corrections": 1.0}, TypeError, ("corrections", "1.0")),
        (ROW | {"corrections": (0.0,)}, ValueError, ("corrections", "0", "0")),
        (ROW | {"rate": 0.5, "rate_is_bound": "yes"}, TypeError, ("rate_is_bound", "'yes'")),
        (ROW | {"rate_is_bound": True}, ValueError, ("rate_is_bound",)),
    ],
)
def test_a_row_that_says_nothing_usable_is_refused(given, error, pins):
    assert_refused(lambda: dl.Theorem.register(**given), error, *pins)
    assert not REGISTERED


def test_a_users_law_that_states_nothing_gets_no_theorem():
    """Independent layers are not enough: entries of unit variance and their independence must be stated."""

    class Silent(OneMatrix):
        @property
        def facts(self):
            return dl.Facts(dl.Dependence.INDEPENDENT)

    for exponent in (0.25, 0.5, 0.75):
        network = dl.ResidualNetwork(Res1(activations.resolve("tanh")), WIDTH, (Silent(),), exponent)
        assert network.regime().name == "no theorem"
        assert "does not state" in network.regime().explanation
        assert theory.growth_of(network) == theory.Growth()
