"""Two-layer branches with a hidden width: the formula, the scale, and what is refused."""

import pytest
import torch

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.driving import Layer


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_the_update_is_a_scaled_sum_over_hidden_units(power):
    stream = torch.Generator().manual_seed(0)
    shapes = (2, 3), (2, 3, 5), (2, 5, 3)
    h, v, w = (torch.randn(*shape, generator=stream, dtype=torch.float64) for shape in shapes)
    layers = tuple(Layer(values, 7, 0.0, 1.0) for values in (v, w))
    found = dl.TwoLayer("tanh", hidden=5, hidden_exponent=power).residual(h, layers, 1.0)
    wanted = sum(v[:, :, j] * torch.tanh((w[:, j] * h).sum(-1))[:, None] for j in range(5)) / (7 * 5**power)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


def test_a_pass_over_all_layers_has_the_scale_once():
    library = ArrayLibrary(dtype=torch.float64)
    stream = torch.Generator().manual_seed(1)
    state, v, w = (
        torch.randn(*shape, generator=stream, dtype=torch.float64)
        for shape in ((1, 4, 3), (6, 1, 3, 5), (6, 1, 5, 3))
    )
    recursion = dl.TwoLayer("tanh", hidden=5)
    stacks = {"V": library.array(v), "W": library.array(w)}
    found = library.tensor(recursion.stacked_pass(library).forward(library.array(state), stacks, 6, 1.0))
    h = state[0]
    for k in range(6):
        h = recursion.advance(h, tuple(Layer(each[k], 6, 0.0, 1.0) for each in (v, w)), 1.0)
    torch.testing.assert_close(found[0], h, rtol=1e-12, atol=1e-14)


def test_no_theorem_of_the_papers_is_claimed():
    network = dl.ResidualNetwork(dl.TwoLayer("tanh", hidden=6), width=4, exponent=0.5)
    assert network.regime().name == "no theorem"


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (dict(hidden=0), ValueError, "hidden .*0"),
        (dict(hidden=2.5), TypeError, r"hidden .*2\.5"),
        (dict(hidden=2, hidden_exponent="x"), TypeError, "hidden_exponent .*'x'"),
    ],
)
def test_sizes_that_make_no_branch_are_refused(arguments, kind, words):
    with pytest.raises(kind, match=words):
        dl.TwoLayer("tanh", **arguments)
