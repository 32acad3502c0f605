"""What `dl.init` refuses, and that nothing was written by then."""

import pytest
import torch
from refusals import INF, NAN, assert_refused, row
from told_parts import Told
from torch import nn
from torch.nn.utils import parametrize

import deeplimit as dl
from deeplimit.modules.trace.branches import Branch
from deeplimit.networks.initialise import residual

HALF = torch.float16


def ones(layers=4, shape=(3, 2), dtype=torch.float32):
    return [torch.ones(shape, dtype=dtype) for _ in range(layers)]


def go(weights=None, process=None, **knobs):
    dl.init.sample_(ones() if weights is None else weights, process or dl.Brownian(), **knobs)


def with_last(last):
    return [*ones(3), last]


def computed():
    return nn.Parameter(torch.ones(3, 2)) * 2


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


BAD = [
    ("one tensor", lambda: go(torch.ones(4, 3, 2)), TypeError, "weights", "Tensor of shape (4, 3, 2)"),
    ("a module", lambda: go(nn.ReLU()), TypeError, "weights", "ReLU()"),
    ("a set", lambda: go(set(ones())), TypeError, "weights"),
    ("text", lambda: go("fc2"), TypeError, "weights", "'fc2'"),
    ("numbers", lambda: go([1.0, 2.0]), TypeError, "weights[0]", "1.0"),
    ("one layer", lambda: go(ones(1)), ValueError, "weights", "1"),
    ("shapes", lambda: go(with_last(torch.ones(2, 3))), ValueError, "weights[0]", "(3, 2)", "weights[3]"),
    ("integers", lambda: go(ones(dtype=torch.int64)), TypeError, "weights[0]", "torch.int64"),
    ("complex", lambda: go(ones(dtype=torch.complex64)), TypeError, "weights[0]", "torch.complex64"),
    (
        "sparse",
        lambda: go(with_last(torch.ones(3, 2).to_sparse())),
        TypeError,
        "weights[3]",
        "torch.sparse_coo",
    ),
    ("meta", lambda: go(with_last(torch.ones(3, 2, device="meta"))), TypeError, "weights[3]", "meta"),
    ("lazy", lambda: go(with_last(nn.LazyLinear(3).weight)), TypeError, "weights[3]", "lazy"),
    ("empty", lambda: go(ones(shape=(3, 0))), ValueError, "weights[0]", "(3, 0)"),
    ("computed", lambda: go(with_last(computed())), ValueError, "weights[3]", "MulBackward0"),
    ("inference", lambda: go(with_last(made_in_inference_mode())), ValueError, "weights[3]"),
    ("tied", lambda: go(tied()), ValueError, "weights[1]", "weights[3]"),
    ("overlapping", lambda: go(overlapping()), ValueError, "weights[0]", "weights[1]"),
    ("interleaved", lambda: go(interleaved_twice()), ValueError, "weights[0]", "weights[1]"),
    ("the same storage", lambda: go(of_two_dtypes()), ValueError, "weights[0]", "weights[1]"),
    ("expanded", lambda: go(with_last(torch.ones(2).expand(3, 2))), ValueError, "weights[3]"),
    ("vectors", lambda: go(ones(shape=(3,))), ValueError, "weights", "(3,)", "fan_in="),
    ("a law's class", lambda: go(process=dl.Brownian), TypeError, "process", "the class Brownian"),
    ("a trend", lambda: go(process=dl.Trend(lambda t: torch.eye(2))), TypeError, "process", "Trend"),
    ("Itô noise", lambda: go(process=dl.Ito(A=0.1)), TypeError, "process", "Ito"),
    ("exponent's kind", lambda: go(exponent="0.5"), TypeError, "exponent", "'0.5'"),
    ("exponent negative", lambda: go(exponent=-0.5), ValueError, "exponent", "-0.5"),
    ("exponent infinite", lambda: go(exponent=INF), ValueError, "exponent", "inf"),
    ("gain zero", lambda: go(gain=0), ValueError, "gain", "0"),
    ("gain's kind", lambda: go(gain="relu"), TypeError, "gain", "'relu'"),
    ("fan_in zero", lambda: go(fan_in=0), ValueError, "fan_in", "0"),
    ("fan_in's kind", lambda: go(fan_in=2.0), TypeError, "fan_in", "2.0"),
    ("seed negative", lambda: go(seed=-1), ValueError, "seed", "-1"),
    ("seed None", lambda: go(seed=None), TypeError, "seed", "None"),
    (
        "too large",
        lambda: go(ones(dtype=HALF), gain=1e5),
        ValueError,
        "weights[0]",
        "3.54e+04",
        "torch.float16",
    ),
    ("too small", lambda: go(ones(dtype=HALF), exponent=12), ValueError, "weights[0]", "4.21e-08"),
    (
        "one half",
        lambda: go(with_last(torch.ones(3, 2).half()), gain=1e6),
        ValueError,
        "weights[3]",
        "3.54e+05",
    ),
    ("unknown law", lambda: dl.init.iid_(ones(), law="cauchy"), ValueError, "law", "'cauchy'"),
    ("hurst one", lambda: dl.init.fractional_(ones(), hurst=1.0), ValueError, "hurst", "1"),
    ("scale zero", lambda: dl.init.smooth_(ones(), length_scale=0.0), ValueError, "length_scale", "0"),
]


@pytest.mark.parametrize(("call", "error", "pins"), [row(*one) for one in BAD])
def test_a_bad_call_is_refused_by_name(call, error, pins):
    assert_refused(call, error, *pins)


@pytest.mark.parametrize(
    "knobs", [{"seed": -1}, {"gain": 1e300}, {"process": dl.Trend(lambda t: torch.eye(2))}]
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
    with pytest.raises(RuntimeError):
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
        parts = tuple(map(Told, branches))
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


def call(*found, made=model, **knobs):
    """Return a call of `residual_` that finds these branches instead of three."""

    def refused(say):
        if found:
            say(found)
        dl.init.residual_(made(), **knobs)

    return refused


TWO_IN_ONE = outputs("0.down.weight", "0.down.weight")
NORMED = outputs(*(f"{k}.down_v" for k in range(3)))
BAD_MODELS = [
    ("a list", call(made=lambda: [Block()]), TypeError, "model", "list"),
    ("both", call(hurst=0.7, process=dl.Brownian()), ValueError, "hurst", "process"),
    ("hurst", call(hurst=2), ValueError, "hurst", "2"),
    ("name", call(process="iid"), TypeError, "process", "'iid'"),
    ("exponent", call(exponent=-1), ValueError, "exponent", "-1"),
    ("gain", call(gain=-1), ValueError, "gain", "-1"),
    ("weights", call(weights="inner"), ValueError, "weights", "'inner'"),
    ("biases", call(biases="none"), ValueError, "biases", "'none'"),
    ("seed", call(seed="0"), TypeError, "seed", "'0'"),
    ("one layer", call(*found_in(1)), ValueError, "residual branches"),
    ("tied", call(made=lambda: tie(model())), ValueError, "0.down.weight", "2.down.weight"),
    ("tied by name", call(*TWO_IN_ONE), ValueError, "0.down.weight"),
    ("shared", call(made=lambda: shared_elsewhere(model())), ValueError, "1.down.weight", "head.weight"),
    ("NaN", call(made=lambda: with_nan(model())), ValueError, "*.up.weight", "NaN"),
    (
        "too small",
        call(made=lambda: model(dtype=HALF), exponent=20),
        ValueError,
        "0.down.weight",
        "torch.float16",
    ),
    ("nothing in common", call(*outputs("0.down.weight", "1.up.weight")), ValueError, "*", "0.down.weight"),
    ("weight norm", call(*NORMED, made=lambda: normed(model())), ValueError, "0.down_v"),
    (
        "parametrized",
        call(*PARAMETRIZED, made=lambda: parametrized(model())),
        ValueError,
        PARAMETRIZED[0].output[0],
    ),
]


@pytest.mark.parametrize(("call", "error", "pins"), [row(*one) for one in BAD_MODELS])
def test_a_bad_model_is_refused_by_name(found, call, error, pins):
    assert_refused(lambda: call(found), error, *pins)


@pytest.mark.parametrize("spoil", [tie, with_nan, shared_elsewhere])
def test_a_refused_model_is_as_it_was(found, spoil):
    made = spoil(model())
    before = {name: value.clone() for name, value in made.state_dict().items()}
    with pytest.raises(ValueError):  # noqa: PT011
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
    batch = torch.ones(1, 2)
    assert_refused(lambda: dl.init.residual_(model(device="meta"), batch=batch), ValueError, "0.up.weight")
    straight = nn.Sequential(Block().up, Block().down)
    assert_refused(lambda: dl.init.residual_(straight, batch=batch), ValueError, "no residual branch")
    assert_refused(lambda: dl.init.residual_(model(), batch="x"), TypeError, "batch", "'x'")
