"""The first layer of every network: from inputs of any size to states."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator


def initial_layer(x: Tensor, shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> Tensor:
    """Return the states h_0 (n, *shape) of the inputs x: x itself, or A x for x (n, n_in).

    A (d, n_in) is drawn once from this seed, N(0, 1/n_in) per entry. Raises ValueError for x of another
    shape where states are no vectors, and for states that `dtype`, in which they will be used, cannot hold.
    """
    h0 = x
    if tuple(x.shape[1:]) != shape:
        if len(shape) > 1:
            raise ValueError(f"x must have shape (n, {', '.join(map(str, shape))}), got {tuple(x.shape)}.")
        matrix = torch.empty(shape[0], x.shape[1], dtype=torch.float64)
        matrix.normal_(0.0, x.shape[1] ** -0.5, generator=generator(seed, Purpose.INPUT_LAYER))
        h0 = (x.to("cpu", torch.float64) @ matrix.T).to(x.dtype)
    if not bool(torch.isfinite(h0.to(dtype)).all()):
        raise ValueError(
            f"x holds numbers too large for {str(dtype).removeprefix('torch.')}; scale x, or pass"
            " dtype='float64'."
        )
    return h0


def starting_states(inputs: Tensor, shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> Tensor:
    """Return h_0 (n, *shape), where ratios to it are measured; raise ValueError for one that is zero."""
    states = initial_layer(inputs, shape, seed, dtype)
    sizes = torch.linalg.vector_norm(states.to(dtype).flatten(1), dim=1, dtype=torch.float64)
    if bool((sizes == 0).any()):
        rows = torch.nonzero(sizes == 0).flatten().tolist()
        raise ValueError(
            "x must not hold a starting point 0, at which |h_L|/|h_0| is not defined"
            f" (row{'s' if len(rows) > 1 else ''}"
            f" {', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''}); leave it out."
        )
    return states
