"""A loss of the user's, a validation set, clipped gradients, and a function called after every epoch."""

import dataclasses

import numpy as np
import pytest
import torch
from refusals import assert_refused, row
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.randomness import Purpose, generator
from deeplimit.trained.training import checkpoint
from deeplimit.trained.training.stop import Ending

NUMBERS = dl.datasets.synthetic_system(width=4, count=70, test=20)
DIGITS = dl.datasets.digits()
LABELS = dl.datasets.Data.of(DIGITS.inputs[:90], DIGITS.targets[:90], test=20, classes=10)
NETWORK = dl.res1(4, "tanh", exponent=0.5)
SETTINGS = dict(epochs=3, batch=16, repeats=2, dtype=torch.float64, optimizer=dl.SGD(0.05, momentum=0.5))


def trained(data=NUMBERS, depths=(5,), **given):
    return dl.train(NETWORK, depths, data, **(SETTINGS | given))


def numbers(report, depth=5):
    """All weights of a depth, as bytes."""
    return [
        report.networks.networks[depth, repeat].parameters[name].tobytes()
        for repeat in range(report.repeats)
        for name in sorted(report.networks.networks[depth, repeat].parameters)
    ]


def weighted(outputs, targets):
    return (1 + targets.square()) * torch.log(torch.cosh(outputs - targets))


def per_input(outputs, targets):
    return weighted(outputs, targets).mean(dim=1)


def plain(depth, repeat, loss, clip, held):
    """Train one network by autograd and torch's optimiser; return its weights and its validation losses."""
    stream = generator(0, Purpose.TRAINED_WEIGHTS, depth, repeat)
    matrices = dl.FromWeightLaws().draw(NETWORK, depth, frozenset(), stream)["V"]
    matrices = matrices.clone().requires_grad_()

    def outputs(h):
        for matrix in matrices:
            h = h + depth**-0.5 * functional.linear(torch.tanh(h), matrix)
        return h

    optimizer = torch.optim.SGD([matrices], 0.05, momentum=0.5)
    x, y, validated, norms = NUMBERS.inputs.double(), NUMBERS.targets.double(), [], []
    for epoch in range(3):
        stream = generator(0, Purpose.ORDER_OF_INPUTS, depth, repeat * 2**20 + epoch)
        for rows in torch.randperm(len(x), generator=stream).split(16):
            optimizer.zero_grad()
            loss(outputs(x[rows]), y[rows]).mean().backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_([matrices], clip)))
            optimizer.step()
        with torch.no_grad():
            validated.append(float(loss(outputs(held[0].double()), held[1].double()).mean()))
    return matrices.detach().numpy(), validated, norms


def test_a_loss_and_a_clip_give_the_trajectory_of_a_plain_loop():
    held, clip = (NUMBERS.test_inputs[:9] * 1.1, NUMBERS.test_targets[:9]), 0.15
    report = trained(loss=per_input, clip=clip, validation=held)
    unclipped = trained(loss=per_input, validation=held)  # the control that must differ
    for repeat in range(2):
        matrices, validated, norms = plain(5, repeat, weighted, clip, held)
        assert min(norms) < clip < max(norms)  # some steps are clipped, and some are not
        ours = report.networks.networks[5, repeat].parameters["V"]
        np.testing.assert_allclose(ours, matrices, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(report.validation_histories[0, repeat], validated, rtol=1e-10)
        others = unclipped.networks.networks[5, repeat].parameters["V"]
        assert np.abs(others - matrices).max() > 1e-3
    # Each network has a norm of its own: alone it is the same.
    assert numbers(trained(loss=per_input, clip=clip, repeats=1)) == numbers(report)[:1]


@pytest.mark.parametrize(
    ("data", "loss"),
    [
        (NUMBERS, functional.mse_loss),
        (NUMBERS, lambda y, t: (y - t).square().mean(dim=1)),
        (LABELS, functional.cross_entropy),
        (LABELS, torch.nn.CrossEntropyLoss(reduction="none")),
    ],
    ids=["scalar", "per input", "labels", "module"],
)
def test_a_function_that_is_a_named_loss_trains_alike(data, loss):
    own, named = trained(data, loss=loss), trained(data)
    np.testing.assert_allclose(own.histories, named.histories, rtol=1e-10)
    np.testing.assert_allclose(own.test_losses, named.test_losses, rtol=1e-10)
    assert own.loss_of({}, 5, 1, test=True) == pytest.approx(own.test_losses[0, 1], rel=1e-12)
    assert numbers(own) != numbers(trained(data, loss=lambda y, t: 0.5 * own.networks.training.loss(y, t)))


def test_validation_stands_beside_the_training_loss_and_changes_no_bit(tmp_path):
    held = DIGITS.inputs[100:140], DIGITS.targets[100:140]
    report, alone = trained(LABELS, (3, 5), validation=held), trained(LABELS, (3, 5))
    assert numbers(report) == numbers(alone)
    assert alone.validation_histories is None
    outputs = report.outputs(held[0], 5, 1)
    loss = float(functional.cross_entropy(outputs.double(), held[1]))
    assert report.validation_histories[1, 1, -1] == pytest.approx(loss, rel=1e-6)
    right = float((outputs.argmax(1) == held[1]).double().mean())
    assert report.validation_accuracies[1, 1, -1] == right
    frame = report.to_frame()
    assert frame["validation loss"][1] == pytest.approx(np.median(report.validation_histories[1, :, -1]))
    assert "validation accuracy" in frame
    assert len(report.plot(tmp_path / "a.png").get_lines()) == 2 * len(alone.plot().get_lines())
    report.save(tmp_path / "r.json")
    again = dl.load_report(tmp_path / "r.json")
    np.testing.assert_array_equal(again.validation_histories, report.validation_histories)
    assert trained(validation=(NUMBERS.inputs, NUMBERS.targets)).validation_accuracies is None


def test_a_callback_sees_every_epoch_and_changes_no_bit():
    seen = []

    def look(point):
        torch.manual_seed(1)
        torch.rand(7)
        seen.append(point)

    held = NUMBERS.test_inputs, NUMBERS.test_targets
    with torch.random.fork_rng():
        report = trained(depths=(3, 5), callback=look, validation=held)
    assert numbers(report) == numbers(trained(depths=(3, 5)))
    assert len(seen) == 2 * 2 * 3
    for point in seen:
        place = [3, 5].index(point.depth), point.repeat, point.epoch - 1
        assert point.loss == report.histories[place]
        assert point.validation_loss == report.validation_histories[place]
        assert point.validation_accuracy is None
        assert point.step == point.epoch * 5  # 70 inputs in batches of 16
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen[0].loss = 0.0


def test_true_ends_one_network_and_an_error_ends_the_call():
    chosen = np.array([5, 1, 2])  # numpy's truth counts as well
    report = trained(depths=(3, 5), callback=lambda at: (chosen == [at.depth, at.repeat, at.epoch]).all())
    assert report.endings == (("epochs", "epochs"), ("epochs", "callback"))
    assert report.epochs.tolist() == [[3, 3], [3, 2]]
    assert numbers(report)[0] == numbers(trained())[0]
    assert numbers(report)[1] == numbers(trained(epochs=2))[1]

    def raising(at):
        raise KeyError("enough")

    for workers in (1, 2):
        with pytest.raises(KeyError) as found:
            trained(depths=(3, 5), callback=raising, workers=workers)
        assert "callback" in found.value.__notes__[0]


def test_other_losses_clips_and_validation_sets_are_other_runs_in_a_store(tmp_path):
    def kept(name=None, **given):
        ticks = []
        store = dl.Store(tmp_path / "runs.db", name=name)
        trained(store=store, progress=ticks.append, **given)
        return ticks[0] == 1.0  # all of it came from the store

    held = NUMBERS.test_inputs, NUMBERS.test_targets
    other = NUMBERS.test_inputs, -NUMBERS.test_targets
    settings = [{}, dict(loss=per_input), dict(loss=weighted_twice), dict(clip=0.1), dict(clip=0.2),
                dict(loss=torch.nn.HuberLoss()), dict(loss=torch.nn.HuberLoss(delta=0.1)),
                dict(validation=held), dict(validation=other)]  # fmt: skip
    assert not any(kept(**given) for given in settings)
    assert all(kept(**given) for given in settings)
    assert kept(callback=lambda at: None)  # which is no part of what was trained
    kept("mine", clip=0.1)
    assert_refused(lambda: kept("mine", clip=0.3), ValueError, "mine", "clip")


def weighted_twice(outputs, targets):
    return 2 * per_input(outputs, targets)


def test_a_killed_run_goes_on_with_its_validation_and_not_with_another_clip(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    held = NUMBERS.test_inputs, NUMBERS.test_targets
    how = dict(validation=held, clip=0.05, loss=per_input, checkpoints=tmp_path)

    class KilledError(Exception):
        pass

    def dies(at):
        if at.epoch == 3:
            raise KilledError

    with pytest.raises(KilledError):
        trained(callback=dies, **how)
    seen = []
    report = trained(callback=seen.append, **how)
    assert [point.epoch for point in seen] == [3, 3]  # from where it was
    whole = trained(**(how | dict(checkpoints=None)))
    assert numbers(report) == numbers(whole)
    np.testing.assert_array_equal(report.validation_histories, whole.validation_histories)
    for other in (dict(clip=0.06), dict(loss=weighted_twice)):
        begun = []
        trained(callback=begun.append, **(how | other))
        assert [point.epoch for point in begun] == [1, 1, 2, 2, 3, 3]


def test_stopping_is_one_of_the_endings():
    assert Ending("callback") is Ending.CALLBACK


def flawed(make):
    return lambda: trained(loss=make)


REFUSED = [
    row("type", flawed(torch.nn.MSELoss), TypeError, "loss", "MSELoss"),
    row("one", flawed(lambda outputs: outputs.sum()), TypeError, "loss", "function"),
    row("number", flawed(lambda y, t: (y.detach() - t).sum().item()), TypeError, "loss", "tensor"),
    row("shape", flawed(lambda y, t: (y - t) ** 2), ValueError, "loss", "(4, 4)"),
    row("integers", flawed(lambda y, t: (y - t).sum().long()), ValueError, "loss", "int64"),
    row("detached", flawed(lambda y, t: (y.detach() - t).sum()), ValueError, "loss", "differentiable"),
    row("unused", flawed(lambda y, t: torch.ones(4, requires_grad=True)), ValueError, "loss", "depend"),
    row("infinite", flawed(lambda y, t: (y - t).sum() / 0), ValueError, "loss", "finite"),
    row("gradient", flawed(lambda y, t: (0 * y).sqrt().sum(dim=1)), ValueError, "loss", "gradient"),
    row("clip", lambda: trained(clip=0.0), ValueError, "clip", "0"),
    row("clip text", lambda: trained(clip="1"), TypeError, "clip", "'1'"),
    row("pair", lambda: trained(validation=NUMBERS), TypeError, "validation", "Data"),
    row(
        "shapes",
        lambda: trained(validation=(NUMBERS.inputs[:, :3], NUMBERS.targets)),
        ValueError,
        "validation inputs",
        "(3,)",
    ),
    row(
        "rows",
        lambda: trained(validation=(NUMBERS.inputs[:3], NUMBERS.targets[:4])),
        ValueError,
        "validation",
        "3",
        "4",
    ),
    row(
        "labels",
        lambda: trained(LABELS, validation=(DIGITS.inputs[:3], torch.tensor([0, 1, 11]))),
        ValueError,
        "validation targets",
        "11",
    ),
    row("callback", lambda: trained(callback=3), TypeError, "callback", "3"),
    row("answer", lambda: trained(callback=lambda at: 0.5), TypeError, "callback", "0.5"),
]


@pytest.mark.parametrize(("call", "kind", "names"), REFUSED)
def test_wrong_arguments_are_refused_by_name(call, kind, names):
    assert_refused(call, kind, *names)


def test_a_callback_is_refused_beside_an_executor_and_stops_nothing_that_is_kept(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert_refused(lambda: trained(callback=print, executor=pool), ValueError, "callback", "executor")
    for kept in (dict(store=tmp_path / "a.db"), dict(checkpoints=tmp_path / "b")):
        assert_refused(lambda kept=kept: trained(callback=lambda at: True, **kept), ValueError, "callback")
