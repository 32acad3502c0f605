"""Bad calls are refused in words that say what was passed and what to do; files appear whole or not at
all.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit import cli

NET = dl.res1(width=2, activation="tanh")
BROWNIAN, SMOOTH = dl.Brownian(), dl.SmoothGaussian()
NAN, INF = math.nan, math.inf
LOOSE = torch.Generator()  # a generator that a sampler must not use
EYE, ONES, METHOD = (lambda t: torch.eye(2)), (lambda t: torch.ones(2)), (lambda self, t, h: h)


def bad(name, call, error, message, **more):
    return pytest.param(call, error, message, id=name, **more)


def go(*args, net=NET, **knobs):
    return dl.compare(net, *args, **({"depths": [2, 4, 8], "paths": 64} | knobs))


def tanh(width=2, **knobs):
    return dl.res1(width, "tanh", **knobs)


def smooth(width=2):
    return tanh(width, weights=SMOOTH)


def equation(**changes):
    """A torchsde object that fits NET, with some attributes changed, or left out where None."""
    zero = {"f": lambda t, h: torch.zeros_like(h), "g": lambda t, h: torch.zeros(len(h), 2, 4)}
    parts = {"sde_type": "ito", "noise_type": "general"} | zero | changes
    return SimpleNamespace(**{name: part for name, part in parts.items() if part is not None})


def draws(scale=1, mean=0):
    return lambda shape, generator: mean + scale * torch.randn(shape, generator=generator)


@functools.cache
def cheap_report():
    return go()


@pytest.fixture(scope="module")
def report():
    return cheap_report()


def saved(**changes):
    """The text of a saved report, with some of its fields changed or, where None, removed."""
    content = {
        name: value for name, value in (cheap_report().to_dict() | changes).items() if value is not None
    }
    return json.dumps({"format": "deeplimit-report", "version": 1, "kind": "compare", "report": content})


def load(text):
    Path("r.json").write_text(text, encoding="utf-8")
    return dl.load_report("r.json")


def folder(name):
    Path(name).mkdir()
    return name


# One row a keyword of compare: keyword, value, error, message. They become calls go(keyword=value) below.
KNOBS = [
    ("depths", [0, 4], ValueError, r"depth must be at least 1, got 0\."),
    ("depths", [-4, 4], ValueError, r"depth must be at least 1, got -4\."),
    ("depths", [4, 8.5], TypeError, r"depth must be an integer, got 8\.5 of type float"),
    ("depths", [4, NAN], TypeError, r"depth must be an integer, got nan of type float"),
    ("depths", [True, 4], TypeError, r"depth must be an integer, got True of type bool"),
    ("depths", [4, "8"], TypeError, r"depth must be an integer, got '8' of type str"),
    ("depths", [4, 4, 8], ValueError, r"strictly increasing without repeats, got \[4, 4, 8\]; try \[4, 8\]"),
    ("depths", [8, 4], ValueError, r"strictly increasing.*got \[8, 4\]; try \[4, 8\]"),
    (
        "depths",
        "16:64:x2",
        TypeError,
        r"depths must be a list of integers such as \[.*got '16:64:x2' of type str",
    ),
    ("depths", 16, TypeError, r"depths must be a list of integers such as \[.*got 16 of type int"),
    ("depths", [16], ValueError, r"depths must name at least two depths.*got \[16\]"),
    ("depths", [], ValueError, r"depths must name at least two depths.*got \[\]"),
    ("depths", [4, 2**25], ValueError, r"depths beyond .*16777216 are not supported.*got 33554432"),
    ("paths", 0, ValueError, r"paths must be at least 2, got 0\."),
    ("paths", 1, ValueError, r"paths must be at least 2, got 1\. An uncertainty needs"),
    ("paths", -64, ValueError, r"paths must be at least 2, got -64\."),
    ("paths", 64.0, TypeError, r"paths must be an integer, got 64\.0 of type float"),
    ("p", 0.5, ValueError, r"^p must be at least 1, got 0\.5"),
    ("p", INF, ValueError, r"^p must be .*100, got inf.*report\.worst"),
    ("p", NAN, ValueError, r"^p must be .*got nan"),
    ("p", "two", TypeError, r"^p must be a number, got 'two' of type str"),
    ("p", 200, ValueError, r"^p must be at most 100, got 200; .*report\.worst"),
    ("seed", -1, ValueError, r"seed must be at least 0, got -1"),
    ("seed", 1.5, TypeError, r"seed must be an integer, got 1\.5 of type float"),
    ("confidence", 0, ValueError, r"confidence must be more than 0, got 0"),
    ("confidence", 1, ValueError, r"confidence must be below 1, got 1; 0\.95 is usual"),
    ("confidence", 95, ValueError, r"confidence must be below 1, got 95; 0\.95 is usual"),
    ("norm", "max", ValueError, r"norm must be one of sup, sup-continuous, final; got 'max'"),
    ("norm", 2, TypeError, r"norm must be a string, one of sup, sup-continuous, final; got 2"),
    ("reference", 15, ValueError, r"reference must be at least 16, got 15\. .*twice the deepest"),
    ("reference", 32.0, TypeError, r"reference must be an integer, got 32\.0 of type float"),
    ("tolerance", 1e-6, ValueError, r"tolerance= is for an ODE.*dH = .* is an SDE; use reference="),
    ("device", "tpu", ValueError, r"device 'tpu' is not known.*use 'cpu' or 'cuda'"),
    ("device", "meta", ValueError, r"device must be 'cpu' or 'cuda', got 'meta'"),
    ("device", 3, TypeError, r"device must be a string such as 'cpu' or 'cuda'.*got 3"),
    ("dtype", "float16", ValueError, r"dtype must be torch\.float32 or torch\.float64.*got 'float16'"),
    ("dtype", torch.int32, ValueError, r"dtype must be torch\.float32 or torch\.float64.*got torch\.int32"),
    ("dtype", 7, TypeError, r"dtype must be torch\.float32 or torch\.float64.*got 7"),
    ("workers", 0, ValueError, r"workers must be at least 1, got 0"),
    ("executor", ThreadPoolExecutor, TypeError, r"executor must .*ThreadPoolExecutor"),
    ("executor", 4, TypeError, r"executor must have submit\(\), as in concurrent\.futures; got 4"),
    ("progress", 3, TypeError, r"^progress must be .*got 3"),
    ("path", 64, TypeError, r"compare\(\) got an unexpected keyword argument 'path'"),
]
INPUTS = [
    ("NaN", torch.tensor([[NAN, 1.0], [0.0, 0.0]]), ValueError, r"x must be finite; 1 of its 2 rows"),
    ("Inf", torch.tensor([[INF, 1.0], [0.0, -INF]]), ValueError, r"x must be finite; 2 of its 2 rows"),
    (
        "float64 too large for float32",
        torch.full((3, 2), 1e300, dtype=torch.float64),
        ValueError,
        r"x .*float32.*dtype=",
    ),
    (
        "one dimension",
        torch.ones(2),
        ValueError,
        r"x must have two dimensions \(inputs, n_in\), got x\.shape=\(2,\)",
    ),
    ("three dimensions", torch.ones(1, 2, 2), ValueError, r"x must have two dim.*got x\.shape=\(1, 2, 2\)"),
    ("no rows", torch.ones(0, 2), ValueError, r"x must hold at least one input.*got x\.shape=\(0, 2\)"),
    ("no columns", torch.ones(2, 0), ValueError, r"x must hold .*at least one entry, got x\.shape=\(2, 0\)"),
    (
        "integers",
        torch.ones(2, 2, dtype=torch.int64),
        TypeError,
        r"x must be floating point, got torch\.int64; x\.float\(\)",
    ),
    ("complex", torch.ones(2, 2) * 1j, TypeError, r"x must be floating point, got torch\.complex64; x\.real"),
    ("list", [[1.0, 2.0]], TypeError, r"x must be a torch tensor of shape.*got list; torch\.as_tensor\(x\)"),
    (
        "numpy array",
        np.ones((2, 2)),
        TypeError,
        r"x must be a torch tensor.*got ndarray; torch\.as_tensor\(x\)",
    ),
    ("sparse", torch.eye(2).to_sparse(), TypeError, r"x must be a dense.*x\.to_dense\(\)"),
]
ACTIVATIONS = [
    ("unknown", "tahn", ValueError, r"activation 'tahn' is not known; use one of .*tanh, or pass a callable"),
    (
        "number",
        3,
        TypeError,
        r"activation must be a name \(.*tanh\) or a callable on tensors; got 3 of type int",
    ),
    (
        "changes shape",
        lambda x: x.sum(-1),
        TypeError,
        r"must map .* same shape and dtype.*\(2, 4\).*returned shape \(2,\)",
    ),
    (
        "changes dtype",
        lambda x: x.float(),
        TypeError,
        r"must map .* same shape and dtype.*float64 it returned .*float32",
    ),
    ("returns None", lambda x: None, TypeError, r"must map a tensor to a tensor.*returned NoneType"),
    (
        "returns NaN",
        lambda x: torch.log(x),
        ValueError,
        r"activation '<lambda>' must be finite.*at \[-1000000\.0",
    ),
    (
        "grows like x**2",
        lambda x: x**2,
        ValueError,
        r"'<lambda>' grows faster than linearly.*Propositions 11 and 12.*need",
    ),
    ("class, not object", torch.nn.Tanh, TypeError, r"activation .*Tanh.*(make|call|instance|Tanh\(\))"),
    (
        "mixes entries",
        lambda x: torch.softmax(x, -1),
        ValueError,
        r"activation '<lambda>' must .*(elementwise|entry by entry)",
    ),
    (
        "changes its input",
        torch.nn.ReLU(inplace=True),
        ValueError,
        r"activation 'ReLU' .*(in place|inplace).*(must|use|pass)",
    ),
    ("fails", lambda x: x @ x, (TypeError, ValueError), r"activation '<lambda>' must .*(fail|raise)"),
]
EXPLAINED = r"cannot pair {} \(.*because .+[Cc]losest: \w.+\.$"
MADE = [
    *[
        ("width", value, lambda v=value: dl.res1(v), ValueError, rf"width must be at least 1, got {value}\.")
        for value in (0, -3)
    ],
    (
        "width",
        2.5,
        lambda: dl.res2(2.5),
        TypeError,
        r"width must be an integer, got 2\.5 of type float.*hidden units",
    ),
    (
        "width",
        "'40'",
        lambda: dl.inner("40"),
        TypeError,
        r"width must be an integer, got '40' of type str.*hidden units",
    ),
    (
        "exponent",
        -1,
        lambda: tanh(exponent=-1),
        ValueError,
        r"exponent must be at least 0, got -1\. .*L\*\*-exponent",
    ),
    (
        "exponent",
        NAN,
        lambda: tanh(exponent=NAN),
        ValueError,
        r"exponent must be finite, got nan\. .*L\*\*-exponent",
    ),
    (
        "exponent",
        "'1/2'",
        lambda: dl.res3(2, exponent="1/2"),
        TypeError,
        r"exponent must be a number, got '1/2' of type str",
    ),
    (
        "weights",
        3,
        lambda: tanh(weights=3),
        TypeError,
        r"weights must be a weight process such as Brownian.*got 3 of type int",
    ),
    (
        "weights",
        "a name",
        lambda: tanh(weights="iid"),
        TypeError,
        r"weights must be .*such as Brownian.*got 'iid' of type str",
    ),
    (
        "weights",
        "a class",
        lambda: tanh(weights=dl.Brownian),
        TypeError,
        r"weights must be .*is a class, use Brownian\(\)",
    ),
    (
        "weights",
        "too many",
        lambda: dl.res2(2, weights=(BROWNIAN,) * 3),
        ValueError,
        r"for each of the 2 .*res2; got 3",
    ),
    (
        "weights",
        "too few",
        lambda: dl.res3(2, weights=(BROWNIAN,)),
        ValueError,
        r"for each of the 2 .*res3; got 1",
    ),
    (
        "IID",
        "unknown",
        lambda: dl.IID("cauchy"),
        ValueError,
        r"law must be one of gaussian, uniform.*; got 'cauchy'",
    ),
    (
        "IID",
        "number",
        lambda: dl.IID(3),
        TypeError,
        r"law must be 'gaussian'.*or a callable sampler\(.*got 3 of type int",
    ),
    (
        "IID",
        "wrong shape",
        lambda: dl.IID(lambda s, g: torch.ones(3)),
        TypeError,
        r"must return .*shape asked for.*shape \(3,\)",
    ),
    (
        "IID",
        "array",
        lambda: dl.IID(lambda s, g: np.ones(s)),
        TypeError,
        r"must return a tensor of the shape.*got ndarray",
    ),
    (
        "IID",
        "variance 4",
        lambda: dl.IID(draws(scale=2)),
        ValueError,
        r"must .*mean 0 and.*variance (3\.99|4).*divide by",
    ),
    (
        "IID",
        "mean 1",
        lambda: dl.IID(draws(mean=1)),
        ValueError,
        r"must .*mean 0 and.*have mean (1|0\.99).*Subtract",
    ),
    (
        "IID",
        "NaN",
        lambda: dl.IID(lambda s, g: torch.full(s, NAN)),
        ValueError,
        r"sampler '<lambda>' must .*finite.*NaN",
    ),
    (
        "IID",
        "Cauchy",
        lambda: dl.IID(lambda s, g: torch.empty(s).cauchy_(generator=g)),
        ValueError,
        r"must.*variance 1;",
    ),
    (
        "IID",
        "own generator",
        lambda: dl.IID(lambda s, g: torch.randn(s, generator=LOOSE)),
        ValueError,
        r"must draw from the gen",
    ),
    (
        "IID",
        "one argument",
        lambda: dl.IID(lambda s: torch.ones(s)),
        TypeError,
        r"sampler '<lambda>' must .*shape, generator",
    ),
    (
        "IID",
        "lwa=",
        lambda: dl.IID(lwa="uniform"),
        TypeError,
        r"IID.* got an unexpected keyword argument 'lwa'",
    ),
    (
        "SmoothGaussian",
        0,
        lambda: dl.SmoothGaussian(0),
        ValueError,
        r"length_scale must be at least 0\.005, got 0\. .*time on",
    ),
    (
        "SmoothGaussian",
        -1,
        lambda: dl.SmoothGaussian(-1),
        ValueError,
        r"length_scale must be at least 0\.005, got -1\.",
    ),
    (
        "SmoothGaussian",
        NAN,
        lambda: dl.SmoothGaussian(NAN),
        ValueError,
        r"length_scale must be finite, got nan",
    ),
    (
        "SmoothGaussian",
        "'1'",
        lambda: dl.SmoothGaussian("1"),
        TypeError,
        r"length_scale must be a number, got '1' of type str",
    ),
    (
        "SmoothGaussian",
        "scale=",
        lambda: dl.SmoothGaussian(scale=1),
        TypeError,
        r"unexpected keyword argument 'scale'",
    ),
    (
        "Trend",
        "matrix",
        lambda: dl.Trend(torch.eye(2)),
        TypeError,
        r"A must be a function of time, such as lambda t.*got Tensor",
    ),
    ("Trend", "b a vector", lambda: dl.Trend(EYE, torch.ones(2)), TypeError, r"b must be a function.*Tensor"),
    (
        "Trend",
        "shape",
        lambda: tanh(weights=dl.Trend(lambda t: torch.eye(3))),
        ValueError,
        r"have shape \(2, 2\), got \(3, 3\)",
    ),
    (
        "Trend",
        "NaN",
        lambda: tanh(weights=dl.Trend(lambda t: torch.eye(2) / t)),
        ValueError,
        r"A\(0\.0\) must be finite",
    ),
    (
        "Trend",
        "None",
        lambda: tanh(weights=dl.Trend(lambda t: None)),
        TypeError,
        r"A\(0\.0\) must be .*tensor.*NoneType",
    ),
    (
        "Trend",
        "b, res1",
        lambda: tanh(weights=dl.Trend(EYE, ONES)),
        ValueError,
        r"res1 has no bias.*use inner, or leave b out",
    ),
    (
        "res1",
        "activaton=",
        lambda: dl.res1(2, activaton="tanh"),
        TypeError,
        r"unexpected keyword argument 'activaton'",
    ),
    (
        "res3",
        "activation=",
        lambda: dl.res3(2, activation="tanh"),
        TypeError,
        r"unexpected keyword argument 'activation'",
    ),
    (
        "dl",
        "res7",
        lambda: dl.res7,
        AttributeError,
        r"has no attribute 'res7'; public names: .*res1, res2, res3",
    ),
    (
        "compare",
        "module",
        lambda: go(net=torch.nn.Identity()),
        TypeError,
        r"must come from res1, .*got Identity\(\) of type",
    ),
    (
        "compare",
        "reference, ODE",
        lambda: go(net=smooth(), reference=64),
        ValueError,
        r"reference=.*an ODE; use tolerance=",
    ),
    (
        "compare",
        "tolerance 0",
        lambda: go(net=smooth(), tolerance=0),
        ValueError,
        r"tolerance must be more than 0, got 0",
    ),
    (
        "compare",
        "tolerance 10",
        lambda: go(net=smooth(), tolerance=10),
        ValueError,
        r"tolerance must be .*got 10",
    ),
]
NO_THEOREM = [
    ("res3, Brownian", "res3", lambda: go(net=dl.res3(2)), r"Brownian|SmoothGaussian"),
    ("inner, Brownian", "inner", lambda: go(net=dl.inner(2)), r"SmoothGaussian"),
    ("limit of inner, Brownian", "inner", lambda: dl.inner(2).limit(), r"SmoothGaussian"),
    ("res1, 1/4", "res1", lambda: go(net=tanh(exponent=0.25)), r"exponent=0\.5"),
    ("res1, smooth 1/2", "res1", lambda: go(net=tanh(weights=SMOOTH, exponent=0.5)), r"exponent=1\b"),
    ("res2, mixed", "res2", lambda: go(net=dl.res2(2, weights=(BROWNIAN, SMOOTH))), r"[Ss]mooth|functions"),
    (
        "res3, 1/4: 1/2 has no theorem either",
        "res3",
        lambda: go(net=dl.res3(2, exponent=0.25)),
        r"res1|SmoothGaussian",
    ),
]
LIMITS = [
    (
        "Stratonovich",
        equation(sde_type="stratonovich"),
        ValueError,
        r"is a Stratonovich.*correction.*set sde_type = 'ito'",
    ),
    (
        "unknown sde_type",
        equation(sde_type="itoo"),
        ValueError,
        r"sde_type must be one of ito, stratonovich; got 'itoo'",
    ),
    (
        "unknown noise_type",
        equation(noise_type="x"),
        ValueError,
        r"noise_type must be one of general, diagonal.*; got 'x'",
    ),
    ("no drift", equation(f=None), TypeError, r"SimpleNamespace .*without a drift \(f\); add"),
    (
        "no diffusion",
        equation(g=None),
        TypeError,
        r"SimpleNamespace .*without a diffusion \(g or g_prod\); add",
    ),
    (
        "3 noises",
        equation(g=lambda t, h: torch.zeros(len(h), 2, 3)),
        ValueError,
        r"has 3 Brownian.*by 4 .*\(paths, 2, 4\)",
    ),
    (
        "diagonal noise",
        equation(noise_type="diagonal", g=lambda t, h: h),
        ValueError,
        r"has 2 Brown.*by 4 .*\(paths, 2, 4\)",
    ),
    (
        "diagonal noise, full g",
        equation(noise_type="diagonal"),
        ValueError,
        r"g\(t, h\) must return .*2\).*got \(2, 2, 4\)",
    ),
    (
        "g a matrix",
        equation(g=lambda t, h: torch.zeros(len(h), 4)),
        ValueError,
        r"g\(t, h\) must return .*2, 4\).*got \(2, 4\)",
    ),
    (
        "g transposed",
        equation(g=lambda t, h: torch.zeros(len(h), 4, 2)),
        ValueError,
        r"g\(t, h\) must return .*2, 4\).*got .*4, 2\)",
    ),
    (
        "g float64",
        equation(g=lambda t, h: torch.zeros(len(h), 2, 4).double()),
        ValueError,
        r"must keep.*float32, got.*float64",
    ),
    (
        "g no tensor",
        equation(g=lambda t, h: np.zeros((len(h), 2, 4))),
        TypeError,
        r"g\(t, h\) must return a tensor.*ndarray",
    ),
    (
        "drift of one column",
        equation(f=lambda t, h: h[:, :1]),
        ValueError,
        r"must return shape .*\(2, 2\), got \(2, 1\)",
    ),
    ("drift NaN", equation(f=lambda t, h: h * NAN), ValueError, r"SimpleNamespace.* must be finite"),
    (
        "g_prod of one column",
        equation(g=None, g_prod=lambda t, h, v: h[:, :1]),
        ValueError,
        r"must return shape.*\(2, 2\), got",
    ),
    (
        "g_prod of 3 columns",
        equation(g=None, g_prod=lambda t, h, v: v[:, :3]),
        ValueError,
        r"must return shape.*\(2, 2\), got",
    ),
    (
        "class, not object",
        type("Unmade", (), vars(equation(f=METHOD, g=METHOD))),
        TypeError,
        r"limit Unmade.* class.*Unmade\(\)",
    ),
    (
        "f of one column",
        lambda t, h: h[:, :1],
        ValueError,
        r"limit <lambda>\(t, h\) must return shape.*\(2, 2\), got \(2, 1\)",
    ),
    (
        "f no tensor",
        lambda t, h: h.tolist(),
        TypeError,
        r"<lambda>\(t, h\) must return a tensor of shape \(2, 2\), got list",
    ),
    ("f NaN", lambda t, h: h * NAN, ValueError, r"limit <lambda>\(t, h\) must be finite at t = 0"),
    (
        "f float64",
        lambda t, h: h.double(),
        ValueError,
        r"must keep.*float32, got torch.float64; pass dtype=torch.float64",
    ),
    (
        "f float16",
        lambda t, h: h.half(),
        ValueError,
        r"must keep .*float32, got torch\.float16(?!.*pass dtype=torch\.float16)",
    ),
    ("f of h alone", lambda h: h, TypeError, r"limit .*must be .*f\(t, h\)|limit .*must take .*\(t, h\)"),
    ("integer", 3, TypeError, r"limit must be a torchsde-style object.*f\(t, h\).*got 3 of type int"),
    ("string", "sde", TypeError, r"limit must be a torchsde-style object.*f\(t, h\).*got 'sde' of type str"),
    (
        "inputs",
        torch.ones(2, 2),
        TypeError,
        r"limit must be a torchsde-style object.*shape \(2, 2\); inputs go in x=",
    ),
    ("network", NET, TypeError, r"limit must be .*such as network\.limit\(\)"),
    (
        "independent, no noise",
        dl.Independent(dl.Identity()),
        ValueError,
        r"Independent needs .*noise of its own.*dH = 0.* none",
    ),
    ("wider SDE", tanh(3).limit(), ValueError, r"has 9 Brownian motions.*driven by 4 .*of 2 x 2"),
    (
        "wider SDE, independent",
        dl.Independent(tanh(3).limit()),
        ValueError,
        r"(width|d = )\D*3.*(width|d = )\D*2",
    ),
]
FILES = [
    (
        "save, no folder",
        lambda: cheap_report().save("no/r.json"),
        ValueError,
        r"path lies in 'no', which is not.*make it first",
    ),
    (
        "save, folder",
        lambda: cheap_report().save(folder("f.json")),
        ValueError,
        r"names a folder, got 'f\.json'; give a file's",
    ),
    (
        "save, .txt",
        lambda: cheap_report().save("r.txt"),
        ValueError,
        r"path must end in \.json, got 'r\.txt'",
    ),
    ("save, number", lambda: cheap_report().save(3), TypeError, r"path must be a path, got 3 of type int"),
    (
        "save, long name",
        lambda: cheap_report().save("r" * 260 + ".json"),
        ValueError,
        r"path .*rrr.*(too long|shorter)",
    ),
    (
        "plot, .jpg",
        lambda: cheap_report().plot("r.jpg"),
        ValueError,
        r"path must end in \.png or .*got 'r\.jpg'",
    ),
    (
        "plot, no folder",
        lambda: cheap_report().plot("no/r.png"),
        ValueError,
        r"path lies in 'no', which is not.*make it first",
    ),
    ("plot, number", lambda: cheap_report().plot(3), TypeError, r"ax must be .*(axes|Axes).*got 3"),
    ("load, missing", lambda: dl.load_report("no.json"), FileNotFoundError, r"No such file.*'no\.json'"),
    ("load, number", lambda: dl.load_report(3), TypeError, r"path must be a path, got 3 of type int"),
    (
        "load, not JSON",
        lambda: load("rate: 0.5"),
        ValueError,
        r"'r\.json' is not a deeplimit report: it is not JSON",
    ),
    (
        "load, other JSON",
        lambda: load("[1, 2]"),
        ValueError,
        r"'r\.json' is not a deeplimit report: its 'format' is not",
    ),
    (
        "load, later",
        lambda: load(saved().replace('"version": 1', '"version": 2')),
        ValueError,
        r"version 2;.*1: upgrade",
    ),
    (
        "load, unknown kind",
        lambda: load(saved().replace('"compare"', '"other"')),
        ValueError,
        r"kind 'other'; .*reads compare",
    ),
    (
        "load, kind a list",
        lambda: load(saved().replace('"compare"', "[1]")),
        ValueError,
        r"kind \[1\]; .*reads compare",
    ),
    (
        "load, field missing",
        lambda: load(saved(rate=None)),
        ValueError,
        r"'r\.json' is a damaged compare report: .*rate",
    ),
    (
        "load, field unknown",
        lambda: load(saved(rte=1)),
        ValueError,
        r"'r\.json' is a damaged compare report: .*rte",
    ),
    (
        "load, bad number",
        lambda: load(saved(rate="half")),
        ValueError,
        r"'r\.json' is a damaged compare report: .*half",
    ),
    (
        "load, bad interval",
        lambda: load(saved(rate_interval=[1, 2, 3])),
        ValueError,
        r"'r\.json' is a damaged compare report",
    ),
    (
        "load, short array",
        lambda: load(saved(errors=[0.1])),
        ValueError,
        r"'r\.json' is a damaged compare report: .*errors",
    ),
    (
        "load, bad verdict",
        lambda: load(saved(verdict="maybe")),
        ValueError,
        r"'r\.json' is a damaged compare report: .*maybe",
    ),
]
NO_CUDA = pytest.mark.skipif(
    torch.cuda.is_available(), reason="this machine has a CUDA device, so asking for it is no error"
)
CALLS = [
    *(
        bad(f"{key}={str(value)[:25]}", lambda k=key, v=value: go(**{k: v}), *rest)
        for key, value, *rest in KNOBS
    ),
    *(bad(f"x {name}", lambda v=value: go(x=v), *rest) for name, value, *rest in INPUTS),
    *(bad(f"activation {name}", lambda v=value: dl.res1(2, v), *rest) for name, value, *rest in ACTIVATIONS),
    *(bad(f"{name} {what}", call, *rest) for name, what, call, *rest in MADE),
    *(bad(name, call, dl.NoTheoremError, EXPLAINED.format(net)) for name, net, call, _ in NO_THEOREM),
    *(bad(f"limit {name}", lambda v=value: go(v), *rest) for name, value, *rest in LIMITS),
    bad(
        "limit wider ODE",
        lambda: go(smooth(3).limit(), net=smooth()),
        ValueError,
        r"(width|d = )\D*3.*(width|d = )\D*2",
    ),
    *(bad(name, call, *rest) for name, call, *rest in FILES),
    bad(
        "cuda",
        lambda: go(device="cuda"),
        ValueError,
        r"device 'cuda' .*no CUDA device here; use device='cpu'",
        marks=NO_CUDA,
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_a_bad_call_says_what_was_passed_and_what_to_do(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        call()
    assert re.search(message, str(caught.value), re.DOTALL), f"{caught.value}\n  does not match {message!r}"
    assert not list(tmp_path.glob(".*")), "a temporary file was left behind"


@pytest.mark.parametrize(
    ("call", "closest"), [pytest.param(call, closest, id=name) for name, _, call, closest in NO_THEOREM]
)
def test_a_missing_theorem_is_a_value_error_and_names_a_setting_that_has_one(call, closest):
    with pytest.raises(ValueError, match="cannot pair") as caught:
        call()
    assert re.search(closest, str(caught.value).split("losest")[1]), str(caught.value)


def test_a_report_can_be_loaded_by_a_process_that_has_not_compared_anything(report, tmp_path):
    report.save(tmp_path / "r.json")
    program = "import sys, deeplimit as dl; print(dl.load_report(sys.argv[1]).verdict)"
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "r.json"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, report.verdict), run.stderr


def half_a_file(failure):
    """What stands in for a writer: it writes some bytes to its path, if it has one, then fails."""

    def write(*args, **knobs):
        for path in (argument for argument in args if isinstance(argument, Path)):
            path.write_bytes(b"half of a")
        raise failure

    return write


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full disk", "Ctrl-C"]
)
@pytest.mark.parametrize("before", [b"old content", None], ids=["file there", "no file there"])
@pytest.mark.parametrize(
    ("owner", "writer", "name"),
    [
        (json, "dumps", "r.json"),
        (Path, "write_text", "r.json"),
        (Figure, "savefig", "r.png"),
        (Figure, "savefig", "r.svg"),
    ],
)
def test_a_failed_write_leaves_the_old_file_alone(
    report, tmp_path, monkeypatch, owner, writer, name, before, failure
):
    target = tmp_path / name
    if before is not None:
        target.write_bytes(before)
    write = report.save if name.endswith(".json") else report.plot
    monkeypatch.setattr(owner, writer, half_a_file(failure))
    with pytest.raises(type(failure)):
        write(target)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == (
        {} if before is None else {name: before}
    )


def command_line(*arguments):
    result = CliRunner().invoke(cli.app, ["compare", "--width", "2", "--paths", "64", "--quiet", *arguments])
    assert result.exit_code == 2, f"exit code {result.exit_code}, {result.exception!r}\n{result.output}"
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())


@pytest.mark.parametrize(
    ("option", "file", "message"),
    [
        ("--json", "no/r.json", r"--json lies in .*no', which is not a folder; make it first"),
        ("--json", "folder.json", r"--json names a folder, got .*folder\.json'; give a file's name"),
        ("--json", "r.txt", r"--json must end in \.json, got .*r\.txt'"),
        ("--json", "locked/r.json", r"--json lies in .*locked', which cannot be written to"),
        pytest.param("--json", "r" * 260 + ".json", r"--json .*rrr.*(too long|shorter)", id="long name"),
        ("--plot", "no/r.png", r"--plot lies in .*no', which is not a folder; make it first"),
        ("--plot", "folder.png", r"--plot names a folder, got .*folder\.png'; give a file's name"),
        ("--plot", "r.gif", r"--plot must end in \.png or \.pdf or \.svg, got .*r\.gif'"),
        ("--plot", "locked/r.png", r"--plot lies in .*locked', which cannot be written to"),
    ],
)
def test_an_unwritable_file_stops_the_command_before_any_computation(
    tmp_path, monkeypatch, option, file, message
):
    for name in ("folder.json", "folder.png", "locked"):
        (tmp_path / name).mkdir()
    there = sorted(tmp_path.rglob("*"))
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode, **more: Path(path).name != "locked" and access(path, mode, **more)
    )
    monkeypatch.setattr(
        "deeplimit.convergence.compare", lambda *args, **knobs: pytest.fail("computed before it checked")
    )
    other = (
        ("--plot", str(tmp_path / "good.png"))
        if option == "--json"
        else ("--json", str(tmp_path / "good.json"))
    )
    assert re.search(message, command_line(option, str(tmp_path / file), *other))
    assert sorted(tmp_path.rglob("*")) == there


USAGE = [
    (["--network", "res9"], r"--network must be one of res1, res2, res3, inner; got 'res9'"),
    (["--weights", "levy"], r"--weights must be one of brownian, .*smooth, fractional; got 'levy'"),
    (["--pahts", "64"], r"No such option:? '?--pahts"),
    (["--paths", "many"], r"Invalid value for '--paths': .*valid integer"),
    (["--depths", "a"], r"--depths must look like 16:1024:x2, .*; got 'a'"),
    (["--depths", "16:1024"], r"--depths must look like 16:1024:x2, .*; got '16:1024'"),
    (["--depths", "1.5,2"], r"--depths must look like 16:1024:x2, .*; got '1\.5,2'"),
    (
        ["--depths", "0:4:x2"],
        r"--depths '0:4:x2' .*use first:last:xFACTOR.*(at least 1|≥ 1|1 ≤|from 1|positive|more than 0)",
    ),
    (
        ["--depths", "16:8:x2"],
        r"--depths '16:8:x2' does not grow: use first:last:xFACTOR .* with first < last",
    ),
    (
        ["--depths", "16:1024:x1"],
        r"--depths '16:1024:x1' .*use .*FACTOR.*(at least 2|≥ 2|2 or more|more than 1|above 1)",
    ),
    (
        ["--network", "res3", "--activation", "tanh"],
        r"--activation 'tanh' is not for res3, whose .* is ReLU; use res2",
    ),
    (["--limit", "nocolon"], r"--limit must look like package\.module:object, got 'nocolon'"),
    (
        ["--limit", "no_such_module:x"],
        r"--limit 'no_such_module:x' could not be loaded: No module named 'no_such_module'",
    ),
    (["--limit", "math:no_such_name"], r"--limit 'math:no_such_name' could not be loaded: .*no_such_name"),
    (["--limit", "broken_limit:x"], r"--limit 'broken_limit:x' could not be loaded: .*division by zero"),
    (["--limit", "failing_limit:f"], r"limit f\(t, h\) .*division by zero"),
    (["--network", "res3"], r"cannot pair res3 .* because .* Closest: res1"),
    (["--device", "tpu"], r"device 'tpu' is not known to torch; use 'cpu' or 'cuda'"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_bad_usage_exits_with_2_and_says_why_on_standard_error(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_limit.py").write_text("x = 1 / 0\n")
    (tmp_path / "failing_limit.py").write_text("def f(t, h):\n    return h * (1 / 0)\n")
    assert re.search(message, command_line("--depths", "2:8:x2", *arguments))


def test_a_sampler_only_a_little_off_centre_is_refused():
    with pytest.raises(ValueError, match=r"have mean 0\.(1|09)"):
        dl.IID(lambda shape, generator: torch.randn(shape, generator=generator) + 0.1)
