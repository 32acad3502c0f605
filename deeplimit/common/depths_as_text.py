"""Depths as a text, such as 4:32:x2, in commands and options of other tools; imports nothing heavy."""

from __future__ import annotations

import re

MOST_DEPTHS = 64


def parse_depths(text: str, name: str = "--depths") -> list[int]:
    """Return the depths that '16:1024:x2', '100:500:+100' or '10,15,27,100' stand for.

    `name` is what messages call the option. The first text multiplies by 2 while it is at most 1024, the
    second adds 100. Raises ValueError for any other text, and for more than 64 depths.

    Examples:
        >>> parse_depths("4:32:x2"), parse_depths("4:12:+4"), parse_depths("4, 9")
        ([4, 8, 16, 32], [4, 8, 12], [4, 9])
    """
    spans = re.fullmatch(r"(\d{1,12}):(\d{1,12}):([x+])(\d{1,12})", text.replace(" ", ""))
    if spans is None:
        if re.fullmatch(r"\d{1,12}(,\d{1,12})*", text.replace(" ", "")) is None:
            raise ValueError(f"{name} must look like 16:1024:x2, 100:500:+100 or 10,15,27,100; got {text!r}.")
        return [int(item) for item in text.replace(" ", "").split(",")]
    first, last, kind, by = int(spans[1]), int(spans[2]), spans[3], int(spans[4])
    if first < 1 or by < (2 if kind == "x" else 1) or last < first:
        raise ValueError(
            f"{name} {text!r} does not grow: use first:last:xFACTOR or first:last:+STEP with first < last, "
            "first at least 1, FACTOR at least 2, "
            "STEP at least 1."
        )
    depths = [first]
    while (following := depths[-1] * by if kind == "x" else depths[-1] + by) <= last:
        depths.append(following)
        if len(depths) > MOST_DEPTHS:
            raise ValueError(f"{name} {text!r} names more than {MOST_DEPTHS} depths; take larger steps.")
    return depths
