"""Weights are read from files, modules and mappings alike; no code runs, and damage is named."""

import json
import struct

import numpy as np
import pytest
import safetensors.torch
import torch
from refusals import assert_refused, row
from torch import nn

from deeplimit.common.global_state import seeded
from deeplimit.trained.diagnosis.sources import source_of

WEIGHTS = {f"layers.{k}.weight": torch.full((2, 3), float(k)) for k in range(5)}


class Code:
    """What a harmful pickle does when it is loaded."""

    ran = False

    def __reduce__(self):
        return exec, ("import tests_that_must_never_import_this",)


def safetensors_of(folder, change=lambda header: None, cut=0):
    """Write a safetensors file whose header was changed, or whose end was cut off."""
    path = folder / "weights.safetensors"
    safetensors.torch.save_file(WEIGHTS, path)
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    change(header)
    told = json.dumps(header).encode()
    whole = struct.pack("<Q", len(told)) + told + content[8 + length :]
    path.write_bytes(whole[: len(whole) - cut])
    return path


def torch_file(folder, content, name="weights.pt"):
    path = folder / name
    torch.save(content, path)
    return path


def module():
    made = nn.Module()
    with seeded(0):
        made.layers = nn.ModuleList(nn.Linear(3, 2, bias=False) for _ in range(5))
    made.load_state_dict(WEIGHTS)
    return made


@pytest.mark.parametrize(
    "kind", ["module", "compiled", "state_dict", "arrays", "safetensors", "pt", "legacy"]
)
def test_every_way_of_giving_weights_gives_the_same_tensors(kind, tmp_path):
    given = {
        "module": module,
        "compiled": lambda: {f"_orig_mod.{name}": value for name, value in WEIGHTS.items()},
        "state_dict": lambda: WEIGHTS | {"version": 3},
        "arrays": lambda: {name: value.numpy() for name, value in WEIGHTS.items()},
        "safetensors": lambda: safetensors_of(tmp_path),
        "pt": lambda: torch_file(tmp_path, {"step": 7, "model": WEIGHTS, "optimizer": {"lr": 0.1}}),
        "legacy": lambda: legacy(tmp_path),
    }[kind]()
    source = source_of(given)
    assert source.shapes == {name: (2, 3) for name in WEIGHTS}
    for name, value in WEIGHTS.items():
        torch.testing.assert_close(source.read(name), value, rtol=0, atol=0)


def legacy(folder):
    torch.save(WEIGHTS, folder / "old.ckpt", _use_new_zipfile_serialization=False)
    return str(folder / "old.ckpt")


def test_masks_and_extra_states_are_passed_over():
    given = {
        "a": torch.ones(2),
        "mask": torch.ones(2, dtype=torch.bool),
        "_extra_state": b"",
        3: torch.ones(1),
    }
    assert source_of(given).shapes == {"a": (2,)}


def lengthened(header):
    header["layers.3.weight"]["data_offsets"][1] += 4000


def beheaded(folder):
    path = safetensors_of(folder)
    path.write_bytes(path.read_bytes()[:30])
    return path


def emptied(folder, name):
    (folder / name).write_bytes(b"")
    return folder / name


def expanded(folder):
    return torch_file(folder, {"layers.0.weight": torch.ones(1).expand(10**6, 10**6)})


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        row("cut off", lambda f: safetensors_of(f, cut=30), ValueError, "layers.3.weight"),
        row("end of a tensor", lambda f: safetensors_of(f, lengthened), ValueError, "layers.3.weight"),
        row("no whole header", beheaded, ValueError, "weights.safetensors", "header"),
        row("empty pt", lambda f: emptied(f, "e.pt"), ValueError, "e.pt", "truncated"),
        row("code", lambda f: torch_file(f, {"a": Code()}), ValueError, "weights.pt", "not run"),
        row("expanded", expanded, ValueError, "layers.0.weight", "(1000000, 1000000)", "1 numbers"),
        row("other type", lambda f: emptied(f, "weights.pkl"), ValueError, "weights", ".pkl"),
        row("no file", lambda f: f / "none.pt", ValueError, "weights", "none.pt"),
        row("number", lambda f: 3, TypeError, "weights", "3 of type int"),
        row("no tensors", lambda f: {"a": 1}, ValueError, "weights", "'a'", "none"),
        row("two states", lambda f: {"model": WEIGHTS, "ema": WEIGHTS}, ValueError, "'model', 'ema'"),
        row("complex", lambda f: {"a.0": torch.ones(2, dtype=torch.complex64)}, TypeError, "'a.0'"),
        row("meta", lambda f: nn.Linear(2, 2, device="meta"), TypeError, "weight", "meta"),
    ],
)
def test_weights_that_cannot_be_read_are_refused_by_name(make, kind, said, tmp_path):
    assert_refused(lambda: source_of(make(tmp_path)), kind, *said)


def test_a_tensor_is_read_when_it_is_asked_for(tmp_path):
    """A file with one damaged tensor gives the others: numbers are checked by who reads them."""
    bad = WEIGHTS | {"layers.1.weight": torch.full((2, 3), np.nan)}
    safetensors.torch.save_file(bad, tmp_path / "w.safetensors")
    assert float(source_of(tmp_path / "w.safetensors").read("layers.4.weight").sum()) == 24.0
