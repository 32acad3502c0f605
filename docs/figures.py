"""Draw the pictures of the documentation anew: python docs/figures.py (about two minutes on 2 cores)."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import deeplimit as dl
from deeplimit.common import axes as drawing
from deeplimit.driving import layers_in_law
from deeplimit.judge.in_law.simulation import last_states
from deeplimit.papers.cases import case, cases
from deeplimit.papers.cases.trends import sphere
from deeplimit.papers.figures import run_demo

IMAGES = Path(__file__).parent / "images"
DEPTHS = [16, 32, 64, 128, 256, 512]
SMALL = (5.4, 4.2)
"""Inches of pictures with more words than fit a column: 8 points are 7 pixels on a telephone."""
STACKED = (4.2, 6.6)
"""Inches of pictures with two panels, one below the other."""
CONTROL_COLOURS = ("#cc79a7", "#009e73")


def beside_controls(network, controls, path, room=None, **knobs):
    """Draw a comparison with the right limit and, over it, the errors against wrong ones."""

    def draw(axes):
        report = dl.compare(network, depths=DEPTHS, **knobs)
        report.plot(axes)
        for colour, (name, limit) in zip(CONTROL_COLOURS, controls.items(), strict=False):
            wrong = dl.compare(network, limit, depths=DEPTHS, **knobs)
            axes.plot(
                wrong.depths, wrong.errors, "s--", color=colour, ms=3, lw=1, label=f"{name}: {wrong.verdict}"
            )
        axes.legend(fontsize=6)
        above = room or (4 if len(controls) == 1 else 60)
        axes.set_ylim(top=above * axes.get_ylim()[1])  # for the legend
        return axes

    drawing.to_file(draw, path, compact=True)


def concepts(path):
    """Draw a coordinate of networks of three depths and of their limit, on the noise that they share."""
    figure = Figure((5.4, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True)
    settings = (
        ("independent layers, β = 1/2: an SDE", dl.Brownian()),
        ("smooth layers, β = 1: an ODE", dl.SmoothGaussian(0.3)),
    )
    for axes, (title, weights) in zip(panels, settings, strict=True):
        drawn = dl.compare(dl.res1(4, "tanh", weights=weights), depths=[4, 16, 128], paths=8).path(3)
        limit = {"color": "#d55e00", "lw": 3.0, "alpha": 0.6, "label": "limit"}
        axes.plot(drawn.limit_times, drawn.limit_states[:, 0], **limit)
        styles = zip(drawn.states.items(), ("o-", ".-", "-"), ("#56b4e9", "#0072b2", "black"), strict=True)
        for (depth, states), style, colour in styles:
            axes.plot(
                drawn.times[depth], states[:, 0], style, color=colour, lw=1.0, ms=3, label=f"L = {depth}"
            )
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_xlabel("time k/L", fontsize=9)
    panels[0].set_ylabel("a coordinate of the state", fontsize=9)
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=220)


def plane(path):
    """Draw which regime each pair of exponents is in, for weights with a trend and noise."""
    trend, noise = dl.Trend(lambda t: torch.eye(2)), dl.Ito(A=0.1)

    def regime(alpha, beta):
        return dl.inner(
            2, "scaled_silu", trend=trend, noise=noise, alpha=float(alpha), beta=float(beta)
        ).regime()

    def draw(axes):
        grid = np.linspace(0.0, 2.0, 201)
        orders = np.full((len(grid), len(grid)), np.nan)
        for j, beta in enumerate(grid):
            for i, alpha in enumerate(grid):
                found = regime(alpha, beta)
                if found.name == "identity":
                    orders[j, i] = found.rate
        image = axes.pcolormesh(grid, grid, orders, cmap="Blues", vmin=0.0, vmax=2.0, shading="nearest")
        axes.figure.colorbar(image, ax=axes, label="order of convergence to the identity")
        line = np.linspace(0.0, 1.0, 101)[1:-1]
        axes.plot(line, 1 - line, color="#d55e00", lw=4, label="linear ODE (Theorems 4.3, 4.4)")
        axes.plot([0, 0], [1, 2], color="#009e73", lw=6, label="SDE with ½σ''(0)Q (Theorem 4.4)")
        axes.plot([1], [0], "D", color="#cc79a7", ms=10, label="neural ODE")
        axes.text(0.3, 0.3, "explosion", ha="center", fontsize=10)
        axes.text(1.3, 1.2, "identity", ha="center", fontsize=10, color="white")
        axes.set(
            xlabel="α: the branch is multiplied by L^-α",
            ylabel="β: the trend is multiplied by L^-β",
            xlim=(-0.04, 2),
            ylim=(-0.06, 2),
        )
        axes.set_title("h + L^-α σ(A h + b), A = L^-β Ā + ΔW, σ''(0) ≠ 0", fontsize=10)
        axes.legend(fontsize=8, loc="upper right")
        return axes

    drawing.to_file(draw, path, SMALL)


def prenorm(path):
    """Draw how two inputs' correlation rises with depth, by the clock and in ReLU networks of width 4096."""

    def correlation(depth, exponent, width=4096):
        stream, recursion = torch.Generator().manual_seed(depth), dl.PreNorm("relu")
        h = torch.randn(2, width, generator=stream, dtype=torch.float64)
        h[1] = 0.2 * h[0] + 0.96**0.5 * h[1]
        for _ in range(depth):
            g = recursion.operand(h)
            root = torch.linalg.cholesky(g @ g.T / width)
            h = h + depth**-exponent * root @ torch.randn(2, width, generator=stream, dtype=torch.float64)
        return torch.nn.functional.cosine_similarity(h[0], h[1], dim=0).item()

    def draw(axes):
        clock, depths = dl.CorrelationClock("relu"), [2**k for k in range(2, 14)]
        for colour, exponent, name in ((drawing.FITTED, 0.0, "0"), (drawing.MEASURED, 0.5, "1/2")):
            curve = [clock.at_depth(0.2, depth, exponent) for depth in depths]
            axes.plot(depths, curve, color=colour, label=f"exponent {name}: clock")
            points = [correlation(depth, exponent) for depth in depths[:9]]
            axes.plot(depths[:9], points, "o", color=colour, ms=4, label="network of width 4096")
        axes.set_xscale("log", base=2)
        axes.set_ylim(0.0, 1.0)
        axes.set_xlabel("depth L")
        axes.set_ylabel("correlation of two inputs")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6, loc="center right")
        return axes

    drawing.to_file(draw, path, compact=True)


def shaped(path):
    """Draw the correlation of two inputs at the end of shaped networks, beside the covariance SDE's."""
    start = torch.linalg.cholesky(0.7 * torch.eye(2, dtype=torch.float64) + 0.3)

    def correlations(h):
        covariance = h @ h.mT
        sizes = covariance.diagonal(dim1=1, dim2=2).prod(1).sqrt()
        return (covariance[:, 0, 1] / sizes).clamp(-1.0, 1.0).numpy()

    def of_limit(time, difference, draws=40_000):
        limit, stream = dl.CovarianceSDE(2, time, difference), torch.Generator().manual_seed(1)
        return correlations(limit.draw_end(start.expand(draws, 2, 2), stream, 256))

    def of_network(time, slopes, units, draws=8000):
        network = dl.shaped_mlp(2, depth_to_width=time, slopes=slopes)
        h0, stream = start.expand(draws, 2, 2), torch.Generator().manual_seed(2)
        return correlations(last_states(network, round(time * units), h0, stream))

    figure = Figure(STACKED, layout="constrained")
    spread, means = figure.subplots(2, 1)
    bins = np.linspace(-1.0, 1.0, 41)
    for values, style in (
        (of_limit(1.0, 4.0), {"color": "#0072b2", "lw": 2.0, "label": "limit"}),
        (of_network(1.0, (2.0, -2.0), 25), {"color": "#d55e00", "ls": ":", "label": "25 units"}),
        (of_network(1.0, (2.0, -2.0), 100), {"color": "#d55e00", "label": "100 units"}),
        (of_limit(1.0, 0.0), {"color": "black", "ls": "--", "lw": 1.0, "label": "linear limit"}),
    ):
        spread.hist(values, bins, density=True, histtype="step", **style)
    spread.set(
        xlabel="correlation at the end",
        ylabel="density",
        title="c = (2, -2), T = 1",
        yscale="log",
        ylim=(0.02, 20),
    )
    spread.legend(fontsize=8, loc="upper left")
    times = [0.05, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
    for colour, slopes in (("#0072b2", (2.0, -2.0)), ("#009e73", (0.0, -1.0)), ("black", (0.0, 0.0))):
        line = [0.3, *(of_limit(time, slopes[0] - slopes[1]).mean() for time in times)]
        name = "c = ({:g}, {:g})".format(*slopes)
        means.plot([0.0, *times], line, color=colour, label=name)
        found = [of_network(time, slopes, 100) for time in times[2::2]]
        bars = [2.6 * values.std() / len(values) ** 0.5 for values in found]
        means.errorbar(times[2::2], [values.mean() for values in found], bars, fmt="o", color=colour, ms=4)
    means.set(
        xlabel="depth over width T", ylabel="mean correlation", title="limits and 100 units", ylim=(0, 1)
    )
    means.legend(fontsize=8)
    figure.savefig(path, dpi=200)


def initialisers(path):
    """Draw where the initialisers, and initialisations that miss the scale, lie on the map of Hurst index and
    exponent.
    """
    hurst, exponents = np.linspace(0.001, 0.999, 25).tolist(), [0.05 * k for k in range(25)]
    found = dl.phase_diagram(
        dl.res3, width=40, depth=300, hurst=hurst, exponents=exponents, draws=3, inputs=4, seed=0
    )

    def draw(axes):
        colours = np.clip(np.nan_to_num(found.hidden.T, nan=1.0), -1.0, 1.0)
        image = axes.pcolormesh(
            hurst, exponents, colours, cmap="cividis", vmin=-1.0, vmax=1.0, shading="gouraud"
        )
        label = "mean $\\log_{10}$ of $|h_L - h_0|/|h_0|$ (clipped)"
        axes.figure.colorbar(image, ax=axes, extend="both", label=label, pad=0.03)
        axes.plot([0.0, 0.5, 1.0], [0.5, 0.5, 1.0], color="white", lw=3.5)
        axes.plot(
            [0.0, 0.5, 1.0], [0.5, 0.5, 1.0], color="black", lw=1.5, label="critical exponent, max(H, 1/2)"
        )
        good = {
            "mfc": "#009e73",
            "mec": "white",
            "ms": 13,
            "mew": 1.5,
            "ls": "none",
            "zorder": 4,
            "clip_on": False,
        }
        axes.plot([0.5], [0.5], "o", label="iid_: SDE", **good)
        axes.plot(
            [0.25, 0.75], [0.5, 0.75], "D", label="fractional_(hurst=0.25, 0.75)", **(good | {"ms": 11})
        )
        axes.plot([1.0], [1.0], "s", label="smooth_: ODE", **good)
        bad = {
            "marker": "X",
            "ms": 13,
            "mec": "white",
            "mew": 1.2,
            "ls": "none",
            "zorder": 4,
            "clip_on": False,
        }
        axes.plot([0.5], [0.0], mfc="#d55e00", label="independent, no scale (most defaults)", **bad)
        axes.plot(
            [0.5],
            [1.0],
            mfc="#cc79a7",
            label="independent, scaled twice: $L^{-1/2}$ in weights and in forward",
            **bad,
        )
        axes.plot([1.0], [0.5], mfc="#56b4e9", label="smooth, scaled as if independent", **bad)
        axes.text(0.15, 0.92, "identity", color="white", fontsize=10, weight="bold", ha="center")
        axes.text(0.15, 0.13, "explosion", color="black", fontsize=10, weight="bold", ha="center")
        axes.set(
            xlim=(0, 1), ylim=(0, 1.2), xlabel="Hurst index H of the weights across the layers (1: smooth)"
        )
        axes.set_ylabel("residual exponent β: branches are multiplied by $L^{-β}$")
        axes.set_title(
            f"Change of the signal through res-3, L = {found.depth}, d = {found.width},\nat initialisation",
            fontsize=9,
        )
        axes.legend(
            fontsize=8, markerscale=0.7, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False
        )
        return axes

    drawing.to_file(draw, path, (SMALL[0], 5.8))


def growth_of_opposite_pairs(network, depth=100, pairs=4000):
    """Return the mean growth of log(1 + ρ) of two tokens from ρ = -1 + 1e-6 on, and its standard error."""
    generator, width = torch.Generator().manual_seed(0), network.width
    start = torch.randn(pairs, 2, width, generator=generator, dtype=torch.float64)
    one = start[:, 0] / start[:, 0].norm(dim=1, keepdim=True)
    other = 1e-3 * start[:, 1] / start[:, 1].norm(dim=1, keepdim=True) - one
    h = start = torch.stack([one, other / other.norm(dim=1, keepdim=True)], dim=1)
    (law,), (shape,) = network.weights, network.weight_shapes
    for layer in layers_in_law(law, depth, shape, pairs, generator, torch.float64):
        h = network.recursion.advance(h, (layer,), network.exponent)
    grown = 2.0 * (h.sum(dim=1).norm(dim=1) / start.sum(dim=1).norm(dim=1)).log()
    return grown.mean().item(), grown.std().item() / pairs**0.5


def attention(path):
    """Draw the errors of attention beside wrong limits, and how fast opposite tokens part or meet."""
    figure = Figure(STACKED, layout="constrained")
    errors, rates = figure.subplots(2, 1)
    shown = (("Geshkovski et al.", "#0072b2", 1.0), ("Fedorov et al.", "#d55e00", 0.5))
    for statement, colour, order in shown:
        found = next(each for each in cases() if each.statement == statement)
        for limit, name, style in (
            (None, "ODE" if order == 1.0 else "SDE", "o-"),
            (found.wrong[0].limit, found.wrong[0].wrongly, "s--"),
        ):
            knobs = {} if order == 1.0 else {"reference": 8 * DEPTHS[-1]}
            report = dl.compare(found.network, limit, depths=DEPTHS, paths=1000, norm="final", **knobs)
            low, high = report.rate_interval
            label = f"{name}: order {low:.2f} to {high:.2f}" if limit is None else name
            errors.loglog(report.depths, report.errors, style, color=colour, ms=4, label=label)
            if limit is None:
                line = report.errors[0] * (report.depths / report.depths[0]) ** -order
                errors.loglog(report.depths, line, ":", color="black", lw=1)
    errors.set(xlabel="depth L", ylabel="error at time 1", title="attention: right limits and wrong ones")
    errors.set_xticks(DEPTHS, map(str, DEPTHS))
    errors.minorticks_off()
    errors.set_ylim(1e-4, 3.0)
    errors.legend(fontsize=8, loc="lower left")
    kappas = np.linspace(0.0, 3.0, 61)
    networks = [dl.attention(8, tokens=2, inverse_temperature=float(kappa)) for kappa in kappas]
    exact = [network.limit().lyapunov_exponents[1] for network in networks]
    rates.plot(kappas, exact, color="#0072b2", label="Lyapunov exponent at ρ = -1")
    means, spreads = zip(*map(growth_of_opposite_pairs, networks[::10]), strict=True)
    rates.errorbar(
        kappas[::10], means, 2.6 * np.array(spreads), fmt="o", color="#d55e00", ms=4, label="networks, 99 %"
    )
    critical = np.arctanh(np.sqrt(5 / 7))
    rates.axhline(0.0, color="black", lw=0.8)
    rates.axvline(critical, color="black", lw=0.8, ls=":", label=f"critical κ = {critical:.2f}")
    rates.set(xlabel="inverse temperature κ", ylabel="growth rate of 1 + ρ", title="opposite tokens, d = 8")
    rates.legend(fontsize=8)
    figure.savefig(path, dpi=200)


def depth_scaling(path):
    """Draw the check of the model that the page on depth scaling begins with."""
    page = (IMAGES.parent / "depth-scaling.md").read_text(encoding="utf-8")
    namespace = {}
    models = re.search(r"^```python\n(# models\.py\n.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    exec(models, namespace)  # noqa: S102 - our own page
    dl.check_depth(namespace["GPT"], expected="gpt-2").plot(path, compact=True)


def learning_rate_transfer(path):
    """Draw the check of the optimizer that the page on learning rates begins with."""
    page = (IMAGES.parent / "learning-rate-transfer.md").read_text(encoding="utf-8")
    found = {}
    exec(re.search(r"^```python\n(# models\.py\n.*?)^```", page, re.MULTILINE | re.DOTALL)[1], found)  # noqa: S102 - our own page
    report = dl.check_training(
        found["GPT"],
        [4, 8, 16],
        optimizer=found["adamw"],
        batch=found["batch"],
        loss=found["loss"],
        expected="depth-mup",
    )
    report.plot(path, compact=True)


def encoder(path):
    """Draw the check of PyTorch's encoder that the README shows."""
    page = (IMAGES.parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(
        r"^```python\n(import torch\n.*?check_depth.*?)print", page, re.MULTILINE | re.DOTALL
    )
    found = {}
    with torch.random.fork_rng():
        exec(block, found)  # noqa: S102 - our own page
    found["report"].plot(path, compact=True)


def simulated(paths, fan):
    """Draw the trajectories of the page on simulating: a few paths, and the fan of many."""
    dl.simulate(dl.res1(4, "tanh"), depths=[16, 256], paths=4).plot(paths, compact=True)
    given = {"depths": [256], "paths": 2000, "keep": "summaries"}
    dl.simulate(dl.res1(8, "tanh"), **given).plot(fan, compact=True)


def main():
    """Write every picture but those of `deeplimit reproduce --all --compact --out docs/images`."""
    linear, neural = case("[C] Thm 4.3: scaled_silu, α = 0.5, β = 0.5").pairs()
    beside_controls(linear.network, {"neural ODE": neural.limit}, IMAGES / "theorem-4-3.png", paths=400)
    bent = dl.inner(4, "scaled_gelu", noise=dl.Ito(A=0.05, b=0.25))
    limit = bent.limit()
    controls = {
        "½σ''Q dropped": dataclasses.replace(limit, curvature=0.0),
        "sign of ½σ''Q flipped": dataclasses.replace(limit, curvature=-limit.curvature),
    }
    beside_controls(bent, controls, IMAGES / "theorem-4-4.png", paths=2000, x=sphere())
    curved = dl.inner(2, "scaled_silu", noise=dl.Ito(A=0.02))
    flat = dl.zoo.with_other_quadratic(curved.limit(), dl.zoo.quadratic_without_derivative)
    knobs = {"paths": 1000, "quantity": "gradient", "room": 14}
    beside_controls(curved, {"½σ''∂Q dropped": flat}, IMAGES / "gradients.png", **knobs)
    simulated(IMAGES / "simulate.png", IMAGES / "simulate-fan.png")
    prenorm(IMAGES / "prenorm.png")
    shaped(IMAGES / "shaped.png")
    concepts(IMAGES / "concepts.png")
    researcher, practitioner = IMAGES / "researcher.png", IMAGES / "practitioner.png"
    dl.compare(dl.res1(40, "tanh")).plot(researcher, compact=True)
    smooth = dl.res1(40, "tanh", weights=dl.SmoothGaussian(length_scale=0.1))
    dl.compare(smooth, depths=DEPTHS[:4], paths=64).plot(IMAGES / "smooth.png", compact=True)
    encoder(practitioner)
    plane(IMAGES / "plane.png")
    attention(IMAGES / "attention.png")
    initialisers(IMAGES / "initialisers.png")
    depth_scaling(IMAGES / "depth-scaling.png")
    learning_rate_transfer(IMAGES / "learning-rate-transfer.png")
    dl.compare_laws(dl.res1(2, weights=dl.IID("rademacher")), depths=[2, 4, 8, 16, 32]).plot(
        IMAGES / "in-law.png", compact=True
    )
    dl.stability(dl.res3(40, weights=dl.IID("uniform"), exponent=0.25)).plot(
        IMAGES / "stability.png", compact=True
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, report in run_demo(Path(folder)).items():
            report.plot(IMAGES / f"{name}.png", compact=True)
    dl.validate(quick=True).plot(IMAGES / "scoreboard.png")


if __name__ == "__main__":
    main()
