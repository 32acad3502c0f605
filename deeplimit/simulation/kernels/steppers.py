"""Networks as trajectories that need only products of the matrix noise, and which networks are such."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.driving import Layer, factors_of, functions_of, matvec, noise_of
from deeplimit.equations import CompiledStep, FunctionValue, Limit, Motion, Stepper
from deeplimit.layers import Form, activations
from deeplimit.networks.residual_network import ResidualNetwork


class NetworkStepper(Stepper):
    """A network of one depth."""

    reads_limit_trend = False

    def __init__(self, state: Tensor, network: ResidualNetwork, depth: int) -> None:
        (law,) = network.weights
        (shape,) = network.weight_shapes
        factors = factors_of(law, shape)
        assert factors is not None
        super().__init__(state, factors, noise_of(network.channels))
        self.recursion = network.recursion
        self.exponent = network.exponent
        scale = law.entry_scale(shape)
        self.layer = Layer(None, depth, law.layer_exponent, scale)
        self.shrink = float(depth) ** -(law.facts.weight_exponent or 0.0)

    def operand(self, length: float) -> Tensor:
        operand = self.recursion.operand(self.state)
        assert operand is not None
        return operand

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> Tensor:
        if self.trend is not None:  # read at the layer's start
            matrix, push = self.trend
            product = product + matvec(matrix, self.operand(length)) * self.shrink
            if push is not None:
                bias = push * self.shrink if bias is None else bias + push * self.shrink
        layer = self.layer
        if bias is not None:
            layer = Layer(None, layer.depth, layer.layer_exponent, layer.entry_scale, bias)
        return self.state + self.recursion.finish(product, layer, self.exponent)

    def compiled_step(self) -> CompiledStep | None:
        entries, sigma, scale = self.bias_entries(), self.recursion.activation, self.layer.scale
        if entries is None or self.recursion.form is None:
            return None
        if self.recursion.form is Form.LINEAR:
            none = torch.zeros(self.state.shape[1])
            product = self.factor * scale(self.exponent)
            return CompiledStep(Motion.LINEAR, sigma, product, none, 0.0, 0.0, none)
        outer = float(self.layer.depth) ** -self.exponent
        deviations, variances = entries
        return CompiledStep(Motion.BRANCH, sigma, self.factor * scale(), deviations, outer, 0.0, variances)


def failed_precondition(network: ResidualNetwork, limit: Limit, shares: bool) -> str | None:
    """Return why a network needs whole matrices, with or without a shared limit; None where products do."""
    recursion = network.recursion
    if not recursion.needs_one_product:
        return f"{recursion.name} needs more of its weights than one product a layer"
    (law,) = network.weights
    if factors_of(law, *network.weight_shapes) is None:
        return (
            f"the weights ({law.describe()}) are not known to be Gaussian matrix noise, with constant row and"
            " column covariances"
        )
    if shares and limit.factors() is None:
        return "the limit may read whole increments, or noise of another kind"
    return None


def compiled_steps(network: ResidualNetwork, limit: Limit) -> list[CompiledStep] | None:
    """Return a step of the network and one of the limit that shares its noise; None without compiled loops.

    Compiled loops know steps that say so, noise of one variance for all entries, no function of time, and
    named activations.
    """
    (law,) = network.weights
    factors = (factors_of(law, *network.weight_shapes), limit.factors())
    one_variance = all(
        part is not None and part.rows.numel() == part.columns.numel() == 1 for part in factors
    )
    if functions_of(network.channels) or not one_variance:
        return None
    state = torch.zeros(1, network.width)
    steppers = [NetworkStepper(state, network, 1), limit.stepper(state)]
    steps = [step for stepper in steppers if (step := stepper.compiled_step()) is not None]
    used = [step.activation for step in steps if step.activation is not None]
    named = all(each.name in activations.NAMES and each is activations.resolve(each.name) for each in used)
    return steps if len(steps) == 2 and named else None
