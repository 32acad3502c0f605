"""Networks that hypothesis draws for a theorem are such networks, and a wrong limit is refused for them."""

import pytest
from hypothesis import HealthCheck, given, settings

import deeplimit as dl
from deeplimit.testing import strategies

FEW = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.differing_executors]
)
THEOREMS = ("Proposition 11", "Proposition 12", "Theorem 4.3", "Theorem 4.4")


@pytest.mark.parametrize("theorem", THEOREMS)
def test_every_network_that_is_drawn_has_the_theorem_and_its_width(theorem):
    @FEW
    @given(strategies.networks(theorem, widths=(2, 3)))
    def holds(network):
        assert network.regime().theorem.startswith(theorem)
        assert network.width in {2, 3}

    holds()


def test_all_four_theorems_are_drawn_where_none_is_named():
    seen = set()

    @settings(FEW, max_examples=40)
    @given(strategies.networks())
    def collect(network):
        seen.update(theorem for theorem in THEOREMS if network.regime().theorem.startswith(theorem))

    collect()
    assert seen == set(THEOREMS)


@FEW
@given(strategies.weight_laws())
def test_weight_laws_keep_the_contract_of_laws_as_far_as_drawing_goes(law):
    law.check((2, 2))
    assert isinstance(law, dl.WeightLaw)


def test_activations_without_a_kink_leave_relu_out():
    found = set()

    @settings(FEW, max_examples=60)
    @given(strategies.activations(kinked=False))
    def collect(name):
        found.add(name)

    collect()
    assert found <= set(strategies.SMOOTH)
    assert len(found) > 3


@pytest.mark.parametrize(
    ("given_values", "error", "named"),
    [
        ({"theorem": "Theorem 5"}, ValueError, "theorem"),
        ({"theorem": 11}, TypeError, "theorem"),
        ({"widths": (3, 2)}, ValueError, "widths"),
        ({"widths": (0, 2)}, ValueError, "widths"),
    ],
)
def test_bad_arguments_of_networks_are_named(given_values, error, named):
    with pytest.raises(error, match=named):
        strategies.networks(**given_values)
