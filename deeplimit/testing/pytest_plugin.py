"""A plugin of pytest: the fixture `deeplimit_check`, and the depths at which it builds a module.

pytest imports this file in every run of an environment that holds deeplimit, so that torch waits until a test
asks for the check.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pytest

from deeplimit.common.depths_as_text import parse_depths

if TYPE_CHECKING:
    from deeplimit.modules.depth_check import DepthReport, Rule
    from deeplimit.modules.depth_check.runs import Factory

OPTION, INI = "--deeplimit-depths", "deeplimit_depths"
DEPTHS = "4,8,16,32"
"""Those of `check_depth`."""

Undecided = Literal["fail", "warn", "skip"]
UNDECIDED = get_args(Undecided)


class Check(Protocol):
    """What the fixture `deeplimit_check` is: `check_depth`, whose verdict decides the test."""

    def __call__(
        self,
        factory: Factory,
        *,
        expected: float | str | Rule,
        undecided: Undecided = "fail",
        **arguments: Any,
    ) -> DepthReport:
        """Return the report where the module is as expected; else fail the test with the whole report.

        Args:
            factory: Function of a depth that returns an `nn.Module` with that many blocks.
            expected: Intended scaling: an exponent, the name of a rule, or a `Rule`. None is refused with
                ValueError: nothing could contradict it.
            undecided: What happens where the check cannot tell. "fail", the default, fails the test, since
                nobody reads the warnings of tests that pass. "warn" passes it with a warning, "skip" skips
                it; both say why.
            **arguments: Further keywords of `check_depth`, such as `batch`; `depths` wins over the option.
        """
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the depths, as an option of the command line and as a line of the configuration."""
    wanted = "depths of deeplimit_check, 4,8,16,32 or 4:32:x2"
    parser.getgroup("deeplimit").addoption(OPTION, default=None, metavar="DEPTHS", help=wanted)
    parser.addini(INI, wanted, default=DEPTHS)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse depths that cannot be read before any test runs."""
    try:
        _depths(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _depths(config: pytest.Config) -> list[int]:
    given = config.getoption(OPTION)
    return parse_depths(config.getini(INI), INI) if given is None else parse_depths(given, OPTION)


@pytest.fixture
def deeplimit_check(pytestconfig: pytest.Config) -> Check:
    """Return a function that checks how a module's residual branches scale with depth: a `Check`.

    It builds the module at the depths of `--deeplimit-depths`, or of the ini option `deeplimit_depths`.

    Examples:
        A test takes it by its name:

            def test_depth_scaling(deeplimit_check):
                deeplimit_check(MyTransformer, expected="gpt-2")
    """

    def check(
        factory: Factory, *, expected: float | str | Rule, undecided: Undecided = "fail", **arguments: Any
    ) -> DepthReport:
        __tracebackhide__ = True
        import deeplimit

        if undecided not in UNDECIDED:
            raise ValueError(f"undecided must be one of {', '.join(UNDECIDED)}; got {undecided!r}.")
        if expected is None:
            raise ValueError(
                "expected must be an exponent, the name of a rule or a Rule, got None: a test without an"
                " expectation cannot fail. deeplimit.check_depth measures without one."
            )
        depths = arguments.pop("depths", _depths(pytestconfig))
        report = deeplimit.check_depth(factory, depths, expected=expected, **arguments)
        outcomes: dict[str, Callable[[DepthReport], None]] = {
            "not as expected": _fail,
            "cannot tell": {"fail": _fail, "warn": _warn, "skip": _skip}[undecided],
        }
        outcomes.get(report.verdict, _pass)(report)
        return report

    return check


def _pass(report: DepthReport) -> None:
    pass


def _fail(report: DepthReport) -> None:
    __tracebackhide__ = True
    pytest.fail(str(report))


def _warn(report: DepthReport) -> None:
    warnings.warn(pytest.PytestWarning(report.in_one_line), stacklevel=3)


def _skip(report: DepthReport) -> None:
    __tracebackhide__ = True
    pytest.skip(report.in_one_line)
