"""Training gives the same bits whatever runs it: together or alone, interrupted, stored, elsewhere."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.measurement import measure
from deeplimit.driving import Layer
from deeplimit.trained.training import TrainingReport, checkpoint
from deeplimit.trained.training.stop import Ending

DATA = dl.datasets.synthetic_system(width=4, count=100, test=20)
DIGITS = dl.datasets.digits()
SETTINGS = dict(tied="delta", nonnegative="delta", initial=dl.SmallGaussian(), epochs=4, batch=32)
NETWORK = dl.fully_connected(4, "tanh", exponent=0.0)


def _numbers(report, repeats=None, depths=None):
    """All that was trained, as bytes."""
    found = {}
    for depth in depths or [int(depth) for depth in report.depths]:
        for repeat in repeats or range(report.repeats):
            one = report.networks.networks[depth, repeat]
            found[depth, repeat] = (
                one.losses.tobytes(),
                one.test_loss,
                one.ending,
                *(one.parameters[name].tobytes() for name in sorted(one.parameters)),
            )
    return found


@pytest.mark.parametrize("kind", ["fully connected", "convolutional", "gelu"])
def test_networks_trained_together_are_those_trained_alone_bit_for_bit(kind):
    data, settings = DIGITS, dict(epochs=1, batch=33)
    if kind == "fully connected":
        network, data, settings = NETWORK, DATA, {**SETTINGS, "batch": 7, "stop": dl.Stop(loss=0.03)}
    elif kind == "convolutional":
        network = dl.convolutional(3, size=(8, 8), exponent=0.5)
        data = dl.datasets.Data.of(DIGITS.inputs[:100].reshape(-1, 1, 8, 8), DIGITS.targets[:100])
    else:
        network = dl.inner(5, "gelu", exponent=0.5)
    together = dl.train(network, [3, 6], data, repeats=10, **settings)
    fewer = dl.train(network, [6], data, repeats=2, **settings)
    first = dl.train(network, [3], data, **settings)
    assert _numbers(together, [0, 1], [6]) == _numbers(fewer)
    assert _numbers(together, [0], [3]) == _numbers(first)
    assert _numbers(together, [0], [3]) != {(3, 0): _numbers(together, [1], [3])[3, 1]}


def test_a_damaged_checkpoint_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    dl.train(NETWORK, [8], DATA, checkpoints=tmp_path, **SETTINGS)
    (file,) = tmp_path.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    assert_refused(
        lambda: dl.train(NETWORK, [8], DATA, checkpoints=tmp_path, **SETTINGS), ValueError, str(file)
    )


def test_a_store_holds_networks_of_other_depths_and_gives_the_same_bits(tmp_path):
    store = tmp_path / "runs.sqlite"
    first = dl.train(NETWORK, [8, 16], DATA, repeats=2, store=store, **SETTINGS)
    fractions = []
    more = dl.train(NETWORK, [8, 16, 24], DATA, repeats=2, store=store, progress=fractions.append, **SETTINGS)
    assert fractions[0] == pytest.approx((8 + 16) / (8 + 16 + 24))
    assert _numbers(more, depths=[8, 16]) == _numbers(first)
    assert _numbers(more) == _numbers(dl.train(NETWORK, [8, 16, 24], DATA, repeats=2, **SETTINGS))


@pytest.mark.nightly
def test_an_executor_of_processes_gives_the_same_bits():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        there = dl.train(NETWORK, [8, 16], DATA, executor=executor, **SETTINGS)
    assert _numbers(there) == _numbers(dl.train(NETWORK, [8, 16], DATA, **SETTINGS))


def test_the_trained_network_has_the_outputs_that_its_recorded_weights_give():
    report = dl.train(NETWORK, [6], DATA, repeats=2, **SETTINGS)
    network, x = report.trained(1), DATA.test_inputs
    laws = dict(zip(("A", "δ"), network.weights, strict=True))
    stacks = {name: law.stacks[6] for name, law in laws.items()}
    h = x
    for k in range(6):
        layers = (
            Layer(stacks["A"]["A"][k][None], 6, 0.0, 1.0, stacks["A"]["b"][k][None]),
            Layer(stacks["δ"]["A"][k][None], 6, 0.0, 1.0),
        )
        h = network.recursion.advance(h, layers, network.exponent)
    torch.testing.assert_close(report.outputs(x, 6, 1), h, rtol=1e-5, atol=1e-6)
    loss = float((h - DATA.test_targets).square().mean())
    assert report.test_losses[0, 1] == pytest.approx(loss, rel=1e-5)
    assert report.loss_of({}, 6, 1, test=True) == pytest.approx(loss, rel=1e-5)
    moved = {name: value * 2.0 for name, value in report.weights()[6][1].items() if name == "A"}
    assert report.loss_of(moved, 6, 1, test=True) != pytest.approx(loss, rel=1e-3)


@pytest.mark.nightly
def test_weights_feed_diagnose_compare_and_stability():
    report = dl.train(NETWORK, [8, 16, 32, 64], DATA, **{**SETTINGS, "epochs": 60})
    found = dl.diagnose(report.weights())
    assert found.alpha == pytest.approx(0.65, abs=0.25)
    assert list(dl.stability(report.trained(), [8, 16], draws=10).depths) == [8, 16]
    fitted = dl.fitted_limit({depth: stacks[0] for depth, stacks in report.weights().items()}, "tanh")
    assert fitted.compare(DATA.test_inputs[:8].double()).depths[0] == 8


def test_a_report_says_how_networks_were_trained_and_draws_one_depth_or_many(tmp_path):
    kept = {**SETTINGS, "epochs": 1}
    report = dl.train(NETWORK, [8], DATA, fixed="b", **kept)
    for setting in ("tied δ", "nonnegative δ", "fixed b", "Adam(0.01)", "batches of 32", "1 epoch"):
        assert setting in report.settings
    assert "weights" not in report.network  # those of the weight law were not used
    assert report.settings in str(report)
    (line,) = report.plot(tmp_path / "one.png").get_lines()
    assert line.get_marker() == "."  # one epoch is a point
    many = dl.train(NETWORK, [2, 4, 6], DATA, repeats=2, **SETTINGS).plot()
    labels = [text.get_text() for text in many.get_legend().get_texts()]
    assert len(many.get_lines()) == 6
    assert labels == ["L = 2", "L = 6"]
    assert all(float(tick).is_integer() for tick in many.get_xticks())


def test_a_report_is_kept_as_json_and_says_that_its_weights_are_not(tmp_path):
    report = dl.train(NETWORK, [8, 16], DATA, repeats=2, **SETTINGS)
    dl.testing.check_report(report)
    report.save(tmp_path / "r.json")
    again = dl.load_report(tmp_path / "r.json")
    assert isinstance(again, TrainingReport)
    assert again.to_dict() == report.to_dict()
    with pytest.raises(ValueError, match="weights"):
        again.weights()


def test_saved_weights_are_read_by_recorded_laws(tmp_path):
    report = dl.train(NETWORK, [8, 16, 32], DATA, repeats=2, **SETTINGS)
    files = report.save_weights(tmp_path)
    assert len(files) == 6
    law = dl.Recorded.from_files({8: files[0], 16: files[2]}, "A", "b")
    stacks = {depth: report.weights()[depth][0] for depth in (8, 16)}
    assert law == dl.Recorded({depth: {"A": one["A"], "b": one["b"]} for depth, one in stacks.items()})


def test_weights_of_two_runs_do_not_meet_in_one_folder(tmp_path):
    earlier = dl.train(NETWORK, [6, 8], DATA, **SETTINGS)
    later = dl.train(NETWORK, [8, 16], DATA, **SETTINGS)
    earlier.save_weights(tmp_path)
    earlier.save_weights(tmp_path)  # the same run may be saved again
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert_refused(
        lambda: later.save_weights(tmp_path), ValueError, "folder", "depth-6-network-0.safetensors"
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(later.save_weights(tmp_path / "new")) == 2


def test_a_users_recursion_is_trained_without_a_line_of_its_own():
    class Gated(dl.Recursion):
        name = "gated"
        formula = dl.Formula("h + L^-{exponent} h∘σ({W} h)")
        weights = (dl.Weight("W"),)

        def residual(self, h, layers, exponent):
            (w,) = layers
            return h * self.activation(w.apply(h)) * w.depth**-exponent

    report = dl.train(dl.ResidualNetwork(Gated("tanh"), 4, dl.SmoothGaussian(), 1.0), [4, 8], DATA, epochs=3)
    assert (report.histories[:, 0, -1] < report.histories[:, 0, 0]).all()


def test_a_training_run_is_a_measurement_like_any_other():
    report = dl.train(NETWORK, [8, 16], DATA, repeats=9, **SETTINGS)
    training = report.networks.training
    assert training.blocks == 4
    networks = measure(training)
    assert [(one.depth, one.repeat) for one in networks] == [(d, r) for d in (8, 16) for r in range(9)]


def test_layers_can_begin_alike_in_networks_of_all_depths_with_their_ends():
    alike = dl.FromWeightLaws(same_in_all_layers=True, same_at_all_depths=True)
    settings = dict(repeats=2, epochs=1, optimizer=dl.SGD(1e-12), ends=dl.LinearEnds(4, 4))
    for initial, equal in ((alike, True), (dl.FromWeightLaws(same_in_all_layers=True), False)):
        report = dl.train(dl.res2(5, "tanh", exponent=1.0), [3, 40], DATA, initial=initial, **settings)
        shallow, deep = (report.networks.networks[depth, 1].parameters for depth in (3, 40))
        assert np.allclose(deep["V"], deep["V"][:1], atol=1e-6)
        for name in ("V", "W", "input.weight", "output.bias"):
            assert np.allclose(shallow[name][0], deep[name][0], atol=1e-6) == equal, name
        other = report.networks.networks[3, 0].parameters
        assert not np.allclose(shallow["V"], other["V"], atol=1e-2)


def test_a_network_with_infinite_weights_has_diverged_whatever_its_loss_was():
    library = ArrayLibrary()
    weights = np.array([[[1.0], [np.inf]]], dtype=np.float32)  # one layer of two networks
    progress = checkpoint.Progress({"V": weights}, {}, [0, 1])
    for place in (0, 1):
        progress.end(place, place, Ending.EPOCHS, library)
    assert [progress.ended[repeat][1] for repeat in (0, 1)] == [Ending.EPOCHS, Ending.DIVERGED]
