"""Strong error at several depths against the limit, on shared noise: W1 (res-1, Proposition 11) and Theorem
4.4.

A comparison by deeplimit beside the same by torchsde. The ratio that counts is to the *fastest* way to ask
torchsde.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import deeplimit as dl
from benchmarks import with_diffrax, with_torchsde
from benchmarks.optional import compiled_kernel, optional, without_compiled_kernel
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, timed, timed_in_turn
from benchmarks.with_torchsde import NOTHING_TOLD, ORDERS, Setting
from deeplimit.judge.convergence import CompareReport

DEPTHS = (16, 32, 64, 128, 256, 512, 1024)
W1 = Setting(40, 256, DEPTHS, 4096)
W1_QUICK = Setting(40, 256, DEPTHS[:5], 512)
THEOREM_4_4 = Setting(10, 256, DEPTHS, 4096)
THEOREM_4_4_QUICK = Setting(10, 384, DEPTHS[:5], 1024)
DIFFRAX_PART = ((16, 32), 64)
"""Depths and reference that diffrax is timed on; it would take a quarter of an hour for all of W1."""
MATRIX_VARIANCE, BIAS_VARIANCE = 0.05, 0.25


def res1(setting: Setting) -> dl.ResidualNetwork:
    """Return W1's network."""
    return dl.res1(setting.width, "tanh")


def inner(setting: Setting) -> dl.ResidualNetwork:
    """Return the network of Theorem 4.4, whose covariances are scalar."""
    return dl.inner(setting.width, "scaled_silu", noise=dl.Ito(A=MATRIX_VARIANCE, b=BIAS_VARIANCE))


def compared(
    network: dl.ResidualNetwork, setting: Setting, coupling: str = "auto", reference: int | None = None
) -> CompareReport:
    """Return deeplimit's comparison; `reference` None is its default."""
    return dl.compare(
        network, depths=setting.depths, paths=setting.paths, coupling=coupling, reference=reference
    )


def w1_by_torchsde(torchsde: object, setting: Setting, order: str) -> np.ndarray:
    """Return W1's errors as measured with torchsde."""
    return with_torchsde.errors(torchsde, with_torchsde.NeuralSDE(), setting, setting.width**2, order)


def theorem_4_4_by_torchsde(torchsde: object, setting: Setting, order: str) -> np.ndarray:
    """Return the errors under Theorem 4.4 as measured with torchsde."""
    sde = with_torchsde.ScaledSiluSDE(MATRIX_VARIANCE, BIAS_VARIANCE)
    network = with_torchsde.inner_network(MATRIX_VARIANCE, BIAS_VARIANCE)
    return with_torchsde.errors(torchsde, sde, setting, setting.width**2 + setting.width, order, network)


def agreement(ours: CompareReport, theirs: np.ndarray) -> tuple[float, float]:
    """Return the largest relative difference of the errors, before any correction, and the largest in
    standard errors.

    The noises are different draws, so both estimates are off by their own sampling errors, which are equal.
    """
    difference = np.abs(theirs - ours.raw_errors)
    sampling = np.sqrt(2.0) * ours.standard_errors * ours.raw_errors / ours.errors
    return float((difference / ours.raw_errors).max()), float((difference / sampling).max())


def agreement_in_words(ours: CompareReport, theirs: np.ndarray) -> str:
    """Return how far the errors agree; loudly where they do not, since then something else was timed."""
    relative, standard = agreement(ours, theirs)
    found = "" if standard < 6 else ": NOT THE SAME THING"
    return f"errors within {100 * relative:.1f} % of deeplimit's, {standard:.1f} standard errors{found}"


def normals(steps: int, *shapes: tuple[int, ...]) -> None:
    """Draw normals of these shapes at each step, into the same memory, and nothing else."""
    generator = torch.Generator().manual_seed(0)
    buffers = [torch.empty(*shape) for shape in shapes]
    for _ in range(steps):
        for buffer in buffers:
            buffer.normal_(generator=generator)


def _own_rows(
    network: dl.ResidualNetwork, setting: Setting, repeats: int, more: dict[str, Callable[[], CompareReport]]
) -> list[Row]:
    """Return deeplimit's rows: as it comes, without its compiled kernel where it has one, and `more`."""
    works = {"deeplimit": lambda: compared(network, setting), **more}
    if compiled_kernel()[0] is not None:
        works["deeplimit, without its compiled kernel (no numba)"] = lambda: _plain(network, setting)
    first = {
        who: timed(work, 1)[0] for who, work in works.items()
    }  # imports, caches and compilation are no part of the work
    timings = timed_in_turn(list(works.values()), repeats)
    return [
        Row(
            who,
            seconds,
            f"{in_short(report)}; its first call {first[who]:.2g} s",
            report.raw_errors.tolist(),
            OURS,
        )
        for who, (seconds, report) in zip(works, timings, strict=True)
    ]


def in_short(report: CompareReport) -> str:
    """Return how a report drew its noise and solved its limit, in a few words."""
    return f"{report.coupling.split(':')[0]}, {report.reference.split(',')[0]}"


def _plain(network: dl.ResidualNetwork, setting: Setting) -> CompareReport:
    with without_compiled_kernel():
        return compared(network, setting)


def _torchsde_rows(
    run: Callable[[object, Setting, str], np.ndarray],
    network: dl.ResidualNetwork,
    setting: Setting,
    naive: Setting | None,
) -> tuple[list[Row], list[str]]:
    """Return a row for each order of asking, or none and why; the naive one is timed on `naive`, and scaled
    by its steps.

    Without `naive` there is time for the fastest order alone. Its time a step grows with the tree, so that
    scaling is in torchsde's favour; from a small part it would say nothing.
    """
    torchsde, why = optional("torchsde", "pip install torchsde")
    if torchsde is None:
        return [], [why]
    rows = []
    for order in ORDERS if naive is not None else ORDERS[:1]:
        part = naive if naive is not None and order == NOTHING_TOLD else setting
        seconds, theirs = timed(lambda order=order, part=part: run(torchsde, part, order), 1)
        note = agreement_in_words(compared(network, part, reference=part.reference), theirs)
        if part != setting:
            note = f"{part.steps} of {setting.steps} steps, scaled; {note}"
        who = f"torchsde 'euler', reference {setting.reference}, {order}"
        rows.append(Row(who, seconds * setting.steps / part.steps, note, theirs.tolist()))
    return rows, []


def a_part(setting: Setting) -> Setting:
    """Return a setting with an eighth of the reference's steps, and the depths that go with it."""
    reference = setting.reference // 8
    depths = tuple(depth for depth in setting.depths if 2 * depth <= reference)
    return Setting(setting.width, setting.paths, depths, reference)


def _diffrax_rows(network: dl.ResidualNetwork, setting: Setting) -> tuple[list[Row], list[str]]:
    """Return diffrax's row, scaled from a part, or none and why: it is no dependency of deeplimit's."""
    diffrax, why = optional("diffrax", "pip install diffrax")
    if diffrax is None:
        return [], [why]
    depths, reference = DIFFRAX_PART
    part = Setting(setting.width, setting.paths, depths, reference)
    theirs, seconds = with_diffrax.errors(diffrax, setting, part)
    same = compared(network, part, reference=reference)
    note = f"{part.steps} of {setting.steps} steps, scaled; {agreement_in_words(same, theirs)}"
    return [Row("diffrax Euler, VirtualBrownianTree, jit and vmap", seconds, note, theirs.tolist())], []


def _targets(rows: list[Row], torchsde: list[Row], times: float) -> list[Target]:
    if not torchsde:
        return []
    fastest = min(row.seconds for row in torchsde if NOTHING_TOLD not in row.who)
    return [
        Target(
            "times as long that torchsde takes, asked in its fastest order",
            fastest / rows[0].seconds,
            at_least=times,
        )
    ]


def w1(*, quick: bool, repeats: int) -> Workload:
    """Time W1: res-1 with tanh against its neural SDE."""
    setting = W1_QUICK if quick else W1
    network = res1(setting)
    rows = _own_rows(
        network,
        setting,
        repeats,
        {
            f"deeplimit, torchsde's reference ({setting.reference})": lambda: compared(
                network, setting, "auto", setting.reference
            ),
            f"deeplimit, all d² increments, same reference ({setting.reference})": lambda: compared(
                network, setting, "pathwise", setting.reference
            ),
        },
    )
    theirs, skipped = _torchsde_rows(w1_by_torchsde, network, setting, None if quick else a_part(setting))
    others, missing = _diffrax_rows(network, setting)
    steps = 2 * setting.depths[-1]  # deeplimit's default reference
    floor, _ = timed(lambda: normals(steps, (setting.paths, setting.width)), max(5, repeats))
    rows += theirs + others
    rows.append(
        Row(
            f"floor: the d normals of each of {steps} reference steps, one core",
            floor,
            "a generator is serial",
            None,
            FLOOR,
        )
    )
    targets = _targets(rows, theirs, 100)
    targets.append(
        Target("times as long as the floor that deeplimit takes", rows[0].seconds / floor, at_most=5)
    )
    words = (
        f"strong error of res-1, tanh, d = {setting.width}, {setting.paths} paths, depths {setting.depths}"
    )
    return Workload(
        "w1", words, tuple(rows), settings_of(setting), tuple(targets), (*skipped, *missing, *absent())
    )


def theorem_4_4(*, quick: bool, repeats: int) -> Workload:
    """Time the diffusive limit of Theorem 4.4, whose network is no Euler scheme: it is looped over layer by
    layer.
    """
    setting = THEOREM_4_4_QUICK if quick else THEOREM_4_4
    network = inner(setting)
    steps = 4 * setting.depths[-1]  # deeplimit's default reference here
    more = {"deeplimit, all d² + d increments": lambda: compared(network, setting, "pathwise")}
    rows = _own_rows(network, setting, repeats, more)
    theirs, skipped = _torchsde_rows(theorem_4_4_by_torchsde, network, setting, None if quick else setting)
    shape = (setting.paths, setting.width)
    floor, _ = timed(lambda: normals(steps, shape, shape), max(5, repeats))
    rows += theirs
    who = f"floor: the 2d normals of each of {steps} reference steps, one core"
    rows.append(Row(who, floor, "d for the weights, d for the biases", None, FLOOR))
    words = (
        f"Theorem 4.4, 2 SiLU, d = {setting.width}, variances {MATRIX_VARIANCE} and {BIAS_VARIANCE},"
        f" {setting.paths} paths, depths {setting.depths}"
    )
    targets = tuple(_targets(rows, theirs, 50))
    return Workload("theorem-4-4", words, tuple(rows), settings_of(setting), targets, (*skipped, *absent()))


def settings_of(setting: Setting) -> dict[str, object]:
    """Return what must be equal before ratios are compared."""
    return {
        "width": setting.width,
        "paths": setting.paths,
        "depths": setting.depths,
        "reference": setting.reference,
    } | {"compiled kernel": compiled_kernel()[0] is not None}


def absent() -> list[str]:
    """Return the lines on what this table lacks."""
    _, kernel = compiled_kernel()
    return [kernel] if kernel else []
