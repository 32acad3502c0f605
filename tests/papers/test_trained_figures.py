"""Figures of trained networks: what they check can fail, and what they share is trained once."""

import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common.global_state import seeded
from deeplimit.common.measurement import Running
from deeplimit.papers.figures import (
    trained_classifier_figures as classifiers,
    trained_convolution_figures as convolutions,
    trained_denoising_figure as denoising,
    trained_networks as networks,
    trained_scaling_figures as scaling,
)
from deeplimit.trained.datasets import Data
from deeplimit.trained.diagnosis import diagnose
from deeplimit.trained.training.run import Training

SCALING = [f"cohen-fig{number}" for number in range(1, 7)]
RUNNING = Running.checked(None, None, None, None)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("figures") / "trained.sqlite"


@pytest.fixture(scope="module")
def tanh(store):
    """Small tanh networks, which Figures 2 and 3 say all the paper says of."""
    sweep = replace(networks.TANH[0], quick=(8, 16, 32, 64, 128))
    report = sweep.train(True, 0, "cpu", replace(RUNNING, store=dl.Store(store)))
    return scaling.Trained(sweep, report, sweep.diagnose(report))


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("figure", SCALING)
def test_a_figure_of_trained_weights_passes_and_is_drawn_again_from_its_file(figure, store, tmp_path):
    done = dl.reproduce(figure, quick=True, store=store)
    assert done.passed, str(done)
    assert done.findings
    done.save(tmp_path / "f.json")
    again = dl.load_report(tmp_path / "f.json")
    assert str(again) == str(done)
    for file, report in (("a.png", done), ("b.png", again)):
        axes = report.plot(tmp_path / file)
    assert axes.get_title().startswith(f"Cohen et al. (2021), Figure {figure[-1]}: ")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert "cohen2021" in done.citation()
    assert "marion2025" not in done.citation()


def small_sweeps(monkeypatch):
    for name in ("TANH", "RELU"):
        sweeps = [
            replace(each, quick=(8, 12, 16), repeats=(2, 2), data=lambda *_: small_data())
            for each in getattr(networks, name)
        ]
        monkeypatch.setattr(scaling, name, tuple(sweeps))


def small_data():
    return dl.datasets.synthetic_system(width=10, count=64, test=16)


@pytest.mark.nightly
def test_figures_of_one_command_train_the_networks_that_they_share_once(monkeypatch, tmp_path):
    small_sweeps(monkeypatch)
    trained = []
    run = Training.run
    monkeypatch.setattr(
        Training, "run", lambda self, block, tick=None: trained.append(block) or run(self, block, tick)
    )
    arguments = ["reproduce", "cohen-fig2", "cohen-fig3", "--quick", "--quiet", "--out", str(tmp_path)]
    CliRunner().invoke(app, arguments)
    # Both data sets are the same here, so that Figures 2 and 3 need one sweep of three depths.
    assert len(trained) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"cohen-fig{number}.{suffix}" for number in (2, 3) for suffix in ("json", "png")
    ]


def failed(checks):
    return [check.stated for check in checks if not check.passed]


def changed(tanh, how):
    return {depth: [how(depth, one) for one in ones] for depth, ones in tanh.weights.items()}


def test_a_factor_of_another_power_of_depth_fails_its_check(tanh):
    wrong = changed(tanh, lambda depth, one: one | {"delta": one["delta"] * depth**0.5})
    assert not failed(scaling.factor_checks("data", tanh.weights, tanh.diagnosis))
    told = failed(scaling.factor_checks("data", wrong, diagnose(wrong)))
    assert [text.partition(":")[2][:16] for text in told] == [" δ falls like L^", " α + β = 1, whic"]


def test_a_factor_that_layers_do_not_share_fails_its_check(tanh):
    wrong = changed(tanh, lambda depth, one: one | {"delta": one["delta"].expand(depth)})
    assert failed(scaling.factor_checks("data", wrong, diagnose(wrong))) == ["data: one δ ≥ 0 for all layers"]


def test_networks_without_factors_fail_their_check(tanh):
    without = changed(tanh, lambda depth, one: {"A": one["A"]})
    assert failed(scaling.factor_checks("data", without, diagnose(without)))


def test_noise_is_caught_where_the_published_steps_are_blind_to_it(tanh):
    generator = stream()

    def shaken(depth, one):
        drawn = torch.randn(one["A"].shape, generator=generator)
        return one | {"A": one["A"] + 0.3 * depth**-0.5 * drawn}

    noisy = changed(tanh, shaken)
    told = failed(scaling.smooth_checks(replace(tanh, diagnosis=diagnose(noisy))))
    assert not failed(scaling.smooth_checks(tanh))
    assert any("noise that falls with depth" in text for text in told)
    assert not any("published steps" in text for text in told)


def test_noise_of_the_biases_alone_is_said_of_the_biases(tanh):
    generator = stream(1)

    def shaken(depth, one):
        return one | {"b": one["b"] + 0.3 * depth**-0.5 * torch.randn(one["b"].shape, generator=generator)}

    noisy = changed(tanh, shaken)
    trained = types.SimpleNamespace(weights=lambda: noisy)
    told = failed(scaling.smooth_checks(replace(tanh, report=trained).of_biases()))
    assert len(told) >= 2
    assert all(text.startswith("synthetic data, b: ") for text in told)


def test_smooth_weights_fail_what_is_said_of_rough_ones(tanh):
    told = failed(scaling.rough_checks(tanh))
    assert len(told) >= 3


def test_the_published_trend_of_noisy_weights_is_near_the_trend():
    depths, beta = (64, 128, 256, 512), 0.3
    true, noisy = {}, {}
    for depth in depths:
        times = (torch.arange(depth, dtype=torch.float64) + 0.5) / depth
        true[depth] = depth**-beta * torch.cos(times)[:, None]
        noise = torch.randn(depth, 1, generator=stream(depth), dtype=torch.float64)
        noisy[depth] = true[depth] + 0.1 * depth**-0.5 * noise
    found = networks.published_trends(noisy, beta)
    for depth in depths:
        error, before = ((each[depth] - true[depth]).norm() for each in (found, noisy))
        assert error < 0.6 * before


def test_the_trend_of_one_network_keeps_smooth_layers_and_averages_noise():
    times = torch.linspace(0, 1, 64, dtype=torch.float64)[:, None]
    smooth = torch.cat([torch.cos(times), times], dim=1)
    torch.testing.assert_close(denoising.own_trend(smooth), smooth, rtol=0, atol=0.01)
    noise = torch.randn(64, 100, generator=stream(), dtype=torch.float64)
    assert denoising.own_trend(noise).square().mean() < 0.1
    same = torch.ones(20, 3, dtype=torch.float64)
    assert torch.equal(denoising.own_trend(same), same)


def test_each_sign_has_a_trend_and_noise_moves_within_it():
    signs = torch.tensor([1.0, -1.0]).repeat(20)
    layers = signs[:, None].double() * torch.ones(40, 3)
    torch.testing.assert_close(denoising.trend_of_each_sign(layers, signs), layers)
    assert denoising.own_trend(layers).abs().max() < 0.5  # one trend for all layers loses them
    order = denoising.moved_within_signs(signs, stream())
    assert torch.equal(signs[order], signs)
    assert sorted(order.tolist()) == list(range(40))
    assert order.tolist() != list(range(40))


def test_roughness_tells_noise_from_a_smooth_function():
    assert networks.roughness(torch.randn(4000, 5, generator=stream())) == pytest.approx(1.0, abs=0.05)
    assert networks.roughness(torch.linspace(1, 2, 4000)[:, None]) < 1e-6


def test_an_affine_map_is_found_and_another_one_is_not():
    x = torch.randn(200, 4, generator=stream())
    y = x[:, :3] @ torch.diag(torch.tensor([1.0, 2.0, 3.0])) + 1
    loss, right = networks.affine_fit(Data.of(x, y, test=20))
    assert loss < 1e-10
    assert right == 1.0
    assert networks.affine_fit(Data.of(x, y**2, test=20))[0] > 0.1


def test_slopes_of_both_halves_of_the_depths_are_those_of_the_powers():
    depths = np.repeat([8, 16, 32, 64, 128], 2)
    values = np.where(depths <= 32, depths**-1.0, 1 / 32)
    assert networks.local_slopes(depths, values) == pytest.approx((-1.0, 0.0))


def test_a_map_of_accuracies_without_the_boundary_fails_its_checks():
    grid = np.linspace(0.1, 0.9, 5)
    right = np.where(grid[None, :] >= 1.2 * grid[:, None] - 0.5, 0.9, 0.1)
    assert not failed(classifiers.judged(right, grid, 100)[0])
    assert len(failed(classifiers.judged(np.full((5, 5), 0.9), grid, 100)[0])) == 2
    assert len(failed(classifiers.judged(right[::-1], grid, 100)[0])) == 3


@pytest.mark.nightly
@pytest.mark.parametrize("figure", ["marion-fig8", "marion-fig15"])
def test_weights_keep_the_regularity_with_which_they_began(figure):
    done = dl.reproduce(figure, quick=True)
    assert done.passed, str(done)
    assert done.plot().get_title().startswith(f"Marion et al. (2025), Figure {figure[10:]}: ")


@pytest.mark.nightly
def test_rough_weights_are_not_taken_for_smooth_ones(monkeypatch):
    name, exponent, _ = classifiers.STARTS[0]
    monkeypatch.setattr(classifiers, "STARTS", ((name, exponent, dl.IID("uniform")),))
    assert not dl.reproduce("marion-fig8", quick=True).passed


def test_the_residual_with_a_bias_keeps_the_contract_of_a_recursion():
    dl.testing.check_recursion(classifiers.Res1WithBias("tanh"))
    network = classifiers._network(dl.IID("uniform"), 1.0, bias=True)
    drawn = dl.FromWeightLaws().draw(network, 5, frozenset(), stream())
    assert drawn["V"].shape == (5, 30, 30)
    assert drawn["V"].std() == pytest.approx(30**-0.5, rel=0.05)
    assert torch.equal(drawn["c"], torch.zeros(5, 30, dtype=torch.float64))


@pytest.mark.nightly
def test_convolutional_figures_say_that_they_stand_in(monkeypatch, tmp_path):
    small = convolutions.Size((6, 7, 8), 1, ((convolutions.PLAIN, 0.0), (convolutions.DECAYED, 1.0)))
    monkeypatch.setattr(convolutions, "QUICK", small)
    store = tmp_path / "runs.sqlite"
    for figure in ("cohen-fig7", "cohen-fig8"):
        done = dl.reproduce(figure, quick=True, store=store)
        assert "on digits in place of CIFAR-10" in done.title
        assert any("stand" in text or "digits" in text or "alike" in text for text in done.findings)
        assert done.plot() is not None


def test_convolutions_begin_as_torch_draws_them():
    drawn = convolutions.UniformByFanIn().draw(dl.convolutional(4), 50, frozenset(), stream())
    with seeded(0):
        like = torch.nn.Conv2d(4, 40, 3)
    assert drawn["A"].abs().max() <= 1 / 6
    assert drawn["A"].std() == pytest.approx(float(like.weight.detach().std()), rel=0.1)
