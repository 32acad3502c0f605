"""The calibration harness: docs/calibration.md is what the file of results says, and nothing is hidden."""

import dataclasses
import functools
import json
import math
import re
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import deeplimit as dl
from benchmarks.entered import entered
from calibration import results, runs, summary
from calibration.cell import Cell, Converging, Growing, InLaw, Outcome
from calibration.cells import by_key, cells, wrong
from calibration.cells.solvers import Solving
from calibration.page import PAGE, page
from calibration.summary import share, summarise

ORDER = ("converges",)
CHEAP = "Growth of the signal/res3, d = 8, β = 0.5, depths 10, 20, 50, 100, 40 draws"


def outcome(estimate=0.5, width=0.1, verdict="converges", **given):
    low, high = estimate - width / 2, estimate + width / 2
    return Outcome(verdict, ORDER, estimate, low, high, **{"truth": 0.5, "seconds": 1.0, **given})


def test_the_page_is_what_the_file_of_results_says(monkeypatch):
    monkeypatch.setattr(summary, "share", functools.cache(share))
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(cells(), results.load()), "run python -m calibration page"


def test_the_file_of_results_holds_cells_that_exist():
    assert set(results.load()) <= set(by_key())


def test_cells_that_were_not_measured_are_counted_on_the_page():
    written = page(cells(), {})
    missing = [int(each) for each in re.findall(r"Not measured yet: (\d+)", written)]
    assert sum(missing) == len(cells())
    assert len(missing) == len({cell.group for cell in cells()})


def test_the_table_of_results_is_read_as_it_was_written(tmp_path):
    outcomes = [outcome(), outcome(0.9), outcome(math.nan, verdict="cannot tell", rule="mixes_orders")]
    failed = outcome(math.nan, verdict="failed", error="ValueError: a, b; c")
    records = {"a/b, c": summarise([*outcomes, failed], ["x"], "2020-01-02"), "d/e": summarise(outcomes[:1])}
    results.write(records, tmp_path / "results.csv")
    assert results.load(tmp_path / "results.csv") == records


def test_every_call_is_covered_or_missed_or_not_given_for_a_reason():
    outcomes = [
        outcome(),
        outcome(0.9),
        outcome(math.nan, verdict="cannot tell", rule="mixes_orders"),
        outcome(math.nan, verdict="failed", error="ValueError: x"),
        outcome(math.nan),
        outcome(truth=math.nan),
    ]
    record = summarise(outcomes)
    assert (record.known, record.covered, record.missed) == (5, 1, 1)
    assert record.not_given == {"failed": 1, "mixes_orders": 1, "no rule named": 1}
    assert record.covered + record.missed + sum(record.not_given.values()) == record.known


def test_no_two_cells_share_a_seed():
    """Numbers of calls are below 2^20, by which the seeds of different cells are apart."""
    firsts = {zlib.crc32(cell.key.encode()) for cell in cells()}
    assert len(firsts) == len(cells())
    taken = []
    cell = Cell("Laws", "x", lambda seed: taken.append(seed) or Trial())
    other = dataclasses.replace(cell, name="y")
    for each in (cell, other):
        for number in (0, 2):
            each.run(number)
    assert len(set(taken)) == 4
    assert taken[1] - taken[0] == taken[3] - taken[2] == 2


class Trial:
    """A call that does nothing."""

    def run(self, seed):
        return outcome()


def test_replications_add_up_to_what_was_put_in():
    outcomes = [
        *(outcome(0.5 + 0.01 * sign) for sign in (-1, 1) for _ in range(45)),
        *(outcome(0.6, verdict="does not converge") for _ in range(6)),
        *(outcome(math.nan, verdict="cannot tell") for _ in range(3)),
        outcome(math.nan, verdict="failed", error="ValueError: x"),
    ]
    record = summarise(outcomes, ["abc"])
    assert (record.replications, record.given, record.covered) == (100, 96, 90)
    assert (record.right, record.false) == (90, 6)
    assert record.verdicts == {"cannot tell": 3, "converges": 90, "does not converge": 6, "failed": 1}
    assert record.width == pytest.approx(0.1)
    assert record.bias == pytest.approx(0.01)
    assert record.errors == ("ValueError: x",)


def test_an_exact_binomial_interval_is_that_of_clopper_and_pearson():
    """0 of n has the upper bound 1 - 0.025^(1/n)."""
    found = share(0, 20)
    assert found == pytest.approx((0.0, 0.0, 1 - 0.025**0.05))


def test_a_tolerated_word_is_neither_right_nor_false():
    record = summarise([outcome(verdict="stable", tolerated=("stable",)), outcome(verdict="stable")])
    assert (record.right, record.false) == (0, 1)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([outcome()] * 95 + [outcome(0.6)] * 5, []),
        ([outcome()] * 80 + [outcome(0.6)] * 20, ["**covers too little**"]),
        ([outcome()] * 46 + [outcome(0.6)] * 4, ["**covers too little** (may be chance)"]),
        ([outcome()] * 400, ["covers too much"]),
        ([outcome()] * 183, ["covers too much"]),
        ([outcome()] * 182, []),
        ([outcome()] * 395 + [outcome(0.6)] * 5, ["covers too much (may be chance)"]),
        ([outcome(math.nan, verdict="does not converge")] * 9, ["**false verdicts**"]),
        ([outcome(math.nan)] * 95 + [outcome(math.nan, verdict="failed")], ["**1 calls failed**"]),
    ],
    ids=["right", "too little", "chance", "too much", "enough", "too few", "chance again", "false", "failed"],
)
def test_a_cell_outside_the_aims_is_marked_in_words(outcomes, said):
    record = summarise(outcomes)
    assert record.remarks(0.01) == said
    cell = Cell("Laws", "x", None)
    assert "; ".join(said) in page([cell], {cell.key: record})


@pytest.mark.parametrize(
    ("calls", "caught"), [((200, 200, 200), "0.05"), ((200, 39, 200), "open"), ((5, 5, 5), "open")]
)
def test_a_size_is_called_caught_only_after_enough_calls_of_every_size(calls, caught):
    words = ("cannot tell", "does not converge", "does not converge")
    family = [
        Cell(wrong.GROUP, f"shift {size}", None, size=size, family="shift") for size in (0.01, 0.05, 0.1)
    ]
    found = {
        cell.key: summarise([Outcome(word, (words[1],), *[math.nan] * 4, 1.0)] * count)
        for cell, word, count in zip(family, words, calls, strict=True)
    }
    assert f"| shift | {caught} | 0.01: 0 %, 0.05: 100 %, 0.1: 100 % |" in page(family, found)


@pytest.mark.nightly
@pytest.mark.usefixtures("one_thread")
def test_a_stopped_run_goes_on_and_a_half_line_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(count))
    file = tmp_path / "replications.jsonl"
    settings = {"workers": 1, "seconds": math.inf, "progress": False}
    runs.measure([by_key()[CHEAP]], file, calls=2, **settings)
    first = file.read_text(encoding="utf-8")
    file.write_text(first + '{"cell": "half', encoding="utf-8")
    assert sorted(runs.read(file)[CHEAP]) == [0, 1]
    file.write_text(first, encoding="utf-8")
    runs.measure([by_key()[CHEAP]], file, calls=3, **settings)
    assert file.read_text(encoding="utf-8").startswith(first)
    assert sorted(runs.read(file)[CHEAP]) == [0, 1, 2]


def test_replications_of_other_sources_are_not_mixed_with_these(tmp_path):
    lines = [
        {"cell": CHEAP, "seed": seed, "code": code, "outcome": dataclasses.asdict(outcome())}
        for seed, code in ((0, runs.code(by_key()[CHEAP].rooms)), (1, "another"))
    ]
    file, found = tmp_path / "replications.jsonl", tmp_path / "results.csv"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    results.update(cells(), file, found)
    assert results.load(found)[CHEAP].replications == 1
    assert results.load(found)[CHEAP].code == (runs.code(by_key()[CHEAP].rooms),)


def test_every_cell_has_a_call_that_is_drawn_from_the_seed():
    """Every cell makes its call; the same seed makes the same one."""
    for cell in cells():
        first, again = cell.make(3), cell.make(3)
        assert first.right == again.right
        assert first.truth == again.truth or math.isnan(first.truth)
        assert str(first.network) == str(again.network), cell.key


FEW = {"depths": [4, 8, 16], "paths": 32, "workers": 1}


@pytest.mark.parametrize(
    ("trial", "call"),
    [
        (Converging, lambda: dl.compare(dl.res1(4, "tanh"), **FEW)),
        (Converging, lambda: dl.compare(dl.inner(4, "scaled_gelu", noise=dl.Ito(A=0.1)), **FEW)),
        (InLaw, lambda: dl.compare_laws(dl.res1(4, "tanh"), depths=[4, 8, 16], draws=200, workers=1)),
        (Growing, lambda: dl.stability(dl.res1(4, "tanh"), depths=[4, 8, 16], draws=8, workers=1)),
        (Solving, lambda: dl.check_solver(dl.Heun(), dl.ODE(lambda t, h: -h), torch.ones(2, 3))),
    ],
    ids=["compare", "Ito correction", "compare_laws", "stability", "check_solver"],
)
def test_a_call_enters_no_room_but_those_whose_sources_its_cells_keep(trial, call):
    files = {file for file, _ in entered(call)}
    others = {file for file in files if "/" in file and not file.startswith(trial.rooms)}
    assert len(files) > 10
    assert not others


def test_intervals_have_their_length_at_95_percent_and_outliers_do_not_hide_it():
    drawn = np.random.default_rng(0).normal(size=400) * 0.01 + 0.5
    usual = summarise([outcome(float(each), 0.055) for each in drawn])
    assert usual.length == pytest.approx(5.5, rel=0.1)
    sure = summarise([outcome(float(each), 0.055, level=0.975) for each in drawn])
    assert sure.length == pytest.approx(usual.length * 1.96 / 2.2414, rel=1e-3)
    drawn[:4] = 30.0
    assert summarise([outcome(float(each), 0.055) for each in drawn]).length == pytest.approx(5.5, rel=0.1)
    assert math.isnan(summarise([outcome(0.5 + 1e-6 * each, 0.01) for each in range(40)]).length)


def test_words_about_the_sources_are_no_other_sources(tmp_path, monkeypatch):
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(runs.deeplimit, "__file__", str(tmp_path / "__init__.py"))

    def digest(text):
        (room / "a.py").write_text(text, encoding="utf-8")
        return runs.code.__wrapped__(("room",))

    plain = digest("X = 1\n\n\ndef f():\n    return X\n")
    assert digest('"""A."""\n\nX = 1  # one\n"""B."""\n\n\ndef f():\n    """C."""\n    return X\n') == plain
    assert digest("X = 2\n\n\ndef f():\n    return X\n") != plain
