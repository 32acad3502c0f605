"""Bad calls of `compare` are refused by the argument and the value that are wrong."""

from __future__ import annotations

import math

import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl

NET = dl.res1(width=2, activation="tanh")
NAN, INF = math.nan, math.inf


def go(*args, net=NET, **knobs):
    return dl.compare(net, *args, **({"depths": [2, 4, 8], "paths": 64} | knobs))


def smooth():
    return dl.res1(2, "tanh", weights=dl.SmoothGaussian())


# One row per keyword of compare: keyword, value, error, what its message names.
KNOBS = [
    ("depths", [0, 4], ValueError, "depth", "1", "0"),
    ("depths", [4, 8.5], TypeError, "depth", "8.5"),
    ("depths", [True, 4], TypeError, "depth", "True"),
    ("depths", [4, 4, 8], ValueError, "depths", "[4, 4, 8]", "[4, 8]"),
    ("depths", [8, 4], ValueError, "depths", "[8, 4]", "[4, 8]"),
    ("depths", 16, TypeError, "depths", "16"),
    ("depths", [16], ValueError, "depths", "[16]"),
    ("depths", [], ValueError, "depths", "[]"),
    ("depths", [4, 2**25], ValueError, "depths", "16777216", "33554432"),
    ("paths", 1, ValueError, "paths", "2", "1"),
    ("paths", 64.0, TypeError, "paths", "64.0"),
    ("p", 0.5, ValueError, "p", "1", "0.5"),
    ("p", INF, ValueError, "p", "100", "inf", "report.worst"),
    ("p", NAN, ValueError, "p", "nan"),
    ("p", "two", TypeError, "p", "'two'"),
    ("p", 200, ValueError, "p", "100", "200", "report.worst"),
    ("seed", -1, ValueError, "seed", "0", "-1"),
    ("seed", 1.5, TypeError, "seed", "1.5"),
    ("confidence", 1, ValueError, "confidence", "1", "1", "0.95"),
    ("norm", "max", ValueError, "norm", "sup, sup-continuous, final", "'max'"),
    ("norm", 2, TypeError, "norm", "sup, sup-continuous, final", "2"),
    ("reference", 15, ValueError, "reference", "16", "15"),
    ("reference", 32.0, TypeError, "reference", "32.0"),
    ("tolerance", 1e-6, ValueError, "tolerance=", "ODE", "SDE", "reference="),
    ("device", "tpu", ValueError, "device", "'tpu'", "'cpu'", "'cuda'"),
    ("device", 3, TypeError, "device", "'cpu'", "'cuda'", "3"),
    ("dtype", "float16", ValueError, "dtype", "torch.float32", "torch.float64", "'float16'"),
    ("dtype", 7, TypeError, "dtype", "torch.float32", "torch.float64", "7"),
    ("workers", 0, ValueError, "workers", "1", "0"),
    ("executor", 4, TypeError, "executor", "submit()", "concurrent.futures", "4"),
    ("progress", 3, TypeError, "progress", "3"),
    ("path", 64, TypeError, "compare()", "'path'"),
]
INPUTS = [
    ("NaN", torch.tensor([[NAN, 1.0], [0.0, 0.0]]), ValueError, "x", "1 of its 2 rows"),
    ("Inf", torch.tensor([[INF, 1.0], [0.0, -INF]]), ValueError, "x", "2 of its 2 rows"),
    ("too large", torch.full((3, 2), 1e300, dtype=torch.float64), ValueError, "x", "float32", "dtype="),
    ("one dimension", torch.ones(2), ValueError, "x", "(inputs, n_in)", "x.shape=(2,)"),
    ("no rows", torch.ones(0, 2), ValueError, "x", "x.shape=(0, 2)"),
    ("integers", torch.ones(2, 2, dtype=torch.int64), TypeError, "x", "torch.int64", "x.float()"),
    ("complex", torch.ones(2, 2) * 1j, TypeError, "x", "torch.complex64", "x.real"),
    ("list", [[1.0, 2.0]], TypeError, "x", "list", "torch.as_tensor(x)"),
    ("sparse", torch.eye(2).to_sparse(), TypeError, "x", "sparse_coo", "x.to_dense()"),
]
OTHERS = [
    ("module", lambda: go(net=torch.nn.Identity()), TypeError, "resnet", "Identity()"),
    ("reference, ODE", lambda: go(net=smooth(), reference=64), ValueError, "reference=", "ODE"),
    ("tolerance 0", lambda: go(net=smooth(), tolerance=0), ValueError, "tolerance", "0", "0"),
    ("tolerance 10", lambda: go(net=smooth(), tolerance=10), ValueError, "tolerance", "10"),
]
CALLS = [
    *(row(f"{k}={str(v)[:25]}", lambda k=k, v=v: go(**{k: v}), *rest) for k, v, *rest in KNOBS),
    *(row(f"x {name}", lambda v=value: go(x=v), *rest) for name, value, *rest in INPUTS),
    *(row(*rest) for rest in OTHERS),
]


@pytest.mark.parametrize(("call", "error", "pins"), CALLS)
def test_a_bad_call_is_refused_and_its_argument_named(call, error, pins):
    assert_refused(call, error, *pins)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused():
    assert_refused(lambda: go(device="cuda"), ValueError, "device", "'cuda'", "device='cpu'")
