"""Statistics of one network's layers, together."""

import torch

from deeplimit.diagnosis.one_network import LayerStatistics
from deeplimit.diagnosis.stacks import Stack


def test_independent_layers_have_no_order_and_the_index_of_brownian_motion() -> None:
    noise = torch.randn(12, 40, 40, generator=torch.Generator().manual_seed(3))
    found = LayerStatistics.of(Stack("A", noise))
    assert (found.name, found.depth, found.entries) == ("A", 12, 1600)
    assert found.order.p_value > 1e-3
    assert abs(found.roughness.hurst - 0.5) < 0.03
    assert found.noise.noise_interval is not None
    assert found.noise.noise_interval[1] == 1.0
