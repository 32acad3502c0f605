"""The weights of all layers are found by the one number that runs in their names."""

import pytest
import torch
from refusals import assert_refused, row
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.trained.diagnosis.layer_families import (
    NoNumberedWeightsError,
    SameLayersError,
    families,
    stack,
)
from deeplimit.trained.diagnosis.sources import source_of


def numbers(seed=0):
    return torch.Generator().manual_seed(seed)


def tensors(shapes, seed=0):
    stream = numbers(seed)
    return {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}


def found(given, **how):
    return {family.name: family for family in families(source_of(given), **how).found}


def transformer(layers=5, width=4):
    shapes = {"wte.weight": (9, width), "ln_f.weight": (width,)}
    for k in range(layers):
        shapes |= {f"h.{k}.ln_1.weight": (width,), f"h.{k}.ln_2.weight": (width,)}
        shapes |= {f"h.{k}.mlp.0.weight": (3 * width, width), f"h.{k}.mlp.2.weight": (width, 3 * width)}
        shapes |= {f"h.{k}.conv1.weight": (width, width), f"h.{k}.conv2.weight": (width, width)}
    return shapes


def test_numbers_inside_of_a_layer_do_not_count_layers():
    names = ("ln_1", "ln_2", "mlp.0", "mlp.2", "conv1", "conv2")
    assert list(found(tensors(transformer()))) == [f"h.*.{name}.weight" for name in names]


def test_layers_are_ordered_by_their_number_not_by_their_text():
    given = {f"blocks.{k}.w": torch.full((2,), float(k)) for k in (10, 9, 11, 2, 1, 0, 3, 4, 5, 6, 7, 8)}
    source = source_of(given)
    (family,) = families(source).found
    assert family.numbers == tuple(range(12))
    assert stack(source, family).values[:, 0].tolist() == list(range(12))


def test_stages_of_a_resnet_are_families_of_their_own():
    shapes = {}
    for stage, (blocks, width) in enumerate([(5, 4), (6, 8)], start=1):
        for k in range(blocks):
            inner = width if k or stage == 1 else width // 2
            shapes[f"layer{stage}.{k}.conv1.weight"] = (width, inner, 3, 3)
    result = families(source_of(tensors(shapes)))
    assert [(family.name, len(family.members)) for family in result.found] == [
        ("layer1.*.conv1.weight", 5),
        ("layer2.*.conv1.weight", 5),
    ]
    assert result.left_out == {
        "layer2.0.conv1.weight": "has shape (8, 4, 3, 3), unlike the other layers' (8, 8, 3, 3)"
    }


def test_a_layer_that_is_missing_is_named():
    given = tensors({f"h.{k}.w": (3,) for k in range(9) if k != 6})
    result = families(source_of(given))
    assert result.found[0].numbers == (0, 1, 2, 3, 4, 5, 7, 8)
    assert [*result.left_out] == ["h.*.w, numbers 6"]


def test_one_linear_layer_is_no_stack():
    source = source_of({"weight": torch.ones(6, 5), "bias": torch.ones(6)})
    assert_refused(lambda: families(source), NoNumberedWeightsError, "weights", "weight, bias")


def test_experts_need_a_pattern_and_are_found_with_it():
    given = tensors({f"layers.{k}.experts.{e}.w": (2, 3) for k in range(6) for e in range(8)})
    assert_refused(
        lambda: found(given), ValueError, "layers.0.experts.0.w", "'layers.{}'", "'layers.0.experts.{}'"
    )
    by_layer = found(given, layers="layers.{}")
    assert [*by_layer] == [f"layers.*.experts.{e}.w" for e in range(8)]
    assert {len(family.members) for family in by_layer.values()} == {6}


def test_a_pattern_points_at_one_of_several_stacks_of_layers():
    given = tensors({f"{side}.layers.{k}.w": (2,) for side in ("encoder", "decoder") for k in range(5)})
    assert [*found(given)] == ["encoder.layers.*.w", "decoder.layers.*.w"]
    assert [*found(given, layers="decoder.layers.{}")] == ["decoder.layers.*.w"]


def test_whole_numbers_and_short_families_are_left_out_with_the_reason():
    shapes = {f"h.{k}.w": (2,) for k in range(6)} | {f"heads.{k}.v": (2,) for k in range(3)}
    given = tensors(shapes) | {f"h.{k}.steps": torch.tensor([k]) for k in range(6)}
    result = families(source_of(given))
    assert [family.name for family in result.found] == ["h.*.w"]
    assert result.left_out == {
        "heads.*.v": "has 3 layers of one shape, fewer than 4",
        "h.*.steps": "holds no floating-point numbers, but torch.int64",
    }


def shared(tied):
    with seeded(0):
        layer = nn.Linear(3, 3)
        layers = [layer if k in tied else nn.Linear(3, 3) for k in range(6)]
    with torch.no_grad():
        for k, made in enumerate(layers):
            made.weight.copy_(torch.randn(3, 3, generator=numbers(0 if k in tied else k + 1)))
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    ("tied", "says"), [(range(6), "all layers"), ((1, 4), "1 and 4"), ((0, 2, 5), "1 more")]
)
def test_tied_layers_and_copies_are_named(tied, says):
    source = source_of(shared([*tied]))
    family = next(family for family in families(source).found if family.name == "*.weight")
    with pytest.raises(SameLayersError, match=says):
        stack(source, family)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_tensor_that_is_not_finite_is_named(bad):
    given = tensors({f"h.{k}.w": (3,) for k in range(6)})
    given["h.4.w"][1] = bad
    source = source_of(given)
    assert_refused(lambda: stack(source, families(source).found[0]), ValueError, "'h.4.w'", "finite")
    whole = source_of({"A": torch.stack([*given.values()])})
    assert_refused(lambda: stack(whole, families(whole).found[0]), ValueError, "'A', layer 4", "finite")
    lost = source_of({"A": torch.full((6, 3), bad)})  # no copies of one layer
    assert_refused(lambda: stack(lost, families(lost).found[0]), ValueError, "'A', layer 0", "finite")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_the_precision_of_a_stack_is_that_of_its_layers(dtype):
    given = {f"h.{k}.w": torch.linspace(k, k + 1, 4).to(dtype) for k in range(4)}
    source = source_of(given)
    values = stack(source, families(source).found[0]).values
    assert values.dtype == (torch.float32 if dtype is torch.float8_e4m3fn else dtype)
    assert values[2].tolist() == given["h.2.w"].float().tolist()


LAYERED = {f"h.{k}.w": torch.full((2,), float(k)) for k in range(5)}


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        row("pattern without a number", {"layers": "h"}, ValueError, "layers", "'h'"),
        row("pattern with two numbers", {"layers": "{}.{}"}, ValueError, "layers", "'{}.{}'"),
        row("pattern that finds nothing", {"layers": "g.{}"}, NoNumberedWeightsError, "layers", "h.0.w"),
        row("groups of another type", {"groups": 3}, TypeError, "groups", "3 of type int"),
        row("groups of another length", {"groups": [0, 1]}, ValueError, "groups", "2", "5"),
        row("a group below zero", {"groups": [0, 0, 0, 0, -1]}, ValueError, "every group", "-1"),
    ],
)
def test_wrong_arguments_are_refused(how, kind, said):
    assert_refused(lambda: families(source_of(LAYERED), **how), kind, *said)


def test_a_bias_does_not_tell_layers_apart_but_a_dilation_does():
    with seeded(0):
        biased = nn.Sequential(*(nn.Linear(3, 3, bias=k % 2 == 0) for k in range(8)))
        dilated = nn.Sequential(*(nn.Conv1d(2, 2, 3, dilation=[1, 4, 1, 8][k % 4]) for k in range(8)))
    weight, bias = families(source_of(biased)).found
    assert (weight.groups, len(bias.members)) == ((), 4)
    assert families(source_of(dilated)).found[0].groups == (0, 1, 0, 2) * 2


def test_a_few_copies_and_layers_of_zeros_refuse_nothing_and_are_named():
    layers = torch.randn(16, 6, 6, generator=numbers(3))
    layers[5] = layers[9] = 0.0
    report = dl.diagnose({f"h.{k}.w": layer for k, layer in enumerate(layers)})
    assert [each.depth for each in report.objects] == [16]
    assert any("5, 9" in each for each in report.reservations)
    layers[0:4] = layers[4]  # more than one layer in eight
    with pytest.raises(ValueError, match="hold the same numbers"):
        dl.diagnose({f"h.{k}.w": layer for k, layer in enumerate(layers)})


@pytest.mark.parametrize(("largest", "told"), [(15.0, True), (1.2, False)])
def test_sizes_that_rise_are_told_though_order_is_judged_without_them(largest, told):
    sizes = torch.linspace(1.0, largest, 24)[:, None, None]
    report = dl.diagnose({"A": torch.randn(24, 8, 8, generator=numbers(1)) * sizes})
    assert any("root mean squares" in each for each in report.reservations) == told
