"""Every report keeps the contract of `Report`; files of earlier versions load; a user's own report works."""

import dataclasses
import functools
import importlib
import json
import pkgutil
import re
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import torch
from rooms import OTHER_TRAINERS
from stacks import Transformer, tokens

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.common import citations, fields, files, load_report as reports, page
from deeplimit.common.global_state import seeded
from deeplimit.common.report import KINDS, Column, Table
from deeplimit.modules.depth_check.rules import RULES
from deeplimit.theory.theorem import COHEN_KEY, HU_KEY, MARION_KEY

OLD = sorted((Path(__file__).parent / "old_reports").glob("*.json"))
OWN = "users-own"


@dataclasses.dataclass(frozen=True)
class Point:
    """One number, nested."""

    at: float
    seen: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Own(dl.Report):
    """A user's own report, with every type of field."""

    kind = OWN

    word: str
    verdict: Annotated[dl.Verdict, fields.OneOf((dl.Verdict.STABLE, dl.Verdict.CANNOT_TELL))]
    depths: fields.Depths
    errors: fields.PerDepth
    cube: Annotated[np.ndarray, fields.Shape("depths 2 draws")]
    draws: int
    share: float | None
    point: Point
    points: Annotated[tuple[Point, ...], fields.Shape("depths")]
    versions: dict[str, str]
    reservations: tuple[str, ...]
    later: float = 0.5

    @property
    def headline(self):
        return f"{self.verdict}: {self.word}"

    def _table(self):
        return Table(
            (
                Column("depth", self.depths),
                Column("<name>", ["<i>a", "b & c"], left=True),
                Column("error 5 %_x", self.errors, ".3g", error=self.errors / 10),
            )
        )

    def _draw(self, axes):
        axes.plot(self.depths, self.errors)


def own(**changes):
    values = {
        "word": "a <b> & c",
        "verdict": dl.Verdict.STABLE,
        "depths": np.array([4, 8]),
        "errors": np.array([np.nan, np.inf]),
        "cube": np.zeros((2, 2, 3)),
        "draws": 3,
        "share": None,
        "point": Point(-np.inf, True),
        "points": (Point(1.0, False), Point(0.1, True)),
        "versions": {"own": "1"},
        "reservations": ("100 % of <it> & more",),
    }
    return Own(**values | changes)


SYSTEM = dl.datasets.synthetic_system(width=4, count=40, test=9)
MADE = {
    "depth-diagnosis": lambda: dl.diagnose(depth_sweeps.seven(width=3)["Hypothesis 2, much noise"][1]),
    "network-diagnosis": lambda: dl.diagnose(_transformer(4, 8), batch=tokens()),
    "depth-controls": lambda: dl.depth_controls({"A": np.eye(12)}, lambda stacks: stacks["A"].sum()),
    "study": lambda: dl.study(
        lambda depth: _transformer(depth, 8), lambda model, depth, seed: model, [6], 1, batch=tokens()
    ),
    "training": lambda: dl.train(dl.inner(4, "tanh"), [2, 4], SYSTEM, repeats=2, epochs=2),
    "training-check": lambda: _trained(),
    "initialisation": lambda: dl.init.iid_([torch.empty(4, 4) for _ in range(3)]),
    "residual-initialisation": lambda: _residual(),
    "order": lambda: dl.order(
        np.abs(np.random.default_rng(0).standard_normal((200, 1))) / [8, 16, 32], [8, 16, 32]
    ),
    "solver": lambda: _solved(),
    "block-limit": lambda: dl.identify(_stack, depths=(2, 4, 8), draws=16),
    "recommendation": lambda: dl.recommend(_stack, 8, depths=(2, 4, 6), batch=torch.ones(2, 4)),
    "work-precision": lambda: dl.work_precision("dopri5", lambda t, h: -h, torch.eye(2)),
    OWN: own,
}


class Added(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, h):
        return h + self.linear(torch.tanh(h))


def _stack(depth):
    return torch.nn.Sequential(*(Added() for _ in range(depth)))


def _transformer(depth, width=32):
    with seeded(0):
        return Transformer(depth, width)


def _trained():
    return dl.check_training(
        _transformer,
        [2, 4],
        optimizer=lambda model, depth: torch.optim.SGD(model.parameters(), lr=0.1),
        batch=tokens(),
        expected="completep",
        seeds=2,
    )


def _solved():
    problem = dl.testing.PROBLEMS["circle"]
    given = {"steps": (4, 8, 16, 32), "paths": 256, "kind": "weak"}
    return dl.check_solver(dl.Heun(), problem.equation, problem.x, **given)


def _residual():
    return dl.init.residual_(_transformer(3), batch=tokens())


@functools.cache
def instance(name):
    return MADE[name]() if name in MADE else dl.load_report(OLD[0].parent / f"{name}.json")


NAMES = [*(path.stem for path in OLD), *MADE]


LONG = ("depth-diagnosis", "network-diagnosis")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in LONG else ()) for name in NAMES]
)
def test_every_report_keeps_the_contract(name):
    dl.testing.check_report(instance(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_report_shows_itself_as_its_text(name):
    report = instance(name)
    assert repr(report) == str(report)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_without_its_measurement_says_what_to_do_instead(name):
    with pytest.raises(ValueError, match="no paths to draw again") as caught:
        instance(name).path(0)
    assert len(str(caught.value)) > 80


def is_within(before, after):
    """Whether every named field of `before` is in `after` with its value; later versions add fields."""
    if isinstance(before, dict):
        return all(name in after and is_within(value, after[name]) for name, value in before.items())
    if isinstance(before, list):
        return len(before) == len(after) and all(map(is_within, before, after))
    return before == after


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_a_file_of_the_first_version_loads_and_is_written_again(path, tmp_path):
    """Files in old_reports were written by the code before reports had a base class."""
    report = dl.load_report(path)
    report.save(tmp_path / "again.json")
    before, after = (json.loads(file.read_text()) for file in (path, tmp_path / "again.json"))
    assert after["kind"] == before["kind"]
    assert is_within(before["report"], after["report"])


def test_every_kind_has_a_home_and_an_instance_here():
    for module in pkgutil.walk_packages(dl.__path__, "deeplimit."):
        if "__main__" not in module.name and module.name not in OTHER_TRAINERS:
            importlib.import_module(module.name)
    # An example of a docstring, run before in the same process, leaves a class that no module holds.
    library = {
        kind: cls
        for kind, cls in KINDS.items()
        if cls.__module__.startswith("deeplimit.")
        and getattr(sys.modules[cls.__module__], cls.__name__, None) is cls
    }
    assert {kind: cls.__module__.removeprefix("deeplimit.") for kind, cls in library.items()} == reports.HOMES
    assert {type(instance(name)).kind for name in NAMES} >= set(library)


def test_a_users_report_loads_once_its_class_is_imported(tmp_path):
    own().save(tmp_path / "own.json")
    assert type(dl.load_report(tmp_path / "own.json")) is Own
    document = json.loads((tmp_path / "own.json").read_text())
    (tmp_path / "own.json").write_text(files.sealed(document | {"kind": "never-seen"}))
    with pytest.raises(ValueError, match="never-seen"):
        dl.load_report(tmp_path / "own.json")


def test_a_kind_belongs_to_one_class():
    with pytest.raises(ValueError, match="compare"):
        type("Other", (dl.Report,), {"kind": "compare"})
    assert KINDS["compare"] is dl.CompareReport


DAMAGED = [
    ("word", 3, TypeError),
    ("verdict", "explosion", ValueError),
    ("verdict", None, TypeError),
    ("depths", [4, 4], ValueError),
    ("depths", [4, 8.5], ValueError),
    ("depths", [], ValueError),
    ("errors", [0.1], ValueError),
    ("errors", ["a", "b"], ValueError),
    ("cube", [[[0, 0, 0]] * 2], ValueError),
    ("draws", True, TypeError),
    ("draws", 2, ValueError),
    ("share", "half", TypeError),
    ("point", {"at": 1.0}, ValueError),
    ("points", [{"at": 1.0, "seen": True}], ValueError),
    ("versions", {"own": 1}, TypeError),
    ("reservations", "none", TypeError),
    ("later", None, TypeError),
]


@pytest.mark.parametrize(("field", "value", "error"), DAMAGED)
def test_a_damaged_field_is_refused_by_its_name(field, value, error):
    with pytest.raises(error, match=field):
        Own.from_dict(own().to_dict() | {field: value})


def test_a_nested_field_is_named_with_its_path():
    content = own().to_dict()
    content["points"][1]["seen"] = "yes"
    with pytest.raises(TypeError, match=r"points\[1\]\.seen"):
        Own.from_dict(content)


def test_a_field_with_a_default_may_be_missing_in_older_files():
    content = own().to_dict()
    del content["later"]
    assert Own.from_dict(content).later == 0.5


def _without_caveats(report):
    return f"{report.headline}\n{report._table()}"


BREACHES = {
    "headline": {"headline": property(lambda self: "two\nlines")},
    "JSON": {"to_dict": lambda self: {"word": object()}},
    "from_dict": {"from_dict": classmethod(lambda cls, content: own(word="other"))},
    "axes": {"plot": lambda self, ax=None, compact=False: Own.plot(self, None)},
    "inches wide": {"plot": lambda self, ax=None, compact=False: Own.plot(self, ax)},
    "points": {"_draw": lambda self, axes: axes.set_title("too small", fontsize=5)},
    "runs off": {"_draw": lambda self, axes: axes.set_title("much too long " * 20)},
    "below": {"_reservations": lambda self: ["a few paths"], "_text": lambda self, _: _without_caveats(self)},
    "full": {"full": lambda self: self.headline},
    "BibTeX": {"citation": lambda self: "see the paper"},
    "HTML": {"_repr_html_": lambda self: f"<p>{self.headline}</p>"},
}


@pytest.mark.parametrize("word", BREACHES)
def test_a_broken_contract_is_named(word, monkeypatch):
    """Each breach in a class of its own, so that a check that sees nothing would fail here."""
    broken = type("Broken", (Own,), {"kind": f"broken-{word}", **BREACHES[word]})
    values = {field.name: getattr(own(), field.name) for field in dataclasses.fields(Own)}
    try:
        with pytest.raises(AssertionError, match=rf"^Broken: .*{word}"):
            dl.testing.check_report(broken(**values))
    finally:
        del KINDS[f"broken-{word}"]


def test_panels_of_a_compact_picture_stand_one_below_another():
    sweep = instance("depth-diagnosis")
    figure = sweep.plot(compact=True).figure
    panels = figure.axes[0].child_axes
    tops = [panel.get_position().y1 for panel in panels]
    assert tuple(figure.get_size_inches()) == pytest.approx((3.3, 2.5 + 3 * 1.6))
    assert len(set(tops)) == 4
    assert tops == sorted(tops, reverse=True)
    assert all(panel.get_legend() for panel in panels)
    assert tuple(sweep.plot().figure.get_size_inches()) == (10.0, 7.6), "the next one is as before"
    with pytest.raises(TypeError, match=r"compact .*'yes'"):
        sweep.plot(compact="yes")


def test_columns_of_different_lengths_or_of_one_heading_are_refused():
    for second in (Column("b", [1]), Column("a", [1, 2])):
        with pytest.raises(ValueError, match="'a'"):
            Table((Column("a", [1, 2]), second))


def test_a_report_without_a_kind_is_told_so():
    class Nameless(dl.Report):
        headline = "nothing"
        _table = _draw = None

    with pytest.raises(AssertionError, match=r"^Nameless: .*kind"):
        dl.testing.check_report(Nameless())
    with pytest.raises(TypeError, match="report"):
        dl.testing.check_report(3)


def test_a_frame_without_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'deeplimit\[frames\]'"):
        own().to_frame()


def test_tables_are_written_where_they_are_told(tmp_path):
    report = instance("compare")
    for name, write in (("t.csv", report.to_csv), ("t.tex", report.to_latex)):
        assert (tmp_path / name).exists() is False
        assert write(tmp_path / name) == (tmp_path / name).read_text(encoding="utf-8")
        with pytest.raises(ValueError, match=r"path .*'.*\.txt'"):
            write(tmp_path / "t.txt")
    report.save_html(tmp_path / "r.html")
    assert "<svg" in (tmp_path / "r.html").read_text(encoding="utf-8")


def cited(report):
    """The keys of a report's BibTeX entries."""
    return set(re.findall(r"^@\w+\{(\w+),", report.citation(), flags=re.MULTILINE))


def test_citations_are_those_of_the_theorem_the_limit_and_the_paths():
    def of(network, limit=None):
        return cited(dl.compare(network, limit, depths=[2, 4, 8], paths=16)) - {"deeplimit"}

    rough = dl.FractionalBrownian(0.7)
    assert of(dl.res1(2, "tanh")) == {"marion2025", "kloeden1992"}
    assert of(dl.inner(2, noise=dl.Ito(A=0.1))) == {"cohen2021", "kloeden1992"}
    assert of(dl.res1(2, "tanh", weights=dl.SmoothGaussian())) == {"marion2025", "torchdiffeq"}
    assert of(dl.res1(2, "tanh", weights=rough)) == {"hu2016", "davies1987"}
    # No theorem is about this pair; a name in a text is no source.
    assert of(dl.res1(2, "tanh"), lambda t, h: 0.0 * h) == {"torchdiffeq"}
    assert of(dl.res1(2, "tanh", weights=rough), dl.Identity()) == {"davies1987"}


@pytest.mark.nightly
def test_every_function_cites_what_it_used():
    uniform = dl.res1(2, "tanh", weights=dl.IID("uniform"))
    laws = dl.compare_laws(uniform, depths=[2, 4, 8], draws=200)
    assert {"marion2025", "holm1979", "szekely2013"} <= cited(laws)
    stable = dl.stability(dl.res3(2, weights=dl.FractionalBrownian(0.7)), depths=[2, 4], draws=4)
    assert cited(stable) == {"deeplimit", "marion2025", "davies1987"}
    checked = dl.check_depth(Transformer, [2, 3], batch=tokens(), expected="gpt-2")
    assert cited(checked) == {"deeplimit", "radford2019"}
    board = dl.validate(quick=True, only="α = 1, β = 0")
    assert cited(board) == {"deeplimit", "cohen2021", "torchdiffeq"}
    assert "hu2016" in cited(dl.init.fractional_([torch.empty(4, 4) for _ in range(3)], hurst=0.7))


def test_a_users_source_is_cited_whether_it_is_an_entry_or_a_line():
    entry = "@misc{doe2026,\n  author = {Doe},\n}"
    text = citations.bibtex(("deeplimit", entry, "Doe (2026), Theorem 1", entry))
    assert text.count("doe2026") == 1
    assert "note = {Doe (2026), Theorem 1}" in text


def test_every_key_that_the_library_cites_has_an_entry():
    keys = {rule.citation for rule in RULES.values()}
    for limit in (dl.NeuralSDE, dl.NeuralODE, dl.NeuralYoung, dl.LinearODE, dl.ItoCorrectedSDE):
        keys |= set(limit.citations)
    keys |= {MARION_KEY, COHEN_KEY, HU_KEY, *dl.res1(2, weights=dl.FractionalBrownian(0.7)).citations}
    assert keys <= set(citations.ENTRIES)


def test_verdicts_compare_with_plain_words():
    verdict = instance("compare").verdict
    assert verdict == "cannot tell"
    assert f"{verdict}" == "cannot tell"
    assert repr(verdict) == "'cannot tell'"
    assert {verdict: 1}["cannot tell"] == 1
    assert dl.Verdict("does not converge") is dl.Verdict.DOES_NOT_CONVERGE
    with pytest.raises(ValueError, match="'nonsense'"):
        dl.Verdict("nonsense")
    with pytest.raises(AttributeError, match="NONSENSE"):
        _ = dl.Verdict.NONSENSE


@pytest.mark.parametrize(
    ("good", "codes"),
    [
        (True, "converges; same law; stable; as expected; linear-ode; sde; agrees; caught; reproduced"),
        (
            False,
            "does not converge; another law; explosion; not as expected; disagrees; not caught",
        ),
        (None, "cannot tell; measured; rough; copies; sparse; no trend; independent; smooth trend"),
    ],
)
def test_every_code_says_whether_it_is_good_and_colours_follow_it(good, codes):
    for code in codes.split("; "):
        assert dl.Verdict(code).is_good is good
        assert page.tone(dl.Verdict(code)) == {True: "good", False: "bad", None: "open"}[good]


def test_a_code_of_several_questions_is_as_good_in_each():
    for code in dl.Verdict:
        assert code.is_good is dl.Verdict(code).is_good
        assert type(code)(str(code)) is code


OUT_OF_BOUNDS = {
    "seed": (-1,),
    "seconds": (-0.5, "inf", "nan"),
    "paths": (-1, 2**60),
    "draws": (-1, 2**60),
    "confidence": (-0.1, 1.5, "nan"),
    "level": (-0.1, 1.5),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.nightly if each in LONG else ()) for each in NAMES if each != OWN],
)
def test_a_number_out_of_its_bounds_is_refused_by_its_name(name):
    report = instance(name)
    content = report.to_dict()
    assert type(report).from_dict(content) == report
    for field in OUT_OF_BOUNDS.keys() & content.keys():
        for value in OUT_OF_BOUNDS[field]:
            with pytest.raises(ValueError, match=field):
                type(report).from_dict(content | {field: value})


def test_a_page_has_no_heading_without_content():
    assert not own()._setting()
    assert "<h2>Setting</h2>" not in own()._repr_html_()
    assert "<h2>Setting</h2>" in instance("compare")._repr_html_()


def test_signs_of_numbers_are_minus_signs_in_latex_and_hyphens_stay():
    numbers = Column("rate", [-0.005, 1e-7], ".3g", interval=([-0.015, 0.0], [-0.001, 1.0]))
    text = Table((numbers, Column("network", ["res-1", "h - 1"]))).to_latex()
    assert "$-$0.005 [$-$0.015, $-$0.001]" in text
    assert "1e-07" in text
    assert "res-1" in text
    assert "h - 1" in text
