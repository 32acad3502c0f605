"""A residual that needs of its matrix one product alone is found by trial, and then drawn by products."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import deeplimit as dl
from deeplimit.driving import Layer
from deeplimit.layers.one_product import Form, residual_of

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass(frozen=True)
class Own(dl.Recursion):
    """A recursion of one matrix, whose residual each class below states."""

    name, formula, weights = "own", dl.Formula("own"), (dl.Weight("V"),)


class Linear(Own):
    is_euler = True

    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.depth**-exponent * v.apply(self.activation(h))


class Branch(Own):
    def residual(self, h, layers, exponent):
        (v,) = layers
        return self.activation(v.apply(h)) / v.depth**exponent


class Gated(Own):
    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.depth**-exponent * h * self.activation(v.apply(h))


class Clamped(Own):
    """As `Linear` on all states that are tried."""

    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.depth**-exponent * v.apply(self.activation(h.clamp(-1e6, 1e6)))


class Drifting(Own):
    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.apply(self.activation(h), exponent) - 0.1 * h / v.depth


class Other(Own):
    """Another bend than the activation that it holds."""

    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.depth**-exponent * v.apply(torch.sin(h))


class Twice(Own):
    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.depth**-exponent * v.apply(v.apply(h))


class Reading(Own):
    def residual(self, h, layers, exponent):
        (v,) = layers
        return v.depth**-exponent * (v.apply(h) + v.values.diagonal(dim1=1, dim2=2) * h)


class Unread(Own):
    def residual(self, h, layers, exponent):
        return 0.1 * h


@dataclass(frozen=True)
class Unhashable(Linear):
    table: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (Linear, Form.LINEAR),
        (Unhashable, Form.LINEAR),
        (Branch, Form.BRANCH),
        (Gated, None),
        (Clamped, None),
        (Drifting, None),
        (Other, None),
    ],
)
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_one_product_is_found_with_its_form(kind, form, activation):
    found = kind(activation).one_product_at(5)
    assert found is not None
    assert found.form == form


@pytest.mark.parametrize("kind", [Twice, Reading, Unread])
def test_whatever_else_is_asked_of_a_matrix_needs_the_matrix(kind):
    assert kind("tanh").one_product_at(5) is None
    network = dl.ResidualNetwork(kind("tanh"), 40, dl.Brownian())
    with pytest.raises(ValueError, match="one product"):
        dl.compare(network, dl.Identity(), depths=[2, 4, 8], paths=16, coupling="projected")


def test_recursions_of_two_weights_and_other_shapes_take_none():
    assert dl.res2(5).recursion.one_product_at(5) is None
    assert dl.convolutional(3).recursion.one_product_at(3) is None
    assert dl.res1(5).recursion.one_product_at(5).form == Form.LINEAR


def test_a_second_product_at_states_that_were_not_tried_is_an_error():
    def residual(h, layers, exponent):
        (v,) = layers
        added = v.apply(h)
        return added + v.apply(added) if float(h.detach().abs().max()) > 1e3 else added

    layer, h = Layer(None, 4, 0.0, 1.0), torch.ones(2, 3)
    assert torch.equal(residual_of(residual, h, 2 * h, layer, 0.5), 2 * h)
    with pytest.raises(ValueError, match="2 products"):
        residual_of(residual, 1e4 * h, h, layer, 0.5)


@pytest.mark.parametrize(("kind", "compiled"), [(Linear, True), (Clamped, False)])
def test_products_have_the_law_of_the_matrices(kind, compiled):
    """One network in two spellings: the first runs in compiled loops, the second asks its residual."""
    network = dl.ResidualNetwork(kind("tanh"), 40, dl.Brownian())
    limit = dl.res1(40, "tanh").limit()
    depths = (16, 32, 64)
    by_products, by_matrices = (
        dl.compare(network, limit, depths=depths, paths=128, coupling=coupling, seed=3)
        for coupling in ("auto", "pathwise")
    )
    assert by_products.coupling.startswith("projected")
    assert (network.recursion.one_product_at(40).form is Form.LINEAR) == compiled
    assert by_products.verdict == by_matrices.verdict == "converges"
    errors = by_products.standard_errors**2 + by_matrices.standard_errors**2
    # 5 standard errors of three depths: 2e-6.
    assert (abs(by_products.errors - by_matrices.errors) < 5 * errors**0.5).all()
    twin = dl.compare(network, dl.Independent(limit), depths=depths, paths=128)
    assert twin.verdict == "does not converge"
