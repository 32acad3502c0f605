"""Equations as data: what they state is tried, and what they say wrongly is refused by name."""

import pytest
import torch
import torchsde

import deeplimit as dl

ROTATION = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
STRETCH = torch.tensor([[1.0, 0.0], [0.0, -1.0]])


def sde(diffusion=lambda t, h, dB: 0.3 * h * dB, noise="diagonal", **more):
    return dl.SDE(lambda t, h: -h, diffusion, noise=noise, **more)


def network(equation, scheme=None):
    return dl.scheme_network(dl.EulerMaruyama() if scheme is None else scheme, equation, 2)


def turned(t, h, dB):
    return dB[:, :1] * (h @ ROTATION.to(h).T) + dB[:, 1:] * (h @ STRETCH.to(h).T)


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        (sde(noise="additive"), "additive"),
        (sde(turned, noise="commutative", brownian=2), "commutative"),
        (sde(turned, noise="diagonal", brownian=2), "diagonal"),
        (sde(lambda t, h, dB: dB.sum(1, keepdim=True) * h, noise="scalar", brownian=2), "scalar"),
        (sde(lambda t, h, dB: dB[:, :1] * h, noise="diagonal", brownian=1), "diagonal"),
    ],
)
def test_noise_that_enters_otherwise_than_stated_is_refused(equation, said):
    with pytest.raises(ValueError, match=f"noise='{said}'"):
        network(equation)


@pytest.mark.parametrize(
    "equation",
    [
        sde(lambda t, h, dB: torch.cos(t) * dB, noise="additive"),
        sde(),
        sde(lambda t, h, dB: dB * h, noise="scalar"),
        sde(lambda t, h, dB: dB[:, :1] * h + 2 * dB[:, 1:] * h, noise="commutative", brownian=2),
        sde(turned, noise="general", brownian=2),
        sde(lambda t, h: torch.tanh(h), noise="diagonal"),
        sde(lambda t, h: torch.stack([h, 2 * h], dim=2), noise="commutative"),
        sde(lambda t, h, dB: (dB @ h[:, :, None])[:, :, 0], noise="general"),
        sde(torch.addcmul),  # t + h dB, of which nobody can read how many arguments it takes
    ],
)
def test_noise_that_enters_as_stated_is_taken(equation):
    assert network(equation).state_shape == (2,)


@pytest.mark.parametrize(
    ("equation", "kind", "what"),
    [
        (dl.SDE(lambda t, h: h[:, :1], lambda t, h, dB: dB, noise="additive"), ValueError, "drift"),
        (dl.SDE(lambda t, h: -h, lambda t, h, dB: dB**2, noise="additive"), ValueError, "diffusion"),
        (sde(solution=lambda t, h0, B: 2 * h0), ValueError, "solution"),
        (dl.SDE(lambda t, h: h * float("nan"), lambda t, h, dB: dB, noise="additive"), ValueError, "drift"),
        (dl.SDE(lambda t: -t, lambda t, h, dB: dB, noise="additive"), TypeError, "drift"),
        (sde(lambda t, h, dB: dB[:, :1], noise="diagonal"), ValueError, "diffusion"),
        (sde(lambda t, h, dB: h[:, :1], noise="general"), ValueError, "diffusion"),
        (sde(solution=lambda t, h0, B: h0[:, 0]), ValueError, "solution"),
        (dl.ODE(lambda t, h: h.sum(1)), ValueError, "field"),
        (dl.ODE(lambda t, h: -h, solution=lambda t: t), TypeError, "solution"),
    ],
)
def test_functions_of_other_shapes_and_values_are_refused_by_name(equation, kind, what):
    with pytest.raises(kind, match=what):
        network(equation)
    with pytest.raises(kind, match=what):
        dl.compare(dl.res1(2, "tanh"), equation if what == "field" else dl.Independent(equation), paths=20)


def test_orders_follow_from_the_noise_that_is_stated():
    orders = {
        each: [
            scheme().strong_order(sde(turned, noise=each))
            for scheme in (dl.EulerMaruyama, dl.Milstein, dl.RK4)
        ]
        for each in ("additive", "diagonal", "scalar", "commutative", "general")
    }
    assert orders == {
        "additive": [1.0, 1.0, 1.0],
        "diagonal": [0.5, 1.0, 1.0],
        "scalar": [0.5, 1.0, 1.0],
        "commutative": [0.5, 1.0, 1.0],
        "general": [0.5, 0.5, 0.5],
    }


@pytest.mark.parametrize(
    ("method", "interpretation", "orders"),
    [
        ("euler", "ito", (1, 0.5, 0.5)),
        ("srk", "ito", (1.5, 1.5, None)),
        ("milstein", "ito", (1, 1, None)),
        ("heun", "stratonovich", (1, 1, 0.5)),
        ("midpoint", "stratonovich", (1, 1, 0.5)),
        ("euler_heun", "stratonovich", (1, 1, 0.5)),
        ("milstein", "stratonovich", (1, 1, None)),
        ("log_ode", "stratonovich", (1, 1, 0.5)),
        ("reversible_heun", "stratonovich", (1, 0.5, 0.5)),
    ],
)
def test_torchsdes_methods_have_the_orders_that_torchsde_states(method, interpretation, orders):
    for noise, order in zip(("additive", "diagonal", "general"), orders, strict=True):
        equation = sde(noise=noise, interpretation=interpretation)
        if order is None:
            with pytest.raises(ValueError, match=method):
                dl.TorchSDE(method).strong_order(equation)
        else:
            assert dl.TorchSDE(method).strong_order(equation) == order


def test_an_sde_runs_in_torchsde_as_it_is():
    with torch.random.fork_rng():  # torchsde draws from the global generator
        ys = torchsde.sdeint(sde(), torch.ones(3, 2), torch.tensor([0.0, 1.0]), dt=0.1, method="euler")
    assert ys.shape == (2, 3, 2)


def test_the_drift_is_converted_between_the_two_senses():
    """For g = s h the correction is ½ s² h."""
    h = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    equation = sde()
    ito, stratonovich = (equation.drift_of(0.0, h, sense) for sense in ("ito", "stratonovich"))
    torch.testing.assert_close(ito, -h)
    torch.testing.assert_close(stratonovich, -h - 0.5 * 0.09 * h)
