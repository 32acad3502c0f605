"""An assertion on a module and its optimizer: learning rates carry over to more layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.modules.depth_check import Rule
from deeplimit.modules.training_check import TrainingCheckReport, check_training
from deeplimit.modules.training_check.runs import Factory, Optimizers


@by_default
def assert_depth_transfer(
    factory: Factory,
    depths: Sequence[int] = (4, 8, 16, 32),
    *,
    optimizer: Optimizers,
    expected: str | Rule,
    batch: Any = None,
    **options: Any,
) -> TrainingCheckReport:
    """Assert that initialisation and learning rates follow a rule for depth; return the report.

    The arguments, and the errors for wrong ones, are those of `deeplimit.check_training`; `options` are its
    further keywords. Also fails where the check cannot tell, since a test that passes must mean something.

    Raises:
        AssertionError: With the whole report as its message: which parameter, by what factor.

    Examples:
        >>> import torch, deeplimit as dl
        >>> def stack(depth):
        ...     layer = torch.nn.TransformerEncoderLayer(16, 2, 32, norm_first=True, batch_first=True)
        ...     return torch.nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        >>> dl.testing.assert_depth_transfer(
        ...     stack,
        ...     [2, 4, 8],
        ...     optimizer=lambda model, depth: torch.optim.Adam(model.parameters(), lr=1e-3),
        ...     expected="depth-mup",
        ...     batch=torch.ones(2, 5, 16),
        ... )
        Traceback (most recent call last):
        AssertionError: not as expected: ...
    """
    report = check_training(factory, depths, optimizer=optimizer, expected=expected, batch=batch, **options)
    if not report.ok:
        raise AssertionError(str(report))
    return report
