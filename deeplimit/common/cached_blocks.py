"""Blocks that the measurements of one call share in memory, as a store's file shares those of many calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class CachedBlocks:
    """Partial results by label, and the numbers of the blocks that the last measurement had to run.

    One `CachedBlocks` belongs to measurements whose labels tell all blocks apart that differ.
    """

    parts: dict[str, Any] = field(default_factory=dict)
    ran: tuple[int, ...] = ()

    def missing(self, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of the blocks that are not held."""
        return tuple(block for block, label in enumerate(labels) if label not in self.parts)

    def begin(self, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the same, and note that a measurement runs them."""
        self.ran = self.missing(labels)
        return self.ran

    def in_order(self, labels: Sequence[str], fresh: Iterator[Any]) -> Iterator[Any]:
        """Yield all partial results in the order of the blocks; `fresh` gives those that are missing."""
        for label in labels:
            if label not in self.parts:
                self.parts[label] = next(fresh)
            yield self.parts[label]
