"""The networks a user writes down: a recursion, the laws of its weights and the residual exponent, at any depth."""

from deeplimit.networks.network import ResidualNetwork, inner, res1, res2, res3

__all__ = ["ResidualNetwork", "inner", "res1", "res2", "res3"]
