"""Products of weights that a scrambled twin of the network shares, by the names that networks use."""

import math

import pytest
import torch

from deeplimit.trained.diagnosis.invariants import invariants
from deeplimit.trained.diagnosis.layer_families import families
from deeplimit.trained.diagnosis.sources import source_of

DEPTH, WIDTH, HIDDEN, HEADS = 6, 8, 20, 2


def objects(weights, **how):
    """Return the objects of named tensors, and what is left out."""
    source = source_of(weights)
    left_out = {}
    made = invariants(source, families(source, **how), left_out)
    return {stack.name: stack.values.double() for stack in made}, left_out


def normal(stream, *shape):
    return torch.randn(shape, generator=stream, dtype=torch.float64)


class Parts:
    """Weights of a transformer with parts of plain names, (out, in), that are smooth functions of depth."""

    def __init__(self, seed=0, gated=False, biased=True):
        stream = torch.Generator().manual_seed(seed)
        shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH)}
        shapes |= {"up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN), "n1": (WIDTH,), "n2": (WIDTH,)}
        shapes |= {"gate": (HIDDEN, WIDTH)} if gated else {}
        times = torch.linspace(0, 1, DEPTH, dtype=torch.float64)
        self.layers = [{} for _ in range(DEPTH)]
        for name, shape in shapes.items():
            first, second = normal(stream, *shape), normal(stream, *shape)
            for time, layer in zip(times, self.layers, strict=True):
                layer[name] = first * math.cos(time) + second * math.sin(time)
        if biased:
            for layer in self.layers:
                layer["b1"], layer["b2"] = normal(stream, WIDTH), normal(stream, WIDTH)

    def scrambled(self, seed=1, rescaled=True):
        """Return other weights of the same function, as far as activations are positively homogeneous."""
        stream = torch.Generator().manual_seed(seed)
        twin = object.__new__(Parts)
        twin.layers = [dict(layer) for layer in self.layers]
        size = WIDTH // HEADS
        for layer in twin.layers:
            order = torch.randperm(HIDDEN, generator=stream)
            scale = torch.exp(normal(stream, HIDDEN)) if rescaled else torch.ones(HIDDEN, dtype=torch.float64)
            if "gate" in layer:  # signs may move between the factor that no activation follows and the output
                scale = scale * normal(stream, HIDDEN).sign()
            layer["up"] = (layer["up"] * scale[:, None])[order]
            layer["down"] = (layer["down"] / scale)[:, order]
            if "gate" in layer:
                layer["gate"] = layer["gate"][order]
            heads = torch.randperm(HEADS, generator=stream)
            for first, second in (("q", "k"), ("v", "o")):
                turn = normal(stream, HEADS, size, size) + 3 * torch.eye(size, dtype=torch.float64)
                back = torch.linalg.inv(turn)
                rows = layer[first].reshape(HEADS, size, WIDTH)
                layer[first] = (turn @ rows)[heads].reshape(WIDTH, WIDTH)
                other = layer[second] if second == "k" else layer[second].T
                other = (back.transpose(1, 2) @ other.reshape(HEADS, size, WIDTH))[heads].reshape(
                    WIDTH, WIDTH
                )
                layer[second] = other if second == "k" else other.T
            moved = torch.exp(normal(stream, WIDTH))
            layer["n1"] = layer["n1"] * moved
            for name in ("q", "k", "v"):
                layer[name] = layer[name] / moved
        return twin

    def named(self, names, transposed=False):
        """Return the weights by full names; a name with + joins the rows of several parts."""
        weights = {}
        for k, layer in enumerate(self.layers):
            for parts, name in names.items():
                tensor = torch.cat([layer[part] for part in parts.split("+")])
                flip = transposed and tensor.dim() == 2
                weights[name.format(k)] = (tensor.T if flip else tensor).float().contiguous()
        return weights


LLAMA = {
    "n1": "model.layers.{}.input_layernorm.weight",
    "q": "model.layers.{}.self_attn.q_proj.weight",
    "k": "model.layers.{}.self_attn.k_proj.weight",
    "v": "model.layers.{}.self_attn.v_proj.weight",
    "o": "model.layers.{}.self_attn.o_proj.weight",
    "n2": "model.layers.{}.post_attention_layernorm.weight",
    "gate": "model.layers.{}.mlp.gate_proj.weight",
    "up": "model.layers.{}.mlp.up_proj.weight",
    "down": "model.layers.{}.mlp.down_proj.weight",
}
GPT2 = {
    "n1": "h.{}.ln_1.weight",
    "b1": "h.{}.ln_1.bias",
    "q+k+v": "h.{}.attn.c_attn.weight",
    "o": "h.{}.attn.c_proj.weight",
    "n2": "h.{}.ln_2.weight",
    "b2": "h.{}.ln_2.bias",
    "up": "h.{}.mlp.c_fc.weight",
    "down": "h.{}.mlp.c_proj.weight",
}
VIT = {
    "n1": "blocks.{}.norm1.weight",
    "b1": "blocks.{}.norm1.bias",
    "q+k+v": "blocks.{}.attn.qkv.weight",
    "o": "blocks.{}.attn.proj.weight",
    "n2": "blocks.{}.norm2.weight",
    "b2": "blocks.{}.norm2.bias",
    "up": "blocks.{}.mlp.fc1.weight",
    "down": "blocks.{}.mlp.fc2.weight",
}
TORCH = {
    "q+k+v": "layers.{}.self_attn.in_proj_weight",
    "o": "layers.{}.self_attn.out_proj.weight",
    "up": "layers.{}.linear1.weight",
    "down": "layers.{}.linear2.weight",
    "n1": "layers.{}.norm1.weight",
    "b1": "layers.{}.norm1.bias",
    "n2": "layers.{}.norm2.weight",
    "b2": "layers.{}.norm2.bias",
}
BERT = {
    "q": "encoder.layer.{}.attention.self.query.weight",
    "k": "encoder.layer.{}.attention.self.key.weight",
    "v": "encoder.layer.{}.attention.self.value.weight",
    "o": "encoder.layer.{}.attention.output.dense.weight",
    "up": "encoder.layer.{}.intermediate.dense.weight",
    "down": "encoder.layer.{}.output.dense.weight",
    "n1": "encoder.layer.{}.attention.output.LayerNorm.weight",
    "n2": "encoder.layer.{}.output.LayerNorm.weight",
}
NAMES = {"llama": LLAMA, "gpt2": GPT2, "vit": VIT, "torch": TORCH, "bert": BERT}


def less_identity(gram, centred):
    """Return a Gram less its part along what it is on average in independent layers."""
    whole = torch.eye(len(gram), dtype=gram.dtype) - centred / len(gram)
    return gram - (gram * whole).sum() / (whole * whole).sum() * whole


def folded(matrix, gain, centred):
    read = matrix * gain
    return read - read.mean(1, keepdim=True) if centred else read


@pytest.mark.parametrize("kind", ["gpt2", "vit", "torch"])
def test_objects_are_the_products_that_they_are_said_to_be(kind):
    parts = Parts()
    found, left_out = objects(parts.named(NAMES[kind]))
    assert left_out == {}
    assert len(found) == 5
    values = list(found.values())
    for k, layer in enumerate(parts.layers):
        q, key, v = (folded(layer[name], layer["n1"], True) for name in ("q", "k", "v"))
        up, down = folded(layer["up"], layer["n2"], True), layer["down"]
        ratio = down.norm(dim=0) / up.norm(dim=1)
        read, write = up.T @ (ratio[:, None] * up), (down / ratio) @ down.T
        expected = [
            q.T @ key,
            layer["o"] @ v,
            down @ up,
            less_identity(read, True),
            less_identity(write, False),
        ]
        for value, known in zip(values, expected, strict=True):
            torch.testing.assert_close(value[k], known, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [*NAMES])
def test_a_scrambled_twin_has_the_same_objects(kind):
    parts = Parts(gated=kind == "llama")
    twin = parts.scrambled()
    names = NAMES[kind]
    if kind == "bert":  # its gains stand after the branch, where none can be moved into what reads
        for mine, other in zip(parts.layers, twin.layers, strict=True):
            for name in ("q", "k", "v"):
                other[name] = other[name] * (other["n1"] / mine["n1"])
    mine, other = parts.named(names), twin.named(names)
    raw = [name for name, value in mine.items() if value.dim() > 1]
    assert all(float((mine[name] - other[name]).norm() / mine[name].norm()) > 0.5 for name in raw)
    found, known = objects(other)[0], objects(mine)[0]
    assert found.keys() == known.keys()
    assert len(found) == (6 if kind == "llama" else 5)
    for name, values in known.items():
        assert float((found[name] - values).norm() / values.norm()) < 1e-5, name


def test_weights_stored_as_gpt2_stores_them_give_the_same_objects():
    parts = Parts()
    for layer in parts.layers:
        layer["hidden"] = torch.zeros(HIDDEN, dtype=torch.float64)
    names = GPT2 | {"hidden": "h.{}.mlp.c_fc.bias"}
    plain, stored = objects(parts.named(names))[0], objects(parts.named(names, transposed=True))[0]
    assert plain.keys() == stored.keys()
    for name, values in plain.items():
        torch.testing.assert_close(stored[name], values, rtol=1e-5, atol=1e-5)


def test_layer_scale_belongs_to_what_writes():
    parts = Parts()
    plain = objects(parts.named(VIT))[0]
    for k, layer in enumerate(parts.layers):
        layer["s1"], layer["s2"] = (torch.full((WIDTH,), 2.0 + k + i, dtype=torch.float64) for i in (0, 0.5))
    scaled = objects(parts.named(VIT | {"s1": "blocks.{}.ls1.gamma", "s2": "blocks.{}.ls2.gamma"}))[0]
    factors = {"values and output": 0.0, "product": 0.5, "read Gram": 0.5}
    for name, values in plain.items():
        shift = factors.get(name.partition(": ")[2])
        if shift is not None:
            factor = 2.0 + shift + torch.arange(DEPTH, dtype=torch.float64)
            torch.testing.assert_close(scaled[name], values * factor[:, None, None], rtol=1e-5, atol=1e-5)


def test_gains_of_no_known_place_leave_no_object():
    names = VIT | {"n2": "blocks.{}.odd.weight"}
    names.pop("b2")
    found, left_out = objects(Parts().named(names))
    assert found == {}
    assert [*left_out] == ["blocks.*.attn", "blocks.*.mlp"]
    assert all("odd.weight" in reason for reason in left_out.values())


def test_shared_keys_and_convolutions_are_left_out_with_the_reason():
    weights = Parts(gated=True).named(LLAMA)
    for name in list(weights):
        if "k_proj" in name or "v_proj" in name:
            weights[name] = weights[name][: WIDTH // 2].contiguous()
    found, left_out = objects(weights)
    assert len(found) == 4
    assert "as many keys as queries" in left_out["model.layers.*.self_attn"]
    stream = torch.Generator().manual_seed(0)
    convolutions = {
        f"layer1.{k}.conv{i}.weight": torch.randn(4, 4, 3, 3, generator=stream)
        for k in range(5)
        for i in (1, 2)
    }
    found, left_out = objects(convolutions)
    assert found == {}
    assert [*left_out] == ["layer1.*.conv1.weight", "layer1.*.conv2.weight"]


def test_weights_that_map_stream_to_stream_are_taken_as_they_are():
    stream = torch.Generator().manual_seed(0)
    single = {f"layers.{k}.weight": torch.randn(4, 4, generator=stream) for k in range(5)}
    found, left_out = objects(single)
    assert [*found] == ["layers.*.weight"]
    given = {"A": torch.randn(5, 4, 4, generator=stream), "b": torch.randn(5, 4, generator=stream)}
    found, left_out = objects(given)
    assert [*found] == ["A", "b"]
    torch.testing.assert_close(found["A"], given["A"].double())
    assert left_out == {}


def test_copied_layers_are_left_out():
    weights = Parts().named(VIT)
    for name in [name for name in weights if name.startswith("blocks.2.")]:
        weights[name.replace("blocks.2.", "blocks.5.")] = weights[name].clone()
    found, left_out = objects(weights)
    assert found == {}
    assert all("layers 2 and 5" in reason for reason in left_out.values())
