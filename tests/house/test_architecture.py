"""The house keeps its shape: imports go down only, every room says what it is, importing costs nothing."""

import ast
import importlib
import logging
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter import cli

import deeplimit as dl

ROOT = Path(dl.__file__).parent
ROOMS = ("activations", "datasets", "init", "testing", "zoo")
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.name != "__main__.py"]


def test_imports_go_down_only(monkeypatch):
    """The layers are written in pyproject.toml; imports inside functions and for type checkers count."""
    # The linter switches off all loggers that exist; what monkeypatch has set it sets back.
    monkeypatch.setattr(logging.getLogger("deeplimit"), "disabled", False)
    assert cli.lint_imports(config_filename=str(ROOT.parent / "pyproject.toml"), no_cache=True) == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_say_what_they_hold(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 470
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_stand_under_the_heading_that_the_reference_reads(path):
    wrong = [line for line in path.read_text().splitlines() if line.strip() in ("Example:", "Example::")]
    assert wrong == [], "the google style of docstrings knows 'Examples:'"


def test_papers_are_named_by_their_authors():
    """Known cases have marks for the two papers in their names; `Case` and `validate` say what these mean."""
    explained = {"cases", "scoreboard", "cli"}
    others = [path for path in FILES if not explained & {*path.relative_to(ROOT).parts}]
    assert [path.name for path in others if re.search(r"\[[MC]\]", path.read_text())] == []


def test_every_public_name_is_reachable_and_documented():
    for name in dl.__all__:
        assert getattr(dl, name) is not None
        if name != "__version__":
            assert getattr(dl, name).__doc__, name


@pytest.fixture(scope="module")
def rooms():
    """Whether a new process lists each public room before it is used, and what it is called."""
    program = (
        "import deeplimit; listed = dir(deeplimit);"
        f" [print(room in listed, getattr(deeplimit, room).__name__) for room in {ROOMS}]"
    )
    run = [sys.executable, "-c", program]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(ROOMS, lines, strict=True))


@pytest.mark.parametrize("room", ROOMS)
def test_public_rooms_are_listed_and_can_be_completed(room, rooms):
    assert rooms[room] == f"True deeplimit.{room}"


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys, deeplimit; print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_using_the_library_does_not_import_matplotlib():
    program = (
        "import sys, deeplimit as dl; dl.compare, dl.res1(2).limit(); print('matplotlib' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )


def test_every_module_imports():
    for module in pkgutil.walk_packages([str(ROOT)], "deeplimit."):
        if module.name != "deeplimit.__main__":
            importlib.import_module(module.name)


def test_names_of_tests_are_sentences_of_at_most_80_characters():
    found = [
        f"{path.name}: {node.name}"
        for path in sorted(ROOT.parent.glob("tests/**/test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > 80
    ]
    assert found == []


def test_no_two_files_of_tests_have_the_same_name():
    """pytest collects only the first of them, and the tests of one room alone do not show it."""
    names = [path.name for path in ROOT.parent.glob("tests/**/test_*.py")]
    assert sorted(names) == sorted(set(names))


TEST_FOLDERS = {"datasets": "training_data"}
"""Folders of another name: tests/ is on the path, where `datasets` would hide a package of this name."""


def test_folders_of_tests_mirror_the_rooms():
    """Rooms are packages; of the files beside them two are large enough for tests of their own.

    The contract suites of `testing` are tested in the rooms whose classes they hold to the contract.
    """
    tests = ROOT.parent / "tests"
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"activations", "networks"}
    rooms = {TEST_FOLDERS.get(room, room) for room in rooms - {"testing"}}
    others = {"benchmarks", "calibration", "docs", "guard", "helpers", "house", "mutation"}
    folders = {path.parent.name for path in tests.glob("*/*.py")}
    assert folders == rooms | others
    assert list(tests.glob("test_*.py")) == []
    for room in rooms:
        assert list((tests / room).glob("test_*.py")), f"no test of {room}"


def test_every_marker_stands_where_it_says():
    """Only calibration is slow, and slow files count outcomes; tests on other projects are marked, too."""
    for path in sorted((ROOT.parent / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path.parent.name == "calibration":
            assert "mark.slow" not in text or "mark.statistical" in text, path.name
        else:
            assert "pytest.mark.slow" not in text or path.parent.name == "house", path.name
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(text))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        if imported & {"transformers", "timm", "lightning", "accelerate", "families"}:
            assert "pytest.mark.thirdparty" in text, path.name


def test_tests_at_a_stated_level_are_marked_statistical():
    unmarked = []
    for path in sorted((ROOT.parent / "tests").glob("*/test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path.parent.name == "house" or "mark.statistical" in text.split("\ndef ")[0].split("\n@")[0]:
            continue
        unmarked += [
            f"{path.name}: {node.name}"
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and re.search(r"\b(LEVEL|FAR|kstest|ks_2samp|binom)\b", ast.unparse(node))
            and "statistical" not in "".join(map(ast.unparse, node.decorator_list))
        ]
    assert unmarked == []
