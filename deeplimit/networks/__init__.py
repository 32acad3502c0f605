"""The networks a user writes down: a recursion, the laws of its weights and the residual exponent, at any depth."""

from deeplimit.networks.network import ResidualNetwork, inner, modified_res1, res1, res2, res3

__all__ = ["ResidualNetwork", "inner", "modified_res1", "res1", "res2", "res3"]
