"""Public functions and constructors, each with small arguments that are right."""

from __future__ import annotations

import dataclasses
import functools

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


def adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def independent(seed=0, depth=8):
    return torch.randn(depth, WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed))


def stacks():
    return {
        depth: {"A": independent(depth, depth), "b": independent(0, depth)[:, 0]} for depth in (8, 16, 32)
    }


def res1():
    return dl.res1(WIDTH, "tanh")


def inner():
    return dl.inner(WIDTH, noise=dl.Ito(A=0.05, b=0.1))


def trend(_):
    return torch.eye(WIDTH)


def law_of_trend():
    return dl.Trend(trend)


def users_law(shape, generator):
    return torch.randn(shape, generator=generator)


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


OWN_CODE = ("factory", "batch", "loss", "optimizer", "evaluate", "network")
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
RUN = {"seed": 0, "device": "cpu", "workers": 1, "executor": None, "store": None, "progress": None}
MODULE = {"batch": lambda: torch.ones(2, WIDTH), "blocks": None, "loss": None, "seed": 0}
RATE = {"learning_rate": 0.1, "depth_exponent": 0.0, "every": None, "factor": 0.1, "cosine": None}
ADAM = {**RATE, "first": 0.9, "second": 0.999, "epsilon": 1e-8, "weight_decay": 0.0}

LAWS = [
    Subject("AR1", dl.AR1, {"rho": 0.5}),
    Subject("IID", dl.IID, {"law": "gaussian"}),
    Subject("SmoothGaussian", dl.SmoothGaussian, {"length_scale": 0.1}),
    Subject("FractionalBrownian", dl.FractionalBrownian, {"hurst": 0.7}),
    Subject("SmallGaussian", dl.SmallGaussian, {"size": 0.1}),
    Subject("Recorded", dl.Recorded, {"stacks": lambda: {4: independent(0, 4), 8: independent(0, 8)}}),
    Subject("Trend", dl.Trend, {"A": fixed(trend), "b": None, "holder": 1.0}),
    Subject("Ito", dl.Ito, {"A": 0.1, "b": 0.1, "cross": None, "drift": None, "auxiliary": None}),
    Subject("Kronecker", dl.Kronecker, {"R": lambda: torch.eye(2), "C": lambda: torch.eye(2)}),
    Subject(
        "AuxiliaryDiffusion",
        dl.AuxiliaryDiffusion,
        {
            "drift": fixed(lambda _, v: -v),
            "diffusion": fixed(lambda _, v: torch.ones_like(v)),
            "start": 0.0,
            "leverage": 0.0,
        },
    ),
    Subject(
        "stochastic_volatility",
        dl.stochastic_volatility,
        {"A": 0.1, "b": 0.1, "mean_reversion": 2.0, "volatility": 2.0, "leverage": -0.7},
    ),
    Subject(
        "TrendAndNoise",
        dl.TrendAndNoise,
        {"trend": law_of_trend, "ito": lambda: dl.Ito(A=0.1), "exponent": 0.5},
    ),
    Subject("Weight", dl.Weight, {"name": "A", "shape": "d d", "side": None}),
    Subject(
        "Activation",
        dl.activations.Activation,
        {
            "name": "mine",
            "function": fixed(torch.tanh),
            "lipschitz": 1.0,
            "at_zero": 0.0,
            "slope": 1.0,
            "curvature": 0.0,
            "third": -2.0,
        },
    ),
    Subject("resolve", dl.activations.resolve, {"activation": "tanh", "lipschitz": True}),
    *(
        Subject(name, getattr(dl.activations, name), {"activation": lambda: dl.activations.resolve("tanh")})
        for name in ("slopes", "expansion", "has_kink", "is_bounded", "is_odd")
    ),
    Subject(
        "derivative",
        dl.activations.derivative,
        {"activation": lambda: dl.activations.resolve("tanh"), "x": lambda: torch.ones(2)},
    ),
]

NETWORKS = [
    Subject("res1", dl.res1, {"width": WIDTH, "activation": "tanh", "weights": None, "exponent": None}),
    Subject("res2", dl.res2, {"width": WIDTH, "activation": "tanh", "weights": None, "exponent": None}),
    Subject("res3", dl.res3, {"width": WIDTH, "weights": None, "exponent": None}),
    Subject(
        "modified_res1",
        dl.modified_res1,
        {"width": WIDTH, "activation": "tanh", "weights": lambda: dl.FractionalBrownian(0.7)},
    ),
    Subject(
        "inner",
        dl.inner,
        {
            "width": WIDTH,
            "activation": "tanh",
            "trend": law_of_trend,
            "noise": lambda: dl.Ito(A=0.1),
            "alpha": 0.5,
            "beta": 0.5,
            "weights": None,
            "exponent": None,
        },
    ),
    Subject(
        "attention",
        dl.attention,
        {"width": WIDTH, "tokens": 2, "inverse_temperature": 1.0, "weights": None, "exponent": None},
    ),
    Subject("Attention", dl.Attention, {"tokens": 2, "inverse_temperature": 1.0}),
    Subject(
        "shaped_mlp",
        dl.shaped_mlp,
        {"inputs": WIDTH, "depth_to_width": 1.0, "slopes": (0.0, -1.0), "exponent": None},
    ),
    Subject("ShapedMLP", dl.ShapedMLP, {"slopes": (0.0, -1.0)}),
    Subject("HiddenUnits", dl.HiddenUnits, {"depth_to_width": 1.0}),
    Subject(
        "convolutional",
        dl.convolutional,
        {
            "channels": 2,
            "activation": "relu",
            "size": (4, 4),
            "kernel": 3,
            "shortcut": False,
            "weights": None,
            "exponent": None,
        },
    ),
    Subject(
        "fully_connected",
        dl.fully_connected,
        {"width": WIDTH, "activation": "tanh", "weights": None, "delta": 1.0, "exponent": None},
    ),
    Subject(
        "module_network",
        dl.module_network,
        {
            "factory": fixed(lambda depth: [torch.nn.Linear(WIDTH, WIDTH) for _ in range(depth)]),
            "width": WIDTH,
        },
        runs=OWN_CODE,
    ),
    Subject(
        "ResidualNetwork",
        dl.ResidualNetwork,
        {
            "recursion": lambda: dl.Res1(dl.activations.resolve("tanh")),
            "width": WIDTH,
            "weights": lambda: (dl.IID(),),
            "exponent": 0.5,
        },
    ),
    *(
        Subject(each.__name__, each, {"activation": "tanh"})
        for each in (dl.Res1, dl.Res2, dl.Res3, dl.ModifiedRes1, dl.FullyConnected, dl.Inner)
    ),
    *(
        Subject(each.__name__, each, {"activation": "tanh", "size": (4, 4), "kernel": 3})
        for each in (dl.Convolutional, dl.ConvolutionalWithShortcut)
    ),
    Subject("TwoLayer", dl.TwoLayer, {"activation": "tanh", "hidden": 2, "hidden_exponent": 1.0}),
]

LIMITS = [
    Subject("Independent", dl.Independent, {"limit": lambda: res1().limit()}, anything=("limit",)),
    Subject("IsotropicSDE", dl.IsotropicSDE, {"width": 2, "rate": 0.5}),
    Subject(
        "ItoCorrectedSDE",
        dl.ItoCorrectedSDE,
        {
            "noise": lambda: dl.Ito(A=0.1),
            "trend": None,
            "width": 2,
            "slope": 1.0,
            "curvature": 0.0,
            "seed": 0,
            "other_quadratic": None,
        },
    ),
    Subject("LinearODE", dl.LinearODE, {"trend": law_of_trend, "width": 2, "slope": 1.0, "seed": 0}),
    Subject(
        "NeuralODE",
        dl.NeuralODE,
        {
            "recursion": lambda: dl.Res1("tanh"),
            "weights": lambda: (dl.SmoothGaussian(),),
            "width": 2,
            "seed": 0,
        },
    ),
    Subject("CovarianceSDE", dl.CovarianceSDE, {"width": 2, "depth_to_width": 1.0, "slope_difference": 1.0}),
    Subject(
        "AttentionSDE",
        dl.AttentionSDE,
        {"recursion": lambda: dl.Attention(2), "weights": lambda: (dl.IID(),), "width": 2},
    ),
    Subject(
        "NeuralSDE",
        dl.NeuralSDE,
        {"recursion": lambda: dl.Res1("tanh"), "weights": lambda: (dl.IID(),), "width": 2},
    ),
    Subject(
        "NeuralYoung",
        dl.NeuralYoung,
        {
            "recursion": lambda: dl.Res1("tanh"),
            "weights": lambda: (dl.FractionalBrownian(0.7),),
            "width": 2,
            "noise_scale": 1.0,
        },
    ),
    Subject(
        "zoo.AlteredSDE",
        dl.zoo.AlteredSDE,
        {
            "sde": lambda: res1().limit(),
            "diffusion_scale": 1.0,
            "transpose": False,
            "drift": fixed(torch.zeros_like),
        },
    ),
    Subject("PreNorm", dl.PreNorm, {"activation": "tanh", "norm": "rms"}),
    Subject("CorrelationClock", dl.CorrelationClock, {"activation": "tanh", "initial": 1.0}),
    Subject(
        "zoo.with_noise_scaled",
        dl.zoo.with_noise_scaled,
        {
            "limit": lambda: dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7)).limit(),
            "scale": 1.1,
        },
    ),
    Subject(
        "zoo.with_other_quadratic",
        dl.zoo.with_other_quadratic,
        {"limit": lambda: inner().limit(), "quadratic": fixed(dl.zoo.exchanged_quadratic)},
    ),
    Subject("zoo.cases", dl.zoo.cases, {"width": 2}),
    Subject("zoo.pairs", dl.zoo.pairs, {"width": 2}),
    Subject(
        "zoo.neural_ode_of",
        dl.zoo.neural_ode_of,
        {"network": lambda: dl.res1(2, "tanh", weights=dl.SmoothGaussian())},
    ),
    Subject(
        "zoo.stratonovich_drift",
        dl.zoo.stratonovich_drift,
        {"sde": lambda: res1().limit(), "derivative": fixed(lambda x: 1 - torch.tanh(x) ** 2)},
    ),
]

TRAINING = [
    Subject("SGD", dl.SGD, {**RATE, "momentum": 0.9, "weight_decay": 0.0}),
    Subject("Adam", dl.Adam, ADAM),
    Subject("AdamW", dl.AdamW, ADAM),
    Subject("Stop", dl.Stop, {"loss": 0.1, "patience": 3, "improvement": 0.01}),
    Subject("LinearEnds", dl.LinearEnds, {"inputs": 2, "outputs": 2, "trained": True}),
    Subject("PooledEnds", dl.PooledEnds, {"inputs": 2, "outputs": 2, "trained": True}),
    Subject("FromWeightLaws", dl.FromWeightLaws, {"same_in_all_layers": False, "same_at_all_depths": False}),
    Subject(
        "synthetic_system",
        dl.datasets.synthetic_system,
        {"width": 2, "count": 32, "test": 8, "normalise": "both", "seed": 0},
    ),
    Subject("digits", dl.datasets.digits, {"test": 360, "seed": 0}),
    Subject(
        "Data",
        dl.datasets.Data,
        {
            "name": "mine",
            "inputs": lambda: torch.ones(4, 2),
            "targets": lambda: torch.ones(4, 2),
            "test_inputs": lambda: torch.ones(2, 2),
            "test_targets": lambda: torch.ones(2, 2),
            "classes": None,
            "citations": (),
        },
    ),
    Subject(
        "train",
        dl.train,
        {
            "network": lambda: dl.fully_connected(WIDTH, "tanh"),
            "depths": (2, 3),
            "data": data,
            "loss": None,
            "optimizer": None,
            "batch": 16,
            "epochs": 1,
            "stop": None,
            "repeats": 1,
            "initial": None,
            "tied": (),
            "nonnegative": (),
            "fixed": (),
            "ends": None,
            "checkpointing": False,
            "checkpoints": None,
            "dtype": None,
            **RUN,
        },
    ),
    Subject(
        "TrainingReport.outputs",
        lambda **passed: trained().outputs(**passed),
        {"x": lambda: torch.ones(2, WIDTH), "depth": 2, "repeat": 0},
    ),
    Subject(
        "TrainingReport.states",
        lambda **passed: trained().states(**passed),
        {"x": lambda: torch.ones(2, WIDTH), "depth": 2, "repeat": 0},
    ),
    Subject("TrainingReport.trained", lambda **passed: trained().trained(**passed), {"repeat": 0}),
]

VERBS = [
    Subject(
        "compare",
        dl.compare,
        {
            "resnet": res1,
            "limit": None,
            "x": None,
            "depths": (2, 4, 8),
            "paths": 16,
            "budget": None,
            "norm": "sup",
            "p": 2,
            "confidence": 0.95,
            "reference": None,
            "tolerance": None,
            "coupling": "auto",
            "same_network": False,
            "quantity": "state",
            "dtype": None,
            **RUN,
        },
    ),
    Subject(
        "compare_laws",
        dl.compare_laws,
        {
            "resnet": res1,
            "limit": None,
            "x": None,
            "depths": (2, 4, 8),
            "draws": 200,
            "budget": None,
            "level": 0.001,
            "tolerance": 0.1,
            "steps": None,
            "dtype": None,
            **RUN,
        },
    ),
    Subject(
        "stability",
        dl.stability,
        {
            "resnet": res1,
            "depths": (2, 4, 8),
            "x": None,
            "draws": 8,
            "budget": None,
            "confidence": 0.95,
            "delta": 0.25,
            "dtype": None,
            **RUN,
        },
    ),
    Subject(
        "phase_diagram",
        dl.phase_diagram,
        {
            "network": fixed(dl.res1),
            "width": 2,
            "depth": 20,
            "hurst": (0.3, 0.7),
            "exponents": (0.3, 0.7),
            "draws": 2,
            "inputs": 1,
            "x": None,
            "confidence": 0.95,
            "dtype": None,
            **RUN,
        },
        runs=OWN_CODE,
    ),
    Subject("CompareReport.path", lambda **passed: compared().path(**passed), {"index": 0, "which": 0}),
]

MODULES = [
    Subject(
        "check_depth",
        dl.check_depth,
        {
            "factory": fixed(Stack),
            "depths": (2, 4),
            **MODULE,
            "expected": None,
            "tolerance": 0.1,
            "confidence": 0.99,
            **RUN,
        },
        runs=OWN_CODE,
    ),
    Subject(
        "check_training",
        dl.check_training,
        {
            "factory": fixed(Stack),
            "depths": (2, 4),
            "optimizer": fixed(adam),
            **MODULE,
            "steps": (1,),
            "expected": None,
            "widths": None,
            "rate_factors": None,
            "seeds": 2,
            "tolerance": 0.2,
            "confidence": 0.99,
            **RUN,
        },
        runs=OWN_CODE,
    ),
    Subject(
        "probe",
        dl.probe,
        {"model": lambda: Stack(4), **MODULE, "expected": None, "trained": False},
        runs=OWN_CODE,
    ),
    Subject(
        "branch_scalars",
        dl.branch_scalars,
        {"model": lambda: Stack(4), "batch": MODULE["batch"], "prefix": "depth/", "blocks": None},
        runs=OWN_CODE,
    ),
    Subject(
        "find_branches",
        dl.find_branches,
        {"model": lambda: Stack(4), "batch": MODULE["batch"], "blocks": None},
        runs=OWN_CODE,
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
    Subject(
        "diagnose",
        dl.diagnose,
        {
            "weights": stacks,
            "confidence": 0.95,
            "homogeneous": False,
            "spatial": None,
            "layers": None,
            "batch": None,
            "groups": None,
            "blocks": None,
            "seed": 0,
        },
    ),
    Subject(
        "depth_controls",
        dl.depth_controls,
        {
            "weights": lambda: Stack(12),
            "evaluate": fixed(lambda model: float(model(torch.ones(1, WIDTH)).sum())),
            "only": None,
            "layers": None,
            "halve": False,
            "draws": 2,
            "tolerance": 0.1,
            "seed": 0,
        },
        runs=OWN_CODE,
    ),
    Subject(
        "fitted_limit", dl.fitted_limit, {"weights": stacks, "activation": "tanh", "regime": "linear-ode"}
    ),
    *(
        Subject(
            f"init.{name}",
            getattr(dl.init, name),
            {
                "weights": lambda: list(torch.ones(4, WIDTH, WIDTH)),
                "exponent": 0.5,
                "gain": 1.0,
                "fan_in": 2,
                "seed": 0,
                **more,
            },
        )
        for name, more in {
            "iid_": {"law": "gaussian"},
            "smooth_": {"length_scale": 0.1},
            "fractional_": {"hurst": 0.7},
            "sample_": {"process": lambda: dl.AR1(0.5)},
        }.items()
    ),
    Subject(
        "init.residual_",
        dl.init.residual_,
        {
            "model": lambda: Stack(4),
            "hurst": 0.7,
            "process": None,
            "exponent": None,
            "gain": 1.0,
            "weights": "all",
            "biases": "zero",
            "batch": MODULE["batch"],
            "blocks": None,
            "seed": 0,
        },
        runs=OWN_CODE,
    ),
    Subject("check_law", dl.testing.check_law, {"law": dl.IID, "width": 2, "depths": (2, 4)}),
    Subject("check_limit", dl.testing.check_limit, {"limit": lambda: res1().limit(), "width": 2}),
    Subject(
        "check_recursion", dl.testing.check_recursion, {"recursion": lambda: dl.Res1("tanh"), "width": 2}
    ),
    Subject("check_report", dl.testing.check_report, {"report": compared}),
]

FILES = [
    Subject("load_report", dl.load_report, {"path": "no.json"}),
    Subject(
        "rerun",
        dl.rerun,
        {"report": compared, "given": None} | {name: RUN[name] for name in RUN if name != "seed"},
    ),
    *(
        Subject(
            f"CompareReport.{name}",
            lambda name=name, **passed: getattr(compared(), name)(**passed),
            {argument: file},
        )
        for name, argument, file in (
            ("save", "path", "r.json"),
            ("save_html", "path", "r.html"),
            ("to_csv", "path", None),
            ("to_latex", "path", None),
            ("plot", "ax", None),
        )
    ),
    Subject("Store", dl.Store, {"path": "runs.sqlite", "name": None}),
    Subject("reproduce", dl.reproduce, {"figure": "marion-fig1", "quick": True, **RUN}),
    Subject(
        "validate",
        dl.validate,
        {"quick": True, "only": "no such case", "resume": None, "on_row": None, **RUN},
        anything=("only",),
    ),
]

SUBJECTS = [
    dataclasses.replace(each, called=CALLED, runs=(*each.runs, "progress"))
    for each in (*LAWS, *NETWORKS, *LIMITS, *TRAINING, *VERBS, *MODULES, *FILES)
]
