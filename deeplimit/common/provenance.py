"""How a report was made: the call with its arguments, the seed, the versions, the device and the warnings."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from deeplimit.common.serialised import FAILURES, Unwritable, told, written
from deeplimit.version import versions

RUNNING = frozenset({"workers", "executor", "store", "progress", "resume", "on_row", "checkpoints"})
"""Arguments that say how and where blocks run and are kept; they change no number."""


@final
@dataclass(frozen=True)
class Provenance:
    """How a report was made, as its file says it beside the numbers.

    Attributes:
        verb: public function that made the report; empty where it is not known.
        arguments: its arguments by name, as JSON, those left out with their defaults.
        left_out: arguments that no file can hold, such as a user's function, and why.
        seed: what everything random derives from; None where nothing is random.
        versions: of deeplimit, of Python, and of the packages that compute.
        device: name of the processor or the GPU.
        warnings: the report's reservations.
    """

    verb: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    warnings: tuple[str, ...] = ()

    @staticmethod
    def of(verb: str, given: Mapping[str, Any]) -> Provenance:
        """Return that of a call which has just been made, on this machine."""
        arguments, left_out = {}, {}
        for name, value in given.items():
            if name in RUNNING:
                continue
            try:
                arguments[name] = written(value, name)
            except Unwritable as why:
                left_out[name] = str(why)
            except FAILURES as error:  # no result is lost for want of its provenance
                left_out[name] = f"{name} cannot be written ({type(error).__name__}: {error})"
        return Provenance.here(given.get("seed"), given.get("device"), verb, arguments, left_out)

    @staticmethod
    def here(
        seed: Any,
        device: Any,
        verb: str = "",
        arguments: dict[str, Any] | None = None,
        left_out: dict[str, str] | None = None,
    ) -> Provenance:
        """Return that of a report which this process has made."""
        number = int(seed) if isinstance(seed, (int, np.integer)) else None
        return Provenance(verb, arguments or {}, left_out or {}, number, versions(), device_name(device))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield names and texts, the call first, without warnings and arguments that are None."""
        if self.verb:
            yield "call", self.verb
        stated = {name: serialised for name, serialised in self.arguments.items() if serialised is not None}
        yield from ((name, told(serialised)) for name, serialised in stated.items() if name != "seed")
        yield from ((name, f"not in the file: {why}") for name, why in self.left_out.items())
        if self.seed is not None:
            yield "seed", str(self.seed)
        if self.device:
            yield "computed on", self.device
        if self.versions:
            yield "versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())


def device_name(device: Any) -> str:
    """Return the name of a GPU, or that of this machine's processor with the vector units that torch uses.

    Without a device, modules compute where the caller has put them, which may be a GPU.
    """
    if device is None:
        return _processor() + ", or the GPU of the caller's modules" * torch.cuda.is_available()
    try:
        place = torch.device(device)
        return torch.cuda.get_device_name(place) if place.type == "cuda" else _processor()
    except (AssertionError, RuntimeError):  # a report that was put together by hand may name any
        return str(device)


@cache
def _processor() -> str:
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # other systems than Linux
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{next(iter(models), name)} ({torch.backends.cpu.get_cpu_capability()})"
