"""Trained weights as functions of depth: how smooth, how noisy, and which limit they point to.

`stacks` holds one weight of all layers; `layer_gram` reduces it to products of layers, which is all that
most statistics here need.
"""
