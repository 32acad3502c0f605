"""Learning rates, epsilons and weight decays are judged exactly and by name, before any step."""

import functools
import math
from types import SimpleNamespace

import pytest
import torch
import transfer_models as models

import deeplimit as dl
from deeplimit.modules.training_check.judgement import outgrown

ROWS = {row.name: row for row in models.ROWS}
DEPTHS = (2, 4, 8)


def checked(change=None, name="Depth-muP", depths=DEPTHS, **options):
    """Check a right parametrisation, after `change(groups by name, depth)` has spoiled its optimizer."""
    row = ROWS[name]

    def optimizer(model, depth):
        rates = {
            id(each): {key: value for key, value in group.items() if key != "params"}
            for group in models.groups(model, depth, row)
            for each in group["params"]
        }
        groups = {name: {"params": [each], **rates[id(each)]} for name, each in model.named_parameters()}
        if change is not None:
            change(groups, depth)
        return row.optimizer(list(groups.values()))

    kept = {
        "factory": functools.partial(models.factory(row), width=16),
        "optimizer": optimizer,
        "batch": models.inputs(16),
        "expected": row.claims,
    }
    return dl.check_training(**kept | options, depths=depths, seeds=2, steps=(1,))


def exact(report):
    """Return the findings that are read from the optimizer: what, names, factor."""
    return [
        (each.about, each.parameters, each.factor)
        for each in report.findings
        if each.about in ("learning rate", "epsilon", "weight decay")
    ]


def set_(name, setting, value):
    """Return a change of one setting of the parameters whose names end so."""

    def change(groups, depth):
        for full, group in groups.items():
            if full.endswith(name):
                group[setting] = value(depth, group.get(setting))

    return change


def test_a_right_optimizer_has_no_finding():
    assert exact(checked()) == []
    assert exact(checked(name="CompleteP")) == []
    assert exact(checked(name="CompleteP, SGD lr L")) == []
    assert exact(checked(name="AdamW, Depth-muP")) == []


ABOUT = {"lr": "learning rate", "eps": "epsilon", "weight_decay": "weight decay"}
UP, DOWN = "blocks.*.weights.0.weight", "blocks.*.weights.1.weight"
FAULTS = {
    "one weight of every layer keeps its rate": ("weights.1.weight", "lr", lambda depth, _: 8e-4, DOWN, 2.0),
    "gains of norms keep their rate": ("norm.bias", "lr", lambda depth, _: 8e-4, "blocks.*.norm.bias", 2.0),
    "the head is scaled like a block": (
        "head.weight", "lr", lambda depth, old: old * (depth / 2) ** -0.5, "head.weight", 0.5,
    ),
    "the embedding is scaled the wrong way": (
        "embed.weight", "lr", lambda depth, old: old * (depth / 2) ** 0.5, "embed.weight", 2.0,
    ),
    "epsilon does not fall": ("weights.0.weight", "eps", lambda depth, _: 1e-10, UP, 2.0),
    "weight decay falls with the rate": (
        "weights.0.weight", "weight_decay", lambda depth, _: 0.1 * (depth / 2) ** -0.5, UP, 0.5,
    ),
    "weight decay only where deep": (
        "weights.0.weight", "weight_decay", lambda depth, _: 0.1 if depth > 4 else 0.0, UP, None,
    ),
    "one depth in the middle is off": (
        "head.weight", "lr", lambda depth, old: old * (3 if depth == 4 else 1), "head.weight", 3.0,
    ),
    "one layer only": (
        "blocks.5.weights.0.weight", "lr", lambda depth, old: 10 * old, "blocks.5.weights.0.weight", 10.0,
    ),
    "a parameter stands still": ("embed.weight", "lr", lambda depth, old: 0.0, "embed.weight", None),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_setting_is_named_with_its_factor(fault):
    name, setting, value, parameter, factor = FAULTS[fault]
    report = checked(set_(name, setting, value))
    assert report.verdict == "not as expected"
    wanted = None if factor is None else pytest.approx(factor, rel=1e-6)
    assert exact(report) == [(ABOUT[setting], (parameter,), wanted)]


OUTSIDE = ("embed.weight", "norm.weight", "norm.bias", "head.weight")


def epsilons(**by_name):
    """Return a change of the epsilons of what is outside of branches: the power of the depth, by name."""

    def change(groups, depth):
        for name in OUTSIDE:
            value = by_name.get(name.replace(".", "_"), by_name["others"])
            groups[name]["eps"] = 1e-9 * (depth / 2) ** value

    return change


@pytest.mark.parametrize("name", ["Depth-muP", "CompleteP"])
def test_the_epsilons_of_all_groups_may_be_scaled_or_those_of_blocks_alone(name):
    """CompleteP's published code scales every group's; in theory only gradients in branches shrink."""
    exponent = ROWS[name].exponent
    assert exact(checked(epsilons(others=-exponent), name=name)) == []
    assert exact(checked(epsilons(others=0.0), name=name)) == []


@pytest.mark.parametrize("name", ["Depth-muP", "CompleteP"])
def test_epsilons_that_are_scaled_in_some_groups_outside_of_blocks_are_named(name):
    exponent = ROWS[name].exponent
    ratio = (DEPTHS[-1] / DEPTHS[0]) ** exponent
    for change, odd, factor in (
        (epsilons(others=-exponent, head_weight=0.0), ("head.weight",), ratio),
        (epsilons(others=0.0, embed_weight=-exponent), ("embed.weight",), 1 / ratio),
        # As many of each: theory leaves all of these alone.
        (epsilons(others=0.0, norm_weight=-exponent, norm_bias=-exponent), OUTSIDE[1:3], 1 / ratio),
    ):
        report = checked(change, name=name)
        assert exact(report) == [("epsilon", odd, pytest.approx(factor, rel=1e-6))]
        assert report.verdict == "not as expected"
    assert "eps=1e-09" in report.findings[0].message


def test_settings_are_read_from_the_optimizer_as_given():
    row = ROWS["Depth-muP"]
    report = checked()
    by_name = {each.parameter: each for each in report.parameters}
    assert by_name["blocks.*.weights.0.weight"].rates == pytest.approx(
        [8e-4 * (depth / models.BASE) ** -0.5 for depth in DEPTHS]
    )
    assert by_name["head.weight"].rates == (8e-4,) * 3
    roles = {name: each.role for name, each in by_name.items()}
    assert roles == {
        "embed.weight": "outside", "norm.weight": "outside", "norm.bias": "outside", "head.weight": "outside",
        "blocks.*.norm.weight": "hidden bias or gain", "blocks.*.norm.bias": "hidden bias or gain",
        "blocks.*.weights.0.weight": "hidden weight", "blocks.*.weights.1.weight": "hidden weight",
    }  # fmt: skip
    assert row.claims == report.expected


@pytest.mark.parametrize(("rate", "about"), [(4e-4, []), (0.2, []), (20.0, ["divergence"])])
def test_a_saturated_learning_rate_is_lowered_and_said_so(rate, about):
    """At 20, losses rise more than tenfold in four steps: exponents are right, and the rate is not."""
    row = ROWS["Depth-muP"]
    report = dl.check_training(
        models.factory(row),
        (4, 8, 16),
        optimizer=models.optimizer(row, rate),
        batch=models.inputs(),
        expected="depth-mup",
        steps=(4,),
    )
    assert report.verdict == ("not as expected" if about else "as expected"), str(report)
    assert [finding.about for finding in report.findings] == about
    assert report.branches[0].change[-1].values[0] < 0.13
    told = [text for text in report.reservations if "learning rates" in text]
    assert (report.factor < 1) == bool(told) == (rate > 4e-4)
    assert report.factor * rate < 2e-3
    by_name = {each.parameter: each for each in report.parameters}
    assert by_name["head.weight"].rates[0] == rate  # settings are those that were given


def test_an_optimizer_without_a_known_rule_is_measured_and_not_passed():
    class Signs(torch.optim.SGD):
        """A class that no rule is stated for."""

    def optimizer(model, depth):
        groups = models.groups(model, depth, ROWS["Depth-muP"])
        return Signs([{key: value for key, value in group.items() if key != "eps"} for group in groups])

    report = checked(depths=(2, 4), optimizer=optimizer)
    assert report.verdict in ("cannot tell", "not as expected")
    assert any("Signs" in text for text in report.reservations)
    assert exact(report) == []


def test_frozen_parameters_stay_and_are_no_finding():
    seen, stayed = [], []

    def factory(depth):
        model = models.factory(ROWS["Depth-muP"])(depth, width=16)
        model.embed.weight.requires_grad_(False)
        seen.append((model.embed.weight, model.embed.weight.detach().clone()))
        return model

    def loss(output):
        stayed.append(torch.equal(*seen[-1]))
        return output.square().mean()

    optimizer = models.optimizer(ROWS["Depth-muP"])
    assert exact(checked(depths=(2, 4), factory=factory, optimizer=optimizer, loss=loss)) == []
    assert not any(weight.requires_grad for weight, _ in seen)
    assert all(stayed)


def in_two(model, depth):
    """Matrices to one optimizer and the rest to another, as Muon asks for."""
    groups = models.groups(model, depth, ROWS["Depth-muP"])
    every = [({**group, "params": [each]}, each.dim() > 1) for group in groups for each in group["params"]]
    return [
        torch.optim.AdamW([group for group, matrix in every if matrix == first]) for first in (True, False)
    ]


def test_a_list_of_optimizers_is_judged_like_one_with_all_their_groups():
    both = dl.check_training(**_of("Depth-muP"), optimizer=in_two, depths=DEPTHS, seeds=2, steps=(1,))
    assert both.optimizer == "AdamW"
    assert exact(both) == []
    spoiled = dl.check_training(
        **_of("Depth-muP"),
        optimizer=lambda model, depth: in_two(model, 1),
        depths=DEPTHS,
        seeds=2,
        steps=(1,),
    )
    assert "learning rate" in {what for what, *_ in exact(spoiled)}


def test_optimizers_that_are_none_or_share_parameters_are_refused():
    for wrong, kind in (
        (lambda model, depth: [3], TypeError),
        (lambda model, depth: [], TypeError),
        (lambda model, depth: [torch.optim.SGD(model.parameters(), lr=0.1)] * 2, ValueError),
    ):
        with pytest.raises(kind, match="optimizer"):
            dl.check_training(**_of("Depth-muP"), optimizer=wrong, depths=DEPTHS, seeds=2, steps=(1,))


def test_muon_beside_adamw_is_measured_under_both_names():
    def muon(model, depth):
        inside = [each for name, each in model.named_parameters() if each.dim() == 2 and "block" in name]
        held = {id(each) for each in inside}
        others = [each for each in model.parameters() if id(each) not in held]
        return [torch.optim.Muon(inside, lr=0.01), torch.optim.AdamW(others, lr=1e-3)]

    report = dl.check_training(
        **_of("CompleteP") | {"expected": None}, optimizer=muon, depths=(2, 4), seeds=2, steps=(1,)
    )
    assert (report.verdict, report.optimizer) == ("measured", "Muon + AdamW")


def _of(name):
    row = ROWS[name]
    return {
        "factory": functools.partial(models.factory(row), width=16),
        "batch": models.inputs(16),
        "expected": row.claims,
    }


@pytest.mark.parametrize(
    ("losses", "runs_away"),
    [
        ((2.2, 1.0, 0.4), False),
        ((2.2, 4.0, 1.0), False),
        ((2.2, 5e9, 1.5e33), True),
        ((2.2, 30.0, 1.0), True),
        ((2.2, 1.0, math.nan), True),
        ((-5.0, -4.0, -6.0), False),
        ((-5.0, 50.0, 900.0), True),
        ((0.0, 1e-9), False),
    ],
)
def test_a_loss_that_rises_tenfold_at_the_given_rates_has_run_away(losses, runs_away):
    found = outgrown(4, SimpleNamespace(losses=losses), (len(losses) - 1,))
    assert [each.about for each in found] == ["divergence"] * runs_away
