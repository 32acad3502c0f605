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
import rooms
from importlinter import cli

import deeplimit as dl
from benchmarks import entered

ROOT = Path(dl.__file__).parent
ROOMS = ("activations", "datasets", "init", "testing", "zoo")
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.name != "__main__.py"]


def test_imports_go_down_only(monkeypatch):
    """The layers are written in pyproject.toml; imports inside functions and for type checkers count."""
    # The linter switches off all loggers that exist; what monkeypatch has set it sets back.
    monkeypatch.setattr(logging.getLogger("deeplimit"), "disabled", False)
    assert cli.lint_imports(config_filename=str(ROOT.parent / "pyproject.toml"), no_cache=True) == 0


def test_files_say_what_they_hold_and_examples_have_the_heading_that_is_read():
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
    assert [name for name, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []
    heading = re.compile(r"^\s*Example::?$", re.MULTILINE)  # the google style knows "Examples:"
    assert [name for name, text in texts.items() if heading.search(text)] == []


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


def printed(program):
    """Return the lines that a new process prints."""
    run = [sys.executable, "-c", program]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()


def test_importing_is_light_and_lists_the_public_rooms():
    heavy = "sorted({'torch', 'numpy', 'matplotlib'} & {*sys.modules})"
    program = f"import sys, deeplimit; print({heavy}, set({ROOMS}) <= {{*dir(deeplimit)}})"
    assert printed(program) == ["[] True"]


@pytest.mark.nightly
def test_a_comparison_with_an_sde_loads_no_solver_that_it_does_not_use():
    """They took a fifth of a second of the first call of a process."""
    heavy = "sorted({'scipy.integrate', 'torchdiffeq', 'torchsde', 'scipy.stats'} & {*sys.modules})"
    made = "net = deeplimit.res1(2); deeplimit.compare(net, net.limit(), depths=[4, 8, 16], paths=16)"
    assert printed(f"import sys, deeplimit; {made}; print({heavy})") == ["[]"]


@pytest.mark.nightly
def test_using_the_library_imports_public_rooms_and_no_matplotlib():
    rooms_of = f"[getattr(deeplimit, room).__name__ for room in {ROOMS}]"
    used = "deeplimit.compare, deeplimit.res1(2).limit()"
    program = f"import sys, deeplimit; {used}; print('matplotlib' in sys.modules); print({rooms_of})"
    assert printed(program) == ["False", str([f"deeplimit.{room}" for room in ROOMS])]


def test_every_module_imports():
    names = {module.name for module in pkgutil.walk_packages([str(ROOT)], "deeplimit.")}
    assert names >= {*rooms.OTHER_TRAINERS}
    for name in names - {*rooms.OTHER_TRAINERS, "deeplimit.__main__"}:
        importlib.import_module(name)


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


def test_folders_of_tests_mirror_the_rooms():
    """The contract suites of `testing` are tested in the rooms whose classes they hold to the contract."""
    tests = ROOT.parent / "tests"
    mirrored = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"testing"}
    assert len(mirrored - {"cli"}) == 14
    assert {path.parent.name for path in tests.glob("*/*.py")} == mirrored | {*rooms.ABOVE_ALL, "helpers"}
    assert list(tests.glob("test_*.py")) == []
    assert [room for room in mirrored if not list((tests / room).glob("test_*.py"))] == []


def test_tests_on_other_projects_are_marked():
    unmarked = []
    for path in sorted((ROOT.parent / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
        }
        if imported & {"transformers", "timm", "lightning", "accelerate", "families"}:
            unmarked += [path.name] * ("pytest.mark.thirdparty" not in text)
    assert unmarked == []


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


WITHOUT_TYPE_TESTS = ("judge", "signal", "papers", "trained", "modules", "equations", "simulation")


def type_tests(path):
    """Yield the library's classes that a file asks for outside functions that refuse what is passed."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        raised = [each.exc for each in ast.walk(function) if isinstance(each, ast.Raise)]
        if any(isinstance(each, ast.Call) and ast.unparse(each.func) == "TypeError" for each in raised):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance":
                names = {name.id for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)}
                yield from names & OURS


OURS = {
    node.name
    for path in FILES
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.ClassDef)
}


def test_what_an_object_is_follows_from_facts_it_states_and_not_from_its_class():
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        if path.relative_to(ROOT).parts[0] in WITHOUT_TYPE_TESTS
        for name in type_tests(path)
    }
    assert found == {("equations/base.py", "Independent")}  # where a user's marker on an argument is read


def test_a_comparison_enters_no_more_files_and_functions_than_it_did():
    """Both may only fall: they are what has to be read to follow a call (`python -m benchmarks.entered`).

    One file and its functions put the global switches of torch and numpy aside for every public function.
    """
    calls = entered.entered(entered.comparison)
    assert len({file for file, _ in calls}) <= 30
    assert len(calls) <= 250
