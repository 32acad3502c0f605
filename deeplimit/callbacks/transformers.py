"""A callback for the `Trainer` of transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from deeplimit.callbacks.settings import Settings, Unexpected
from deeplimit.modules.depth_check import DepthReport, Rule
from deeplimit.modules.depth_check.runs import Factory


class DepthCheckCallback(TrainerCallback):
    """Checks how residual branches scale with depth before a `Trainer` trains, and logs their sizes.

    It logs `deeplimit.branch_scalars`: each kind of branch's update relative to the stream, alignment, and
    the growth of the state. Training gives the same weights in every bit as without it. Only the first
    process computes anything.

    Args:
        batch: Batch that is held for all measurements, in a form that `branch_scalars` takes, such as a dict
            of keyword arguments. None: made up from the model's configuration.
        factory: Function of a depth that returns the model with that many blocks. If given, `check_depth`
            runs once before training.
        expected: What `check_depth` expects. Without a factory, a rule that states sizes: the model itself is
            held to it at its one depth (`probe`), unless training resumes.
        depths: Depths at which `factory` is called.
        every: Number of the optimiser's steps from one measurement to the next; the first is before step 1.
        blocks: Patterns of module names, as in `branch_scalars`.
        prefix: Text with which every logged name begins.
        log: Function that takes the scalars, such as `trainer.log`, by which they reach TensorBoard and every
            other reporter. If left out, they stand in `trainer.state.log_history`.
        unexpected: "raise" ends training before its first step if the check's verdict is "not as expected";
            "warn" warns. "cannot tell" warns in any case.

    Attributes:
        report: what the check found; None before training, and where nothing was checked.

    Raises:
        RuntimeError: As training begins, with the whole report, where the module is not as expected.
        ValueError: For an exponent without a factory, and under FSDP, DeepSpeed's ZeRO stage 3 and
            synchronised batch normalisation on several processes, whose forwards need all of them.

    Examples:
        >>> from deeplimit.callbacks.transformers import DepthCheckCallback
        >>> DepthCheckCallback(None, every=50).report is None
        True
    """

    def __init__(
        self,
        batch: Any,
        *,
        factory: Factory | None = None,
        expected: float | str | Rule | None = None,
        depths: Sequence[int] = (4, 8, 16, 32),
        every: int = 100,
        blocks: str | Sequence[str] | None = None,
        prefix: str = "depth/",
        log: Callable[[dict[str, float]], Any] | None = None,
        unexpected: Unexpected = "raise",
    ) -> None:
        self.settings = Settings(batch, factory, expected, depths, every, blocks, prefix, unexpected)
        self.log = log
        self.report: DepthReport | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self.report = self.settings.check(kwargs["model"], started=state.global_step > 0)
            self._measure(state, control, kwargs["model"])

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero and self.settings.due(state.global_step):
            self._measure(state, control, kwargs["model"])

    def _measure(self, state: TrainerState, control: TrainerControl, model: Any) -> None:
        scalars = self.settings.scalars(model)
        if self.log is None:
            state.log_history.append({**scalars, "step": state.global_step})
            return
        wanted = control.should_log  # trainer.log takes it back, and the loss of this step would be lost
        self.log(scalars)
        control.should_log = wanted
