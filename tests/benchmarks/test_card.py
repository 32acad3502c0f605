"""`make gpu`: it says that no card is there, and one file holds tests, benchmark and card."""

import json

import pytest
import torch

from benchmarks import card
from benchmarks.timing import FLOOR, OURS, Row, Workload

RESULTS = """<testsuites><testsuite>
<testcase classname="a" name="test_one[cuda]"/>
<testcase classname="a" name="test_two[cpu]"><failure message="no"/></testcase>
<testcase classname="b" name="test_three[cuda]"><error message="no"/></testcase>
<testcase classname="b" name="test_four"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a card")
def test_without_a_card_a_line_says_so_and_nothing_is_written(tmp_path, capsys):
    assert card.main(["--out", str(tmp_path / "gpu.json")]) == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_failures_errors_and_skips_are_counted_apart(tmp_path):
    (tmp_path / "tests.xml").write_text(RESULTS)
    assert card.counted(tmp_path / "tests.xml") == {
        "passed": 1,
        "failed": ["a::test_two[cpu]", "b::test_three[cuda]"],
        "skipped": 1,
        "on the card": 2,
    }


@pytest.mark.nightly
def test_the_tests_are_run_in_a_process_of_their_own():
    ran = card.tests("tests/simulation/test_identities.py", "-k", "device or reference")
    assert ran["passed"] >= 1
    assert ran["failed"] == []


@pytest.mark.parametrize(("failed", "code"), [([], 0), (["a::test_two"], 1)])
def test_one_file_holds_card_tests_and_speed(failed, code, monkeypatch, tmp_path, capsys):
    rows = (Row("deeplimit", 2.0, role=OURS), Row("floor: normals", 1.0, role=FLOOR))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(card, "card", lambda: {"name": "a card"})
    monkeypatch.setattr(card, "tests", lambda: {"passed": 3, "failed": failed, "skipped": 0})
    monkeypatch.setattr(card, "gpu", lambda quick, repeats: Workload("gpu", "on a card", rows, {}, ()))
    file = tmp_path / "new" / "gpu.json"
    assert card.main(["--quick", "--out", str(file)]) == code
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert kept["card"] == {"name": "a card"}
    assert kept["tests"]["failed"] == failed
    assert [row["seconds"] for row in kept["benchmark"]["rows"]] == [2.0, 1.0]
    shown = capsys.readouterr().out
    assert "3 tests passed" in shown
    assert all(f"failed: {name}" in shown for name in failed)
