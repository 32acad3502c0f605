"""What may not be there: packages, the compiled kernel, a device; each absence is a line that says what to
do.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from types import ModuleType


def optional(name: str, install: str) -> tuple[ModuleType | None, str]:
    """Return a package, or None and a line that says how to install it.

    Whatever its import raises counts as absence: a broken package must not stop the other rows.
    """
    try:
        return importlib.import_module(name), ""
    except Exception as error:  # noqa: BLE001
        missing = isinstance(error, ModuleNotFoundError) and error.name == name.split(".", maxsplit=1)[0]
        why = "not installed" if missing else f"cannot be imported ({type(error).__name__}: {error})"
        return None, f"{name}: {why}; {install}"


def compiled_kernel() -> tuple[ModuleType | None, str]:
    """Return the module of deeplimit's compiled CPU kernel where it is used by default, else None and why
    not.
    """
    name = "deeplimit.simulation.kernels.numba_pass"
    if importlib.util.find_spec(name) is None:
        return None, "deeplimit's compiled kernel: not in this version, so there is no row with it"
    module, why = optional(name, "pip install 'deeplimit[fast]'")
    if module is not None and module.loops() is None:  # as the library itself decides
        return (
            None,
            (
                "deeplimit's compiled kernel: numba is not installed or cannot be used; pip install"
                " 'deeplimit[fast]'"
            ),
        )
    if module is not None and not module.ENABLED:
        return None, f"deeplimit's compiled kernel: switched off ({name}.ENABLED), so there is no row with it"
    return module, why


@contextlib.contextmanager
def without_compiled_kernel() -> Iterator[None]:
    """Run what torch alone does, as a user without numba does."""
    module, _ = compiled_kernel()
    if module is None:
        yield
        return
    module.ENABLED = False
    try:
        yield
    finally:
        module.ENABLED = True


@contextlib.contextmanager
def compiled_kernel_at_every_size() -> Iterator[None]:
    """Take the compiled kernel for small work too, where loading it is not worth while, so that sizes can be
    compared.
    """
    module, _ = compiled_kernel()
    if module is None:
        yield
        return
    before, module.WORTHWHILE = module.WORTHWHILE, 0
    try:
        yield
    finally:
        module.WORTHWHILE = before
