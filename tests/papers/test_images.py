"""Images of figures: those of packages, and the papers' own from a stand-in of openml.org."""

import pytest
import torch
from openml_site import Site, no_network
from refusals import assert_refused
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.papers import figures
from deeplimit.papers.figures import IMAGES, RECIPES, images, on_images, reproduction
from deeplimit.papers.figures.images import PACKAGED, FromOpenML
from deeplimit.trained.datasets.images import untrained_convolutions

served = pytest.importorskip("sklearn.datasets._openml", reason="OpenML is read by the extra [data]")
SMALL = FromOpenML(test=4)
TRAINED_ON_IMAGES = {*(f"cohen-fig{number}" for number in (2, 3, 4, 5, 7, 8))} | {
    "marion-fig8", "marion-fig9", "marion-fig9b", "marion-fig15",
}  # fmt: skip


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Return what puts one set in the place of openml.org, with an empty folder for downloads."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))

    def serve(*args, **kwargs):
        found = Site(*args, **kwargs)
        monkeypatch.setattr(served, "urlopen", found.open)
        return found

    return serve


def test_figures_on_images_are_those_that_train_on_them():
    assert {*on_images(PACKAGED)} == {*on_images(SMALL)} == TRAINED_ON_IMAGES
    assert {*on_images(PACKAGED)} < {*RECIPES}


def test_the_papers_own_mnist(site):
    pixels = torch.from_numpy(site("mnist_784", 784).pixels).double()
    data = SMALL.mnist()
    assert (data.shape, len(data.inputs), len(data.test_inputs)) == ((784,), 8, 4)
    embedded = SMALL.embedded(quick=False)
    states = pixels.reshape(-1, 1, 28, 28)
    for kernel, bias in untrained_convolutions(0):
        states = torch.nn.functional.conv2d(states, kernel, bias, stride=2)
    vectors = torch.nn.functional.normalize(states.flatten(1)).float()
    torch.testing.assert_close(embedded.inputs, vectors[:8])
    torch.testing.assert_close(embedded.test_inputs, vectors[8:])
    assert embedded.targets.argmax(1).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert SMALL.embedded(quick=True) == embedded


def test_quick_figures_train_on_few_embedded_images_and_never_on_those_for_testing(site, monkeypatch):
    site("mnist_784", 784)
    monkeypatch.setattr(images, "QUICK_IMAGES", 5)
    few, all_of_them = SMALL.embedded(quick=True), SMALL.embedded(quick=False)
    assert torch.equal(few.inputs, all_of_them.inputs[:5])
    assert torch.equal(few.test_inputs, all_of_them.test_inputs)


def test_the_papers_own_cifar(site):
    site("CIFAR_10", 3072)
    vectors, whole, small = SMALL.vectors(), SMALL.pictures(quick=False), SMALL.pictures(quick=True)
    assert (vectors.shape, whole.shape, small.shape) == ((3072,), (3, 32, 32), (3, 8, 8))
    assert torch.equal(whole.inputs.flatten(1), vectors.inputs)
    torch.testing.assert_close(small.inputs[0, 1, 0, 0], whole.inputs[0, 1, :4, :4].mean())


def test_a_figure_on_the_papers_own_images_says_so_and_is_drawn_from_its_file(site, monkeypatch, tmp_path):
    site("CIFAR_10", 3072, rows=40)
    monkeypatch.setitem(IMAGES, "openml", FromOpenML(test=10))
    size = reproduction.on_images(IMAGES["openml"])["marion-fig9b"].run.args[1]
    monkeypatch.setattr(
        "deeplimit.papers.figures.trained_classifier_figures.QUICK", type(size)(4, 1, 2, (1e-3,))
    )
    done = dl.reproduce("marion-fig9b", quick=True, data="openml", seed=3)
    assert done.data == "openml"
    assert done.title == "accuracy on CIFAR-10 over Hurst index and exponent"
    assert "OpenML" in done.citation()
    done.save(tmp_path / "f.json")
    again = dl.load_report(tmp_path / "f.json")
    assert str(again) == str(done)
    assert "CIFAR-10 over" in again.plot().get_title().replace("\n", " ")
    assert "digits" in dl.reproduce("marion-fig9b", quick=True).title


def test_without_a_network_the_loader_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    monkeypatch.setattr(served, "urlopen", no_network)
    for figure in ("cohen-fig2", "cohen-fig7", "marion-fig8", "marion-fig9b"):
        assert_refused(
            lambda figure=figure: dl.reproduce(figure, quick=True, data="openml"),
            ConnectionError,
            "folder=",
        )


def test_figures_without_images_and_unknown_sources_are_refused(tmp_path):
    assert_refused(
        lambda: dl.reproduce("marion-fig6", data="openml"), ValueError, "data", "'openml'", "marion-fig9b"
    )
    assert_refused(lambda: dl.reproduce("cohen-fig2", data="imagenet"), ValueError, "data", "'imagenet'")
    for arguments in (["marion-fig6", "--data", "openml"], ["marion-fig6", "--data", "imagenet"]):
        result = CliRunner().invoke(app, ["reproduce", *arguments, "--quick", "--out", str(tmp_path)])
        assert result.exit_code == 2


def test_all_figures_take_other_images_only_where_there_are_some(monkeypatch, tmp_path):
    asked = {}

    class Done:
        passed = True

        def plot(self, *_, **__): ...

        save = plot

    monkeypatch.setattr(
        figures, "reproduce", lambda name, *, data, **_: asked.__setitem__(name, data) or Done()
    )
    result = CliRunner().invoke(
        app, ["reproduce", "--all", "--data", "openml", "--quick", "--out", str(tmp_path)]
    )
    assert result.exit_code == 0
    assert {name for name, data in asked.items() if data == "openml"} == TRAINED_ON_IMAGES
    assert len(asked) == len(RECIPES)
