"""The layers that a forward writes out, found and held against the forward itself."""

import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.common.specification import describe
from deeplimit.driving.written_layers import written_layers

WIDTH = 4


class Model(nn.Module):
    """Maps of a state, as many as `each` per layer; the forward is somebody's."""

    each = 1

    def __init__(self, depth):
        super().__init__()
        self.depth = depth
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(self.each * depth))
        self.stacked = nn.Parameter(torch.randn(depth, WIDTH, WIDTH) / WIDTH**0.5)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))
        self.gains = nn.Parameter(1 + torch.rand(depth))

    def forward(self, h):
        for k in range(self.depth):
            h = self.layer(h, k)
        return h


class ActivationFirst(Model):
    def layer(self, h, k):
        return h + self.depth**-0.5 * self.maps[k](torch.tanh(h))


class SkipLast(Model):
    def layer(self, h, k):
        return self.maps[k](torch.relu(h)) * self.gains[k] + 0.9 * h


class Stacked(Model):
    def layer(self, h, k):
        return torch.addmm(h, torch.tanh(h), self.stacked[k].T, alpha=self.depth**-0.5)


class WeightScaledFirst(Model):
    def layer(self, h, k):
        return h + torch.tanh(h) @ (self.depth**-0.5 * self.stacked[k]).T


class ScaledOnceForAll(Model):
    def forward(self, h):
        weight = self.depth**-0.5 * self.stacked[0]
        for _ in range(self.depth):
            h = h + torch.tanh(h) @ -weight.T
        return h


class ScaledAndWrittenOn(Model):
    def layer(self, h, k):
        weight = 0.5 * self.stacked[k]
        weight += 0.1
        return h + torch.tanh(h) @ weight.T


class PostNorm(Model):
    def layer(self, h, k):
        return self.norms[k](h + torch.tanh(self.maps[k](h)))


class WrittenNorm(Model):
    def layer(self, h, k):
        h = h + torch.tanh(self.maps[k](h))
        return h / (1 + h.square().mean(-1, keepdim=True)).sqrt()


class Gate(Model):
    each = 2

    def layer(self, h, k):
        gate = torch.sigmoid(self.maps[2 * k](h))
        return torch.lerp(h, torch.tanh(self.maps[2 * k + 1](h)), gate)


class Rows(Model):
    """Shapes are read off the input, and rows are folded into another axis."""

    def forward(self, h):
        rows, width = h.shape
        for k in range(self.depth):
            heads = self.maps[k](h).reshape(2 * rows, width // 2)
            h = h + torch.tanh(heads).reshape(rows, width) / self.depth
        return h


class InPlace(Model):
    def layer(self, h, k):
        branch = self.maps[k](h)
        h += branch.tanh_()
        return h


class TwoPerLayer(Model):
    each = 2

    def layer(self, h, k):
        h = h + torch.tanh(self.maps[2 * k](h))
        return h + torch.relu(self.maps[2 * k + 1](h))


class Tied(Model):
    def layer(self, h, k):
        return h + self.maps[0](torch.tanh(h)) / self.depth


class Asked(Model):
    """What torch.fx could not trace: a forward that looks at its numbers."""

    def forward(self, h):
        assert bool(torch.isfinite(h).all())
        return super().forward(h)

    def layer(self, h, k):
        return h + functional.silu(self.maps[k](h))


ONE_STREAM = [
    *(
        ActivationFirst,
        SkipLast,
        Stacked,
        WeightScaledFirst,
        ScaledOnceForAll,
        ScaledAndWrittenOn,
        PostNorm,
        WrittenNorm,
        Gate,
        Rows,
        InPlace,
        TwoPerLayer,
        Tied,
        Asked,
    )
]


def layers_of(kind, depth=5, rows=3):
    with seeded(1), torch.no_grad():
        model = kind(depth).eval()
        return model, written_layers(model, depth, torch.randn(rows, WIDTH)), torch.randn(7, WIDTH)


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("kind", ONE_STREAM)
def test_layers_one_after_the_other_are_the_forward(kind, depth):
    model, found, other = layers_of(kind, depth)
    assert (found.begins, found.ends) == (True, True)
    assert len(found.blocks) == depth
    h = other.clone()
    for block in found.blocks:
        h = block(h)
    torch.testing.assert_close(h, model(other.clone()))


@pytest.mark.parametrize("kind", [Stacked, WeightScaledFirst, ScaledOnceForAll])
def test_layers_hold_the_weights_of_the_model_and_no_products(kind):
    model, found, _ = layers_of(kind, 3)
    storages = {each.untyped_storage().data_ptr() for each in model.parameters()}
    held = [each for block in found.blocks for each in block.buffers()]
    assert len(held) == 3
    assert {each.untyped_storage().data_ptr() for each in held} <= storages


class FirstStateAgain(Model):
    def forward(self, h):
        first = h
        for branch in self.maps:
            h = h + torch.tanh(branch(h)) + 0.1 * first
        return h


class Leapfrog(Model):
    def forward(self, h):
        before = h
        for branch in self.maps:
            before, h = h, 2 * h - before + torch.tanh(branch(h)) / self.depth**2
        return h


class NoSkip(Model):
    def layer(self, h, k):
        return torch.tanh(self.maps[k](h))


class Drawn(Model):
    def layer(self, h, k):
        return h + torch.randn(WIDTH) * self.maps[k](h)


class LooksAtItsState(Model):
    def layer(self, h, k):
        return h + torch.tanh(self.maps[k](h)) * float(h.mean())


class EveryFourthAgain(Model):
    def layer(self, h, k):
        h = h + torch.tanh(self.maps[k](h))
        return h + torch.relu(self.maps[k](h)) if k % 4 == 3 else h


class OneMore(Model):
    def forward(self, h):
        h = super().forward(h)
        return h + torch.relu(self.maps[0](h))

    def layer(self, h, k):
        return h + torch.tanh(self.maps[k](h))


OTHERS = [FirstStateAgain, Leapfrog, NoSkip, Drawn, LooksAtItsState, EveryFourthAgain, OneMore]


@pytest.mark.parametrize("kind", OTHERS)
def test_a_forward_whose_layers_no_state_separates_has_none(kind):
    assert layers_of(kind)[1] is None


class WithEnds(ActivationFirst):
    """Something before the layers and something after them, which are not the layers'."""

    def __init__(self, depth):
        super().__init__(depth)
        self.first, self.head = nn.Embedding(9, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        return {"logits": self.head(super().forward(self.first(tokens).relu()))}


class InPlaceWithEnds(WithEnds):
    """The same tensor holds every state in turn."""

    def layer(self, h, k):
        h += torch.tanh(self.maps[k](h)) / self.depth
        return h


@pytest.mark.parametrize("kind", [WithEnds, InPlaceWithEnds])
def test_states_are_those_of_the_forward(kind):
    with seeded(1), torch.no_grad():
        model = kind(3).eval()
        tokens = torch.tensor([1, 5, 2])
        found = written_layers(model, 3, tokens)
        for before, block, after in zip(found.states, found.blocks, found.states[1:], strict=False):
            torch.testing.assert_close(block(before), after)
            assert not torch.allclose(before, after)
        torch.testing.assert_close(found.states[0], model.first(tokens).relu())


def test_what_is_before_and_after_the_layers_is_left_out():
    with seeded(1), torch.no_grad():
        model = WithEnds(3).eval()
        tokens = torch.tensor([1, 5, 2])
        found = written_layers(model, 3, tokens)
        assert (found.begins, found.ends) == (False, False)
        torch.testing.assert_close(found.states[0], model.first(tokens).relu())
        torch.testing.assert_close(model.head(found.states[-1]), model(tokens)["logits"])


class ConstantsOfItsOwn(Model):
    """A number that is drawn, which another model of the kind does not have."""

    def __init__(self, depth):
        super().__init__(depth)
        self.factor = float(torch.rand(()))

    def layer(self, h, k):
        return h + self.factor * torch.tanh(self.maps[k](h))


@pytest.mark.parametrize("kind", [ActivationFirst, ConstantsOfItsOwn])
def test_what_is_known_of_one_model_serves_those_of_the_same_forward_alone(kind):
    with seeded(1), torch.no_grad():
        one, other = kind(3).eval(), kind(3).eval()
        x = torch.randn(2, WIDTH)
        known = written_layers(one, 3, x).plan
        found = written_layers(other, 3, x, plan=known)
        assert (found.plan is known) == (kind is ActivationFirst)
        h = x
        for block in found.blocks:
            h = block(h)
        torch.testing.assert_close(h, other(x))


@pytest.mark.parametrize("kind", [Stacked, WeightScaledFirst])
def test_what_is_known_of_a_forward_serves_another_process(kind):
    with seeded(1), torch.no_grad():
        one, other = kind(3).eval(), kind(3).eval()
        x = torch.randn(2, WIDTH)
        known = pickle.loads(pickle.dumps(written_layers(one, 3, x).plan))  # noqa: S301
        assert written_layers(other, 3, x, plan=known).plan is known


def test_a_store_knows_a_written_model_whatever_depths_were_tried():
    network = dl.module_network(WeightScaledFirst, WIDTH)
    before = describe(network, "network")
    dl.simulate(network, torch.ones(1, WIDTH), depths=[3, 5], paths=2)
    assert describe(network, "network") == before
    assert describe(dl.module_network(Stacked, WIDTH), "network") != before


@pytest.mark.parametrize("kind", [ActivationFirst, Stacked])
def test_a_written_model_gives_the_numbers_of_its_blocks(kind):
    class Block(kind):
        def __init__(self, model, k):
            nn.Module.__init__(self)
            self.depth, self.maps, self.stacked, self.k = model.depth, model.maps, model.stacked, k

        def forward(self, h):
            return self.layer(h, self.k)

    def blocks(depth):
        model = kind(depth)
        return [Block(model, k) for k in range(depth)]

    x, how = torch.ones(1, WIDTH), {"depths": [2, 4, 8], "draws": 20}
    found, same = dl.stability(kind, x=x, **how), dl.stability(blocks, x=x, **how)
    torch.testing.assert_close(found.log_hidden_ratio, same.log_hidden_ratio, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.log_gradient_ratio, same.log_gradient_ratio, rtol=1e-5, atol=1e-6)


def test_a_model_that_is_kept_is_left_as_it_was():
    with seeded(1):
        kept = {depth: ActivationFirst(depth) for depth in (2, 4, 8)}
    before = {depth: {k: v.clone() for k, v in model.state_dict().items()} for depth, model in kept.items()}
    dl.stability(kept.__getitem__, x=torch.ones(1, WIDTH), depths=[2, 4, 8], draws=20, dtype="float64")
    for depth, model in kept.items():
        assert all(torch.equal(before[depth][k], v) for k, v in model.state_dict().items())
        assert all(each.requires_grad for each in model.parameters())
        assert all(module.training for module in model.modules())


class WithTrunk(nn.Module):
    """An embedding, the blocks of another model, and a head."""

    def __init__(self, depth):
        super().__init__()
        self.embedding, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 2)
        self.trunk = nn.ModuleList(nn.Sequential(ActivationFirst(1), nn.Identity()) for _ in range(depth))

    def forward(self, x):
        h = self.embedding(x)
        for block in self.trunk:
            h = block(h)
        return self.head(h)


class OfColumns(Model):
    """A matrix before a state, as for one vector: rows of states do not fit."""

    def layer(self, h, k):
        return h + self.stacked[k] @ torch.tanh(h)


def test_an_error_holds_what_a_model_raised_for_a_state():
    with pytest.raises(TypeError, match=rf"\(1, {WIDTH}\), it raised RuntimeError: mat1 and mat2"):
        dl.stability(OfColumns, x=torch.ones(1, WIDTH), depths=[2, 4, 8], draws=20)


def test_an_error_names_the_blocks_between_an_embedding_and_a_head():
    x, how = torch.ones(1, WIDTH), {"depths": [2, 4, 8], "draws": 20}
    with pytest.raises(TypeError, match=r"lambda depth: factory\(depth\)\.trunk"):
        dl.stability(WithTrunk, x=x, **how)
    with pytest.raises(TypeError) as raised:  # which of two lists are the layers, nobody knows
        dl.stability(lambda depth: nn.ModuleDict({"a": WithTrunk(depth), "b": WithTrunk(depth)}), x=x, **how)
    assert "lambda depth" not in str(raised.value)
    assert dl.stability(lambda depth: WithTrunk(depth).trunk, x=x, **how).draws == 20
