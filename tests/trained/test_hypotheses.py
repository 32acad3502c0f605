"""Each rule from slopes over depth to a hypothesis, at evidence that it alone decides."""

import numpy as np
import pytest

from deeplimit.trained.diagnosis.hypotheses import Evidence, judge
from deeplimit.trained.diagnosis.slopes import UNKNOWN, Slope
from deeplimit.trained.diagnosis.trend import TrendEvidence


def near(value, off=0.04):
    """A slope that is known to within `off`."""
    return Slope(value, (value - off, value + off), (value - off, value + off))


def trend(p_value, energy=1.0, error=0.1):
    """At most energy + 3 errors of a trend, for noise of energy 1."""
    one = np.ones(1)
    return TrendEvidence(8 * one, energy * one, error * one, one, 0 * one, p_value)


def evidence(**more):
    """Smooth weights of size L^-0.3 whose noise falls like L^-1/2: Hypothesis 1."""
    given = {
        "weight": "A",
        "noise": near(-0.5),
        "below_rounding": False,
        "concentration": near(0.0),
        "smoothness": near(0.9),
        "fresh": (0.98, 1.02),
        "trend": trend(0.001),
        "size": near(0.3),
        "roughness": UNKNOWN,
        "depths": 5,
    }
    return Evidence(**given | more)


STAYS, NONE = {"noise": near(0.0)}, {"trend": trend(0.5, 0.1)}
ROUGH = {"smoothness": near(0.0), "roughness": near(0.75)}
WHITE = {"smoothness": near(0.0), "roughness": near(0.5)}


@pytest.mark.parametrize(
    ("given", "verdict", "rule"),
    [
        ({"depths": 2}, "cannot tell", "has_too_few_depths"),
        ({"noise": UNKNOWN}, "cannot tell", "has_too_few_depths"),
        ({"concentration": near(-1.0)}, "sparse", "is_sparse"),
        ({"concentration": near(-0.5, 0.4)}, "cannot tell", "may_be_sparse"),
        ({**STAYS, "fresh": (0.8, 0.9)}, "cannot tell", "may_be_a_rough_path"),
        (STAYS, "sde", "keeps_noise_and_trend"),
        ({**STAYS, "trend": trend(0.5, 5.0)}, "sde", "keeps_noise_and_own_trends"),
        (
            {**STAYS, "trend": trend(0.5, 1.8)},
            "cannot tell",
            "may_hide_a_trend",
        ),  # as noise of H = .65 has it
        ({**STAYS, "trend": trend(0.5, 30.0), "fresh": (0.8, 0.9)}, "cannot tell", "may_be_a_rough_path"),
        ({**STAYS, **NONE}, "no trend", "is_noise_that_stays"),
        ({**STAYS, "trend": trend(0.5, 0.1, error=0.2)}, "cannot tell", "may_hide_a_trend"),
        ({**WHITE, **NONE}, "no trend", "layers_are_independent"),
        ({**WHITE, **NONE, "noise": near(0.5), "size": near(0.0)}, "no trend", "layers_are_independent"),
        ({**WHITE, "noise": near(0.5)}, "cannot tell", "grows_rough"),  # and networks share a trend
        ({**WHITE, **NONE, "roughness": near(0.53, 0.02)}, "no trend", "layers_are_independent"),
        ({**WHITE, **NONE, "roughness": near(0.65, 0.12)}, "cannot tell", "may_be_independent"),
        ({**WHITE, **NONE, "roughness": near(0.5, 0.2)}, "cannot tell", "may_be_independent"),
        ({**ROUGH, **NONE}, "no trend", "is_noise_that_changes"),
        ({**ROUGH, **NONE, "noise": near(0.2)}, "no trend", "is_noise_that_changes"),
        ({"noise": near(0.2)}, "cannot tell", "grows_rough"),
        ({**ROUGH, "noise": near(0.2)}, "cannot tell", "grows_rough"),
        ({"size": near(0.0)}, "neural-ode", "keeps_its_size"),
        ({"homogeneous": True}, "neural-ode", "keeps_its_size"),
        ({"size": near(0.0, 0.2)}, "cannot tell", "is_smooth"),
        ({}, "linear-ode", "shrinks_smoothly"),
        ({"noise": UNKNOWN, "below_rounding": True, **ROUGH}, "linear-ode", "shrinks_smoothly"),
        ({"bent": near(0.5)}, "linear-ode", "shrinks_smoothly"),
        ({"bent": near(0.0)}, "neural-ode", "keeps_what_it_bends"),
        ({"bent": near(0.0, 0.2)}, "cannot tell", "may_be_linear"),
        ({"bent": UNKNOWN}, "cannot tell", "may_be_linear"),
        ({"bent": near(0.5), "size": near(0.0)}, "neural-ode", "keeps_its_size"),
        (WHITE, "linear-ode", "shrinks_smoothly"),  # noise falls beside a trend, whatever its share
        ({**WHITE, "trend": trend(0.5, 5.0)}, "linear-ode", "shrinks_smoothly"),
        ({**WHITE, "trend": trend(0.5, 5.0), "fresh": (0.9, 1.02)}, "cannot tell", "may_be_independent"),
        ({**ROUGH, "fresh": (0.8, 0.9)}, "cannot tell", "is_uncertain"),  # networks share rough noise
        # Noise falls; neighbours may not draw near.
        ({"smoothness": near(0.05, 0.3), **NONE}, "cannot tell", "is_uncertain"),
        ({"noise": near(-0.1, 0.2)}, "cannot tell", "is_uncertain"),  # neighbours draw near; noise may stay
        ({"size": near(-0.3)}, "cannot tell", "is_uncertain"),
    ],
)
def test_every_rule_decides_where_it_alone_holds(given, verdict, rule):
    found = judge(evidence(**given))
    assert (str(found.code), found.rule) == (verdict, rule)
