"""The sample of broken lines: what may be broken, that it stays the same, and what is counted of it."""

import ast

import pytest

pytest.importorskip("cosmic_ray", reason="the extra dev brings it")
from mutation.sample import sample
from mutation.summary import interval

SOURCE = '''
"""Words, 1 + 1."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import math

def half(x: int | None, *, strict=True) -> "int | float":
    """Return 1 + 1."""
    if x is None:
        raise ValueError(f"x is None: {1 + 1}")
    return [a / 2 for a, _ in zip([x], [0], strict=True)]
'''


@pytest.fixture
def package(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "file.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def test_what_behaviour_shows_is_broken_and_words_and_annotations_are_not(package):
    found = sample(package, "room", 100, seed=1)
    places = {(mutant.line - 1, mutant.before) for mutant in found}
    lines = SOURCE.splitlines()
    assert {line for line, _ in places} == {
        lines.index(text) for text in lines if text.startswith(("def half", "    if x", "    return"))
    }
    for mutant in found:
        ast.parse(SOURCE.replace(mutant.before, mutant.after))
        assert mutant.before != mutant.after


def test_a_larger_sample_continues_a_smaller_one_and_lines_may_be_added(package):
    few, many = (sample(package, "room", size, seed=1) for size in (3, 5))
    assert many[:3] == few
    assert sample(package, "room", 3, seed=2) != few
    (package / "room" / "file.py").write_text(SOURCE.replace("import math", "import math\n    import cmath"))
    assert [mutant.key for mutant in sample(package, "room", 3, seed=1)] == [mutant.key for mutant in few]


def test_a_share_has_its_exact_interval():
    """Clopper and Pearson: of 10 of 10 the lower end has 0.975 = 1 - p^10; of 5 of 10 it is symmetric."""
    assert interval(10, 10) == (pytest.approx(0.025**0.1), 1.0)
    low, high = interval(5, 10)
    assert low + high == pytest.approx(1.0)
    assert low == pytest.approx(0.187, abs=5e-4)
