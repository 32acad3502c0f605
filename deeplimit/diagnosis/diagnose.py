"""`diagnose`: trained weights in, a report out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deeplimit.diagnosis.sweep import diagnose_sweep
from deeplimit.diagnosis.sweep_report import DepthDiagnosis
from deeplimit.ground import validation


def diagnose(
    weights: Mapping[int, Any],
    *,
    confidence: float = 0.95,
    homogeneous: bool = False,
    spatial: tuple[int, int] | None = None,
    layers: str | None = None,
    seed: int = 0,
) -> DepthDiagnosis:
    """Say what trained weights are as functions of depth: a trend, a trend with noise, or neither.

    Args:
        weights: for each depth L (at least 6) a dict of stacks: A (L, ...), and where there are any b (L, d)
            and residual factors delta, () or (L,). Or a .safetensors or .pt file, a state_dict or a module,
            whose layers are told by the running number in their names. A list holds networks of several
            seeds. At least three depths are needed for a verdict.
        confidence: level of the intervals in the report.
        homogeneous: whether the activation is homogeneous, as ReLU is. Then |δ|A and |δ|b are diagnosed.
        spatial: height and width of the input of convolutions; A is then (L, out, in, height, width), and
            its norms are those of the linear operator.
        layers: name of the layers with {} for their number, such as "blocks.{}", where names leave it open.
        seed: of the sign flips that test for a trend.

    Returns:
        The report, with `verdict`, `alpha`, `beta`, `holder`, `hurst`, each with `_interval`.

    Raises:
        TypeError: For anything but weights by depth.
        ValueError: For stacks that have another number of layers than their depth says, for layers whose
            shape differs between depths, for numbers that are not finite, and for files that hold code.

    Not checked: that the networks were trained in the same way, and that training has converged.

    Examples:
        >>> import torch, deeplimit as dl
        >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        >>> times = {L: torch.arange(L, dtype=torch.float64)[:, None, None] / L for L in (8, 16, 32, 64)}
        >>> weights = {L: dict(A=L**-0.3 * torch.cos(t) * turn) for L, t in times.items()}
        >>> report = dl.diagnose(weights)
        >>> report.verdict, round(report.beta, 2)
        ('linear-ode', 0.3)
    """
    if not isinstance(weights, Mapping):
        raise TypeError(
            "weights must be a dict from depth to stacks, such as {16: dict(A=tensor (16, d, d))}; got"
            f" {validation.named(weights)}."
        )
    if not isinstance(homogeneous, bool):
        raise TypeError(f"homogeneous must be True or False, got {validation.named(homogeneous)}.")
    if spatial is not None:
        if not isinstance(spatial, tuple) or len(spatial) != 2:
            raise TypeError(
                f"spatial must be a pair of integers, (height, width); got {validation.named(spatial)}."
            )
        spatial = (
            validation.integer(spatial[0], "spatial[0]", minimum=1),
            validation.integer(spatial[1], "spatial[1]", minimum=1),
        )
    return diagnose_sweep(
        weights,
        confidence=validation.probability(confidence, "confidence"),
        homogeneous=homogeneous,
        spatial=spatial,
        layers=layers,
        seed=validation.integer(seed, "seed", minimum=0),
    )
