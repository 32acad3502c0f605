"""What a page shows as printed, against what is printed."""

import re

import pytest

NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
LEFT_OUT = "…"
SECONDS = re.compile(r", [\d.]+ s$", re.MULTILINE)


def same_but_for_time(shown, printed):
    """Words are the same; numbers, which another processor may round otherwise, nearly; the seconds do not
    matter.
    """
    pair = [SECONDS.sub("", text.strip()).splitlines() for text in (shown, printed)]
    for mine, theirs in zip(*pair, strict=True):
        assert words(mine) == words(theirs)
        for one, other in zip(re.findall(NUMBER, mine), re.findall(NUMBER, theirs), strict=True):
            assert float(one) == pytest.approx(float(other), rel=0.03, abs=0.015)


def words(line):
    return re.sub(r"\s+", " ", re.sub(NUMBER, "#", line))


def shown_in_order(shown, printed):
    """Every line that is shown is printed, in this order; what stands behind "…" in a line is left out."""
    lines = iter(SECONDS.sub("", printed).splitlines())
    for line in filter(None, SECONDS.sub("", shown).splitlines()):
        kept = line.removesuffix(LEFT_OUT).rstrip()
        ends = None if kept == line else len(words(kept))
        found = next((each for each in lines if words(each)[:ends] == words(kept)), None)
        assert found is not None, f"not printed, or not in this place: {line}"
        numbers = re.findall(NUMBER, kept)
        same_but_for_time(" ".join(numbers), " ".join(re.findall(NUMBER, found)[: len(numbers)]))
