"""Measured speed against what users have: `python -m benchmarks` (see __main__)."""
