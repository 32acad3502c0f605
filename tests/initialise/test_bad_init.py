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
    row(
        "one tensor",
        lambda: go(torch.ones(4, 3, 2)),
        TypeError,
        r"^weights must be a list of tensors.*unbind\(0\) splits",
    ),
    row("a module", lambda: go(nn.ReLU()), TypeError, r"list of tensors.*such as \[block\.fc2\.weight for"),
    row(
        "a set",
        lambda: go(set(ones())),
        TypeError,
        "list of tensors, one a layer, in order of depth.*of type set",
    ),
    row("text", lambda: go("fc2"), TypeError, "list of tensors.*got 'fc2' of type str"),
    row("a number", lambda: go(3), TypeError, "list of tensors.*got 3 of type int"),
    row("modules", lambda: go([nn.ReLU()] * 2), TypeError, r"^weights\[0\] must be a tensor"),
    row(
        "numbers",
        lambda: go([1.0, 2.0]),
        TypeError,
        r"^weights\[0\] must be a tensor, got 1\.0 of type float",
    ),
    row("none", lambda: go([]), ValueError, "at least 2 layers, got 0"),
    row(
        "one layer",
        lambda: go(ones(1)),
        ValueError,
        "at least 2 layers, got 1; a law across layers needs layers",
    ),
    row(
        "shapes",
        lambda: go(with_last(torch.ones(2, 3))),
        ValueError,
        r"one shape.*weights\[0\] has \(3, 2\), weights\[3\] has \(2, 3\)",
    ),
    row(
        "integers",
        lambda: go(ones(dtype=torch.int64)),
        TypeError,
        r"^weights\[0\] must be floating point, got torch\.int64",
    ),
    row("complex", lambda: go(ones(dtype=torch.complex64)), TypeError, r"real numbers, got torch\.complex64"),
    row(
        "sparse",
        lambda: go(with_last(torch.ones(3, 2).to_sparse())),
        TypeError,
        r"weights\[3\] must be a dense tensor.*to_dense",
    ),
    row(
        "meta",
        lambda: go(with_last(torch.ones(3, 2, device="meta"))),
        TypeError,
        r"weights\[3\] must hold data.*meta",
    ),
    row(
        "lazy",
        lambda: go(with_last(lazy())),
        TypeError,
        r"weights\[3\] has no shape yet.*run the module once",
    ),
    row(
        "empty",
        lambda: go(ones(shape=(3, 0))),
        ValueError,
        r"weights\[0\] must have entries, got shape \(3, 0\)",
    ),
    row(
        "computed",
        lambda: go(with_last(computed())),
        ValueError,
        r"weights\[3\] is computed, by MulBackward0.*Pass the parameter",
    ),
    row(
        "inference",
        lambda: go(with_last(made_in_inference_mode())),
        ValueError,
        r"weights\[3\] was made in inference mode.*clone",
    ),
    row(
        "tied", lambda: go(tied()), ValueError, r"weights\[1\] and weights\[3\] share memory \(tied layers\)"
    ),
    row("overlapping", lambda: go(overlapping()), ValueError, r"weights\[0\] and weights\[1\] share memory"),
    row(
        "interleaved",
        lambda: go(interleaved_twice()),
        ValueError,
        r"weights\[0\] and weights\[1\] share memory",
    ),
    row(
        "the same storage",
        lambda: go(of_two_dtypes()),
        ValueError,
        r"weights\[0\] and weights\[1\] share memory",
    ),
    row(
        "expanded",
        lambda: go(with_last(torch.ones(2).expand(3, 2))),
        ValueError,
        r"weights\[3\] holds one number in several places",
    ),
    row(
        "vectors",
        lambda: go(ones(shape=(3,))),
        ValueError,
        r"shape \(3,\), of which no fan-in can be read.*give fan_in=",
    ),
    row(
        "a law's class",
        lambda: go(process=dl.Brownian),
        TypeError,
        r"law with independent entries.*the class Brownian",
    ),
    row(
        "a law's name",
        lambda: go(process="iid"),
        TypeError,
        r"process must be a law.*Brownian\(\), IID.*got 'iid'",
    ),
    row(
        "a trend",
        lambda: go(process=dl.Trend(lambda t: torch.eye(2))),
        TypeError,
        "process must be a law with independent entries",
    ),
    row(
        "Itô noise",
        lambda: go(process=dl.Ito(A=0.1)),
        TypeError,
        "process must be a law with independent entries",
    ),
    row("exponent's kind", lambda: go(exponent="0.5"), TypeError, "exponent must be a number, got '0.5'"),
    row("exponent negative", lambda: go(exponent=-0.5), ValueError, "exponent must be at least 0, got -0.5"),
    row("exponent NaN", lambda: go(exponent=NAN), ValueError, "exponent must be finite"),
    row("exponent infinite", lambda: go(exponent=INF), ValueError, "exponent must be finite"),
    row("gain zero", lambda: go(gain=0), ValueError, "gain must be more than 0, got 0"),
    row("gain's kind", lambda: go(gain="relu"), TypeError, "gain must be a number, got 'relu'"),
    row("fan_in zero", lambda: go(fan_in=0), ValueError, "fan_in must be at least 1, got 0"),
    row("fan_in's kind", lambda: go(fan_in=2.0), TypeError, "fan_in must be an integer"),
    row("seed negative", lambda: go(seed=-1), ValueError, "seed must be at least 0, got -1"),
    row("seed's kind", lambda: go(seed=0.5), TypeError, r"seed must be an integer.*or a torch\.Generator"),
    row("seed None", lambda: go(seed=None), TypeError, "seed must be an integer, got None"),
    row(
        "too large",
        lambda: go(ones(dtype=torch.float16), gain=1e5),
        ValueError,
        r"weights\[0\] would get.*torch\.float16 cannot hold",
    ),
    row(
        "too small",
        lambda: go(ones(dtype=torch.float16), exponent=12),
        ValueError,
        "torch.float16 cannot hold. Change the gain",
    ),
    row(
        "one half",
        lambda: go([*ones(3), torch.ones(3, 2).half()], gain=1e6),
        ValueError,
        r"weights\[3\] would get",
    ),
    row(
        "unknown law",
        lambda: dl.init.iid_(ones(), law="cauchy"),
        ValueError,
        "law must be one of gaussian, uniform, rademacher",
    ),
    row("law's kind", lambda: dl.init.iid_(ones(), law=2), TypeError, "law must be 'gaussian'"),
    row(
        "hurst one",
        lambda: dl.init.fractional_(ones(), hurst=1.0),
        ValueError,
        "hurst must be below 1, got 1",
    ),
    row(
        "hurst's kind", lambda: dl.init.fractional_(ones(), hurst="0.7"), TypeError, "hurst must be a number"
    ),
    row(
        "scale zero",
        lambda: dl.init.smooth_(ones(), length_scale=0.0),
        ValueError,
        "length_scale must be at least 0.005, got 0",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_a_bad_call_is_refused_in_words(call, error, message):
    assert_refused(call, error, message)


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
    row(
        "a list",
        lambda say: dl.init.residual_([Block()]),
        TypeError,
        r"model must be a torch\.nn\.Module, got an object of type list",
    ),
    row(
        "both",
        lambda say: dl.init.residual_(model(), hurst=0.7, process=dl.Brownian()),
        ValueError,
        "give hurst or process, not both",
    ),
    row("hurst", lambda say: dl.init.residual_(model(), hurst=2), ValueError, "hurst must be below 1"),
    row(
        "name",
        lambda say: dl.init.residual_(model(), process="iid"),
        TypeError,
        r"process must be a law.*Brownian\(\)",
    ),
    row(
        "exponent",
        lambda say: dl.init.residual_(model(), exponent=-1),
        ValueError,
        "exponent must be at least 0",
    ),
    row("gain", lambda say: dl.init.residual_(model(), gain=-1), ValueError, "gain must be more than 0"),
    row(
        "weights",
        lambda say: dl.init.residual_(model(), weights="inner"),
        ValueError,
        "weights must be one of all, output",
    ),
    row(
        "biases",
        lambda say: dl.init.residual_(model(), biases="none"),
        ValueError,
        "biases must be one of keep, zero",
    ),
    row("seed", lambda say: dl.init.residual_(model(), seed="0"), TypeError, "seed must be an integer"),
    row(
        "one layer",
        lambda say: (say(found_in(1)), dl.init.residual_(model())),
        ValueError,
        "no two residual branches.*found 0. A law",
    ),
    row(
        "tied",
        lambda say: dl.init.residual_(tie(model())),
        ValueError,
        r"0\.down\.weight and 2\.down\.weight are tied",
    ),
    row(
        "tied by name",
        lambda say: (say(outputs("0.down.weight", "0.down.weight")), dl.init.residual_(model())),
        ValueError,
        r"0\.down\.weight is tied: in several layers",
    ),
    row(
        "shared",
        lambda say: dl.init.residual_(shared_elsewhere(model())),
        ValueError,
        r"1\.down\.weight and head\.weight are tied",
    ),
    row(
        "NaN",
        lambda say: dl.init.residual_(with_nan(model())),
        ValueError,
        r"^\*\.up\.weight holds NaN or infinity",
    ),
    row(
        "too small",
        lambda say: dl.init.residual_(model(dtype=torch.float16), exponent=20),
        ValueError,
        "torch.float16 cannot hold",
    ),
    row(
        "nothing in common",
        lambda say: (say(outputs("0.down.weight", "1.up.weight")), dl.init.residual_(model())),
        ValueError,
        r"^the output projections of \* have no shape and name in common.*0\.down\.weight and 1\.up\.weight",
    ),
    row(
        "weight norm",
        lambda say: (say(outputs(*(f"{k}.down_v" for k in range(3)))), dl.init.residual_(normed(model()))),
        ValueError,
        r"0\.down_v is a part of a parametrized weight",
    ),
    row(
        "a parametrization",
        lambda say: (say(PARAMETRIZED), dl.init.residual_(parametrized(model()))),
        ValueError,
        r"0\.down\.parametrizations\.weight\.original is a part.*remove_parametrizations",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED_MODELS)
def test_a_bad_model_is_refused_in_words(found, call, error, message):
    assert_refused(lambda: call(found), error, message)


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
        lambda: dl.init.residual_(model(device="meta"), batch=torch.ones(1, 2)), ValueError, "meta device"
    )
    straight = nn.Sequential(Block().up, Block().down)
    assert_refused(
        lambda: dl.init.residual_(straight, batch=torch.ones(1, 2)),
        ValueError,
        "no residual branch was found",
    )
    assert_refused(lambda: dl.init.residual_(model(), batch="x"), TypeError, "batch must be a tensor")
