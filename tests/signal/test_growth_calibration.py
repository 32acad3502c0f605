"""Growth exponents and verdicts are right as often as they say: 200 replications of cheap cells.

Bounds are those of the binomial law, and of a standard deviation from 200 values, at a level of 1e-5.
"""

import numpy as np
import pytest
from growth_cells import measure_growth_cell
from scipy import stats

import deeplimit as dl

pytestmark = pytest.mark.statistical
LEVEL, COUNT = 1e-5, 200
Z = stats.norm.isf(LEVEL / 2)


def at_least(share):
    """The smallest count of COUNT that is not too small for events of this probability."""
    return stats.binom.ppf(LEVEL, COUNT, share)


@pytest.mark.parametrize(
    ("make", "exponent", "word"),
    [
        (lambda beta: dl.res3(8, exponent=beta), 0.4, "explosion"),
        (lambda beta: dl.res3(8, weights=dl.IID("uniform"), exponent=beta), 0.6, "identity"),
        (lambda beta: dl.res1(8, "relu", exponent=beta), 0.5, "stable"),
        (lambda beta: dl.res1(8, "tanh", exponent=beta), 0.4, "explosion"),
    ],
    ids=["res3", "uniform", "relu", "tanh"],
)
def test_intervals_have_their_level_and_length_and_verdicts_are_given(make, exponent, word):
    """1 - 2β is covered by 93 to 98 %; an interval of 95 % needs 3.9 standard deviations.

    At exponents a tenth from the critical one, and at it, 95 % of calls name the right verdict. That needs
    the default number of draws at the critical exponent.
    """
    draws = 400 if word == "stable" else 200
    cell = measure_growth_cell(
        make(exponent), 1 - 2 * exponent, COUNT, depths=[10, 30, 100, 300], draws=draws
    )
    assert (cell.covered * COUNT >= at_least(0.93)).all()
    by_chance = Z / np.sqrt(2 * COUNT)
    assert (cell.widths > 3.9 * (1 - by_chance)).all()
    assert (cell.widths < 5.0 * (1 + by_chance)).all()
    assert cell.false() <= stats.binom.isf(LEVEL, COUNT, 0.01)
    assert cell.verdicts[word] >= at_least(0.95)


def test_an_exponent_a_twentieth_from_the_critical_one_is_not_called_stable():
    """γ = 0.1 is what "stable" excludes, at one side of a 98 % interval."""
    cell = measure_growth_cell(dl.res1(8, "relu", exponent=0.45), 0.1, COUNT, depths=[10, 30, 100], draws=150)
    assert cell.verdicts["stable"] <= stats.binom.isf(LEVEL, COUNT, 0.01)
    assert cell.verdicts["identity"] == 0


def test_at_width_1_a_norm_that_hardly_grows_is_not_called_stable():
    """Only its mean square explodes there: six of 40 default calls said "stable"."""
    cell = measure_growth_cell(dl.res3(1, exponent=0.4), 0.2, 100, depths=[10, 30, 100, 300, 1000], draws=200)
    assert cell.verdicts["stable"] == cell.verdicts["identity"] == 0
