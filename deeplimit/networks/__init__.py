"""A network as users write it: a recursion, weight laws, widths, of unspecified depth.

`residual_network` has the class and `res1`, `res2`, `res3`, `inner`; `architectures` has fully connected,
convolutional, attention and shaped networks; `module_network` makes a network of torch blocks. `initialise`
fills the weights of existing modules with one law across the layers.

Imports: theory, equations, layers, driving, modules (for `initialise`), common.
"""
