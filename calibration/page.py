"""docs/calibration.md, written from the file of results alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from calibration.cell import CANNOT_TELL, FAILED, Cell
from calibration.summary import Summary

PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"
CAUGHT = 0.99
ENOUGH = 100
"""Calls per size below which a share of 99 % means nothing."""
FULL = 1000
"""Calls per cell of a full run."""
INTRODUCTION = """# Calibration

How often does an interval contain the true exponent, and how often is a verdict false? Each line below is
one cell: one network, or one way to draw networks, with one set of arguments. A replication is one call
with another seed. Arguments that are not named have their defaults.
{measured}

`make calibrate` measures every cell again. A run that was stopped goes on where it stopped.
`python -m calibration page` writes this page from `calibration/results.json`, without measuring.

- **covered**: share of the 95 % intervals that contain the true exponent, with the exact binomial interval
  of that share. The aim is 93 to 98 %. Only calls that gave an interval count; **withheld** is the share of
  calls that gave none.
- **width**: median width of the intervals. **in SD**: the same in standard deviations of the estimate over
  replications. An interval that is no longer than it must be has 3.9, if estimates are normal and
  unbiased.
- **right, ?, false**: share of the three outcomes of the verdict. "?" is "cannot tell". Shares that do not
  add up to 100 % leave out words that are tolerated: "stable" next to the critical exponent, and "same law"
  where laws differ by less than the tolerance of `compare_laws`.
- **seconds**: median processor time of a call.

The remarks name every cell outside these aims: coverage of 93 to 98 %, and at most 1 % false verdicts.
"May be chance" means that the aim lies in the binomial interval. "Covers too much" needs 183 intervals: if
fewer all contain the truth, their binomial interval still reaches down to 98 %.
"""
GROUPS = {
    "Proposition 11": "The network is res-1 with independent layers, and the true order is 1/2.",
    "Identity": "The residual exponent is above the critical one. The true order is the difference.",
    "Theorem 4.3": (
        "Every replication draws its own trend. Its entries have size 0.25 unless another size is named,"
        " $d = 4$ and $\\beta = 1 - \\alpha$. A line without an activation takes tanh, sin, scaled_silu,"
        " scaled_softplus and erf in turn. The true order is $\\min(1, \\beta)$ where $\\sigma''(0) \\ne 0$,"
        " $\\min(1, 2\\beta)$ for odd activations and 1 for the identity."
    ),
    "Theorem 4.4, ODE": "As under Theorem 4.3, with noise. The true order is at most $\\alpha$.",
    "Theorem 4.4, SDE": (
        "Entries of $W^A$ have variance A at time 1, those of $W^b$ variance 0.1. The true order is 1/2,"
        " or $\\beta - 1$ if that is less."
    ),
    "Proposition 12": "Weights are smooth functions of time, and the true order is 1.",
    "Young equation": (
        "Increments of fractional Brownian motion. The true order is $2H - 1$, for `modified_res1`"
        " $\\min(2H - 1/2, 1)$."
    ),
    "Recorded weights": "The limit is a function that the user passes. The true order is 1.",
    "Networks drawn at random": (
        "Every replication draws another network: activation, width, weight law, exponents, norm, size of the"
        " trend, depths and number of paths. A share is an average over these networks."
    ),
    "Gradients": (
        '`compare(quantity="gradient")`. The true order is that of the states: 1/2 for SDEs, 1 for smooth'
        " weights, 1/2 for the trend at $\\alpha = 1/2$ and $\\beta - 1/2$ for the identity."
    ),
    "Pre-norm networks": (
        "The true order is 1/2 for independent layers, $\\beta - 1/2$ above that exponent and 1 for smooth"
        " weights."
    ),
    "Attention": "The true order is 1/2 for independent layers, and 1 for functions of time.",
    "Growth of the signal": (
        "`stability`; the exponent is that of the signal's growth, $1 - 2\\beta$. At $\\beta = 0.48$ and 0.52"
        ' "stable" is tolerated, since it excludes only exponents that are 0.05 away.'
    ),
    "Laws": (
        '`compare_laws` with the right limit. The share of "another law" that is admitted is 1 %, or the'
        " level where one is named."
    ),
    "Trained weights": (
        "`diagnose` of weights at several depths: $A_k = L^{-β} Ā(k/L)$ plus noise, with entries of variance"
        " 1/d. The exponent is β where there is a trend, and the noise's Hurst index where there is none."
    ),
    "One network": (
        "`diagnose` of one network with layers of 32 × 32 entries, whose process over depth is known. The"
        " exponent is the Hurst index about the mean of the layers, where the process is fractional noise."
        " All cells draw from the same seeds, so that they share their luck: with 12 layers and spectra 1/j,"
        " seeds 0 to 809 miss in 7.0 % of calls, and seeds 810 to 5999 in 4.7 % (5.0 % of all 6,000)."
    ),
    "Wrong limits": (
        'Each family is wrong in one way, by a size. The right verdict is "does not converge" ("another'
        ' law" for `compare_laws`), the false one "converges" ("same law" above the tolerance).'
        " It counts as false even where the size is far below the errors at these depths."
    ),
    "Default calls": (
        "What a user would try first: 36 networks with two to four right calls each, no argument but `norm`"
        " changed. The last line is the average over the calls."
    ),
    "Solvers": (
        "`check_solver` with default arguments on the problems of `dl.testing.PROBLEMS`: methods of torchsde"
        " and torchdiffeq, and Milstein's scheme with Lévy areas. An ODE has four initial states, which the"
        " seed draws. Intervals are those of the analysis that decided: 97.5 % for an SDE, 95 % for an ODE."
        ' The right verdict is "documented order", or "faster than documented" where the order is higher.'
    ),
    "Solvers, weak order": (
        '`check_solver(kind="weak")` with 8 to 128 steps, 4,096 paths and three test functions, which share'
        " the level. The interval is that of the function that decides."
    ),
    "Solvers with a fault": (
        'Each solver is wrong in one way. The right verdicts are "not the documented order" and "not the'
        ' limit"; every other verdict but "cannot tell" is false.'
    ),
    "Default calls of any size": (
        'The same calls with `depths="auto"`, and `paths="auto"` or `draws="auto"`: each chooses its size'
        " within the default budget of 30 seconds, here on one core."
    ),
}


def page(cells: Sequence[Cell], results: Mapping[str, Summary], dates: tuple[str, str]) -> str:
    """Return the page.

    Args:
        cells: all cells, in the order of the page.
        results: the record of each cell that was measured.
        dates: first and last day of measurement.
    """
    parts = [INTRODUCTION.format(measured=_measured(results, dates)), _overview(cells, results)]
    for group, members in groupby(cells, key=lambda cell: cell.group):
        parts += [f"## {group}\n", GROUPS[group] + "\n", _table(list(members), results)]
        if group == "Wrong limits":
            parts.append(_power([cell for cell in cells if cell.group == group], results))
    return "\n".join(parts)


def _measured(results: Mapping[str, Summary], dates: tuple[str, str]) -> str:
    if not results:
        return "No cell has been measured yet."
    counts = [record.replications for record in results.values()]
    when = f"on {dates[0]}" if dates[0] == dates[1] else f"from {dates[0]} to {dates[1]}"
    versions = {code for record in results.values() for code in record.code}
    told = f"The {sum(counts):,} calls were made {when},\n{min(counts)} to {max(counts):,} per cell."
    if min(counts) < FULL:
        told += f"\nThe aim is {FULL:,} calls per cell; cells with few calls say little."
    if len(versions) == 1:
        return told
    return f"{told}\nThey ran on {len(versions)} versions of the sources; each cell on one."


def _overview(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return the list of groups with their sums and the number of cells with remarks."""
    lines = [
        "## Overview\n",
        "| group | cells | measured | with intervals | cover too little | cover too much | false verdicts |",
        "|---|---|---|---|---|---|---|",
    ]
    for group, members in groupby(cells, key=lambda cell: cell.group):
        kept = list(members)
        found = [(cell, results[cell.key]) for cell in kept if cell.key in results]
        remarks = [remark for cell, record in found for remark in record.remarks(cell.admitted)]
        counts = [_certain_and_not(remarks, words) for words in ("too little", "too much", "false")]
        intervals = sum(record.judged > 0 for _, record in found)
        lines.append(f"| {group} | {len(kept)} | {len(found)} | {intervals} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def _certain_and_not(remarks: Sequence[str], words: str) -> str:
    """Return how many remarks have these words, and how many of them may be chance."""
    found = [remark for remark in remarks if words in remark]
    chance = sum("chance" in remark for remark in found)
    return f"{len(found) - chance}" + (f" and {chance} by chance?" if chance else "")


def _table(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return a line per cell; the columns of intervals only where the group has some."""
    has_intervals = any(results[cell.key].judged for cell in cells if cell.key in results)
    head = ["cell", "calls", *(["covered", "withheld", "width", "in SD"] if has_intervals else [])]
    head += ["right", "?", "false", "seconds", "remarks"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for cell in cells:
        if cell.key in results:
            columns = _line(cell, results[cell.key], has_intervals=has_intervals)
        else:
            columns = [cell.name, "0", *[""] * (len(head) - 3), "not measured yet"]
        lines.append(f"| {' | '.join(columns)} |")
    measured = [results[cell.key] for cell in cells if cell.key in results]
    if cells[0].group.startswith("Default calls") and measured:
        lines.append(f"| {' | '.join(_sum(measured, has_intervals=has_intervals))} |")
    return "\n".join(lines) + "\n"


def _line(cell: Cell, record: Summary, *, has_intervals: bool) -> list[str]:
    columns = [cell.name, f"{record.replications:,}"]
    if has_intervals:
        columns += [
            _with_interval(*record.covers),
            _percent(1 - record.given / record.replications) if record.judged else "",
            _number(record.width) if record.judged else "",
            _ratio(record.width, record.deviation),
        ]
    columns += [*_verdicts(record), f"{record.seconds:.2g}", "; ".join(record.remarks(cell.admitted))]
    return columns


def _verdicts(record: Summary) -> list[str]:
    shrugs = record.verdicts.get(CANNOT_TELL, 0) / record.replications
    return [_percent(record.caught), _percent(shrugs), _percent(record.false / record.replications)]


def _sum(records: Sequence[Summary], *, has_intervals: bool) -> list[str]:
    """Return the line that averages over cells, each with the same weight."""
    shares = np.mean(
        [
            (record.right, record.verdicts.get(CANNOT_TELL, 0), record.false)
            / np.array([record.replications])
            for record in records
        ],
        axis=0,
    )
    failed = sum(record.verdicts.get(FAILED, 0) for record in records)
    return [
        "**average**",
        f"{sum(record.replications for record in records):,}",
        *([""] * 4 if has_intervals else []),
        *map(_percent, shares),
        f"{sum(record.seconds for record in records):.3g} in all",
        f"{failed} failed" if failed else "",
    ]


def _power(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return the size that is caught per family of wrong limits."""
    lines = [
        "### The size that is caught\n",
        f"The smallest measured size from which on every size is caught in at least {100 * CAUGHT:.0f} % of"
        f" the calls, and the share caught at each size. It is left open below {ENOUGH} calls per size.\n",
        "| family | caught at | share caught by size |",
        "|---|---|---|",
    ]
    for family, members in groupby((cell for cell in cells if cell.family), key=lambda cell: cell.family):
        found = [(cell.size, results[cell.key]) for cell in members if cell.key in results]
        if not found:
            continue
        shares = ", ".join(f"{size:g}: {_percent(record.caught)}" for size, record in found)
        enough = all(record.replications >= ENOUGH for _, record in found)
        caught = _caught_from([(size, record.caught) for size, record in found]) if enough else "open"
        lines.append(f"| {family} | {caught} | {shares} |")
    return "\n".join(lines) + "\n"


def _caught_from(found: Sequence[tuple[float, float]]) -> str:
    caught = None
    for size, power in sorted(found, reverse=True):
        if power < CAUGHT:
            break
        caught = size
    return f"more than {max(size for size, _ in found):g}" if caught is None else f"{caught:g}"


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.3g} %"


def _with_interval(value: float, low: float, high: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f} % ({100 * low:.0f}–{100 * high:.0f})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _ratio(width: float | None, deviation: float | None) -> str:
    return f"{width / deviation:.1f}" if width is not None and deviation else ""
