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


@pytest.mark.parametrize("holds", ["stacks", "lists", "blocks"])
@pytest.mark.parametrize("in_out", [False, True])
def test_hidden_units_in_another_order_change_no_printed_digit(holds, in_out):
    one, several = (
        made(holds, in_out, "product"),
        {L: made(holds, in_out, "product", depth=L) for L in (6, 9)},
    )
    assert printed(twin_of(one), BATCH) == printed(one, BATCH)
    assert printed({L: twin_of(each) for L, each in several.items()}, BATCH) == printed(several, BATCH)


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
