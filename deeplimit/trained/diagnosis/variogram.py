"""How much layers differ by their distance in one network, beside the law that its verdict says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np

from deeplimit.common.fields import Shape
from deeplimit.trained.diagnosis.layer_gram import LayerGram

LAGS = 16
"""Most distances."""
NEAR, FEWEST = 8, 3
"""The law is fitted to distances up to depth / NEAR, and to FEWEST of them at least."""
POWERS = np.linspace(0.1, 2.0, 191)
"""Powers of the distance that are tried."""


@final
@dataclass(frozen=True, eq=False)
class Variogram:
    """Half the mean square of differences of layers, over the mean square of layers.

    Attributes:
        lags: distances of layers (lags,), at most half of the depth.
        values: 1 for independent layers, at every distance (lags,).
        nugget: the noise's share: what the law has at distance 0.
        slope, power: the law is nugget + slope · (lag/L)^power; the power is NaN where the slope is 0.
        fitted: the law at the distances (lags,).
    """

    lags: Annotated[np.ndarray, Shape("lags", whole=True)]
    values: Annotated[np.ndarray, Shape("lags")]
    nugget: float
    slope: float
    power: float
    fitted: Annotated[np.ndarray, Shape("lags")]

    @classmethod
    def of(cls, gram: LayerGram, nugget: float) -> Variogram:
        """Return the variogram of layers, with the law whose nugget is the noise's share.

        The law is fitted to near layers, by least squares of relative errors. Its slope is not negative.

        Args:
            gram: products of layers that are not all zero, at least two.
            nugget: share of noise, at least 0.

        Returns:
            The variogram.

        Not checked: that layers are finite.

        Examples:
            >>> import torch
            >>> line = torch.arange(8.0)[:, None]
            >>> found = Variogram.of(LayerGram((line @ line.T).numpy(), 1), 0.0)
            >>> round(found.power, 2), found.lags.tolist()
            (2.0, [1, 2, 3, 4])
        """
        products, depth = gram.products, len(gram.products)
        squares = np.diagonal(products)
        lags = np.unique(np.geomspace(1, max(1, depth // 2), LAGS).round().astype(int))
        size = float(squares.mean()) or 1.0
        values = np.array(
            [
                (squares[lag:] + squares[:-lag] - 2 * np.diagonal(products, lag)).mean().clip(0.0)
                for lag in lags
            ]
        ) / (2 * size)
        near = np.maximum(depth / NEAR, lags[: min(FEWEST, len(lags))].max()) >= lags
        weights = near / np.maximum(values, 1e-12) ** 2
        tried = []
        for power in POWERS:
            shape = (lags / depth) ** power
            top, bottom = (weights * shape * (values - nugget)).sum(), (weights * shape**2).sum()
            slope = max(0.0, float(top / bottom))
            law = nugget + slope * shape
            tried.append((float((weights * (values - law) ** 2).sum()), slope, float(power)))
        _, slope, power = min(tried)
        fitted = nugget + slope * (lags / depth) ** power
        return cls(lags, values, nugget, slope, power if slope > 0 else float("nan"), fitted)
