"""Tests between two laws, what remains at infinite depth, and the verdicts that follow."""

import numpy as np
import pytest

from deeplimit.judge.in_law import two_sample as statistics
from deeplimit.judge.in_law.verdict import Evidence, judge
from deeplimit.judge.in_law.wording import reason

# Statistics


def test_holm_multiplies_the_smallest_by_their_number_and_never_reverses_an_order():
    adjusted = statistics.holm(np.array([[0.01, 0.04], [0.03, 0.005]]))
    assert adjusted == pytest.approx(np.array([[0.03, 0.06], [0.06, 0.02]]))
    assert statistics.holm(np.full(3, 0.9)).tolist() == [1.0, 1.0, 1.0]


def test_the_energy_test_is_calibrated_and_sees_what_margins_do_not():
    random = np.random.default_rng(0)
    p = [statistics.energy_test(*random.normal(size=(2, 60, 3)), 0.05, random)[1] for _ in range(100)]
    assert sum(value <= 0.05 for value in p) <= 16  # of 100 at 5 % each, more have probability 1e-5
    assert sum(value <= 0.5 for value in p) >= 29
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


def test_a_p_value_counts_the_observed_distance_among_the_permuted_ones():
    """No swap in a thousand reaches the distance of two laws ten deviations apart: p = 1/1001, never 0."""
    random = np.random.default_rng(3)
    x, y = random.normal(size=(2, 40, 2))
    assert statistics.energy_test(x, y + 10.0, 0.01, random)[1] == pytest.approx(1 / 1001, rel=1e-12)


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


REJECTED = np.full((1, 3), True)
SHALLOW = np.array([2, 4, 8])


@pytest.mark.parametrize(
    ("given", "verdict", "rule", "number"),
    [
        (evidence([0.4, 0.2, 0.1], 0.0), "same law", "agrees", "0.05"),
        (evidence([0.2, 0.2, 0.2], 0.2, depths=SHALLOW), "cannot tell", "differs_at_small_depth", "64"),
        (evidence([0.4, 0.4, 0.4], 0.4, depths=SHALLOW), "another law", "differs_at_infinite_depth", "0.4"),
        (
            evidence([[0.3, 0.3, 0.3], [0.4, 0.4, 0.4]], [0.3, 0.4]),
            "another law",
            "differs_at_infinite_depth",
            "function 1 would still be off the limit's by 0.4 ± 0.05",
        ),
        (evidence([0.02, 0.02, 0.02], 0.06), "cannot tell", "is_not_shown_clearly", "0.06 ± 0.05"),
        (evidence([-0.1, 0.1, 0.2], 0.3), "cannot tell", "still_changes", "0.2"),  # it may yet come down
        (evidence([0.1, 0.2, 0.2], 0.2), "cannot tell", "still_changes", "0.2"),
        (
            evidence([-0.4, 0.1, 0.21, 0.2, 0.2], 0.2),
            "another law",
            "differs_at_infinite_depth",
            "0.2 ± 0.05",
        ),
        # a quarter of the deepest would remain
        (evidence([0.41, 0.4, 0.4], 0.1), "cannot tell", "is_not_shown_clearly", "0.1 ± 0.05"),
        (
            evidence([0.4, 0.2, 0.1], 0.0, margins=0.2),
            "cannot tell",
            "is_too_uncertain",
            "4 times as many draws",
        ),
        (
            evidence([[0.1, 0.2, 0.3], [0.1, 0.3, 0.9]], [0.4, 0.4], fits=False),
            "another law",
            "grows_with_depth",
            "function 1 grows with depth, to 0.9",
        ),
        (evidence([0.4, 0.3, 0.3], 0.4, fits=False), "cannot tell", "follows_no_expansion", "function 0"),
        (evidence([-0.3, 0.3, 0.9], 0.4, fits=False), "cannot tell", "follows_no_expansion", "function 0"),
        (evidence([0.1, -0.3, 0.9], 0.4, fits=False), "cannot tell", "follows_no_expansion", "function 0"),
        (evidence([0.4, 0.2, 0.1], 0.0, lost=3), "cannot tell", "draws_were_lost", "3"),
        (evidence([0.4, 0.2, 0.1], 0.0, rejected=REJECTED), "same law", "agrees", "0.05"),
        (
            evidence([0.4, 0.2, 0.1], 0.0, rejected=REJECTED, distances=np.ones((1, 3))),
            "cannot tell",
            "differs_in_another_way",
            "log norm",
        ),
    ],
)
def test_verdicts_follow_from_the_evidence(given, verdict, rule, number):
    found = judge(given)
    assert (found.code, found.rule) == (verdict, rule)
    assert number in reason(found)
