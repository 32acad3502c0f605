"""Each published setting is given the regime, the rate and the statement of its theorem."""

import pytest

import deeplimit as dl


def test_each_setting_has_the_regime_the_rate_and_the_statement_of_its_theorem():
    smooth, gaussian = dl.SmoothGaussian(), dl.Brownian()
    table = [
        (gaussian, 0.8, "identity", "Corollary 5", 0.3),
        (gaussian, 0.5, "sde", "Proposition 11", 0.5),
        (gaussian, 0.4, "explosion", "Corollary 5", None),
        (smooth, 1.25, "identity", "Proposition 13", 0.25),
        (smooth, 1.0, "ode", "Proposition 12", 1.0),
    ]
    for weights, exponent, name, statement, rate in table:
        regime = dl.res1(9, "identity", weights=weights, exponent=exponent).regime()
        assert (regime.name, regime.rate) == (name, None if rate is None else pytest.approx(rate))
        assert regime.theorem.startswith(f"{statement} of Marion")
