"""The loader of OpenML's sets, on small files of their format, served in the place of the network."""

import sys

import numpy as np
import pytest
import torch
from openml_site import ROWS, Site, no_network
from refusals import assert_refused, row

from deeplimit.trained.datasets import openml

served = pytest.importorskip("sklearn.datasets._openml", reason="OpenML is read by the extra [data]")


@pytest.fixture
def site(monkeypatch):
    """Return what puts one set in the place of openml.org."""

    def serve(*args, **kwargs):
        found = Site(*args, **kwargs)
        monkeypatch.setattr(served, "urlopen", found.open)
        return found

    return serve


@pytest.mark.parametrize("name", ["mnist_784", "Fashion-MNIST"])
def test_grey_images_are_vectors_in_the_order_of_the_file(name, site, tmp_path):
    pixels = site(name, 784).pixels.astype(float)
    data = openml(name, test=4, folder=tmp_path)
    assert (data.name, data.shape, data.classes) == (name, (784,), 10)
    train = pixels[:8]
    np.testing.assert_allclose(data.inputs, (train - train.mean()) / train.std(), atol=1e-5)
    np.testing.assert_allclose(data.test_inputs, (pixels[8:] - train.mean()) / train.std(), atol=1e-5)
    assert data.targets.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert data.test_targets.tolist() == [8, 9, 0, 1]
    square = openml(name, test=4, flatten=False, folder=tmp_path)
    assert torch.equal(square.inputs.flatten(1), data.inputs)
    assert square.shape == (1, 28, 28)


def test_colour_images_have_channels_first_each_standardised(site, tmp_path):
    pixels = site("CIFAR_10", 3072).pixels.astype(float)
    data = openml("CIFAR_10", test=4, folder=tmp_path)
    assert data.shape == (3, 32, 32)
    green = pixels[:, 1024:2048].reshape(ROWS, 32, 32)
    mean, spread = green[:8].mean(), green[:8].std()
    np.testing.assert_allclose(data.inputs[:, 1], (green[:8] - mean) / spread, atol=1e-5)
    np.testing.assert_allclose(data.test_inputs[:, 1], (green[8:] - mean) / spread, atol=1e-5)
    assert openml("CIFAR_10", test=4, flatten=True, folder=tmp_path).shape == (3072,)


def test_what_was_downloaded_once_needs_no_network(site, tmp_path, monkeypatch):
    first = site("mnist_784", 784)
    data = openml("mnist_784", test=4, folder=tmp_path)
    assert len(first.asked) == 5
    monkeypatch.setattr(served, "urlopen", no_network)
    assert openml("mnist_784", test=4, folder=tmp_path) == data


def test_labels_in_quotation_marks_are_numbers_too(site, tmp_path):
    site("mnist_784", 784, labels=np.array([f"'{k % 10}'" for k in range(ROWS)]))
    assert openml("mnist_784", test=4, folder=tmp_path).test_targets.tolist() == [8, 9, 0, 1]


def test_without_a_network_the_embedded_images_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(served, "urlopen", no_network)
    said = assert_refused(
        lambda: openml("Fashion-MNIST", folder=tmp_path),
        ConnectionError,
        "name",
        "'Fashion-MNIST'",
        "folder=",
    )
    assert "deeplimit.datasets.mnist()" in said
    assert "no route to host" in said


@pytest.mark.parametrize(
    ("pixels", "labels", "value"),
    [(100, None, "(100,)"), (784, np.arange(ROWS), "11"), (784, -np.arange(ROWS), "-11")],
)
def test_a_file_of_other_images_or_labels_is_refused(pixels, labels, value, site, tmp_path):
    site("mnist_784", pixels, labels=labels)
    assert_refused(
        lambda: openml("mnist_784", test=4, folder=tmp_path), ValueError, "name", "'mnist_784'", value
    )


@pytest.mark.parametrize(
    ("call", "kind", "names"),
    [
        row("other names", lambda folder: openml("mnist", folder=folder), ValueError, "name", "'mnist'"),
        row("no name", lambda folder: openml(784, folder=folder), TypeError, "name", "784"),
        row("no tests", lambda folder: openml("mnist_784", test=0), ValueError, "test", "0"),
        row("a number", lambda folder: openml("mnist_784", folder=3), TypeError, "folder", "3"),
        row("only tests", lambda folder: openml("mnist_784", test=12, folder=folder), ValueError, "12"),
    ],
)
def test_names_and_sizes_that_are_not_there_are_refused(call, kind, names, site, tmp_path):
    site("mnist_784", 784)
    assert_refused(lambda: call(tmp_path), kind, *names)


def test_without_scikit_learn_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert_refused(
        lambda: openml("mnist_784", folder=tmp_path), ModuleNotFoundError, "scikit-learn", "[data]"
    )
