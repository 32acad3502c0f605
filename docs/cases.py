"""Write the page on known cases, docs/cases.md, from the list itself: python docs/cases.py."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from deeplimit.papers.cases import Case, LawCase, cases, law_cases

PAGE = Path(__file__).parent / "cases.md"
INTRODUCTION = """# Known cases

These networks have a known limit and a known order, or are known to have no limit. Each stands
beside limits that are wrong in exactly one way, to which it must not converge. `deeplimit validate`
measures the cases marked ✓. `dl.zoo.pairs()` returns a short list for checking a method of your own.
The tests check every line of the list. [M] is Marion et al. (2025) and [C] Cohen et al. (2021);
[Theorems](theorems/index.md) says what each one states.

```python
from deeplimit import zoo

case = next(case for case in zoo.cases() if case.setting == "spiral")
assert case.rate == 1.0  # the order in 1/L
assert case.network.regime().rate == case.rate
assert [twin.wrongly for twin in case.wrong] == ["the spiral turned backwards"]
```

Orders are in 1/L, on the layer grid, where L is the depth and d the width.
"""
IN_LAW = """## In law

Nothing is coupled here: `dl.compare_laws` holds the law of the last state against the limit's at time 1
([Limits in law](theorems/in-law.md)). A right limit has the same law, a wrong one another law. There is no
order. `zoo.law_cases()` returns the list.

| setting | network | limit | source | wrong limits |
|---|---|---|---|---|"""
HEAD = "| setting | network | limit | order | source | wrong limits |\n|---|---|---|---|---|---|"


def told(case: Case | LawCase) -> str:
    """Return what is wrong with the wrong limits of a case."""
    return "<br>".join(f"{twin.wrongly}: \\({twin.equation}\\). {twin.reason}" for twin in case.wrong)


def law_row(case: LawCase) -> str:
    """Return the line of one case in law."""
    limit, mark = f"\\({case.equation}\\)", " ✓" if case.paths else ""
    cells = (case.setting + mark, case.network, limit, case.source, told(case))
    return f"| {' | '.join(map(str, cells))} |"


def row(case: Case) -> str:
    """Return the line of one case in its statement's table."""
    order = "no limit" if case.rate is None else f"{case.rate:g}"
    mark = " ✓" if case.paths else ""
    limit = f"\\({case.equation}\\)"
    cells = (case.setting + mark, case.network, limit, order, case.source, told(case))
    return f"| {' | '.join(map(str, cells))} |"


def page() -> str:
    """Return the page, with a table per statement."""
    parts = [INTRODUCTION]
    for statement, group in groupby(sorted_by_statement(), key=lambda case: case.statement):
        parts.append("\n".join([f"## {statement}\n", HEAD, *map(row, group)]) + "\n")
    parts.append("\n".join([IN_LAW, *map(law_row, law_cases())]) + "\n")
    return "\n".join(parts)


def sorted_by_statement() -> list[Case]:
    """Return the cases with those of one statement together, statements in the order of the list."""
    order = list(dict.fromkeys(case.statement for case in cases()))
    return sorted(cases(), key=lambda case: order.index(case.statement))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
