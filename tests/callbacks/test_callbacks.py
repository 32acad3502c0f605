"""Callbacks of other trainers check and log; training gives the same weights in every bit without them."""

import csv
import warnings
from pathlib import Path
from types import SimpleNamespace

import families
import pytest
import torch
from refusals import assert_refused
from stacks import Transformer, tokens

from deeplimit.callbacks.settings import Settings
from deeplimit.common.global_state import seeded

pytestmark = pytest.mark.thirdparty

ARGUMENTS = {
    "batch": tokens(),
    "factory": None,
    "expected": None,
    "depths": (2, 4, 8),
    "every": 2,
    "blocks": None,
    "prefix": "depth/",
    "unexpected": "raise",
}
KEYS = {"update", "alignment", "growth"}


def settings(**changed):
    return Settings(**{**ARGUMENTS, **changed})


def unscaled(depth):
    return Transformer(depth, exponent=0.0)


def built(make):
    with seeded(0):
        return make()


@pytest.mark.parametrize(
    ("kind", "argument", "value"),
    [
        (ValueError, "every", 0),
        (TypeError, "every", 1.5),
        (TypeError, "prefix", None),
        (ValueError, "unexpected", "stop"),
        (TypeError, "factory", "models:make"),
        (ValueError, "expected", 0.5),
    ],
)
def test_arguments_are_refused_before_any_training(kind, argument, value):
    assert_refused(lambda: settings(**{argument: value}), kind, argument, str(value))


def test_a_model_that_is_not_as_expected_ends_training_or_warns():
    model = built(lambda: unscaled(2))
    with pytest.raises(RuntimeError, match=r"^not as expected"):
        settings(factory=unscaled, expected=0.5).check(model, started=False)
    with pytest.warns(UserWarning, match=r"^not as expected"):
        found = settings(factory=unscaled, expected=0.5, unexpected="warn").check(model, started=False)
    assert found.verdict == "not as expected"


def test_a_check_that_cannot_tell_warns_and_one_that_is_right_is_quiet():
    near = settings(factory=Transformer, expected=0.5, depths=(2, 3))
    with pytest.warns(UserWarning, match=r"^cannot tell"):
        assert near.check(built(lambda: Transformer(2)), started=False).verdict == "cannot tell"
    right = settings(factory=Transformer, expected=0.5, depths=(4, 8, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert right.check(built(lambda: Transformer(2)), started=True).ok


def test_without_a_factory_the_model_is_held_to_a_rule_unless_it_is_trained():
    model = built(lambda: unscaled(3))
    with pytest.raises(RuntimeError, match=r"^not as expected"):
        settings(expected="gpt-2").check(model, started=False)
    assert settings(expected="gpt-2").check(model, started=True) is None
    assert settings().check(model, started=False) is None


@pytest.mark.parametrize(
    "planted",
    [torch.nn.SyncBatchNorm(4), type("FullyShardedDataParallel", (torch.nn.Identity,), {})(), "zero"],
)
def test_a_forward_that_waits_for_other_processes_is_refused(monkeypatch, planted):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    model = built(lambda: Transformer(2))
    settings().check(model, started=False)
    if planted == "zero":
        next(model.parameters()).ds_id = 0
    else:
        model.planted = planted
    with pytest.raises(ValueError, match="waits for every process"):
        settings().check(model, started=False)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    settings().check(model, started=False)


def transformers_callback(**changed):
    families.library("transformers")
    from deeplimit.callbacks.transformers import DepthCheckCallback

    return DepthCheckCallback(**{"batch": tokens(), "every": 2, **changed})


@pytest.mark.parametrize("first", [True, False])
def test_only_the_first_process_measures_before_training_and_every_n_steps(first):
    made, model = transformers_callback(), built(lambda: Transformer(2))
    state = SimpleNamespace(is_world_process_zero=first, global_step=0, log_history=[])
    made.on_train_begin(None, state, SimpleNamespace(should_log=False), model=model)
    for state.global_step in range(1, 6):
        made.on_step_end(None, state, SimpleNamespace(should_log=False), model=model)
    assert [entry["step"] for entry in state.log_history] == [0, 2, 4] * first
    assert all({name.rpartition("/")[2] for name in entry} == KEYS | {"step"} for entry in state.log_history)


def test_the_trainer_still_logs_its_loss_at_a_step_that_is_measured():
    control = SimpleNamespace(should_log=True)
    made = transformers_callback(log=lambda scalars: setattr(control, "should_log", False), every=1)
    state = SimpleNamespace(is_world_process_zero=True, global_step=1, log_history=[])
    made.on_step_end(None, state, control, model=built(lambda: Transformer(2)))
    assert control.should_log
    assert state.log_history == []


def trained_by_transformers(tmp_path, *, by_log):
    """Return weights and log of a run of the real Trainer, with dropout and accumulated gradients."""
    transformers = families.library("transformers")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")
    from deeplimit.callbacks.transformers import DepthCheckCallback

    sizes = {"n_embd": 16, "n_head": 2, "vocab_size": 50, "n_positions": 16}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0}

    def make(depth):
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=depth, **sizes))

    rows = [{"input_ids": row, "labels": row} for row in tokens(16)]
    quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1}
    sized = {"max_steps": 4, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    with seeded(0):
        model = make(3)
        arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, **sized, **quiet)
        trainer = transformers.Trainer(model, arguments, train_dataset=rows)
        if by_log is not None:
            trainer.add_callback(
                DepthCheckCallback(
                    {"input_ids": tokens(), "labels": tokens()},
                    factory=make,
                    expected="gpt-2",
                    unexpected="warn",
                    depths=(2, 4, 8),
                    every=2,
                    log=trainer.log if by_log else None,
                )
            )
        trainer.train()
    return model.state_dict(), trainer.state.log_history


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_weights_trained_by_transformers_are_the_same_in_every_bit(tmp_path, capsys):
    plain, losses = trained_by_transformers(tmp_path, by_log=None)
    for by_log in (False, True):
        weights, logged = trained_by_transformers(tmp_path, by_log=by_log)
        assert all(torch.equal(plain[name], weights[name]) for name in plain)
        measured = [entry for entry in logged if "depth/stream_1/growth" in entry]
        assert [entry["step"] for entry in measured] == [0, 2, 4]
        assert [entry["loss"] for entry in logged if "loss" in entry] == [
            entry["loss"] for entry in losses if "loss" in entry
        ]


def trained_by_lightning(tmp_path, callbacks):
    """Return weights of a run of Lightning, with dropout and accumulated gradients, and its loggers."""
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.dropout = Transformer(2), torch.nn.Dropout(0.2)

        def training_step(self, rows, _):
            predicted = self.dropout(self.model(rows))
            loss = torch.nn.functional.cross_entropy(predicted[:, :-1].flatten(0, 1), rows[:, 1:].flatten())
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")}
    with seeded(0):
        module, rows = Module(), tokens(16)
        trainer = lightning.Trainer(
            max_steps=4,
            accumulate_grad_batches=2,
            accelerator="cpu",
            logger=CSVLogger(tmp_path),
            log_every_n_steps=1,
            default_root_dir=tmp_path,
            callbacks=callbacks,
            **quiet,
        )
        trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=2, shuffle=True))
    with (Path(trainer.logger.log_dir) / "metrics.csv").open() as file:
        return module.state_dict(), [*csv.DictReader(file)]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of lightning's own making: old names of torch, few workers
def test_weights_trained_by_lightning_are_the_same_in_every_bit(tmp_path):
    families.mend_torchvision()
    pytest.importorskip("lightning", reason="lightning is not installed")
    from deeplimit.callbacks.lightning import DepthCheckCallback

    given = {"every": 2, "submodule": "model", "depths": (2, 4, 8)}
    made = DepthCheckCallback(tokens(), factory=unscaled, expected=0.5, unexpected="warn", **given)
    plain, losses = trained_by_lightning(tmp_path / "plain", [])
    weights, logged = trained_by_lightning(tmp_path / "logged", [made])
    assert all(torch.equal(plain[name], weights[name]) for name in plain)
    assert made.report.verdict == "not as expected"
    measured = [entry for entry in logged if entry["depth/stream_1/growth"]]
    assert [int(entry["step"]) for entry in measured] == [0, 2, 4]
    assert [entry["loss"] for entry in logged if entry["loss"]] == [entry["loss"] for entry in losses]
    with pytest.raises(RuntimeError, match=r"^not as expected"):
        trained_by_lightning(
            tmp_path, [DepthCheckCallback(tokens(), factory=unscaled, expected=0.5, **given)]
        )
    with pytest.raises(AttributeError, match="absent"):
        trained_by_lightning(tmp_path, [DepthCheckCallback(tokens(), submodule="absent")])
