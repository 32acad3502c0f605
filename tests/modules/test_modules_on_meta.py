"""Modules built on the meta device are filled a few weights at a time: values, reports and memory are checked
against the same modules built in memory.
"""

import numpy as np
import pytest
import torch
from stacks import Res1, Transformer, tokens, vectors
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace import in_pieces

DEPTHS = [2, 4, 8]
ROOM = 2**15  # bytes: two or three of the weights of these modules


@pytest.fixture
def little_room(monkeypatch):
    """Room for a few weights, and the largest number of bytes that was taken."""
    monkeypatch.setattr(in_pieces, "LARGE", 2**10)
    monkeypatch.setattr(in_pieces, "ROOM", ROOM)
    taken = []
    made = in_pieces.Pieces.have

    def noted(pieces, wanted):
        made(pieces, wanted)
        taken.append(sum(storage.nbytes() for storage in pieces.storages.values()))

    monkeypatch.setattr(in_pieces.Pieces, "have", noted)
    return taken


def on_meta(factory):
    def build(depth):
        with torch.device("meta"):
            return factory(depth)

    return build


def unscaled(depth):
    return Transformer(depth, exponent=0.0)


def cloned(depth):
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def facts(report):
    found = report.to_dict()
    return {key: value for key, value in found.items() if key not in ("seconds", "call", "versions", "date")}


@pytest.mark.parametrize(
    ("factory", "batch", "verdict"),
    [
        (Res1, vectors(), "not as expected"),
        (Transformer, tokens(), "as expected"),
        (unscaled, tokens(), "not as expected"),
        (cloned, torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)), "not as expected"),
    ],
)
def test_a_module_on_meta_has_the_report_of_the_one_in_memory(factory, batch, verdict, little_room):
    here = dl.check_depth(factory, DEPTHS, batch=batch, expected="gpt-2")
    assert not little_room
    there = dl.check_depth(on_meta(factory), DEPTHS, batch=batch, expected="gpt-2")
    assert facts(there) == facts(here)
    assert there.verdict == verdict
    assert max(little_room) <= 2 * ROOM
