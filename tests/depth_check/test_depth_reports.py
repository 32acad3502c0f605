"""What a depth check prints, writes and returns: text, JSON, plot, page, command line, assertion; and in
loops of training.
"""

import json
import re

import pytest
import torch
from stacks import Res1, Transformer, tokens, vectors
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.ground.randomness import seeded

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
    ("change", "message"),
    [
        ({"verdict": "perhaps"}, "verdict must be one of"),
        ({"depths": 4}, "must be a list"),
        ({"branches": [{"kind": "x"}]}, "lacks"),
        ({"tolerance": "wide"}, "must be a number"),
    ],
)
def test_damaged_files_are_refused(change, message, reports, tmp_path):
    file = tmp_path / "r.json"
    reports["right"].save(file)
    content = json.loads(file.read_text())
    content["report"].update(change)
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"is a damaged depth report: .*{message}"):
        dl.load_report(file)


def test_the_verdict_comes_first_and_one_line_says_it(reports):
    assert str(reports["right"]).splitlines()[0].startswith("as expected: blocks.*.attention 0.")
    first = str(reports["wrong"]).splitlines()[0]
    assert re.match(
        r"not as expected: blocks.\*.attention.out_proj.weight: std [\d.]+ at depth 16 is 5\.7 times too"
        r" large for 1/sqrt",
        first,
    )
    assert "(and 1 more)" in first
    assert not reports["wrong"].ok
    assert reports["right"].ok
    assert "identity (branches are zero at the start)" in str(reports["zero"])


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
    ("arguments", "code", "start"),
    [
        (["test_depth_reports:transformer", "--expected", "0.5"], 0, "as expected: "),
        (["test_depth_reports:transformer", "--expected", "gpt-2"], 0, "as expected: "),
        (["test_depth_reports:unscaled", "--expected", "0.5"], 1, "not as expected: "),
        (["test_depth_reports:unscaled"], 0, "measured: "),
        (["test_depth_reports:unscaled", "--batch", "tokens:2x8:50"], 0, "measured: "),
        (["test_depth_reports:unscaled", "--batch", "test_depth_reports:batch"], 0, "measured: "),
    ],
)
def test_the_command_prints_the_report_and_returns_the_verdict(arguments, code, start, tmp_path):
    files = [
        "--json",
        str(tmp_path / "r.json"),
        "--plot",
        str(tmp_path / "p.png"),
        "--html",
        str(tmp_path / "r.html"),
    ]
    result = run(*arguments, "--depths", "4,8,16", *files)
    assert result.exit_code == code, result.output
    assert result.stdout.startswith(start)
    assert str(dl.load_report(tmp_path / "r.json")).splitlines()[0] == result.stdout.splitlines()[0]
    assert (tmp_path / "p.png").exists()
    assert (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere:factory"], "could not be loaded"),
        (["nowhere"], "must look like package.module:object"),
        (["test_depth_reports:DEPTHS"], "factory must be a function depth -> nn.Module"),
        (["test_depth_reports:transformer", "--depths", "4"], "depths"),
        (["test_depth_reports:transformer", "--expected", "gpt-9"], "expected='gpt-9'"),
        (["test_depth_reports:transformer", "--batch", "tokens:2"], "tokens:2x64:50257"),
        (["test_depth_reports:transformer", "--batch", "normal:2x3"], "deeplimit called Transformer with"),
        (["test_depth_reports:transformer", "--html", "r.txt"], "--html"),
        (
            ["test_depth_reports:transformer", "--blocks", "layers.*"],
            "no residual branch was found inside modules matching",
        ),
    ],
)
def test_bad_usage_is_a_line_and_code_two(arguments, message):
    result = run(*arguments, *([] if "--depths" in arguments else ["--depths", "2,4"]))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_assertion_is_the_diagnosis():
    report = dl.testing.assert_depth_scaling(transformer, DEPTHS, expected="gpt-2", batch=tokens())
    assert report.ok
    with pytest.raises(AssertionError, match=r"blocks\.\*\.mlp\.3\.weight") as caught:
        dl.testing.assert_depth_scaling(unscaled, DEPTHS, expected="gpt-2", batch=tokens())
    assert "times too large" in str(caught.value)
    with pytest.raises(AssertionError, match=r"cannot tell|not as expected"):
        dl.testing.assert_depth_scaling(
            lambda depth: Res1(depth, width=2), [2, 3], expected=0.5, batch=vectors(1)
        )


def test_scalars_follow_a_bare_loop_of_training():
    """Trained on one batch with equal targets for all tokens, layers come to push the same way: alignment
    rises.
    """
    with seeded(0):
        model = Transformer(6)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    before = dl.branch_scalars(model, tokens())
    for _ in range(30):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(
            model(tokens()).flatten(0, 1), torch.zeros(24, dtype=torch.long)
        ).backward()
        optimiser.step()
        after = dl.branch_scalars(model, tokens())
    assert set(after) == {
        f"depth/blocks.*.{kind}/{scalar}"
        for kind in ("attention", "mlp")
        for scalar in ("update", "alignment")
    }
    assert after["depth/blocks.*.mlp/alignment"] > before["depth/blocks.*.mlp/alignment"] + 0.1
    assert all(parameter.grad is not None for parameter in model.parameters())


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

    sizes = {
        "n_embd": 16,
        "n_head": 2,
        "vocab_size": 50,
        "n_positions": 16,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    with seeded(0):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=3, **sizes))
        rows = [{"input_ids": row, "labels": row} for row in tokens(4)]
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
        )
        transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[Log()]).train()
    assert len(logged) == 2
    assert set(logged[0]) == {
        f"depth/transformer.h.*.{kind}/{scalar}"
        for kind in ("attn", "mlp")
        for scalar in ("update", "alignment")
    }


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
        trainer = lightning.Trainer(
            max_steps=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module, torch.utils.data.DataLoader(tokens(4), batch_size=2))
    assert len(module.seen) == 2
