"""What is to be done about a module's scaling: a list of rules, the first that holds decides."""

from __future__ import annotations

from dataclasses import dataclass

from deeplimit.common.verdict import RecommendationVerdict, RuleByRule
from deeplimit.modules.recommendation.measured import Growth

LARGEST = 30.0
"""Growth of signal or gradient over the whole depth that training stands: a diffusion with updates of the
stream's own size grows by e^½ to e^2, and heavy tails of one draw add a factor."""


@dataclass(frozen=True)
class Evidence:
    """What the verdict rests on: growth at the depth that was asked for, before and after the code.

    `exponents` are those of the branches that have one, each with the one that it needs; `unsound` says of
    streams that no factor of their branches sets right what becomes of them.
    """

    depth: int
    exponents: tuple[tuple[float, float], ...]
    unsound: tuple[str, ...]
    lacking: bool
    code: str
    before: Growth
    after: Growth


def rules(e: Evidence) -> RuleByRule[RecommendationVerdict]:
    """Yield the rules on what is to be done."""
    yield RecommendationVerdict.CHANGE, "is_mended", bool(e.code)
    yield RecommendationVerdict.CANNOT_TELL, "skip_is_wrong", not e.lacking and bool(e.unsound)
    yield RecommendationVerdict.RIGHT, "is_right", not e.lacking and e.before.is_within(LARGEST)
    yield RecommendationVerdict.CANNOT_TELL, "no_line_passed", True
