"""Every word that a diagnosis prints is on the page about trained networks."""

import re
from pathlib import Path
from typing import get_args

import pytest
import torch

import deeplimit as dl
from deeplimit.common.verdict import LayersVerdict, RegimeVerdict
from deeplimit.trained.diagnosis import wording
from deeplimit.trained.diagnosis.correlations import Answer
from deeplimit.trained.diagnosis.norms import QUANTITIES
from deeplimit.trained.diagnosis.stacks import NOISE, STATES, WEIGHTS

PAGE = (Path(__file__).parents[2] / "docs" / "trained-networks.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"`([^`\n]+)`", PAGE))
FIRST_CELLS = set(re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\|([^|]+)\|", PAGE, re.MULTILINE))))


@pytest.mark.parametrize("question", [LayersVerdict, RegimeVerdict], ids=lambda each: each.__name__)
def test_every_verdict_has_a_row_on_the_page(question):
    assert {str(code) for code in question} <= FIRST_CELLS


def test_every_correlation_and_probe_is_on_the_page():
    assert {*get_args(Answer), WEIGHTS, NOISE, STATES} <= WORDS


def test_every_quantity_of_a_sweep_has_a_row_on_the_page():
    assert set(QUANTITIES) <= FIRST_CELLS


def test_every_verdict_on_layers_has_words_for_the_headline():
    assert set(wording.LAYERS) == set(LayersVerdict)


def test_every_object_of_an_mlp_and_of_attention_is_on_the_page():
    random = torch.Generator().manual_seed(0)
    shapes = {
        f"{name}.weight": (8, 8) for name in ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.o_proj")
    }
    shapes |= {"fc1.weight": (16, 8), "fc2.weight": (8, 16)}
    weights = {
        f"blocks.{layer}.{name}": torch.randn(shape, generator=random)
        for layer in range(6)
        for name, shape in shapes.items()
    }
    names = {each.name.partition(": ")[2] for each in dl.diagnose(weights).objects}
    assert (
        {"product", "read Gram", "write Gram", "queries and keys", "values and output"}
        <= names
        <= FIRST_CELLS
    )
