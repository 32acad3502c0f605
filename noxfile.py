"""All tests on every Python from 3.11 on that is found, with the newest packages and with the lowest.

`make versions` runs all, `make versions ARGUMENTS="-s 'tests(3.11-lowest)' -- tests/weights"` a part. Each
takes some 5 GB, since plain torch brings CUDA. A Python that is not there is skipped by name.
"""

from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = False
VERSIONS = [("3.11", "lowest"), *((python, "newest") for python in ("3.11", "3.12", "3.13", "3.14"))]


@nox.session
@nox.parametrize("python,packages", VERSIONS, ids=["-".join(each) for each in VERSIONS])
def tests(session, packages):
    """Run the tests with the newest packages, or with the lowest that are allowed, without extras."""
    options = []
    if packages == "newest":
        session.install("--editable", ".[data,dev]")
    else:
        lowest = Path(session.create_tmp()) / "lowest.txt"
        resolved = ("--resolution", "lowest-direct", "--python-version", session.python, "pyproject.toml")
        session.run("uv", "pip", "compile", "--quiet", *resolved, "--output-file", str(lowest), external=True)
        session.install("--requirement", str(lowest), "hypothesis", "pytest", "pytest-xdist")
        session.install("--no-deps", "--editable", ".")
        options = ["-W", "ignore::DeprecationWarning"]  # old releases of a package beside new ones of others
    chosen = session.posargs or ("-n", "2", "--dist", "worksteal")
    session.run("python", "-m", "pytest", *options, *chosen, env={"OMP_NUM_THREADS": "1"})
