"""The residual exponent between explosion and identity, for weights that remember."""

import pytest

import deeplimit as dl
from deeplimit import theory


@pytest.mark.parametrize(
    ("network", "critical"),
    [
        (dl.res3(4, weights=dl.FractionalBrownian(0.7)), 0.7),
        (dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)), 0.7),
        # V and an odd σ(W h) both change sign: 0.7 + 0.7 - 1 is below 1/2, which independent updates have.
        (dl.res2(4, "tanh", weights=dl.FractionalBrownian(0.7)), 0.5),
        (dl.res2(4, "tanh", weights=dl.FractionalBrownian(0.9)), 0.8),
        # ReLU(W h) keeps a mean, so that the exponent is that of V alone.
        (dl.res2(4, "relu", weights=dl.FractionalBrownian(0.7)), 0.7),
        (dl.res2(4, "tanh"), 0.5),
        (dl.res2(4, "tanh", weights=dl.SmoothGaussian()), 1.0),
    ],
    ids=str,
)
def test_a_critical_exponent_is_that_of_both_factors_together_and_at_least_one_half(network, critical):
    assert theory.growth_of(network).critical == critical
