"""W1: strong error of res-1 (tanh) at several depths against its neural SDE, everything on the same noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import deeplimit as dl
from benchmarks.timing import Row, Workload, timed


@dataclass(frozen=True)
class Setting:
    """Sizes of the workload."""

    width: int
    paths: int
    depths: tuple[int, ...]
    reference: int


FULL = Setting(40, 256, (16, 32, 64, 128, 256, 512, 1024), 4096)
QUICK = Setting(40, 256, (16, 32, 64, 128), 512)


def by_torchsde(setting: Setting, coarse_first: bool) -> np.ndarray:
    """Return the errors as a user of torchsde would measure them: one shared BrownianInterval, `sdeint` a depth.

    The interval is a tree that remembers what was asked of it: asking for coarse grids first, fine ones last, or telling it
    the finest step beforehand (its `dt`), makes it several times faster than asking naively. Both are timed.
    """
    import torchsde

    sde = dl.res1(setting.width, "tanh").limit()
    y0 = torch.randn(setting.paths, setting.width, generator=torch.Generator().manual_seed(0))
    hint = None if coarse_first else 1 / setting.reference
    size = (setting.paths, setting.width**2)
    motion = torchsde.BrownianInterval(0.0, 1.0, size=size, dtype=torch.float32, entropy=0, dt=hint)

    class Products:
        """f and g_prod alone, so that torchsde never builds the (paths, d, d²) diffusion."""

        sde_type, noise_type = "ito", "general"
        f, g_prod = staticmethod(sde.f), staticmethod(sde.g_prod)

    order = [*setting.depths, setting.reference] if coarse_first else [setting.reference, *setting.depths]
    paths = {}
    for depth in order:
        times = torch.linspace(0, 1, depth + 1)
        paths[depth] = torchsde.sdeint(Products(), y0, times, bm=motion, method="euler", dt=1 / depth)
    errors = []
    for depth in setting.depths:
        reference = paths[setting.reference][:: setting.reference // depth]
        distance = torch.linalg.vector_norm(paths[depth] - reference, dim=2).amax(dim=0)
        errors.append(distance.square().mean().sqrt().item())
    return np.array(errors)


def by_deeplimit(setting: Setting, reference: int) -> np.ndarray:
    """Return the errors from `deeplimit.compare`, uncorrected, as torchsde's are."""
    network = dl.res1(setting.width, "tanh")
    report = dl.compare(network, depths=setting.depths, paths=setting.paths, reference=reference)
    return report.raw_errors


def normals(setting: Setting, reference: int) -> None:
    """Draw what the reference needs and nothing else: the floor of any method that draws all d² increments."""
    generator = torch.Generator().manual_seed(0)
    buffer = torch.empty(64, setting.width, setting.width)
    for _ in range(reference * setting.paths // 64):
        buffer.normal_(generator=generator)


def w1(*, quick: bool, repeats: int) -> Workload:
    """Time every alternative in turn and check that they measured the same thing."""
    setting = QUICK if quick else FULL
    doubled = 2 * setting.depths[-1]
    by_deeplimit(QUICK, 256)  # imports and caches are no part of the work
    seconds, mine = timed(lambda: by_deeplimit(setting, setting.reference), repeats)
    rows = [Row(f"deeplimit, same reference ({setting.reference}), all d² normals", seconds, errors=mine.tolist())]
    seconds, near = timed(lambda: by_deeplimit(setting, doubled), repeats)
    note = "the bias correction makes it enough"
    rows.append(Row(f"deeplimit, default reference ({doubled}), all d² normals", seconds, note, near.tolist()))
    seconds, _ = timed(lambda: normals(setting, setting.reference), repeats)
    who = f"floor: torch normals of the reference ({setting.reference}), one core"
    rows.append(Row(who, seconds, "a generator uses one core"))
    for coarse_first in (True, False):
        how = "coarse depths first" if coarse_first else "finest step told"
        who = f"torchsde 'euler', g_prod, one BrownianInterval, {how}"
        seconds, theirs = timed(lambda coarse_first=coarse_first: by_torchsde(setting, coarse_first), 1)
        worst = float(np.abs(theirs / mine - 1).max())
        rows.append(Row(who, seconds, f"errors within {100 * worst:.0f} %", theirs.tolist()))
    words = f"strong error of res-1, tanh, d = {setting.width}, {setting.paths} paths, depths {setting.depths}"
    return Workload("w1", words, tuple(rows))
