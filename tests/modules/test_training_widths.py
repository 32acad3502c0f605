"""With widths, the coordinate check of muP gets a verdict: nothing may move more in a wider network."""

import functools
import math

import pytest
import torch
import transfer_models as models
from torch import nn

import deeplimit as dl

INPUT, CLASSES = 8, 4


class Wide(nn.Module):
    """A network of CompleteP's depth scaling; its head starts small if it follows muP.

    A head whose power is zero is multiplied by 1/width instead, and learns at the full rate.
    """

    def __init__(self, depth, width, *, head):
        super().__init__()
        self.embed = nn.Linear(INPUT, width, bias=False)
        self.blocks = nn.ModuleList(models.Block(width, 2, models.BASE / depth) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
        nn.init.normal_(self.head.weight, std=width**-head)  # zero for an infinite power
        self.multiplier = 1.0 if head else 1 / width

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) * self.multiplier


def adam(model, depth, width, *, power, rate=1e-3):
    """Hidden weights and the head at rate * (width / 32) ** -power, all else at the rate."""
    inside = [(name, each) for name, each in model.blocks.named_parameters()]
    hidden = [each for name, each in inside if ".weights." in name]
    small = [each for name, each in inside if ".weights." not in name]
    others = [*model.embed.parameters(), *model.norm.parameters()]
    eps = 1e-12 * models.BASE / depth
    lower = rate * (width / 32) ** -power
    return torch.optim.Adam(
        [
            {"params": hidden, "lr": lower, "eps": eps},
            {"params": small, "eps": eps},
            {"params": [model.head.weight], "lr": lower if model.multiplier == 1.0 else rate},
            {"params": others},
        ],
        lr=rate,
        eps=1e-12,
    )


def checked(*, head, power, widths=(32, 64, 128), **options):
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(16, CLASSES, generator=generator)
    return dl.check_training(
        functools.partial(Wide, head=head),
        (4, 8, 16),
        optimizer=functools.partial(adam, power=power),
        batch=torch.randn(16, INPUT, generator=generator),
        loss=lambda output: (output - target).square().mean(),
        expected="completep",
        widths=widths,
        steps=(4,),
        **options,
    )


def test_mup_moves_by_one_amount_at_every_width():
    report = checked(head=1.0, power=1.0)
    assert report.verdict == "as expected", str(report)
    assert all(abs(power.exponent) < 0.2 for _, power in report.width.judged), str(report)
    assert report.width.widths == (32, 64, 128)


def test_a_learning_rate_that_is_constant_in_width_is_refused():
    report = checked(head=0.5, power=0.0)
    assert report.verdict == "not as expected"
    assert {each.about for each in report.findings} == {"width"}, str(report)
    assert "blocks.*.weights" in {each.parameters[0] for each in report.findings}
    assert all(each.factor > 1.5 for each in report.findings)


@pytest.mark.nightly
@pytest.mark.parametrize("head", [math.inf, 0.0])
def test_an_output_layer_that_starts_as_mup_asks_or_at_zero_passes(head):
    """Yang et al. (2021): standard deviation 1/fan_in (Table 3), 1 with a multiplier (Table 8), or zero."""
    report = checked(head=head, power=1.0, widths=(32, 128, 512))
    assert not report.findings, str(report)
    assert all(power.agrees for _, power in report.width.judged), str(report)


@pytest.mark.nightly
def test_an_output_layer_that_starts_as_other_layers_breaks_mup_and_is_named():
    """Weights of size 1/sqrt(width) sum changes that the first steps align with them: like sqrt(width)."""
    report = checked(head=0.5, power=1.0, widths=(32, 128, 512))
    (finding,) = report.findings
    assert finding.parameters == ("output",)
    assert 0.25 < report.width.output[-1].exponent < 0.55
    dl.testing.check_report(report)
