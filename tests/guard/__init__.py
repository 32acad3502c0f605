"""Frozen reports: what the library computed when they were written, to the last bit."""
