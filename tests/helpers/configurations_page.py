"""The tables of docs/families.md that list configurations and planted faults, from the rows of the tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from configurations import Configuration
from planted import Planted

import deeplimit as dl


def expected_of(expected: float | str | dl.Rule) -> str:
    return (
        expected.name
        if isinstance(expected, dl.Rule)
        else f"{expected:g}"
        if isinstance(expected, float)
        else expected
    )


def configurations(sources: dict[str, Sequence[Configuration]]) -> str:
    """A row for each source, expectation and exponents, with the names of its configurations."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for source, rows in sources.items():
        for row in rows:
            exponents = ", ".join(
                dict.fromkeys(f"{kind.exponent:g}".replace("inf", "zero") for kind in row.kinds)
            )
            groups.setdefault((source, expected_of(row.expected), exponents), []).append(row.name)
    lines = [
        f"| {source} | {expected} | {exponents} | {len(names)} | {', '.join(names)} |"
        for (source, expected, exponents), names in groups.items()
    ]
    head = "| from | held to | exponents by hooks | number | configurations |\n|---|---|---|---|---|"
    return "\n".join([head, *lines])


def faults(planted: Iterable[Planted]) -> str:
    """A row for each base, with what is planted into it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for fault in planted:
        base, _, what = fault.name.partition(": ")
        groups.setdefault((base, expected_of(fault.expected)), []).append(what)
    lines = [
        f"| {base} | {rule} | {len(names)} | {', '.join(names)} |" for (base, rule), names in groups.items()
    ]
    return "\n".join(["| base | held to | number | faults |\n|---|---|---|---|", *lines])
