"""docs/calibration.md, written from the file of results alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from calibration.cell import CANNOT_TELL, Cell
from calibration.figures import drawn, picture
from calibration.summary import Summary

PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"
CAUGHT = 0.95
ENOUGH = 40
"""Calls per size below which a share of 95 % means nothing."""
WORST = 5
"""Cells per group that are named."""
INTRODUCTION = """# Calibration

How often does an interval contain the true exponent, and how often is a verdict false? A **cell** is one
network, or one way to draw networks, with one set of arguments. Every call of a cell has a seed that no
other cell has. Arguments that are not named have their defaults; calls of `compare` have depths 16 to 256
and 512 paths, so that there is one analysis at the whole level.
{measured}

`make calibrate` measures every cell, 400 times those that decide and 100 times the rest. A run that was
stopped goes on where it stopped. `ARGUMENTS="--calls 40 --only 'Calls that decide'"` measures a share.
The table of all cells is `calibration/results.csv`. This page is written from it alone
(`python -m calibration page`): what each group adds up to, and the cells that are outside the aims.

- **covered, missed, not given**: what became of every call whose true exponent is known. The aim is that 93
  to 98 % of the intervals cover. No interval is left out because it disagrees with a theorem; the rule that
  left it out is counted. Cells that say `not recorded` were measured before rules were kept; some of
  their intervals were left out because they disagreed.
- **in SD**: median length of the intervals, in standard deviations of the estimate over the calls (half of
  what lies between its 16 % and 84 % quantiles), shortened to the level of 95 %. An interval that is no
  longer than it must be has 3.9, if estimates are normal and unbiased. The aim is 5.5 where errors are those
  of a martingale, and 7 elsewhere. It is left open where estimates hardly differ from call to call, by less
  than 0.001: with weights that are functions of time there is next to no noise, and the interval says what
  finite depth leaves open.
- **right, ?, false**: share of the three outcomes of the verdict. "?" is "cannot tell". Shares that do not
  add up to 100 % leave out words that are tolerated: "stable" next to the critical exponent, and "same law"
  where laws differ by less than the tolerance of `compare_laws`.

A figure per group shows every cell: how many of its intervals cover, with their exact binomial interval, over
their length. Green is the aim. The table keeps a digest of the sources of the rooms that decide what a cell
finds.

"May be chance" means that the aim lies in the exact binomial interval of the share. "Covers too much" needs
183 intervals: if fewer all contain the truth, their binomial interval still reaches down to 98 %.
"""
GROUPS = {
    "Calls that decide": (
        "Calls of `compare` with right limits: depths 16 to 256 and 512 paths, one analysis at 95 %."
    ),
    "Calls that decide, of any size": (
        "The same as plain calls: `compare` chooses depths and paths. Its analyses share the level; the"
        " interval that it prints, and is counted, has 97.5 % or more. One that contradicts a theorem is"
        " measured again, deeper, so that hardly one is left to miss."
    ),
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
    "Trained weights, two seeds": (
        "The same, with two networks at each depth, each seed with a trend of its own."
    ),
    "One network": (
        "`diagnose` of one network with layers of 32 × 32 entries, whose process over depth is known. The"
        " exponent is the Hurst index about the mean of the layers, where the process is fractional noise."
        " Up to now all cells drew from the same seeds, so that they share their luck: with 12 layers and"
        " spectra 1/j, seeds 0 to 809 miss in 7.0 % of calls, and seeds 810 to 5999 in 4.7 % (5.0 % of all"
        " 6,000)."
    ),
    "Seeds of one network": (
        "`diagnose` of three networks of one depth, drawn alike, with spectra 1/j: `diagnose([a, b, c])`."
    ),
    "Wrong limits in default calls": (
        "Depths and paths are chosen by `compare`. Each family is wrong in one way, by a size. The right"
        ' verdict is "does not converge" ("another law" for `compare_laws`), the false one "converges" ("same'
        ' law" above the tolerance). It counts as false even where the size is far below the errors at these'
        " depths, of which the report says how much may remain."
    ),
    "Default calls": (
        "What a user would try first: 36 networks with their own limits, a cell per kind of call. Lengths are"
        " not comparable between networks, so those in standard deviations say nothing here."
    ),
    "Solvers": (
        "`check_solver` with default arguments on the problems of `dl.testing.PROBLEMS`: methods of torchsde"
        " and torchdiffeq, and Milstein's scheme with Lévy areas; and where a drift hides small noise. The"
        " seed makes drift, noise and initial states up to twice or half as large. Intervals are those of the"
        ' analysis that decided: 96 % for an SDE, 95 % for an ODE. The right verdict is "documented order",'
        ' or "faster than documented" where the order is higher.'
    ),
    "Solvers, weak order": (
        '`check_solver(kind="weak")` with 8 to 128 steps and three test functions, which share'
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


def page(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return the page.

    Args:
        cells: all cells, in the order of the page.
        results: the record of each cell that was measured.
    """
    parts = [INTRODUCTION.format(measured=_measured(cells, results)), _overview(cells, results)]
    for group, members in groupby(cells, key=lambda cell: cell.group):
        kept = list(members)
        parts += [f"## {group}\n", GROUPS[group] + "\n", _sum(kept, results)]
        if drawn(kept, results):
            parts.append(f"![Share covered and length of every cell: {group}](images/{picture(group)})\n")
        parts.append(_table(kept, results))
        if group == "Wrong limits in default calls":
            parts.append(_power(kept, results))
    return "\n".join(parts)


def _measured(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    if not results:
        return "No cell has been measured yet."
    counts = [record.replications for record in results.values()]
    days = sorted(record.measured for record in results.values())
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    sources = {code for record in results.values() for code in record.code}
    few = sum(cell.key not in results or results[cell.key].replications < cell.calls for cell in cells)
    sentences = f"The {sum(counts):,} calls were made {when}, {min(counts)} to {max(counts):,} per cell."
    if few:
        sentences += f" {few} of {len(cells)} cells have fewer calls than a full run makes, and say little."
    if len(sources) > 1:
        sentences += f"\nThey ran on {len(sources)} versions of the sources; each cell on one."
    return sentences


def _overview(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return the list of groups with their sums and the number of cells with remarks."""
    lines = [
        "## Overview\n",
        "| group | cells | calls per cell | covered | missed | not given | too little | too much | false |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for group, members in groupby(cells, key=lambda cell: cell.group):
        kept = list(members)
        found = [(cell, results[cell.key]) for cell in kept if cell.key in results]
        remarks = [remark for cell, record in found for remark in record.remarks(cell.admitted)]
        counts = [_certain_and_not(remarks, words) for words in ("too little", "too much", "false")]
        fates = [sum(each) for each in zip(*(_fates(record) for _, record in found), strict=True)] or [0] * 3
        columns = [str(len(kept)), _range([record.replications for _, record in found])]
        columns += [f"{fate:,}" for fate in fates] if any(fates) else ["", "", ""]
        lines.append(f"| [{group}](#{_anchor(group)}) | {' | '.join([*columns, *counts])} |")
    return "\n".join(lines) + "\n"


def _fates(record: Summary) -> tuple[int, int, int]:
    return record.covered, record.missed, sum(record.not_given.values())


def _range(counts: Sequence[int]) -> str:
    if not counts:
        return "0"
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"


def _anchor(group: str) -> str:
    return "".join(each for each in group.lower() if each.isalnum() or each in " -").replace(" ", "-")


def _certain_and_not(remarks: Sequence[str], words: str) -> str:
    """Return how many remarks have these words, and how many of them may be chance."""
    found = [remark for remark in remarks if words in remark]
    chance = sum("chance" in remark for remark in found)
    return f"{len(found) - chance}" + (f" and {chance} by chance?" if chance else "")


def _sum(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return what the calls of a group add up to, in a sentence."""
    records = [results[cell.key] for cell in cells if cell.key in results]
    missing = len(cells) - len(records)
    sentences = [f"{len(cells)} cells, {sum(record.replications for record in records):,} calls."]
    if missing:
        sentences.append(f"Not measured yet: {missing}.")
    reasons: Counter[str] = Counter()
    for record in records:
        reasons.update(record.not_given)
    covered, missed = (sum(getattr(record, name) for record in records) for name in ("covered", "missed"))
    if covered + missed:
        share = _percent(covered / (covered + missed))
        sentences.append(f"Of {covered + missed:,} intervals {share} cover.")
        lengths = [record.length for record in records if math.isfinite(record.length)]
        if lengths:
            sentences.append(f"Their lengths are {np.median(lengths):.1f} SD in the median cell.")
    if reasons:
        listed = ", ".join(f"`{rule}` {count}" for rule, count in reasons.most_common())
        sentences.append(f"Not given, by rule: {listed}.")
    return " ".join(sentences) + "\n"


def _table(cells: Sequence[Cell], results: Mapping[str, Summary]) -> str:
    """Return a line per cell that decides, else per cell that is outside the aims, the worst first."""
    found = [(cell, results[cell.key]) for cell in cells if cell.key in results]
    decides = [pair for pair in found if pair[0].calls > Cell.calls]
    outside = [(cell, record) for cell, record in found if record.remarks(cell.admitted)]
    outside.sort(key=lambda pair: _badness(*pair), reverse=True)
    shown = decides or outside[:WORST]
    if not shown:
        return "Every measured cell is within the aims.\n" if found else ""
    head = ["cell", "calls", "covered", "missed", "not given", "in SD", "right", "?", "false", "remarks"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(_line(cell, record))} |" for cell, record in shown]
    if not decides:
        lines.append(f"\n{len(outside)} of {len(found)} cells have remarks; these are the worst of them.")
    return "\n".join(lines) + "\n"


def _badness(cell: Cell, record: Summary) -> tuple[bool, float, float]:
    """Return how far a cell is outside the aims: certain remarks in bold come first."""
    remarks = record.remarks(cell.admitted)
    certain = any("**" in remark and "chance" not in remark for remark in remarks)
    lack = 0.0 if math.isnan(record.covers[0]) else max(0.0, 0.95 - record.covers[0])
    return certain, record.false / record.replications + lack, abs(record.covers[0] - 0.95)


def _line(cell: Cell, record: Summary) -> list[str]:
    fates = [str(each) for each in _fates(record)] if record.known else ["", "", ""]
    length = f"{record.length:.1f}" if math.isfinite(record.length) else ""
    remarks = "; ".join(record.remarks(cell.admitted))
    return [
        cell.name,
        f"{record.replications:,}",
        *fates,
        length,
        *_verdicts(record),
        remarks,
    ]


def _verdicts(record: Summary) -> list[str]:
    shrugs = record.verdicts.get(CANNOT_TELL, 0) / record.replications
    return [_percent(record.caught), _percent(shrugs), _percent(record.false / record.replications)]


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
