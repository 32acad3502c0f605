"""Full image sets from OpenML, by scikit-learn, where the user has a network or a folder that holds them."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.trained.datasets.data import Data
from deeplimit.trained.datasets.images import MNIST, not_installed, standardised

SHAPES = {"mnist_784": (1, 28, 28), "Fashion-MNIST": (1, 28, 28), "CIFAR_10": (3, 32, 32)}
"""The known sets by their names there, version 1 of each, and the shape of an image."""
OPENML = "Vanschoren, van Rijn, Bischl, Torgo (2014), OpenML, SIGKDD Explorations 15(2), 49-60"
SOURCES = {
    "mnist_784": MNIST,
    "Fashion-MNIST": "Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747",
    "CIFAR_10": "Krizhevsky (2009), Learning multiple layers of features from tiny images",
}
CLASSES = 10


@by_default
def openml(
    name: str,
    *,
    test: int = 10_000,
    flatten: bool | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Data:
    """Return MNIST, Fashion-MNIST or CIFAR-10 in full, downloaded once by scikit-learn.

    Pixels are standardised by the training set, per channel. scikit-learn verifies the checksum that OpenML
    states.

    Args:
        name: "mnist_784", "Fashion-MNIST" or "CIFAR_10", the names at openml.org.
        test: number of images for testing, the last of the file. The original test sets have 10,000.
        flatten: whether an image is a vector. Without it those of CIFAR_10 keep their shape (3, 32, 32),
            and the others are vectors of 784 pixels.
        folder: where downloads are kept, and looked for first; by default scikit-learn's own folder.

    Raises ConnectionError where the set is not in the folder and openml.org does not answer,
    ModuleNotFoundError where scikit-learn is missing, TypeError and ValueError for other names and sizes.

    NOT checked: that OpenML keeps the original order, with the original test set last.

    Examples:
        >>> import deeplimit as dl
        >>> dl.datasets.openml("mnist")
        Traceback (most recent call last):
        ValueError: name must be one of mnist_784, Fashion-MNIST, CIFAR_10; got 'mnist'.
    """
    shape = SHAPES[validation.choice(name, "name", tuple(SHAPES))]
    held = validation.integer(test, "test", minimum=1)
    if folder is not None and not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"folder must be a path, got {validation.named(folder)}.")
    pixels, labels = fetched(name, folder)
    if held >= len(pixels):
        raise ValueError(f"test must leave images for training, got {held} of {len(pixels)} images.")
    train, last = standardised(pixels[:-held], pixels[-held:], (0, 2, 3))
    if flatten or (flatten is None and shape[0] == 1):
        train, last = train.flatten(1), last.flatten(1)
    return Data(name, train, labels[:-held], last, labels[-held:], CLASSES, (SOURCES[name], OPENML))


def fetched(name: str, folder: str | os.PathLike[str] | None = None) -> tuple[Tensor, Tensor]:
    """Return images (n, *shape), pixels from 0 to 255, and labels (n,) as OpenML has them."""
    shape = SHAPES[name]
    try:
        from sklearn.datasets import fetch_openml
    except ModuleNotFoundError as error:
        raise not_installed("OpenML is read by scikit-learn", error) from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A network error occurred", UserWarning)
            # As categories, which is the default, scikit-learn 1.9 cannot read labels with pandas 3.1.
            types = {"dtype": dict.fromkeys(range(math.prod(shape)), np.float32)}
            found: Any = fetch_openml(
                name,
                version=1,
                data_home=folder,
                as_frame=False,
                n_retries=1,
                delay=0.1,
                read_csv_kwargs=types,
            )
    except OSError as error:  # URLError and time-outs among them
        raise ConnectionError(
            f"name={name!r} could not be downloaded from openml.org ({str(error).rstrip('.')}). Connect to a"
            " network, or give a folder= into which it was downloaded before. Without either,"
            " deeplimit.datasets.mnist() has 5,000 real images, and digits() 1,797."
        ) from error
    pixels = np.asarray(found.data, dtype=np.float32)
    labels = np.char.strip(np.asarray(found.target).astype(str), "'").astype(np.float64).astype(np.int64)
    if pixels.shape[1:] != (math.prod(shape),) or not 0 <= labels.min() <= labels.max() < CLASSES:
        raise ValueError(
            f"name={name!r} holds rows of {pixels.shape[1:]} pixels and labels from {labels.min()} to"
            f" {labels.max()}; images of shape {shape} and labels below {CLASSES} were expected. Give another"
            " folder=, so that it is downloaded again."
        )
    return torch.from_numpy(pixels).reshape(-1, *shape), torch.from_numpy(labels)
