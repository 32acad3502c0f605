"""The calibration of intervals and verdicts: cells as data, replications in a file, docs/calibration.md.

`python -m calibration` measures and `python -m calibration page` writes the page.
"""
