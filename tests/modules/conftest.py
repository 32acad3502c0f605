"""Counts what the tests of configurations and of planted faults found, as `make families` prints it."""

from __future__ import annotations

from collections import Counter

import pytest
from families import FAMILIES

from deeplimit.common.global_state import seeded


@pytest.fixture(scope="session")
def model_libraries() -> None:
    """Import transformers and timm before the first test that builds their models, which would pay for it."""
    with seeded(0):
        FAMILIES["gpt2"].factory(1)
        FAMILIES["vit"].factory(1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the rates that docs/families.md states."""
    found = Counter(
        (name, value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
    )
    for name in sorted({name for name, _ in found}):
        counts = {value: count for (other, value), count in found.items() if other == name}
        terminalreporter.write_line(f"{name}: {sum(counts.values())}: {counts}")
