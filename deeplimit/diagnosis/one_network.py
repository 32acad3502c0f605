"""What one network's layers say about depth, for one weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from deeplimit.diagnosis.hurst import Roughness, roughness
from deeplimit.diagnosis.layer_gram import LayerGram
from deeplimit.diagnosis.nugget import NoiseShare, noise_share
from deeplimit.diagnosis.order_test import OrderTest, order_test
from deeplimit.diagnosis.stacks import Stack


@final
@dataclass(frozen=True)
class LayerStatistics:
    """Statistics of one weight over the layers of one network.

    Attributes:
        name: of the weight.
        depth: how many layers it has.
        entries: how many entries a layer has.
        order: whether the order of layers is real.
        roughness: Hurst index as if the layers were fractional noise.
        noise: shares of noise and trend, as if the layers were a trend with independent noise.
    """

    name: str
    depth: int
    entries: int
    order: OrderTest
    roughness: Roughness
    noise: NoiseShare

    @classmethod
    def of(cls, stack: Stack, seed: int = 0) -> LayerStatistics:
        """Return the statistics of one stack; `seed` decides which permutations are drawn.

        Raises:
            ValueError: where there are fewer than 4 layers, no three layers of one group, or zero weights
                only.

        Not checked: that entries of different layers are matched. Those of inner weights are not.

        Examples:
            >>> import torch
            >>> from deeplimit.diagnosis.stacks import Stack
            >>> noise = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(1))
            >>> LayerStatistics.of(Stack("A", noise)).order.p_value > 0.01
            True
        """
        gram = LayerGram.of(stack)
        order = order_test(gram, seed)
        return cls(stack.name, stack.depth, gram.entries, order, roughness(gram), noise_share(gram))
