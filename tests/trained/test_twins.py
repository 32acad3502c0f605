"""A twin of the same function in other weights changes no printed digit, whatever the architecture."""

import pytest
import torch
from test_guests_of_sweeps import shown
from twins import TABLE

import deeplimit as dl
from deeplimit.trained.diagnosis.networks_of_sweep import networks_of
from deeplimit.trained.diagnosis.stacks import NOISE

DEPTH, DEPTHS = 8, (6, 9, 13)
LARGE = ("gpt-2", "llama")
"""Networks of transformers, which takes seconds to import."""
AS_FUNCTIONS = ("grouped queries",)
"""Networks whose branches are compared in float32, as functions: how heads share keys is in no name."""


def objects(network, depth, batch):
    """Return what a sweep compares of a network, in float64."""
    (found,) = networks_of({depth: network}, batch=batch)
    return {name: stack.values.double() for name, stack in found.stacks.items()}


def apart(first, second):
    """Return the largest relative distance of two networks' objects."""
    assert first.keys() == second.keys()
    return max(float((second[name] - each).norm() / each.norm()) for name, each in first.items())


def printed(network, batch):
    """Return what is printed, or the type of the refusal."""
    try:
        return shown(dl.diagnose(network, batch=batch))
    except ValueError as error:
        return [type(error).__name__, str(error)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in LARGE else name for name in TABLE]
)
def test_a_twin_has_the_same_function_and_the_same_objects(name):
    case = TABLE[name]
    network, batch = case.network(DEPTHS[0]), case.inputs()
    twin, other = case.twin_of(network), case.twin_of(network, broken=True)
    with torch.no_grad():
        torch.testing.assert_close(twin(batch), network(batch), rtol=1e-6, atol=1e-6)
        assert float((other(batch) - network(batch)).abs().max()) > 1e-3
    mine = objects(network, DEPTHS[0], batch)
    assert any(each.endswith(NOISE) for each in mine) == (name in AS_FUNCTIONS)
    assert apart(mine, objects(twin, DEPTHS[0], batch)) < (1e-6 if name in AS_FUNCTIONS else 1e-9)
    assert apart(mine, objects(other, DEPTHS[0], batch)) > 1e-2


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("rezero", 5),
        ("attention", 5),
        ("bottleneck", 5),
        *(pytest.param(name, DEPTH, marks=pytest.mark.nightly) for name in TABLE),
    ],
)
def test_a_twin_changes_no_printed_digit(name, depth):
    case = TABLE[name]
    network, batch = case.network(depth), case.inputs()
    assert printed(case.twin_of(network), batch) == printed(network, batch)


NAMED = ("encoder, norm first", "vision transformer", "layer scales", "gpt-2", "llama")
"""Networks whose names tell the place of every gain."""
UNSEEN = ("factor",)
"""Networks with a number in the forward that multiplies branches: it is in no state_dict, as reports say."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in LARGE else name for name in TABLE]
)
def test_names_alone_give_the_same_objects_or_a_refusal(name):
    case = TABLE[name]
    network = case.network(DEPTHS[0])
    states = {"one": network.state_dict(), "other": case.twin_of(network).state_dict()}
    try:
        mine = objects(states["one"], DEPTHS[0], None)
    except ValueError as error:
        assert "weights" in str(error)  # noqa: PT017 - some are refused
        assert name not in NAMED
        return
    other = objects(states["other"], DEPTHS[0], None)
    if name in UNSEEN:  # the same up to one number per layer
        assert apart(mine, other) > 0.1
        mine, other = ({key: _of_size_one(value) for key, value in each.items()} for each in (mine, other))
    assert apart(mine, other) < 1e-9


def _of_size_one(layers):
    return torch.nn.functional.normalize(layers.flatten(1))


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*TABLE])
def test_twins_of_a_sweep_change_no_printed_digit(name):
    case = TABLE[name]
    networks, batch = {L: case.network(L) for L in DEPTHS}, case.inputs()
    twins = {L: case.twin_of(network, seed=L) for L, network in networks.items()}
    assert printed(twins, batch) == printed(networks, batch)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*TABLE])
def test_another_function_changes_what_is_printed(name):
    case = TABLE[name]
    networks, batch = {L: case.network(L) for L in DEPTHS}, case.inputs()
    others = {L: case.twin_of(network, seed=L, broken=True) for L, network in networks.items()}
    mine, known = printed(others[6], batch), printed(networks[6], batch)
    assert mine != known
    assert printed(others, batch) != printed(networks, batch)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["layer scale", "swiglu", "attention", "bottleneck", "convnext"])
def test_twins_among_replicates_and_beside_a_null_change_no_printed_digit(name):
    case = TABLE[name]
    networks, batch = [case.network(DEPTH, seed) for seed in (0, 1)], case.inputs()
    twins = [case.twin_of(network, seed) for seed, network in enumerate(networks)]
    assert printed(twins, batch) == printed(networks, batch)
    nulls = {"mine": case.network(DEPTH, 2), "other": case.twin_of(case.network(DEPTH, 2))}
    reports = [
        shown(dl.diagnose(trained, batch=batch, null=lambda which=which: nulls[which]))
        for trained, which in ((networks[0], "mine"), (twins[0], "other"))
    ]
    assert reports[0] == reports[1]
