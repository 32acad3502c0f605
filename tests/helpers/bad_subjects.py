"""Public functions and constructors, each with small arguments that are right."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect

import torch
from bad_calls import Subject

import deeplimit as dl

WIDTH = 2


class Stack(torch.nn.Module):
    """A small pre-norm network, so that every verb about modules has something to measure."""

    def __init__(self, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(torch.tanh(x))
        return x


class Residual(torch.nn.Linear):
    """One layer as a module, h + W tanh(h) + b."""

    def forward(self, h):
        return h + super().forward(torch.tanh(h))


def residual(depth):
    return torch.nn.Sequential(*(Residual(WIDTH, WIDTH) for _ in range(depth)))


def adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def independent(seed=0, depth=8):
    return torch.randn(depth, WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed))


def stacks():
    return {
        depth: {"A": independent(depth, depth), "b": independent(0, depth)[:, 0]} for depth in (8, 16, 32)
    }


def distances():
    return torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) / torch.tensor([1.0, 2.0, 4.0])


def simulated():
    return dl.simulate(res1(), depths=(2, 4), paths=3)


def summary():
    return simulated().summary(4)


def res1():
    return dl.res1(WIDTH, "tanh")


def inner():
    return dl.inner(WIDTH, noise=dl.Ito(A=0.05, b=0.1))


def trend(_):
    return torch.eye(WIDTH)


def law_of_trend():
    return dl.Trend(trend)


@functools.cache
def compared():
    return dl.compare(res1(), depths=[2, 4, 8], paths=64)


@functools.cache
def data():
    return dl.datasets.synthetic_system(width=WIDTH, count=32, test=8)


@functools.cache
def trained():
    network = dl.fully_connected(WIDTH, "tanh")
    return dl.train(network, [2, 3, 4], data(), epochs=1, progress=False)


def fixed(value):
    """The value itself, also where it can be called."""
    return lambda: value


def filled(name, call, /, **given):
    """A function with every argument it takes: what is given, else its default, in one thread."""
    taken = inspect.signature(call).parameters.items()
    defaults = {key: fixed(each.default) for key, each in taken if each.default is not each.empty}
    alone = {"workers": 1} if "workers" in defaults else {}
    return Subject(name, call, {**defaults, **alone, **given})


def method(made, name, /, **given):
    """A method of a report that is made when it is first asked."""
    return Subject(f"{made.__name__}.{name}", lambda **passed: getattr(made(), name)(**passed), given)


class EnoughError(Exception):
    """One row is there."""


def stop(row):
    raise EnoughError


@functools.wraps(dl.validate)
def first_row(**given):
    """Validate until one row is there: all of them take minutes."""
    asked = given["on_row"]
    with contextlib.suppress(EnoughError):
        return dl.validate(**{**given, "on_row": stop if asked is None else asked})


def rows():
    return torch.ones(2, WIDTH)


OWN_CODE = (
    "factory",
    "batch",
    "x",
    "scheme",
    "loss",
    "callback",
    "optimizer",
    "evaluate",
    "network",
    "null",
    "train",
)
"""Arguments that are the user's code, or go into it."""
CALLED = {  # how messages call an argument, where not by its name; "*" is said of the base of one subject
    "*": ("only=",),
    "path": ("store ", "is not a deeplimit report", "No such file"),
    "report": ("path", "is not a deeplimit report", "No such file"),
    "widths": ("with depth",),
    "width": ("shape",),
    "ax": ("path",),
    "model": ("Sequential has no",),
    "weights": ("Sequential must hold", "no weight of at least"),
    "batch": ("no residual branch of",),
}
LAWS = [
    filled("AR1", dl.AR1, rho=0.5),
    filled("MovingAverage", dl.MovingAverage, coefficients=lambda: [1.0, 0.6]),
    filled("IID", dl.IID),
    filled("SmoothGaussian", dl.SmoothGaussian),
    filled("FractionalBrownian", dl.FractionalBrownian, hurst=0.7),
    filled("SmallGaussian", dl.SmallGaussian, size=0.1),
    filled("Recorded", dl.Recorded, stacks=lambda: {4: independent(0, 4), 8: independent(0, 8)}),
    filled("Trend", dl.Trend, A=fixed(trend)),
    filled("Ito", dl.Ito, A=0.1, b=0.1),
    filled("Kronecker", dl.Kronecker, R=lambda: torch.eye(2), C=lambda: torch.eye(2)),
    filled(
        "AuxiliaryDiffusion",
        dl.AuxiliaryDiffusion,
        drift=fixed(lambda _, v: -v),
        diffusion=fixed(lambda _, v: torch.ones_like(v)),
    ),
    filled("stochastic_volatility", dl.stochastic_volatility, A=0.1, b=0.1),
    filled("TrendAndNoise", dl.TrendAndNoise, trend=law_of_trend, ito=lambda: dl.Ito(A=0.1), exponent=0.5),
    filled("Weight", dl.Weight, name="A"),
    filled(
        "Activation",
        dl.activations.Activation,
        name="mine",
        function=fixed(torch.tanh),
        lipschitz=1.0,
        slope=1.0,
        curvature=0.0,
        third=-2.0,
    ),
    filled("resolve", dl.activations.resolve, activation="tanh"),
    *(
        filled(name, getattr(dl.activations, name), activation=lambda: dl.activations.resolve("tanh"))
        for name in ("slopes", "expansion", "has_kink", "is_bounded", "is_odd")
    ),
    filled(
        "derivative",
        dl.activations.derivative,
        activation=lambda: dl.activations.resolve("tanh"),
        x=lambda: torch.ones(2),
    ),
]

NETWORKS = [
    filled("res1", dl.res1, width=WIDTH, activation="tanh"),
    filled("res2", dl.res2, width=WIDTH, activation="tanh"),
    filled("res3", dl.res3, width=WIDTH),
    filled("modified_res1", dl.modified_res1, width=WIDTH, weights=lambda: dl.FractionalBrownian(0.7)),
    filled(
        "inner",
        dl.inner,
        width=WIDTH,
        trend=law_of_trend,
        noise=lambda: dl.Ito(A=0.1),
        alpha=0.5,
        beta=0.5,
    ),
    filled("attention", dl.attention, width=WIDTH, tokens=2),
    filled("Attention", dl.Attention, tokens=2),
    filled("shaped_mlp", dl.shaped_mlp, inputs=WIDTH),
    filled("ShapedMLP", dl.ShapedMLP),
    filled("HiddenUnits", dl.HiddenUnits),
    filled("convolutional", dl.convolutional, channels=2, size=(4, 4)),
    filled("fully_connected", dl.fully_connected, width=WIDTH),
    filled(
        "module_network",
        dl.module_network,
        factory=fixed(lambda depth: [torch.nn.Linear(WIDTH, WIDTH) for _ in range(depth)]),
        width=WIDTH,
    ),
    filled(
        "scheme_network",
        dl.scheme_network,
        scheme=dl.Milstein,
        equation=lambda: dl.SDE(lambda t, h: -h, lambda t, h, dB: 0.1 * h * dB, noise="diagonal"),
        width=WIDTH,
    ),
    filled("SDE", dl.SDE, drift=fixed(lambda t, h: -h), diffusion=fixed(lambda t, h, dB: dB)),
    filled("ODE", dl.ODE, field=fixed(lambda t, h: -h)),
    filled("TorchSDE", dl.TorchSDE, method="srk"),
    filled(
        "ResidualNetwork",
        dl.ResidualNetwork,
        recursion=lambda: dl.Res1(dl.activations.resolve("tanh")),
        width=WIDTH,
        weights=lambda: (dl.IID(),),
        exponent=0.5,
    ),
    *(
        filled(each.__name__, each, activation="tanh")
        for each in (dl.Res1, dl.Res2, dl.Res3, dl.ModifiedRes1, dl.FullyConnected, dl.Inner)
    ),
    *(
        filled(each.__name__, each, activation="tanh", size=(4, 4))
        for each in (dl.Convolutional, dl.ConvolutionalWithShortcut)
    ),
    filled("TwoLayer", dl.TwoLayer, activation="tanh", hidden=2),
]

LIMITS = [
    filled("Independent", dl.Independent, limit=lambda: res1().limit()),
    filled("IsotropicSDE", dl.IsotropicSDE, width=2),
    *(
        filled(each.__name__, each, activation=lambda: dl.activations.resolve("tanh"), width=2)
        for each in (dl.RadialSDE, dl.AveragedODE)
    ),
    filled(
        "MixedSDE",
        dl.MixedSDE,
        activation=lambda: dl.activations.resolve("tanh"),
        inside=lambda: dl.SmoothGaussian(),
        width=2,
    ),
    filled("ItoCorrectedSDE", dl.ItoCorrectedSDE, noise=lambda: dl.Ito(A=0.1), trend=None, width=2),
    filled("LinearODE", dl.LinearODE, trend=law_of_trend, width=2),
    *(
        filled(each.__name__, each, recursion=recursion, weights=fixed((law,)), width=2)
        for each, recursion, law in (
            (dl.NeuralODE, lambda: dl.Res1("tanh"), dl.SmoothGaussian()),
            (dl.AttentionSDE, lambda: dl.Attention(2), dl.IID()),
            (dl.NeuralSDE, lambda: dl.Res1("tanh"), dl.IID()),
            (dl.NeuralYoung, lambda: dl.Res1("tanh"), dl.FractionalBrownian(0.7)),
        )
    ),
    filled("CovarianceSDE", dl.CovarianceSDE, width=2),
    filled("zoo.AlteredSDE", dl.zoo.AlteredSDE, sde=lambda: res1().limit(), drift=fixed(torch.zeros_like)),
    filled("PreNorm", dl.PreNorm, activation="tanh"),
    filled("CorrelationClock", dl.CorrelationClock, activation="tanh"),
    filled(
        "zoo.with_noise_scaled",
        dl.zoo.with_noise_scaled,
        limit=lambda: dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7)).limit(),
        scale=1.1,
    ),
    filled(
        "zoo.with_other_quadratic",
        dl.zoo.with_other_quadratic,
        limit=lambda: inner().limit(),
        quadratic=fixed(dl.zoo.exchanged_quadratic),
    ),
    filled("zoo.cases", dl.zoo.cases, width=2),
    filled("zoo.pairs", dl.zoo.pairs, width=2),
    filled(
        "zoo.neural_ode_of",
        dl.zoo.neural_ode_of,
        network=lambda: dl.res1(2, "tanh", weights=dl.SmoothGaussian()),
    ),
    filled(
        "zoo.stratonovich_drift",
        dl.zoo.stratonovich_drift,
        sde=lambda: res1().limit(),
        derivative=fixed(lambda x: 1 - torch.tanh(x) ** 2),
    ),
]

TRAINING = [
    filled("SGD", dl.SGD, learning_rate=0.1, momentum=0.9),
    filled("Adam", dl.Adam, learning_rate=0.1),
    filled("AdamW", dl.AdamW, learning_rate=0.1),
    filled("Stop", dl.Stop, loss=0.1, patience=3),
    filled("LinearEnds", dl.LinearEnds, inputs=2, outputs=2),
    filled("PooledEnds", dl.PooledEnds, inputs=2, outputs=2),
    filled("FromWeightLaws", dl.FromWeightLaws),
    filled("synthetic_system", dl.datasets.synthetic_system, width=2, count=32, test=8),
    filled("digits", dl.datasets.digits),
    filled(
        "Data",
        dl.datasets.Data,
        name="mine",
        inputs=lambda: torch.ones(4, 2),
        targets=lambda: torch.ones(4, 2),
        test_inputs=rows,
        test_targets=rows,
    ),
    filled(
        "train",
        dl.train,
        network=lambda: dl.fully_connected(WIDTH, "tanh"),
        depths=(2, 3),
        data=data,
        batch=16,
        epochs=1,
    ),
    method(trained, "outputs", x=rows, depth=2, repeat=0),
    method(trained, "states", x=rows, depth=2, repeat=0),
    method(trained, "trained", repeat=0),
]

FUNCTIONS = [
    filled("compare", dl.compare, resnet=res1, depths=(2, 4, 8), paths=16),
    filled("compare_laws", dl.compare_laws, resnet=res1, depths=(2, 4, 8), draws=200),
    filled(
        "identify",
        dl.identify,
        factory=lambda: lambda depth: [torch.nn.Identity() for _ in range(depth)],
        x=rows,
        depths=(2, 4, 8),
        draws=16,
    ),
    filled("stability", dl.stability, resnet=res1, depths=(2, 4, 8), draws=8),
    filled(
        "phase_diagram",
        dl.phase_diagram,
        network=fixed(dl.res1),
        width=2,
        depth=20,
        hurst=(0.3, 0.7),
        exponents=(0.3, 0.7),
        draws=2,
        inputs=1,
    ),
    method(compared, "path", index=0, which=0),
    filled("order", dl.order, errors=distances, steps=(8, 16, 32)),
    filled(
        "check_solver",
        dl.check_solver,
        scheme=dl.EulerMaruyama,
        equation=lambda: dl.SDE(lambda t, h: -h, lambda t, h, dB: dB, noise="additive"),
        x=rows,
        steps=(2, 4, 8),
        paths=16,
    ),
    filled(
        "work_precision",
        dl.work_precision,
        scheme="dopri5",
        equation=lambda: dl.ODE(lambda t, h: -h),
        x=rows,
        tolerances=(1e-2, 1e-3, 1e-4),
    ),
    filled("simulate", dl.simulate, what=res1, depths=(2, 4), paths=3),
    filled(
        "simulate, an equation",
        dl.simulate,
        what=lambda: dl.SDE(lambda t, h: -h, lambda t, h, dB: dB),
        x=rows,
        steps=4,
    ),
    method(simulated, "modules", depth=4, path=0),
    method(simulated, "summary", depth=4),
    method(simulated, "limit_at", depth=4),
    method(summary, "quantile", q=0.5),
]

MODULES = [
    filled("recommend", dl.recommend, factory=fixed(Stack), depth=6, depths=(2, 4, 5), batch=rows),
    filled("check_depth", dl.check_depth, factory=fixed(Stack), depths=(2, 4), batch=rows),
    filled(
        "check_training",
        dl.check_training,
        factory=fixed(Stack),
        depths=(2, 4),
        optimizer=fixed(adam),
        batch=rows,
        steps=(1,),
        seeds=2,
    ),
    *(
        filled(name, getattr(dl, name), model=lambda: Stack(4), batch=rows)
        for name in ("probe", "branch_scalars", "find_branches")
    ),
    Subject(
        "sweep",
        dl.sweep,
        {
            "build": fixed(lambda config: Stack(config["depth"])),
            "config": lambda: {"depth": 2},
            "field": "depth",
        },
    ),
    filled("diagnose", dl.diagnose, weights=stacks),
    filled(
        "depth_controls",
        dl.depth_controls,
        weights=lambda: Stack(12),
        evaluate=fixed(lambda model: float(model(torch.ones(1, WIDTH)).sum())),
        draws=2,
    ),
    filled(
        "study",
        dl.study,
        factory=fixed(lambda depth: Stack(depth)),
        train=fixed(lambda model, depth, seed: model),
        depths=(6, 7),
        seeds=1,
        batch=rows,
    ),
    filled("study_power", dl.study_power, depths=(6, 7), seeds=2),
    filled("fitted_limit", dl.fitted_limit, weights=stacks),
    filled(
        "fitted_limit of modules",
        dl.fitted_limit,
        weights=lambda: {depth: residual(depth) for depth in (2, 4, 6)},
        batch=rows,
        null=fixed(residual),
    ),
    *(
        filled(
            f"init.{name}",
            getattr(dl.init, name),
            weights=lambda: list(torch.ones(4, WIDTH, WIDTH)),
            exponent=0.5,
            fan_in=2,
            **more,
        )
        for name, more in {
            "iid_": {},
            "smooth_": {},
            "fractional_": {"hurst": 0.7},
            "sample_": {"process": lambda: dl.AR1(0.5)},
        }.items()
    ),
    filled("init.residual_", dl.init.residual_, model=lambda: Stack(4), hurst=0.7, batch=rows),
    filled("check_law", dl.testing.check_law, law=dl.IID, width=2, depths=(2, 4)),
    filled("check_limit", dl.testing.check_limit, limit=lambda: res1().limit(), width=2),
    filled("check_recursion", dl.testing.check_recursion, recursion=lambda: dl.Res1("tanh"), width=2),
    filled("check_report", dl.testing.check_report, report=compared),
]

FILES = [
    filled("load_report", dl.load_report, path="no.json"),
    filled("plot", dl.plot, reports=lambda: [compared()]),
    filled("table", dl.table, reports=lambda: [compared()]),
    method(compared, "save", path="r.json"),
    method(compared, "save_html", path="r.html"),
    method(compared, "to_csv", path=None),
    method(compared, "to_latex", path=None),
    method(compared, "plot", ax=None),
    filled("Store", dl.Store, path="runs.sqlite"),
    filled("reproduce", dl.reproduce, figure="marion-fig1", quick=True),
    filled("validate", first_row, quick=True, only="no such case"),
]

TAKES_ANYTHING = {"Independent": ("limit",), "validate": ("only",)}
RUNS_OWN_CODE = ("module_network", "phase_diagram", "check_depth", "check_training", "probe")
RUNS_OWN_CODE += ("branch_scalars", "find_branches", "depth_controls", "init.residual_", "study", "diagnose")
RUNS_OWN_CODE += (
    "fitted_limit of modules",
    "train",
    "identify",
    "recommend",
    "check_solver",
    "work_precision",
)
SUBJECTS = [
    dataclasses.replace(
        each,
        called=CALLED,
        anything=TAKES_ANYTHING.get(each.name, ()),
        runs=("progress", *(OWN_CODE if each.name in RUNS_OWN_CODE else ())),
    )
    for each in (*LAWS, *NETWORKS, *LIMITS, *TRAINING, *FUNCTIONS, *MODULES, *FILES)
]
