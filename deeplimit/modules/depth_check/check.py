"""`check_depth`: the same module at several depths, measured and judged; `probe`: one module at one depth."""

from __future__ import annotations

import copy
import dataclasses
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import alone, by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.modules.depth_check.best_rule import best_report
from deeplimit.modules.depth_check.further_draws import draws_needed, seeds_of, together
from deeplimit.modules.depth_check.judgement import report_on
from deeplimit.modules.depth_check.one_depth import AtOneDepth, measure_module
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.rules import AUTO, RULES, Rule, rule_of
from deeplimit.modules.depth_check.runs import Depths, Factory
from deeplimit.modules.depth_check.scaling import scalings
from deeplimit.modules.depth_check.trained import as_trained, not_an_initialisation, visibly_trained
from deeplimit.modules.depth_check.tried_fixes import tried, tried_on
from deeplimit.modules.trace.batches import as_batch, run


@by_default
def check_depth(
    factory: Factory,
    depths: Sequence[int] = (4, 8, 16, 32),
    *,
    batch: Any = None,
    expected: float | str | Rule | None = None,
    blocks: str | Sequence[str] | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    tolerance: float = 0.1,
    confidence: float = 0.99,
    seed: int = 0,
    device: str | torch.device | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | bool | None = None,
) -> DepthReport:
    """Build a module at several depths and find out how its residual branches scale with depth, before any
    training.

    Every depth is built from the same seed, run forward and backward once, and run forward a second time with
    the same stream for every branch. One depth is in memory at a time. Where nothing but the scatter among
    layers leaves the verdict open, all depths are built again from further seeds, up to seven times, and the
    exponents are fitted to all draws. Lines of code that set findings right are run on every depth, built
    once more, and left out where they fail. Global generators and modules are left as they were.

    A model too large for memory is built under `torch.device("meta")`. Its initialisers then run when a
    weight is needed, and 3 GiB of weights are in memory at a time. The report is the same to the last bit.

    Args:
        factory: Function of a depth that returns an `nn.Module` with that many blocks; `deeplimit.sweep`
            makes one from a configuration.
        depths: At least two different depths, as `factory` counts them.
        batch: Input of the module: a tensor, a tuple of arguments, a dict of keyword arguments, or a function
            without arguments that returns one of these. If left out, it is made up from the module's
            configuration (transformers, timm) or its first layer.
        expected: Intended scaling. A number is the residual exponent of every branch (0.5 neural SDE, 1
            neural ODE), whatever the constant factors. A published rule by its name ("gpt-2", "completep",
            "mitchell": the page "Is my model's depth scaling right?" has all), or your own `Rule`, states
            factors, too. "auto": the published rule that fits best. None: measure only.
        blocks: Patterns of module names ("model.layers.*"): only additions inside these modules count.
        loss: Function of the module's output that returns a scalar tensor, for the gradient. If left out, a
            random linear functional of the first output that depends on parameters.
        tolerance: Largest accepted distance of an exponent from the expected one. An interval that holds
            the latter has to end within 2.5 tolerances of it, at most 0.25; else "cannot tell".
        confidence: Joint confidence level of the exponents' intervals of all kinds of branches.
        seed: Seed of the generators (torch, numpy, random) while modules are built and run.
        device: "cpu" or "cuda", to which modules are moved; if left out, they stay where the factory puts
            them. A module on the meta device is filled on it, on "cuda" as a whole.
        workers: As elsewhere, but depths run one after the other: modules draw from generators that threads
            share. Changes no bit of the result.
        executor: Any `concurrent.futures.Executor`, or a Dask client, that takes the depths. Changes no bit
            of the result.
        store: A `Store` with a name that keeps finished depths: a call made again measures only the missing
            ones. A store without a name is refused: a factory's code does not say all that it builds.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A `DepthReport`: `ok`, `verdict` ("as expected", "not as expected", "cannot tell"; "measured" if
        nothing was expected), `branches`, `streams`, `findings`.

    Raises:
        TypeError: For a factory that is not a function, or makes something other than a module, and for an
            unknown form of batch.
        ValueError: For too few depths, modules that do not deepen, and where no residual branch is found.

    What `factory` or the module raises comes through, with a note that names the depth.

    Not checked: what training makes of the weights; other batches; scalings of learning rates, which some
    rules need in addition.

    Examples:
        >>> import torch, deeplimit as dl
        >>> def stack(depth):
        ...     layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        ...     return torch.nn.TransformerEncoder(layer, depth)
        >>> report = dl.check_depth(stack, [2, 4, 8], batch=torch.ones(2, 5, 16), expected=0.5)
        >>> report.verdict
        'not as expected'
    """
    started, given = time.perf_counter(), {**locals()}
    if isinstance(depths, torch.Tensor):
        raise TypeError(
            f"depths must be a list of integers such as [4, 8, 16], got {validation.named(depths)}; a batch"
            " is given by its name, batch=."
        )
    checked = validation.depths(depths)
    rule, number = _intended(expected)
    seed = _checked_seed(tolerance, confidence, seed)
    if isinstance(factory, nn.Module):
        raise TypeError(
            f"factory must be a function depth -> nn.Module, got the module {type(factory).__name__} itself:"
            " pass a function that builds it at a given depth, or use dl.probe(model, batch) for one module"
            " at one depth."
        )
    if not callable(factory):
        raise TypeError(f"factory must be a function depth -> nn.Module, got {validation.named(factory)}.")
    running = Running.checked(workers, executor, store, progress)
    if running.store is not None and running.store.name is None:
        raise ValueError(
            f"store= needs a name here, got {str(running.store.path)!r}: a factory may read files and"
            " settings, so that its code alone does not tell two modules apart. Pass"
            " store=deeplimit.Store(path, name='my-model')."
        )
    moved = device is not None
    chosen = validation.device(device) if device is not None else torch.device("cpu")
    networks = Depths(factory, checked, batch, blocks, loss, seed, moved, device=chosen)
    before = None if running.store is None else networks.key()
    measured = running.measure(networks)
    taken = [one for _, one in measured]
    _check_deepens(checked, taken)
    name = measured[-1][0]

    def judged(rule: Rule | None) -> DepthReport:
        return report_on(name, checked, taken, rule, number, tolerance, confidence, seed, started)

    def report_by() -> DepthReport:
        return best_report(RULES.values(), judged) if rule == AUTO else judged(rule)

    report = report_by()
    if further := seeds_of(seed, draws_needed(report)):
        again = dataclasses.replace(networks, further=tuple(further), before=before)
        taken = together(taken, [one for _, one in _afterwards(running).measure(again)])
        report = report_by()

    def forward(model: nn.Module) -> object:
        return run(model.to(chosen) if moved else model, as_batch(model, _made(batch)))

    return tried(report, factory, forward, chosen).called_by("check_depth", given)


@by_default
@alone()
def probe(
    model: nn.Module,
    batch: Any = None,
    *,
    expected: str | Rule | None = None,
    blocks: str | Sequence[str] | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    seed: int = 0,
    trained: bool = False,
) -> DepthReport:
    """Measure the residual branches of one module at one depth: sizes, growth of stream and gradient,
    parts; no exponents.

    Arguments and errors are those of `check_depth`. `expected` can only be a rule that states absolute
    sizes (all but "depth-mup" and "completep"): an exponent needs several depths (ValueError). The
    report's `depths` holds the number of residual branches along the longest stream, since a module does
    not say what it calls its depth.

    With `trained`, the weights are a checkpoint's. Updates and their alignment are those of an ordinary
    forward, with running statistics, and no rule about initialisations is judged (ValueError for
    `expected`). The report says which regime each kind of branch is in, and `largest_updates` names the
    layers that change the stream most. Without `trained`, a rule is not judged ("cannot tell") where scales
    of normalisations are not constant, as no initialisation leaves them.

    Examples:
        >>> import torch, deeplimit as dl
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> dl.probe(torch.nn.TransformerEncoder(layer, 3), torch.ones(2, 5, 16)).depths
        (6,)
    """
    started, given = time.perf_counter(), {**locals()}
    rule, number = _intended(expected)
    seed = _checked_seed(0.1, 0.99, seed)
    if number is not None:
        raise ValueError(
            f"one depth has no exponent to compare with expected={number:g}: use dl.check_depth with a"
            " function depth -> module."
        )
    if rule is not None and rule != AUTO and not rule.absolute:
        raise ValueError(
            f"{rule.name} ({rule.formula}) says how sizes fall with depth, not how large they are, so that"
            " one depth cannot contradict it: use dl.check_depth with a function depth -> module."
        )
    trained = validation.flag(trained, "trained")
    if trained and expected is not None:
        raise ValueError(
            f"expected={expected!r} is a rule about initialisations, and trained=True says that the weights"
            " are none: leave one of the two out."
        )
    name = type(getattr(model, "_orig_mod", model)).__name__
    with validation.noted(f"deeplimit was measuring {name}."):
        taken = measure_module(
            model,
            as_batch(model, _made(batch)),
            blocks=blocks,
            loss=loss,
            seed=seed,
            trained=trained,
        )
    depth = max(stream.branches for stream in taken.streams)

    def judged(rule: Rule | None) -> DepthReport:
        return report_on(name, (depth,), [taken], rule, None, 0.1, 0.99, seed, started)

    stated = (rule for rule in RULES.values() if rule.absolute)
    report = best_report(stated, judged) if rule == AUTO else judged(rule)
    reasons = visibly_trained(model) if rule is not None and not trained else []
    if trained:
        report = as_trained(report)
    elif reasons:
        report = not_an_initialisation(report, reasons)
    report = tried_on(report, model, lambda copied: run(copied, as_batch(copied, _made(batch))))
    return report.called_by("probe", given)


def _afterwards(running: Running) -> Running:
    """Return how further draws are run; a user's function of the fraction done has seen the last of it."""
    shown = running.progress if isinstance(running.progress, bool) or running.progress is None else False
    return dataclasses.replace(running, progress=shown)


def _made(batch: Any) -> Any:
    """Return a batch, made if it is a function that makes it."""
    return batch() if callable(batch) and not isinstance(batch, torch.Tensor) else batch


@by_default
@alone()
def branch_scalars(
    model: nn.Module, batch: Any = None, *, prefix: str = "depth/", blocks: str | Sequence[str] | None = None
) -> dict[str, float]:
    """Return scalars for each kind of residual branch and each stream, to be logged while a module trains.

    "update": size of the update divided by the size of its stream, as a root mean square over layers.
    "alignment": the power of the number of layers with which updates add up on one stream. It is 1/2 while
    layers are independent, as at initialisation. It is 1 if they all push the same way, which an ODE limit
    needs. It is left out if there is one layer, or nothing is added.

    "stream_1/growth": size of the first stream's last state divided by that of its first state, and so on for
    further streams. It is left out if the stream begins at zero.

    Costs three forward passes and no backward pass. Call it in a plain loop; `deeplimit.callbacks` calls it
    in transformers' `Trainer` and in Lightning. It restores the model's mode, buffers, gradients and hooks,
    and the global generators.
    Arguments and errors are those of `find_branches`; `prefix`, a string, begins every key.

    Examples:
        >>> import torch, deeplimit as dl
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> model = torch.nn.TransformerEncoder(layer, 3)
        >>> batch = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
        >>> scalars = dl.branch_scalars(model, batch)
        >>> print(*sorted(scalars)[1:], sep="\\n")
        depth/layers.*.self_attn/update
        depth/layers.*.{linear1,linear2}/alignment
        depth/layers.*.{linear1,linear2}/update
        depth/stream_1/growth
    """
    validation.instance(prefix, "prefix", str, "a string, with which every key begins")
    taken = measure_module(model, as_batch(model, batch), blocks=blocks, backward=False)
    scalars = {}
    for kind in scalings([taken], 0.99):
        scalars[f"{prefix}{kind.kind}/update"] = kind.ratios[0]
        if kind.alignment is not None:
            scalars[f"{prefix}{kind.kind}/alignment"] = kind.alignment
    for number, stream in enumerate(taken.streams, 1):
        if stream.start > 0:
            scalars[f"{prefix}stream_{number}/growth"] = stream.end / stream.start
    return scalars


@by_default
def sweep(build: Callable[..., nn.Module], config: Any, field: str, **fields: Any) -> Factory:
    """Return a factory depth -> module for a model class whose depth is one field of a configuration.

    Args:
        build: What makes the module of a configuration: a class such as transformers' `GPT2LMHeadModel`.
        config: The configuration's class, called with `fields` and the depth; or a configuration, of which
            a copy is changed: a dataclass, a dict, or any object with the attribute `field`.
        field: The field that holds the depth, such as "n_layer".
        **fields: Further fields of the configuration.

    Raises TypeError where `build` cannot be called or `field` is not a text, ValueError where a configuration
    has no such field.

    Examples:
        >>> import torch, deeplimit as dl
        >>> def build(config):
        ...     return torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(config["layers"])))
        >>> len(dl.sweep(build, {"layers": 1}, "layers")(5))
        5
    """
    if not callable(build):
        raise TypeError(
            f"build must be a model class or a function of a configuration, got {validation.named(build)}."
        )
    if not isinstance(field, str):
        raise TypeError(
            "field must be the name of the configuration's field that holds the depth, got"
            f" {validation.named(field)}."
        )
    without = (
        field not in config
        if isinstance(config, Mapping)
        else not callable(config) and not hasattr(config, field)
    )
    if without:
        raise ValueError(
            f"config is {validation.named(config)} without a field {field!r} that could hold the depth."
        )

    def factory(depth: int) -> nn.Module:
        changed = {**fields, field: depth}
        if isinstance(config, Mapping):
            return build({**config, **changed})
        if isinstance(config, type) or (callable(config) and not hasattr(config, field)):
            return build(config(**changed))
        if dataclasses.is_dataclass(config):
            return build(dataclasses.replace(config, **changed))  # type: ignore[type-var]
        copied = copy.deepcopy(config)
        for name, value in changed.items():
            setattr(copied, name, value)
        return build(copied)

    return factory


def _checked_seed(tolerance: float, confidence: float, seed: int) -> int:
    """Check the numbers of a call; return the seed, which may be numpy's, as every generator takes it."""
    validation.real(
        tolerance, "tolerance", above=0.0, maximum=0.25, hint="exponents 1/2 apart must stay apart."
    )
    validation.probability(confidence, "confidence", hint="0.99, say.")
    return validation.seed(seed)


def _intended(expected: object) -> tuple[Rule | Literal["auto"] | None, float | None]:
    if expected is None:
        return None, None
    if isinstance(expected, numbers.Real) and not isinstance(expected, bool):
        return None, validation.real(
            expected, "expected", minimum=0.0, maximum=4.0, hint="residual exponents are 0.5 or 1, say."
        )
    named_auto = isinstance(expected, str) and expected == AUTO
    return AUTO if named_auto else rule_of(expected), None


def _check_deepens(depths: Sequence[int], taken: Sequence[AtOneDepth]) -> None:
    counts = [len(one.branches) for one in taken]
    if len(set(counts)) > 1:
        return
    deepened = [name for name in taken[-1].outside if name not in taken[0].outside]
    if deepened:
        raise ValueError(
            f"modules of the depths {', '.join(map(str, depths))} have {counts[0]} residual branches each,"
            f" and further weights at the larger ones, such as {deepened[0]}, that belong to none: their"
            " output is not added to the state that they read, with +, torch.add or addcmul. Pass blocks= for"
            " the residual blocks, or check a module whose layers are h + f(h)."
        )
    raise ValueError(
        f"factory ignores the depth: at depths {', '.join(map(str, depths))} it built modules with"
        f" {counts[0]} residual branches each. Pass the depth on to the module's number of blocks; with a"
        " configuration, dl.sweep(Model, Config, 'n_layer')."
    )
