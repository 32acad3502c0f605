"""An assertion on a module: its residual branches scale with depth as intended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.modules.depth_check import DepthReport, Rule, check_depth
from deeplimit.modules.depth_check.runs import Factory


@by_default
def assert_depth_scaling(
    factory: Factory,
    depths: Sequence[int] = (4, 8, 16, 32),
    *,
    expected: float | str | Rule,
    batch: Any = None,
    **options: Any,
) -> DepthReport:
    """Assert that a module's residual branches scale with depth as intended; return the report.

    The arguments, and the errors for wrong ones, are those of `deeplimit.check_depth`; `options` are its
    further keywords. Also fails where the check cannot tell, since a test that passes must mean something.

    Raises:
        AssertionError: With the whole report as its message: which parameter, by what factor.

    Examples:
        >>> import torch, deeplimit as dl
        >>> def stack(depth):
        ...     layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        ...     return torch.nn.TransformerEncoder(layer, depth)
        >>> dl.testing.assert_depth_scaling(stack, [2, 4, 8], expected="gpt-2", batch=torch.ones(2, 5, 16))
        Traceback (most recent call last):
        AssertionError: not as expected: ...
    """
    report = check_depth(factory, depths, expected=expected, batch=batch, **options)
    if not report.ok:
        raise AssertionError(str(report))
    return report
