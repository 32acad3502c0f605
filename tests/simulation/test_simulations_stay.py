"""What is simulated of small networks is what it was: states, weights, summaries, errors, pictures."""

import functools

import kept_numbers
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from pairs import TREND
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common.global_state import seeded
from tests.guard.specimens.noise import noises

same = functools.partial(kept_numbers.check, "simulations", tolerance=1e-4)
WIDTH = 3
SMOOTH = dl.SmoothGaussian(0.3)


def start(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def exploding(t, h):
    return 30.0 * h**3


def halved(t, h):
    return -0.5 * h


RUNS = {
    "res-1": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 5], paths=3),
    "three depths": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 3, 4], paths=2),
    "one depth": lambda: dl.simulate(dl.res1(WIDTH, "relu"), depths=4, paths=2, seed=3),
    "inputs": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), start(2, 5), depths=[3], paths=4),
    "starts": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh"), start(2, WIDTH), depths=[3], paths=3, dtype="float64"
    ),
    "weights": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 3], paths=2, keep_weights=True),
    "two weights": lambda: dl.simulate(
        dl.inner(WIDTH, "tanh", trend=TREND_3, noise=dl.Ito(A=0.1, b=0.1)),
        depths=[2, 3],
        paths=2,
        keep_weights=True,
    ),
    "smooth weights": lambda: dl.simulate(
        dl.res2(WIDTH, "tanh", weights=SMOOTH), depths=[2, 3], paths=2, keep_weights=True
    ),
    "one network": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh"), start(2, WIDTH), depths=[2, 4], paths=3, same_network=True
    ),
    "times": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 5], paths=3, times=[0.0, 0.3, 0.5, 1.0]),
    "summaries": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 4], paths=700, keep="summaries"),
    "many": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 4], paths=40),
    "summaries at times": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh"), depths=[4], paths=20, keep="summaries", times=[0.5, 1.0]
    ),
    "another limit": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh"), depths=[2, 4], paths=3, limit=dl.Independent(dl.res1(WIDTH, "tanh").limit())
    ),
    "pathwise": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh"), depths=[2, 3], paths=3, coupling="pathwise", reference=12
    ),
    "projected": lambda: dl.simulate(dl.res1(WIDTH, "tanh"), depths=[2, 3], paths=3, coupling="projected"),
    "rough": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh", weights=dl.FractionalBrownian(0.7)), depths=[2, 4], paths=2
    ),
    "attention": lambda: dl.simulate(dl.attention(WIDTH, tokens=2), depths=[2, 4], paths=2),
    "shaped": lambda: dl.simulate(dl.shaped_mlp(2), depths=[2, 4], paths=2),
    "convolutions": lambda: dl.simulate(dl.convolutional(2, size=(4, 3)), depths=[2], paths=2),
    "function": lambda: dl.simulate(halved, start(2, 2), steps=[2, 4], paths=2, tolerance=1e-4),
    "scheme": lambda: dl.simulate(GBM, start(2, 2), steps=[2, 4], paths=3, scheme=dl.Milstein()),
    "a limit": lambda: dl.simulate(dl.res1(WIDTH, "tanh").limit(), start(2, WIDTH), steps=[4], paths=2),
    "a limit, wider inputs": lambda: dl.simulate(
        dl.res1(WIDTH, "tanh").limit(), start(2, 5), steps=[4], paths=2
    ),
    "lost": lambda: dl.simulate(exploding, 10.0 * start(3, 2), steps=[8], paths=3, limit=dl.Identity()),
    "blocks": lambda: dl.simulate(blocks(), start(2, WIDTH)),
}
TREND_3 = dl.Trend(lambda t: torch.eye(3) * t, lambda t: torch.ones(3) * t)
GBM = dl.SDE(lambda t, h: 0.3 * h, lambda t, h, dB: 0.2 * h * dB, noise="diagonal")


def blocks():
    with seeded(0):
        made = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]
    with torch.no_grad():
        for place, block in enumerate(made):
            block.weight.copy_(start(WIDTH, WIDTH, seed=place + 1))
            block.bias.zero_()
    return torch.nn.Sequential(*made)


def picture(axes):
    lines = [np.array(line.get_xydata(), dtype=float) for line in axes.lines]
    legend = axes.get_legend()
    limits = axes.get_xlim(), axes.get_ylim(), len({str(line.get_color()) for line in axes.lines})
    pyplot.close(axes.figure)
    return lines[:4], len(lines), len(axes.collections), legend and len(legend.get_texts()), limits


def summarised(summary):
    if summary is None:
        return None
    quantiles = summary.quantile([0.0, 0.05, 0.5, 1.0])
    names = ("count", "mean", "covariance", "variance", "lost", "paths")
    found = {name: getattr(summary, name) for name in names}
    return found | {"quantiles": quantiles[:, -2:], "error": summary.standard_error(), "times": summary.times}


@pytest.mark.parametrize("name", RUNS)
def test_simulations_stay(name):
    run = RUNS[name]()
    some = {depth: states[:3] for depth, states in run.states.items()}
    found = {
        "states": some,
        "limit": None if run.limit_states is None else run.limit_states[:3],
        "times": (run.times, run.limit_times),
        "weights": run.weights,
        "lost": (run.lost, run.limit_lost, len(run.reservations)),
        "said": kept_numbers.said(str(run)),
        "table": [
            [value for value in row if isinstance(value, float)]
            for row in run.to_frame().to_numpy()[:8].tolist()
        ],
    }
    same(name, found)
    same(
        f"{name}: summaries",
        ({at: summarised(each) for at, each in run.summaries.items()}, summarised(run.limit_summary)),
    )
    if name != "lost":
        same(f"{name}: own summary", summarised(run.summary(run.depths[-1])))
        same(f"{name}: drawn", [picture(run.plot()), picture(run.plot(coordinate=1, depth=run.depths[0]))])


def compared(network, limit=None, **how):
    how = {"depths": (2, 4, 8), "paths": 20} | how
    return dl.compare(network, network.limit() if limit is None else limit, **how)


COMPARISONS = {
    "gradient": lambda: compared(dl.res1(WIDTH, "tanh"), quantity="gradient"),
    "gradient, final": lambda: compared(dl.res1(WIDTH, "softplus"), quantity="gradient", norm="final"),
    "gradient, smooth": lambda: compared(
        dl.res1(WIDTH, "tanh", weights=SMOOTH), quantity="gradient", paths=4, depths=(2, 4), tolerance=1e-3
    ),
    "gradient, trend": lambda: compared(
        dl.inner(2, "tanh", trend=TREND, alpha=0.5, beta=0.5),
        quantity="gradient",
        x=start(1, 2),
        depths=(2, 4),
    ),
    "gradient, noise": lambda: compared(
        dl.inner(WIDTH, "scaled_silu", noise=dl.Ito(A=0.05, b=0.1)), quantity="gradient"
    ),
    "volatility": lambda: compared(dl.inner(4, "scaled_gelu", noise=noises()["stochastic-volatility"])),
    "attention": lambda: compared(dl.attention(WIDTH, tokens=2)),
    "one network": lambda: compared(dl.res1(WIDTH, "tanh"), x=start(3, WIDTH), same_network=True),
    "another": lambda: compared(dl.res1(WIDTH, "tanh"), dl.Identity(), norm="sup-continuous"),
    "coloured": lambda: compared(dl.res1(WIDTH, "tanh", weights=dl.AR1(0.5))),
    "power": lambda: compared(dl.res1(WIDTH, "tanh"), p=1.0, seed=4, reference=32),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_errors_of_comparisons_stay(name):
    report = COMPARISONS[name]()
    kept_numbers.same_report("comparisons", name, report, 1e-3)
    path = report.path(1)
    found = (path.errors, path.common_errors, path.states[4], path.limit_states, kept_numbers.said(str(path)))
    kept_numbers.check("comparisons", f"path: {name}", found, 1e-3)


def test_a_path_is_drawn_with_a_line_per_depth_and_one_for_the_limit():
    path = compared(dl.res1(WIDTH, "tanh")).path(0)
    axes = path.plot(coordinate=1)
    lines = [np.array(line.get_ydata()) for line in axes.lines]
    expected = [path.states[depth][:, 1] for depth in path.depths] + [path.limit_states[:, 1]]
    assert all(np.array_equal(*each) for each in zip(lines, expected, strict=True))
    pyplot.close(axes.figure)


class Folded(dl.Statistic):
    """A statistic of a user whose fold is given."""

    name = "folded"

    def __init__(self, fold):
        self.folds = fold

    def fold(self, kept, distance, count):
        return self.folds(kept, distance, count)


@pytest.mark.parametrize(
    "fold",
    [
        lambda kept, distance, count: 0.0 * distance,
        lambda kept, distance, count: -distance,
        lambda kept, distance, count: kept + distance,
        lambda kept, distance, count: distance**2,
        lambda kept, distance, count: kept + (distance - kept) / count if count < 40 else 2.0 * kept,
    ],
    ids=["nothing", "negative", "a sum", "squares", "growing late"],
)
def test_statistics_that_do_not_fall_as_errors_do_are_refused(fold):
    assert_refused(lambda: compared(dl.res1(WIDTH, "tanh"), norm=Folded(fold)), ValueError, "norm", "Folded")
