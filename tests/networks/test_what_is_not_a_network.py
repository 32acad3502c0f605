"""Whoever passes something else than a network to a verb is told what was passed."""

import pytest
import torch
from refusals import assert_refused

import deeplimit as dl


class Net(torch.nn.Module):
    """Somebody's own module."""


PASSED = {
    "a module's class": (Net, "class Net", "check_depth(factory)"),
    "a module": (Net(), "Net()", "check_depth(factory)"),
    "a function of the depth": (lambda depth: Net(), "<function", "check_depth(factory)"),
    "a factory of networks": (dl.res3, "res3", "res3(width=40)"),
    "a function of architectures": (dl.attention, "attention", "attention(...)"),
    "a number": (3, "3"),
}


@pytest.mark.parametrize("verb", [dl.compare, dl.stability, dl.compare_laws])
@pytest.mark.parametrize("passed", PASSED)
def test_verbs_say_what_was_passed_and_what_takes_it(verb, passed):
    value, *names = PASSED[passed]
    assert_refused(lambda: verb(value), TypeError, "resnet", *names)


@pytest.mark.parametrize("verb", [dl.compare, dl.compare_laws])
def test_a_comparison_of_a_module_names_the_call_that_identifies_it(verb):
    assert_refused(lambda: verb(Net), TypeError, "identify(Net, x)", "compare(Net, limit, x)")
    assert_refused(lambda: verb(Net()), TypeError, "identify(factory, x)", "compare_laws(factory, limit, x)")
    assert_refused(lambda: verb(lambda depth: Net(), x=torch.ones(1, 2)), TypeError, "identify(factory, x)")


class Chain(torch.nn.Module):
    """A model whose forward calls its blocks in order, and nothing else, unless it has a head."""

    def __init__(self, depth, head=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(depth))
        self.head = torch.nn.Linear(2, 2) if head else torch.nn.Identity()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.mark.parametrize("factory", [Chain, lambda depth: Chain(depth)], ids=["class", "function"])
def test_a_model_of_blocks_alone_is_its_blocks(factory):
    x, how = torch.ones(1, 2), {"depths": [2, 4, 6], "draws": 20}
    found = dl.stability(factory, x=x, **how)
    same = dl.stability(lambda depth: list(factory(depth).layers), x=x, **how)
    assert (found.log_hidden_ratio == same.log_hidden_ratio).all()


class Halved(Chain):
    """A chain that halves its state after every fourth block, which two blocks do not show."""

    def forward(self, x):
        for place, layer in enumerate(self.layers):
            x = layer(x) / (2 if place % 4 == 3 else 1)
        return x


def test_a_model_that_does_more_after_some_blocks_is_refused():
    assert_refused(lambda: dl.stability(Halved, x=torch.ones(1, 2)), TypeError, "identify(factory, x)")


def test_a_model_with_more_than_blocks_is_refused():
    assert_refused(
        lambda: dl.stability(lambda depth: Chain(depth, head=True), x=torch.ones(1, 2)),
        TypeError,
        "identify(factory, x)",
    )


@pytest.mark.parametrize("passed", [Net, Net(), 3], ids=["a module's class", "a module", "a number"])
def test_phase_diagram_refuses_what_is_not_a_factory(passed):
    kind = passed if isinstance(passed, type) else type(passed)
    said = assert_refused(lambda: dl.phase_diagram(passed), TypeError, "network", kind.__name__)
    assert ("check_depth(factory)" in said) == issubclass(kind, torch.nn.Module)


@pytest.mark.parametrize("ask", [dl.compare, dl.compare_laws, dl.ResidualNetwork.limit])
def test_a_network_without_a_limit_is_pointed_to_a_limit_of_its_own(ask):
    network = dl.res2(4, "tanh", weights=dl.IID("uniform"))
    assert_refused(lambda: ask(network), dl.NoTheoremError, "res2", "compare_laws(resnet, limit)")


def test_layers_that_are_functions_of_time_are_not_pointed_to_limits_in_law():
    network = dl.res1(4, "tanh", weights=dl.SmoothGaussian(), exponent=0.25)
    assert "compare_laws" not in assert_refused(network.limit, dl.NoTheoremError, "compare(resnet, limit)")


def test_blocks_without_a_limit_are_told_to_come_with_x_and_a_limit():
    def blocks(depth):
        return torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(depth)))

    assert_refused(lambda: dl.compare(blocks), TypeError, "resnet", "compare(factory, limit, x)")


def test_a_notebook_shows_networks_and_regimes_in_words():
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    network = dl.res1(4, "tanh")
    assert pretty(network) == str(network)
    assert pretty(network.regime()) == str(network.regime())
