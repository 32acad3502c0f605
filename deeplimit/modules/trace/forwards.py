"""One recorded forward of a module, and what makes a forward impossible to record."""

from __future__ import annotations

from typing import Any

from torch import nn

from deeplimit.modules.trace.batches import Batch, outputs, parameters_changed, run
from deeplimit.modules.trace.recording import ParameterChanged, Recorder, Trace, kind, module_names


def recorded(model: nn.Module, batch: Batch) -> tuple[Any, Trace]:
    """Return the output and the trace of one forward.

    A module that changes its weights for evaluation mode, as RWKV does every six layers, is put in training
    mode: its weights are then those that are trained. The caller's `undisturbed` puts it back.
    """
    while True:
        with module_names(model) as owners:
            recorder = Recorder(model, owners)
            try:
                with recorder:
                    output = run(model, batch)
            except ParameterChanged as error:
                changing = next(
                    module
                    for name, module in model.named_modules()
                    if name.removeprefix("_orig_mod.") == owners[-1]
                )
                if changing.training:
                    raise ValueError(parameters_changed(model, error.args)) from None
                changing.training = True
                continue
        _refuse_hidden(model, output)
        return output, recorder.trace


def _refuse_hidden(model: nn.Module, output: Any) -> None:
    """Raise ValueError if parts of a forward were hidden from autograd, and so from the trace, by
    reentrant checkpointing.
    """
    waiting, seen = [tensor.grad_fn for tensor in outputs(output)], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if kind(node) == "CheckpointFunction":
            raise ValueError(
                f"{type(model).__name__} runs parts of itself under activation checkpointing with"
                " use_reentrant=True, which hides the residual branches in them: switch checkpointing off"
                " for the check, or pass use_reentrant=False."
            )
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
