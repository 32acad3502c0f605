"""`study`: the user's training at several depths and seeds, and what its layers are as functions of depth."""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default, seeded
from deeplimit.common.measurement import Measurement, Progress, Running
from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.specification import describe
from deeplimit.common.store import Store
from deeplimit.common.verdict import LayersVerdict, RegimeVerdict
from deeplimit.trained.diagnosis.hypotheses import NEURAL
from deeplimit.trained.diagnosis.layer_families import SameLayersError
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.measured import MeasuredNetwork
from deeplimit.trained.diagnosis.network_report import SHUFFLED, UNTRAINED, Examined
from deeplimit.trained.diagnosis.networks_of_sweep import networks_of
from deeplimit.trained.diagnosis.norms import LEAST_LAYERS
from deeplimit.trained.diagnosis.slopes import LEAST_DEPTHS
from deeplimit.trained.diagnosis.stacks import WEIGHTS
from deeplimit.trained.diagnosis.study_power import depths_that_tell, study_power
from deeplimit.trained.diagnosis.study_report import DURING, TRAINED, StudyReport, StudyRow
from deeplimit.trained.diagnosis.sweep import judge_networks
from deeplimit.trained.diagnosis.sweep_report import Null
from deeplimit.version import versions

CHECKPOINT = "checkpoint"
"""What a training function calls the argument by which it is given a function of the model and the step."""
KINDS = (TRAINED, UNTRAINED, SHUFFLED)
"""The networks of one block: as trained, as the factory made it, and trained with its layers shuffled."""
Kept = dict[str, MeasuredNetwork]
"""What is kept of one training: invariants by kind of network and by step, and no weights."""
STEP = "step "
"""Before the number of a step, this is the kind of a network that is not yet trained."""


@by_default
def study(
    factory: Callable[[int], nn.Module],
    train: Callable[..., nn.Module],
    depths: Sequence[int],
    seeds: int | Sequence[int] = 3,
    *,
    batch: Any = None,
    layers: str | None = None,
    confidence: float = 0.95,
    device: str | torch.device = "cpu",
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> StudyReport:
    """Train networks of several depths and seeds with your own loop, and say what their layers are.

    Every network is measured as the factory makes it, after training, and with its trained layers shuffled.
    What is kept are invariants: products of layers of what hidden permutations leave alone, and no weights.

    Args:
        factory: function of the depth L that returns an untrained module. torch's global generator is seeded
            before each call, by depth and seed: networks of two depths must not share draws.
        train: function (model, depth, seed) that trains the module and returns it; torch's global generator
            is seeded as well, and put back after. If it has a fourth argument `checkpoint`, it gets there a
            function (model, step) to call during training, with steps that increase: the invariants of that
            moment are kept, and the report says at which step the order of layers is first real.
        depths: numbers of layers L, at least 6 each. A verdict needs at least three; five decide most. What
            depths and seeds cannot decide is logged before training, as `study_power` says it.
        seeds: how many networks per depth, or their seeds. Networks of one depth are pooled.
        batch: input of a module, as in `diagnose`; made up if left out.
        layers: name of the layers with {} for their number, where names leave it open.
        confidence: level of the intervals.
        device: where modules are moved before training: "cpu" or "cuda".
        workers: number of threads; trainings run one after the other, for they share torch's generator.
        executor: any `concurrent.futures.Executor`, or a Dask client, that trains networks side by side.
        store: file, or `Store`, that keeps the invariants of every finished network: a call made again trains
            only what is missing, and more seeds or depths extend it.
        progress: function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A `StudyReport`: one table over depths with trained, untrained and shuffled networks.

    Raises:
        TypeError: for arguments of another kind, and where factory or train returns no module.
        ValueError: for values out of range, and for modules without layers that can be compared over depth.

    Not checked: that training has converged, that it is the same at all depths, and that train takes its
    random numbers from torch's global generator or from the seed.

    Examples:
        >>> import torch, deeplimit as dl
        >>> def factory(depth):
        ...     return torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(depth)))
        >>> def train(model, depth, seed):
        ...     with torch.no_grad():
        ...         for k, layer in enumerate(model):
        ...             layer.weight.copy_(torch.eye(5) + torch.ones(5, 5) * k / depth)
        ...     return model
        >>> report = dl.study(factory, train, [8, 16], seeds=1, progress=False)
        >>> [(row.network, row.depth, row.is_ordered) for row in report.rows][:3]
        [('trained', 8, True), ('trained', 16, True), ('untrained', 8, False)]
    """
    given = {**locals()}
    validation.factory(factory, "factory", "a function of the depth that makes a module")
    validation.function(train, "train", "a function (model, depth, seed) that returns the trained module")
    if not (validation.takes(train, 3) or _takes_checkpoint(train)):
        raise TypeError(
            "train must be a function of (model, depth, seed); got one that takes other arguments."
        )
    if not validation.takes(factory, 1):
        raise TypeError("factory must be a function of the depth alone; got one that takes other arguments.")
    if isinstance(seeds, Mapping):
        raise TypeError(
            f"seeds must be a number of networks per depth, or their seeds; got {validation.named(seeds)}."
            " All depths have the same ones."
        )
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        chosen = tuple(range(validation.integer(seeds, "seeds", minimum=1)))
    else:
        named = validation.entries(seeds, "seeds", "a number of networks per depth, or their seeds")
        chosen = tuple(validation.seed(seed, "every one of seeds") for seed in named)
        if not chosen or len({*chosen}) < len(chosen):
            raise ValueError(f"seeds must be different numbers, at least one; got {list(chosen)}.")
    if layers is not None:
        validation.text(layers, "layers")
    plan = Study(
        factory,
        train,
        tuple(
            validation.integer(
                depth,
                "every one of depths",
                minimum=LEAST_LAYERS,
                hint="Fewer layers show no noise: leave them out.",
            )
            for depth in validation.depths(depths, at_least=1)
        ),
        chosen,
        batch,
        layers,
        device=validation.device(device),
    )
    level, started = validation.probability(confidence, "confidence"), time.perf_counter()
    power = study_power(plan.depths, len(plan.seeds))
    if progress is not False:
        for lack in power.lacks:
            logging.getLogger("deeplimit").warning("study: %s.", lack)
    every = Running.checked(workers, executor, store, progress).measure(plan)
    return _report(plan, every, level, started).called_by("study", given)


@final
@dataclass(frozen=True)
class Study(Measurement[Kept, "list[Kept]"]):
    """The trainings of a study, one block per depth and seed."""

    factory: Callable[[int], nn.Module]
    train: Callable[..., nn.Module]
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    batch: Any = None
    layers: str | None = None

    what = "study"
    carries = "the factory, the training function and the batch"
    side_by_side = False

    @property
    def blocks(self) -> int:
        return len(self._blocks())

    def _blocks(self) -> list[tuple[int, int]]:
        """Return depth and seed of each block; deep ones first, for they take long."""
        return [(depth, seed) for depth in sorted(self.depths, reverse=True) for seed in self.seeds]

    def label(self, block: int) -> str:
        depth, seed = self._blocks()[block]
        return f"depth {depth}, seed {seed}"

    def costs(self) -> list[float]:
        return [depth for depth, _ in self._blocks()]

    def key(self) -> dict[str, Any]:
        """Return what decides a block beside its label, so that more depths or seeds extend a store."""
        return {
            name: describe(value, name)
            for name, value in self._fields().items()
            if name not in ("depths", "seeds")
        }

    def run(self, block: int, tick: Callable[[float], None] | None = None) -> Kept:
        depth, seed = self._blocks()[block]
        with seeded(_own(depth, seed, 0)), validation.noted(f"deeplimit called factory({depth})."):
            model = _module(self.factory(depth), "factory").to(self.device)
        untrained, during = self.measured(model, depth)[0], _Checkpoint(self, depth)
        with (
            seeded(_own(depth, seed, 1)),
            validation.noted(f"deeplimit called train(model, {depth}, {seed})."),
        ):
            more = {CHECKPOINT: during} if _takes_checkpoint(self.train) else {}
            model = _module(self.train(model, depth, seed, **more), "train")
        with validation.noted(f"deeplimit was measuring what train(model, {depth}, {seed}) returned."):
            trained, shuffled = self.measured(model, depth, seed)
        if tick is not None:
            tick(1.0)
        return {TRAINED: trained, UNTRAINED: untrained, SHUFFLED: shuffled} | during.found

    def measured(
        self, model: nn.Module, depth: int, seed: int = 0
    ) -> tuple[MeasuredNetwork, MeasuredNetwork]:
        """Return a network as it is, and with its layers in a random order."""
        try:
            (network,) = networks_of({depth: model}, self.layers, self.batch)
        except SameLayersError as error:  # a tied start, or zeros
            copies = MeasuredNetwork(depth, {}, None, error.reason)
            return copies, copies
        order = torch.randperm(depth, generator=generator(seed, Purpose.LAYER_ORDER, depth))
        return MeasuredNetwork.of(network), MeasuredNetwork.of(network.reordered(order))

    def merge(self, parts: Iterator[Kept]) -> list[Kept]:
        return sorted(parts, key=lambda part: part[TRAINED].depth)

    def write(self, part: Kept) -> dict[str, np.ndarray]:
        return {name: value for kind in part for name, value in part[kind].write(kind).items()}

    def read(self, arrays: Any) -> Kept:
        kinds = dict.fromkeys(name.partition("/")[0] for name in arrays)
        return {kind: MeasuredNetwork.read(arrays, kind) for kind in kinds}


@final
class _Checkpoint:
    """The function that a training calls with its model and the step; it keeps invariants by step."""

    def __init__(self, study: Study, depth: int) -> None:
        self.study, self.depth, self.last = study, depth, -1
        self.found: Kept = {}

    def __call__(self, model: nn.Module, step: int) -> None:
        hint = "Steps of one training increase."
        self.last = validation.integer(step, "step", minimum=self.last + 1, hint=hint)
        self.found[f"{STEP}{self.last}"] = self.study.measured(_model(model), self.depth)[0]


def _takes_checkpoint(train: Callable[..., Any]) -> bool:
    """Return whether a training function has an argument `checkpoint` that is not used otherwise."""
    try:
        argument = inspect.signature(train).parameters.get(CHECKPOINT)
    except ValueError:  # functions written in C may have no signature
        return False
    return argument is not None and argument.default in (inspect.Parameter.empty, None)


def _model(given: object) -> nn.Module:
    if not isinstance(given, nn.Module):
        raise TypeError(f"checkpoint takes the module and the step, got {validation.named(given)} first.")
    return given


def _own(depth: int, seed: int, index: int) -> int:
    """Return a seed of torch's generator, another one at each depth: networks must be independent."""
    stream = generator(seed, Purpose.TRAINED_WEIGHTS, depth, index)
    return int(torch.randint(2**31, (), generator=stream))


def _module(made: object, argument: str) -> nn.Module:
    if not isinstance(made, nn.Module):
        hint = " End it with `return model`, the module that it was given." if argument == "train" else ""
        raise TypeError(f"{argument} must return a module, got {validation.named(made)}.{hint}")
    return made


def _report(plan: Study, every: Sequence[Kept], confidence: float, started: float) -> StudyReport:
    reservations: list[str] = [*_unmoved(every)]
    every, fewest = _different(every, reservations)
    sweeps: list[Null] = []
    rows: list[StudyRow] = []
    for kind in KINDS:
        networks = _unequal([each[kind] for each in every if not each[kind].trouble])
        troubles = [each[kind] for each in every if each[kind].trouble]
        if not networks:
            sweeps.append(Null(kind, LayersVerdict.COPIES, troubles[0].trouble, ()))
            continue
        if troubles:
            told = ", ".join(map(str, sorted({each.depth for each in troubles})))
            reservations.append(f"{kind} networks at L = {told} are left out: {troubles[0].trouble}")
        forms = [[*network.weights] for network in networks]
        if any(form != forms[0] for form in forms):
            raise ValueError(
                f"factory must make networks with the same weights at all depths; got {forms[0]} and"
                f" {next(form for form in forms if form != forms[0])}."
            )
        try:
            found = judge_networks(networks, confidence)
        except ValueError as error:
            sweeps.append(Null(kind, RegimeVerdict.CANNOT_TELL, str(error).rstrip("."), ()))
            continue
        sweeps.append(Null(kind, found.verdict, found.reason, found.findings))
        reservations += [f"{kind}: {text}" for text in found.reservations]
        if kind == TRAINED and found.verdict is RegimeVerdict.CANNOT_TELL:
            reservations += _what_would_tell(plan, networks, found.weight)
        rows += _rows(kind, networks, reservations)
    rows += _course(every, reservations)
    objects = len({row.examined.name for row in rows if row.network == TRAINED})
    reservations += study_power(plan.depths, fewest, objects=max(objects, 1)).lacks
    return StudyReport(
        depths=np.array(sorted(plan.depths)),
        seeds=np.array(plan.seeds),
        sweeps=tuple(sweeps),
        rows=tuple(rows),
        confidence=confidence,
        seconds=time.perf_counter() - started,
        versions=versions(),
        reservations=tuple(dict.fromkeys(reservations)),
    )


def _different(every: Sequence[Kept], reservations: list[str]) -> tuple[list[Kept], int]:
    """Return the trainings without those that repeat another one of their depth, and the fewest of a depth.

    Networks that are equal bit by bit are one network, however many seeds they are filed under.
    """
    different = _unequal([each[TRAINED] for each in every])
    kept = [each for each in every if any(each[TRAINED] is network for network in different)]
    counts = Counter(network.depth for network in different)
    repeated = [
        depth
        for depth, seeds in Counter(each[TRAINED].depth for each in every).items()
        if seeds > counts[depth]
    ]
    if repeated:
        reservations.append(
            f"at depth {', '.join(map(str, repeated))} several seeds have the same trained network, bit by"
            " bit, which counts once: see that neither factory nor train sets torch's seed to the same number"
        )
    return kept, min(counts.values())


def _unequal(networks: Sequence[MeasuredNetwork]) -> list[MeasuredNetwork]:
    """Return the networks without those that are equal to an earlier one of their depth."""
    kept: list[MeasuredNetwork] = []
    for network in networks:
        if not any(network.depth == one.depth and network.same_as(one) for one in kept):
            kept.append(network)
    return kept


def _unmoved(every: Sequence[Kept]) -> Iterator[str]:
    """Yield what speaks against networks that training left bit by bit as they were."""
    same = sorted({each[TRAINED].depth for each in every if each[TRAINED].same_as(each[UNTRAINED])})
    if same:
        depths = ", ".join(map(str, same))
        yield (
            f"at depth {depths} training changed no weight that is compared: look whether `train` trains the"
            " module that it was given, whose parameters require a gradient and are the optimizer's"
        )


def _what_would_tell(plan: Study, networks: Sequence[MeasuredNetwork], name: str) -> Iterator[str]:
    """Yield which depths would tell whether sizes stay, where seeds scatter too much for those there are."""
    logs: dict[int, list[float]] = {}
    for network in networks:
        for weight in network.weights.values():
            if weight.name == name and weight.norms.total > 0:
                logs.setdefault(network.depth, []).append(0.5 * np.log(weight.norms.total / network.depth))
    several = [each for each in logs.values() if len(each) > 1]
    if len(several) < LEAST_DEPTHS:
        return
    scatter = float(np.sqrt(np.mean([np.var(each, ddof=1) for each in several])))
    power = study_power(plan.depths, len(plan.seeds))
    if power.half_width(scatter) < NEURAL:
        return
    told = (
        f"sizes of {name} scatter by {scatter:.1%} among seeds, so that exponents are known to about"
        f" ±{power.half_width(scatter):.2f}, and ±{NEURAL:g} would tell whether sizes stay"
    )
    deeper = depths_that_tell(power, scatter)
    more = "" if deeper is None else ", ".join(map(str, deeper.depths[len(power.depths) :]))
    yield f"{told}. Depths {more} in addition would do" if more else f"{told}: far deeper networks are needed"


def _course(every: Sequence[Kept], reservations: list[str]) -> Iterator[StudyRow]:
    """Yield the rows of all steps, at one level over objects, depths and steps together."""
    steps: dict[int, list[MeasuredNetwork]] = {}
    copies: dict[str, list[str]] = {}
    for depth in sorted({each[TRAINED].depth for each in every}):
        same = [each for each in every if each[TRAINED].depth == depth]
        shared = [kind for kind in same[0] if kind.startswith(STEP) and all(kind in each for each in same)]
        if any(len(each) - len(KINDS) > len(shared) for each in same):
            reservations.append(f"steps at depth {depth} that not all seeds have are left out")
        for kind in shared:
            networks = [each[kind] for each in same]
            if any(network.trouble for network in networks):
                copies.setdefault(kind, []).append(str(depth))
            else:
                steps.setdefault(int(kind.removeprefix(STEP)), []).extend(_unequal(networks))
    for kind, depths in copies.items():
        reservations.append(
            f"{kind}: layers are copies of each other, without an order, at L = {', '.join(depths)}"
        )
    tests = sum(len({network.depth for network in networks}) for networks in steps.values())
    for step in sorted(steps):
        yield from _rows(DURING, steps[step], reservations, step, tests)


def _rows(
    kind: str,
    networks: Sequence[MeasuredNetwork],
    reservations: list[str],
    step: int | None = None,
    tests: int = 0,
) -> Iterator[StudyRow]:
    """Yield what networks of each depth say together, weight by weight; biases have no row.

    The order is judged at one level over all weights, and over `tests` depths and steps.
    """
    depths = sorted({network.depth for network in networks})
    names = [key for key, each in networks[0].weights.items() if not each.name.endswith("bias")]
    for key in names:
        for depth in depths:
            weights = [network.weights[key] for network in networks if network.depth == depth]
            size = float(np.mean([np.sqrt(each.norms.total / depth) for each in weights]))
            gram = LayerGram.pooled([each.gram for each in weights])
            try:
                found = Examined.of(key, gram, WEIGHTS, 0, len(names) * (tests or len(depths)))
            except ValueError as error:
                reservations.append(f"{kind}, {key} at depth {depth}: {str(error).rstrip('.')}")
            else:
                yield StudyRow(kind, depth, size, found, step)
