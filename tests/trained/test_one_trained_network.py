"""One trained network from its weights or its module to a report; a scrambled twin has the same one."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gauges import scrambled_convolutions, scrambled_transformer, with_biases
from refusals import assert_refused, row
from safetensors.torch import save_file
from stacks import BatchNormed, Transformer, images, make, tokens
from torch import nn

import deeplimit as dl
from deeplimit.common.verdict import LayersVerdict
from deeplimit.trained.diagnosis.network import diagnose_network

DEPTH = 12


def smooth(network, turn=0.25, seed=0):
    """Replace every weight of the blocks by one that turns slowly over depth."""
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, first in list(network.blocks[0].named_parameters()):
            start = first.clone()
            end = torch.randn(first.shape, generator=stream) * first.std().nan_to_num(0.0)
            for k, block in enumerate(network.blocks):
                angle = turn * k
                block.get_parameter(name).copy_(math.cos(angle) * start + math.sin(angle) * end)
    return network


def transformer():
    return with_biases(make(Transformer, depth=DEPTH, exponent=0.0), scale=0.1)


def by_name(report):
    return {each.full_name: each for each in report.objects}


@pytest.fixture(scope="module")
def independent():
    return diagnose_network(transformer(), batch=tokens())


@pytest.fixture(scope="module")
def ordered():
    return diagnose_network(smooth(transformer()), batch=tokens())


def test_independent_layers_have_no_order(independent):
    assert independent.ordered == ()
    assert "13 objects" in independent.headline
    assert {str(each.verdict) for each in independent.objects} <= {"independent", "cannot tell"}
    assert independent.verdict == "independent"
    for name, statistics in by_name(independent).items():
        assert statistics.hurst_interval[0] < 0.55, name
        assert statistics.noise > 0.85, name


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (("independent", "independent", "cannot tell"), "independent"),
        (("smooth trend", "smooth trend", "cannot tell"), "smooth trend"),
        (("independent", "cannot tell"), "cannot tell"),
        (("cannot tell", "cannot tell"), "cannot tell"),
        (("independent", "rough", "cannot tell"), "measured"),
    ],
)
def test_objects_that_cannot_tell_do_not_contradict(independent, words, verdict):
    first = independent.objects[0]
    objects = tuple(
        replace(first, verdict=LayersVerdict(word), correlation="none" if word == "independent" else word)
        for word in words
    )
    assert replace(independent, objects=objects).verdict == verdict


def test_layers_that_share_a_part_somewhere_are_not_independent(independent):
    first = independent.objects[0]
    shared = replace(
        first,
        verdict=LayersVerdict.CANNOT_TELL,
        correlation="cannot tell",
        noise=0.2,
        noise_interval=(0.1, 0.3),
    )
    assert replace(independent, objects=(first, first, shared)).verdict == "cannot tell"


def test_layers_that_turn_slowly_are_seen_in_weights_and_functions(ordered):
    """Hidden units are in one order here, but no statistic reads them in that order."""
    assert ordered.verdict == "smooth trend"
    found = {each.full_name for each in ordered.ordered}
    assert {
        "blocks.*.mlp: product (weights)",
        "blocks.*.mlp (function of noise)",
        "blocks.*.attention (function of noise)",
    } <= found
    assert by_name(ordered)["blocks.*.mlp (function of noise)"].noise < 0.1


@pytest.mark.parametrize(
    ("kind", "batch", "scramble"),
    [
        pytest.param(Transformer, tokens, scrambled_transformer, marks=pytest.mark.nightly),
        (BatchNormed, images, scrambled_convolutions),
    ],
)
def test_a_scrambled_twin_has_the_same_report(kind, batch, scramble):
    network = smooth(with_biases(make(kind, depth=DEPTH), scale=0.1), turn=0.1)
    mine, other = (diagnose_network(each, batch=batch()) for each in (network, scramble(network)))
    assert len(mine.objects) >= 4
    for first, second in zip(mine.objects, other.objects, strict=True):
        assert first.full_name == second.full_name
        assert first.hurst == pytest.approx(second.hurst, abs=2e-4)
        assert first.likeness == pytest.approx(second.likeness, abs=1e-4)
        assert first.noise == pytest.approx(second.noise, abs=1e-4)
        np.testing.assert_allclose(first.merging.pairs, second.merging.pairs, atol=1e-4)
    for first, second in zip(mine.streams, other.streams, strict=True):
        np.testing.assert_allclose(first.influence, second.influence, rtol=1e-3, atol=1e-6)


def test_a_file_and_a_module_have_the_same_weights(tmp_path, ordered):
    """In a file the gains before the MLP are known by name alone, so they are given a name that is known."""
    network = smooth(transformer())
    names = {"between": "norm2", "before": "norm1"}
    state = {}
    for name, value in network.state_dict().items():
        for here, known in names.items():
            name = name.replace(here, known)  # noqa: PLW2901
        state[name] = value
    save_file(state, tmp_path / "w.safetensors")
    found = by_name(diagnose_network(str(tmp_path / "w.safetensors")))
    assert [*found] == [each.full_name for each in ordered.objects if each.what == "weights"]
    for name in ("blocks.*.mlp: product (weights)", "blocks.*.mlp: read Gram (weights)"):
        assert found[name].hurst == pytest.approx(by_name(ordered)[name].hurst, abs=1e-4)


def test_a_batch_that_was_made_up_is_told(independent):
    assert diagnose_network(make(Transformer, depth=4, width=8)).made_up
    assert not independent.made_up


def test_networks_without_comparable_layers_are_refused():
    stream = torch.Generator().manual_seed(0)
    weights = {
        f"conv.{k}.{name}.weight": torch.randn(4, 4, 3, 3, generator=stream)
        for k in range(8)
        for name in "ab"
    }
    assert_refused(
        lambda: diagnose_network(weights), ValueError, "weights", "got none", "conv.*.a.weight", "module"
    )
    bad = copy.deepcopy(transformer())
    with torch.no_grad():
        bad.blocks[3].mlp[0].weight[0, 0] = torch.nan
    assert_refused(
        lambda: diagnose_network(bad, batch=tokens()), ValueError, "'blocks.3.mlp.0.weight'", "finite"
    )


def test_tied_layers_of_a_module_are_refused_with_the_reason():
    network = make(Transformer, depth=6)
    network.blocks = nn.ModuleList([network.blocks[0]] * 6)
    assert_refused(
        lambda: diagnose_network(network, batch=tokens()),
        ValueError,
        "Transformer",
        "same numbers",
        "dl.check_depth(factory, batch=x)",
    )


STACKS = {"A": torch.arange(24.0).reshape(6, 4).sin()}


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        row("no depth", lambda: dl.diagnose({}), ValueError, "weights", "at least one depth"),
        row("confidence", lambda: dl.diagnose(STACKS, confidence=0.9), ValueError, "confidence"),
        row("batch", lambda: dl.diagnose({6: STACKS}, batch=1), ValueError, "batch", "modules"),
        row("groups", lambda: dl.diagnose({6: STACKS}, groups=[0]), ValueError, "groups", "several depths"),
        row("seed", lambda: dl.diagnose(STACKS, seed=-1), ValueError, "seed", "-1"),
    ],
)
def test_arguments_of_the_other_kind_of_weights_are_refused(call, kind, said):
    assert_refused(call, kind, *said)


@pytest.mark.parametrize(("noise", "named"), [(0.05, False), (0.6, True)])
def test_a_trend_beside_much_noise_has_its_share_in_the_first_line(noise, named):
    stream = torch.Generator().manual_seed(0)
    times = (torch.arange(48) + 0.5)[:, None, None] / 48
    trend = torch.cos(math.pi * times) * torch.randn(12, 12, generator=stream) * 2**0.5
    fresh = torch.randn(48, 12, 12, generator=stream)
    report = dl.diagnose({"A": (1 - noise) ** 0.5 * trend + noise**0.5 * fresh})
    assert report.objects[0].verdict == "smooth trend"
    assert report.objects[0].noise == pytest.approx(noise, abs=0.1)
    assert (f"{report.objects[0].noise:.2f}" in report.headline) == named
