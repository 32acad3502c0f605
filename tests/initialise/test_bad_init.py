"""What `dl.init` refuses, in which words, and that nothing was written by then."""

from types import SimpleNamespace

import pytest
import torch
from refusals import INF, NAN, assert_refused, row
from torch import nn
from torch.nn.utils import parametrize

import deeplimit as dl
from deeplimit.initialise import residual
from deeplimit.trace.branches import Branch


def ones(layers=4, shape=(3, 2), dtype=torch.float32):
    return [torch.ones(shape, dtype=dtype) for _ in range(layers)]


def go(weights=None, process=None, **knobs):
    dl.init.sample_(ones() if weights is None else weights, process or dl.Brownian(), **knobs)


def with_last(last):
    return [*ones(3), last]


def lazy():
    return nn.LazyLinear(3).weight


def computed():
    weight = nn.Parameter(torch.ones(3, 2))
    return weight * 2


def made_in_inference_mode():
    with torch.inference_mode():
        return torch.ones(3, 2)


def tied():
    weights = ones()
    weights[3] = weights[1]
    return weights


def overlapping():
    store = torch.ones(12)
    return [store[0:6].view(3, 2), store[5:11].view(3, 2)]


def interleaved_twice():
    store = torch.ones(3, 4)
    return [store[:, 0:2], store[:, 1:3]]


def of_two_dtypes():
    store = torch.ones(6)
    return [store.view(3, 2), store.view(torch.int32).view(torch.float32).view(3, 2)]


REFUSED = [
    row("one tensor", lambda: go(torch.ones(4, 3, 2)), TypeError, "weights", "Tensor of shape (4, 3, 2)"),
    row("a module", lambda: go(nn.ReLU()), TypeError, "weights", "ReLU()"),
    row("a set", lambda: go(set(ones())), TypeError, "weights", "an object"),
    row("text", lambda: go("fc2"), TypeError, "weights", "'fc2'"),
    row("a number", lambda: go(3), TypeError, "weights", "3"),
    row("modules", lambda: go([nn.ReLU()] * 2), TypeError, "weights[0]", "ReLU()"),
    row("numbers", lambda: go([1.0, 2.0]), TypeError, "weights[0]", "1.0"),
    row("none", lambda: go([]), ValueError, "weights", "0"),
    row("one layer", lambda: go(ones(1)), ValueError, "weights", "1"),
    row(
        "shapes",
        lambda: go(with_last(torch.ones(2, 3))),
        ValueError,
        "weights",
        "weights[0]",
        "(3, 2)",
        "weights[3]",
        "(2, 3)",
    ),
    row("integers", lambda: go(ones(dtype=torch.int64)), TypeError, "weights[0]", "torch.int64"),
    row("complex", lambda: go(ones(dtype=torch.complex64)), TypeError, "weights[0]", "torch.complex64"),
    row(
        "sparse",
        lambda: go(with_last(torch.ones(3, 2).to_sparse())),
        TypeError,
        "weights[3]",
        "torch.sparse_coo",
    ),
    row(
        "meta",
        lambda: go(with_last(torch.ones(3, 2, device="meta"))),
        TypeError,
        "weights[3]",
        "a tensor of shape (3, 2) on the device meta",
    ),
    row("lazy", lambda: go(with_last(lazy())), TypeError, "weights[3]", "lazy"),
    row("empty", lambda: go(ones(shape=(3, 0))), ValueError, "weights[0]", "(3, 0)"),
    row("computed", lambda: go(with_last(computed())), ValueError, "weights[3]", "MulBackward0"),
    row(
        "inference",
        lambda: go(with_last(made_in_inference_mode())),
        ValueError,
        "weights[3]",
        "inference mode",
        "clone",
    ),
    row("tied", lambda: go(tied()), ValueError, "weights[1]", "weights[3]", "tied"),
    row("overlapping", lambda: go(overlapping()), ValueError, "weights[0]", "weights[1]", "tied"),
    row("interleaved", lambda: go(interleaved_twice()), ValueError, "weights[0]", "weights[1]", "tied"),
    row("the same storage", lambda: go(of_two_dtypes()), ValueError, "weights[0]", "weights[1]", "tied"),
    row("expanded", lambda: go(with_last(torch.ones(2).expand(3, 2))), ValueError, "weights[3]", "expand"),
    row("vectors", lambda: go(ones(shape=(3,))), ValueError, "weights", "(3,)", "fan_in="),
    row("a law's class", lambda: go(process=dl.Brownian), TypeError, "process", "the class Brownian"),
    row("a law's name", lambda: go(process="iid"), TypeError, "process", "'iid'"),
    row("a trend", lambda: go(process=dl.Trend(lambda t: torch.eye(2))), TypeError, "process", "Trend"),
    row("Itô noise", lambda: go(process=dl.Ito(A=0.1)), TypeError, "process", "Ito"),
    row("exponent's kind", lambda: go(exponent="0.5"), TypeError, "exponent", "'0.5'"),
    row("exponent negative", lambda: go(exponent=-0.5), ValueError, "exponent", "-0.5"),
    row("exponent NaN", lambda: go(exponent=NAN), ValueError, "exponent", "nan"),
    row("exponent infinite", lambda: go(exponent=INF), ValueError, "exponent", "inf"),
    row("gain zero", lambda: go(gain=0), ValueError, "gain", "0"),
    row("gain's kind", lambda: go(gain="relu"), TypeError, "gain", "'relu'"),
    row("fan_in zero", lambda: go(fan_in=0), ValueError, "fan_in", "0"),
    row("fan_in's kind", lambda: go(fan_in=2.0), TypeError, "fan_in", "2.0"),
    row("seed negative", lambda: go(seed=-1), ValueError, "seed", "-1"),
    row("seed's kind", lambda: go(seed=0.5), TypeError, "seed", "0.5"),
    row("seed None", lambda: go(seed=None), TypeError, "seed", "None"),
    row(
        "too large",
        lambda: go(ones(dtype=torch.float16), gain=1e5),
        ValueError,
        "weights[0]",
        "3.54e+04",
        "torch.float16",
    ),
    row(
        "too small",
        lambda: go(ones(dtype=torch.float16), exponent=12),
        ValueError,
        "weights[0]",
        "4.21e-08",
        "torch.float16",
    ),
    row(
        "one half",
        lambda: go([*ones(3), torch.ones(3, 2).half()], gain=1e6),
        ValueError,
        "weights[3]",
        "3.54e+05",
        "torch.float16",
    ),
    row("unknown law", lambda: dl.init.iid_(ones(), law="cauchy"), ValueError, "law", "'cauchy'"),
    row("law's kind", lambda: dl.init.iid_(ones(), law=2), TypeError, "law", "2"),
    row("hurst one", lambda: dl.init.fractional_(ones(), hurst=1.0), ValueError, "hurst", "1"),
    row("hurst's kind", lambda: dl.init.fractional_(ones(), hurst="0.7"), TypeError, "hurst", "'0.7'"),
    row("scale zero", lambda: dl.init.smooth_(ones(), length_scale=0.0), ValueError, "length_scale", "0"),
]


@pytest.mark.parametrize(("call", "error", "pins"), REFUSED)
def test_a_bad_call_is_refused_in_words(call, error, pins):
    assert_refused(call, error, *pins)


@pytest.mark.parametrize(
    "knobs",
    [
        {"seed": -1},
        {"gain": 0.0},
        {"exponent": -1.0},
        {"fan_in": 0},
        {"gain": 1e300},
        {"process": dl.Trend(lambda t: torch.eye(2))},
    ],
)
def test_nothing_is_written_by_a_call_that_is_refused(knobs):
    weights = ones()
    with pytest.raises((TypeError, ValueError)):
        go(weights, **knobs)
    for bad in (torch.ones(2, 3), computed(), made_in_inference_mode(), weights[0], torch.ones(3, 2).long()):
        with pytest.raises((TypeError, ValueError)):
            go([*weights, bad])
    assert all(bool((weight == 1.0).all()) for weight in weights)


def test_a_sampler_that_fails_writes_nothing():
    def sampler(shape, generator):
        if len(shape) == 4:
            raise RuntimeError("no such shape")
        return torch.randn(shape, generator=generator)

    weights = ones()
    with pytest.raises(RuntimeError, match="no such shape"):
        dl.init.iid_(weights, law=sampler)
    assert bool((weights[0] == 1.0).all())


class Block(nn.Module):
    def __init__(self, dtype=torch.float32, device="cpu"):
        super().__init__()
        self.up = nn.Linear(2, 4, dtype=dtype, device="meta").to_empty(device=device)
        self.down = nn.Linear(4, 2, dtype=dtype, device="meta").to_empty(device=device)
        if device == "cpu":
            for parameter in self.parameters():
                parameter.data.fill_(1.0)

    def forward(self, x):
        return x + self.down(self.up(x))


def model(layers=3, **knobs):
    return nn.Sequential(*(Block(**knobs) for _ in range(layers)))


def found_in(layers):
    return tuple(
        Branch("*", str(k), 0, k, (f"{k}.down.weight",), (f"{k}.up.weight",), ()) for k in range(layers)
    )


@pytest.fixture
def found(monkeypatch):
    def say(branches):
        parts = tuple(
            SimpleNamespace(branch=branch, multiplier=1.0, normed=False, renormed=False)
            for branch in branches
        )
        monkeypatch.setattr(residual, "find_parts", lambda model, batch, blocks: (parts, (0, 0)))

    say(found_in(3))
    return say


def tie(made):
    made[2].down.weight = made[0].down.weight
    return made


def with_nan(made):
    made[1].up.weight.data[0, 0] = NAN
    return made


def shared_elsewhere(made):
    made.add_module("head", nn.Linear(4, 2, bias=False, device="meta"))
    made.head.weight = made[1].down.weight
    return made


def normed(made):
    for block in made[:3]:
        block.register_parameter("down_g", nn.Parameter(torch.ones(2, 1)))
        block.register_parameter("down_v", nn.Parameter(torch.ones(2, 4)))
    return made


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrized(made):
    for block in made:
        parametrize.register_parametrization(block.down, "weight", Doubled())
    return made


def outputs(*names):
    return tuple(Branch("*", str(k), 0, k, (name,), (), ()) for k, name in enumerate(names))


PARAMETRIZED = outputs(*(f"{k}.down.parametrizations.weight.original" for k in range(3)))

REFUSED_MODELS = [
    row("a list", lambda say: dl.init.residual_([Block()]), TypeError, "model", "list"),
    row(
        "both",
        lambda say: dl.init.residual_(model(), hurst=0.7, process=dl.Brownian()),
        ValueError,
        "hurst",
        "process",
    ),
    row("hurst", lambda say: dl.init.residual_(model(), hurst=2), ValueError, "hurst", "2"),
    row(
        "name",
        lambda say: dl.init.residual_(model(), process="iid"),
        TypeError,
        "process",
        "Brownian()",
        "'iid'",
    ),
    row("exponent", lambda say: dl.init.residual_(model(), exponent=-1), ValueError, "exponent", "-1"),
    row("gain", lambda say: dl.init.residual_(model(), gain=-1), ValueError, "gain", "-1"),
    row(
        "weights",
        lambda say: dl.init.residual_(model(), weights="inner"),
        ValueError,
        "weights",
        "all",
        "output",
        "'inner'",
    ),
    row(
        "biases",
        lambda say: dl.init.residual_(model(), biases="none"),
        ValueError,
        "biases",
        "keep",
        "zero",
        "'none'",
    ),
    row("seed", lambda say: dl.init.residual_(model(), seed="0"), TypeError, "seed", "'0'"),
    row(
        "one layer",
        lambda say: (say(found_in(1)), dl.init.residual_(model())),
        ValueError,
        "residual branches",
        "0",
    ),
    row(
        "tied",
        lambda say: dl.init.residual_(tie(model())),
        ValueError,
        "0.down.weight",
        "2.down.weight",
        "tied",
    ),
    row(
        "tied by name",
        lambda say: (say(outputs("0.down.weight", "0.down.weight")), dl.init.residual_(model())),
        ValueError,
        "0.down.weight",
        "tied",
        "several layers",
    ),
    row(
        "shared",
        lambda say: dl.init.residual_(shared_elsewhere(model())),
        ValueError,
        "1.down.weight",
        "head.weight",
        "tied",
    ),
    row("NaN", lambda say: dl.init.residual_(with_nan(model())), ValueError, "*.up.weight", "NaN"),
    row(
        "too small",
        lambda say: dl.init.residual_(model(dtype=torch.float16), exponent=20),
        ValueError,
        "0.down.weight",
        "torch.float16",
    ),
    row(
        "nothing in common",
        lambda say: (say(outputs("0.down.weight", "1.up.weight")), dl.init.residual_(model())),
        ValueError,
        "output projections",
        "*",
        "0.down.weight",
        "1.up.weight",
    ),
    row(
        "weight norm",
        lambda say: (say(outputs(*(f"{k}.down_v" for k in range(3)))), dl.init.residual_(normed(model()))),
        ValueError,
        "0.down_v",
        "parametrized",
    ),
    row(
        "a parametrization",
        lambda say: (say(PARAMETRIZED), dl.init.residual_(parametrized(model()))),
        ValueError,
        "0.down.parametrizations.weight.original",
        "remove_parametrizations",
    ),
]


@pytest.mark.parametrize(("call", "error", "pins"), REFUSED_MODELS)
def test_a_bad_model_is_refused_in_words(found, call, error, pins):
    assert_refused(lambda: call(found), error, *pins)


@pytest.mark.parametrize("spoil", [tie, with_nan, shared_elsewhere])
def test_a_refused_model_is_as_it_was(found, spoil):
    made = spoil(model())
    before = {name: value.clone() for name, value in made.state_dict().items()}
    with pytest.raises(ValueError, match=r"tied|NaN"):
        dl.init.residual_(made)
    for name, value in made.state_dict().items():
        torch.testing.assert_close(value, before[name], equal_nan=True, rtol=0, atol=0)


def test_ties_among_what_is_not_written_are_no_reason_to_refuse(found):
    made = model()
    made.add_module("embedding", nn.Embedding(3, 2, _weight=torch.ones(3, 2)))
    made.add_module("head", nn.Linear(2, 3, bias=False, device="meta"))
    made.head.weight = made.embedding.weight
    made[0].up.bias = made[1].up.bias
    assert dl.init.residual_(made).limit == "sde"
    assert bool((made.embedding.weight == 1.0).all())


def test_what_the_search_for_branches_refuses_is_refused():
    assert_refused(
        lambda: dl.init.residual_(model(device="meta"), batch=torch.ones(1, 2)),
        ValueError,
        "meta device",
        "0.up.weight",
    )
    straight = nn.Sequential(Block().up, Block().down)
    assert_refused(
        lambda: dl.init.residual_(straight, batch=torch.ones(1, 2)), ValueError, "no residual branch"
    )
    assert_refused(lambda: dl.init.residual_(model(), batch="x"), TypeError, "batch", "'x'")
