"""A report says how it was made: the call with its arguments, seed, versions, device."""

import importlib.metadata
import json

import numpy as np
import pytest
import torch
from refusals import assert_refused
from stacks import Transformer, tokens

import deeplimit as dl
from deeplimit.common import files
from deeplimit.common.global_state import seeded
from deeplimit.common.machine import machine
from deeplimit.common.measurement import _run as run_block
from deeplimit.common.report import device_name
from deeplimit.common.specification import environment

SMALL = {"depths": [4, 8, 16], "paths": 64}
HUGE = {"is": "tensor", "dtype": "float32", "numbers": [10**400], "shape": [1]}
FILE = "r.json"


def stack(depth):
    with seeded(0):
        return Transformer(depth)


@pytest.fixture(scope="module")
def report():
    return dl.compare(dl.res1(4, "tanh"), depths=range(4, 13, 4), paths=np.int64(64), seed=3)


def test_a_file_says_by_which_call_a_report_was_made(report, tmp_path):
    report.save(tmp_path / FILE)
    made = dl.load_report(tmp_path / FILE).provenance
    assert made == report.provenance
    assert (made.verb, made.seed, made.arguments["paths"]) == ("compare", 3, 64)
    assert not made.left_out


def test_what_only_the_user_has_is_named():
    asked = dl.check_depth(stack, depths=[2, 3], batch=tokens())
    assert set(asked.provenance.left_out) == {"factory"}
    assert "stack" in asked.provenance.left_out["factory"]


def test_versions_are_of_all_that_computes_and_a_store_asks_for_the_same(report, tmp_path):
    known = {"deeplimit", "numpy", "python", "torch"}
    numba = {"numba"} & {each.metadata["Name"] for each in importlib.metadata.distributions()}
    assert report.provenance.versions.keys() == known | numba
    dl.compare(dl.res1(4, "tanh"), **SMALL, store=tmp_path / "s.sqlite")
    (run,) = dl.Store(tmp_path / "s.sqlite").runs()
    assert run.environment.keys() == known | numba | {"streams"} | machine().keys()
    # A machine without numba would take another pass, whose last bits differ.
    assert_refused(
        lambda: run_block(None, 0, 0, {**environment(), "numba": "0.0.1"}, 1), ValueError, "executor", "numba"
    )


def test_a_page_shows_what_a_file_says_of_its_call_and_runs_nothing(report, tmp_path):
    report.save(tmp_path / FILE)
    document = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    hostile = {"<b>": {"is": "object"}, "x": [[]] * 3, "y": {"is": "name", "of": "<i>:<i>"}, "z": HUGE}
    document["provenance"].update(verb="<script>", arguments=hostile, left_out={"w": "<u>"}, device="<s>")
    (tmp_path / FILE).write_text(files.sealed(document), encoding="utf-8")
    dl.load_report(tmp_path / FILE).save_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not any(tag in page for tag in ("<script>", "<b><b>", "<i>", "<u>", "<s>"))
    assert "&lt;script&gt;" in page
    assert "damaged" in page
    assert "tensor of shape [1], float32" in page


def test_an_initialisation_says_by_which_call_the_weights_were_filled():
    done = dl.init.iid_([torch.empty(4, 4), torch.empty(4, 4)], law="uniform", seed=7)
    assert (done.provenance.verb, done.provenance.seed) == ("init.sample_", 7)
    assert "weights" not in {**done.provenance.arguments, **done.provenance.left_out}
    drawn = dl.init.iid_([torch.empty(4, 4), torch.empty(4, 4)], seed=torch.Generator())
    assert drawn.provenance.seed is None
    assert drawn.provenance.left_out.keys() == {"seed"}
    whole = dl.init.residual_(stack(3), batch=tokens(), seed=5)
    assert (whole.provenance.verb, whole.provenance.seed) == ("init.residual_", 5)
    assert "model" in whole.provenance.left_out


def test_an_argument_that_cannot_be_written_costs_no_result():
    swapped = np.array([0.3, 0.7]).astype(">f8")  # which torch does not read
    report = dl.phase_diagram(dl.res3, 4, 40, hurst=[*swapped], exponents=swapped, draws=3)
    assert report.provenance.left_out.keys() == {"exponents"}


def test_modules_may_have_been_on_a_gpu_where_there_is_one(monkeypatch):
    processor = device_name("cpu")
    assert device_name(None) == processor
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_name(None) == f"{processor}, or the GPU of the caller's modules"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: f"card {place.index}")
    assert device_name("cuda:1") == "card 1"
