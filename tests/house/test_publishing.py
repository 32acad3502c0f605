"""What stands around the package, for a code host and for conda, is whole and agrees with pyproject.toml."""

import importlib.util
import re
import runpy
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import deeplimit as dl

yaml = pytest.importorskip("yaml", reason="these files are YAML, which Dask brings")
ROOT = Path(dl.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
YAML = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    *(ROOT / name for name in (".pre-commit-config.yaml", "environment.yml", "recipe/recipe.yaml")),
]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")
ON_CONDA = {"matplotlib": "matplotlib-base", "torch": "pytorch"}
WITHOUT_CUDA = "https://download.pytorch.org/whl/cpu"


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_for_others_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def runs():
    """Yield every command of every workflow."""
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


def test_workflows_call_targets_of_make_that_exist_and_nothing_else():
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    called = [word for run in runs() for word in run.split() if "=" not in word]
    assert set(called) - {"make"} <= targets
    assert {"test", "docs", "package", "release"} <= set(called)
    assert all(run.startswith("make ") for run in runs())
    assert "make package" in text_of(".ci/run")


def test_pythons_of_the_workflow_are_among_those_that_the_package_names():
    jobs = yaml.safe_load(text_of(".github/workflows/tests.yml"))["jobs"]
    pythons = jobs["test"]["strategy"]["matrix"]["python"]
    assert len(pythons) == 3
    assert {f"Programming Language :: Python :: {each}" for each in pythons} <= set(PROJECT["classifiers"])


@pytest.mark.parametrize("page", PAGES)
def test_pages_beside_the_package_link_to_files_and_sections_that_exist(page):
    settings = runpy.run_path(str(ROOT / "setup.py"))
    for pattern in (settings["LINK"], settings["PICTURE"]):
        for found in pattern.finditer(text_of(page)):
            if not found["target"].startswith(settings["ELSEWHERE"]):
                path, _, section = found["target"].partition("#")
                assert (ROOT / path).is_file(), found["target"]
                assert not section or section in sections(path), found["target"]


def sections(path):
    """Return what sections of a page are called in links."""
    titles = re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}


def test_conda_asks_for_what_the_package_asks_for():
    wanted = set()
    for each in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)(>=.*)", each).groups()
        wanted.add(f"{ON_CONDA.get(name, name)} {bound}")
    recipe = yaml.safe_load(text_of("recipe/recipe.yaml"))
    python = f"python {PROJECT['requires-python']}"
    assert set(recipe["requirements"]["run"]) == wanted | {python}
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {function}" for name, function in PROJECT["scripts"].items()
    ]
    environment = yaml.safe_load(text_of("environment.yml"))["dependencies"]
    assert wanted | {python, "pytorch-cpu >=2.6"} <= set(environment)


def test_the_version_is_the_same_everywhere():
    assert f"version = {{{dl.__version__}}}" in text_of("README.md")
    assert f"\nversion: {dl.__version__}\n" in text_of("CITATION.cff")
    assert f"\n  version: {dl.__version__}\n" in text_of("recipe/recipe.yaml")


def pinned(name):
    return re.search(rf"^{name}==(.*)$", text_of("constraints.txt"), re.MULTILINE)[1]


def test_torch_and_torchvision_are_pinned_to_releases_that_fit():
    assert int(pinned("torchvision").split(".")[1]) == int(pinned("torch").split(".")[1]) + 15
    try:
        installed = metadata.distribution("torchvision")
    except metadata.PackageNotFoundError:
        pytest.skip("torchvision comes with the extra vision")
    if installed.version.partition("+")[0] == pinned("torchvision"):
        assert f"torch=={pinned('torch')}" in re.sub("[() ]", "", " ".join(installed.requires))


def test_every_page_that_installs_from_a_clone_says_how_to_spare_cuda():
    advising = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    advising = [page for page in advising if "pip install -c constraints" in page.read_text(encoding="utf-8")]
    assert len(advising) == 3
    for page in advising:
        text = page.read_text(encoding="utf-8")
        assert WITHOUT_CUDA in text or "](install.md" in text, page.name
        for name, version in re.findall(r"\b(torch|torchvision)==([\d.]+)", text):
            assert version == pinned(name), page.name


def test_the_site_links_to_the_repository_that_the_settings_name(tmp_path):
    specification = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    for address, wanted in (("", None), ("https://a.b/us/it/", "us/it")):
        settings = f'[tool.deeplimit]\nrepository = "{address}"\n'
        (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
        configured = hooks.on_config({"config_file_path": str(tmp_path / "mkdocs.yml")})
        assert configured.get("repo_name") == wanted
        assert configured.get("repo_url", "/") == address.rstrip("/") or wanted is None
