"""The expansion of σ at 0: derivatives by table and by differentiation, and Assumption 4.2 where there are
none.
"""

import pytest
import torch
from pairs import SMOOTH, SMOOTH_IDS

import deeplimit as dl
from deeplimit.layers import activations


@pytest.mark.parametrize(("activation", "slope", "curvature"), SMOOTH, ids=SMOOTH_IDS)
def test_expansions_are_the_derivatives_at_0(activation, slope, curvature):
    """By hand, and by a derivative taken here: names from the table, and the same functions given as
    callables.
    """
    resolved = activations.resolve(activation, lipschitz=False)
    for name in (resolved, activations.resolve(lambda x: resolved.function(x), lipschitz=False)):
        found = activations.expansion(name)
        assert found.slope == pytest.approx(slope, rel=1e-12)
        assert found.curvature == pytest.approx(curvature, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", activations.NAMES)
def test_the_table_of_derivatives_is_what_differentiation_gives(name):
    entry = activations.resolve(name)
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = entry.function(zero)
    assert value.item() == pytest.approx(entry.at_zero, abs=1e-15)
    (first,) = torch.autograd.grad(value, zero, create_graph=True)
    if name in ("relu", "leaky_relu"):
        assert entry.slope is None
        return
    assert first.item() == pytest.approx(entry.slope, rel=1e-12)
    if name == "elu":
        assert entry.curvature is None
        return
    if name == "identity":
        assert (entry.curvature, entry.third) == (0.0, 0.0)
        return
    (second,) = torch.autograd.grad(first, zero, create_graph=True)
    assert second.item() == pytest.approx(entry.curvature, rel=1e-12, abs=1e-12)
    third = torch.autograd.grad(second, zero)[0].item()
    assert third == pytest.approx(entry.third, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("function", "third", "linear"),
    [
        (lambda x: x.sin() + x**3 / 6, 0.0, False),
        (lambda x: x + x.abs() ** 3, None, False),
        (lambda x: x - 2.0 * x**3, -12.0, False),
        (lambda x: 0.5 * x, 0.0, True),
        (lambda x: x + x * torch.exp(-(x**2)) * 1e-6, -6e-6, False),
    ],
)
def test_the_third_derivative_and_linearity_are_those_of_the_function(function, third, linear):
    found = activations.expansion(activations.resolve(function, lipschitz=False))
    assert found.third == (None if third is None else pytest.approx(third, rel=1e-9))
    assert found.linear is linear


REFUSED = {
    "relu": ("relu", "σ'\\(0\\)"),
    "elu": ("elu", "σ''\\(0\\)"),
    "softplus": ("softplus", "σ\\(0\\) = 0.6931"),
    "jump": (lambda x: x + 0.1 * torch.sign(x), "smooth at 0"),
    "small kink": (lambda x: x + 0.001 * x.abs(), "smooth at 0"),
    "small kink of σ'": (lambda x: x + 1e-3 * x * x.abs(), "smooth at 0"),
    "kink of σ' as of elu": (lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0))), "smooth at 0"),
    "root in σ'": (lambda x: x + x.abs().pow(1.5) * torch.sign(x), "smooth at 0"),
    "root in σ''": (lambda x: x + 0.1 * x.abs().pow(2.5), "third derivative"),
    "square": (lambda x: x**2, "σ'\\(0\\) is 0"),
    "off centre": (lambda x: torch.cos(x), "σ\\(0\\) = 1"),
    "detached": (lambda x: torch.tanh(x.detach()), "differentiated"),
    "stairs": (lambda x: torch.round(x, decimals=6), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_activation_without_the_expansion_is_refused_by_the_assumptions_name(name):
    function, words = REFUSED[name]
    with pytest.raises(dl.NoTheoremError, match=rf"Assumption 4\.2 of Cohen et al\..*{words}") as caught:
        activations.expansion(activations.resolve(function, lipschitz=False))
    assert (function if isinstance(function, str) else "lambda") in str(caught.value)
    with pytest.raises(dl.NoTheoremError, match=r"Assumption 4\.2"):
        dl.inner(2, function, noise=dl.Ito(A=0.1)).limit()


@pytest.mark.parametrize(
    ("function", "slope", "curvature"),
    [
        (lambda x: x, 1.0, 0.0),
        (lambda x: x + x**2, 1.0, 2.0),
        (lambda x: 0.1 * torch.sinh(x.clamp(-3, 3)), 0.1, 0.0),
        (torch.nn.SiLU(), 0.5, 0.5),
        (lambda x: torch.where(x.abs() < 1.0, x, torch.sign(x)), 1.0, 0.0),
    ],
)
def test_callables_smooth_at_0_are_expanded_whatever_they_do_elsewhere(function, slope, curvature):
    found = activations.expansion(activations.resolve(function, lipschitz=False))
    assert found.slope == pytest.approx(slope)
    assert found.curvature == pytest.approx(curvature, abs=1e-12)
