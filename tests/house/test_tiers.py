"""What `make test` runs: a limit of seconds per test, and the folders that a change can break."""

import json

import cpu_times
import pytest
import rooms
import thinned

PROGRAM = """
import time
import pytest

def burn(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass

@pytest.fixture(scope="module")
def shared():
    burn(0.3)

calls = []

def test_that_pays_for_imports_at_first():
    calls.append(burn(0.0 if calls else 0.3))

def test_that_shares(shared):
    pass

def test_that_is_slow():
    burn(0.3)

@pytest.mark.nightly
def test_of_the_night():
    burn(0.3)
"""


@pytest.mark.parametrize("judged", [True, False])
def test_a_test_above_the_limit_fails_once_what_it_shares_is_there(pytester, monkeypatch, judged):
    monkeypatch.setattr(cpu_times, "LIMIT", 0.2)
    monkeypatch.setattr(cpu_times, "JUDGED", judged)
    monkeypatch.delenv("TEST_TIMES", raising=False)
    pytester.makepyfile(PROGRAM)
    given = ["-p", "cpu_times", "-p", "no:xdist", "-p", "no:cacheprovider", "-W", "ignore"]
    ran = pytester.inline_run(*given, plugins=[cpu_times])
    passed, _, failed = ran.listoutcomes()
    assert len(passed) == 4
    assert [report.nodeid.partition("::")[2] for report in failed] == ["test_that_is_slow"] * judged


def test_seconds_are_told_apart_by_room_and_function(tmp_path):
    lines = [
        '["collection", "", 5.0]',
        '["test", "tests/theory/test_a.py::test_one[x]", 1.0]',
        '["test", "tests/theory/test_a.py::test_one[y]", 2.0]',
        '["fixture", "tests/theory/test_a.py::shared", 4.0]',
    ]
    (tmp_path / "gw0.jsonl").write_text("\n".join(lines))
    found = [line.split() for line in cpu_times.table(tmp_path)]
    assert ["7.0", "2", "theory"] in found
    assert ["3.0", "2", "2.0", "theory/test_a.py::test_one"] in found
    assert ["4.0", "0", "4.0", "theory/test_a.py::shared", "(fixture)"] in found
    assert ["12.0", "2", "all"] in found


@pytest.mark.parametrize(
    ("path", "inside", "outside"),
    [
        ("deeplimit/theory/table.py", {"theory", "simulation", "docs", "guard"}, {"driving", "common"}),
        ("deeplimit/cli/signal.py", {"cli", "docs", "house"}, {"signal", "judge"}),
        ("deeplimit/modules/trace/graph.py", {"modules", "networks", "trained"}, {"common", "statistics"}),
        ("deeplimit/__init__.pyi", {"common", "cli", "house"}, set()),
        ("tests/theory/test_table.py", {"theory"}, {"simulation", "house"}),
        ("tests/helpers/pairs.py", {"common", "cli", "house"}, set()),
        ("docs/images/a.png", {"docs"}, {"theory"}),
        ("README.md", {"docs", "house"}, {"theory"}),
    ],
)
def test_a_change_runs_its_room_and_those_above(path, inside, outside):
    found = set(rooms.folders([path]))
    assert inside <= found
    assert not outside & found


def test_what_is_thinned_is_a_parametrised_test():
    assert [function for function in thinned.CASES if not thinned.is_parametrised(function)] == []


def test_costly_functions_keep_what_fits_their_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(thinned, "is_parametrised", lambda function: "fixture" not in function)
    monkeypatch.setattr(thinned, "BUDGET", 1.5)
    monkeypatch.setitem(thinned.TABLES, "measured", {"a/test_a::test_fewer": 3})
    monkeypatch.setitem(thinned.TABLES, "by_hand", {"a/test_a::test_as_said": 6})
    each = {"fewer": 0.2, "dear": 0.5, "cheap": 0.1, "long": 9.0, "fixture": 1.0, "as_said": 1.0}
    names = {f"tests/a/test_a.py::test_{name}[{case}]": each[name] for name in each for case in range(8)}
    lines = [json.dumps(["test", name, seconds]) for name, seconds in names.items()]
    (tmp_path / "gw0.jsonl").write_text("\n".join(lines))
    found = thinned.chosen(tmp_path)
    assert found == {
        f"a/test_a::test_{name}": most for name, most in {"dear": 3, "fewer": 3, "long": 2}.items()
    }


@pytest.mark.parametrize(
    ("count", "most", "expected"), [(3, 5, {0, 1, 2}), (9, 3, {0, 4, 8}), (7, 1, {0}), (4, 4, {0, 1, 2, 3})]
)
def test_the_cases_that_stay_lie_evenly(count, most, expected):
    assert thinned.kept(count, most) == expected


@pytest.mark.parametrize(("given", "count"), [([], 2), (["test_a.py::test_it[1]"], 1)])
def test_the_fast_tier_runs_as_many_cases_as_are_named_or_chosen(pytester, monkeypatch, given, count):
    monkeypatch.setitem(thinned.CASES, "/test_a::test_it", 2)
    case = "import pytest\n@pytest.mark.parametrize('x', range(5))\ndef test_it(x): pass"
    pytester.makepyfile(test_a=case)
    plain = ["-p", "no:xdist", "-p", "no:cacheprovider", "-W", "ignore", "-m", "not nightly"]
    ran = pytester.inline_run(*plain, *given, plugins=[thinned])
    assert len(ran.listoutcomes()[0]) == count
