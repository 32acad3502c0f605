"""Torch modules: does depth do to them what it should, at initialisation and in the first steps of training?

`trace` follows one forward pass and finds the residual branches. `depth_check` measures them at several
depths and judges how they scale. `training_check` trains a few steps at several depths and judges how
learning rates carry over. `recommendation` writes the code that a depth asks for, and runs it.

A library of its own: it imports statistics and common, and nothing of networks, limits or theory.
"""
