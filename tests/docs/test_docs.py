"""README and docs say what is true: their code runs, their commands work, their links lead somewhere,
docstrings too.
"""

import ast
import builtins
import doctest
import importlib.util
import pkgutil
import re
import sys
import warnings
from pathlib import Path

import families
import pytest
import torch
from rooms import OTHER_TRAINERS
from shown_output import shown_in_order
from typer.testing import CliRunner

import deeplimit
from deeplimit.cli import app
from deeplimit.papers import figures as experiments
from deeplimit.papers.cases import validated

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPECIFICATION = importlib.util.spec_from_file_location(
    "reference_pages", ROOT / "docs" / "reference_pages.py"
)
reference_pages = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(reference_pages)
MODULES = [
    module.name
    for module in pkgutil.walk_packages(deeplimit.__path__, "deeplimit.")
    if "__main__" not in module.name
]


def blocks(page, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def shown_after(page):
    """Return what a page shows behind each block of Python; None where the next block is another one."""
    text = page.read_text(encoding="utf-8")
    every = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    after = [*every[1:], ("", "")]
    return [
        shown if following == "text" else None
        for (language, _), (following, shown) in zip(every, after, strict=True)
        if language == "python"
    ]


def tier(page):
    """README's code runs in the fast tier, that of the other pages with `make pages`."""
    return [] if page.name == "README.md" else [pytest.mark.nightly]


def pages_with_code():
    """Yield the pages; those that build models of transformers or timm need them."""
    for page in PAGES:
        text = "".join(blocks(page, "python"))
        marks = (
            [pytest.mark.thirdparty] if re.search(r"\b(transformers|lightning|timm|diffrax)\b", text) else []
        )
        if re.search(r"\blightning\b", text):  # it warns of few workers, and of old names of torch
            marks.append(pytest.mark.filterwarnings("ignore"))
        if text:
            marks += tier(page)
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", list(pages_with_code()))
def test_every_python_block_of_a_page_runs_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {"__name__": "page"}
    known = set(sys.modules)
    with torch.random.fork_rng():  # torch's own modules draw their weights from the global generator
        for number, (block, shown) in enumerate(zip(blocks(page, "python"), shown_after(page), strict=True)):
            if page.name == "README.md":  # each of its blocks is read, and copied, alone
                namespace = {"__name__": "page"}
            if (file := re.match(r"# (\w+)\.py\n", block)) is not None:  # a file that the reader saves
                (tmp_path / f"{file[1]}.py").write_text(block, encoding="utf-8")
            if "diffrax" in block:
                pytest.importorskip("diffrax")
            if re.search(r"\b(transformers|lightning|timm)\b", block):
                families.mend_torchvision()
            exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)
            printed = capsys.readouterr().out
            if shown is not None:
                shown_in_order(shown, printed)
    for name in {"models"} & (set(sys.modules) - known):
        del sys.modules[name]


def commands():
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in block.splitlines():
                if line.startswith("deeplimit "):
                    arguments = line.split("#")[0].split()[1:]
                    yield pytest.param(arguments, id=f"{page.name}: {line[:60]}", marks=tier(page))


@pytest.mark.parametrize("arguments", list(commands()))
def test_every_command_of_a_page_works(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # All figures and all cases are steps of CI by themselves (see below); here one stands for them.
    monkeypatch.setattr(experiments, "RECIPES", {"marion-fig6": experiments.RECIPES["marion-fig6"]})
    monkeypatch.setattr("deeplimit.papers.scoreboard.runs.validated", lambda: validated()[:1])
    monkeypatch.setattr("deeplimit.papers.scoreboard.runs.solver_cases", tuple)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("validate", "deeplimit validate --quick"),
        ("reproduce", "deeplimit reproduce $(FIGURES) --quick"),
        ("pages", "python -m pytest"),
    ],
)
def test_ci_runs_in_full_what_the_pages_show_and_the_tests_shorten(target, command):
    recipe = re.search(rf"^{target}:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe[1].startswith(f"$(BIN)/{command}")
    for run in (".github/workflows/tests.yml", ".ci/run"):  # the latter takes some rows and figures
        assert re.search(rf"^[^#\n]*\bmake [a-z ]*\b{target}\b", (ROOT / run).read_text(), re.MULTILINE)
    for size in (r"^FIGURES := --all$", r"^ROWS :=$"):
        assert re.search(size, (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_make_knows_every_target_that_pages_name():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = (  # in backticks, or at the start of a line of a console: the verb is everywhere
        r"(?:`|^)make ([a-z-]+)"
    )
    named = {
        word
        for page in PAGES
        for word in re.findall(commands, page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"demo", "test"} <= named <= targets


def test_the_reference_has_a_page_for_every_public_name():
    """docs/reference_pages.py makes them from the list; no name stands in it twice."""
    overview = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = [name for _, _, names in reference_pages.groups() for name in names]
    assert sorted(listed) == sorted(set(re.findall(r"\]\[deeplimit\.([\w.]+)\]", overview)))
    rooms = {"activations", "datasets", "testing"}  # of these, what is in them
    assert set(deeplimit.__all__) - set(listed) == rooms | {"__version__"}
    assert rooms <= {name.split(".")[0] for name in listed}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_lead_to_files(page):
    for target in re.findall(r"(?:\]\(|<img src=\")([^)#\"]+)[)\"]", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


WRITTEN_BY_PROGRAMS = {"cases.md", "families.md", "calibration.md", "reference.md"}


def test_pages_of_prose_hold_at_most_35_000_words():
    """Code and tables count, as `wc -w` counts; a reader has an evening."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in WRITTEN_BY_PROGRAMS]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 35_000


@pytest.mark.parametrize(
    "place", [deeplimit, deeplimit.testing, deeplimit.zoo], ids=lambda place: place.__name__
)
def test_examples_of_public_names_define_what_they_use(place):
    """They are copied from help(): a name that only the module imports is a NameError there."""
    lacking = {}
    for name in dir(place):
        examples = doctest.DocTestParser().get_examples(getattr(place, name).__doc__ or "")
        source = "".join(each.source for each in examples)
        nodes = [*ast.walk(ast.parse(source))]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        known = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        known |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        imported = [node.names for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        known |= {each.asname or each.name.partition(".")[0] for names_ in imported for each in names_}
        if missing := names - known - {*dir(builtins)}:
            lacking[name] = missing
    assert lacking == {}


TRAINING = ("deeplimit.testing.depth_transfer", "deeplimit.modules.training_check.check")
"""Their examples train networks for more than two CPU seconds."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.nightly] * (n in TRAINING + OTHER_TRAINERS)) for n in MODULES],
)
def test_examples_in_docstrings_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in OTHER_TRAINERS:
        families.mend_torchvision()
        pytest.importorskip(name.rpartition(".")[2])
    with (
        warnings.catch_warnings(),
        torch.random.fork_rng(),
    ):  # torchsde draws from the global generator, and warns
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module(name)
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
        if result.failed:  # again, so that what an example raises is raised here
            once_more = doctest.DebugRunner(optionflags=doctest.ELLIPSIS)
            for example in doctest.DocTestFinder().find(module):
                once_more.run(example)
        assert result.failed == 0
