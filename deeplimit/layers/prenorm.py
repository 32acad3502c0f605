"""Blocks that read the normalised state, as transformers' do: h + L^-β V σ(N(h))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Layer
from deeplimit.layers.base import Formula, Recursion, Weight

NORMS = {"rms": 2, "layer": 3}
"""The kinds of N, each with the least width at which diffusing states never meet the place where N jumps."""


@final
@dataclass(frozen=True)
class PreNorm(Recursion):
    """h + L^-β V σ(N(h)), where N scales a state to norm √d ("rms"), or centres it first ("layer").

    N has no gain, no bias and no epsilon; N(0) = 0.

    Attributes:
        activation: A name or a callable on tensors, applied entry by entry.
        norm: "rms" (RMSNorm) or "layer" (LayerNorm).

    Raises:
        TypeError, ValueError: For another norm. A network of it needs width 2 ("rms") or 3 ("layer"):
            below, N jumps.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.ResidualNetwork(dl.PreNorm("relu"), width=8)
        >>> print(network.limit().equation)
        dH = (1/√d) dB σ(N(H)), σ = relu, N = rms norm, d = 8
    """

    norm: str = "rms"
    name: ClassVar[str] = "pre-norm"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} V σ(N(h))",
        "V_t σ(N(H))",
        r"h + L^{-%(exponent)s} V \sigma(N(h))",
        r"V_t\,\sigma(N(H))",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("V"),)
    is_euler: ClassVar[bool] = True

    @by_default
    def __post_init__(self) -> None:
        super().__post_init__()
        validation.choice(self.norm, "norm", tuple(NORMS))

    def check(self, width: int) -> None:
        if width < NORMS[self.norm]:
            raise ValueError(
                f"width={width} is too small for norm={self.norm!r}, since N(h) would hold nothing but signs;"
                f" take at least {NORMS[self.norm]}."
            )
        super().check(width)

    def dimensions(self, width: int) -> int:
        """Return in how many dimensions the vector moves that N scales to norm √d."""
        return width - 1 if self.norm == "layer" else width

    @property
    def activation_in_words(self) -> str:
        return f"{super().activation_in_words}, N = {self.norm} norm"

    def operand(self, h: Tensor) -> Tensor:
        """Return σ(N(h)) (P, d)."""
        centred = h - h.mean(dim=1, keepdim=True) if self.norm == "layer" else h
        size = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
        length = math.sqrt(h.shape[1])
        # So small that only 0 is affected, and so large that the quotient does not overflow.
        least = length * torch.finfo(h.dtype).tiny
        return self.activation(centred * (length / size.clamp(min=least)))

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (v,) = layers
        return v.apply(self.operand(h), exponent)
