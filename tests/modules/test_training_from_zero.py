"""Branches that start at zero: what they come to is compared with the stream, and wrong rules are refused."""

import functools

import pytest
import transfer_models as models
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.training_check.one_network import train_and_measure

DEPTHS = (4, 8, 16, 32)
BY_NAME = {row.name: row for row in models.ROWS}


def from_zero(depth, row):
    """Return a network whose branches end in weights of zero."""
    model = models.factory(row)(depth)
    for block in model.blocks:
        nn.init.zeros_(block.weights[-1].weight)
    return model


@functools.cache
def checked(name, depths=DEPTHS, steps=(1, 4)):
    row = BY_NAME[name]
    return dl.check_training(
        functools.partial(from_zero, row=row),
        depths,
        optimizer=models.optimizer(row),
        batch=models.inputs(),
        expected=row.claims,
        steps=steps,
        seeds=3,
    )


@pytest.mark.nightly
@pytest.mark.parametrize("row", models.some_of_the_rows())
def test_a_parametrisation_is_told_from_the_others_though_its_branches_start_at_zero(row):
    """Adam moves the last weight by its learning rate, SGD by that times the multiplier of the gradient. So
    the share of the stream is exact but for what finite depth bends.
    """
    report = checked(row.name)
    assert report.verdict == ("not as expected" if row.wrong else "as expected"), str(report)
    exact = {finding.about for finding in report.findings} & {"initialisation", "learning rate", "epsilon"}
    assert exact == set(row.wrong), str(report)
    (branch,), (stream,) = report.branches, report.streams
    adam = row.optimizer is not models.SGD
    share = row.rate - row.exponent if adam else row.rate - 2 * row.exponent
    slack = 0.1 if adam or row.exponent else 0.3  # without multiplier SGD's gradients change with depth
    assert branch.change[-1].exponent == pytest.approx(share, abs=slack)
    assert branch.change[-1].wanted == -1
    assert stream.change[-1].exponent == pytest.approx(1 + share, abs=slack)
    assert stream.sum[-1].exponent == pytest.approx(stream.change[-1].exponent, abs=0.05)
    assert branch.coherence[-1].exponent == pytest.approx(0.0, abs=0.05)
    if row.layers == 2 and adam:
        assert branch.nonlinearity[-1].exponent == pytest.approx(row.rate, abs=0.15)


@pytest.mark.nightly
def test_the_first_step_from_zero_is_linear():
    """The last weight alone moves: the gradients of the others are products with its zeros."""
    report = checked("CompleteP")
    assert all(value < 1e-5 for value in report.branches[0].nonlinearity[0].values)
    assert all(value > 1e-3 for value in report.branches[0].nonlinearity[1].values)


@pytest.mark.nightly
def test_a_wrong_multiplier_is_found_by_its_value_and_by_what_the_branches_come_to():
    found = {each.about: each for each in checked("SP, lr const").findings}
    assert found["initialisation"].parameters == ("multiplier of blocks.*.weights",)
    assert found["relative change"].factor == pytest.approx(8.0, rel=0.2)


def test_a_wrong_learning_rate_is_found_though_branches_start_at_zero():
    report = checked("multiplier only")
    assert [each.about for each in report.findings] == ["learning rate", "relative change", "feature change"]
    assert report.findings[1].factor == pytest.approx(8**0.5, rel=0.1)


def test_the_share_of_the_stream_is_that_of_the_networks_own_forward():
    """An independent second route: the update of the one block after a step, by hand, over its stream."""
    row, batch = BY_NAME["CompleteP"], models.inputs()
    with seeded(0):
        model = from_zero(1, row)

    def loss(output):
        return output.square().mean()

    taken = train_and_measure(model, models.optimizer(row)(model, 1), as_batch(model, batch), loss, (1,), 1.0)
    stream = model.embed(batch).detach()
    optimizer = models.optimizer(row)(model, 1)
    loss(model(batch)).backward()
    optimizer.step()
    update = (model.blocks[0](stream) - stream).detach()
    by_hand = float(update.norm() / stream.norm())
    assert taken.branches[0].changes[0] == pytest.approx(by_hand, rel=1e-4)
    assert taken.streams[0].changes[0] == pytest.approx(by_hand, rel=1e-4)
