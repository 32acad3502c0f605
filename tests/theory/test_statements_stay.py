"""What the table says of networks of every kind, and numbers that follow from it, are what they were."""

import functools
import itertools
import json

import kept_numbers
import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit import theory
from deeplimit.theory import explosion
from tests.guard.specimens.noise import noises
from tests.guard.specimens.shared import TREND, rough, skewed

same = functools.partial(kept_numbers.check, "theory")
WIDTH = 4
MATRICES = dl.Trend(lambda t: (1 + t) * torch.eye(WIDTH))
LAWS = {
    "usual": None,
    "Brownian": dl.Brownian(),
    "Rademacher": dl.IID("rademacher"),
    "uniform": dl.IID("uniform"),
    "sampled": dl.IID(skewed),
    "smooth": dl.SmoothGaussian(0.3),
    "trend": MATRICES,
    "rough trend": dl.Trend(rough, holder=0.4),
    "fractional": dl.FractionalBrownian(0.7),
    "steep": dl.FractionalBrownian(0.95),
    "slow": dl.FractionalBrownian(0.55),
    "rough": dl.FractionalBrownian(0.3),
    "remembering": dl.AR1(0.5),
    "moving average": dl.MovingAverage((1.0, 0.5)),
}
MADE = {
    "res1": dl.res1,
    "modified_res1": lambda width, activation, weights, exponent: dl.modified_res1(
        width, activation, weights=weights
    ),
    "res2": dl.res2,
    "res3": lambda width, activation, **how: dl.res3(width, **how),
    "inner": dl.inner,
    "fully_connected": lambda width, activation, weights, exponent: dl.fully_connected(
        width, activation, weights=weights, exponent=exponent
    ),
    "prenorm": lambda width, activation, weights, exponent: dl.ResidualNetwork(
        dl.PreNorm(activation, "rms"), width, weights, exponent
    ),
    "layer norm": lambda width, activation, weights, exponent: dl.ResidualNetwork(
        dl.PreNorm(activation, "layer"), width, weights, exponent
    ),
    "attention": lambda width, activation, **how: dl.attention(width, tokens=2, **how),
    "convolutional": lambda width, activation, **how: dl.convolutional(width, activation, size=(3, 3), **how),
}
EXPONENTS = (None, 0.0, 0.25, 0.3, 0.5, 0.7, 0.75, 1.0, 1.5)


class Sentence(str):
    """What may be worded otherwise: only which networks are told the same is kept."""


def numbered(told, sentences):
    """Return the same with each sentence replaced by its number, in the order of first appearance."""
    if isinstance(told, Sentence):
        return sentences.setdefault(told, len(sentences))
    return [numbered(each, sentences) for each in told] if isinstance(told, (list, tuple)) else told


def regime(found):
    """Return the codes and numbers of a regime."""
    if found is None:
        return None
    numbers = [found.rate, found.corrections, found.second_orders, found.scheme_rate]
    flags = "".join("ft"[flag] for flag in (found.interfere, found.hides, found.rate_is_bound, found.moments))
    truths = [str(each.truth) for each in found.hypotheses]
    truths += [Sentence(each.name + each.why) for each in found.hypotheses]
    truths += [Sentence(found.explanation), kept_numbers.said(found.explanation), Sentence(found.closest)]
    told = [len(found.checked), len(found.not_checked), len(found.citations), bool(found.closest)]
    gap = found.gap if found.gap is None else [found.gap.name, found.gap.rate, found.gap.corrections]
    theorem = None if found.theorem is None else kept_numbers.said(found.theorem)
    return [found.name, found.convergence, theorem, numbers, flags, truths, told, gap]


def said(network):
    """Return what the table says of a network."""
    try:
        limit = type(network.limit()).__name__
    except dl.NoTheoremError as error:
        limit = [Sentence(error), kept_numbers.said(str(error))]
    growth, gradients = theory.growth_of(network), theory.gradients_of(network)
    known = theory.block(network)
    exact = [theory.expected_square(network, depth) for depth in (1, 16)]
    normal = theory.log_normal(network, 16)
    told = [limit, regime(network.regime()), growth, regime(gradients), len(theory.reservations(network))]
    return [*told, known and [known, known.kept, known.satisfies_a2], exact, normal]


def once(found):
    """Return every different statement once, and which of them each network has."""
    sentences = {}
    every = {name: kept_numbers.plain(numbered(told, sentences)) for name, told in found.items()}
    different = sorted({json.dumps(told) for told in every.values()})
    return [json.loads(each) for each in different], {
        n: different.index(json.dumps(t)) for n, t in every.items()
    }


def tried(make, *given, **how):
    try:
        return said(make(*given, **how))
    except (ValueError, TypeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("kind", MADE)
def test_what_is_said_of_networks_of_one_law_stays(kind):
    found = {}
    every = list(itertools.product(LAWS.items(), ("tanh", "relu", "softplus", "identity"), EXPONENTS))
    # A few of each law and activation, with exponents in turn.
    for place, ((name, law), activation, exponent) in enumerate(every):
        if place % 5 == 0 or (activation == "tanh" and exponent in (None, 0.5, 1.0) and place % 2):
            key = f"{name}, {activation}, {exponent}"
            found[key] = tried(MADE[kind], WIDTH, activation, weights=law, exponent=exponent)
    same(kind, once(found))


TWO = {
    f"{first}, {second}": (LAWS[first] or dl.Brownian(), LAWS[second] or dl.Brownian())
    for first in ("usual", "Rademacher", "smooth", "trend", "fractional", "remembering")
    for second in ("usual", "uniform", "trend", "smooth", "rough trend", "rough")
}


@pytest.mark.parametrize("exponent", [None, 0.25, 0.5, 1.0])
def test_what_is_said_of_networks_of_two_laws_stays(exponent):
    found = {
        f"{name}, {activation}": tried(dl.res2, WIDTH, activation, weights=laws, exponent=exponent)
        for name, laws in TWO.items()
        for activation in ("tanh", "relu")
    }
    same(f"two laws, {exponent}", once(found))


PLACES = [(0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (0.25, 0.75), (0.25, 1.0), (0.4, 0.4), (0.5, 0.5), (0.7, 0.3)]
PLACES += [(0.75, 0.75), (1.0, 0.0), (1.0, 0.5), (1.0, 1.0), (1.2, 0.1), (0.3, 0.2), (0.1, 1.4), (0.9, 0.1)]


@pytest.mark.parametrize("activation", ["tanh", "scaled_silu", "softplus", "relu", "identity"])
@pytest.mark.parametrize("trend", ["none", "smooth", "rough"])
def test_what_is_said_of_the_plane_of_exponents_stays(activation, trend):
    trends = {"none": None, "smooth": TREND, "rough": dl.Trend(rough, holder=0.4)}
    found = {}
    for alpha, beta in PLACES:
        for name in (None, "number", "biases-alone", "full"):
            noise = None if name is None else noises()[name]
            how = {"trend": trends[trend], "noise": noise, "alpha": alpha, "beta": beta}
            found[f"{alpha}, {beta}, {name}"] = tried(dl.inner, WIDTH, activation, **how)
    same(f"plane, {activation}, {trend}", once(found))


def test_what_is_said_of_shaped_and_attentive_networks_stays():
    found = {}
    for exponent, slopes in itertools.product((None, 0.25, 0.5, 1.0), ((0.0, -1.0), (1.0, 1.0), (0.0, 0.0))):
        for ratio in (0.5, 2.0):
            how = {"depth_to_width": ratio, "slopes": slopes, "exponent": exponent}
            found[f"shaped, {how}"] = tried(dl.shaped_mlp, 2, **how)
    for exponent, (name, law), tokens in itertools.product((None, 0.5, 1.0), LAWS.items(), (1, 3)):
        found[f"attention, {exponent}, {name}, {tokens}"] = tried(
            dl.attention, 3, tokens=tokens, weights=law, exponent=exponent
        )
    for delta, exponent in itertools.product(
        (1.0, 0.5, dl.Trend(lambda t: t), dl.Brownian()), (None, 0.5, 1.0)
    ):
        how = {"delta": delta, "exponent": exponent, "weights": TREND}
        found[f"fully connected, {type(delta).__name__} {delta}, {exponent}"[:60]] = tried(
            dl.fully_connected, WIDTH, "tanh", **how
        )
    same("others", once(found))


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "identity", "gelu"])
def test_the_clock_of_correlations_stays(activation):
    clock = dl.CorrelationClock(activation, initial=2.0)
    rates = (-1.0, -0.5, 0.0, 0.3, 0.99, 1.0)
    found = [clock.update, [clock.map(rho) for rho in rates], [clock.time(depth) for depth in (1, 10)]]
    found.append([clock.time(10, exponent) for exponent in (0.0, 0.25, 1.0)])
    found.append([clock.at_time(rho, 0.7) for rho in (-0.5, 0.3)])
    found.append([clock.at_depth(rho, depth, 0.25) for rho in rates for depth in (1, 5)])
    same(f"clock, {activation}", found)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize(("bias", "curvature"), [(0.0, 2.0), (0.1, 3.0), (0.0, -3.0)])
def test_probabilities_of_explosion_stay(width, bias, curvature):
    starts = np.random.default_rng(0).standard_normal((200, width))
    found = [explosion.probability(starts, variance, bias, 0.8, curvature, 3) for variance in (0.3, 3.0)]
    same(
        f"explosion, {width}, {bias}, {curvature}",
        (found, kept_numbers.said(explosion.in_words(width, 2.0, bias, 0.8, curvature))),
    )


def test_wide_networks_keep_their_numbers():
    found = {
        f"{name}, {width}": said(made(width))
        for width in (1, 2, 50)
        for name, made in {
            "res1": lambda d: dl.res1(d, "relu"),
            "res2": lambda d: dl.res2(d, "leaky_relu"),
            "res3": dl.res3,
        }.items()
    }
    same("widths", once(found))
