"""A callback for Lightning's `Trainer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from deeplimit.callbacks.settings import Settings, Unexpected
from deeplimit.modules.depth_check import DepthReport, Rule
from deeplimit.modules.depth_check.runs import Factory


class DepthCheckCallback(Callback):
    """Checks how residual branches scale with depth before Lightning trains, and logs their sizes.

    It gives `deeplimit.branch_scalars` to every logger of the trainer: each kind of branch's update relative
    to the stream, alignment, and the growth of the state. Training gives the same weights in every bit as
    without it. Only the first process computes anything.

    Args:
        batch: Batch that is held for all measurements, in a form that `branch_scalars` takes: what the
            measured module's `forward` takes, which need not be a batch of the training step. None: made up
            from the module's first layer.
        factory: Function of a depth that returns the module with that many blocks. If given, `check_depth`
            runs once before training.
        expected: What `check_depth` expects. Without a factory, a rule that states sizes: the module itself
            is held to it at its one depth (`probe`), unless training resumes.
        depths: Depths at which `factory` is called.
        every: Number of the optimiser's steps from one measurement to the next; the first is before step 1.
        submodule: Name of the part of the LightningModule that is measured, such as "model"; "" is all of it.
        blocks: Patterns of module names, as in `branch_scalars`, counted from the measured part.
        prefix: Text with which every logged name begins.
        unexpected: "raise" ends training before its first step if the check's verdict is "not as expected";
            "warn" warns. "cannot tell" warns in any case.

    Attributes:
        report: what the check found; None before training, and where nothing was checked.
        scalars: what was measured last.

    Raises:
        AttributeError: As training begins, for a submodule that is not there.
        RuntimeError: As training begins, with the whole report, where the module is not as expected.
        ValueError: For an exponent without a factory, and under FSDP, DeepSpeed's ZeRO stage 3 and
            synchronised batch normalisation on several processes, whose forwards need all of them.

    Examples:
        >>> from deeplimit.callbacks.lightning import DepthCheckCallback
        >>> DepthCheckCallback(None, submodule="model", every=50).report is None
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
        submodule: str = "",
        blocks: str | Sequence[str] | None = None,
        prefix: str = "depth/",
        unexpected: Unexpected = "raise",
    ) -> None:
        self.settings = Settings(batch, factory, expected, depths, every, blocks, prefix, unexpected)
        self.submodule = submodule
        self.report: DepthReport | None = None
        self.scalars: dict[str, float] = {}
        self._measured = 0  # the last step; a step of accumulated batches ends one batch only

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            model = pl_module.get_submodule(self.submodule)
            self.report = self.settings.check(model, started=trainer.global_step > 0)
            self._measure(trainer, model)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if trainer.is_global_zero and step != self._measured and self.settings.due(step):
            self._measure(trainer, pl_module.get_submodule(self.submodule))

    def _measure(self, trainer: Trainer, model: Any) -> None:
        self._measured, self.scalars = trainer.global_step, self.settings.scalars(model)
        for logger in trainer.loggers:
            logger.log_metrics(self.scalars, step=trainer.global_step)
