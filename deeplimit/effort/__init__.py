"""Adaptive effort: a verb looks at growing sizes until its verdict stands or a budget of seconds is spent."""

from deeplimit.effort.effort import Effort, Replay
from deeplimit.effort.looks import Look, Need
from deeplimit.effort.sequence import Study, carry_out
from deeplimit.effort.wishes import Asks, Size, Wish

__all__ = ["Asks", "Effort", "Look", "Need", "Replay", "Size", "Study", "Wish", "carry_out"]
