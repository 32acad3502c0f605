"""A statistic that cannot be had says what was given, and what to do instead."""

import numpy as np
import pytest

from deeplimit.diagnosis.correlations import lag_correlations
from deeplimit.diagnosis.hurst import roughness
from deeplimit.diagnosis.layer_gram import LayerGram
from deeplimit.diagnosis.nugget import noise_share
from deeplimit.diagnosis.order_test import order_test
from deeplimit.diagnosis.smoother import compare_models

APART = LayerGram(np.eye(5), 9, (0, 1, 2, 3, 4))
NOTHING = LayerGram(np.zeros((6, 6)), 9)


@pytest.mark.parametrize(
    ("statistic", "given"),
    [
        (lambda: lag_correlations(APART, 9.0), "got groups (0, 1, 2, 3, 4)"),
        (lambda: order_test(APART), "got groups (0, 1, 2, 3, 4)"),
        (lambda: roughness(LayerGram(np.eye(3), 9)), "got 3"),
        (lambda: roughness(NOTHING), "got a sum of squares of 0"),
        (lambda: roughness(APART, about_mean=True), "got 5 in groups (0, 1, 2, 3, 4)"),
        (lambda: noise_share(NOTHING), "got a mean square of 0"),
        (lambda: noise_share(APART), "got 5 layers in groups (0, 1, 2, 3, 4)"),
        (lambda: compare_models(APART), "got 5 layers in groups (0, 1, 2, 3, 4)"),
        (lambda: compare_models(LayerGram(np.eye(300), 9, (0, 1) * 150)), "got 300 layers"),
        (lambda: compare_models(NOTHING), "all layers of a group are equal"),
    ],
)
def test_what_cannot_be_had_is_said_with_what_to_do(statistic, given):
    with pytest.raises(ValueError, match=r"^(?!$)") as refused:
        statistic()
    before, _, after = str(refused.value).partition(given)
    assert before
    assert any(verb in after for verb in ("; take ", "; give ", "; leave "))
