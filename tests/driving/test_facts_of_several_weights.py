"""Facts of several weights at once, and what is found out about a user's sampler."""

import dataclasses

import pytest
import torch
from users import gaussian, orthogonal, the_same_in_every_call

import deeplimit as dl
from deeplimit.driving.law import Dependence, Facts, together
from deeplimit.driving.sampler_test import _statistics

FULL = Facts.of_normal_entries(
    Dependence.SMOOTH,
    deterministic=True,
    hurst=0.7,
    holder=0.7,
    length_scale=0.1,
    natural_exponent=0.7,
    tested=("one",),
    found=("two",),
    not_known=("three",),
)


def beside(**changed):
    """What is known of the weight above and another one, which differs in words where nothing is given."""
    return together((FULL, dataclasses.replace(FULL, **({"tested": ("four",)} | changed))))


def test_facts_that_all_weights_state_are_kept():
    assert together((FULL, FULL)) is FULL
    assert beside() == dataclasses.replace(FULL, tested=("one", "four"))


@pytest.mark.parametrize(
    ("name", "other", "both"),
    [
        ("dependence", Dependence.INDEPENDENT, Dependence.MIXED),
        ("gaussian", False, False),
        ("independent_entries", False, False),
        ("independent_entries", None, None),
        ("symmetric", False, False),
        ("unit_variance", False, False),
        ("sub_gaussian", None, None),
        ("sub_gaussian", 2.0, 2.0),
        ("sub_gaussian", 0.5, 1.0),
        ("atoms", True, True),
        ("deterministic", False, False),
        ("hurst", 0.8, None),
        ("hurst", None, None),
        ("holder", 0.8, 0.7),
        ("holder", 0.6, 0.6),
        ("holder", None, None),
        ("length_scale", 0.2, None),
        ("natural_exponent", 0.5, 0.5),
        ("natural_exponent", 1.0, 0.7),
        ("natural_exponent", None, None),
        ("biased", True, True),
        ("tested", ("one", "five"), ("one", "five")),
        ("found", ("five",), ("two", "five")),
        ("not_known", (), ("three",)),
    ],
)
def test_a_fact_that_one_weight_lacks_is_lost_or_the_weaker_one_holds(name, other, both):
    assert getattr(beside(**{name: other}), name) == both


def test_a_dependent_sampler_is_stationary_only_where_its_layers_depend():
    of_layers, of_entries = (dl.IID(sampler).facts for sampler in (the_same_in_every_call, orthogonal))
    assert of_layers.dependence == Dependence.STATIONARY
    assert of_entries.dependence == Dependence.INDEPENDENT
    for facts in (of_layers, of_entries):
        assert (facts.independent_entries, facts.unit_variance, facts.natural_exponent) == (False, True, None)
    facts = dl.IID(gaussian).facts
    assert (facts.dependence, facts.natural_exponent) == (Dependence.INDEPENDENT, 0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("width", [2, 5])
def test_every_statistic_of_independent_draws_has_deviation_1(width):
    """500 samples of 40 layers: variances within a third, 4.7 errors at kurtosis 4.5.

    Ranks sum to 0, so that means are up to .7/d below 0.
    """
    stream = torch.Generator().manual_seed(3)
    seen = [
        list(_statistics(torch.randn(40, width, width, generator=stream, dtype=torch.float64)))
        for _ in range(500)
    ]
    for k, (words, *_) in enumerate(seen[0]):
        values = torch.tensor([found[k][1] for found in seen])
        assert -0.7 / width - 0.2 < float(values.mean()) < 0.2, words
        assert abs(float(values.var()) - 1.0) < 1 / 3, words
