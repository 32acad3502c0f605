"""Depth checks against known answers: exponents in closed form, sizes by a second route, and twins with a
wrong exponent.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from stacks import Res1, Transformer, tokens, vectors

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.depth_check.exponents import fit

DEPTHS = [4, 8, 16, 32]


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_exponent_of_res1_is_the_one_it_was_built_with(exponent):
    right = dl.check_depth(
        lambda depth: Res1(depth, exponent=exponent), DEPTHS, batch=vectors(), expected=exponent
    )
    assert right.ok
    (branch,) = right.branches
    low, high = branch.exponent_interval
    assert low <= exponent <= high
    assert high - low < 0.2
    wrong = dl.check_depth(
        lambda depth: Res1(depth, exponent=exponent), DEPTHS, batch=vectors(), expected=exponent + 0.5
    )
    assert wrong.verdict == "not as expected"


def test_what_an_exponent_means_follows_from_how_layers_add_up():
    def meaning(**how):
        return dl.check_depth(lambda depth: Res1(depth, **how), DEPTHS, batch=vectors()).branches[0]

    assert meaning(exponent=0.5).meaning == "neural-SDE-like"
    assert meaning(exponent=0.0, gain=0.5).meaning == "explosion"
    assert meaning(exponent=1.5).meaning == "identity"
    tied = meaning(exponent=1.0, tied=True)
    assert tied.meaning == "neural-ODE-like"
    assert tied.alignment == pytest.approx(1.0, abs=1e-6)
    assert meaning(exponent=0.5, tied=True).meaning == "explosion"
    assert "identity while layers are independent" in meaning(exponent=1.0).meaning
    assert meaning(exponent=1.0).alignment == pytest.approx(0.5, abs=0.1)


def test_sizes_are_those_of_a_loop_written_by_hand():
    with seeded(3):
        model = Res1(5, exponent=0.5)
    report = dl.probe(model, vectors())
    with torch.no_grad():
        h = start = model.entry(vectors())
        noise = torch.randn(start.shape, generator=torch.Generator().manual_seed(0))
        noise *= start.norm() / noise.norm()
        updates, streams, probed = [], [], []
        for layer in model.layers:
            update = model.scale * layer(torch.tanh(h))
            updates.append(float(update.square().mean().sqrt()))
            streams.append(float(h.square().mean().sqrt()))
            alone = model.scale * layer(torch.tanh(noise))
            probed.append(float(alone.square().mean().sqrt() / start.square().mean().sqrt()))
            h = h + update
    (branch,) = report.branches
    np.testing.assert_allclose(branch.layers, np.array(updates) / np.array(streams), rtol=1e-5)
    assert branch.sizes[0] == pytest.approx(math.sqrt(np.mean(np.square(probed))), rel=1e-5)
    assert report.streams[0].growth[0] == pytest.approx(float(h.norm() / start.norm()), rel=1e-5)


def test_gradient_growth_is_that_of_a_backward_by_hand():
    with seeded(3):
        model = Res1(6)
    report = dl.probe(model, vectors(), loss=lambda output: output.pow(3).sum())
    h = start = model.entry(vectors()).detach().requires_grad_()
    for layer in model.layers:
        h = h + model.scale * layer(torch.tanh(h))
    h.retain_grad()
    h.pow(3).sum().backward()
    assert report.streams[0].gradient_growth[0] == pytest.approx(
        float(start.grad.norm() / h.grad.norm()), rel=1e-5
    )


@given(exponent=st.floats(-1, 2), seed=st.integers(0, 2**31), scatter=st.floats(0, 0.3))
def test_the_fit_finds_a_power_law_whatever_its_constant(exponent, seed, scatter):
    generator = np.random.default_rng(seed)
    sizes = [3.7 * depth**-exponent * np.exp(scatter * generator.standard_normal(depth)) for depth in DEPTHS]
    found = fit(DEPTHS, sizes, 1 - 1e-7)
    assert found.low <= exponent <= found.high or not found.power_law
    scaled = fit(DEPTHS, [100 * group for group in sizes], 1 - 1e-7)
    assert scaled.value == pytest.approx(found.value, abs=1e-9)


@pytest.mark.parametrize("scatter", [0.02, 0.1, 0.4])
def test_intervals_cover_at_their_level(scatter):
    """At 95 %, 1000 draws: more than 90 misses has probability below 1e-7."""
    generator = np.random.default_rng(1)
    missed = 0
    for _ in range(1000):
        sizes = [depth**-0.5 * np.exp(scatter * generator.standard_normal(depth)) for depth in DEPTHS]
        found = fit(DEPTHS, sizes, 0.95)
        missed += not found.low <= 0.5 <= found.high
    assert missed <= 90
    assert scatter < 0.1 or missed >= 15  # nor are they much too wide


def test_what_is_no_power_law_is_said():
    stepped = {4: 1.0, 8: 1.0, 16: 0.1, 32: 0.1}
    report = dl.check_depth(
        lambda depth: Res1(depth, exponent=0.0, gain=stepped[depth]), DEPTHS, batch=vectors()
    )
    assert not report.branches[0].power_law


@pytest.mark.nightly
def test_a_rule_is_judged_by_constant_factors_and_an_exponent_is_not():
    def too_large(depth):
        model = Transformer(depth)
        with torch.no_grad():
            for block in model.blocks:
                block.mlp[3].weight.mul_(3.0)
        return model

    assert dl.check_depth(too_large, DEPTHS, batch=tokens(), expected=0.5).ok
    report = dl.check_depth(too_large, DEPTHS, batch=tokens(), expected="gpt-2")
    (finding,) = [finding for finding in report.findings if "mlp" in finding.branch]
    assert finding.parameter == "blocks.*.mlp.3.weight"
    assert finding.factor == pytest.approx(3.0, rel=0.05)


def test_rules_of_the_user_are_taken():
    rule = dl.Rule("ours", "this test", "1/L", 1.0)
    report = dl.check_depth(lambda depth: Res1(depth, exponent=1.0), DEPTHS, batch=vectors(), expected=rule)
    assert report.ok
    assert report.expected == "ours"
    assert not dl.check_depth(
        lambda depth: Res1(depth, exponent=0.5), DEPTHS, batch=vectors(), expected=rule
    ).ok


@pytest.mark.parametrize(
    ("process", "exponent", "alignment", "meaning"),
    [
        (dl.Brownian(), 0.5, 0.5, "neural-SDE-like"),
        (dl.FractionalBrownian(0.2), 0.5, 0.2, "neural-SDE-like"),
        (dl.FractionalBrownian(0.8), 0.8, 0.8, "between SDE and ODE"),
        (dl.SmoothGaussian(0.2), 1.0, 1.0, "neural-ODE-like"),
    ],
    ids=str,
)
def test_alignment_is_the_hurst_index_of_the_layers(process, exponent, alignment, meaning):
    """What `dl.init` sets, the check finds: exponent, Hurst index, and where the two lead together."""

    def factory(depth):
        model = Res1(depth, width=64, exponent=0.0)
        dl.init.residual_(model, process=process, batch=vectors(), seed=depth)
        return model

    (branch,) = dl.check_depth(factory, [4, 8, 16, 32, 64], batch=vectors(32)).branches
    assert branch.exponent == pytest.approx(exponent, abs=0.02)
    assert branch.alignment == pytest.approx(alignment, abs=0.06)
    assert branch.meaning == meaning
