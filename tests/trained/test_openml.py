"""The loader of OpenML's sets, on small files of their format, served in the place of the network."""

import gzip
import hashlib
import io
import json
import sys
from urllib.error import URLError
from urllib.parse import urlparse

import numpy as np
import pytest
import torch
from refusals import assert_refused, row

from deeplimit.trained.datasets import openml

served = pytest.importorskip("sklearn.datasets._openml", reason="OpenML is read by the extra [data]")
ROWS = 12


class Site:
    """openml.org with one set of `ROWS` images: what it answers, and what it was asked."""

    def __init__(self, name, pixels, labels=None):
        self.name, self.asked = name, []
        self.pixels = np.random.default_rng(0).integers(0, 256, (ROWS, pixels))
        self.labels = np.arange(ROWS) % 10 if labels is None else labels
        columns = [f"pixel{k + 1}" for k in range(pixels)]
        head = [f"@RELATION {name}", *(f"@ATTRIBUTE {column} REAL" for column in columns)]
        named = ",".join(map(str, np.unique(self.labels)))
        lines = [
            ",".join(map(str, [*row_, label])) for row_, label in zip(self.pixels, self.labels, strict=True)
        ]
        self.file = "\n".join([*head, f"@ATTRIBUTE class {{{named}}}", "@DATA", *lines, ""]).encode()
        flags = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
        features = [
            {"index": str(k), "name": column, "data_type": "numeric", "is_target": "false", **flags}
            for k, column in enumerate(columns)
        ]
        target = {"index": str(pixels), "name": "class", "data_type": "nominal", "is_target": "true", **flags}
        self.description = {
            "id": "7", "name": name, "version": "1", "format": "ARFF", "status": "active", "description": "",
            "url": "https://www.openml.org/data/v1/download/70/set.arff", "file_id": "70",
            "md5_checksum": hashlib.md5(self.file).hexdigest(),
        }  # fmt: skip
        self.features = {"data_features": {"feature": [*features, target]}}

    def answer(self, path):
        if path.endswith("/set.arff"):
            return self.file
        if "/data/list/" in path:
            assert f"/data_name/{self.name.lower()}/" in path
            assert path.endswith("/data_version/1")
            found = {"data": {"dataset": [{"did": 7, "name": self.name, "version": 1, "status": "active"}]}}
        elif "/features/" in path:
            found = self.features
        elif "/qualities/" in path:
            found = {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(ROWS)}]}}
        else:
            found = {"data_set_description": self.description}
        return json.dumps(found).encode()

    def open(self, request, *_, **__):
        path = urlparse(request.full_url).path
        self.asked.append(path)
        answer = io.BytesIO(gzip.compress(self.answer(path)))
        answer.info = lambda: {"Content-Encoding": "gzip"}
        return answer


def no_network(*_, **__):
    raise URLError("no route to host")


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
