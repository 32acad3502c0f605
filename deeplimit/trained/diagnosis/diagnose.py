"""`diagnose`: trained weights in, a report out."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.trained.diagnosis.network import diagnose_network
from deeplimit.trained.diagnosis.network_report import NetworkDiagnosis
from deeplimit.trained.diagnosis.sweep import diagnose_sweep
from deeplimit.trained.diagnosis.sweep_report import DepthDiagnosis

SWEEP, NETWORK = "networks of several depths", "one network"


@overload
def diagnose(
    weights: Mapping[int, Any],
    *,
    confidence: float = 0.95,
    homogeneous: bool = False,
    spatial: tuple[int, int] | None = None,
    layers: str | None = None,
    batch: Any = None,
    null: Callable[..., nn.Module] | None = None,
    seed: int = 0,
) -> DepthDiagnosis: ...
@overload
def diagnose(
    weights: nn.Module | str | os.PathLike[str] | Mapping[str, Any] | Sequence[Any],
    *,
    layers: str | None = None,
    batch: Any = None,
    groups: Sequence[int] | None = None,
    blocks: str | Sequence[str] | None = None,
    null: Callable[..., nn.Module] | None = None,
    seed: int = 0,
) -> NetworkDiagnosis: ...
@by_default
def diagnose(
    weights: Any,
    *,
    confidence: float = 0.95,
    homogeneous: bool = False,
    spatial: tuple[int, int] | None = None,
    layers: str | None = None,
    batch: Any = None,
    groups: Sequence[int] | None = None,
    blocks: str | Sequence[str] | None = None,
    null: Callable[..., nn.Module] | None = None,
    seed: int = 0,
) -> DepthDiagnosis | NetworkDiagnosis:
    """Say what trained weights are as functions of depth: a trend, a trend with noise, or neither.

    Networks of several depths are compared with each other. One network is asked whether the order of its
    layers is real, and how rough they are over depth. Only what hidden units and heads leave unchanged is
    compared: products of weights, and the branches of a module as functions; of several depths the latter
    where weights have no counterparts in other layers.

    Args:
        weights: networks by depth, or one network. One network is a module, a state_dict, a .safetensors or
            .pt file, or a dict of stacks, A (L, ...). By depth: for each depth L (at least 6) a dict of
            stacks: A (L, ...), and where there are any b (L, d) and residual factors delta, () or (L,); V,
            W, F and Δ are names of stacks, too. Or a network as above, whose layers are told by the running
            number in their names. A list holds networks of several seeds. At least three depths are needed
            for a verdict.
        confidence: level of the intervals in the report; networks of several depths only.
        homogeneous: whether the activation is homogeneous, as ReLU is. Then |δ|A and |δ|b are diagnosed;
            networks of several depths only.
        spatial: height and width of the input of convolutions; A is then (L, out, in, height, width), and
            its norms are those of the linear operator; networks of several depths only.
        layers: name of the layers with {} for their number, such as "blocks.{}", where names leave it open.
        batch: inputs of the modules, as in `find_branches`; real data, where states should be real ones.
        groups: number of each layer's group (L,) in one network whose layers come in kinds, where no module
            says so.
        blocks: patterns of module names, as in `find_branches`; one module only.
        null: function that makes an untrained module: of no argument for one network, of the depth for
            several. It is put into the same table, and so are the layers in a random order.
        seed: of the sign flips, permutations and noise that are drawn.

    Returns:
        For several depths a `DepthDiagnosis`, with `verdict`, `alpha`, `beta`, `holder`, `hurst`, each with
        `_interval`. For one network a `NetworkDiagnosis`, with `objects` and `streams`.

    Raises:
        TypeError: For anything else as weights.
        ValueError: For stacks that have another number of layers than their depth says, for layers whose
            shape differs between depths, for numbers that are not finite, for files that hold code, and for
            arguments of several depths given for one network, or the other way round.

    Not checked: that the networks were trained in the same way, that training has converged, and that the
    trends of several depths are one function: verdicts say how layers scale (`fitted_limit(...).compare()`
    measures whether networks approach the deepest one's equation).

    Examples:
        >>> import torch, deeplimit as dl
        >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        >>> times = {L: torch.arange(L, dtype=torch.float64)[:, None, None] / L for L in (8, 16, 32, 64)}
        >>> weights = {L: dict(A=L**-0.3 * torch.cos(t) * turn) for L, t in times.items()}
        >>> report = dl.diagnose(weights)
        >>> report.verdict, round(report.beta, 2)
        ('linear-ode', 0.3)
        >>> noise = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> print(dl.diagnose(dict(A=noise)).headline.partition(" (")[0])
        weights: no order over depth: sizes aside, shuffled layers would look the same
    """
    given = {**locals()}
    seed = validation.seed(seed)
    if layers is not None:
        validation.text(layers, "layers")
    replicates, depth = _replicates(weights)
    of_one = replicates is not None or _is_one_network(weights)
    if null is not None:
        validation.untrained(null, 0 if of_one and depth is None else 1)
    if of_one:
        _refuse(NETWORK, SWEEP, confidence=confidence != 0.95, homogeneous=homogeneous, spatial=spatial)
        one = diagnose_network(
            weights if replicates is None else replicates,
            batch=batch,
            layers=layers,
            groups=groups,
            blocks=blocks,
            seed=seed,
            null=null if null is None or depth is None else functools.partial(null, depth),
        )
        return one.called_by("diagnose", given)
    _refuse(SWEEP, NETWORK, groups=groups, blocks=blocks)
    if batch is not None and not _has_module(weights):
        raise ValueError("batch belongs to modules, and weights hold none: leave batch out.")
    homogeneous = validation.flag(homogeneous, "homogeneous")
    if spatial is not None:
        if not isinstance(spatial, tuple) or len(spatial) != 2:
            raise TypeError(
                f"spatial must be a pair of integers, (height, width); got {validation.named(spatial)}."
                " (32, 32), say."
            )
        spatial = (
            validation.integer(spatial[0], "spatial[0]", minimum=1),
            validation.integer(spatial[1], "spatial[1]", minimum=1),
        )
    sweep = diagnose_sweep(
        weights,
        confidence=validation.probability(confidence, "confidence"),
        homogeneous=homogeneous,
        spatial=spatial,
        layers=layers,
        seed=seed,
        batch=batch,
        null=null,
    )
    return sweep.called_by("diagnose", given)


def _replicates(weights: object) -> tuple[list[Any] | None, int | None]:
    """Return the networks of a list, or of the list at one depth, with that depth; None for anything else.

    One module at one depth is one network.
    """
    depth = None
    if isinstance(weights, Mapping) and len(weights) == 1:
        depth, inside = next(iter(weights.items()))
        inside = [inside] if isinstance(inside, nn.Module) else inside
        weights = inside if isinstance(depth, int) and isinstance(inside, (list, tuple)) else None
    if not isinstance(weights, (list, tuple)) or (
        depth is not None and len(weights) == 1 and not isinstance(weights[0], nn.Module)
    ):
        return None, None
    if not weights:
        raise ValueError("weights must hold at least one network, got an empty list; give [seed1, seed2].")
    return list(weights), depth


def _has_module(weights: object) -> bool:
    """Whether a network of a sweep is a module, or any in a list of seeds."""
    given = weights.values() if isinstance(weights, Mapping) else []
    lists = [each if isinstance(each, (list, tuple)) else [each] for each in given]
    return any(isinstance(one, nn.Module) for each in lists for one in each)


def _is_one_network(weights: object) -> bool:
    """Whether weights are those of one network: no mapping, or one from names."""
    if not isinstance(weights, Mapping):
        return True
    return bool(weights) and all(isinstance(name, str) for name in weights)


def _refuse(given: str, wanted: str, **arguments: object) -> None:
    """Refuse arguments that do not belong to the weights that are given."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise ValueError(f"{name} belongs to {wanted}, and weights are {given}: leave {name} out.")
