"""The scoreboard: every statement that the library rests on, measured, each beside a wrong limit that must be
caught.
"""

from deeplimit.scoreboard.report import RowResult, Scoreboard
from deeplimit.scoreboard.runs import validate

__all__ = ["RowResult", "Scoreboard", "validate"]
