"""Figures 1-7 and 10-14 of Marion et al. (2025), from one command each, checked against the paper.

Parameters are those of the paper's Appendix D; grids of depths, exponents and Hurst indices are those of its
published code. Two interpretations are ours. x is standard Gaussian as the paper says; the code draws it
uniform on [0, 1]. Smooth weights are values of the Gaussian process, as (A5) says; the code takes its
normalised increments. Figures 10-14 do not name σ: ours is tanh, for which the statements hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from scipy import stats

from deeplimit.common.measurement import Arrays, Measurement, Running, Tick
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import IID, Brownian, SmoothGaussian, fractional_gaussian_noise
from deeplimit.networks.residual_network import ResidualNetwork, inner, res3
from deeplimit.papers.figures import initialisation_pictures as pictures
from deeplimit.papers.figures.recipe import LEVEL, MARION, Check, Found, Numbers, Picture, Recipe
from deeplimit.signal import StabilityReport, phase_diagram, stability
from deeplimit.signal.growth_verdict import STABLE

INPUT_SIZE = 64
DEPTHS = tuple(int(depth) for depth in np.linspace(10, 1000, 10))
QUICK_DEPTHS = (10, 30, 100, 300)
REPEATS, PAPERS_DRAWS = 50, 10_000
FRACTIONAL_STEPS, LAGS = 1000, np.array([1, 2, 4, 8, 16])
FRACTIONAL = ("davies1987",)
"""What recipes with fractional paths cite."""
UNIFORM, SMOOTH = IID("uniform"), SmoothGaussian(length_scale=0.1)
WIDEST = 0.4
"""Width of a growth exponent's 99.9 % interval around 0 up to which a network is taken to be stable."""


def _inputs(count: int, seed: int) -> torch.Tensor:
    return torch.empty(count, INPUT_SIZE).normal_(generator=generator(seed, Purpose.INPUTS))


def _growth(
    network: Callable[..., ResidualNetwork],
    weights: IID | SmoothGaussian,
    stated: dict[float, str],
    of: str,
    quick: bool,
    seed: int,
    device: str,
    running: Running,
) -> Found:
    """Figures 1, 3, 4, 5, 10, 12, 13, 14: change of signal or gradient by depth, one panel per exponent."""
    panels, checks = [], []
    depths = QUICK_DEPTHS if quick else DEPTHS
    for index, (exponent, verdict) in enumerate(stated.items()):
        resnet = network(40, weights=weights, exponent=exponent)
        report: StabilityReport = stability(
            resnet,
            depths,
            _inputs(REPEATS, seed),
            draws=REPEATS,
            seed=seed,
            device=device,
            **running.share(index / len(stated), (index + 1) / len(stated), f"{exponent:g}").arguments(),
        )
        growth = report.hidden_growth if of == "hidden" else report.gradient_growth
        quantiles = report.quantiles(f"{of}_change", 0.05, 0.25, 0.5, 0.75, 0.95) / math.log(10.0)
        panels.append(
            {
                "exponent": exponent,
                "log10_quantiles": quantiles,
                "verdict": growth.verdict,
                "growth": str(growth),
            }
        )
        low, high = growth.sure
        # One stable network in thirty is not called so, at 95 %; a figure has several.
        level = verdict == STABLE and low <= 0.0 <= high and high - low <= WIDEST
        checks.append(
            Check(f"{verdict} at β = {exponent:g}", str(growth), growth.verdict == verdict or level)
        )
    return {"depths": list(depths), "of": of, "panels": panels, "repeats": REPEATS}, checks, []


def _distributions(
    network: Callable[..., ResidualNetwork],
    repeats: tuple[int, int],
    quick: bool,
    seed: int,
    device: str,
    running: Running,
) -> Found:
    """Figures 2, 11: laws of |h_L|/|h_0| and |p_0|/|p_L|, β = 1/2, L = 1000, d = 100, uniform weights."""
    draws = repeats[1 if quick else 0]
    report = stability(
        network(100, weights=UNIFORM, exponent=0.5),
        [1000],
        _inputs(draws, seed),
        draws=draws,
        seed=seed,
        device=device,
        **running.arguments(),
    )
    logs = {"hidden": report.log_hidden_ratio[0], "gradient": report.log_gradient_ratio[0]}
    numbers: Numbers = {"draws": draws, "log_normal": report.log_normal[0]}
    for name, values in logs.items():
        low, high = np.quantile(values, [0.001, 0.999])
        edges = np.linspace(low, high, 61 if draws > 2000 else 21)
        numbers[name] = {
            "quartiles": np.exp(np.quantile(values, [0.25, 0.5, 0.75])),
            "edges": np.exp(edges),
            "counts": np.histogram(values, edges)[0],
            "normality": float(stats.normaltest(values).pvalue),
            "mean_log": float(values.mean()),
            "deviation_log": float(values.std(ddof=1)),
        }
    checks = [_normal_check(name, numbers[name]["normality"]) for name in logs]
    return numbers, checks, []


def _normal_check(name: str, p: float) -> Check:
    ratio = "|h_L|/|h_0|" if name == "hidden" else "|p_0|/|p_L|"
    return Check(f"log {ratio} passes a normality test (level {LEVEL:g})", f"p = {p:.3g}", p > LEVEL)


def _figure2(quick: bool, seed: int, device: str, running: Running) -> Found:
    whole = running.share(0.0, 0.8, "drawn whole")
    numbers, checks, findings = _distributions(res3, (PAPERS_DRAWS, 200), quick, seed, device, whole)
    mean, deviation = numbers["log_normal"]
    for printed, which, quantile in ((1.21, 0, 0.25), (1.34, 2, 0.75)):
        measured = float(numbers["hidden"]["quartiles"][which])
        error, theirs = (
            _quantile_error(quantile, deviation, draws) * measured
            for draws in (numbers["draws"], PAPERS_DRAWS)
        )
        # The paper's two digits, and the sampling errors of both.
        apart = 0.005 + float(stats.norm.isf(LEVEL / 2)) * math.hypot(error, theirs)
        stated = f"{'first' if which == 0 else 'third'} quartile of |h_L|/|h_0| is {printed}"
        checks.append(Check(stated, f"{measured:.4f} ± {error:.4f}", abs(measured - printed) < apart))
    low, high = (math.exp(log) for log in (0.5 * (0.375 - math.sqrt(0.44)), 0.5 * (1 + math.sqrt(0.2))))
    quartiles = numbers["hidden"]["quartiles"]
    for bound, value, holds in (
        (f"first quartile above {low:.2f} (Proposition 4 (i))", quartiles[0], quartiles[0] > low),
        (f"third quartile below {high:.2f} (Proposition 4 (ii))", quartiles[2], quartiles[2] < high),
    ):
        checks.append(Check(bound, f"{value:.4f}", bool(holds)))
    numbers["bounds"] = [low, high]
    # Gaussian weights have the same limit law, and are drawn through their products with known vectors.
    count = 4_000 if quick else PAPERS_DRAWS
    gaussian = stability(
        res3(100, weights=Brownian(), exponent=0.5),
        [1000],
        draws=count,
        seed=seed,
        device=device,
        **running.share(0.8, 1.0, "by products").arguments(),
    )
    values = gaussian.log_hidden_ratio[0]
    p = float(stats.kstest(values, "norm", args=(mean, deviation)).pvalue)
    numbers["gaussian"] = {
        "draws": count,
        "quartiles": np.exp(np.quantile(values, [0.25, 0.5, 0.75])),
        "p": p,
    }
    numbers["gaussian"]["seconds"] = gaussian.seconds
    law = f"log |h_L|/|h_0| ~ N({mean:.4f}, {deviation:.4f}²), our closed form (KS, level {LEVEL:g})"
    checks.append(Check(law, f"p = {p:.3g} over {count} networks with Gaussian weights", p > LEVEL))
    findings.append(
        f"the law that the paper leaves open is log-normal: N(¼(1 - 2/d), 1/(2d)) = N({mean:.4f},"
        f" {deviation:.4f}²). With uniform weights the logarithm has mean {numbers['hidden']['mean_log']:.4f}"
        f" and standard deviation {numbers['hidden']['deviation_log']:.4f}. Its first quartile is"
        f" {math.exp(mean - 0.6745 * deviation):.3f}, which the paper prints as 1.21."
    )
    return numbers, checks, findings


def _quantile_error(quantile: float, deviation: float, draws: int) -> float:
    """Return the standard error of a sample quantile of a normal law."""
    return (
        deviation
        * math.sqrt(quantile * (1 - quantile) / draws)
        / float(stats.norm.pdf(stats.norm.ppf(quantile)))
    )


def _figure11(quick: bool, seed: int, device: str, running: Running) -> Found:
    numbers, checks, findings = _distributions(
        partial(inner, activation="tanh"),
        (PAPERS_DRAWS, 200),
        quick,
        seed,
        device,
        running.share(0.0, 0.9, "tanh"),
    )
    for name, ratio in (("hidden", "|h_L|/|h_0|"), ("gradient", "|p_0|/|p_L|")):
        low, _, high = (float(value) for value in numbers[name]["quartiles"])
        checks.append(
            Check(
                f"{ratio} lies between 1.0 and 1.6",
                f"quartiles {low:.3f}, {high:.3f}",
                low > 1.0 and high < 1.6,
            )
        )
    relu = stability(
        inner(40, "relu", weights=UNIFORM, exponent=0.5),
        QUICK_DEPTHS,
        draws=REPEATS,
        seed=seed,
        device=device,
        **running.share(0.9, 1.0, "relu").arguments(),
    )
    grown = float(np.median(relu.log_hidden_ratio[-1])) / math.log(10.0)
    findings.append(
        "the paper does not name σ here. It cannot be ReLU: E ReLU(W h) > 0 adds up over the layers."
        f" At β = 1/2 its signal grows to 10^{grown:.1f} at L = {QUICK_DEPTHS[-1]}, d = 40 (verdict:"
        f" {relu.hidden_growth.verdict}). It is stable at β = 1."
    )
    return numbers, checks, findings


@final
@dataclass(frozen=True)
class FractionalPaths(Measurement[Arrays, list[Arrays]]):
    """Fractional Brownian motion: one path per Hurst index, and the squared increments of all paths."""

    hurst: tuple[float, ...]
    paths: int
    seed: int

    what = "fractional paths"

    @property
    def blocks(self) -> int:
        return len(self.hurst)

    def run(self, block: int, tick: Tick | None = None) -> Arrays:
        stream = generator(self.seed, Purpose.NETWORK_WEIGHTS, index=block, device=self.device)
        noise = fractional_gaussian_noise(
            self.hurst[block], FRACTIONAL_STEPS, (self.paths,), stream, torch.float64
        )
        start = torch.zeros(1, self.paths, dtype=torch.float64, device=noise.device)
        paths = torch.cat([start, noise.cumsum(dim=0)]).cpu().numpy()
        squares = np.stack([((paths[lag:] - paths[:-lag]) ** 2).mean(axis=0) for lag in LAGS])
        if tick is not None:
            tick(1.0)
        return {"path": paths[:, 0], "squares": squares}

    def merge(self, parts: Iterator[Arrays]) -> list[Arrays]:
        return [*parts]

    def write(self, part: Arrays) -> Arrays:
        return part

    def read(self, arrays: Arrays) -> Arrays:
        return arrays


def _figure6(quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 6: paths of fractional Brownian motion, and the Hurst index measured from many of them."""
    count = 200 if quick else 2000
    drawn = running.measure(FractionalPaths((0.2, 0.5, 0.8), count, seed, device=torch.device(device)))
    panels, checks = [], []
    for hurst, one in zip((0.2, 0.5, 0.8), drawn, strict=True):
        path, squares = one["path"], one["squares"]
        # The slope of log means over all paths, and its error through each path's influence on the means.
        weights = np.log(LAGS) - np.log(LAGS).mean()
        weights /= 2 * (weights**2).sum()
        means = squares.mean(axis=1)
        measured = float(weights @ np.log(means))
        error = float((weights @ (squares / means[:, None])).std(ddof=1) / math.sqrt(count))
        found = abs(measured - hurst) < float(stats.norm.isf(LEVEL / 2)) * error
        checks.append(Check(f"Hurst index {hurst:g}", f"{measured:.4f} ± {error:.4f}", found))
        panels.append({"hurst": hurst, "path": path * FRACTIONAL_STEPS**-hurst, "measured": measured})
    return {"panels": panels, "paths": count}, checks, []


def _figure7(quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 7: the phase diagram of res-3 with fractional Brownian weights."""
    hurst = np.linspace(0.05, 0.97, 12 if quick else 51)
    exponents = np.linspace(0.0, 1.3, 27 if quick else 70)
    diagram = phase_diagram(
        res3,
        width=40,
        depth=300 if quick else 1000,
        hurst=hurst.tolist(),
        exponents=exponents.tolist(),
        draws=3 if quick else 5,
        inputs=5 if quick else 10,
        seed=seed,
        device=device,
        **running.arguments(),
    )
    stated = np.maximum(hurst, 0.5)
    above, below = exponents >= stated[:, None] + 0.15, exponents <= stated[:, None] - 0.25
    checks = []
    for name, values in (("signal", diagram.hidden), ("gradient", diagram.gradient)):
        dead, grown = float((values[above] < 0).mean()), float((values[below] > 0).mean())
        checks.append(
            Check(f"{name}: identity at β ≥ max(H, 1/2) + 0.15", f"{dead:.1%} of the cells", dead == 1.0)
        )
        checks.append(
            Check(f"{name}: explosion at β ≤ max(H, 1/2) - 0.25", f"{grown:.1%} of the cells", grown == 1.0)
        )
    apart = diagram.boundary - stated
    typical = float(np.sqrt(np.nanmean(apart**2)))
    checks.append(
        Check(
            "the signal's boundary is max(H, 1/2), to 0.06 on average",
            f"root mean square distance {typical:.3f}, mean {np.nanmean(apart):+.3f}, over"
            f" {np.isfinite(apart).sum()} indices",
            typical < 0.06,
        )
    )
    late = (hurst > 0.6) & (hurst < 0.9)
    shift = float(np.nanmean((diagram.gradient_boundary - stated)[late]))
    findings = [
        f"between H = 0.6 and 0.9 the gradient's boundary lies {-shift:.2f} below max(H, 1/2) at these"
        " depths. The mean of V ReLU(W h) over W is as correlated between layers as V. That of its"
        " transpose is along h only, a share 1/(πd) of the energy. The rest is a product of two weights,"
        " which is less correlated: its boundary is max(1/2, 2H - 1)."
    ]
    return diagram.to_dict(), checks, findings


def _recipes() -> tuple[Recipe, ...]:
    iid = {1.0: "identity", 0.25: "explosion", 0.5: "stable"}
    smooth = {2.0: "identity", 0.5: "explosion", 1.0: "stable"}
    bent = partial(inner, activation="tanh")
    panels = Picture(pictures.growth, (11.0, 4.0))
    found = []
    for number, network, weights, stated, of, title in (
        (1, res3, UNIFORM, iid, "hidden", "signal of res-3, i.i.d. weights"),
        (3, res3, UNIFORM, iid, "gradient", "gradient of res-3, i.i.d. weights"),
        (4, res3, SMOOTH, smooth, "hidden", "signal of res-3, smooth weights"),
        (5, res3, SMOOTH, smooth, "gradient", "gradient of res-3, smooth weights"),
        (10, bent, UNIFORM, iid, "hidden", "signal of h + α tanh(W h), i.i.d. weights"),
        (12, bent, UNIFORM, iid, "gradient", "gradient of h + α tanh(W h), i.i.d. weights"),
        (13, bent, SMOOTH, smooth, "hidden", "signal of h + α tanh(W h), smooth weights"),
        (14, bent, SMOOTH, smooth, "gradient", "gradient of h + α tanh(W h), smooth weights"),
    ):
        run = partial(_growth, network, weights, stated, of)
        found.append(Recipe(MARION, number, title, run, panels))
    two, eleven = (
        "laws of the ratios of norms at β = 1/2",
        "laws of the ratios of norms of h + α tanh(W h) at β = 1/2",
    )
    paths = "paths of fractional Brownian motion"
    regions = "output and gradient over Hurst index and exponent"
    histograms = Picture(pictures.distributions, (11.0, 4.2))
    return (
        *found,
        Recipe(MARION, 2, two, _figure2, histograms),
        Recipe(MARION, 6, paths, _figure6, Picture(pictures.paths, (11.0, 3.6)), FRACTIONAL),
        Recipe(MARION, 7, regions, _figure7, Picture(pictures.phases, (14.0, 5.4)), FRACTIONAL),
        Recipe(MARION, 11, eleven, _figure11, histograms),
    )


FIGURES = _recipes()
