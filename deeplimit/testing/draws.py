"""Draws of a law against the facts that it states; every test is at the level `LEVEL`, with a fixed seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import torch
from scipy import stats
from torch import Tensor

from deeplimit.driving import ChannelKind, Dependence, Shape, WeightLaw, check_depths
from deeplimit.driving.law import FINITE_VARIANCE
from deeplimit.testing.contract import normal
from deeplimit.testing.walks import walk

LEVEL = 1e-6
"""Probability with which a law that keeps a fact is told that it does not, by each of the tests."""
PATHS = 4096
ROUND_OFF = 1e-6
"""Of means of numbers of size 1 in float32: the square of ±1/√L is off by 1e-7, the same for all draws."""
FINE = (64, 1024)
"""Depths between which the continuity of a function of time is measured."""
HEAVY, NEARLY = 30.0, 0.1
"""Sampled kurtosis (a normal law has 3, a t-law of three degrees of freedom hundreds) from which only a mean
square that is off by a tenth refutes a variance of 1."""
BLOCKS = 16
"""Blocks of paths whose mean squares have a median, which no single huge draw moves."""
LARGE = 0.9
"""Quantile of the sums of layers that must not grow faster than the natural exponent says; unlike the mean
square, stable laws have it."""
SLACK = 0.2
"""By how much a Hölder or natural exponent may be missed: neither is asymptotic at these depths."""


def draws(law: WeightLaw, shape: Shape, depths: tuple[int, ...], width: int) -> Iterator[str]:
    """Draws against the facts."""
    facts = law.facts.at(width)
    if facts.deterministic:
        return
    for j, depth in enumerate(depths):
        values = walk(law, shape, depths, PATHS).values(j)
        if values is None or values.shape[1] != PATHS:
            return
        x = (
            values.reshape(*values.shape[:2], -1).transpose(0, 1) * float(depth) ** law.layer_exponent
        )  # (P, L, entries)
        moments = min((channel.moments for channel in law.channels(shape)), default=math.inf)
        for problem in _of_one_depth(law, x, width, moments):
            yield f"{problem} at depth {depth}"


def refutes_unit_variance(x: Tensor, moments: float) -> bool:
    """Return whether x (P, ...) refutes a variance of 1, given that it has 2 to 4 `moments`.

    Squares then have no variance. The mean of n of them misses by about n^(2/moments - 1), as sums in the
    domain of a stable law do. NEARLY is the least that counts.
    """
    blocks = x.square().flatten(1).double().chunk(BLOCKS)
    seen = float(torch.stack([block.mean() for block in blocks]).median())
    slack = NEARLY + 2.0 * math.pow(blocks[0].numel(), 2.0 / moments - 1.0)
    return abs(seen - 1.0) > slack


def _of_one_depth(law: WeightLaw, x: Tensor, width: int, moments: float) -> Iterator[str]:
    facts = law.facts.at(width)
    if (facts.unit_variance or facts.symmetric) and _differs(x.flatten(1)):
        stated = "unit_variance" if facts.unit_variance else "symmetric"
        yield f"facts state {stated}, but draws have a mean other than 0"
    seen = float(x.square().mean())
    # Squares of heavy-tailed draws have no variance, and no test of their mean a level.
    heavy = float(x.square().square().mean()) > HEAVY * seen**2
    if FINITE_VARIANCE < moments < 4.0:
        off = refutes_unit_variance(x, moments)
    else:
        off = abs(seen - 1.0) > NEARLY if heavy else _differs(x.square().flatten(1) - 1.0)
    if facts.unit_variance and off:
        yield (
            "facts state unit_variance, but draws times depth**layer_exponent have the mean square"
            f" {seen:.3g} instead of 1"
        )
    if facts.symmetric and (_differs(x.sign().flatten(1)) or _differs(torch.tanh(x).flatten(1))):
        yield "facts state symmetric, but draws are skewed"
    if facts.gaussian and not looks_gaussian(x):
        yield "facts state gaussian, but draws, or sums of them, are not normal"
    if facts.dependence == Dependence.INDEPENDENT and _any_correlated(x.transpose(1, 2)):
        yield "facts state the dependence independent, but layers, or their sizes, are correlated"
    if facts.independent_entries is True and _any_correlated(x):
        yield "facts state independent_entries, but entries, or their sizes, are correlated"
    if facts.hurst is not None and x.shape[1] > 1:
        expected = 2.0 ** (2.0 * facts.hurst - 1.0) - 1.0
        if _differs((x[:, 1:] * x[:, :-1]).flatten(1) - expected):
            yield (
                f"facts state hurst {facts.hurst:g}, but neighbouring layers do not have the correlation"
                f" {expected:.3g}"
            )


def _differs(x: Tensor) -> bool:
    """Return whether some mean over paths of x (P, K), or the mean of all, differs from 0 beyond chance."""
    columns = torch.cat([x, x.mean(dim=1, keepdim=True)], dim=1)
    mean, spread = columns.mean(dim=0), columns.std(dim=0) / math.sqrt(len(columns))
    quantile = float(stats.norm.isf(LEVEL / 2 / columns.shape[1]))
    return bool((mean.abs() > quantile * spread + ROUND_OFF).any())


def looks_gaussian(x: Tensor) -> bool:
    """Return whether single numbers and sums over one path look normal, by skewness and kurtosis."""
    flat = x.flatten(1)
    directions = normal(flat.shape[1], 4)
    columns = torch.cat([flat[:, :1], flat[:, -1:], flat.sum(dim=1, keepdim=True), flat @ directions], dim=1)
    spread = columns.std(dim=0)
    columns = columns[:, spread > 1e-9 * spread.max()]
    return all(stats.normaltest(each).pvalue > LEVEL / columns.shape[1] for each in columns.T.numpy())


def _any_correlated(x: Tensor) -> bool:
    """Return whether, of x (P, groups, members), members or their sizes are correlated, given that the mean
    is 0.
    """
    members, sizes = x.shape[2], _bounded(x.square())
    for y in (x - x.mean(dim=0), sizes - sizes.mean(dim=0)):
        if float(y.square().mean()) < 1e-12:  # sizes are all the same, as for ±1
            continue
        pairs = [(y[:, :, i] * y[:, :, k]).mean(dim=1) for i, k in combinations(range(members), 2)]
        sums = y.sum(dim=2)
        together = (sums.square() - y.square().sum(dim=2)).mean(dim=1)
        across = y.sum(dim=1)  # sums of all groups: members of one group with those of another
        crossed = across.sum(dim=1).square() - across.square().sum(dim=1)
        if pairs and _differs(torch.stack([*pairs, together, crossed], dim=1)):
            return True
    return False


def _bounded(squares: Tensor) -> Tensor:
    """Return squares as numbers from 0 to 1: products of skewed ones with heavy tails look correlated."""
    typical = float(squares.median()) or float(squares.mean()) or 1.0
    return squares / (squares + typical)


def continuity(law: WeightLaw, shape: Shape, width: int) -> Iterator[str]:
    """Functions of time against their Hölder exponent, by halving steps."""
    holder = law.facts.at(width).holder
    if holder is None or law.facts.at(width).dependence != Dependence.SMOOTH:
        return
    values = walk(law, shape, (FINE[1],), 8).values(0)
    if values is None:
        return
    steps = [_largest_step(values[:: FINE[1] // depth]) for depth in FINE]
    if steps[1] < 1e-12 * (1.0 + float(values.abs().max())):
        return
    seen = math.log(steps[0] / steps[1]) / math.log(FINE[1] / FINE[0])
    if seen < holder - SLACK:
        yield (
            f"facts state holder {holder:g}, but between steps of 1/{FINE[0]} and 1/{FINE[1]} the largest"
            f" step falls with the exponent {seen:.2f}"
        )


def _largest_step(values: Tensor) -> float:
    return float((values[1:] - values[:-1]).abs().amax())


def heavy_tailed_sizes(law: WeightLaw, shape: Shape, width: int) -> Iterator[str]:
    """Layers without a variance against the layer exponent, by their medians."""
    tails = [channel.moments for channel in law.channels(shape) if channel.kind is ChannelKind.INCREMENTS]
    if not tails or min(tails) >= FINITE_VARIANCE:
        return
    sizes = []
    for depth in (8, 128):
        values = walk(law, shape, (depth,), 512).values(0)
        if values is None:
            return
        sizes.append(float(values.abs().flatten().median()) * float(depth) ** law.layer_exponent)
    # Of 4,096 entries a median's standard error is some 3 %, which in this exponent is 0.02.
    seen = math.log(sizes[1] / sizes[0]) / math.log(16.0)
    if not abs(seen) < SLACK / 2:
        yield (
            f"layer_exponent is {law.layer_exponent:g}, but medians of layers times depth**layer_exponent"
            f" grow like L^{seen:.2f} instead of staying"
        )


def natural(law: WeightLaw, shape: Shape, width: int) -> Iterator[str]:
    """The sum of the layers against the natural exponent: it must not grow faster."""
    exponent = law.facts.at(width).natural_exponent
    try:
        check_depths(law, shape, (8, 128))
    except ValueError:
        return
    if exponent is None:
        return
    sizes = []
    for depth in (8, 128):
        values = walk(law, shape, (depth,), 256).values(0)
        if values is None:
            return
        summed = values.sum(dim=0) * float(depth) ** law.layer_exponent
        sizes.append(float(summed.abs().flatten().kthvalue(math.ceil(LARGE * summed.numel())).values))
    if min(sizes) <= 0.0:
        return
    seen = math.log(sizes[1] / sizes[0]) / math.log(16.0)
    if seen > exponent + SLACK:
        yield (
            f"facts state natural_exponent {exponent:g}, but the sum of the layers grows like"
            f" L^{seen:.2f}, so that deep networks explode at this exponent"
        )
