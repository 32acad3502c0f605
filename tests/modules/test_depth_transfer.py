"""Every parametrisation of the table is told apart: wrong ones are refused, with what is missing."""

import functools

import pytest
import torch
import transfer_models as models

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.training_check.one_network import train_and_measure

DEPTHS = (4, 8, 16, 32)
BY_NAME = {row.name: row for row in models.ROWS}


@functools.cache
def checked(name, judged=True):
    row = BY_NAME[name]
    return dl.check_training(
        models.factory(row),
        DEPTHS,
        optimizer=models.optimizer(row),
        batch=models.inputs(),
        expected=row.claims if judged else None,
        steps=(4,),
        seeds=3,
    )


@pytest.mark.parametrize("row", models.some_of_the_rows())
def test_every_parametrisation_gets_its_verdict_its_missing_factor_and_its_exponents(row):
    """Verdict, what is missing, and exponents. Finite depth bends these by less than 0.17; predictions that
    differ are 1/2 apart.
    """
    report = checked(row.name)
    assert report.verdict == ("not as expected" if row.wrong else "as expected"), str(report)
    exact = {finding.about for finding in report.findings} & {
        "initialisation", "learning rate", "epsilon", "weight decay",
    }  # fmt: skip
    assert exact == set(row.wrong), str(report)
    (branch,), (stream,) = report.branches, report.streams
    assert branch.size.exponent == pytest.approx(-row.exponent, abs=0.03)
    assert branch.coherence[-1].exponent == pytest.approx(0.0, abs=0.12)
    slack = 0.3 if row.change == -1 else 0.17  # shallow networks still saturate a little
    if row.change is not None:
        assert branch.change[-1].exponent == pytest.approx(row.change, abs=slack)
    if row.features is not None:
        assert stream.change[-1].exponent == pytest.approx(
            row.features, abs=2 * slack if row.features else 0.17
        )
    if row.layers == 1:
        assert branch.nonlinearity[-1].exponent is None
    elif row.change is not None:
        assert branch.nonlinearity[-1].exponent == pytest.approx(row.change, abs=slack)


@pytest.mark.nightly
def test_distance_from_linear_tells_depth_mup_from_completep():
    lazy, learning = checked("Depth-muP"), checked("CompleteP")
    assert lazy.streams[0].change[-1].agrees
    assert learning.streams[0].change[-1].agrees
    assert lazy.branches[0].nonlinearity[-1].interval[1] < -0.25
    assert learning.branches[0].nonlinearity[-1].interval[0] > -0.25
    other = checked("CompleteP", judged=False)
    assert other.verdict == "measured"
    assert other.branches[0].nonlinearity == tuple(
        type(power)(power.values, power.exponent, power.interval)
        for power in learning.branches[0].nonlinearity
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")  # torch scripts its own forward derivatives
def test_the_linear_part_is_that_of_forward_differentiation():
    """An independent second route: the JVP of the one branch of a network, on its stream before training."""
    row = BY_NAME["Depth-muP"]
    with seeded(0):
        model = models.Stack(1, row.exponent)
    batch, block = models.inputs(), model.blocks[0]

    def loss(output):
        return output.square().mean()

    start = {name: value.detach().clone() for name, value in block.named_parameters()}
    optimizer = models.optimizer(row)(model, 1)
    taken = train_and_measure(model, optimizer, as_batch(model, batch), loss, (1,), 1.0)
    stream = model.embed(batch).detach()
    assert all(torch.equal(value, start[name]) for name, value in block.named_parameters())
    optimizer = models.optimizer(row)(model, 1)
    loss(model(batch)).backward()
    optimizer.step()
    moves = {name: value.detach() - start[name] for name, value in block.named_parameters()}

    def branch(values):
        return torch.func.functional_call(block, values, (stream,)) - stream

    _, linear = torch.func.jvp(branch, (start,), (moves,))
    change = branch({name: value + moves[name] for name, value in start.items()}) - branch(start)
    by_hand = float((change - linear).norm() / linear.norm())
    assert taken.branches[0].nonlinearity[0] == pytest.approx(by_hand, rel=0.01)
    assert taken.branches[0].changes[0] == pytest.approx(
        float(change.norm() / branch(start).norm()), rel=1e-4
    )
    assert taken.branches[0].coherence[0] == pytest.approx(1.0, rel=1e-6)
    # The embedding trains, too, but the stream begins where it began: the one branch makes all of its change.
    (stream_after,), (branch_after,) = taken.streams, taken.branches
    moved = branch_after.changes[0] * branch_after.size
    assert stream_after.changes[0] * stream_after.size == pytest.approx(moved, rel=1e-4)
