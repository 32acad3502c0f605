"""The fixture `deeplimit_check` decides tests of other people as `check_depth` decides their modules."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401 - pytester forgets what a run imports, and torch imports this only once

import deeplimit as dl

PLUGIN = "deeplimit.testing.pytest_plugin"
PROJECT = Path(dl.__file__).parents[1] / "pyproject.toml"

TESTS = """
import pytest
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(32, 32), nn.Linear(32, 32), scale

    def forward(self, x):
        return x + self.scale * self.second(torch.tanh(self.first(x)))


def stack(exponent):
    return lambda depth: nn.Sequential(*(Block(depth**-exponent) for _ in range(depth)))


def same(depth):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return stack(0.5)(depth)


BATCH = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


def test_right(deeplimit_check):
    report = deeplimit_check(stack(0.5), expected=0.5, batch=BATCH)
    assert report.depths == (2, 4, 8)


def test_wrong(deeplimit_check):
    deeplimit_check(stack(0.0), expected=0.5, batch=BATCH)


@pytest.mark.parametrize("undecided", ["fail", "warn", "skip"])
def test_undecided(deeplimit_check, undecided):
    # Two depths next to each other leave the interval too wide, and further draws are the same again.
    report = deeplimit_check(same, expected=0.5, batch=BATCH, depths=[2, 4], undecided=undecided)
    assert report.verdict == "cannot tell"


def test_undecided_by_default(deeplimit_check):
    deeplimit_check(same, expected=0.5, batch=BATCH, depths=[2, 4])


@pytest.mark.parametrize("arguments", [{"expected": None}, {"expected": 0.5, "undecided": "pass"}])
def test_refused(deeplimit_check, arguments):
    with pytest.raises(ValueError, match="expected must|undecided must"):
        deeplimit_check(stack(0.5), batch=BATCH, **arguments)
"""


def run(pytester, *arguments):
    """Run the tests above in this process; the plugin that may be installed is left out."""
    pytester.makepyfile(TESTS)
    given = ("-p", "no:deeplimit", "-p", PLUGIN, "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "default")
    return pytester.runpytest_inprocess(*given, *arguments)


def test_a_test_passes_fails_or_is_undecided_as_the_module_is(pytester):
    outcome = run(pytester, "--deeplimit-depths", "2:8:x2", "-rA", "-vv")
    outcome.assert_outcomes(passed=4, failed=3, skipped=1)
    failed = [line.split()[1] for line in outcome.outlines if line.startswith("FAILED")]
    wanted = ["test_wrong", "test_undecided[fail]", "test_undecided_by_default"]
    assert [name.partition("::")[2] for name in failed] == wanted
    outcome.stdout.fnmatch_lines(["E *Failed: not as expected: *", "E *- *second.weight*", "E *fix: *"])
    for told in ("SKIPPED*", "*PytestWarning:*"):
        outcome.stdout.fnmatch_lines([f"{told} cannot tell: *an interval is too wide*"])


def test_depths_may_stand_in_the_configuration_and_the_command_line_wins(pytester):
    pytester.makeini("[pytest]\ndeeplimit_depths = 2:8:x2")
    run(pytester, "-k", "test_right").assert_outcomes(passed=1)
    run(pytester, "-k", "test_right", "--deeplimit-depths", "2,4").assert_outcomes(failed=1)


@pytest.mark.parametrize("given", ["x", "", "8:4:x2"])
def test_depths_that_cannot_be_read_stop_the_run_before_any_test(pytester, given):
    outcome = run(pytester, f"--deeplimit-depths={given}")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["*--deeplimit-depths*"])


def test_the_installed_entry_point_is_the_plugin_and_costs_no_torch():
    points = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    assert points == {"deeplimit": PLUGIN}
    program = f"import sys, {PLUGIN}; print(sorted({{'torch', 'numpy', 'scipy'}} & {{*sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
