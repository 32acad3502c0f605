"""What of a machine decides the last bits of a result: vector units, libraries, and their kernels."""

from __future__ import annotations

import functools
import hashlib
import platform
import re

import numpy as np
import torch

TERMS = 1000
"""Terms of the probe's sums: enough that partial sums of another width round otherwise."""


@functools.cache  # it is the same for the life of a process
def machine() -> dict[str, str]:
    """Return the processor's capability, the libraries of linear algebra and a digest of what they compute.

    Vector units of another width add in another order. Libraries choose kernels by the processor's maker and
    by variables such as OPENBLAS_CORETYPE, which nothing states: a few sums, products and functions tell.
    """
    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    beneath = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "processor": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "BLAS of torch": found[1] if found else "unknown",
        "BLAS of numpy": f"{beneath.get('name')} {beneath.get('version')}",
        "kernels": kernels(),
    }


def kernels() -> str:
    """Return a digest of the bits that torch and numpy compute here, whatever the switches of torch are.

    Memory is torch's, which is aligned alike in every process; what is computed is too small for threads.
    """
    with torch.device("cpu"), torch.autocast("cpu", enabled=False), np.errstate(all="ignore"):
        made = hashlib.sha256()
        for dtype in (torch.float32, torch.float64):
            x = torch.arange(1, TERMS + 1, dtype=dtype).reciprocal()
            a = x[:900].reshape(30, 30).clone()
            numbers, matrix = x.numpy(), a.numpy()
            by_torch = (x.sum(), x @ x, a @ a, x.exp(), x.tanh(), x.erf())
            by_numpy = (numbers.sum(), numbers @ numbers, matrix @ matrix, np.exp(numbers), np.tanh(numbers))
            for each in by_torch:
                made.update(each.numpy().tobytes())
            for part in by_numpy:
                made.update(np.asarray(part).tobytes())
    return made.hexdigest()[:12]
