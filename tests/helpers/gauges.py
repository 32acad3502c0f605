"""The same network in other weights: hidden units permuted and rescaled, heads permuted and turned."""

import copy

import torch


def scrambled_transformer(network, seed=0):
    """Return a copy of `stacks.Transformer` that computes the same function with other inner weights.

    Every layer draws its own permutation of hidden units and of heads, and its own invertible matrices
    between queries and keys, and between values and outputs, of each head.
    """
    stream = torch.Generator().manual_seed(seed)
    other = copy.deepcopy(network).double()
    with torch.no_grad():
        for block in other.blocks:
            inner, outer = block.mlp[0], block.mlp[3]
            order = torch.randperm(len(inner.bias), generator=stream)
            inner.weight.copy_(inner.weight[order])
            inner.bias.copy_(inner.bias[order])
            outer.weight.copy_(outer.weight[:, order])
            _scramble_heads(block.attention, stream)
    return other.to(next(network.parameters()).dtype)


def _scramble_heads(attention, stream):
    width, heads = attention.embed_dim, attention.num_heads
    size = width // heads
    order = torch.randperm(heads, generator=stream)
    q, k, v = attention.in_proj_weight.reshape(3, heads, size, width)
    bias_q, bias_k, bias_v = attention.in_proj_bias.reshape(3, heads, size)
    out = attention.out_proj.weight.reshape(width, heads, size)
    turn, stretch = (
        torch.randn(heads, size, size, generator=stream, dtype=torch.float64) + 3 * torch.eye(size)
        for _ in range(2)
    )
    back = torch.linalg.inv(turn).transpose(1, 2)
    new = torch.stack([turn @ q[order], back @ k[order], stretch @ v[order]])
    biases = torch.stack(
        [
            (turn @ bias_q[order, :, None])[..., 0],
            (back @ bias_k[order, :, None])[..., 0],
            (stretch @ bias_v[order, :, None])[..., 0],
        ]
    )
    written = torch.einsum("dhi,hij->dhj", out[:, order], torch.linalg.inv(stretch))
    attention.in_proj_weight.copy_(new.reshape(3 * width, width))
    attention.in_proj_bias.copy_(biases.reshape(-1))
    attention.out_proj.weight.copy_(written.reshape(width, width))


def with_biases(network, seed=0, scale=0.3):
    """Draw all biases, gains and running statistics of a network, which modules begin at zero or one."""
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() == 1:
                noise = torch.randn(parameter.shape, generator=stream)
                parameter.copy_((0.0 if name.endswith("bias") else 1.0) + scale * noise)
        for name, buffer in network.named_buffers():
            if buffer.is_floating_point():
                noise = torch.randn(buffer.shape, generator=stream)
                buffer.copy_(torch.exp(noise) if name.endswith("var") else scale * noise)
    return network


def scrambled_convolutions(network, seed=0):
    """Return a copy of `stacks.BatchNormed` whose hidden channels are permuted and rescaled."""
    stream = torch.Generator().manual_seed(seed)
    other = copy.deepcopy(network)
    with torch.no_grad():
        for first, norm, _, last in other.blocks:
            order = torch.randperm(len(first.weight), generator=stream)
            scale = torch.exp(torch.randn(len(order), generator=stream))
            for tensor in (first.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var):
                tensor.copy_(tensor[order])
            last.weight.copy_(last.weight[:, order])
            norm.weight.mul_(scale)
            norm.bias.mul_(scale)
            last.weight.div_(scale[None, :, None, None])
    return other
