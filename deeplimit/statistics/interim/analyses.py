"""What a report says of an adaptive call: the interim analyses that were taken, and what would decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from deeplimit.common.fields import Interval
from deeplimit.common.progress import in_words

MOST_ANALYSES = 6


def share(number: int) -> float:
    """Return the part of a level that analysis `number` (from 0) may spend: 1/2, 1/4, ...; all sum to 1.

    Half of all calls end at an analysis or before the next one, and every analysis is more precise. The
    mean length of the interval that is reported is then near its least (docs/architecture.md).

    Examples:
        >>> [share(number) for number in range(MOST_ANALYSES)]
        [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125]
    """
    return 0.5 ** min(number + 1, MOST_ANALYSES - 1)


@final
@dataclass(frozen=True)
class InterimAnalysis:
    """One interim analysis of an adaptive call.

    Attributes:
        depths: numbers of layers.
        paths: paths; draws of `stability` and `compare_laws`.
        verdict: what it said.
        rule: name of the rule that decided.
        interval: interval of the order or of the growth; NaN where there is none.
        confidence: level of that interval: the interim analyses share the level that was asked for.
        seconds: how long it took.
    """

    depths: tuple[int, ...]
    paths: int
    verdict: str
    rule: str
    interval: Interval
    confidence: float
    seconds: float = field(compare=False)

    def __str__(self) -> str:
        return f"depths {self.depths[0]} to {self.depths[-1]} × {self.paths}: {self.verdict}"


@final
@dataclass(frozen=True)
class RequiredSampleSize:
    """What the next analysis would be, where the verdict is "cannot tell".

    Attributes:
        depths: numbers of layers. paths: paths or draws. seconds: how long it would take, by the analyses so
            far.
    """

    depths: tuple[int, ...]
    paths: int
    seconds: float = field(compare=False)

    def told(self, counted: str) -> str:
        """Return it in words; `counted` says what the paths are called."""
        return (
            f"depths up to {self.depths[-1]} with {self.paths} {counted} may decide, about"
            f" {in_words(max(1.0, self.seconds))}"
        )


def facts(
    looks: Sequence[InterimAnalysis], needs: RequiredSampleSize | None, counted: str
) -> list[tuple[str, str]]:
    """Return the lines of a report on its looks: nothing for a call of fixed size."""
    found = []
    if looks:
        listed = "; ".join(map(str, looks))
        found.append(("looks", f"{len(looks)} of at most {MOST_ANALYSES}, which share the level: {listed}"))
    if needs is not None:
        found.append(("needed", needs.told(counted)))
    return found
