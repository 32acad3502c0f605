"""Differences of layers by their distance, shares of trend and noise with intervals, and their panels."""

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.diagnosis.variogram import Variogram


def gram_of(name, values):
    return LayerGram.of(Stack(name, values))


def test_independent_layers_differ_by_as_much_at_every_distance():
    draws = torch.randn(256, 4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = Variogram.of(gram_of("A", draws), 1.0)
    assert found.values == pytest.approx(np.ones(len(found.lags)), abs=0.01)
    assert found.slope * (1 / 8) ** found.power < 0.01 if found.slope > 0 else np.isnan(found.power)


def test_a_brownian_path_with_noise_has_power_one_and_the_noises_share():
    generator = torch.Generator().manual_seed(1)
    noise, steps = (torch.randn(512, 4000, generator=generator, dtype=torch.float64) for _ in range(2))
    path = steps.cumsum(dim=0) / 512**0.5
    layers = path + noise / 10
    size = float(layers.square().mean())
    found = Variogram.of(gram_of("A", layers), 0.01 / size)
    assert found.power == pytest.approx(1.0, abs=0.05)
    assert found.slope == pytest.approx(0.5 / size, rel=0.1)
    assert found.fitted == pytest.approx(found.values, rel=0.1)


def test_a_line_without_noise_has_power_two():
    found = Variogram.of(gram_of("A", torch.arange(1.0, 65.0)[:, None]), 0.0)
    assert found.power == pytest.approx(2.0)
    assert found.values[0] == pytest.approx(0.5 / np.mean(np.arange(1.0, 65.0) ** 2))


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [2, pytest.param(40, marks=pytest.mark.nightly)])
def test_intervals_of_shares_hold_the_shares_of_the_law(runs):
    inside, total = 0, 2 * runs
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        trend = depth_sweeps.smooth(rng, 6)
        depths = (16, 32, 64, 128)
        report = dl.diagnose(depth_sweeps.sweep(rng, trend, 0.3, 1.0, width=6, depths=depths))
        size = np.array([norm**2 for norm in report.norms["A"]["root sum of squares"].values])
        inside += int(((report.noise_interval[2:] * size[2:, None] - 6) * [1, -1] <= 0).all(axis=1).sum())
        assert report.trend_interval == pytest.approx(1 - report.noise_interval[:, ::-1])
        assert (
            (report.noise_interval[:, 0] <= report.noise) & (report.noise <= report.noise_interval[:, 1])
        ).all()
    assert inside >= stats.binom.ppf(1e-5, total, 0.93), inside / total
    assert runs < 40 or inside < total, "intervals that always hold are too wide"


def test_the_picture_has_norms_shares_and_the_variogram():
    from matplotlib.figure import Figure

    report = dl.diagnose(depth_sweeps.seven()["Hypothesis 2, much noise"][1])
    axes = Figure(figsize=(3.3, 2.5)).add_subplot()
    report.plot(ax=axes)
    shares, variogram = axes.child_axes[2:]
    drawn = [line.get_ydata() for line in shares.lines]
    assert any(np.allclose(each, report.trend) for each in drawn if len(each) == len(report.trend))
    assert any(np.allclose(each, report.noise) for each in drawn if len(each) == len(report.noise))
    assert variogram.lines[0].get_ydata() == pytest.approx(report.finding.variogram.values)
    assert variogram.lines[1].get_ydata() == pytest.approx(report.finding.variogram.fitted)
