"""Weights of existing modules, filled in place with one law across the layers."""
