"""Whoever passes something else than a network to a verb is told what was passed and which verb takes it."""

import pytest
import torch

import deeplimit as dl


class Net(torch.nn.Module):
    """Somebody's own module."""


PASSED = {
    "a module's class": (
        Net,
        r"^resnet .*got the class Net\. .*check_depth\(factory\).*probe\(model, batch\)",
    ),
    "a module": (
        Net(),
        r"^resnet .*got Net\(\) of type Net\. .*check_depth\(factory\).*probe\(model, batch\)",
    ),
    "a function of the depth": (lambda depth: Net(), r"^resnet .*got <function .*check_depth\(factory\)"),
    "a factory of networks": (
        dl.res3,
        r"^resnet .*got the function res3.* Call it first: res3\(width=40\)\.$",
    ),
    "a function of architectures": (
        dl.attention,
        r"^resnet .*got the function attention.* Call it first: attention\(\.\.\.\)\.$",
    ),
    "a number": (3, r"^resnet .*got 3 of type int\.$"),
}


@pytest.mark.parametrize("verb", [dl.compare, dl.stability, dl.compare_laws])
@pytest.mark.parametrize("passed", PASSED)
def test_verbs_say_what_was_passed_and_what_takes_it(verb, passed):
    value, words = PASSED[passed]
    with pytest.raises(TypeError, match=words):
        verb(value)


@pytest.mark.parametrize("passed", [Net, Net(), 3], ids=["a module's class", "a module", "a number"])
def test_phase_diagram_refuses_what_is_not_a_factory(passed):
    kind = passed if isinstance(passed, type) else type(passed)
    with pytest.raises(TypeError, match=rf"^network .*{kind.__name__}") as refusal:
        dl.phase_diagram(passed)
    assert ("check_depth(factory)" in str(refusal.value)) == issubclass(kind, torch.nn.Module)


@pytest.mark.parametrize("ask", [dl.compare, dl.compare_laws, dl.ResidualNetwork.limit])
def test_a_network_without_a_limit_is_pointed_to_a_limit_of_its_own(ask):
    with pytest.raises(
        dl.NoTheoremError,
        match=r"res2 .*Your limit.*compare\(resnet, limit\).*compare_laws\(resnet, limit\)",
    ):
        ask(dl.res2(4, "tanh"))


def test_layers_that_are_functions_of_time_are_not_pointed_to_limits_in_law():
    with pytest.raises(dl.NoTheoremError) as refusal:
        dl.res1(4, "tanh", weights=dl.SmoothGaussian(), exponent=0.25).limit()
    assert "compare_laws" not in str(refusal.value)
    assert "compare(resnet, limit)" in str(refusal.value)


def test_blocks_without_a_limit_are_told_to_come_with_x_and_a_limit():
    def blocks(depth):
        return torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(depth)))

    with pytest.raises(TypeError, match=r"(?s)resnet.*blocks.*compare\(factory, limit, x=x\)"):
        dl.compare(blocks)


def test_a_notebook_shows_networks_and_regimes_in_words():
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    network = dl.res1(4, "tanh")
    assert pretty(network) == str(network)
    assert pretty(network.regime()) == str(network.regime())
