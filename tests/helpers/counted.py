"""Measurements that note which blocks they ran, for stores, executors and processes; run as a program."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import deeplimit as dl


@dataclass(frozen=True)
class Sum(dl.Measurement):
    """Sums of random numbers, block by block; each block adds a line with its number to a file."""

    count: int
    seed: int = 0

    what = "sum"

    @property
    def blocks(self):
        return self.count

    def run(self, block, tick=None):
        note = os.environ.get("COUNTED")
        if note:
            with open(note, "a") as file:
                file.write(f"{block}\n")
        time.sleep(float(os.environ.get("SECONDS_PER_BLOCK", "0")))
        if tick is not None:
            tick(1.0)
        return np.random.default_rng([self.seed, block]).normal(size=100)

    def merge(self, parts):
        total = 0.0
        for part in parts:  # the order of the blocks decides the last bits
            total += float(part.sum())
        return total


def ran(path):
    """Return the numbers of the blocks that were run, in order."""
    return [int(line) for line in Path(path).read_text().split()] if Path(path).exists() else []


if __name__ == "__main__":
    store, count = sys.argv[1:]
    sys.stdout.write(f"{dl.measure(Sum(int(count)), workers=1, store=store)!r}\n")
