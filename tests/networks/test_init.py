"""What `dl.init` writes to: dtypes, strides, views, gradients; and what its result says of the weights."""

import math

import pytest
import torch
from filled import BY_NAME, LAWS, empty
from torch import nn

import deeplimit as dl
from deeplimit.networks.initialise.expected_limit import expected_limit


def test_a_generator_is_drawn_from_and_goes_on():
    source = torch.Generator().manual_seed(4)
    first, second, again = empty(4, (5, 6)), empty(4, (5, 6)), empty(4, (5, 6))
    dl.init.smooth_(first, seed=source)
    dl.init.smooth_(second, seed=source)
    dl.init.smooth_(again, seed=torch.Generator().manual_seed(4))
    assert not torch.equal(first[0], second[0])
    assert torch.equal(first[3], again[3])


@pytest.mark.parametrize("law", LAWS, **BY_NAME)
def test_dtype_is_kept_and_the_numbers_are_the_same_but_for_rounding(law, device):
    exact = empty(6, (9, 4), torch.float64)
    dl.init.sample_(exact, law, seed=2)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        weights = empty(6, (9, 4), dtype, device)
        dl.init.sample_(weights, law, seed=2)
        for weight, wanted in zip(weights, exact, strict=True):
            assert weight.dtype == dtype
            assert weight.device.type == device
            assert torch.equal(weight.cpu(), wanted.to(dtype))


def test_weights_of_several_dtypes_and_strides_are_filled_alike():
    plain = empty(4, (6, 3, 2, 2), torch.float64)
    dl.init.fractional_(plain, hurst=0.6)
    stack = torch.zeros(6, 4, 3, 2, 2)
    odd = [
        torch.zeros(6, 3, 2, 2).to(memory_format=torch.channels_last),
        nn.Parameter(torch.zeros(6, 3, 2, 2, dtype=torch.bfloat16)),
        stack[:, 1],
        torch.zeros(2, 2, 3, 6, dtype=torch.float64).permute(3, 2, 0, 1),
    ]
    dl.init.fractional_(odd, hurst=0.6)
    for weight, wanted in zip(odd, plain, strict=True):
        assert torch.equal(weight.detach(), wanted.to(weight.dtype))
    assert not stack[:, [0, 2, 3]].any()


def test_any_ordered_collection_will_do():
    apart = empty(4, (5, 3))
    dl.init.iid_(apart)
    for collect in (
        tuple,
        iter,
        lambda tensors: nn.ParameterList(nn.Parameter(tensor) for tensor in tensors),
    ):
        weights = empty(4, (5, 3))
        dl.init.iid_(collect(weights))
        assert all(torch.equal(a, b) for a, b in zip(weights, apart, strict=True))
    stack = nn.Parameter(torch.zeros(4, 5, 3))
    dl.init.iid_(stack.unbind(0))
    assert torch.equal(stack.detach(), torch.stack(apart))


def test_parameters_stay_leaves_and_gradients_flow():
    layers = [nn.Linear(3, 3, device="meta").to_empty(device="cpu") for _ in range(3)]
    for layer in layers:
        layer.bias.data.fill_(7.0)
    dl.init.iid_([layer.weight for layer in layers])
    layers[0](torch.ones(3)).sum().backward()
    assert all(layer.weight.is_leaf and layer.weight.requires_grad for layer in layers)
    assert layers[0].weight.grad is not None
    assert all(bool((layer.bias == 7.0).all()) for layer in layers)


def test_writing_is_noticed_by_a_graph_that_needed_the_old_weights():
    weights = [nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    x = torch.ones(2, requires_grad=True)
    y = (weights[0] @ x).sum()
    dl.init.iid_(weights)
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_inference_mode_may_write_its_own_tensors():
    with torch.inference_mode():
        weights = [torch.zeros(2, 2) for _ in range(2)]
        dl.init.iid_(weights)
        assert bool(weights[1].any())


@pytest.mark.parametrize(
    ("shape", "given", "expected"),
    [
        ((5, 7), None, 7),
        ((4, 3, 3, 3), None, 27),
        ((6, 2, 5), None, 10),
        ((5, 7), 5, 5),
        ((9,), 9, 9),
        ((8, 1, 3, 3), None, 9),
    ],
)
def test_the_fan_in(shape, given, expected):
    weights = empty(4, shape)
    done = dl.init.iid_(weights, fan_in=given, exponent=0.0, gain=2.0, law="rademacher")
    assert done.fan_in == expected
    assert done.shape == shape
    torch.testing.assert_close(weights[0].abs(), torch.full(shape, 2.0 / math.sqrt(expected)))


def test_exponent_and_gain_enter_as_written():
    weights = empty(16, (3, 4))
    done = dl.init.iid_(weights, law="rademacher", exponent=0.75, gain=3.0)
    assert done.standard_deviation == pytest.approx(3.0 / 2.0 / 8.0)
    torch.testing.assert_close(weights[15].abs(), torch.full((3, 4), 3.0 / 2.0 / 8.0))


FRACTIONAL = dl.init.fractional_
RESULTS = [
    (dl.init.iid_, {}, 0.5, "sde", "Proposition 11", 0.5),
    (dl.init.iid_, {"law": "uniform"}, 0.5, "sde", "Donsker", 0.5),
    (dl.init.iid_, {"exponent": 0.7}, 0.7, "identity", "Corollary 5", 0.5),
    (dl.init.iid_, {"exponent": 0.3}, 0.3, "explosion", "Corollary 5", 0.5),
    (dl.init.iid_, {"exponent": 0}, 0.0, "unscaled", None, 0.5),
    (dl.init.smooth_, {}, 1.0, "ode", "Proposition 12", None),
    (dl.init.smooth_, {"exponent": 1.5}, 1.5, "identity", "Proposition 13", None),
    (dl.init.smooth_, {"exponent": 0.5}, 0.5, "explosion", "Proposition 14", None),
    (FRACTIONAL, {"hurst": 0.7}, 0.7, "young", "Hu, Liu and Nualart", 0.7),
    (FRACTIONAL, {"hurst": 0.7, "exponent": 0.5}, 0.5, "explosion", None, 0.7),
    (FRACTIONAL, {"hurst": 0.7, "exponent": 0.9}, 0.9, "identity", None, 0.7),
    (FRACTIONAL, {"hurst": 0.3}, 0.5, "no theorem", None, 0.3),
    (FRACTIONAL, {"hurst": 0.3, "exponent": 0.4}, 0.4, "explosion", None, 0.3),
    (FRACTIONAL, {"hurst": 0.5}, 0.5, "sde", "Proposition 11", 0.5),
]


@pytest.mark.parametrize(("call", "knobs", "exponent", "limit", "theorem", "hurst"), RESULTS)
def test_the_result_has_the_limit_and_its_theorem(call, knobs, exponent, limit, theorem, hurst):
    done = call(empty(4, (3, 2)), **knobs)
    assert (done.exponent, done.limit, done.hurst, done.layers) == (exponent, limit, hurst, 4)
    assert (done.theorem is None) if theorem is None else (theorem in done.theorem)
    assert f"{done.standard_deviation:.4g}" in str(done)
    content = done.to_dict()
    assert (content["limit"], content["shape"]) == (limit, [3, 2])
    assert content["length_scale"] == (0.1 if hurst is None else None)


@pytest.mark.parametrize(
    ("law", "exponent", "stand_in"),
    [
        (dl.Brownian(), 0.5, dl.res1),
        (dl.IID("uniform"), 0.7, dl.res1),
        (dl.SmoothGaussian(), 0.5, dl.res1),
        (dl.FractionalBrownian(0.7), 0.7, dl.res1),
        (dl.FractionalBrownian(0.7), 0.9, dl.res3),
        (dl.FractionalBrownian(0.3), 0.5, dl.res3),
    ],
)
def test_what_a_module_tends_to_is_what_the_table_says_of_its_stand_in(law, exponent, stand_in):
    given = {} if stand_in is dl.res3 else {"activation": "identity"}
    said = stand_in(9, weights=law, exponent=exponent, **given).regime()
    found = expected_limit(law, exponent)
    assert (found.name, found.convergence, found.rate) == (said.name, said.convergence, said.rate)
    assert said.explanation in found.explanation


def test_weights_whose_entries_are_found_dependent_have_no_theorem():
    def rows_share_one_number(shape, generator):
        one = torch.randn(*shape[:-1], 1, generator=generator, dtype=torch.float64)
        return one.expand(shape).clone()

    assert expected_limit(dl.IID(rows_share_one_number), 0.5).name == "no theorem"


def test_the_named_functions_are_the_general_one():
    for call, law in (
        (lambda w: dl.init.iid_(w, law="uniform", seed=3), dl.IID("uniform")),
        (lambda w: dl.init.smooth_(w, length_scale=0.3, seed=3), dl.SmoothGaussian(0.3)),
        (lambda w: dl.init.fractional_(w, hurst=0.6, seed=3), dl.FractionalBrownian(0.6)),
    ):
        one, other = empty(5, (4, 4)), empty(5, (4, 4))
        assert call(one) == dl.init.sample_(other, law, seed=3)
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
