"""Files that somebody else made: refused in bounded time and memory, nothing executed, nothing unescaped."""

import json
import os
import struct
import time

import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common import files

NAME = "<script>alert(1)</script> $x_{$ \x1b[31m"


class Named(torch.nn.Module):
    """A network whose modules have names that a page, a terminal or a formula would obey."""

    def __init__(self, depth):
        super().__init__()
        for layer in range(depth):
            self.add_module(f"{NAME}{layer}", torch.nn.Linear(3, 3))

    def forward(self, x):
        for layer in self.children():
            x = x + layer(torch.tanh(x))
        return x


@pytest.fixture(scope="module")
def named():
    return dl.check_depth(Named, [2, 4, 8], batch=torch.ones(2, 3))


@pytest.fixture(scope="module")
def report():
    return dl.compare(dl.res1(2, "tanh"), depths=[2, 4, 8], paths=64)


def test_names_are_not_obeyed_by_a_terminal_or_a_page(named, tmp_path):
    assert "\x1b" in named.branches[0].kind
    assert "\x1b" not in str(named)
    assert r"\x1b[31m" in str(named)
    named.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in named._repr_html_()


def test_names_begin_no_formula_in_a_picture(named, tmp_path):
    with torch.random.fork_rng(devices=[]):
        layers = dl.probe(Named(3), torch.ones(2, 3))
    for found in (named, layers):
        found.plot(tmp_path / "picture.svg")
        assert (tmp_path / "picture.svg").stat().st_size > 1000


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def fifo(path):
    os.mkfifo(path)
    return path


def huge(path):
    with path.open("wb") as file:
        file.truncate(5 * 2**30)
    return path


MADE = {
    "deep": (lambda path: written(path, "[" * 10**6), "nested too deeply"),
    "5000 digits": (lambda path: written(path, '{"format": ' + "9" * 5000 + "}"), "not JSON"),
    "pipe": (fifo, "pipe or device"),
    "device": (lambda path: "/dev/zero", "pipe or device"),
    "folder": (lambda path: path.parent, "folder"),
    "five gigabytes": (huge, "at most 268435456 bytes"),
    "bytes": (lambda path: path.write_bytes(b"\xff\xfe") and path, "text"),
    "null byte": (lambda path: "a\0b.json", "null bytes"),
}


@pytest.mark.parametrize("kind", MADE)
def test_files_that_never_end_or_are_none_are_refused_before_they_are_read(kind, tmp_path):
    made, said = MADE[kind]
    path = made(tmp_path / "r.json")
    started = time.perf_counter()
    with pytest.raises(ValueError, match=said):
        dl.load_report(path)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("value", [10**400, "9" * 400, [[[[]]]], "\ud800"])
def test_fields_of_wrong_kinds_are_refused_by_name(value, report, tmp_path):
    report.save(tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    content["report"]["rate"] = value
    (tmp_path / "r.json").write_text(json.dumps(json.loads(files.sealed(content))), encoding="utf-8")
    with pytest.raises(ValueError, match=r"damaged compare report: .*rate"):
        dl.load_report(tmp_path / "r.json")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_stores_and_weights_are_ordinary_files(kind, tmp_path):
    path = MADE[kind][0](tmp_path / "s.sqlite")
    assert_refused(lambda: dl.Store(path), ValueError, "store", str(path))
    if kind != "folder":
        assert_refused(lambda: dl.diagnose(path), ValueError, "weights", str(path))


def test_a_header_of_safetensors_may_be_nested_as_deeply_as_it_likes(tmp_path):
    header = b"[" * 10**6
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match="its header is not JSON"):
        dl.diagnose(tmp_path / "w.safetensors")


def test_what_a_killed_writer_left_is_removed_a_day_later(report, tmp_path):
    old, new = tmp_path / f"{files.LEFTOVER}old.json", tmp_path / f"{files.LEFTOVER}new.json"
    for path in (old, new):
        path.write_text("half", encoding="utf-8")
    yesterday = time.time() - files.SECONDS_LEFT_OVER - 60
    os.utime(old, (yesterday, yesterday))
    report.save(tmp_path / "r.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, "r.json"]
