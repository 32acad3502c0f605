"""The calibration of orders and verdicts that docs/statistics.md prints: 300 replications per row."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
PAGE = Path(dl.__file__).parents[1] / "docs" / "statistics.md"
REPLICATIONS = 300
WIDE, USUAL = [16, 32, 64, 128, 256], [8, 16, 32, 64, 128]
ROWS = {
    "tanh d=6, 16..256, 512 paths": (6, "tanh", {"depths": WIDE, "paths": 512}),
    "tanh d=6, 8..128, 256 paths": (6, "tanh", {"depths": USUAL, "paths": 256}),
    "identity d=6, 16..256, 512 paths": (6, "identity", {"depths": WIDE, "paths": 512}),
    "ReLU d=6, 8..128, 256 paths": (6, "relu", {"depths": USUAL, "paths": 256}),
    "tanh d=1, 16..256, 512 paths": (1, "tanh", {"depths": WIDE, "paths": 512}),
    "sin d=3, 4..64, 1000 paths": (3, torch.sin, {"depths": [4, 8, 16, 32, 64], "paths": 1000}),
    "tanh d=4, final, 8..64, 1600 paths": (
        4,
        "tanh",
        {"depths": [8, 16, 32, 64], "paths": 1600, "norm": "final"},
    ),
    "tanh d=20, 8..64, 200 paths": (20, "tanh", {"depths": [8, 16, 32, 64], "paths": 200}),
    "tanh d=2, 10,15,27,50,100, 500 paths": (2, "tanh", {"depths": [10, 15, 27, 50, 100], "paths": 500}),
    "identity d=1, p=4, 512 paths": (1, "identity", {"depths": WIDE, "paths": 512, "p": 4}),
}
COLUMNS = ("covered", "median width", "converges", "cannot tell", "does not converge", "withheld")


def printed(name):
    """Return the row of the page's table as numbers."""
    (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(zip(COLUMNS, map(float, line.split("|")), strict=True))


def measured(name):
    width, activation, settings = ROWS[name]
    reports = [dl.compare(dl.res1(width, activation), seed=seed, **settings) for seed in range(REPLICATIONS)]
    given = [report for report in reports if np.isfinite(report.rate)]
    verdicts = [report.verdict for report in reports]
    return {
        "covered": np.mean([low <= 0.5 <= high for low, high in (report.rate_interval for report in given)]),
        "median width": np.median([np.diff(report.rate_interval)[0] for report in given]),
        **{word: verdicts.count(word) for word in COLUMNS[2:5]},
        "withheld": REPLICATIONS - len(given),
    }


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_page_is_what_is_measured(name):
    found, said = measured(name), printed(name)
    assert found["does not converge"] == 0
    assert found["covered"] == pytest.approx(said["covered"], abs=0.01)
    assert found["median width"] == pytest.approx(said["median width"], rel=0.05)
    for column in ("converges", "cannot tell", "withheld"):
        assert found[column] == pytest.approx(said[column], abs=3), column
    if found["withheld"] < 30:
        assert stats.binom.sf(round(found["covered"] * REPLICATIONS) - 1, REPLICATIONS, 0.95) < 1 - 1e-3
