"""Influence of layers beside independent equal ones: the closed form, and networks that differ from it."""

import math

import numpy as np
import pytest
import torch
from gauges import with_biases
from refusals import assert_refused
from stacks import BatchNormed, Transformer, images, make, tokens

from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.trace.branches import layout, record
from deeplimit.trained.diagnosis.influence import Influence, influence
from deeplimit.trained.diagnosis.stream_states import StreamStates, stream_states


def stream(states, channels=3):
    return StreamStates(tuple(f"layer {k}" for k in range(len(states) - 1)), states, channels)


def pre_norm(depth=64, width=512, rows=4, seed=0, scales=None, aligned=0.0):
    """Return the states of h + s W N(h) with independent layers, and of updates that share a direction."""
    draws = torch.Generator().manual_seed(seed)
    h = torch.randn(rows, 1, width, generator=draws)
    common = torch.randn(rows, 1, width, generator=draws)
    states = [h]
    for k in range(depth):
        matrix = torch.randn(width, width, generator=draws) / math.sqrt(width)
        normed = h * math.sqrt(width) / h.norm(dim=-1, keepdim=True)
        scale = 1.0 if scales is None else scales[k]
        h = h + scale * (math.sqrt(1 - aligned) * normed @ matrix.T + math.sqrt(aligned) * common)
        states.append(h)
    return stream(torch.stack(states))


@pytest.mark.statistical
def test_equal_layers_have_the_influence_of_the_closed_form():
    """1 − √(k/(k + 1)) for the k-th layer where an update is as large as the first state."""
    found = influence(pre_norm(rows=8))
    formula = 1 - np.sqrt(np.arange(1, 65) / np.arange(2, 66))
    np.testing.assert_allclose(formula[[0, 7, 31, 63]], [0.2929, 0.0572, 0.0153, 0.0077], atol=5e-5)
    np.testing.assert_allclose(found.expected, formula, rtol=0.02)
    np.testing.assert_allclose(found.influence, formula, rtol=0.12)
    assert found.gain == pytest.approx(1.0, rel=0.05)
    assert found.growth == pytest.approx(65.0, rel=0.1)
    assert formula[0] / formula[-1] == pytest.approx(38, rel=0.01)
    assert not found.differs.any()


@pytest.mark.statistical
def test_angles_between_distant_layers_have_the_closed_form():
    found = influence(pre_norm(rows=16))
    grown = 1.0 + np.arange(65)
    formula = np.arccos(np.sqrt(np.minimum.outer(grown, grown) / np.maximum.outer(grown, grown))) / math.pi
    np.testing.assert_allclose(found.expected_angles, formula, atol=0.005)
    np.testing.assert_allclose(found.angles, formula, atol=0.02)
    np.testing.assert_allclose(found.angles, found.angles.T, atol=1e-12)


@pytest.mark.statistical
def test_the_spread_is_that_of_networks():
    """The standard deviation of 200 draws is known to 5 %, so eight of them are within 25 %."""
    draws = [influence(pre_norm(depth=8, width=64, rows=1, seed=seed)) for seed in range(200)]
    measured = np.std([draw.excess for draw in draws], axis=0)
    stated = np.mean([draw.spread for draw in draws], axis=0)
    np.testing.assert_allclose(measured, stated, rtol=0.25)


@pytest.mark.parametrize("place", [5, 40])
def test_a_layer_that_adds_more_or_less_is_found(place):
    scales = np.ones(64)
    scales[place] = 2.0
    scales[20] = 0.2
    found = influence(pre_norm(scales=scales, rows=8))
    assert found.excess[place] > 0 > found.excess[20]
    assert np.flatnonzero(found.differs).tolist() == sorted([place, 20])


def test_updates_that_share_a_direction_turn_the_state_less():
    """The control: a null that does not fit is seen to fail, late layers more than early ones."""
    found = influence(pre_norm(aligned=0.5, rows=8))
    late = slice(16, 64)
    assert (found.excess[late] < 0).all()
    assert found.differs[late].mean() > 0.9
    assert found.growth > 5 * (1 + 64 * found.gain)


@pytest.mark.parametrize(("kind", "batch"), [(Transformer, tokens), (BatchNormed, images)])
def test_states_are_taken_from_the_network_itself(kind, batch):
    network = with_biases(make(kind, depth=6)).eval()
    given = as_batch(network, batch())
    (found,) = stream_states(network, given, layout(record(network, given, trained=True))).values()
    with torch.no_grad():
        x = network.embedding(batch()) if kind is Transformer else network.stem(batch())
        states = [x]
        for block in network.blocks:
            x = block(x) if kind is Transformer else torch.relu(x + block(x))
            states.append(x)
        if kind is BatchNormed:  # the last sum has not been activated yet
            states[-1] = states[-2] + network.blocks[-1](states[-2])
    torch.testing.assert_close(found.states, torch.stack(states), rtol=1e-4, atol=1e-5)
    assert len(found.names) == 6
    taken = influence(found)
    moved = torch.stack(states).movedim(found.channels, -1).flatten(1, -2)
    cosine = torch.nn.functional.cosine_similarity(moved[2], moved[3], dim=-1)
    assert taken.influence[2] == pytest.approx(1 - float(cosine.mean()), abs=1e-6)


def test_one_row_has_no_errors():
    found = influence(pre_norm(depth=8, rows=1))
    assert np.isinf(found.errors).all()
    assert not found.differs.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_states_that_are_not_finite_are_refused(bad):
    states = torch.ones(5, 2, 3, 4)
    states[3, 1, 2] = bad
    assert_refused(lambda: influence(stream(states)), ValueError, "layer 0", "finite")
    assert_refused(lambda: influence(stream(torch.zeros(5, 2, 3, 4))), ValueError, "layer 0", "zero")


def test_states_that_are_zero_somewhere_are_left_out():
    states = torch.randn(5, 3, 4, 16, generator=torch.Generator().manual_seed(0)).cumsum(0)
    whole = influence(stream(states[:, :2]))
    states[3, 2] = 0.0
    found = influence(stream(states))
    np.testing.assert_allclose(found.influence, whole.influence, rtol=1e-12)
    np.testing.assert_allclose(found.errors, whole.errors, rtol=1e-12)


def test_layers_differ_beyond_both_errors_at_the_level_of_all_layers_together():
    """With 8 layers 99 % is 3.23 errors; errors of rows and of one drawn layer add in squares: 3, 4, 5."""
    excess = np.array([3.1, 3.3, -3.1, -3.3, 0.0, 0.0, 0.0, 2.9]) * 5
    none, square = np.zeros(8), np.zeros((9, 9))
    sizes = {"errors": np.full(8, 3.0), "spread": np.full(8, 4.0), "gain": 1.0, "growth": 1.0}
    layers = {"names": tuple("abcdefgh"), "influence": excess, "expected": none, "at_size": none}
    found = Influence(angles=square, expected_angles=square, **layers, **sizes)
    assert found.differs.tolist() == [False, True, False, True, False, False, False, False]
