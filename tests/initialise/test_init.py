"""Weights filled by `dl.init` have the covariance across layers, the size and the independence that they are
said to have.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import linalg, stats
from torch import nn

import deeplimit as dl
from deeplimit.initialise import filling
from deeplimit.initialise.expected_limit import expected_limit

LEVEL = 1e-6
LAYERS, SHAPE = 8, (400, 256)
ENTRIES = math.prod(SHAPE)
FAN_IN = SHAPE[1]
LAWS = [
    dl.Brownian(),
    dl.IID("uniform"),
    dl.IID("rademacher"),
    dl.SmoothGaussian(0.1),
    dl.SmoothGaussian(0.4),
    dl.FractionalBrownian(0.2),
    dl.FractionalBrownian(0.7),
    dl.FractionalBrownian(0.95),
]
BY_NAME = {"ids": lambda law: law.describe()}


def empty(layers=LAYERS, shape=SHAPE, dtype=torch.float32, device="cpu"):
    return [torch.full(shape, torch.nan, dtype=dtype, device=device) for _ in range(layers)]


def covariance(law, layers=LAYERS):
    """Return what the papers write down, by a route of its own."""
    k = np.arange(1, layers + 1)
    lags = np.abs(np.subtract.outer(k, k)).astype(float)
    if isinstance(law, dl.SmoothGaussian):
        return np.exp(-((lags / layers) ** 2) / (2 * law.length_scale**2))
    if isinstance(law, dl.FractionalBrownian):
        # Of the path's values, then of their differences: cov(B_s, B_t) = ½(s^2H + t^2H - |s - t|^2H).
        times = np.arange(layers + 1) / layers
        path = times ** (2 * law.hurst)
        values = 0.5 * (
            path[:, None] + path[None, :] - np.abs(np.subtract.outer(times, times)) ** (2 * law.hurst)
        )
        return layers ** (2 * law.hurst) * np.diff(np.diff(values, axis=0), axis=1)
    return np.eye(layers)


def stacked(weights, scale=1.0):
    return torch.stack([weight.double().reshape(-1) for weight in weights]).numpy() / scale


def farthest(values, expected, squares=2.0):
    """Return the largest deviation of a measured covariance, in standard errors (Isserlis), corrected for the
    number of pairs.
    """
    layers, entries = values.shape
    measured = values @ values.T / entries
    variance = 1.0 + expected**2
    np.fill_diagonal(variance, squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.abs(measured - expected) / np.sqrt(variance / entries)
    if squares == 0.0:
        np.fill_diagonal(scores, 0.0)
        assert np.allclose(np.diagonal(measured), 1.0, rtol=1e-6)
    return stats.norm.isf(min(0.5, stats.norm.sf(scores.max()) * layers**2))


def fourth(law):
    """Return the variance of a squared entry."""
    return {"uniform": 9 / 5 - 1, "rademacher": 0.0}.get(getattr(law, "law", ""), 2.0)


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, **BY_NAME)
def test_every_pair_of_layers_has_the_covariance_of_the_law(law):
    weights = empty()
    done = dl.init.sample_(weights, law, seed=1)
    scale = LAYERS**-law.critical_exponent / math.sqrt(FAN_IN)
    assert done.standard_deviation == pytest.approx(scale, rel=1e-12)
    values = stacked(weights, scale)
    assert farthest(values, covariance(law), fourth(law)) < stats.norm.isf(LEVEL)
    assert np.abs(values.mean(axis=1)).max() < 6 / math.sqrt(ENTRIES)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "assumed", "exponent"),
    [
        (dl.FractionalBrownian(0.7), dl.FractionalBrownian(0.72), 0.7),
        (dl.FractionalBrownian(0.3), dl.FractionalBrownian(0.5), 0.5),
        (dl.SmoothGaussian(0.1), dl.SmoothGaussian(0.103), 1.0),
        (dl.Brownian(), dl.FractionalBrownian(0.53), 0.5),
        (dl.Brownian(), dl.Brownian(), 0.51),
        (dl.SmoothGaussian(0.1), dl.SmoothGaussian(0.1), 0.99),
    ],
)
def test_another_law_or_exponent_would_be_noticed(law, assumed, exponent):
    weights = empty()
    dl.init.sample_(weights, law, seed=1)
    values = stacked(weights, LAYERS**-exponent / math.sqrt(FAN_IN))
    assert farthest(values, covariance(assumed)) > stats.norm.isf(LEVEL)


def linear_map(monkeypatch, law, layers):
    """Return the matrix that takes the sampler's normals to one entry's layers: entry j is drawn from the
    j-th unit vector.

    Every sampler keeps its entries along the second axis of what it draws.
    """
    counted = []

    def normals(tensor, *_, generator=None, **__):
        across = tensor.movedim(1, 0)
        counted.append(across[0].numel())
        return tensor.copy_(
            torch.eye(len(across), counted[-1], dtype=tensor.dtype).reshape(across.shape).movedim(0, 1)
        )

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "normal_", normals)
        dl.init.sample_(empty(layers, (1, 1), torch.float64), law, seed=0)
        weights = empty(layers, (max(counted), 1), torch.float64)
        done = dl.init.sample_(weights, law, seed=0)
    assert len(weights[0]) == counted[-1]
    return stacked(weights, done.standard_deviation)


@pytest.mark.parametrize("layers", [8, 24, 97])
@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, dl.IID)], **BY_NAME)
def test_the_map_from_normals_to_layers_has_exactly_the_covariance(monkeypatch, law, layers):
    matrix = linear_map(monkeypatch, law, layers)
    np.testing.assert_allclose(matrix @ matrix.T, covariance(law, layers), rtol=0, atol=1e-10)


def test_the_test_of_the_map_tells_neighbouring_laws_apart(monkeypatch):
    matrix = linear_map(monkeypatch, dl.FractionalBrownian(0.7), 24)
    assert np.abs(matrix @ matrix.T - covariance(dl.FractionalBrownian(0.7000001), 24)).max() > 1e-9


def correlations(first, second):
    return float(np.abs((first * second).mean() / (first.std() * second.std())) * math.sqrt(first.size))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "law", [dl.Brownian(), dl.IID("rademacher"), dl.SmoothGaussian(), dl.FractionalBrownian(0.8)], **BY_NAME
)
def test_entries_are_independent_of_each_other_within_a_tile_and_from_tile_to_tile(monkeypatch, law):
    size = 5000
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", LAYERS * size)
    weights = empty()
    dl.init.sample_(weights, law, seed=3)
    values = stacked(weights)[:, : ENTRIES // size * size]
    for shift in (
        1,
        2,
        FAN_IN,
        size,
        2 * size,
    ):  # neighbours in a row, in a column, and the same place of the next tiles
        moved = np.roll(values, shift, axis=1)
        for i, j in ((0, 0), (3, 3), (0, 1), (0, LAYERS - 1)):
            # Neighbouring products are uncorrelated, as the entries are independent, so the mean has the
            # usual error.
            assert correlations(values[i], moved[j]) < stats.norm.isf(LEVEL), (shift, i, j)


@pytest.mark.statistical
def test_tiles_that_repeat_each_other_would_be_noticed(monkeypatch):
    size = 5000
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", LAYERS * size)
    once = filling.generator
    monkeypatch.setattr(filling, "generator", lambda seed, purpose, tile, role: once(seed, purpose, 0, role))
    weights = empty()
    dl.init.iid_(weights)
    values = stacked(weights)[:, : ENTRIES // size * size]
    assert correlations(values[0], np.roll(values, size, axis=1)[0]) > stats.norm.isf(LEVEL)


@pytest.mark.statistical
def test_marginals_are_of_the_named_law():
    values = {}
    for law in ("gaussian", "uniform", "rademacher"):
        weights = empty(dtype=torch.float64)
        done = dl.init.iid_(weights, law=law)
        values[law] = weights[2].reshape(-1).numpy() / done.standard_deviation
    assert stats.kstest(values["gaussian"], "norm").pvalue > LEVEL
    assert stats.kstest(values["uniform"], stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf).pvalue > LEVEL
    np.testing.assert_allclose(np.abs(values["rademacher"]), 1.0, rtol=1e-12)
    assert stats.kstest(values["uniform"], "norm").pvalue < LEVEL


@given(
    law=st.sampled_from(LAWS),
    layers=st.integers(2, 40),
    shape=st.sampled_from([(3, 5), (1, 1), (4, 2, 3), (2, 3, 2, 2), (7, 1)]),
    tile=st.integers(1, 60),
    seed=st.integers(0, 2**40),
)
def test_a_seed_means_the_same_weights_again(law, layers, shape, tile, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "NUMBERS_AT_ONCE", tile)
        first, second, other = (empty(layers, shape) for _ in range(3))
        dl.init.sample_(first, law, seed=seed)
        dl.init.sample_(second, law, seed=seed)
        dl.init.sample_(other, law, seed=seed + 1)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(bool(torch.isfinite(weight).all()) for weight in first)
    if not isinstance(law, dl.IID):
        assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.statistical
@pytest.mark.parametrize("tile", [1, 7, 24, 10**6])
def test_whatever_the_size_of_a_tile_the_covariance_is_exact(monkeypatch, tile):
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", tile * 8)
    law = dl.FractionalBrownian(0.8)
    weights = empty(8, (60, 50))
    dl.init.sample_(weights, law, seed=5)
    assert farthest(stacked(weights, 8**-0.8 / math.sqrt(50)), covariance(law)) < stats.norm.isf(LEVEL)


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


def test_stacked_layers_are_filled_through_their_views():
    stack = nn.Parameter(torch.zeros(5, 4, 3))
    dl.init.iid_(stack.unbind(0))
    apart = empty(5, (4, 3))
    dl.init.iid_(apart)
    assert torch.equal(stack.detach(), torch.stack(apart))
    other = torch.zeros(4, 5, 3)
    dl.init.iid_(other.unbind(1))
    assert torch.equal(other, torch.stack(apart, dim=1))


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
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
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


@pytest.mark.parametrize(
    ("call", "exponent", "limit", "theorem", "hurst", "words"),
    [
        (lambda w: dl.init.iid_(w), 0.5, "sde", "Proposition 11", 0.5, "two matrices per branch"),
        (lambda w: dl.init.iid_(w, law="uniform"), 0.5, "sde", "Donsker", 0.5, "in law"),
        (lambda w: dl.init.iid_(w, exponent=0.7), 0.7, "identity", "Corollary 5", 0.5, "0.7 > 1/2"),
        (
            lambda w: dl.init.iid_(w, exponent=0.3),
            0.3,
            "explosion",
            "Corollary 5",
            0.5,
            "its input is normalised",
        ),
        (lambda w: dl.init.iid_(w, exponent=0), 0.0, "unscaled", None, 0.5, "output projection"),
        (lambda w: dl.init.smooth_(w), 1.0, "ode", "Proposition 12", None, "all weights of a branch"),
        (lambda w: dl.init.smooth_(w, exponent=1.5), 1.5, "identity", "Proposition 13", None, "1.5 > 1"),
        (lambda w: dl.init.smooth_(w, exponent=0.5), 0.5, "explosion", "Proposition 14", None, "coherently"),
        (
            lambda w: dl.init.fractional_(w, hurst=0.7),
            0.7,
            "young",
            "Hu, Liu and Nualart",
            0.7,
            "no theorem is known",
        ),
        (
            lambda w: dl.init.fractional_(w, hurst=0.7, exponent=0.5),
            0.5,
            "explosion",
            None,
            0.7,
            "without proof",
        ),
        (
            lambda w: dl.init.fractional_(w, hurst=0.7, exponent=0.9),
            0.9,
            "identity",
            None,
            0.7,
            "without proof",
        ),
        (lambda w: dl.init.fractional_(w, hurst=0.3), 0.5, "no theorem", None, 0.3, "Young's integral"),
        (
            lambda w: dl.init.fractional_(w, hurst=0.3, exponent=0.4),
            0.4,
            "explosion",
            None,
            0.3,
            "nearly cancel",
        ),
        (
            lambda w: dl.init.fractional_(w, hurst=0.5),
            0.5,
            "sde",
            "Proposition 11",
            0.5,
            "two matrices per branch",
        ),
    ],
)
def test_the_result_says_where_it_leads_and_for_what_that_is_proved(
    call, exponent, limit, theorem, hurst, words
):
    done = call(empty(4, (3, 2)))
    assert (done.exponent, done.limit, done.hurst, done.layers, done.shape) == (
        exponent,
        limit,
        hurst,
        4,
        (3, 2),
    )
    assert (done.theorem is None) if theorem is None else (theorem in done.theorem)
    text = str(done)
    for part in (words, "normalisation, attention", f"leads to: {limit}", f"{done.standard_deviation:.4g}"):
        assert part in text
    content = done.to_dict()
    assert content["limit"] == limit
    assert content["shape"] == [3, 2]
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


@pytest.mark.statistical
def test_more_layers_than_a_tile_holds_are_still_drawn_together(monkeypatch):
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", 16)
    weights = empty(300, (5, 1), torch.float64)
    done = dl.init.fractional_(weights, hurst=0.9)
    values = stacked(weights, done.standard_deviation)
    white = linalg.solve_triangular(
        linalg.cholesky(covariance(dl.FractionalBrownian(0.9), 300), lower=True), values, lower=True
    )
    assert stats.kstest(white.reshape(-1), "norm").pvalue > LEVEL
