"""Products of layers are the plain sums of products of entries."""

import numpy as np
import pytest
import torch

from deeplimit.trained.diagnosis import layer_gram
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.stacks import Stack


@pytest.mark.parametrize("chunk", [7, 64, 2**22])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products_do_not_depend_on_chunks_or_precision(
    chunk: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_gram, "CHUNK", chunk)
    values = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    gram = LayerGram.of(Stack("A", values))
    plain = values.double().reshape(5, 12).numpy()
    assert gram.entries == 12
    np.testing.assert_allclose(gram.products, plain @ plain.T / 12, rtol=1e-13)
