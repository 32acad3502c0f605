"""The scoreboard: rows that can fail, runs that can be taken up again, a table, a figure and exit codes that
say what is.
"""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common import files
from deeplimit.common.measurement import Running
from deeplimit.papers.cases import validated
from deeplimit.papers.scoreboard import runs
from deeplimit.papers.scoreboard.solver_rows import solver_cases

ONE = "α = 1, β = 0"


@pytest.fixture(scope="module")
def board():
    return dl.validate(quick=True, only=["Thm 4.3: tanh", ONE])


def altered(board, **changes):
    return dataclasses.replace(board, rows=(dataclasses.replace(board.rows[0], **changes), *board.rows[1:]))


def test_rows_agree_and_controls_are_caught(board):
    assert board.verdict == "agrees", str(board)
    assert len(board.rows) == 3
    for row in board.rows:
        assert row.outcome == "agrees"
        assert row.control == "caught"
        assert row.interval[0] <= row.predicted <= row.interval[1]
        assert row.errors[-1] < row.errors[0] / 3 < row.control_errors[-1]


def test_the_scoreboard_has_every_statement():
    cases = validated()
    assert {case.statement for case in cases} == {
        "[M] Prop. 11",
        "[M] Prop. 12",
        "[C] Thm 4.3",
        "[C] (2)",
        "[C] Thm 4.4, SDE",
        "[C] Thm 4.4, ODE",
        "Hu, Liu & Nualart",
        "[M] Prop. 11, in law",
        "res-3, in law",
        "isotropic, in law",
        "res-2, V noise",
        "averaged layers",
        "gradients",
        "pre-norm",
        "Geshkovski et al.",
        "Fedorov et al.",
        "Li et al.",
    }


@pytest.mark.nightly
def test_a_row_in_law_agrees_by_its_law_and_has_no_order():
    board = dl.validate(quick=True, only="res-3, in law")
    (row,) = board.rows
    assert (board.verdict, row.outcome, row.control) == ("agrees", "agrees", "caught"), str(board)
    assert (row.verdict, row.control_verdict) == ("same law", "another law")
    assert np.isnan([row.predicted, row.rate, *row.interval]).all()
    assert row.errors[-1] < 0.1 < row.control_errors[-1]
    assert "in law" in str(row)
    dl.testing.check_report(board)


@pytest.mark.nightly
def test_a_row_in_law_can_fail():
    case = next(case for case in validated() if case.statement.startswith("res-3"))
    honest = dataclasses.replace(
        case, wrong=(dataclasses.replace(case.wrong[0], limit=case.network.limit()),)
    )
    swapped = dataclasses.replace(case, right=case.wrong[0].limit)
    given = ((16, 64, 128), 8192, 0, runs.torch.device("cpu"), Running())
    missed = runs._measure_law(honest, "key", *given)
    assert (missed.outcome, missed.control, missed.control_verdict) == ("agrees", "not caught", "same law")
    assert dl.Scoreboard((missed,), True, 0, 0.999, "cpu", "1").verdict == "disagrees"
    assert runs._measure_law(swapped, "key", *given).outcome == "disagrees"


@pytest.mark.nightly
def test_solvers_agree_and_their_faults_are_caught():
    board = dl.validate(quick=True, only="solver: circle")
    (row,) = board.rows
    assert (board.verdict, row.outcome, row.control) == ("agrees", "agrees", "caught"), str(board)
    assert (row.verdict, row.control_verdict, row.predicted) == ("documented order", "not the limit", 1.0)
    dl.testing.check_report(board)


@pytest.mark.nightly
def test_every_problem_is_validated():
    assert {case.setting.partition(", ")[0] for case in solver_cases()} == {
        name.partition(", ")[0] for name in dl.testing.PROBLEMS
    }
    board = dl.validate(quick=True, only="solver: ")
    assert len(board.rows) == len(dl.testing.PROBLEMS)
    assert board.verdict == "agrees", str(board)


@pytest.mark.nightly
def test_a_row_of_a_solver_can_fail():
    case = next(case for case in solver_cases() if "circle" in case.name)
    swapped = dataclasses.replace(
        case, scheme=case.fault.solver, fault=dataclasses.replace(case.fault, solver="heun", documented=1.0)
    )
    row = runs._measure_solver(swapped, "key", runs.STEPS, 512, 0)
    assert (row.outcome, row.control, row.control_verdict) == ("disagrees", "not caught", "documented order")
    assert dl.Scoreboard((row,), True, 0, 0.999, "cpu", "1").verdict == "disagrees"


def test_a_control_that_is_the_right_limit_is_not_caught():
    """The twin of all that: a scoreboard that calls everything wrong would not be one."""
    case = next(case for case in validated() if ONE in case.name)
    honest = dataclasses.replace(
        case, wrong=(dataclasses.replace(case.wrong[0], limit=case.network.limit()),)
    )
    result = runs._measure(honest, "key", runs.QUICK_DEPTHS, 100, 0, runs.torch.device("cpu"), Running())
    assert result.control == "not caught"
    assert result.control_verdict == "converges"


def test_a_wrong_theory_disagrees(monkeypatch):
    """Swap network and control: the network is compared with a limit that is not its own."""
    case = next(case for case in validated() if ONE in case.name)
    wrong = case.wrong[0].limit
    monkeypatch.setattr(type(case.network), "limit", lambda self: wrong)
    result = runs._measure(case, "key", runs.QUICK_DEPTHS, 100, 0, runs.torch.device("cpu"), Running())
    assert result.outcome == "disagrees"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "agrees"),
        ({"outcome": "disagrees"}, "disagrees"),
        ({"outcome": "cannot tell", "rate": np.nan}, "cannot tell"),
        ({"control": "not caught", "control_verdict": "cannot tell"}, "cannot tell"),
        ({"control": "not caught", "control_verdict": "converges"}, "disagrees"),
    ],
)
def test_one_row_decides_the_verdict_and_is_explained(board, changes, verdict):
    changed = altered(board, **changes)
    assert changed.verdict == verdict
    assert changed.headline.startswith(verdict)
    assert len(changed.troubles()) == (1 if changes else 0)
    assert ("no order" in str(changed)) == ("rate" in changes)


@pytest.mark.nightly
def test_a_run_is_taken_up_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "QUICK_DEPTHS", (4, 8, 16))
    file = tmp_path / "board.json"

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dl.validate(quick=True, only=["Thm 4.3: tanh"], resume=file, on_row=stop)
    assert len(dl.load_report(file).rows) == 1
    measured = []
    original = runs._measure
    monkeypatch.setattr(
        runs, "_measure", lambda case, *rest: measured.append(case.name) or original(case, *rest)
    )
    told = []
    board = dl.validate(
        quick=True, only=["Thm 4.3: tanh"], resume=file, on_row=lambda row: told.append(row.setting)
    )
    assert len(measured) == 1
    assert [row.setting for row in board.rows] == told
    assert len(told) == 2
    dl.validate(quick=True, only=["Thm 4.3: tanh"], resume=file)
    assert len(measured) == 1
    dl.validate(
        quick=True, only="Thm 4.3: tanh, α = 0.5", seed=1, resume=file
    )  # another seed is another measurement
    assert len(measured) == 2
    again = dl.validate(quick=True, only=["Thm 4.3: tanh"], resume=file)
    assert len(measured) == 2, "what another selection had measured was lost"
    assert again.rows[0].errors.tolist() == board.rows[0].errors.tolist()


def test_a_resumed_row_is_the_row_that_was_measured(board, tmp_path):
    file = tmp_path / "board.json"
    board.save(file)
    loaded = dl.load_report(file)
    assert loaded.to_dict() == board.to_dict()
    assert str(loaded) == str(board)
    np.testing.assert_array_equal(loaded.rows[0].errors, board.rows[0].errors)


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_numbers(monkeypatch):
    monkeypatch.setattr(runs, "QUICK_DEPTHS", (4, 8, 16))
    first, again, other = (
        dl.validate(quick=True, only=ONE, seed=seed).rows[0].errors.tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


def test_the_figure_has_every_row(board, tmp_path):
    axes = altered(board, outcome="cannot tell", rate=np.nan, interval=(np.nan, np.nan)).plot()
    assert len(axes.get_yticklabels()) == len(board.rows)
    board.plot(tmp_path / "board.png")
    assert (tmp_path / "board.png").stat().st_size > 10_000
    with pytest.raises(TypeError, match="ax must be matplotlib Axes"):
        board.plot(3)


@pytest.mark.nightly
def test_the_command_prints_rows_and_says_by_its_exit_code_whether_all_agree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["validate", "--quick", "--only", ONE, "--json", "b.json", "--plot", "b.png"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.count("agrees") == 2
    assert (tmp_path / "b.png").exists()
    for changes, code in (
        ({"control": "not caught", "control_verdict": "cannot tell"}, 3),
        ({"outcome": "disagrees", "verdict": "does not converge"}, 1),
    ):
        document = json.loads((tmp_path / "b.json").read_text())
        document["report"]["rows"][0].update(changes)
        (tmp_path / "c.json").write_text(files.sealed(document))
        result = CliRunner().invoke(app, ["validate", "--quick", "--only", ONE, "--json", "c.json"])
        assert result.exit_code == code, result.output


@pytest.mark.nightly
def test_two_runs_that_share_a_file_lose_no_row(tmp_path, monkeypatch):
    """The second run begins, and ends, between two rows of the first."""
    monkeypatch.setattr(runs, "QUICK_DEPTHS", (4, 8, 16))
    file = tmp_path / "board.json"
    told = []

    def beside(row):
        told.append(row.key)
        if len(told) == 1:
            told.extend(row.key for row in dl.validate(quick=True, only=ONE, resume=file).rows)

    dl.validate(quick=True, only="Thm 4.3: tanh", resume=file, on_row=beside)
    kept = {row.key for row in dl.load_report(file).rows}
    assert len(set(told)) >= 3
    assert kept == set(told)
