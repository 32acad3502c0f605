"""Trained networks: which limit their weights point to, and networks trained at many depths.

`diagnosis` reads weights, of one network or of several depths. `training` trains residual networks, several
at once, with gradients written by hand. `datasets` has what they are trained on.

Imports: judge, networks, theory, equations, layers, driving, modules, statistics, common.
"""
