"""Gradients by hand against automatic differentiation, for every recursion, to round-off."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.driving import Layer
from deeplimit.layers import ModifiedRes1
from deeplimit.layers.stacked import AutogradPass
from deeplimit.trained.training.ends import DirectEnds, LinearEnds, PooledEnds
from deeplimit.trained.training.losses import CrossEntropy, SquaredError
from deeplimit.trained.training.network_pass import NetworkPass, Parametrisation

FLOAT64 = ArrayLibrary(dtype=torch.float64)
ACTIVATIONS = ("tanh", "relu", "identity", "gelu", "softplus", "sin")


def _networks(activation, exponent=0.4):
    width = 3
    return {
        "res1": dl.res1(width, activation, exponent=exponent),
        "res2": dl.res2(width, activation, exponent=exponent),
        "res3": dl.res3(width, exponent=exponent),
        "inner": dl.inner(width, activation, exponent=exponent),
        "fully connected": dl.fully_connected(width, activation, exponent=exponent),
        "two-layer": dl.ResidualNetwork(dl.TwoLayer(activation, hidden=5), width, None, exponent),
        "modified res1": dl.ResidualNetwork(ModifiedRes1(activation), width, None, exponent),
        "convolutional": dl.convolutional(2, activation, size=(4, 3), exponent=exponent),
        "shortcut": dl.convolutional(2, activation, size=(4, 3), shortcut=True, exponent=exponent),
    }


NAMES = tuple(_networks("tanh"))


def _parameters(network, depth, networks, generator, biased):
    names = [weight.name for weight in network.recursion.weights]
    found = {
        name: 0.7 * torch.randn(depth, networks, *shape, generator=generator, dtype=torch.float64)
        for name, shape in zip(names, network.weight_shapes, strict=True)
    }
    if biased and network.recursion.takes_bias:
        found["b"] = torch.randn(depth, networks, network.width, generator=generator, dtype=torch.float64)
    return found


def _by_autograd(network, parameters, x, targets, depth, nonnegative):
    """Loss of each network, and gradients of the sum of losses, by the recursion's own `advance`."""
    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    used = {name: leaf.abs() if name in nonnegative else leaf for name, leaf in leaves.items()}
    used = {name: value.expand(depth, *value.shape[1:]) for name, value in used.items()}
    losses = []
    for s in range(x.shape[0]):
        h = x[s]
        for k in range(depth):
            bias = used["b"][k, s][None] if "b" in used else None
            layers = tuple(
                Layer(used[weight.name][k, s][None], depth, 0.0, 1.0, None if place else bias)
                for place, weight in enumerate(network.recursion.weights)
            )
            h = network.recursion.advance(h, layers, network.exponent)
        losses.append(torch.nn.functional.mse_loss(h, targets[s]))
    sum(losses).backward()
    return [float(one.detach()) for one in losses], {name: leaf.grad for name, leaf in leaves.items()}


@settings(deadline=None, max_examples=30)
@given(
    name=strategies.sampled_from(NAMES),
    activation=strategies.sampled_from(ACTIVATIONS),
    depth=strategies.integers(1, 7),
    networks=strategies.integers(1, 3),
    inputs=strategies.integers(1, 4),
    biased=strategies.booleans(),
    checkpointing=strategies.booleans(),
    roles=strategies.lists(strategies.integers(0, 7), min_size=4, max_size=4),
    seed=strategies.integers(0, 2**16),
)
def test_gradients_of_tied_nonnegative_and_fixed_weights_are_those_of_autograd(
    name, activation, depth, networks, inputs, biased, checkpointing, roles, seed
):
    network = _networks(activation)[name]
    generator = torch.Generator().manual_seed(seed)
    parameters = _parameters(network, depth, networks, generator, biased)
    tied, nonnegative, fixed = (
        frozenset(one for one, role in zip(parameters, roles, strict=False) if role >> bit & 1)
        for bit in range(3)
    )
    parameters = {one: value[:1] if one in tied else value for one, value in parameters.items()}
    shape = (networks, inputs, *network.state_shape)
    x, targets = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    of = Parametrisation(network, DirectEnds(), tied, nonnegative, fixed, checkpointing)
    arrays = {key: FLOAT64.array(value) for key, value in parameters.items()}
    passes = NetworkPass(of, depth, SquaredError(), FLOAT64)
    losses, gradients = passes.losses_and_gradients(arrays, FLOAT64.array(x), targets)
    wanted, by_autograd = _by_autograd(network, parameters, x, targets, depth, nonnegative)
    np.testing.assert_allclose(losses, wanted, rtol=1e-10)
    assert gradients.keys() == parameters.keys() - fixed
    for key, gradient in gradients.items():
        scale = float(by_autograd[key].abs().max()) + 1e-300
        assert gradient.shape == by_autograd[key].shape
        assert float(np.abs(gradient - by_autograd[key].numpy()).max()) <= 1e-10 * scale, key


@pytest.mark.parametrize("name", [name for name in NAMES if name != "modified res1"])
def test_only_modified_res1_needs_automatic_differentiation(name):
    assert not isinstance(_networks("tanh")[name].recursion.stacked_pass(FLOAT64), AutogradPass)


def test_gradients_of_shared_and_nonnegative_factors_are_finite_differences():
    network = dl.fully_connected(3, "tanh", exponent=0.0)
    generator = torch.Generator().manual_seed(0)
    parameters = _parameters(network, 5, 2, generator, True)
    parameters["δ"] = torch.tensor([[-0.3, 0.4]], dtype=torch.float64)
    x, targets = (torch.randn(2, 6, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    shared = frozenset({"δ"})
    passes = NetworkPass(Parametrisation(network, DirectEnds(), shared, shared), 5, SquaredError(), FLOAT64)

    def losses(delta):
        arrays = {**{k: FLOAT64.array(v) for k, v in parameters.items()}, "δ": delta}
        return passes.losses_and_gradients(arrays, FLOAT64.array(x), targets)

    delta, step = parameters["δ"].numpy(), 1e-6
    found = losses(delta)[1]["δ"][0]
    numeric = (losses(delta + step)[0] - losses(delta - step)[0]) / (2 * step)
    np.testing.assert_allclose(found, numeric, rtol=1e-7)
    assert found[0] != 0.0
    np.testing.assert_allclose(losses(np.abs(delta))[1]["δ"][0], [-found[0], found[1]], rtol=1e-12)


@pytest.mark.parametrize("ends", ["linear", "pooled"])
@pytest.mark.parametrize("loss", [SquaredError(), CrossEntropy()], ids=["squared error", "cross entropy"])
def test_gradients_of_ends_are_finite_differences(ends, loss):
    generator = torch.Generator().manual_seed(1)
    if ends == "linear":
        network, maps, shape = dl.res1(3, "tanh", exponent=0.5), LinearEnds(5, 4), (5,)
    else:
        network, maps, shape = dl.convolutional(3, "tanh", size=(2, 3)), PooledEnds(2, 4), (2, 2, 3)
    parameters = _parameters(network, 3, 2, generator, False)
    drawn = [maps.draw(3, generator) for _ in range(2)]
    parameters |= {name: torch.stack([one[name] for one in drawn])[None] for name in drawn[0]}
    arrays = {name: FLOAT64.array(value) for name, value in parameters.items()}
    x = FLOAT64.array(torch.randn(2, 6, *shape, generator=generator, dtype=torch.float64))
    targets = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64)
    if isinstance(loss, CrossEntropy):
        targets = targets.argmax(-1)
    passes = NetworkPass(Parametrisation(network, maps), 3, loss, FLOAT64)
    _, gradients = passes.losses_and_gradients(arrays, x, targets)
    assert gradients.keys() == arrays.keys()
    for name in drawn[0]:
        direction = np.random.default_rng(2).normal(size=arrays[name].shape)
        step = 1e-6
        moved = []
        for sign in (1, -1):
            there = {**arrays, name: arrays[name] + sign * step * direction}
            moved.append(passes.losses_and_gradients(there, x, targets)[0])
        wanted = (moved[0] - moved[1]) / (2 * step)
        along = (gradients[name] * direction).reshape(2, -1).sum(-1)
        np.testing.assert_allclose(along, wanted, rtol=1e-6, atol=1e-9)
