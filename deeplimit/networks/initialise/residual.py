"""`residual_`: one law across the layers of a whole model's residual branches."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import alone, by_default, seeded
from deeplimit.driving import Brownian, FractionalBrownian, WeightLaw, critical_exponent
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.trace.branches import Part, layout, record
from deeplimit.networks.initialise.filling import law_across_layers, representable, streams_of, write_layers
from deeplimit.networks.initialise.result import ResidualInitialisation, RoleInitialisation, shared_fields
from deeplimit.networks.initialise.roles import Role, fan_in, roles_of, stacks_of
from deeplimit.networks.initialise.tensors import sharing_memory, stored_weight

WEIGHTS = {"all": ("output", "inner"), "output": ("output",)}
EXACT = 1e-3
"""Error of a power that a number of a forward is, as its writer rounds it."""
STRUCTURED = 6.0
"""How many standard errors off 0 the mean of an inner weight is, in every layer, if it was not drawn from a
centred law.
"""


@by_default
@alone()
def residual_(
    model: nn.Module,
    *,
    hurst: float | None = None,
    process: WeightLaw | None = None,
    exponent: float | None = None,
    gain: float = 1.0,
    weights: str = "all",
    biases: str = "zero",
    batch: Any = None,
    blocks: str | Sequence[str] | None = None,
    seed: int | torch.Generator = 0,
) -> ResidualInitialisation:
    """Give the weights of all residual branches one law across layers, their outputs the scale L^-exponent.

    The output projections of the L branches of one kind in one stream become L^-exponent · gain/√fan_in ·
    Z_k. The branch's other weight matrices get the same law without that factor. Their standard deviation
    over all layers together does not change. Limits need one law for all of a branch's weights: a smooth
    output after independent inner weights has another limit. Every role is independent of the others. Biases
    of output projections become zero. Norms, embeddings, other biases and the gains of branches do not
    change; the result names those that keep a branch from its scale. Nothing is written unless every argument
    is right.

    Args:
        model: Any module with residual branches, its weights already initialised.
        hurst: For `FractionalBrownian(hurst)`.
        process: A weight law: `Brownian()` (the default), `IID(law)`, `SmoothGaussian(length_scale)` or
            `FractionalBrownian(hurst)`. Give one of the two.
        exponent: Exponent of the depth, at least 0; the law's critical exponent if left out: 1/2, 1 or
            max(H, 1/2).
        gain: Gain of the output projections, more than 0. With 1, inputs of unit variance become outputs of
            variance L^(-2 exponent).
        weights: "all", or "output" for the output projections alone. Inner parameters whose mean is not 0,
            such as the decay rates of a state space model, do not change; the result names them.
        biases: Biases of the output projections, "zero" or "keep". L^-exponent does not multiply a bias, and
            `torch.nn.Linear` starts it at random. With a bias that is not small the branch is too large, and
            the result says so.
        batch: Input with which the branches are found, as in `find_branches`.
        blocks: Patterns of the modules that hold the branches, as in `find_branches`.
        seed: An integer, or a generator to draw from. The same integer means the same weights in every dtype
            and on every device.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value, where no residual branches are found, or none has two layers. Also for
            tied layers, parametrized weights, tensors on the device meta, inner weights that are not finite,
            and where a dtype cannot hold numbers of this size.

    NOT checked: what a branch does between its weights. The limits that the result names are proved for the
    recursions of the papers, not for normalisation or attention.

    Examples:
        >>> import torch, deeplimit as dl
        >>> layer = torch.nn.TransformerEncoderLayer(32, 4, 64, norm_first=True, batch_first=True)
        >>> model = torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
        >>> done = dl.init.residual_(model, hurst=0.7, batch=torch.zeros(1, 5, 32))
        >>> done.limit, done.exponent
        ('young', 0.7)
    """
    given = {**locals()}
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {validation.named(model)}.")
    model = getattr(model, "_orig_mod", model)  # what torch.compile made it from, which shares the weights
    law = _law(hurst, process)
    power = critical_exponent(law) if exponent is None else validation.real(exponent, "exponent", minimum=0.0)
    factor = validation.real(gain, "gain", above=0.0)
    kinds = WEIGHTS[validation.choice(weights, "weights", tuple(WEIGHTS))]
    cleared = validation.choice(biases, "biases", ("keep", "zero")) == "zero"
    streams_of(seed)
    parts, heads = find_parts(model, batch, blocks)
    tensors: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    notes: list[str] = []
    stacks = []
    for stack in stacks_of(parts):
        if len(stack) + heads[stack[0].branch.stream] > 1:
            stacks.append(stack)
        else:
            notes.append(
                f"{stack[0].branch.name} is left as it was: the only branch of its kind, and a law across"
                " layers needs two."
            )
    if not stacks:
        raise ValueError(
            f"no two residual branches of {type(model).__name__} are of one kind; found"
            f" {', '.join(part.branch.name for part in parts[:8])}. A law across layers needs at least two"
            " layers."
        )
    by_stack = [
        roles_of(stack, heads[stack[0].branch.stream], tensors, kinds, _tables(model)) for stack in stacks
    ]
    roles = [role for found in by_stack for role in found]
    _check_tensors(roles, tensors)
    for stack, found in zip(stacks, by_stack, strict=True):
        if len(stack) > 1 and all(len(role.positions) == 1 for role in found if role.part == "output"):
            raise ValueError(
                f"the output projections of {stack[0].branch.kind} have no shape and name in common between"
                f" layers, such as {stack[0].branch.output[0]} and {stack[1].branch.output[0]}; no law can"
                " run across them."
            )
    plans = [_plan(model, role, power, factor) for role in roles]
    structured = [
        plan for role, plan in zip(roles, plans, strict=True) if role.part == "inner" and _is_structured(role)
    ]
    done = []
    with all_or_nothing(tensors.values()):
        for number, (role, plan) in enumerate(zip(roles, plans, strict=True)):
            if plan.standard_deviation == 0.0:
                notes.append(
                    f"{role.name} is left as it was, all zeros: inner weights keep their standard deviation."
                )
                continue
            if plan in structured:
                notes.append(
                    f"{role.name} is left as it was: its mean is not 0, so it is not a centred random weight."
                )
                continue
            layers = list(zip(role.positions, role.tensors, strict=True))
            write_layers(law, role.depth, layers, plan.standard_deviation, streams_of(seed, number))
            done.append(plan)
        notes += _biases(model, roles, cleared)
    notes += _notes(stacks, roles, tensors, weights)
    report = ResidualInitialisation(
        model=type(model).__name__,
        roles=tuple(done),
        notes=tuple(notes),
        scaled_further=any(part.multiplier != 1 or (part.branch.gains and part.gain != 1) for part in parts),
        **shared_fields(law, power, whole=True),
    )
    return report.called_by("init.residual_", given)


@contextlib.contextmanager
def all_or_nothing(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Put all tensors back where the block fails, an interrupt included; a copy of them is held meanwhile."""
    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    except BaseException:
        with torch.no_grad():
            for tensor, numbers in before:
                tensor.copy_(numbers)
        raise


def find_parts(
    model: nn.Module, batch: Any, blocks: str | Sequence[str] | None
) -> tuple[tuple[Part, ...], tuple[int, ...]]:
    """Return the model's branches with what scales them, and per stream the blocks that open it.

    Global generators and the model are left as they were.
    """
    with seeded(0):
        found = layout(record(model, as_batch(model, batch)), blocks)
    return found.parts, found.heads


def _tables(model: nn.Module) -> set[str]:
    """Return the names of parameters that are looked up, not multiplied by."""
    tables = [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
    ]
    return {f"{path}.{name}" for path, module in tables for name, _ in module.named_parameters()}


def _law(hurst: float | None, process: WeightLaw | None) -> WeightLaw:
    if hurst is not None and process is not None:
        raise ValueError(
            f"got hurst={validation.named(hurst)} and process={validation.named(process)}; give hurst or"
            " process, not both."
        )
    if hurst is not None:
        return law_across_layers(FractionalBrownian(hurst))
    return Brownian() if process is None else law_across_layers(process)


def _check_tensors(roles: Sequence[Role], tensors: dict[str, Tensor]) -> None:
    """Refuse what cannot be written, or not without changing something else."""
    written = [
        (name, tensor) for role in roles for name, tensor in zip(role.parameters, role.tensors, strict=True)
    ]
    for name, tensor in written:
        stored_weight(tensor, name)
        if _is_part(name, tensors):
            raise ValueError(
                f"{name} is a part of a parametrized weight, which is not what the branch multiplies by; take"
                " the parametrization off first (torch.nn.utils.parametrize.remove_parametrizations)."
            )
    names = {name for name, _ in written}
    storages = {tensor.untyped_storage().data_ptr() for _, tensor in written}
    others = [(name, tensor) for name, tensor in tensors.items() if name not in names]
    everything = written + [pair for pair in others if pair[1].untyped_storage().data_ptr() in storages]
    for first, second in sharing_memory([tensor for _, tensor in everything]):
        if min(first, second) >= len(written):
            continue
        one, other = everything[first][0], everything[second][0]
        what = (
            f"{one} and {other} are tied, one tensor in two places"
            if one != other
            else f"{one} is tied: in several layers"
        )
        raise ValueError(
            f"{what}: no law across the layers can give them different values. Untie them first."
        )


def _is_part(name: str, tensors: dict[str, Tensor]) -> bool:
    """Whether a parameter is what a parametrization, weight norm or spectral norm computes a weight from."""
    whole, separator, _ = name.rpartition("_")
    norm = (
        bool(separator)
        and name in (f"{whole}_g", f"{whole}_v")
        and f"{whole}_g" in tensors
        and f"{whole}_v" in tensors
    )
    return "parametrizations" in name.split(".") or norm or name.endswith("weight_orig")


def _plan(model: nn.Module, role: Role, exponent: float, gain: float) -> RoleInitialisation:
    before = (
        sum(float(tensor.detach().double().square().mean()) for tensor in role.tensors) / len(role.tensors)
    ) ** 0.5
    inputs = None
    if role.part == "output":
        inputs = fan_in(model, role.parameters[0], role.tensors[0])
        standard_deviation = float(role.depth) ** -exponent * gain / inputs**0.5
    else:
        if not math.isfinite(before):
            raise ValueError(
                f"{role.name} holds NaN or infinity in some layer: inner weights keep their standard"
                " deviation; initialise them first."
            )
        standard_deviation = before
    if standard_deviation > 0.0:
        for name, tensor in zip(role.parameters, role.tensors, strict=True):
            representable(standard_deviation, tensor.dtype, name)
    return RoleInitialisation(
        role=role.name,
        stream=role.stream,
        part=role.part,
        depth=role.depth,
        layers=tuple(position + 1 for position in role.positions),
        shape=tuple(role.tensors[0].shape),
        fan_in=inputs,
        standard_deviation=standard_deviation,
        before=before,
    )


def _is_structured(role: Role) -> bool:
    """Whether the entries of no layer have mean 0: decay rates, an identity, not centred draws."""
    scores = []
    for tensor in role.tensors:
        values = tensor.detach().double()
        size = values.square().mean().sqrt().clamp_min(1e-300)
        scores.append(float(values.mean().abs() / size) * math.sqrt(values.numel()))
    return min(scores) > STRUCTURED


def _biases(model: nn.Module, roles: Sequence[Role], cleared: bool) -> list[str]:
    """Set the biases of output projections to zero if asked; return notes on those that are not."""
    notes = []
    for role in roles:
        if role.part != "output":
            continue
        names = [name.removesuffix("weight") + "bias" for name in role.parameters if name.endswith("weight")]
        found = [bias for name in names if (bias := _parameter(model, name)) is not None]
        if cleared:
            for bias in found:
                bias.detach().zero_()
        size = max((float(bias.detach().double().square().mean()) ** 0.5 for bias in found), default=0.0)
        if size > 0.0:
            notes.append(
                f"{role.name.removesuffix('weight')}bias has a root mean square of up to {size:.3g}, which"
                ' L^-exponent does not reach: biases="zero" clears it.'
            )
    return notes


def _parameter(model: nn.Module, name: str) -> Tensor | None:
    path, _, own = name.rpartition(".")
    return dict(model.get_submodule(path).named_parameters(recurse=False)).get(own)


def _as_power(factors: Sequence[float], layers: int) -> str:
    """Return that a number is a power of the depth, where it is one that people write."""
    if len(factors) > 1 or factors[0] <= 0 or layers < 2:
        return ""
    power = -math.log(factors[0]) / math.log(layers)
    if min(abs(power - 0.5), abs(power - 1)) > EXACT:
        return ""
    return f", which is {layers}^-{power:.2g}: if it falls so with depth, branches fall by both exponents"


def _notes(
    stacks: Sequence[Sequence[Part]], roles: Sequence[Role], tensors: dict[str, Tensor], weights: str
) -> list[str]:
    """Return what else scales the branches, and what the law could not reach."""
    notes = []
    for stack in stacks:
        kind = stack[0].branch.kind
        gains = [name for part in stack for name in part.branch.gains]
        if any(part.normed for part in stack):
            notes.append(
                f"{kind}: a normalisation follows the output projection and undoes its scale, L^-exponent"
                " too; put the factor on "
                + (f"{gains[0]} and its like." if gains else "the branch in forward.")
            )
        elif gains:
            sizes = [float(tensors[name].detach().double().square().mean()) for name in gains]
            size = (sum(sizes) / len(sizes)) ** 0.5
            notes.append(
                f"{kind} is scaled further by {gains[0]} and its like ({len(gains)} gains, now of root mean"
                f" square {size:.3g}), left as they are."
            )
        if factors := sorted({part.multiplier for part in stack} - {1.0}):
            shown = f"{factors[0]:.3g}" + (f" to {factors[-1]:.3g}" if len(factors) > 1 else "")
            notes.append(
                f"{kind} is also multiplied by {shown} in forward{_as_power(factors, len(stack))};"
                " exponent= and gain= can allow for it."
            )
        if any(part.renormed for part in stack):
            notes.append(
                f"{kind}: the stream is normalised after every sum (post-norm); limits are those of streams"
                " that are not."
            )
    for role in roles:
        if len(role.positions) < role.depth:
            notes.append(
                f"{role.name} of shape {tuple(role.tensors[0].shape)} is in {len(role.positions)} of"
                f" {role.depth} layers only; they have the law's values at these layers."
            )
    if weights == "output":
        notes.append("Only output projections were set; limits need one law for all weights of a branch.")
    return notes
