"""All layers of networks of one depth, for what couples nothing: measurements at initialisation, laws."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from deeplimit.driving.law import Shape, WeightLaw, is_standard
from deeplimit.driving.path import DrawnLayers, Grid, Layer, Path, matvec


def draw_layers(
    law: WeightLaw, depth: int, shape: Shape, paths: int, generator: torch.Generator, dtype: torch.dtype
) -> DrawnLayers:
    """Return all the layers of `paths` networks of one depth, stacked, on the generator's device."""
    path = law.path(shape, Grid((depth,)), paths, generator, dtype)
    if (whole := path.whole()) is not None:
        return whole
    layers = [_kept(layer) for layer in _walk(path, depth)]
    values, biases = [layer.values for layer in layers], [layer.bias for layer in layers]
    return DrawnLayers(_stacked(values), _stacked(biases), layers[-1].scale())


def layers_of(
    law: WeightLaw, depth: int, shape: Shape, paths: int, generator: torch.Generator, dtype: torch.dtype
) -> list[Layer]:
    """Return the layers of `paths` networks of one depth, all of them at once."""
    return [_kept(layer) for layer in _walk(law.path(shape, Grid((depth,)), paths, generator, dtype), depth)]


def layers_in_law(
    law: WeightLaw,
    depth: int,
    shape: Shape,
    paths: int,
    generator: torch.Generator,
    dtype: torch.dtype,
    *,
    whole: bool = False,
) -> Iterator[Layer]:
    """Yield the layers of `paths` networks of one depth, one after the other.

    Brownian matrices draw their product with a state when they are asked for it, d normals each: such layers
    are to be used once. `whole` ones hold their matrices.
    """
    if not whole and len(shape) == 2 and is_standard(law, shape):
        product = partial(_gaussian_product, depth, generator, shape[0])
        for _ in range(depth):
            yield Layer(None, depth, law.layer_exponent, law.entry_scale(shape), product_of=product)
        return
    yield from _walk(law.path(shape, Grid((depth,)), paths, generator, dtype), depth)


def _walk(path: Path, depth: int) -> Iterator[Layer]:
    for chunk in Grid((depth,)).chunks():
        path.begin(chunk)
        for index in range(len(chunk.steps)):
            path.advance(index)
            yield path.layer(0)


def _gaussian_product(depth: int, generator: torch.Generator, rows: int, vector: Tensor) -> Tensor:
    """Return V v (P, rows) for a new Gaussian increment V over 1/depth: given v, i.i.d. N(0, |v|²/depth).

    Several vectors (P, n, d) share V, so that it is drawn whole.
    """
    shape = (len(vector), rows, vector.shape[-1]) if vector.ndim > 2 else (len(vector), rows)
    normal = vector.new_empty(shape).normal_(0.0, depth**-0.5, generator=generator)
    if vector.ndim > 2:
        return matvec(normal, vector)
    # Squares of numbers that float32 holds need not be such numbers.
    size = torch.linalg.vector_norm(vector, dim=1, keepdim=True, dtype=torch.float64).to(vector.dtype)
    product: Tensor = normal * size
    return product


def _kept(layer: Layer) -> Layer:
    """Return a layer that the next one does not overwrite."""
    values, bias = (None if held is None else held.clone() for held in (layer.values, layer.bias))
    return dataclasses.replace(layer, values=values, bias=bias)


def _stacked(layers: list[Tensor | None]) -> Tensor | None:
    given = [layer for layer in layers if layer is not None]  # all of them, or none
    return torch.stack(given) if given else None
