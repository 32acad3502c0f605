"""The version, in one place that is cheap to import."""

__version__ = "0.1.0"
