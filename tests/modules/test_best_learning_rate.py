"""The best learning rate over depths: known answers, ends of the grid, and networks of both kinds."""

import functools
import json

import pytest
import torch
import transfer_models as models
from torch import nn

import deeplimit as dl
from deeplimit.modules.training_check.best_rate import SweptRates, drift_findings, rate_drift
from deeplimit.modules.training_check.runs import TrainedNetworks

FACTORS = tuple(2.0**power for power in range(-9, 13))
BY_NAME = {row.name: row for row in models.ROWS}


class Biases(nn.Module):
    """h + m * b in every layer, with m = depth ** -exponent: the output is linear in the sum of all b."""

    def __init__(self, depth, exponent):
        super().__init__()
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(8)) for _ in range(depth))
        self.multiplier = depth**-exponent

    def forward(self, x):
        for bias in self.biases:
            x = x + self.multiplier * bias
        return x


def swept(exponent, kind, steps, depths=(1, 4, 16)):
    networks = TrainedNetworks(
        functools.partial(Biases, exponent=exponent),
        lambda model, depth: kind(model.parameters(), lr=1 / 8),
        tuple((depth,) for depth in depths),
        torch.ones(3, 8),
        lambda output: output.square().sum(dim=-1).mean() / 2,
        (steps,),
        2,
        0,
    )
    losses = dl.measure(SweptRates(networks, FACTORS))
    groups = [losses[2 * place : 2 * place + 2] for place in range(len(depths))]
    return rate_drift(depths, FACTORS, groups, steps, 0.99, 0.2)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    ("exponent", "kind", "drift"),
    [
        (0.0, torch.optim.SGD, -1.0),
        (0.5, torch.optim.SGD, 0.0),
        (1.0, torch.optim.SGD, 1.0),
        (0.0, torch.optim.Adam, -1.0),
        (0.5, torch.optim.Adam, -0.5),
        (1.0, torch.optim.Adam, 0.0),
    ],
)
def test_where_the_best_rate_is_known_its_exponent_is_exact(exponent, kind, drift, steps):
    """The distance from the target is multiplied by 1 - rate m^2 L in a step of SGD, and falls by rate m L in
    one of Adam. So the best rates go like L^(2a - 1) and L^(a - 1), which fall on the grid at these depths.
    """
    found = swept(exponent, kind, steps)
    assert found.best.exponent == pytest.approx(drift, abs=1e-3)
    assert found.verdict == ("carries over" if drift == 0 else f"drifts like depth^{drift:g}")
    assert found.ends == ("", "", "")
    findings = list(drift_findings((1, 4, 16), found))
    assert [each.factor for each in findings] == ([pytest.approx(16**-drift, rel=0.01)] if drift else [])


def test_the_best_rate_of_a_quadratic_loss_is_newtons():
    """One step of SGD at rate 1 / (m^2 L) lands on the target; the parabola is in the rate's logarithm."""
    found = swept(0.0, torch.optim.SGD, 1)
    for factor, depth in zip(found.best.values, (1, 4, 16), strict=True):
        assert factor / 8 == pytest.approx(1 / depth, rel=0.2)


def test_a_best_rate_at_an_end_of_the_factors_is_said_and_is_no_number():
    falling, bowl = [3.0, 2.0, 1.0], [2.0, 1.0, 3.0]
    found = rate_drift(
        (4, 8, 16), (0.5, 1.0, 2.0), [[bowl, bowl], [bowl, falling], [falling, falling]], 4, 0.99, 0.2
    )
    assert found.ends == ("", "largest", "largest")
    assert found.verdict == "cannot tell"
    assert found.best.exponent is None
    assert list(drift_findings((4, 8, 16), found)) == []
    assert "rate_factors" in found.in_words((4, 8, 16))
    other = rate_drift((4, 8), (0.5, 1.0, 2.0), [[bowl, bowl], [falling[::-1]] * 2], 1, 0.99, 0.2)
    assert other.ends == ("", "smallest")
    assert "below 0.5 (L=8)" in other.in_words((4, 8))


def test_losses_that_diverge_are_above_all_others():
    inf = float("inf")
    found = rate_drift((4, 8), (0.5, 1.0, 2.0), [[[2.0, 1.0, inf]] * 2] * 2, 4, 0.99, 0.2)
    assert found.best.values == (1.0, 1.0)
    assert found.losses[0] == (2.0, 1.0, inf)


@functools.cache
def checked(name, depths=(4, 8, 16, 32), seeds=3):
    row = BY_NAME[name]
    return dl.check_training(
        models.factory(row),
        depths,
        optimizer=models.optimizer(row),
        batch=models.inputs(),
        expected=row.claims,
        steps=(8,),
        rate_factors=[2.0**power for power in range(1, 7)],
        seeds=seeds,
    )


@pytest.mark.nightly
def test_the_best_rate_of_the_standard_parametrisation_falls_with_depth():
    report = checked("SP, lr const")
    assert report.drift.verdict.startswith("drifts like depth^-")
    assert report.drift.best.interval[1] < -0.4
    (finding,) = (each for each in report.findings if each.about == "best learning rate")
    assert 2 < finding.factor < 8


@pytest.mark.nightly
def test_the_best_rate_of_completep_carries_over():
    report = checked("CompleteP")
    assert report.drift.verdict == "carries over", str(report)
    assert report.verdict == "as expected", str(report)
    assert not any(each.about == "best learning rate" for each in report.findings)


@pytest.mark.nightly
def test_a_report_with_rates_keeps_the_contract_and_draws_them(tmp_path):
    report = checked("CompleteP", (2, 4), 2)
    dl.testing.check_report(report)
    report.save(tmp_path / "report.json")
    loaded = dl.load_report(tmp_path / "report.json")
    assert loaded.drift == report.drift
    assert loaded.to_dict() == json.loads(json.dumps(report.to_dict()))
    report.save_html(tmp_path / "report.html")
    assert "Loss against learning rate" in (tmp_path / "report.html").read_text(encoding="utf-8")
