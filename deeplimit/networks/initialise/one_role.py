"""The weights of one role, one tensor per layer, filled in place with one law across the layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import written_by_default
from deeplimit.driving import IID, FractionalBrownian, SmoothGaussian, WeightLaw, critical_exponent
from deeplimit.driving.sampler_test import Sampler
from deeplimit.networks.initialise.filling import (
    fan_in_of_shape,
    law_across_layers,
    representable,
    streams_of,
    write_layers,
)
from deeplimit.networks.initialise.result import Initialisation, shared_fields
from deeplimit.networks.initialise.tensors import layers_of_weights


@written_by_default
def sample_(
    weights: Sequence[Tensor],
    process: WeightLaw,
    *,
    exponent: float | None = None,
    gain: float = 1.0,
    fan_in: int | None = None,
    seed: int | torch.Generator = 0,
) -> Initialisation:
    """Fill the weights of one role with L^-exponent · gain/√fan_in · Z_k, Z a weight law across the L layers.

    Entries are independent of each other, of mean 0, and of one variance in every layer. Biases do not
    change. Nothing is written unless every argument is right.

    Args:
        weights: The role's weights in order of depth, a tensor per layer, all of one shape: (out, in) of a
            linear map, (out, in/groups, ...) of a convolution. Any floating dtype, device and strides; at
            least two layers.
        process: `Brownian()`, `IID(law)`, `SmoothGaussian(length_scale)` or `FractionalBrownian(hurst)`.
        exponent: Power of the depth, at least 0; the law's critical one if left out. 0 for weights within a
            branch, which carry no residual scale.
        gain: Gain of the activation before it, more than 0, as `torch.nn.init.calculate_gain` gives it.
        fan_in: The number of inputs, if it is not the product of all dimensions but the first. A transposed
            convolution, or the `Conv1D` of the package transformers, whose weight is (in, out), needs it.
        seed: An integer, or a generator to draw from. The same integer means the same weights in every
            dtype and on every device, and for the next role too. **Give each role a different seed**, or all
            of them one generator.

    Raises TypeError or ValueError for other arguments, for tied or computed weights, and where a dtype cannot
    hold numbers of this size. NOT checked: that the tensors are in order of depth, and that the module
    multiplies its input by them alone.

    Examples:
        >>> import torch, deeplimit as dl
        >>> layers = [torch.nn.Conv2d(8, 8, 3) for _ in range(10)]
        >>> print(dl.init.sample_([layer.weight for layer in layers], dl.SmoothGaussian()))
        smooth Gaussian weights (length scale 0.1) across 10 layers of shape (8, 8, 3, 3)
        standard deviation 0.01179 = 10^-1 · 1/√72
        leads to: ode (Proposition 12 of Marion et al. (2025))
        ...
    """
    given = {**locals()}
    del given["weights"]  # they are filled, and stay with the caller
    law = law_across_layers(process)
    tensors = layers_of_weights(weights, "weights")
    power = critical_exponent(law) if exponent is None else validation.real(exponent, "exponent", minimum=0.0)
    factor = validation.real(gain, "gain", above=0.0)
    shape, depth = tuple(tensors[0].shape), len(tensors)
    if fan_in is None and len(shape) < 2:
        raise ValueError(
            f"weights have the shape {shape}, of which no fan-in can be read: biases and gains carry no law;"
            " give fan_in= if these do."
        )
    inputs = fan_in_of_shape(shape) if fan_in is None else validation.integer(fan_in, "fan_in", minimum=1)
    standard_deviation = float(depth) ** -power * factor / inputs**0.5
    for k, tensor in enumerate(tensors):
        representable(standard_deviation, tensor.dtype, f"weights[{k}]")
    write_layers(law, depth, list(enumerate(tensors)), standard_deviation, streams_of(seed))
    report = Initialisation(
        layers=depth,
        shape=shape,
        fan_in=inputs,
        gain=factor,
        standard_deviation=standard_deviation,
        **shared_fields(law, power, whole=False),
    )
    return report.called_by("init.sample_", given)


@written_by_default
def iid_(
    weights: Sequence[Tensor],
    *,
    exponent: float | None = 0.5,
    gain: float = 1.0,
    law: str | Sampler = "gaussian",
    fan_in: int | None = None,
    seed: int | torch.Generator = 0,
) -> Initialisation:
    """Fill the weights of one role with independent layers; the exponent 1/2 leads to an SDE (Marion et al.
    2025, Prop. 11).

    `law` is "gaussian", "uniform", "rademacher" or a sampler, as in `dl.IID`; the rest is as in `sample_`,
    with the same errors. The proposition is proved for res-1 with Gaussian weights.

    Examples:
        >>> import torch, deeplimit as dl
        >>> done = dl.init.iid_([torch.empty(64, 64) for _ in range(16)], law="rademacher")
        >>> done.limit, done.standard_deviation  # 16^-1/2 / √64
        ('sde', 0.03125)
    """
    return sample_(weights, IID(law), exponent=exponent, gain=gain, fan_in=fan_in, seed=seed)


@written_by_default
def smooth_(
    weights: Sequence[Tensor],
    *,
    length_scale: float = 0.1,
    exponent: float | None = 1.0,
    gain: float = 1.0,
    fan_in: int | None = None,
    seed: int | torch.Generator = 0,
) -> Initialisation:
    """Fill the weights of one role with a smooth function of the layer; exponent 1 leads to an ODE.

    Each entry is a Gaussian process at the times k/L with the covariance exp(-(s - t)²/(2 length_scale²)),
    reproduced to 1e-12. `length_scale` is a share of the whole depth, at least 0.005; Marion et al. (2025)
    use 0.1. Below 1/L layers are as good as independent, and the exponent 1 is then too large: NOT checked.
    The rest is as in `sample_`, with the same errors. The proposition asks that all weights of a branch be
    smooth, those without a residual scale too.

    Examples:
        >>> import torch, deeplimit as dl
        >>> weights = [torch.empty(64, 64) for _ in range(48)]
        >>> dl.init.smooth_(weights).theorem
        'Proposition 12 of Marion et al. (2025)'
        >>> bool((weights[1] - weights[0]).norm() < 0.3 * weights[0].norm())
        True
    """
    process = SmoothGaussian(length_scale)
    return sample_(weights, process, exponent=exponent, gain=gain, fan_in=fan_in, seed=seed)


@written_by_default
def fractional_(
    weights: Sequence[Tensor],
    *,
    hurst: float,
    exponent: float | None = None,
    gain: float = 1.0,
    fan_in: int | None = None,
    seed: int | torch.Generator = 0,
) -> Initialisation:
    """Fill the weights of one role with fractional Gaussian noise across layers (Marion et al. 2025, Section
    4.1).

    The L layers are L^H times the increments of a fractional Brownian motion, of variance 1, drawn exactly.
    The exponent is max(H, 1/2) if left out, the critical one by Marion et al. (2025), Figure 7. For H > 1/2
    it leads to a Young equation in res-1; for H < 1/2 no theorem names a limit. The rest is as in `sample_`,
    with the same errors.

    Examples:
        >>> import torch, deeplimit as dl
        >>> done = dl.init.fractional_([torch.empty(64, 64) for _ in range(100)], hurst=0.3)
        >>> done.exponent, done.limit
        (0.5, 'no theorem')
    """
    return sample_(weights, FractionalBrownian(hurst), exponent=exponent, gain=gain, fan_in=fan_in, seed=seed)
