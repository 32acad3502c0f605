"""Reports: what a person reads, what a file holds, what a plot shows; and that results do not depend on who
computed them.
"""

import dataclasses
import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import matplotlib.figure
import numpy as np
import pytest
import torch

import deeplimit as dl


@pytest.fixture(scope="module")
def report():
    return dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32, 64], paths=200, seed=1)


def same(first, second):
    """Equal in every field but the time taken."""
    mine, theirs = (dataclasses.replace(r, seconds=0.0).to_dict() for r in (first, second))
    return mine == theirs


def test_verdict_comes_first_and_every_depth_has_a_line(report):
    lines = str(report).splitlines()
    assert lines[0].startswith(report.verdict + ": ")
    assert "predicted 0.5" in lines[1]
    for depth in report.depths:
        assert sum(line.strip().startswith(f"{depth} ") for line in lines) == 1
    assert "Proposition 11" in str(report)


def test_report_is_plain_numbers_of_matching_lengths(report):
    for name in (
        "depths",
        "errors",
        "standard_errors",
        "raw_errors",
        "common_errors",
        "diverged",
        "worst",
        "kurtosis",
    ):
        value = getattr(report, name)
        assert isinstance(value, np.ndarray)
        assert value.shape == (4,)
    assert report.local_slopes.shape == (3,)
    assert (report.worst >= report.raw_errors).all()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.rate = 1.0


def test_saved_report_reads_back_as_it_was(report, tmp_path):
    report.save(tmp_path / "r.json")
    loaded = dl.load_report(tmp_path / "r.json")
    assert loaded.to_dict() == report.to_dict()
    assert str(loaded) == str(report)
    document = json.loads((tmp_path / "r.json").read_text())
    assert (document["format"], document["version"], document["kind"]) == ("deeplimit-report", 1, "compare")


def test_infinite_and_undefined_numbers_survive_the_file(tmp_path):
    x = torch.full((1, 2), 3e38)
    lost = dl.compare(dl.res1(2, "identity"), x=x, depths=[2, 4, 8], paths=30)
    assert np.isinf(lost.errors).any()
    lost.save(tmp_path / "r.json")
    assert str(dl.load_report(tmp_path / "r.json")) == str(lost)
    assert np.isnan(dl.load_report(tmp_path / "r.json").rate)
    lost.plot(tmp_path / "r.png")


def test_plot_draws_on_the_given_axes_and_never_shows(report, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("show() was called"))
    axes = matplotlib.figure.Figure().add_subplot()
    assert report.plot(axes) is axes
    labels = " ".join(text.get_text() for text in axes.get_legend().get_texts())
    assert "measured" in labels
    assert "fitted" in labels
    assert "predicted" in labels
    assert "depth" in axes.get_xlabel()
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert plt.get_fignums() == []


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_plot_writes_the_file_it_is_told_to(report, tmp_path, suffix):
    path = tmp_path / f"r{suffix}"
    report.plot(path)
    assert path.stat().st_size > 5000
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_results_do_not_depend_on_workers_or_executor():
    network = dl.res1(40, "tanh")
    arguments = {"depths": [4, 8, 16], "paths": 200, "seed": 5}
    alone = dl.compare(network, workers=1, **arguments)
    assert same(alone, dl.compare(network, workers=3, **arguments))
    with ThreadPoolExecutor(2) as pool:
        assert same(alone, dl.compare(network, executor=pool, **arguments))


def test_results_are_the_same_from_other_processes():
    network = dl.res1(6, "tanh", weights=dl.SmoothGaussian())
    arguments = {"depths": [4, 8, 16], "paths": 30, "seed": 5}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert same(dl.compare(network, **arguments), dl.compare(network, executor=pool, **arguments))


def test_seeds_make_results_and_nothing_else_does():
    network = dl.res1(3, "tanh")
    first, again, other = (dl.compare(network, depths=[4, 8, 16], paths=50, seed=seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert first.errors.tolist() != other.errors.tolist()


def test_progress_runs_from_zero_to_one():
    seen = []
    dl.compare(dl.res1(40, "tanh"), depths=[512, 1024], paths=200, progress=seen.append)
    assert len(seen) >= 4
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == pytest.approx(1.0)


def test_an_error_inside_a_block_reaches_the_caller():
    def bad(t, h):
        if float(t) > 0.5:
            raise ZeroDivisionError("the user's own")
        return h

    with pytest.raises(ZeroDivisionError, match="own"):
        dl.compare(dl.res1(2, "tanh"), bad, depths=[4, 8], paths=20)


def test_an_unsolvable_ode_says_what_to_do():
    def blow_up(t, h):
        return 1e3 * h**2 + 1.0

    with pytest.raises(RuntimeError, match=r"could not be solved to tolerance .* tolerance= may help"):
        dl.compare(dl.res1(2, "tanh"), blow_up, depths=[4, 8], paths=20)


def test_the_plots_lines_fall_at_the_fitted_and_at_the_predicted_order():
    report = dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32, 64], paths=200, seed=1)
    axes = report.plot(matplotlib.figure.Figure().add_subplot())
    lines = {line.get_label().split(":")[0].split(" ")[0]: line.get_xydata() for line in axes.get_lines()}
    for label, order in (("fitted", report.rate), ("predicted", report.predicted_rate)):
        (first, high), (last, low) = lines[label]
        assert (first, last) == (8, 64)
        assert np.log(high / low) / np.log(last / first) == pytest.approx(order)
    offsets = np.log(report.errors) - np.log(lines["fitted"][0, 1]) + report.rate * np.log(report.depths / 8)
    assert offsets.mean() == pytest.approx(
        0.0, abs=1e-12
    )  # the fitted line goes through the middle of the points
    bars = axes.containers[0].lines[2][0].get_segments()
    half = [(segment[1, 1] - segment[0, 1]) / 2 for segment in bars]
    assert half == pytest.approx((1.96 * report.standard_errors).tolist())


def test_progress_is_the_fraction_of_all_blocks_and_reaches_one_only_at_the_end():
    seen = []
    dl.compare(
        dl.res1(40, "tanh"), depths=[4, 8], paths=200, workers=1, progress=seen.append, coupling="pathwise"
    )  # 3 blocks of one chunk each
    assert seen == pytest.approx([1 / 3, 2 / 3, 1.0])
