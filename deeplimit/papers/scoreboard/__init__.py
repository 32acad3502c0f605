"""The scoreboard: every theorem checked numerically, with a deliberately wrong limit to be rejected."""

from deeplimit.papers.scoreboard.report import RowResult, Scoreboard
from deeplimit.papers.scoreboard.runs import validate

__all__ = ["RowResult", "Scoreboard", "validate"]
