"""A training run that can be killed: what is needed to go on, in safetensors files."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from deeplimit.common import files
from deeplimit.common.arrays import Array, ArrayLibrary
from deeplimit.common.measurement import Measurement
from deeplimit.common.specification import describe, differences, digest, environment
from deeplimit.trained.training.stop import Ending

Arrays = dict[str, Array]
SECONDS_BETWEEN = 60.0
"""How often progress is written; a run that is killed loses no more."""


@final
@dataclass(eq=False)
class Progress:
    """How far the networks of one block are.

    Attributes:
        parameters, memory: parameters and the optimiser's memory of those that still learn, which are
            along the second axis.
        live: their repeats, in this order.
        epoch, steps: how many there were.
        losses: training losses of each epoch, by repeat.
        validated: loss and accuracy on the validation set after each epoch, by repeat; empty without one.
        ended: parameters and ending of the others, by repeat.
    """

    parameters: Arrays
    memory: Arrays
    live: list[int]
    epoch: int = 0
    steps: int = 0
    losses: dict[int, list[float]] = field(default_factory=dict)
    ended: dict[int, tuple[Arrays, Ending]] = field(default_factory=dict)
    validated: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for repeat in self.live:
            self.losses.setdefault(repeat, [])
            self.validated.setdefault(repeat, [])

    def end(self, repeat: int, place: int, ending: Ending, library: ArrayLibrary) -> None:
        """Set aside the network at this place; one that is no longer finite has diverged.

        The loss of an epoch comes from before its last step, and may be finite when the weights are not.
        """
        chosen = {name: library.copy(value[:, place : place + 1]) for name, value in self.parameters.items()}
        finite = all(bool(library.xp.isfinite(value).all()) for value in chosen.values())
        self.ended[repeat] = chosen, ending if finite else Ending.DIVERGED

    def forget_ended(self, library: ArrayLibrary) -> None:
        """Keep those that have not ended."""
        left = [place for place, repeat in enumerate(self.live) if repeat not in self.ended]
        if len(left) == len(self.live):
            return
        for held in (self.parameters, self.memory):
            for name, value in held.items():
                held[name] = library.copy(value[:, left])
        self.live = [self.live[place] for place in left]


@final
@dataclass(frozen=True)
class Checkpoint:
    """Where the progress of each block is kept; without a folder nothing is."""

    folder: Path | None = None
    written: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def _file(self, of: Measurement[Any, Any], block: int) -> Path:
        assert self.folder is not None
        name = _digest(of, block)[:16]
        return self.folder / f"{of.label(block).replace(', ', '-').replace(' ', '-')}-{name}.safetensors"

    def found(self, of: Measurement[Any, Any], block: int, library: ArrayLibrary) -> Progress | None:
        """Return what an earlier run with the same specification kept; None where there is nothing.

        Raises ValueError for a file that is damaged, OSError for one that cannot be read now.
        """
        if self.folder is None:
            return None
        self.written[block] = time.monotonic()
        path = self._file(of, block)
        if not path.exists():
            return None
        try:
            # Read once: another process may put a newer file in its place between two reads.
            content = path.read_bytes()
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            written = header["__metadata__"]["progress"]
            tensors = load(content)
            sealed = written + header["__metadata__"]["environment"]
            if header["__metadata__"].get("digest") != _digest(of, block, sealed, tensors):
                raise ValueError("its bytes are not those that were kept for this block")
            made = json.loads(header["__metadata__"]["environment"])
            told = json.loads(written)
        except OSError as error:  # of the disk; what the file holds may be whole
            raise OSError(
                f"checkpoint {str(path)!r} could not be read: {str(error).rstrip('.')}. Call again when its"
                " folder is there."
            ) from error
        except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"checkpoint {str(path)!r} is damaged ({str(error).rstrip('.')}). Delete it to begin again."
            ) from error
        if different := [*differences(made, environment())]:
            raise ValueError(
                f"checkpoint {str(path)!r} was made by other versions or on another machine:"
                f" {'; '.join(different)}. Their numbers are not mixed: go on there, or delete it to begin"
                " again."
            )
        groups: dict[str, Arrays] = {}
        for name, tensor in tensors.items():
            group, _, key = name.partition("/")
            groups.setdefault(group, {})[key] = library.copy(library.array(tensor))
        endings = {int(repeat): Ending(word) for repeat, word in told["endings"].items()}
        return Progress(
            groups.get("parameters", {}),
            groups.get("memory", {}),
            told["live"],
            told["epoch"],
            told["steps"],
            {int(repeat): losses for repeat, losses in told["losses"].items()},
            {repeat: (groups[f"ended-{repeat}"], ending) for repeat, ending in endings.items()},
            {int(repeat): [*map(tuple, pairs)] for repeat, pairs in told["validated"].items()},
        )

    def keep(self, of: Measurement[Any, Any], block: int, progress: Progress, library: ArrayLibrary) -> None:
        """Write the progress of a block, whole or not at all, if it is time to."""
        now = time.monotonic()
        if self.folder is None or now - self.written[block] < SECONDS_BETWEEN:
            return
        groups = {"parameters": progress.parameters, "memory": progress.memory} | {
            f"ended-{repeat}": parameters for repeat, (parameters, _) in progress.ended.items()
        }
        tensors = {
            f"{group}/{name}": torch.from_numpy(np.ascontiguousarray(library.to_numpy(value)))
            for group, held in groups.items()
            for name, value in held.items()
        }
        told = {
            "live": progress.live,
            "epoch": progress.epoch,
            "steps": progress.steps,
            "losses": progress.losses,
            "validated": progress.validated,
            "endings": {repeat: ending for repeat, (_, ending) in progress.ended.items()},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        with files.whole_file(self._file(of, block)) as temporary:
            written = json.dumps(told)
            made = json.dumps(environment())
            sealed = {"progress": written, "digest": _digest(of, block, written + made, tensors)}
            save_file(tensors, temporary, {"block": of.label(block), "environment": made, **sealed})
        self.written[block] = time.monotonic()


def _digest(
    of: Measurement[Any, Any], block: int, progress: str = "", tensors: dict[str, Tensor] | None = None
) -> str:
    """Return what stands for a block's specification and, where given, for what is kept of it."""
    whose = {**of.key(), "block": of.label(block)}
    if tensors is None:
        return digest(whose)
    return digest({"of": whose, "progress": progress, "tensors": describe(tensors, "tensors")})
