"""Branches as functions: every layer is given the same states, and hidden units do not matter."""

import copy

import pytest
import torch
from gauges import scrambled_convolutions, scrambled_transformer, with_biases
from refusals import assert_refused, row
from stacks import BatchNormed, Res1, Transformer, images, make, tokens, vectors
from torch import nn

from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.batches import as_batch
from deeplimit.trained.diagnosis.branch_functions import functions_on


def branch_functions(model, batch=None, probe="noise"):
    return functions_on(model, as_batch(model, batch), probe, None, 0)


def functions(model, batch, **how):
    """Return what each kind of branch adds, response and mean put together again."""
    found = {stack.name: stack.values for stack in branch_functions(model, batch, **how)[0]}
    kinds = [name for name in found if not name.endswith(", mean")]
    whole = {}
    for kind in kinds:
        mean, response = found[f"{kind}, mean"], found[kind]
        axis = 1 + list(response.shape[1:]).index(mean.shape[1]) if response.dim() > 4 else response.dim() - 1
        shape = [len(mean)] + [1] * (response.dim() - 1)
        shape[axis] = -1
        whole[kind] = response + mean.reshape(shape)
        assert float(response.mean([a for a in range(1, response.dim()) if a != axis]).abs().max()) < 1e-5
    return whole


def middle_of(network, batch):
    """Return the state before the middle block of a transformer, and what its attention adds."""
    x = network.embedding(batch)
    for block in network.blocks[: len(network.blocks) // 2]:
        x = block(x)
    block = network.blocks[len(network.blocks) // 2]
    y = block.before(x)
    return x, block.attention(y, y, y, need_weights=False)[0]


def test_all_layers_are_given_the_same_noise():
    network = make(Res1, depth=6, exponent=1.0)
    with torch.no_grad():
        network.layers[0].weight.copy_(torch.eye(32))
    values = functions(network, vectors())["layers.*"].double()
    activated = values[0] / network.scale
    for k, layer in enumerate(network.layers):
        expected = network.scale * activated @ layer.weight.double().T
        torch.testing.assert_close(values[k], expected.detach(), rtol=1e-4, atol=1e-5)
    assert float(activated.std()) > 0.1


def test_states_are_those_before_the_middle_layer():
    network = with_biases(make(Transformer, depth=6)).eval()
    values = functions(network, tokens(), probe="states")["blocks.*.attention"]
    with torch.no_grad():
        _, added = middle_of(network, tokens())
    torch.testing.assert_close(values[3], added, rtol=1e-4, atol=1e-5)
    noise = functions(network, tokens())["blocks.*.attention"]
    assert float((noise[3] - added).norm() / added.norm()) > 0.1


def test_batch_normalisation_uses_what_training_left():
    network = with_biases(make(BatchNormed, depth=6)).eval()
    values = functions(network, images(), probe="states")["blocks.*"]
    with torch.no_grad():
        x = network.stem(images())
        for block in network.blocks[:3]:
            x = torch.relu(x + block(x))
        torch.testing.assert_close(values[3], network.blocks[3](x), rtol=1e-4, atol=1e-5)


TWINS = [
    pytest.param(Transformer, tokens, scrambled_transformer, "blocks.0.mlp.0.weight", id="transformer"),
    pytest.param(BatchNormed, images, scrambled_convolutions, "blocks.0.0.weight", id="convolutions"),
]


@pytest.mark.parametrize("probe", ["noise", "states"])
@pytest.mark.parametrize(("kind", "batch", "scramble", "weight"), TWINS)
def test_a_twin_of_the_same_function_has_the_same_branches(kind, batch, scramble, weight, probe):
    network = with_biases(make(kind, depth=5))
    twin = scramble(network)
    before, after = network.state_dict()[weight], twin.state_dict()[weight]
    assert float((before - after).norm() / before.norm()) > 0.5
    mine, other = (functions(each, batch(), probe=probe) for each in (network, twin))
    assert mine.keys() == other.keys()
    for name, values in mine.items():
        assert float((values - other[name]).norm() / values.norm()) < 1e-4, name


class Dilated(nn.Module):
    """A convolutional network whose blocks come in two kinds that their weights do not show."""

    def __init__(self, depth=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Conv1d(3, 3, 3, padding=2 - k % 2, dilation=2 - k % 2) for k in range(depth)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(torch.relu(x))
        return x


def test_kinds_of_layers_become_groups():
    with seeded(0):
        network = Dilated()
    stacks, left_out = branch_functions(network, torch.ones(2, 3, 8))
    assert [(stack.name, stack.groups) for stack in stacks] == [
        ("blocks.*", (0, 1, 0, 1, 0, 1)),
        ("blocks.*, mean", (0, 1, 0, 1, 0, 1)),
    ]
    assert stacks[1].values.shape == (6, 3)
    assert left_out == {}


def test_biases_at_the_end_of_a_branch_are_in_its_mean_alone():
    network = make(Transformer, depth=5)
    before = {stack.name: stack.values for stack in branch_functions(network, tokens())[0]}
    with torch.no_grad():
        for k, block in enumerate(network.blocks):
            block.mlp[3].bias += 100.0 + k
    after = {stack.name: stack.values for stack in branch_functions(network, tokens())[0]}
    torch.testing.assert_close(after["blocks.*.mlp"], before["blocks.*.mlp"], rtol=0, atol=1e-4)
    moved = after["blocks.*.mlp, mean"] - before["blocks.*.mlp, mean"]
    torch.testing.assert_close(moved, (100.0 + torch.arange(5.0))[:, None].expand(5, 32), rtol=0, atol=1e-3)


def test_tied_and_few_layers_are_left_out_with_the_reason():
    _, left_out = branch_functions(make(Res1, depth=6, tied=True), vectors())
    assert [text.partition(":")[0] for text in left_out.values()] == ["all layers hold the same numbers"] * 2
    _, left_out = branch_functions(make(Res1, depth=3), vectors())
    assert left_out == {"layers.*": "has 3 layers, fewer than 4"}


def test_the_model_is_left_as_it_was():
    network = with_biases(make(BatchNormed, depth=4))
    before = copy.deepcopy(network.state_dict())
    for probe in ("noise", "states"):
        branch_functions(network, images(), probe=probe)
    assert network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name


def broken():
    network = make(Transformer, depth=4)
    with torch.no_grad():
        network.blocks[2].mlp[3].weight[0, 0] = torch.nan
    return network


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        row("NaN", lambda: branch_functions(broken(), tokens()), ValueError, "blocks.2.mlp", "finite"),
        row("no branch", lambda: branch_functions(nn.Linear(2, 2)), ValueError, "no residual branch"),
    ],
)
def test_wrong_calls_are_refused(call, kind, said):
    with seeded(0):
        assert_refused(call, kind, *said)
