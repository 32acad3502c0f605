"""The version, in one place that is cheap to import, and those of what results depend on."""

from __future__ import annotations

from functools import cache

__version__ = "1.0.0rc1"


def versions() -> dict[str, str]:
    """Return the versions that a report states."""
    return dict(_installed())


@cache  # finding them takes longer than a small measurement
def _installed() -> tuple[tuple[str, str], ...]:
    import contextlib
    import platform
    from importlib import metadata

    found = [("deeplimit", __version__)]
    for name in ("torch", "numpy", "numba"):
        with contextlib.suppress(metadata.PackageNotFoundError):  # numba is an extra
            found.append((name, metadata.version(name)))
    return *found, ("python", platform.python_version())
