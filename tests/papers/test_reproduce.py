"""Reproduced figures check what they show, can fail, and can be drawn again from their files."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from refusals import assert_refused
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common import axes as drawing
from deeplimit.papers.figures import RECIPES, Check, initialisation_figures as marion


def test_every_figure_of_both_papers_has_a_recipe():
    papers = {"cohen": 8, "marion": 15}
    found = [name for name in RECIPES if "-fig" in name]
    expected = [f"{name}-fig{n}" for name, last in papers.items() for n in range(1, last + 1)]
    assert found == [*expected, "marion-fig9b"]


@pytest.fixture(scope="module")
def smooth_figure():
    return dl.reproduce("marion-fig13", quick=True)


def test_a_figure_passes_its_checks_and_says_so(smooth_figure):
    assert smooth_figure.passed
    verdicts = [panel["verdict"] for panel in smooth_figure.numbers["panels"]]
    assert verdicts == ["identity", "explosion", "stable"]


def test_a_wrong_statement_fails_its_check(monkeypatch):
    wrong = {0.5: "identity"}  # smooth weights explode there
    run = partial(marion._growth, partial(dl.inner, activation="tanh"), marion.SMOOTH, wrong, "hidden")
    monkeypatch.setitem(RECIPES, "marion-fig13", replace(RECIPES["marion-fig13"], run=run))
    done = dl.reproduce("marion-fig13", quick=True)
    assert not done.passed
    assert "identity at β = 0.5" in [check.stated for check in done.checks if not check.passed]


def test_a_figure_is_drawn_again_from_its_file(smooth_figure, tmp_path):
    smooth_figure.save(tmp_path / "f.json")
    again = dl.load_report(tmp_path / "f.json")
    assert str(again) == str(smooth_figure)
    for file, figure in (("a.png", smooth_figure), ("b.png", again)):
        figure.plot(tmp_path / file)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_hurst_index_of_another_path_is_not_taken_for_it(monkeypatch):
    right = marion.fractional_gaussian_noise
    monkeypatch.setattr(
        marion, "fractional_gaussian_noise", lambda hurst, *rest: right(min(hurst + 0.1, 0.99), *rest)
    )
    assert not dl.reproduce("marion-fig6", quick=True).passed


@pytest.mark.nightly
def test_the_phase_diagram_of_other_weights_fails(monkeypatch):
    def shifted(*arguments, hurst, **knobs):
        diagram = dl.phase_diagram(
            *arguments, hurst=np.clip(np.array(hurst) + 0.3, 0.01, 0.99).tolist(), **knobs
        )
        return dl.PhaseDiagram.from_dict({**diagram.to_dict(), "hurst": hurst})

    monkeypatch.setattr(marion, "phase_diagram", shifted)
    done = dl.reproduce("marion-fig7", quick=True)
    assert not done.passed


def test_an_unknown_figure_is_refused_with_the_names_there_are():
    assert_refused(lambda: dl.reproduce("fig7"), ValueError, "figure", *RECIPES, "'fig7'")
    assert_refused(lambda: dl.reproduce("marion-fig6", quick="yes"), TypeError, "quick", "'yes'")


def test_the_command_writes_a_picture_and_a_file_a_figure(tmp_path):
    result = CliRunner().invoke(
        app, ["reproduce", "marion-fig6", "--quick", "--quiet", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["marion-fig6.json", "marion-fig6.png"]
    assert json.loads((tmp_path / "out" / "marion-fig6.json").read_text())["kind"] == "reproduction"


def test_the_command_ends_with_1_where_a_check_fails(monkeypatch, tmp_path):
    def failing(quick, seed, device, running):
        return (
            {"panels": [{"hurst": 0.5, "path": [0.0, 1.0], "measured": 0.7}], "paths": 1},
            [Check("a", "b", False)],
            [],
        )

    monkeypatch.setitem(RECIPES, "marion-fig6", replace(RECIPES["marion-fig6"], run=failing))
    result = CliRunner().invoke(app, ["reproduce", "marion-fig6", "--quiet", "--out", str(tmp_path)])
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "arguments", [[], ["marion-fig6", "--all"], ["marion-fig16"], ["marion-fig6", "--seed", "-1"]]
)
def test_the_command_refuses_what_makes_no_sense(arguments, tmp_path):
    result = CliRunner().invoke(app, ["reproduce", *arguments, "--quiet", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("stability --draws 60 --depths 10,30,100", 0, "stable: exponent 0.5"),
        ("stability --draws 60 --depths 10,30,100 --exponent 1", 1, "identity: exponent 1"),
        ("stability --draws 60 --depths 10,30,100 --exponent 0.2", 1, "explosion: exponent 0.2"),
        ("stability --draws 60 --depths 100", 3, "cannot tell"),
        ("stability --weights fractional --hurst 1.5", 2, "Error: hurst"),
        ("stability --network res4", 2, "Error: --network"),
        ("stability --exponent -1", 2, "Error: exponent"),
        ("phase --depth 40 --hurst 0.5 --exponents 0:1:4 --draws 1 --inputs 2", 0, "boundary between"),
        ("phase --hurst 0.5:0.9", 2, "Error: --hurst"),
        ("phase --hurst 0.5:0.9:1", 2, "Error: --hurst '0.5:0.9:1'"),
        ("phase --activation tanh", 2, "res3"),
        ("phase --of both", 2, "Error: --of"),
    ],
)
def test_stability_and_phase_on_the_command_line(arguments, code, told):
    result = CliRunner().invoke(app, [*arguments.split(), "--quiet"])
    assert result.exit_code == code, result.output
    assert told in result.output


def test_the_commands_write_files_that_can_be_read_again(tmp_path):
    for command, more in (
        ("stability", ["--draws", "30", "--depths", "4,8,16"]),
        ("phase", ["--depth", "20", "--draws", "1"]),
    ):
        files = ["--json", str(tmp_path / f"{command}.json"), "--plot", str(tmp_path / f"{command}.png")]
        result = CliRunner().invoke(app, [command, "--width", "4", *more, *files, "--quiet"])
        assert result.exit_code in (0, 3), result.output
        assert (tmp_path / f"{command}.png").stat().st_size > 10_000
        assert str(dl.load_report(tmp_path / f"{command}.json")) in result.output


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (-3.8, -3.2, [r"$2\cdot 10^{-4}$", r"$3\cdot 10^{-4}$", r"$5\cdot 10^{-4}$"]),
        (-0.1, 1.8, ["1", "2", "5", "10", "20", "50"]),
        (0.0, 9.0, ["1", "100", "$10^{4}$", "$10^{6}$", "$10^{8}$"]),
    ],
)
def test_an_axis_of_powers_is_labelled_with_the_numbers(low, high, labels):
    axes = drawing.new_axes()
    axes.set_ylim(low, high)
    drawing.power_axis(axes)
    shown = [axes.yaxis.get_major_formatter()(tick, 0) for tick in axes.get_yticks()]
    assert set(labels) <= set(shown)
