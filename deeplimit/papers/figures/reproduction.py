"""A reproduced figure: numbers, checks against what the paper states, a picture of the numbers."""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import torch

from deeplimit.common import axes as drawing, validation
from deeplimit.common.fields import OneOf, Seconds, Seed
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.store import Store
from deeplimit.common.verdict import ReproductionVerdict
from deeplimit.papers.figures.images import IMAGES
from deeplimit.papers.figures.recipe import Check, Numbers, Recipe
from deeplimit.papers.figures.recipes import RECIPES, on_images
from deeplimit.version import versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PACKAGES = "packages"


@final
@dataclass(frozen=True, eq=False)
class Reproduction(Report):
    """A figure of a paper made again.

    Attributes:
        figure: Its name, such as "marion-fig7".
        title: What it shows.
        quick: Whether it was run at a reduced size.
        checks: The paper's statements, each passed or not.
        findings: What the numbers say beyond them, or against the paper.
        numbers: Everything that the picture shows.
        seed, seconds, versions: How it was run.
        citations: Keys of the works that were used in addition to the paper.
        data: Where images came from, as in `reproduce`.
    """

    kind = "reproduction"
    no_paths = "`numbers` holds all that the figure shows. compare and stability give reports that draw paths"

    figure: Annotated[str, OneOf(tuple(RECIPES))]
    title: str
    quick: bool
    checks: tuple[Check, ...]
    findings: tuple[str, ...]
    numbers: Numbers
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    citations: tuple[str, ...] = ()
    data: Annotated[str, OneOf(tuple(IMAGES))] = PACKAGES

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def verdict(self) -> ReproductionVerdict:
        """Whether the figure was reproduced."""
        return ReproductionVerdict.REPRODUCED if self.passed else ReproductionVerdict.NOT_REPRODUCED

    @property
    def headline(self) -> str:
        """Whether every statement of the paper was found again."""
        size = "quick" if self.quick else "full size"
        return f"{self.figure}: {self.verdict} ({self.title}; {size}, {self.seconds:.1f} s)"

    def _table(self) -> Table:
        return Table(
            (
                Column("test", ["pass" if check.passed else "FAIL" for check in self.checks], left=True),
                Column("stated", [check.stated for check in self.checks], left=True),
                Column("measured", [check.measured for check in self.checks], left=True),
            )
        )

    def _tail(self) -> list[str]:
        return ["Findings:", *(f"- {text}" for text in self.findings)] if self.findings else []

    def _reservations(self) -> tuple[str, ...]:
        return self.findings

    @property
    def _recipe(self) -> Recipe:
        return _recipe(self.figure, self.data)

    def _sources(self) -> list[str]:
        return [self._recipe.paper.citation, *self.citations]

    @property
    def _size(self) -> tuple[float, float]:
        return self._recipe.picture.size

    def _draw(self, axes: Axes) -> None:
        """Draw the figure from its numbers, in panels side by side."""
        recipe = self._recipe
        recipe.picture.draw(axes, self.numbers)
        lines = drawing.fitting(axes, recipe.heading, 10, 2)
        axes.set_title("\n".join(lines), fontsize=drawing.points(axes, 10))


@by_default
def reproduce(
    figure: str,
    *,
    quick: bool = False,
    data: str = PACKAGES,
    seed: int = 0,
    device: str | torch.device = "cpu",
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> Reproduction:
    """Make one figure of a paper again, and check it against what the paper states.

    Args:
        figure: "cohen-fig1" to "cohen-fig8" or "marion-fig1" to "marion-fig15" with "marion-fig9b", or an
            experiment on trained networks that no paper has: "trained-limit", "tied-initialisation",
            "mean-field-training", "trained-transformers", "stop-rule".
        quick: At a reduced size: seconds, up to a minute, instead of minutes, or of hours for figures of
            trained networks.
        data: "packages" for images that come inside packages, 5,000 of MNIST and digits in place of CIFAR-10;
            "openml" for both sets in full, downloaded once by `datasets.openml` into scikit-learn's folder.
            Of figures of networks that are trained on images alone.
        seed: Everything random derives from it.
        device: "cpu" or "cuda".
        workers: Number of threads, by default one per core.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit of the
            result.
        store: File, or `Store`, that keeps finished blocks: a call made again computes only what is missing.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Raises:
        TypeError, ValueError: For a figure that is none of these or has no images, a seed that is no integer,
            an unknown device.
        ConnectionError: If the sets are not in the folder and openml.org does not answer.
        ModuleNotFoundError: If the package that brings the images is missing.

    Examples:
        >>> import deeplimit as dl
        >>> print(dl.reproduce("marion-fig6", quick=True).passed)
        True
    """
    given = {**locals()}
    name = validation.choice(figure, "figure", tuple(RECIPES))
    recipe = _recipe(name, validation.choice(data, "data", tuple(IMAGES)))
    checked_seed = validation.seed(seed)
    place = str(validation.device(device))
    if not isinstance(quick, bool):
        raise TypeError(f"quick must be True or False, got {validation.named(quick)}.")
    started = time.perf_counter()
    with Running.checked(workers, executor, store, progress).shown(figure) as running:
        numbers, checks, findings = recipe.run(quick, checked_seed, place, running)
    report = Reproduction(
        recipe.name,
        recipe.title,
        quick,
        tuple(checks),
        tuple(findings),
        numbers,
        checked_seed,
        time.perf_counter() - started,
        versions(),
        recipe.citations,
        data,
    )
    return report.called_by("reproduce", given)


def _recipe(figure: str, data: str) -> Recipe:
    """Return how a figure is made on these images. Raises ValueError where it has none."""
    if data == PACKAGES:
        return RECIPES[figure]
    found = on_images(IMAGES[data])
    if figure not in found:
        raise ValueError(
            f"data={data!r} is of figures of networks trained on images, {', '.join(found)}; got"
            f" figure={figure!r}. Leave data out."
        )
    return found[figure]
