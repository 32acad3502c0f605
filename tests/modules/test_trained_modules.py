"""`probe(trained=True)`: what the branches of a trained network do, with known answers and a second route."""

from __future__ import annotations

import math

import pytest
import torch
from stacks import Transformer, tokens
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

WIDTH, DEPTH = 32, 12


class Pushing(nn.Module):
    """h + V_l norm(h): the V_l are equal (aligned) or independent, and layer 7 is `worse` times as large."""

    def __init__(self, aligned, scale, worse=1.0):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH))
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH))
        for number, layer in enumerate(self.layers):
            if aligned and number:
                layer.weight.data.copy_(self.layers[0].weight)
            else:
                nn.init.normal_(layer.weight, std=scale / math.sqrt(WIDTH))
        self.layers[7].weight.data.mul_(worse)

    def forward(self, x):
        h = self.entry(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            h = h + layer(norm(h))
        return h


def batch():
    return torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(0))


def built(*how):
    with seeded(0):
        return Pushing(*how)


def test_a_regime_follows_from_size_and_alignment():
    def meaning(*how):
        (branch,) = dl.probe(built(*how), batch(), trained=True).branches
        return branch

    assert meaning(False, 0.3).meaning.startswith("neural-SDE-like")
    assert meaning(True, 0.05).meaning.startswith("neural-ODE-like")
    assert meaning(False, 0.002).meaning.startswith("identity")
    assert meaning(True, 3.0).meaning.startswith("turns far")
    assert meaning(True, 0.01).alignment == pytest.approx(1.0, abs=0.02)


def test_sizes_and_alignment_are_those_of_the_ordinary_forward():
    model = built(False, 0.5)
    (branch,) = dl.probe(model, batch(), trained=True).branches
    with torch.no_grad():
        h, updates, ratios = model.entry(batch()), [], []
        for norm, layer in zip(model.norms, model.layers, strict=True):
            updates.append(layer(norm(h)))
            ratios.append(float(updates[-1].norm() / h.norm()))
            h = h + updates[-1]
    assert branch.layers == pytest.approx(ratios, rel=1e-5)
    together = torch.stack(updates).sum(0).norm() / torch.stack(updates).square().sum().sqrt()
    assert branch.alignment == pytest.approx(0.5 + math.log(float(together)) / math.log(DEPTH), abs=1e-5)


def test_the_layers_with_the_largest_updates_are_named():
    report = dl.probe(built(False, 0.1, 20.0), batch(), trained=True)
    (kind, layer, ratio), *_ = report.largest_updates
    assert (kind, layer) == ("layers.*", 7)
    assert ratio == max(report.branches[0].layers)
    assert "largest updates, by layer: layers.* 7" in str(report)


def test_a_trained_network_is_held_to_no_initialisation_rule():
    with pytest.raises(ValueError, match="trained=True") as caught:
        dl.probe(built(False, 0.3), batch(), expected="gpt-2", trained=True)
    assert "'gpt-2'" in str(caught.value)
    report = dl.probe(built(False, 0.3), batch(), trained=True)
    assert report.verdict == "measured"
    assert not report.findings
    assert any("no initialisation rule is judged" in text for text in report.reservations)


def test_running_statistics_are_those_of_training():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(3)
            )
            for layer in self.layers:
                layer[0].running_var.fill_(100.0)

        def forward(self, x):
            for layer in self.layers:
                x = x + layer(x)
            return x

    with seeded(0):
        model = Normed()
    fresh, trained = (dl.probe(model, batch(), trained=flag).branches[0] for flag in (False, True))
    assert trained.layers[0] < 0.5 * fresh.layers[0]


def test_weights_that_were_trained_are_seen_and_not_judged_as_an_initialisation():
    with seeded(0):
        model = Transformer(4)
    before = dl.probe(model, tokens(), expected="gpt-2")
    assert before.verdict != "cannot tell"
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimiser.zero_grad()
        output = model(tokens())
        output.square().mean().backward()
        optimiser.step()
    report = dl.probe(model, tokens(), expected="gpt-2")
    assert report.verdict == "cannot tell"
    assert not report.ok
    assert not report.findings
    assert any("no initialisation" in text for text in report.reservations)
    report = dl.probe(model, tokens(), trained=True)
    assert report.verdict == "measured"
    assert all(kind.meaning in report.headline for kind in report.branches[:4])  # and no dash


def along(weights):
    """Return layers h + W tanh(h) with these weights."""

    class Layer(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.map = nn.Linear(WIDTH, WIDTH, bias=False)
            self.map.weight.data = weight

        def forward(self, h):
            return h + self.map(torch.tanh(h))

    with seeded(0):
        return nn.Sequential(*map(Layer, weights))


@pytest.mark.parametrize("depth", [32, 64, 128])
@pytest.mark.parametrize(
    ("drift", "turns", "noise", "meaning"),
    [
        (2.0, False, 0.7, "neural-SDE-like"),
        (0.0, False, 0.7, "neural-SDE-like"),
        (2.0, False, 0.0, "neural-ODE-like"),
        (2.0, True, 0.0, "neural-ODE-like"),
    ],
)
def test_a_drift_makes_no_sde_an_ode_and_a_turn_no_ode_an_sde(depth, drift, turns, noise, meaning):
    """Alignment is up to .77 for the first, whose noise stays at any depth, and down to .46 for the last."""
    generator = torch.Generator().manual_seed(depth)

    def drawn():
        return torch.randn(WIDTH, WIDTH, generator=generator) / math.sqrt(WIDTH)

    ends = drawn(), drawn()
    weights = []
    for layer in range(depth):
        angle = 2 * math.pi * layer / depth if turns else 0.0
        smooth = math.cos(angle) * ends[0] + math.sin(angle) * ends[1]
        weights.append(drift / depth * smooth + noise / math.sqrt(depth) * drawn())
    (branch,) = dl.probe(along(weights), batch(), trained=True).branches
    assert branch.meaning.startswith(meaning), branch.meaning
