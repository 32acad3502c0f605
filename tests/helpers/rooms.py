"""Folders of tests that a change can break: `make test ROOMS=changed`.

Imports go down one table, `[tool.importlinter]` of pyproject.toml, so a changed room can break itself and the
rooms above it, and nothing else.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABOVE_ALL = ("benchmarks", "calibration", "docs", "guard", "house", "mutation")
"""Folders of tests that read the whole library."""
OTHER_TRAINERS = ("deeplimit.callbacks.transformers", "deeplimit.callbacks.lightning")
"""Files that import libraries of others, which take seconds; tests/callbacks imports them."""


def layers():
    """Return the rooms from the top down."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (order,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [name for layer in order for name in layer.split(" | ")]


def changed(base="HEAD"):
    """Return paths that differ from a commit, those that git does not know yet included."""
    found = []
    for command in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        run = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        found += run.stdout.split("\n")
    return [path for path in found if path]


def folders(paths):
    """Return the folders of tests that a change of these paths can break, of those that exist."""
    order, tests = layers(), {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    wanted = set()
    for path in paths:
        first, *rest = Path(path).parts
        if first == "deeplimit":
            room = rest[0].removesuffix(".py").removesuffix(".pyi")
            above = order[: order.index(room) + 1] if room in order else order
            wanted |= {*above, *ABOVE_ALL}
        elif first == "tests" and rest[0] in tests:
            wanted.add(rest[0])
        elif first in ("docs", *ABOVE_ALL):
            wanted.add(first)
        elif Path(path).suffix in (".md", ".cff", ".yml"):
            wanted |= {"docs", "house"}
        else:  # tests/helpers, conftest.py, pyproject.toml, Makefile
            return sorted(tests)
    return sorted(wanted & tests)


def main():
    """Print folders of tests: those named, or those that what has changed since a commit can break."""
    asked = sys.argv[1:]
    if asked[:1] == ["changed"]:
        asked = folders(changed(*asked[1:2]))
    missing = [name for name in asked if not (ROOT / "tests" / name).is_dir()]
    if missing:
        sys.exit(f"no folder of tests: {', '.join(missing)}")
    # Without a path pytest would run all; where nothing has changed, the shape of the house is tested.
    sys.stdout.write(" ".join(f"tests/{name}" for name in asked or ["house"]))


if __name__ == "__main__":
    main()
