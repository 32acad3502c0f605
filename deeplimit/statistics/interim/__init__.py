"""Adaptive effort: a verb looks at growing sizes until its verdict stands or a budget of seconds is spent."""

from deeplimit.statistics.interim.effort import Effort
from deeplimit.statistics.interim.looks import Look, Need
from deeplimit.statistics.interim.sequence import Study, carry_out
from deeplimit.statistics.interim.wishes import Asks, Size, Wish

__all__ = ["Asks", "Effort", "Look", "Need", "Size", "Study", "Wish", "carry_out"]
