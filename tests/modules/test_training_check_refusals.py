"""What a training check refuses, what it leaves as it was, and what its numbers do not depend on."""

import functools
import random

import numpy as np
import pytest
import torch
import transfer_models as models
from refusals import assert_refused
from torch import nn
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common.global_state import seeded

ROW = next(row for row in models.ROWS if row.name == "Depth-muP")
FACTORY = functools.partial(models.Stack, exponent=0.5, width=8)
DEFAULTS = {
    "factory": FACTORY,
    "depths": (2, 4),
    "optimizer": models.optimizer(ROW),
    "batch": models.inputs(8),
    "steps": (1,),
    "seeds": 2,
}


def check(**changes):
    return dl.check_training(**DEFAULTS | changes)


OTHER = nn.Linear(2, 2)
REFUSED = {
    "a module": ({"factory": OTHER}, TypeError, "factory", "Linear"),
    "no factory": ({"factory": 3}, TypeError, "factory", "3"),
    "no module made": ({"factory": lambda depth: depth}, TypeError, "factory(2)", "2"),
    "one depth for all": ({"factory": lambda depth: FACTORY(3)}, ValueError, "factory", "2, 4", "3"),
    "one depth": ({"depths": (4,)}, ValueError, "depths", "4"),
    "depths in no order": ({"depths": (4, 2)}, ValueError, "depths", "[4, 2]"),
    "no steps": ({"steps": ()}, ValueError, "steps", "[]"),
    "steps in no order": ({"steps": (4, 1)}, ValueError, "steps", "[4, 1]"),
    "zero steps": ({"steps": (0,)}, ValueError, "steps", "0"),
    "a number of steps": ({"steps": 4}, TypeError, "steps", "4"),
    "one seed": ({"seeds": 1}, ValueError, "seeds", "1"),
    "a wide tolerance": ({"tolerance": 0.5}, ValueError, "tolerance", "0.5"),
    "full confidence": ({"confidence": 1.0}, ValueError, "confidence", "1"),
    "a negative seed": ({"seed": -1}, ValueError, "seed", "-1"),
    "one width": ({"widths": (16,)}, ValueError, "widths", "[16]"),
    "widths in no order": ({"widths": (32, 16)}, ValueError, "widths", "[32, 16]"),
    "a width": ({"widths": 16}, TypeError, "widths", "16"),
    "two factors": ({"rate_factors": (0.5, 1.0)}, ValueError, "rate_factors", "[0.5, 1.0]"),
    "factors in no order": ({"rate_factors": (1, 0.5, 2)}, ValueError, "rate_factors", "0.5"),
    "a factor of zero": ({"rate_factors": (0.0, 1.0, 2.0)}, ValueError, "rate_factors", "0"),
    "a factor": ({"rate_factors": 2.0}, TypeError, "rate_factors", "2.0"),
    "letters": ({"rate_factors": "abc"}, TypeError, "rate_factors", "'abc'"),
    "an optimizer itself": (
        {"optimizer": torch.optim.SGD(OTHER.parameters(), lr=1.0)}, TypeError, "optimizer", "SGD",
    ),
    "an optimizer's class": ({"optimizer": torch.optim.SGD}, TypeError, "optimizer", "SGD"),
    "of the module alone": ({"optimizer": lambda model: None}, TypeError, "optimizer", "depth"),
    "no optimizer made": ({"optimizer": lambda model, depth: 7}, TypeError, "optimizer(model, 2)", "7"),
    "an optimizer of another module": (
        {"optimizer": lambda model, depth: torch.optim.SGD(OTHER.parameters(), lr=1.0)},
        ValueError, "optimizer(model, 2)", "2",
    ),
    "a rate of zero": (
        {"optimizer": lambda model, depth: torch.optim.SGD(model.parameters(), lr=0.0)},
        ValueError, "factory(2)", "learning rate",
    ),
    "a loss that is no function": ({"loss": 3}, TypeError, "loss", "3"),
    "a loss that is no scalar": ({"loss": lambda output: output}, TypeError, "loss", "(16, 8)"),
    "an exponent": ({"expected": 0.5}, TypeError, "expected", "0.5"),
    "a rule without learning rates": ({"expected": "gpt-2"}, ValueError, "expected", "gpt-2"),
    "no rule": ({"expected": "nothing"}, ValueError, "expected", "nothing"),
    "the rule that fits best": ({"expected": "auto"}, ValueError, "expected", "'auto'"),
    "neither rule nor name": ({"expected": [1]}, TypeError, "expected", "[1]"),
    "a store without a name": ({"store": dl.Store("a.sqlite")}, ValueError, "store", "a.sqlite"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_argument_is_refused_and_named(case):
    changes, kind, argument, *values = REFUSED[case]
    assert_refused(lambda: check(**changes), kind, argument, *values)


def test_an_error_of_the_module_comes_through_with_the_depth():
    with pytest.raises(RuntimeError) as caught:
        check(batch=models.inputs(9))
    assert any("factory(2)" in note for note in caught.value.__notes__)


def test_generators_modules_and_learning_rates_are_as_they_were():
    made = []

    def factory(depth):
        model = FACTORY(depth)
        made.append((model, {name: value.detach().clone() for name, value in model.named_parameters()}))
        return model

    def optimizer(model, depth):
        built = models.optimizer(ROW, rate=0.1)(model, depth)  # so high that it is lowered
        built.before = [group["lr"] for group in built.param_groups]
        optimizers.append(built)
        return built

    optimizers = []
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    threads, mode = torch.get_num_threads(), torch.is_grad_enabled()
    check(factory=factory, optimizer=optimizer, expected="depth-mup")
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (threads, mode)
    for model, start in made:
        assert model.training
        assert all(torch.equal(value, start[name]) for name, value in model.named_parameters())
        assert all(value.grad is None for value in model.parameters())
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert optimizers
    assert all([group["lr"] for group in each.param_groups] == each.before for each in optimizers)


def test_the_same_seed_gives_the_same_report_and_another_another():
    def numbers(**changes):
        return {
            key: value for key, value in check(**changes).to_dict().items() if key not in ("seconds", "seed")
        }

    with seeded(5):
        first = numbers(seed=3)
    with seeded(6):
        assert numbers(seed=3) == first
    assert numbers(seed=4)["branches"] != first["branches"]


def test_a_depth_is_measured_alike_whatever_depths_are_beside_it():
    few, many = check(depths=(2, 4)), check(depths=(2, 3, 4))
    assert few.branches[0].change[0].values == many.branches[0].change[0].values[::2]
    assert few.streams[0].change[0].values == many.streams[0].change[0].values[::2]


def test_a_network_that_diverges_at_depth_is_a_finding():
    class Burst(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.stack, self.depth = FACTORY(depth), depth

        def forward(self, x):
            moved = (self.stack.blocks[0].weights[0].weight.detach() - self.start).abs().max()
            return self.stack(x) + (torch.inf if self.depth > 3 and moved > 0 else 0.0)

    def factory(depth):
        model = Burst(depth)
        model.start = model.stack.blocks[0].weights[0].weight.detach().clone()
        return model

    def optimizer(model, depth):
        return models.optimizer(ROW)(model.stack, depth)

    report = check(factory=factory, optimizer=optimizer, depths=(2, 3, 4), expected="depth-mup")
    assert report.verdict == "not as expected"
    (finding,) = (each for each in report.findings if each.about == "divergence")
    assert "depth 4" in finding.message


@pytest.mark.nightly
def test_the_assertion_passes_and_fails_with_the_report():
    same = {"optimizer": models.optimizer(ROW), "batch": models.inputs()}
    factory = functools.partial(models.Stack, exponent=0.5)
    assert dl.testing.assert_depth_transfer(factory, (4, 8, 16), expected="depth-mup", **same).ok
    with pytest.raises(AssertionError, match="not as expected: multiplier") as caught:
        dl.testing.assert_depth_transfer(factory, (4, 8, 16), expected="completep", **same)
    assert "learning rate" in str(caught.value)


MODELS = """
import torch
from torch import nn
import sys
sys.path.insert(0, {helpers!r})
import transfer_models as models
ROW = next(row for row in models.ROWS if row.name == "Depth-muP")

def make(depth):
    return models.Stack(depth, 0.5)

def groups(model, depth):
    return models.optimizer(ROW)(model, depth)

def level(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)

def loss(output):
    return output.square().mean()
"""


@pytest.mark.parametrize(
    ("optimizer", "code"), [("groups", 0), pytest.param("level", 1, marks=pytest.mark.nightly)]
)
def test_the_command_checks_training_and_ends_with_the_verdicts_code(optimizer, code, tmp_path, monkeypatch):
    helpers = models.__file__.rpartition("/")[0]
    (tmp_path / f"mine_{optimizer}.py").write_text(MODELS.format(helpers=helpers), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    arguments = [
        "check-training", f"mine_{optimizer}:make", "--optimizer", f"mine_{optimizer}:{optimizer}",
        "--loss", f"mine_{optimizer}:loss", "--depths", "4,8,16", "--expected", "depth-mup",
        "--seeds", "2" if code else "5", "--steps", "1",
        "--batch", "normal:16x48", "--quiet", "--html", "report.html",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert ("set lr=0.0005" in result.output) == (code == 1)
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--optimizer"),
        (["--optimizer", "json"], "--optimizer"),
        (["--optimizer", "json:dumps", "--steps", "1;4"], "--steps"),
        (["--optimizer", "json:dumps", "--rate-factors", "1;2"], "--rate-factors"),
    ],
)
def test_the_command_refuses_what_it_cannot_read(arguments, words):
    result = CliRunner().invoke(app, ["check-training", "json:dumps", *arguments])
    assert result.exit_code == 2
    assert words in result.output
