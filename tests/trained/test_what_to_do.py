"""A statistic that cannot be had is refused with the layers that were given."""

import numpy as np
import pytest
from refusals import assert_refused

from deeplimit.trained.diagnosis.correlations import lag_correlations
from deeplimit.trained.diagnosis.hurst import roughness
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.nugget import noise_share
from deeplimit.trained.diagnosis.order_test import order_test
from deeplimit.trained.diagnosis.smoother import compare_models

APART = LayerGram(np.eye(5), 9, (0, 1, 2, 3, 4))
PAIRS = LayerGram(np.eye(4), 9, (0, 0, 1, 1))
NOTHING = LayerGram(np.zeros((6, 6)), 9)


@pytest.mark.parametrize(
    ("statistic", "given"),
    [
        (lambda: lag_correlations(APART, 9.0), "(0, 1, 2, 3, 4)"),
        (lambda: order_test(APART), "(0, 1, 2, 3, 4)"),
        (lambda: roughness(LayerGram(np.eye(3), 9)), "3"),
        (lambda: roughness(NOTHING), "0"),
        (lambda: roughness(PAIRS, about_mean=True), "(0, 0, 1, 1)"),
        (lambda: noise_share(NOTHING), "0"),
        (lambda: noise_share(PAIRS), "(0, 0, 1, 1)"),
        (lambda: compare_models(PAIRS), "(0, 0, 1, 1)"),
        (lambda: compare_models(LayerGram(np.eye(300), 9, (0, 1) * 150)), "300"),
        (lambda: compare_models(NOTHING), "equal"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_was_given(statistic, given):
    assert_refused(statistic, ValueError, given)
