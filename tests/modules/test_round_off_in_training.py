"""Small learning rates in single precision: round-off is told from curvature by double precision."""

import functools

import pytest
import torch
import transfer_models as models

import deeplimit as dl

ROW = next(row for row in models.ROWS if row.name == "Depth-muP, SGD lr const")
FACTORY = functools.partial(models.factory(ROW), width=12)


def bent(dtype, rate=1e-3):
    """The exponent of the distance from linear, and the distances."""
    report = dl.check_training(
        lambda depth: FACTORY(depth).to(dtype),
        (2, 4, 8),
        optimizer=lambda model, depth: torch.optim.SGD(model.parameters(), lr=rate),
        batch=models.inputs(12),
        seeds=2,
        steps=(1,),
    )
    found = report.branches[0].nonlinearity[-1]
    return found.exponent, found.values


def test_single_precision_reads_what_double_precision_reads():
    (exponent, values), (exact, right) = bent(torch.float32), bent(torch.float64)
    assert exponent == pytest.approx(exact, abs=0.05)
    assert values == pytest.approx(right, rel=0.05)


def test_the_model_comes_back_in_its_own_dtype_with_its_own_numbers():
    with torch.random.fork_rng():
        held = FACTORY(2)
    before = {name: value.clone() for name, value in held.state_dict().items()}
    dl.check_training(
        lambda depth: held if depth == 2 else FACTORY(depth),
        (2, 4),
        optimizer=lambda model, depth: torch.optim.SGD(model.parameters(), lr=1e-4),
        batch=models.inputs(12),
        seeds=2,
        steps=(1,),
    )
    after = held.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert {value.dtype for value in after.values()} == {torch.float32}
