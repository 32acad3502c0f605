"""The version, in one place that is cheap to import, and those of what results depend on."""

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Return the versions that a report states."""
    import platform
    from importlib import metadata

    return {
        "deeplimit": __version__,
        **{name: metadata.version(name) for name in ("torch", "numpy")},
        "python": platform.python_version(),
    }
