"""Weights that a forward applies itself: however they are stored and scaled, objects are the function's."""

import copy
import math

import pytest
import torch
from test_twins import apart, objects, printed
from torch import nn
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.trained.diagnosis.stacks import NOISE

WIDTH, HIDDEN, DEPTH, FACTOR = 6, 6, 8, 0.25


class Written(nn.Module):
    """h + factor · W_out tanh(W_in h), with weights (out, in) or (in, out), listed, stacked or in blocks."""

    def __init__(self, depth, holds, in_out, how, at="after"):
        super().__init__()
        self.depth, self.holds, self.in_out, self.how, self.at = depth, holds, in_out, how, at
        reads = torch.randn(depth, HIDDEN, WIDTH).cumsum(0) / depth
        writes = torch.randn(depth, WIDTH, HIDDEN).cumsum(0) / depth
        given = [w.mT.contiguous() if in_out else w for w in (reads, writes)]
        if holds == "stacks":
            self.w_in, self.w_out = map(nn.Parameter, given)
        elif holds == "lists":
            self.w_in, self.w_out = (nn.ParameterList([*w]) for w in given)
        else:
            self.layers = nn.ModuleList(nn.Module() for _ in range(depth))
            for k, layer in enumerate(self.layers):
                layer.w_in, layer.w_out = (nn.Parameter(w[k]) for w in given)

    def pair(self, k):
        at = self.layers[k] if self.holds == "blocks" else self
        return (at.w_in, at.w_out) if self.holds == "blocks" else (at.w_in[k], at.w_out[k])

    def applied(self, h, w):
        if self.how == "einsum":
            return torch.einsum("ni,io->no" if self.in_out else "ni,oi->no", h, w)
        if self.how == "columns":
            return ((w.mT if self.in_out else w) @ h.T).T
        if self.how == "linear":
            return functional.linear(h, w.permute(1, 0) if self.in_out else w)
        return h @ (w if self.in_out else w.T)

    def forward(self, h):
        for k in range(self.depth):
            w_in, w_out = self.pair(k)
            c = {each: FACTOR if each == self.at else 1.0 for each in ("after", "weight", "input", "inner")}
            unit = torch.tanh(c["inner"] * self.applied(h, w_in))
            h = h + c["after"] * self.applied(c["input"] * unit, c["weight"] * w_out)
        return h


BATCH = torch.randn(5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def made(*how, depth=DEPTH, **more):
    with seeded(1):
        return Written(depth, *how, **more).double().eval()


def twin_of(network, broken=False):
    """The same function with hidden units in another order, and of other signs; another one if broken."""
    other, stream = copy.deepcopy(network), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for k in range(network.depth):
            w_in, w_out = other.pair(k)
            order = torch.randperm(HIDDEN, generator=stream).roll(1)
            signs = 2.0 * torch.randint(0, 2, (HIDDEN,), generator=stream) - 1
            reads, writes = (w_in.mT, w_out.mT) if network.in_out else (w_in, w_out)
            reads.copy_(signs[:, None] * reads[order])
            writes.copy_(writes if broken else signs * writes[:, order])
    return other


CASES = [
    (holds, in_out, how)
    for holds in ("stacks", "lists", "blocks")
    for in_out in (False, True)
    for how in ("product", "linear", "einsum", "columns")
]


@pytest.mark.parametrize(("holds", "in_out", "how"), CASES)
def test_hidden_units_may_be_in_any_order(holds, in_out, how):
    network = made(holds, in_out, how)
    twin, other = twin_of(network), twin_of(network, broken=True)
    torch.testing.assert_close(twin(BATCH), network(BATCH))
    mine = objects(network, DEPTH, BATCH)
    assert apart(mine, objects(twin, DEPTH, BATCH)) < 1e-9
    assert apart(mine, objects(other, DEPTH, BATCH)) > 1e-2


@pytest.mark.parametrize(("holds", "in_out"), [("stacks", False), ("blocks", True)])
def test_hidden_units_in_another_order_change_no_printed_digit_of_one_network(holds, in_out):
    network = made(holds, in_out, "product", depth=5)
    assert printed(twin_of(network), BATCH) == printed(network, BATCH)


@pytest.mark.parametrize(("holds", "in_out"), [("stacks", True), ("lists", False), ("blocks", True)])
def test_hidden_units_in_another_order_change_no_printed_digit_of_a_sweep(holds, in_out):
    several = {depth: made(holds, in_out, "product", depth=depth) for depth in (6, 9)}
    twins = {depth: twin_of(network) for depth, network in several.items()}
    assert printed(twins, BATCH) == printed(several, BATCH)


@pytest.mark.parametrize("holds", ["stacks", "lists", "blocks"])
@pytest.mark.parametrize("at", ["after", "weight", "input", "inner"])
def test_a_number_multiplies_objects_wherever_the_forward_has_it(holds, at):
    network = made(holds, False, "product", at=at)
    plain = made(holds, False, "product", at="nowhere")
    with torch.no_grad():
        for k in range(DEPTH):
            plain.pair(k)[0 if at == "inner" else 1].mul_(FACTOR)
    torch.testing.assert_close(plain(BATCH), network(BATCH))
    assert apart(objects(network, DEPTH, BATCH), objects(plain, DEPTH, BATCH)) < 1e-9


def test_one_matrix_of_a_layer_is_multiplied_too():
    class Square(nn.Module):
        def __init__(self, at):
            super().__init__()
            self.w, self.at = nn.Parameter(torch.randn(DEPTH, WIDTH, WIDTH)), at

        def forward(self, h):
            c = {each: math.sqrt(1 / DEPTH) if each == self.at else 1.0 for each in ("input", "weight")}
            for k in range(DEPTH):
                h = h + (c["input"] * torch.tanh(h)) @ (c["weight"] * self.w[k])
            return h

    for at in ("input", "weight"):
        with seeded(0):
            network = Square(at).double()
        (found,) = objects(network, DEPTH, BATCH).values()
        torch.testing.assert_close(found.norm(), math.sqrt(1 / DEPTH) * network.w.detach().norm())


@pytest.mark.parametrize("given", [lambda made: made, lambda made: made.state_dict()])
def test_stacks_whose_hidden_units_may_be_in_any_order_are_not_compared_by_entries(given):
    class Hidden(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.w_in, self.w_out = (nn.Parameter(torch.randn(depth, *shape)) for shape in ((9, 6), (6, 9)))

        def forward(self, h):
            for w_in, w_out in zip(self.w_in, self.w_out, strict=True):
                h = h + torch.tanh(h @ w_in.T) @ w_out.T
            return h

    with seeded(0):
        networks = {depth: Hidden(depth).double() for depth in (6, 9)}
    with pytest.raises(ValueError, match=r"Pass the module|pass batch="):
        dl.diagnose({depth: given(made) for depth, made in networks.items()})
    assert dl.diagnose(networks, batch=BATCH).verdict


def walked(depth, *shape):
    """Weights that change slowly over depth."""
    return torch.randn(depth, *shape).cumsum(0) / depth


class Gated(nn.Module):
    """Three stacks, of which two read the stream."""

    def __init__(self, depth):
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Parameter(walked(depth, *shape)) for shape in ((6, 9), (6, 9), (9, 6))
        )

    def forward(self, h):
        for gate, up, down in zip(self.gate, self.up, self.down, strict=True):
            h = h + (functional.silu(h @ gate) * (h @ up)) @ down / len(self.gate)
        return h

    def twin(self, k, order, factor):
        for stack in (self.gate, self.up):
            stack[k] = stack[k][:, order]
        self.down[k] = self.down[k][order]


class Scaled(nn.Module):
    """A normalisation's gains and layer scales in stacks, too."""

    def __init__(self, depth):
        super().__init__()
        self.gain, self.scale = (nn.Parameter(0.5 + torch.rand(depth, 6)) for _ in range(2))
        self.reads, self.writes = (nn.Parameter(walked(depth, *shape)) for shape in ((9, 6), (9, 6)))

    def forward(self, h):
        for k in range(len(self.gain)):
            unit = torch.tanh(functional.layer_norm(h, (6,), self.gain[k]) @ self.reads[k].T)
            h = h + self.scale[k] * (unit @ self.writes[k])
        return h

    def twin(self, k, order, factor):
        self.reads[k] = self.reads[k][order] * factor
        self.gain[k] /= factor
        self.writes[k] = self.writes[k][order] / factor
        self.scale[k] *= factor


class TwoLists(nn.Module):
    """One list of modules for each weight of a branch, and one of normalisations."""

    def __init__(self, depth):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(6) for _ in range(depth))
        self.scales = nn.ParameterList(0.5 + torch.rand(6) for _ in range(depth))
        self.ups, self.downs = (
            nn.ModuleList(nn.Linear(*ends) for _ in range(depth)) for ends in ((6, 9), (9, 6))
        )

    def forward(self, h):
        for norm, scale, up, down in zip(self.norms, self.scales, self.ups, self.downs, strict=True):
            h = h + scale * down(torch.tanh(up(norm(h)))) / len(self.norms)
        return h

    def twin(self, k, order, factor):
        norm, up, down = self.norms[k], self.ups[k], self.downs[k]
        norm.weight.mul_(factor)
        norm.bias.mul_(factor)
        up.weight.copy_(up.weight[order] / factor)
        up.bias.copy_(up.bias[order])
        down.weight.copy_(down.weight[:, order] * factor[:, None])
        down.bias.mul_(factor)
        self.scales[k].div_(factor)


class Mixed(nn.Module):
    """A list of parameters before one of modules, and a scale that falls within the network."""

    def __init__(self, depth):
        super().__init__()
        self.reads = nn.ParameterList([*walked(depth, 6, 9)])
        self.writes = nn.ModuleList(nn.Linear(9, 6) for _ in range(depth))
        self.scales = nn.Parameter(0.5 + torch.rand(depth))

    def forward(self, h):
        for k, (reads, write) in enumerate(zip(self.reads, self.writes, strict=True)):
            h = h + self.scales[k] * write(torch.relu(h @ reads)) / math.sqrt(k + 1)
        return h

    def twin(self, k, order, factor):
        size, write = factor[0], self.writes[k]
        self.reads[k].copy_(3 * self.reads[k][:, order])
        write.weight.copy_(write.weight[:, order] / 3 * size)
        write.bias.mul_(size)
        self.scales[k] /= size


@pytest.mark.parametrize("kind", [Gated, Scaled, TwoLists, Mixed])
def test_what_a_twin_moves_between_tensors_changes_no_object(kind):
    with seeded(3):
        network = kind(DEPTH).double()
    twin, stream = copy.deepcopy(network), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for k in range(DEPTH):
            factor = 0.5 + torch.rand(6, generator=stream, dtype=torch.float64)
            twin.twin(k, torch.randperm(9, generator=stream), factor)
    torch.testing.assert_close(twin(BATCH), network(BATCH))
    assert apart(objects(network, DEPTH, BATCH), objects(twin, DEPTH, BATCH)) < 1e-9


class Spelled(nn.Module):
    """h + c_l · tanh(h A_l) B_l, with the number c_l written in one of several ways."""

    def __init__(self, depth, how, backwards=False):
        super().__init__()
        self.how, self.order = how, [*range(depth)][:: -1 if backwards else 1]
        self.W, self.V = nn.Parameter(walked(depth, 6, 9)), nn.Parameter(walked(depth, 9, 6))
        numbers = (1 + torch.arange(depth)) ** -0.5
        self.stacked = nn.Parameter(numbers[:, None].clone())
        self.register_buffer("kept", numbers[:, None].clone())
        self.numbers = numbers.tolist()

    def forward(self, h):
        pairs = [*zip(self.W, self.V, strict=True)]
        for k in self.order:
            W, V = pairs[k] if self.how == "unbound" else (self.W[k], self.V[k])
            unit = torch.tanh(h @ W)
            if self.how == "parameters":
                unit = self.stacked[k] * unit
            elif self.how == "buffers":
                unit = unit * self.kept[k]
            elif self.how == "on the weight":
                V = self.kept[k] * V
            elif self.how in ("numbers", "unbound"):
                unit = self.numbers[k] * unit
            branch = unit @ V
            h = h + (self.numbers[k] * branch if self.how == "on the branch" else branch)
        return h


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "how", ["parameters", "buffers", "on the weight", "numbers", "unbound", "on the branch"]
)
def test_a_number_of_each_layer_is_its_own_in_every_spelling_and_order(how, backwards):
    with seeded(5):
        network = Spelled(DEPTH, how, backwards).double()
    plain = copy.deepcopy(network)
    plain.how = "nowhere"
    with torch.no_grad():
        plain.V.mul_(plain.kept[:, :, None])
    torch.testing.assert_close(plain(BATCH), network(BATCH))
    assert apart(objects(network, DEPTH, BATCH), objects(plain, DEPTH, BATCH)) < 1e-6


def test_weights_that_are_standardised_are_not_read_as_they_are_stored():
    class Standardised(nn.Module):
        def __init__(self):
            super().__init__()
            self.reads, self.writes = nn.Parameter(walked(DEPTH, 9, 6)), nn.Parameter(walked(DEPTH, 9, 6))

        def forward(self, h):
            for reads, writes in zip(self.reads, self.writes, strict=True):
                w = (reads - reads.mean(1, keepdim=True)) / reads.std(1, keepdim=True)
                h = h + torch.tanh(h @ w.T) @ writes
            return h

    with seeded(0):
        network = Standardised().double()
    assert all(name.endswith(NOISE) for name in objects(network, DEPTH, BATCH))


def test_a_sum_inside_another_call_leaves_the_stream_out_and_nothing_else():
    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            self.reads, self.writes = nn.Parameter(walked(DEPTH, 6, 9)), nn.Parameter(walked(DEPTH, 9, 6))

        def forward(self, h):
            for reads, writes in zip(self.reads, self.writes, strict=True):
                h = torch.addmm(h, torch.tanh(h @ reads), writes, alpha=0.5)
            return h

    with seeded(0):
        assert dl.diagnose(Fused(), batch=BATCH.float()).verdict


class Named(nn.Module):
    """Stacks by the names that a dict of stacks has."""

    def __init__(self, depth):
        super().__init__()
        self.W, self.V = nn.Parameter(walked(depth, 6, 6)), nn.Parameter(walked(depth, 6, 6))

    def forward(self, h):
        for W, V in zip(self.W, self.V, strict=True):
            h = h + torch.tanh(h @ W) @ V
        return h


def test_a_module_is_read_by_its_forward_whatever_its_weights_are_called():
    with seeded(0):
        network, deeper = Named(DEPTH).double(), Named(2 * DEPTH).double()
    twin, stream = copy.deepcopy(network), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for k in range(DEPTH):
            order = torch.randperm(6, generator=stream)
            twin.W[k], twin.V[k] = twin.W[k][:, order], twin.V[k][order]
    assert apart(objects(network, DEPTH, BATCH), objects(twin, DEPTH, BATCH)) < 1e-9
    with pytest.raises(ValueError, match="batch"):  # squares, whose shapes tell nothing
        dl.diagnose({DEPTH: network, 2 * DEPTH: deeper})
