"""What a depth check prints, writes and returns: text, JSON, plot, page, command line, assertion; and in
loops of training.
"""

import json
import re

import pytest
import torch
from refusals import assert_refused
from stacks import Res1, Transformer, tokens, vectors
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common import files
from deeplimit.common.global_state import seeded
from deeplimit.modules.depth_check.findings import ABOUT

DEPTHS = [4, 8, 16]


def transformer(depth):
    return Transformer(depth)


def unscaled(depth):
    return Transformer(depth, exponent=0.0)


def batch():
    return tokens()


@pytest.fixture(scope="module")
def reports():
    with seeded(0):
        probed = dl.probe(Transformer(3), tokens())
    return {
        "right": dl.check_depth(transformer, DEPTHS, batch=tokens(), expected=0.5),
        "wrong": dl.check_depth(unscaled, DEPTHS, batch=tokens(), expected="gpt-2"),
        "measured": dl.check_depth(lambda depth: Res1(depth, exponent=1.0), DEPTHS, batch=vectors()),
        "zero": dl.check_depth(lambda depth: Res1(depth, gain=0.0), DEPTHS, batch=vectors()),
        "probed": probed,
    }


KINDS = ["right", "wrong", "measured", "zero", "probed"]


@pytest.mark.parametrize("kind", KINDS)
def test_reports_come_back_from_their_files_as_they_were(kind, reports, tmp_path):
    report = reports[kind]
    report.save(tmp_path / "r.json")
    again = dl.load_report(tmp_path / "r.json")
    assert again.to_dict() == report.to_dict()
    assert str(again) == str(report)
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("field", "value"),
    [("verdict", "perhaps"), ("depths", 4), ("branches", [{"kind": "x"}]), ("tolerance", "wide")],
)
def test_damaged_files_are_refused(field, value, reports, tmp_path):
    file = tmp_path / "r.json"
    reports["right"].save(file)
    content = json.loads(file.read_text())
    content["report"][field] = value
    file.write_text(files.sealed(content))
    assert_refused(lambda: dl.load_report(file), ValueError, str(file), field)


@pytest.mark.parametrize("kind", KINDS)
def test_plots_show_every_branch_and_are_written(kind, reports, tmp_path):
    report = reports[kind]
    axes = report.plot()
    legend = " ".join(text.get_text() for text in axes.get_legend().get_texts())
    for branch in report.branches:
        assert branch.kind in legend
    if axes.get_yscale() == "log":  # over several depths; what falls most is inside
        assert axes.get_ylim()[0] == pytest.approx(
            0.7 * min(min(line.get_ydata(), default=1.0) for line in axes.get_lines())
        )
    report.plot(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5000
    given = report.plot(axes)
    assert given is axes


@pytest.mark.parametrize("kind", KINDS)
def test_pages_hold_everything_and_ask_for_nothing(kind, reports, tmp_path):
    report = reports[kind]
    report.save_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 1
    assert not re.search(r"<(script|link|img|iframe)|@import|url\((?!#)", page)
    assert set(re.findall(r"https?://[^\"'> ]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    for branch in report.branches:
        assert branch.kind in page
    for finding in report.findings:
        assert finding.parameter in page
    with pytest.raises(ValueError, match="html"):
        report.save_html(tmp_path / "r.txt")
    assert not (tmp_path / "r.txt").exists()


def test_names_of_modules_are_escaped_in_pages(reports, tmp_path):
    class Odd(Res1):
        pass

    Odd.__name__ = "<b>&"
    report = dl.check_depth(lambda depth: Odd(depth), DEPTHS, batch=vectors())
    report.save_html(tmp_path / "r.html")
    assert "<b>&" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def run(*arguments):
    return CliRunner().invoke(app, ["check", *arguments, "--quiet"])


@pytest.mark.parametrize(
    ("factory", "arguments", "code", "verdict"),
    [
        ("transformer", ["--expected", "0.5"], 0, "as expected"),
        ("transformer", ["--expected", "gpt-2"], 0, "as expected"),
        ("unscaled", ["--expected", "0.5"], 1, "not as expected"),
        ("unscaled", ["--batch", "tokens:2x8:50"], 0, "measured"),
        ("unscaled", ["--batch", "test_depth_reports:batch"], 0, "measured"),
    ],
)
def test_the_command_prints_the_report_and_returns_the_verdict(factory, arguments, code, verdict, tmp_path):
    files = {
        kind: tmp_path / f"r.{end}" for kind, end in (("json", "json"), ("plot", "png"), ("html", "html"))
    }
    written = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    result = run(f"test_depth_reports:{factory}", *arguments, "--depths", "4,8,16", *written)
    assert result.exit_code == code, result.output
    report = dl.load_report(files["json"])
    assert report.verdict == verdict
    assert str(report).splitlines()[0] == result.stdout.splitlines()[0]
    assert files["plot"].exists()
    assert files["html"].exists()


@pytest.mark.parametrize(
    ("factory", "arguments", "told"),
    [
        ("nowhere:factory", [], "nowhere"),
        ("nowhere", [], "package.module:object"),
        ("test_depth_reports:DEPTHS", [], "factory"),
        ("test_depth_reports:transformer", ["--depths", "4"], "depths"),
        ("test_depth_reports:transformer", ["--expected", "gpt-9"], "expected='gpt-9'"),
        ("test_depth_reports:transformer", ["--batch", "tokens:2"], "tokens:2"),
        ("test_depth_reports:transformer", ["--batch", "normal:2x3"], "Transformer"),
        ("test_depth_reports:transformer", ["--html", "r.txt"], "--html"),
        ("test_depth_reports:transformer", ["--blocks", "layers.*"], "layers.*"),
    ],
)
def test_bad_usage_is_a_line_and_code_two(factory, arguments, told):
    result = run(factory, *([] if "--depths" in arguments else ["--depths", "2,4"]), *arguments)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_the_assertion_is_the_diagnosis():
    def call(factory, depths=DEPTHS, expected="gpt-2", batch=tokens):
        return dl.testing.assert_depth_scaling(factory, depths, expected=expected, batch=batch())

    assert call(transformer).ok
    with pytest.raises(AssertionError, match=r"blocks\.\*\.mlp\.3\.weight"):
        call(unscaled)
    with pytest.raises(AssertionError):  # too wide an interval to tell
        call(lambda depth: Res1(depth, width=2), [2, 3], 0.5, lambda: vectors(1))


def test_findings_say_what_they_are_about_in_a_word_that_programs_read(reports):
    found = {finding.about for finding in reports["wrong"].findings}
    assert found
    assert found <= set(ABOUT)
    assert [finding.parameters for finding in reports["wrong"].findings] == [
        (finding.parameter,) for finding in reports["wrong"].findings
    ]


def names(stem, *kinds):
    of_kinds = {f"depth/{stem}.{kind}/{scalar}" for kind in kinds for scalar in ("update", "alignment")}
    return of_kinds | {"depth/stream_1/growth"}


def test_scalars_follow_a_bare_loop_of_training():
    """Trained on one batch with equal targets for all tokens, layers come to push the same way: alignment
    rises.
    """
    with seeded(0):
        model = Transformer(6)
    before = dl.branch_scalars(model, tokens())
    for _ in range(10):
        targets = torch.zeros(24, dtype=torch.long)
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens()).flatten(0, 1), targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad)
    after = dl.branch_scalars(model, tokens())
    assert set(after) == names("blocks.*", "attention", "mlp")
    assert after["depth/blocks.*.mlp/alignment"] > before["depth/blocks.*.mlp/alignment"] + 0.1
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.nightly
@pytest.mark.thirdparty
def test_scalars_inside_the_trainer_of_transformers(tmp_path):
    import families

    transformers = families.library("transformers")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")
    logged = []

    class Log(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            training = model.training
            logged.append(dl.branch_scalars(model, tokens()))
            assert model.training == training

    sizes = {"n_embd": 16, "n_head": 2, "vocab_size": 50, "n_positions": 16}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0}
    with seeded(0):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=3, **sizes))
        rows = [{"input_ids": row, "labels": row} for row in tokens(4)]
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=2, use_cpu=True, **quiet
        )
        transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[Log()]).train()
    assert len(logged) == 2
    assert set(logged[0]) == names("transformer.h.*", "attn", "mlp")


@pytest.mark.nightly
@pytest.mark.thirdparty
@pytest.mark.filterwarnings("ignore")  # of lightning's own making: old names of torch, few workers, no logger
def test_scalars_inside_lightning(tmp_path):
    import families

    families.mend_torchvision()
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.seen = Transformer(2), []

        def training_step(self, rows, _):
            return torch.nn.functional.cross_entropy(
                self.model(rows)[:, :-1].flatten(0, 1), rows[:, 1:].flatten()
            )

        def on_train_batch_end(self, outputs, rows, number):
            scalars = dl.branch_scalars(self.model, rows)
            self.log_dict(scalars)
            self.seen.append(scalars)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with seeded(0):
        module = Module()
        quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")}
        trainer = lightning.Trainer(
            max_steps=2, accelerator="cpu", logger=False, default_root_dir=tmp_path, **quiet
        )
        trainer.fit(module, torch.utils.data.DataLoader(tokens(4), batch_size=2))
    assert len(module.seen) == 2


class TwoBranches(torch.nn.Module):
    def __init__(self, power):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 16, bias=False)
        self.power = power

    def forward(self, h):
        h = h + self.power * self.first(torch.tanh(h))
        return h + self.second(torch.tanh(h))


def test_checks_of_several_modules_stand_in_one_table_and_one_picture(tmp_path):
    batch = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    reports = [
        dl.check_depth(
            lambda depth, power=power: torch.nn.Sequential(
                *(TwoBranches(depth**-power) for _ in range(depth))
            ),
            (4, 8, 16),
            batch=batch,
        )
        for power in (0.0, 0.5)
    ]
    frame = dl.table(reports, ["as it is", "scaled"], path=tmp_path / "t.tex")
    assert frame["rate"].tolist() == [report.branches[0].exponent for report in reports]
    assert frame["low"].tolist() == [report.branches[0].exponent_interval[0] for report in reports]
    other = reports[0].branches[1].kind
    assert dl.table(reports, of=other)["rate"].tolist() == [r.branches[1].exponent for r in reports]
    assert "[" in (tmp_path / "t.tex").read_text()
    assert len(dl.plot(reports).get_legend().get_texts()) == 2
    with seeded(0):
        alone = dl.probe(TwoBranches(1.0), batch)
    with pytest.raises(ValueError, match="reports"):
        dl.table([alone, alone])
