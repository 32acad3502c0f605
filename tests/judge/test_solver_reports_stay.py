"""Reports on solvers, orders and work are what they were: numbers, codes, figures in words and pictures."""

import functools
import math

import kept_numbers
import numpy as np
import pytest
import torch
import torchdiffeq

import deeplimit as dl

same = functools.partial(kept_numbers.same_report, "solvers")
PROBLEMS = dl.testing.PROBLEMS
GBM, OU = PROBLEMS["geometric Brownian motion"], PROBLEMS["Ornstein-Uhlenbeck"]
AREA = PROBLEMS["Lévy area"]
STEPS = (8, 16, 32, 64)
ENDS = torch.tensor([0.0, 1.0], dtype=torch.float64)


def check(name, scheme, **given):
    problem = PROBLEMS[name]
    settings = {"steps": STEPS, "paths": 48} | given
    return dl.check_solver(scheme, problem.equation, problem.x, **settings)


def losing(equation, x, brownian, times):
    lost = dl.EulerMaruyama()
    for start, end in zip(times[:-1].tolist(), times[1:].tolist(), strict=True):
        x = lost.step(equation, start, end - start, x, brownian(start, end))
    return torch.where(torch.arange(len(x))[:, None] % 40 == 3, math.nan, x)


def constant(equation, x, brownian, times):
    return x


SOLVERS = {
    "Euler": lambda: check("geometric Brownian motion", "euler"),
    "Euler, claimed too much": lambda: check("geometric Brownian motion", "euler", order=1.0),
    "Euler, claimed too little": lambda: check("Ornstein-Uhlenbeck", "euler", order=0.5, seed=3),
    "Milstein": lambda: check(
        "geometric Brownian motion", dl.Milstein(), reference="fine", confidence=0.8, steps=(4, 8, 16)
    ),
    "SRK alone": lambda: check("geometric Brownian motion", "torchsde:srk", reference="none"),
    "circle": lambda: check("circle", dl.Heun(), paths=32),
    "Lévy areas": lambda: check(
        "Lévy area", AREA.solvers["Milstein with Lévy areas"], paths=16, steps=(4, 8, 16), order=1.0
    ),
    "general noise": lambda: check("Lévy area", "euler", paths=16, steps=(4, 8, 16), reference="fine"),
    "weak, chosen paths": lambda: check(
        "geometric Brownian motion", "euler", kind="weak", paths="auto", steps=(1, 2, 4)
    ),
    "chosen paths": lambda: check(
        "geometric Brownian motion", "euler", paths="auto", steps=(2, 4, 8), order=1.0
    ),
    "weak and lost": lambda: check("geometric Brownian motion", losing, kind="weak", order=1.0),
    "auxiliary": lambda: check("stochastic volatility", "euler", steps=(4, 8, 16, 32)),
    "ODE": lambda: check("oscillator", "rk4"),
    "ODE, fine": lambda: check("oscillator", "torchdiffeq:midpoint", reference="fine", steps=(8, 12, 24, 48)),
    "lost paths": lambda: check("geometric Brownian motion", losing, order=0.5),
    "constant": lambda: check("geometric Brownian motion", constant),
    "exact": lambda: check("geometric Brownian motion", dl.Exact()),
    "weak": lambda: check("geometric Brownian motion", "euler", kind="weak", paths=1500),
    "weak, named": lambda: check(
        "Ornstein-Uhlenbeck",
        "srk",
        kind="weak",
        paths=300,
        steps=(2, 4, 8),
        functions={"sine": lambda h: h.flatten(1).sin().mean(1)},
        reference="fine",
    ),
    "weak, claimed too much": lambda: check(
        "geometric Brownian motion", "euler", kind="weak", paths=3000, order=2.0
    ),
    "weak, another limit": lambda: check(
        "geometric Brownian motion",
        GBM.faults["Milstein without -dt"].solver,
        kind="weak",
        paths=800,
        order=1.0,
        reference="none",
    ),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_checks_of_solvers_stay(name):
    same(name, SOLVERS[name](), with_picture=name != "exact")


def levels(order, *, floor=0.0, tail=0.0, paths=60, seed=0):
    numbers = np.random.default_rng(seed).standard_normal((paths, 2))
    steps = np.array([16, 32, 64, 128, 256])
    luck = np.abs(numbers[:, :1] + 0.1 * np.cos(numbers[:, 1:] * steps)) * np.exp(tail * numbers[:, 1:] ** 2)
    return np.sqrt((luck * steps**-order * (1 + 1 / steps)) ** 2 + floor**2), steps


def missing(found):
    changed = found.copy()
    changed[0, 1], changed[1, 0] = math.nan, 0.0
    return changed


ORDERS = {
    "half": lambda: dl.order(*levels(0.5)),
    "one, of fewer": lambda: dl.order(*levels(1.0, paths=12), confidence=0.8, p=1),
    "heavy tails": lambda: dl.order(*levels(0.5, tail=1.5)),
    "floor": lambda: dl.order(*levels(1.0, floor=0.02)),
    "half a floor": lambda: dl.order(*levels(1.0, floor=0.003)),
    "one vector": lambda: dl.order(levels(2.0)[0][5], levels(2.0)[1]),
    "missing": lambda: dl.order(missing(levels(0.5)[0]), levels(0.5)[1]),
    "few": lambda: dl.order(levels(0.5)[0][:4], levels(0.5)[1]),
    "rounded": lambda: dl.order(1e-17 + levels(8.0)[0], levels(8.0)[1]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_errors_that_somebody_has_stay(name):
    same(f"order: {name}", ORDERS[name]())


def blind(equation, x, brownian, tolerance):
    return torchdiffeq.odeint(equation, x, ENDS, rtol=1e-3, atol=1e-3)[-1]


def rooted(equation, x, brownian, tolerance):
    return torchdiffeq.odeint(equation, x, ENDS, rtol=tolerance**0.5, atol=tolerance**0.5)[-1]


def work(scheme, problem="oscillator", **given):
    return dl.work_precision(scheme, PROBLEMS[problem].equation, PROBLEMS[problem].x, **given)


WORK = {
    "dopri5": lambda: work("dopri5"),
    "Heun": lambda: work("adaptive_heun", tolerances=(1e-2, 1e-3, 1e-4), confidence=0.8),
    "costs that hardly move": lambda: work("dopri5", tolerances=(1e-4, 7e-5, 5e-5, 3e-5)),
    "blind": lambda: work(blind, tolerances=(1e-3, 1e-4, 1e-5)),
    "rooted": lambda: work(rooted, tolerances=(1e-3, 1e-5, 1e-7, 1e-9)),
    "random": lambda: work(
        "milstein", "geometric Brownian motion", tolerances=(0.1, 0.03, 0.01), paths=4, seed=2
    ),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.filterwarnings("ignore")
def test_work_and_precision_stay(name):
    same(f"work: {name}", WORK[name]())
