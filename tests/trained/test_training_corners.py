"""Where training is most likely to go wrong: kills, networks that diverge late, shared weights, images."""

import itertools

import numpy as np
import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary, Buffers
from deeplimit.driving import Layer, TrendAndNoise, layers_of
from deeplimit.trained.training import checkpoint
from deeplimit.trained.training.stop import Ending

FLOAT64 = ArrayLibrary(dtype=torch.float64)
DATA = dl.datasets.synthetic_system(width=4, count=100, test=20)
DIGITS = dl.datasets.digits()
IMAGES = dl.datasets.Data.of(DIGITS.inputs[:80].reshape(-1, 1, 8, 8), DIGITS.targets[:80], classes=10)
FULLY = dl.fully_connected(4, "tanh", exponent=0.0)
NETWORKS = {
    "res1": dl.res1(4, "tanh", exponent=0.5),
    "res2": dl.res2(4, "tanh", exponent=0.5),
    "res3": dl.res3(4, exponent=0.5),
    "inner": dl.inner(4, "softplus", exponent=0.5),
    "fully connected": dl.fully_connected(4, "relu", exponent=0.5),
    "convolutional": dl.convolutional(2, "tanh", size=(3, 2), exponent=0.5),
    "shortcut": dl.convolutional(2, "tanh", size=(3, 2), shortcut=True, exponent=0.5),
    "modified res1": dl.ResidualNetwork(dl.ModifiedRes1("tanh"), 4, None, 0.5),
}


def _names(network):
    return [weight.name for weight in network.recursion.weights] + ["b"] * network.recursion.takes_bias


def _weights(one):
    return tuple(one.parameters[name].tobytes() for name in sorted(one.parameters))


def _bits(report):
    return [
        (one.depth, one.repeat, one.losses.tobytes(), one.test_loss, one.ending, _weights(one))
        for one in report.networks.networks.values()
    ]


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        *((name, batch) for name in ("res1", "res2", "inner", "fully connected") for batch in (1, 33)),
        ("modified res1", 33),
        pytest.param("modified res1", 1, marks=pytest.mark.nightly),  # by automatic differentiation
    ],
)
def test_company_changes_no_bit_where_layers_share_weights(name, batch):
    network = NETWORKS[name]
    for tied in ((), _names(network)):
        kept = dict(tied=tied, batch=batch, epochs=1)
        together = dl.train(network, [40], DATA, repeats=5, **kept)
        alone = dl.train(network, [40], DATA, repeats=1, checkpointing=True, **kept)
        assert _bits(together)[0] == _bits(alone)[0]


class _Killed(Exception):
    pass


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    kept = dict(repeats=9, epochs=5, stop=dl.Stop(loss=0.008), workers=1, tied="delta", nonnegative="delta")
    kept |= dict(initial=dl.SmallGaussian(), batch=16)
    whole = dl.train(FULLY, [6, 12], DATA, **kept)
    assert {word for row in whole.endings for word in row} == {"loss", "epochs"}
    other = dl.train(FULLY, [6, 12], DATA, seed=1, checkpoints=tmp_path, **kept)  # in the same folder
    before = set(tmp_path.iterdir())
    assert len(before) == 4
    starts = []
    for limit in itertools.count(3):
        seen = []

        def killing(fraction, seen=seen, limit=limit):
            assert not seen or fraction >= seen[-1]
            seen.append(fraction)
            if len(seen) == limit:
                raise _Killed

        try:
            again = dl.train(FULLY, [6, 12], DATA, checkpoints=tmp_path, progress=killing, **kept)
            break
        except _Killed:
            starts.append(seen[0])
    assert starts == sorted(starts)
    assert len(starts) > 3
    assert starts[-1] > starts[0] + 0.1  # it does not begin at the beginning
    assert seen[-1] == pytest.approx(1.0)
    assert _bits(again) == _bits(whole) != _bits(other)
    assert len(set(tmp_path.iterdir()) - before) == 4  # blocks of two depths, eight networks and one


def test_progress_sums_to_one_whatever_ends_before(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    for stop in (dl.Stop(), dl.Stop(loss=1e9), dl.Stop(patience=1, improvement=0.9)):
        for _ in range(2):  # the second time everything is in the checkpoint
            seen = []
            kept = dict(checkpoints=tmp_path, progress=seen.append, workers=1)
            dl.train(FULLY, [3, 5], DATA, epochs=4, stop=stop, **kept)
            assert seen == sorted(seen)
            assert seen[-1] == pytest.approx(1.0, abs=1e-9)


def test_a_writer_that_dies_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    written = checkpoint.save_file

    def dying(tensors, path, metadata):
        written(tensors, path, metadata)
        if '"epoch": 3' in metadata["progress"]:
            path.write_bytes(path.read_bytes()[:50])
            raise _Killed

    monkeypatch.setattr(checkpoint, "save_file", dying)
    with pytest.raises(_Killed):
        dl.train(FULLY, [6], DATA, epochs=5, checkpoints=tmp_path, workers=1)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(checkpoint, "save_file", written)
    seen = []
    again = dl.train(FULLY, [6], DATA, epochs=5, checkpoints=tmp_path, progress=seen.append, workers=1)
    assert seen[0] == pytest.approx(2 / 5)
    assert _bits(again) == _bits(dl.train(FULLY, [6], DATA, epochs=5))


def test_a_long_first_epoch_is_kept(tmp_path, monkeypatch):
    clock = itertools.count(0.0, 61.0)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    dl.train(FULLY, [6], DATA, epochs=1, checkpoints=tmp_path, workers=1)
    assert len(list(tmp_path.iterdir())) == 1


def test_networks_that_diverge_in_their_last_step_or_on_the_test_set_have_diverged():
    network = dl.res1(4, "identity", exponent=0.0)
    for rate in (1e38, 1e10):  # weights that are infinite; finite ones with outputs that are not
        report = dl.train(network, [8], DATA, optimizer=dl.SGD(rate), epochs=1, batch=None)
        assert np.isfinite(report.train_losses).all()
        assert report.endings == ((Ending.DIVERGED,),)
        for ask in (lambda: report.loss_of({}, 8), lambda: report.outputs(DATA.inputs, 8), report.trained):  # noqa: B023
            with pytest.raises(ValueError, match="diverge"):
                ask()
    assert report.weights() == {}
    assert np.isnan(report.test_losses).all()
    assert report.reservations


@pytest.mark.parametrize("name", ["res1", "res2", "res3", "inner", "fully connected", "modified res1"])
def test_the_weights_of_a_report_give_its_losses_again(name):
    network = NETWORKS[name]
    names = _names(network)
    for kept in ({}, dict(tied=names), dict(nonnegative=names), dict(tied=names[-1:], fixed=names[:1])):
        if kept.get("fixed") == names:
            continue
        report = dl.train(network, [1, 70], DATA, epochs=1, dtype=torch.float64, **kept)
        for place, depth in enumerate((1, 70)):
            stacks = report.weights()[depth][0]
            assert all(len(stacks[one]) == depth for one in stacks if one != "delta")
            for replaced in ({}, stacks):
                found = report.loss_of(replaced, depth, test=True)
                assert found == pytest.approx(report.test_losses[place, 0], rel=1e-12)


def test_other_weights_are_used_as_they_are_given():
    report = dl.train(FULLY, [6], DATA, epochs=1, tied="delta", nonnegative="delta")
    delta = report.weights()[6][0]["delta"]
    assert delta.shape == ()
    losses = [report.loss_of({"delta": factor}, 6) for factor in (delta, -delta, delta.expand(6))]
    assert losses[0] == losses[2] != losses[1]


def test_a_factor_that_a_network_does_not_have_is_refused():
    report = dl.train(NETWORKS["res1"], [4], DATA, epochs=1)
    assert float(report.weights()[4][0]["delta"]) == 0.5
    assert_refused(
        lambda: report.loss_of({"delta": torch.tensor(0.25)}, 4), ValueError, "delta", "0.5", "tensor(0.2500)"
    )


def test_accuracy_is_the_share_of_right_answers_over_several_pieces_of_inputs():
    report = dl.train(dl.res2(5, "tanh", exponent=0.5), [70], DIGITS, epochs=2, repeats=2)
    assert len(DIGITS.test_inputs) > 256  # more than are given at once
    for repeat in range(2):
        right = report.outputs(DIGITS.test_inputs, 70, repeat).argmax(1) == DIGITS.test_targets
        assert 0.0 < float(right.float().mean()) < 1.0
        assert report.accuracies[0, repeat] == pytest.approx(float(right.double().mean()), rel=1e-12)
        assert report.accuracy_of({}, 70, repeat) == report.accuracies[0, repeat]


def test_images_are_made_flat_for_vectors_and_are_states_of_convolutions():
    flat = dl.datasets.Data.of(
        IMAGES.inputs.flatten(1), IMAGES.targets, test=(IMAGES.test_inputs.flatten(1), IMAGES.test_targets)
    )
    network = dl.res2(5, "tanh", exponent=0.5)
    images, vectors = (dl.train(network, [4], data, epochs=2) for data in (IMAGES, flat))
    assert _bits(images) == _bits(vectors)
    report = dl.train(dl.convolutional(3, size=(8, 8), exponent=0.5), [4], IMAGES, epochs=1)
    assert report.states(IMAGES.inputs[:7], 4).shape == (7, 3, 8, 8)


def test_states_are_what_stands_before_the_first_layer():
    report = dl.train(dl.res2(5, "tanh", exponent=0.5), [4, 8], DIGITS, epochs=1, repeats=2)
    one = report.networks.networks[8, 1].parameters
    x = DIGITS.test_inputs[:6]
    states = x @ torch.from_numpy(one["input.weight"][0]).T + torch.from_numpy(one["input.bias"][0])
    torch.testing.assert_close(report.states(x, 8, 1), states, rtol=1e-5, atol=1e-6)
    h, network = report.states(x, 8, 1), report.trained(1)
    stacks = [law.stacks[8]["A"] for law in network.weights]
    for k in range(8):
        layers = tuple(Layer(stack[k][None], 8, 0.0, 1.0) for stack in stacks)
        h = network.recursion.advance(h, layers, network.exponent)
    outputs = h @ torch.from_numpy(one["output.weight"][0]).T + torch.from_numpy(one["output.bias"][0])
    torch.testing.assert_close(report.outputs(x, 8, 1), outputs, rtol=1e-4, atol=1e-5)
    direct = dl.train(NETWORKS["res1"], [4], DATA, epochs=1)
    assert torch.equal(direct.states(DATA.inputs, 4), DATA.inputs)


LAWS = {
    "smooth": dl.SmoothGaussian(),
    "fractional": dl.FractionalBrownian(0.7),
    "dependent": dl.AR1(0.5),
    "function": dl.Trend(lambda t: torch.ones(3, 3) * t, b=lambda t: torch.arange(3.0) * t),
    "recorded": dl.Recorded({8: dict(A=torch.randn(8, 3, 3), b=torch.ones(8, 3))}),
    "trend and noise": TrendAndNoise(dl.Trend(lambda t: torch.ones(3, 3) * t), dl.Ito(A=0.05, b=0.25), 0.5),
}


@pytest.mark.parametrize("name", LAWS)
def test_weights_before_training_are_the_layers_of_the_weight_law(name):
    network = dl.inner(3, "tanh", weights=LAWS[name], exponent=0.5)
    drawn = dl.FromWeightLaws().draw(network, 8, frozenset(), torch.Generator().manual_seed(3))
    ((law, shape),) = network.laws_and_shapes
    layers = layers_of(law, 8, shape, 1, torch.Generator().manual_seed(3), torch.float64)
    h = there = torch.ones(1, 3, dtype=torch.float64)
    for k, layer in enumerate(layers):
        ours = Layer(drawn["W"][k][None], 8, 0.0, 1.0, drawn["b"][k][None])
        h = network.recursion.advance(h, (ours,), network.exponent)
        there = network.recursion.advance(there, (layer,), network.exponent)
    torch.testing.assert_close(h, there, rtol=1e-12, atol=1e-12)
    assert bool(drawn["b"].any()) == any(layer.bias is not None for layer in layers)


def test_independent_weights_before_training_have_the_size_of_the_law():
    network = dl.res1(20, "tanh", weights=dl.IID())
    drawn = dl.FromWeightLaws().draw(network, 100, frozenset(), torch.Generator().manual_seed(3))["V"]
    entries = 100 * 20 * 20  # the variance of a mean of squares is 2 per entry; five standard deviations
    assert float(drawn.square().mean() * 20) == pytest.approx(1.0, abs=5 * (2 / entries) ** 0.5)


def test_same_weights_in_all_layers_are_trained_one_by_one():
    network, initial = NETWORKS["res1"], dl.FromWeightLaws(same_in_all_layers=True)
    drawn = initial.draw(network, 6, frozenset(), torch.Generator().manual_seed(0))["V"]
    assert torch.equal(drawn, drawn[:1].expand(6, 4, 4))
    trained = dl.train(network, [6], DATA, epochs=1, initial=initial).weights()[6][0]["V"]
    assert (trained[1:] != trained[:1]).all()


def test_buffers_of_one_name_share_their_memory():
    buffers = Buffers(FLOAT64)
    large, _ = buffers.layers("h", 4, 8, 2)
    small, entries = buffers.layers("h", 4, 3, 2)
    assert np.shares_memory(large, small)
    assert np.shares_memory(small, entries[3])
    assert small.shape == (4, 3, 2)
    assert buffers.layers("h", 4, 8, 2)[0] is large
    buffers.layers("h", 5, 8, 2)
    assert sum(memory.nbytes for memory in buffers.memory.values()) == 5 * 8 * 2 * 8
    assert not np.shares_memory(buffers.layers("z", 4, 8, 2)[0], buffers.layers("h", 4, 8, 2)[0])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("fully connected", "convolutional") else pytest.mark.nightly)
        for name in NETWORKS
    ],
)
def test_what_is_trained_is_diagnosed(name, tmp_path):
    network, data = NETWORKS[name], DATA
    if len(network.state_shape) == 3:
        x = torch.randn(40, *network.state_shape, generator=torch.Generator().manual_seed(0))
        data = dl.datasets.Data.of(x, x.sum((1, 2, 3))[:, None])
    report = dl.train(network, [8, 16, 32], data, epochs=1, batch=10, dtype=torch.float64)
    factor = ["δ"] if name == "fully connected" else []
    wanted = sorted(set(_names(network)) - set(factor))
    found = dl.diagnose(report.weights())
    assert sorted(finding.weight for finding in found.findings) == wanted
    files = {int(file.stem.split("-")[1]): file for file in report.save_weights(tmp_path)}
    assert dl.diagnose(files).to_dict()["findings"] == found.to_dict()["findings"]
