"""Faster ways through the same pass: noise drawn through its products, numba loops, one Triton kernel."""
