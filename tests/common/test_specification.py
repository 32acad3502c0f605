"""Specifications: equal where numbers are equal, else different; refused where neither is sure."""

import functools
import importlib
import math
import re
import sys
import threading
import types
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.specification import HOOK, describe, differences, digest, text

NOISE = np.random.default_rng(0)


def key(value):
    return text(describe(value, "value"))


def sines(slope):
    return lambda h: torch.sin(slope * h)


@dataclass(frozen=True)
class Steep:
    slope: float

    def __call__(self, h):
        return torch.tanh(self.slope * h)


def replaced_default():
    @dataclass(frozen=True)
    class Steep:
        slope: float = 3.0

    return Steep


class Counting:
    def __init__(self, slope):
        self.slope = slope


class Drift(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, t, h):
        return self.layer(h)


def doubled(factor=2.0):
    def by(h, *, factor=factor):
        return factor * h

    return by


PAIRS = {
    "numbers": (1.0, 2.0),
    "an integer and a float": (1, 1.0),
    "a number and its text": (1, "1"),
    "True and 1": (True, 1),
    "zeros of either sign": (0.0, -0.0),
    "not a number and infinity": (math.nan, math.inf),
    "tensors": (torch.zeros(3), torch.tensor([0.0, 0.0, 1e-30])),
    "dtypes of tensors": (torch.zeros(3), torch.zeros(3).double()),
    "shapes of tensors": (torch.zeros(2, 3), torch.zeros(3, 2)),
    "an array and a tensor": (np.zeros(3), torch.zeros(3).double()),
    "closures": (sines(1.0), sines(2.0)),
    "code": (lambda h: torch.sin(h), lambda h: torch.cos(h)),
    "constants": (lambda h: 2 * h, lambda h: 3 * h),
    "defaults": (lambda h, a=1: a * h, lambda h, a=2: a * h),
    "defaults of keywords": (doubled(2.0), doubled(3.0)),
    "partials": (functools.partial(torch.add, 1), functools.partial(torch.add, 2)),
    "inner functions": (lambda h: [2 * k for k in h], lambda h: [3 * k for k in h]),
    "records": (Steep(1.0), Steep(2.0)),
    "classes of records": (Steep, replaced_default()),
    "bound methods": (Steep(1.0).__call__, Steep(2.0).__call__),
    "objects": (Counting(1.0), Counting(2.0)),
    "modules of torch": (Drift(0), Drift(1)),
    "modes of modules": (torch.nn.Dropout(), torch.nn.Dropout().eval()),
    "functions of torch": (torch.tanh, torch.sin),
    "functions of numpy": (np.sin, np.cos),
    "functions of C": (math.sin, math.cos),
    "dicts": ({"a": 1}, {"a": 2}),
    "a list that looks like a tensor": (describe(torch.zeros(1), "x"), torch.zeros(1)),
    "networks": (dl.res1(4, "tanh"), dl.res1(4, "sin")),
    "weights": (dl.res1(4, weights=dl.SmoothGaussian(0.1)), dl.res1(4, weights=dl.SmoothGaussian(0.2))),
    "trends": (dl.Trend(lambda t: torch.eye(2)), dl.Trend(lambda t: 2 * torch.eye(2))),
    "rates": (dl.Ito(A=lambda t: 0.1 * t), dl.Ito(A=lambda t: 0.2 * t)),
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_what_computes_other_numbers_has_another_key(what):
    first, second = PAIRS[what]
    assert key(first) != key(second)
    assert key(first) == key(first)


def module(name, source):
    """Return a module of a user's, which no package holds."""
    made = types.ModuleType(name)
    made.__file__ = f"/home/user/{name}.py"
    exec(source, made.__dict__)
    return made


USERS = """
import torch
import {helper}
slope = {slope}
table = {{1.0, 2.0, "a", "b"}}
def inner(h): return {inner}
def outer(h):
    return inner(h) * slope + {helper}.shift(h)
def late(h):
    import {helper}
    return {helper}.shift(h)
class Base:
    def forward(self, h): return {base}
class Drift(Base):
    @property
    def size(self): return {size}
    @staticmethod
    def other(h): return outer(h)
def recursive(n): return 1 if n < 1 else n * recursive(n - {step})
def member(h): return h in {{"x", "y", "z", "w"}}
"""


def users(monkeypatch, shift="h", **changes):
    helper = module("users_helper", f"def shift(h): return {shift}")
    monkeypatch.setitem(sys.modules, "users_helper", helper)
    values = {
        "helper": "users_helper",
        "slope": 1.0,
        "inner": "torch.sin(h)",
        "base": "h",
        "size": 1,
        "step": 1,
    }
    made = module("users_own", USERS.format(**(values | changes)))
    monkeypatch.setitem(sys.modules, "users_own", made)
    return made


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"slope": 2.0}, {"outer", "Drift"}),
        ({"inner": "torch.cos(h)"}, {"outer", "inner", "Drift"}),
        ({"shift": "h + 1"}, {"outer", "late", "Drift"}),
        ({"base": "2 * h"}, {"Drift"}),
        ({"size": 3}, {"Drift"}),
        ({"step": 2}, {"recursive"}),
        ({}, set()),
    ],
)
def test_users_code_is_followed_to_all_that_it_reads(monkeypatch, changes, changed):
    names = ("outer", "inner", "late", "Drift", "recursive", "member")
    before = {name: key(getattr(users(monkeypatch), name)) for name in names}
    after = {name: key(getattr(users(monkeypatch, **changes), name)) for name in names}
    assert {name for name in names if before[name] != after[name]} == changed


def test_a_programs_own_functions_are_followed_wherever_it_lies(monkeypatch):
    """`python -m tool` runs an installed file under the name that a user's program has, too."""
    main = types.ModuleType("__main__")
    main.__file__ = "/usr/lib/python3/site-packages/tool/__main__.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    keys = set()
    for number in (2, 3):
        exec(f"def mine(h): return {number} * h", main.__dict__)
        keys.add(key(main.mine))
    assert len(keys) == 2


def test_where_code_stands_does_not_count(monkeypatch):
    before = key(users(monkeypatch).outer)
    monkeypatch.setattr(sys.modules[__name__], "USERS", "\n\n# a comment\n" + USERS)
    assert key(users(monkeypatch).outer) == before


def test_a_function_is_described_alike_after_it_was_run():
    """Python rewrites code that runs often; its key must not follow."""
    activation = sines(2.0)
    before = key(activation)
    for _ in range(2000):
        activation(torch.zeros(1))
    assert key(activation) == before


@pytest.mark.nightly
def test_a_key_is_the_same_in_another_process(tmp_path):
    import subprocess

    program = tmp_path / "program.py"
    program.write_text(
        "import torch, deeplimit as dl\nfrom deeplimit.common.specification import describe, text\n"
        "def member(h): return h * len({'x', 'y', 'z'}) if h in {'a', 'b', 'c', 'd'} else torch.sin(h)\n"
        "print(text(describe((dl.res1(4, 'tanh'), member, {'b', 'a', 'c'}), 'all')))"
    )
    first, second = (
        subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)  # whose hashes of texts differ
    )
    assert first == second


REFUSED = {
    "a generator of torch": torch.Generator(),
    "a generator of numpy": np.random.default_rng(0),
    "a generator in a default": lambda h, noise=NOISE: h,
    "a generator in a closure": functools.partial(sines, torch.Generator()),
    "an iterator that is used up": (k for k in range(3)),
    "a lock": threading.Lock(),
    "a ufunc that no module holds": np.frompyfunc(lambda h: h, 1, 1),
    "objects in an array": np.array([object(), threading.Lock()], dtype=object),
    "a tensor without data": torch.empty(3, device="meta"),
    "too much": [[k] for k in range(30_000)],
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_told_apart_is_refused_by_name(what):
    with pytest.raises(ValueError, match=r"store= needs .*limit\.sde") as caught:
        describe(REFUSED[what], "limit.sde")
    assert HOOK in str(caught.value)


def test_a_text_of_ones_own_stands_for_an_object():
    generator = types.SimpleNamespace(noise=torch.Generator())
    with pytest.raises(ValueError, match="noise"):
        describe(generator, "limit")
    setattr(generator, HOOK, "noise of 3 May")
    first = key(generator)
    setattr(generator, HOOK, "noise of 4 May")
    assert key(generator) != first


def test_differences_name_the_field_and_both_values():
    first = describe({"seed": 0, "network": dl.res1(4, "tanh")}, "task")
    second = describe({"seed": 1, "network": replace(dl.res1(4, "tanh"), width=5), "paths": 3}, "task")
    assert list(differences(first, second)) == [
        "network.width: 4 there, 5 here", "paths: nothing there, 3 here", "seed: 0 there, 1 here"
    ]  # fmt: skip
    assert digest(first) != digest(second)
    assert re.fullmatch("[0-9a-f]{64}", digest(first))


def test_named_classes_of_installed_packages_carry_their_version():
    torchsde = importlib.import_module("torchsde")
    assert torchsde.__version__ in key(torchsde.sdeint)
    assert "code" not in describe(torchsde.sdeint, "solver")
