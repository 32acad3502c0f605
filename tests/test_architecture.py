"""The house keeps its shape: imports go down only, every room says what it is, importing costs nothing."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import deeplimit as dl

ROOT = Path(dl.__file__).parent
# A room may import those before it; the order is the table in docs/architecture.md.
ORDER = [
    "version",
    "validation",
    "randomness",
    "store",
    "workers",
    "activations",
    "processes",
    "recursions",
    "limits",
    "networks",
    "coupling",
    "plotting",
    "convergence",
    "propagation",
    "laws",
    "modules",
    "init",
    "testing",
    "zoo",
    "scoreboard",
    "experiments",
    "reports",
    "cli",
]


def room(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def imports(path):
    tree = ast.parse(path.read_text())
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "deeplimit":
            names = [node.module] if node.module != "deeplimit" else [f"deeplimit.{alias.name}" for alias in node.names]
            yield from (name.split(".")[1] for name in names)


FILES = [path for path in sorted(ROOT.rglob("*.py")) if room(path) not in ("__init__", "__main__")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path):
    own = ORDER.index(room(path))
    for name in imports(path):
        if name in ORDER:  # else a public name of the package, used by the command line alone
            assert ORDER.index(name) <= own, f"{path} imports deeplimit.{name}, which lies above it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_say_what_they_hold(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 430
    assert ast.get_docstring(ast.parse(text))


def test_every_public_name_is_reachable_and_documented():
    for name in dl.__all__:
        assert getattr(dl, name) is not None
        if name != "__version__":
            assert getattr(dl, name).__doc__, name


def test_lazy_names_and_typed_names_are_the_same():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    typed = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom)
        for alias in inner.names
        if alias.asname
    }
    assert typed | {"__version__"} == set(dl.__all__)


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys, deeplimit; print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_using_the_library_does_not_import_matplotlib():
    program = "import sys, deeplimit as dl; dl.compare, dl.res1(2).limit(); print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_every_module_imports():
    for module in pkgutil.walk_packages([str(ROOT)], "deeplimit."):
        if module.name != "deeplimit.__main__":
            importlib.import_module(module.name)
