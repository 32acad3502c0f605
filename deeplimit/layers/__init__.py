"""The residual recursions, as frozen specifications with one pure step each.

At depth 1 and exponent 0 the residual is the vector field of the limit, unless a recursion has another
`vector_field`. The network and its limit therefore call the same few lines.
"""

from deeplimit.layers.attention import Attention
from deeplimit.layers.base import Formula, OneProduct, Recursion, Side, Weight
from deeplimit.layers.convolutional import Convolutional, ConvolutionalWithShortcut
from deeplimit.layers.fully_connected import FullyConnected
from deeplimit.layers.module_blocks import LinearBlocks, ModuleBlocks
from deeplimit.layers.one_product import Form
from deeplimit.layers.prenorm import PreNorm
from deeplimit.layers.shaped import ShapedMLP
from deeplimit.layers.standard import Inner, ModifiedRes1, Res1, Res2, Res3
from deeplimit.layers.two_layer import TwoLayer

__all__ = [
    "Attention",
    "Convolutional",
    "ConvolutionalWithShortcut",
    "Form",
    "Formula",
    "FullyConnected",
    "Inner",
    "ModifiedRes1",
    "LinearBlocks",
    "ModuleBlocks",
    "OneProduct",
    "PreNorm",
    "Recursion",
    "Res1",
    "Res2",
    "Res3",
    "ShapedMLP",
    "Side",
    "TwoLayer",
    "Weight",
]
