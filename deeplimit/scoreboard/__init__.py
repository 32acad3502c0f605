"""The scoreboard: every statement that the library rests on, measured, each beside a wrong limit that must be
caught.
"""

from deeplimit.scoreboard.report import RowResult, Scoreboard
from deeplimit.scoreboard.rows import Row, rows
from deeplimit.scoreboard.runs import validate

__all__ = ["Row", "RowResult", "Scoreboard", "rows", "validate"]
