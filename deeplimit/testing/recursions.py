"""The contract of a recursion, checked on one instance: what it adds to the state, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.driving import Layer
from deeplimit.layers import Formula, Recursion, Weight
from deeplimit.layers.activations import Activation
from deeplimit.testing.contract import hold, near, normal, record, same, watched, words

PATHS, DEPTH, DEEP = 5, 7, 1000


@by_default
def check_recursion(recursion: Recursion, *, width: int = 3) -> None:
    """Check an instance of your `deeplimit.Recursion` against the contract of all recursions.

    Checked: a frozen record with a hash; weights whose shapes resolve, and formulas that can be written
    out; a residual that keeps shapes and dtypes, changes neither state nor weights, gives the same again
    and treats paths independently of each other; that what weights add falls like depth**-exponent; `vjp`
    against finite differences; a separate `vector_field` against the residual of a deep network; and what the
    class says of itself: `is_euler`, `takes_bias`, `needs_one_product`, `is_plain`. NOT checked: that the
    formulas are those of the residual.

    Args:
        recursion: The recursion.
        width: d, for recursions that are made for some widths only.

    Raises:
        TypeError: For an argument that is no recursion.
        AssertionError: Naming what the recursion breaks.

    Examples:
        >>> import deeplimit as dl
        >>> dl.testing.check_recursion(dl.Res2("tanh"))
    """
    if not isinstance(recursion, Recursion):
        raise TypeError(f"recursion must be a deeplimit.Recursion, got {validation.named(recursion)}.")
    d = validation.integer(width, "width", minimum=1)
    checks = (
        _resolves, _keeps, _is_pure, _paths, _falls, _field, _gradient, _bias, _euler, _one_product, _plain,
    )  # fmt: skip
    hold(recursion, (partial(record, recursion), partial(_says, recursion)))
    hold(recursion, tuple(partial(check, recursion, d) for check in checks))


def _state(recursion: Recursion, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return normal(PATHS, *recursion.state_shape(width), dtype=dtype, seed=1)


def _layers(
    recursion: Recursion,
    width: int,
    depth: int = DEPTH,
    dtype: torch.dtype = torch.float64,
    seed: int = 2,
    paths: int = PATHS,
) -> tuple[Layer, ...]:
    layers = []
    for index, shape in enumerate(recursion.weight_shapes(width)):
        values = normal(paths, *shape, dtype=dtype, seed=seed + 10 * index)
        bias = None
        if recursion.takes_bias and shape:
            bias = normal(paths, shape[0], dtype=dtype, seed=seed + 10 * index + 5)
        layers.append(Layer(values, depth, 0.0, 0.5, bias))
    return tuple(layers)


def _says(recursion: Recursion) -> Iterator[str]:
    """Name, formula and activation."""
    yield from words(getattr(recursion, "name", None), "name")
    formula = getattr(recursion, "formula", None)
    if not isinstance(formula, Formula):
        yield f"formula must be a Formula, got {formula!r}"
        return
    yield from words(formula.text({"exponent": "α", "W": "A"}), "formula.network")
    if not isinstance(recursion.activation, Activation):
        yield f"activation must be resolved (call super().__post_init__()), got {recursion.activation!r}"


def _resolves(recursion: Recursion, width: int) -> Iterator[str]:
    """Weights and their shapes."""
    weights = getattr(recursion, "weights", None)
    if not isinstance(weights, tuple) or not weights or not all(isinstance(w, Weight) for w in weights):
        yield f"weights must be a tuple of at least one Weight, got {weights!r}"
        return
    if len({weight.name for weight in weights}) < len(weights):
        yield "weights must have different names"
    sizes = recursion.sizes(width)
    for weight in weights:
        for letter in weight.shape.split():
            if letter not in sizes:
                name = f"weight {weight.name} has the shape {weight.shape!r}"
                yield f"{name}, but sizes() gives {letter!r} no number"
                return


def _keeps(recursion: Recursion, width: int) -> Iterator[str]:
    """Shape and dtype of the residual."""
    for dtype in (torch.float32, torch.float64):
        h = _state(recursion, width, dtype)
        added = recursion.residual(h, _layers(recursion, width, dtype=dtype), 0.5)
        if not isinstance(added, Tensor) or added.shape != h.shape:
            got = tuple(added.shape) if isinstance(added, Tensor) else type(added).__name__
            yield f"residual must return a tensor of the state's shape {tuple(h.shape)}, got {got}"
        elif added.dtype != dtype:
            yield f"residual must keep the state's dtype {dtype}, got {added.dtype}"
        elif not bool(torch.isfinite(added).all()):
            yield "residual must be finite on normal states and weights"


def _is_pure(recursion: Recursion, width: int) -> Iterator[str]:
    """Nothing changed, and the same result again."""
    h, layers = _state(recursion, width), _layers(recursion, width)
    with watched() as touched:
        first = recursion.residual(h, layers, 0.5).clone()
        second = recursion.residual(h, layers, 0.5)
    yield from touched
    if not same(h, _state(recursion, width)):
        yield "residual changes the state h in place"
    for weight, layer, fresh in zip(recursion.weights, layers, _layers(recursion, width), strict=True):
        if not same(layer.values, fresh.values) or not same(layer.bias, fresh.bias):
            yield f"residual changes the weights {weight.name} in place"
    if not same(first, second):
        yield "residual gives another result when it is called again"


def _picked(layers: tuple[Layer, ...], rows: Tensor) -> tuple[Layer, ...]:
    return tuple(
        Layer(
            None if layer.values is None else layer.values[rows],
            layer.depth,
            layer.layer_exponent,
            layer.entry_scale,
            None if layer.bias is None else layer.bias[rows],
        )
        for layer in layers
    )


def _paths(recursion: Recursion, width: int) -> Iterator[str]:
    """Paths that know nothing of each other."""
    h, layers = _state(recursion, width), _layers(recursion, width)
    whole = recursion.residual(h, layers, 0.5)
    for rows in (torch.tensor([3, 1, 4, 0, 2]), torch.tensor([2])):
        if not near(recursion.residual(h[rows], _picked(layers, rows), 0.5), whole[rows], 1e-12):
            yield "paths must be independent of each other: in another order, or alone, one moves otherwise"
            return
    row = torch.tensor([2])
    shared = recursion.residual(h, _picked(layers, row), 0.5)
    if not near(shared, recursion.residual(h, _picked(layers, row.expand(PATHS)), 0.5), 1e-12):
        yield "weights given once for all paths, (1, *shape), must act as the same weights in every path"


def _falls(recursion: Recursion, width: int) -> Iterator[str]:
    """The factor depth**-exponent of what weights add."""
    h, layers = _state(recursion, width), _layers(recursion, width, DEEP)
    none = tuple(
        Layer(None if layer.values is None else torch.zeros_like(layer.values), DEEP, 0.0, 0.5)
        for layer in layers
    )
    one, two = (
        (recursion.residual(h, layers, beta) - recursion.residual(h, none, beta)) * float(DEEP) ** beta
        for beta in (1.0, 2.0)
    )
    if not near(one, two, 1e-2):
        yield (
            "what the weights add must fall like depth**-exponent; Layer.apply(state, exponent) includes the"
            " factor"
        )


def _field(recursion: Recursion, width: int) -> Iterator[str]:
    """vector_field, where the class has another than the residual."""
    if type(recursion).vector_field is Recursion.vector_field:
        return
    h = _state(recursion, width)
    deep, thin = recursion.residual(h, _layers(recursion, width, DEEP), 1.0), _layers(recursion, width, 1)
    if not near(DEEP * deep, recursion.vector_field(h, thin), 1e-2):
        yield "vector_field must be what depth times the residual at exponent 1 tends to"


def _gradient(recursion: Recursion, width: int) -> Iterator[str]:
    """vjp against finite differences."""
    h, layers = _state(recursion, width), _layers(recursion, width)
    given = normal(*h.shape, seed=3)
    before = recursion.vjp(h, layers, 0.5, given)
    if before.shape != h.shape or before.dtype != h.dtype:
        yield f"vjp must return the state's shape {tuple(h.shape)} and dtype, got {tuple(before.shape)}"
        return
    if not near(before, Recursion.vjp(recursion, h, layers, 0.5, given), 1e-8):
        yield "vjp differs from automatic differentiation of the residual"
    step = 1e-6
    for seed in (4, 5, 6):
        along = normal(*h.shape, seed=seed)
        ends = [recursion.advance(h + sign * step * along, layers, 0.5) for sign in (1.0, -1.0)]
        seen = float(((ends[0] - ends[1]) * given).sum()) / (2.0 * step)
        said = float((before * along).sum())
        if abs(seen - said) > 1e-5 * (abs(seen) + float(before.abs().sum())):
            yield f"vjp gives the directional derivative {said:.6g}, finite differences give {seen:.6g}"


def _bias(recursion: Recursion, width: int) -> Iterator[str]:
    """takes_bias."""
    h, layers = _state(recursion, width), _layers(recursion, width)
    shapes = recursion.weight_shapes(width)

    def biased(size: float | None) -> tuple[Layer, ...]:
        return tuple(
            Layer(
                layer.values,
                DEPTH,
                0.0,
                0.5,
                None if size is None or not shape else size * normal(PATHS, shape[0], seed=8),
            )
            for layer, shape in zip(layers, shapes, strict=True)
        )

    without, with_one = (recursion.residual(h, biased(size), 0.5) for size in (None, 1.0))
    if recursion.takes_bias and same(without, with_one):
        yield "takes_bias is True, but the residual does not read Layer.bias"
    if not recursion.takes_bias and not same(without, with_one):
        yield "takes_bias is False, but the residual reads Layer.bias"


def _euler(recursion: Recursion, width: int) -> Iterator[str]:
    """is_euler."""
    if not recursion.is_euler:
        return
    h = _state(recursion, width)
    one, two = (_layers(recursion, width, seed=seed) for seed in (2, 102))

    def unbiased(first: Layer, second: Layer, a: float, b: float) -> Layer:
        assert first.values is not None
        assert second.values is not None
        return Layer(a * first.values + b * second.values, DEPTH, 0.0, 0.5)

    mixed, *apart = (
        recursion.residual(h, tuple(unbiased(x, y, *by) for x, y in zip(one, two, strict=True)), 0.5)
        for by in ((2.0, -3.0), (1.0, 0.0), (0.0, 1.0))
    )
    if not near(mixed, 2.0 * apart[0] - 3.0 * apart[1], 1e-10):
        yield "is_euler is True, but the residual is not linear in the weights"


def _one_product(recursion: Recursion, width: int) -> Iterator[str]:
    """needs_one_product."""
    if not recursion.needs_one_product:
        return
    if len(recursion.weights) != 1:
        yield f"needs_one_product is for one weight; there are {len(recursion.weights)}"
        return
    h, layers = _state(recursion, width), _layers(recursion, width)
    operand = recursion.operand(h)
    if operand is None:
        yield "needs_one_product is True, but operand(h) is None"
        return
    finished = recursion.finish(layers[0].product(operand), layers[0], 0.5)
    if not near(finished, recursion.residual(h, layers, 0.5), 1e-12):
        yield "finish(layer.product(operand(h)), layer, exponent) must be the residual"
    if h.ndim == 2:
        order = torch.arange(width - 1, -1, -1)
        turned = recursion.operand(h[:, order])
        if turned is None or not near(turned, operand[:, order], 1e-12):
            yield "operand must act entry by entry"
    unread = Layer(None, DEPTH, 0.0, 0.5, layers[0].bias)
    if not same(recursion.finish(layers[0].product(operand), unread, 0.5), finished):
        yield "finish must not read the layer's matrix, only its product, scale and bias"


def _plain(recursion: Recursion, width: int) -> Iterator[str]:
    """is_plain."""
    if not recursion.is_plain:
        return
    h, layers = _state(recursion, width), _layers(recursion, width)
    outer, inner = recursion.sides(layers)
    z = h if inner is None else inner.apply(h)
    if inner is not None and inner.bias is not None:
        z = z + inner.bias
    moved = recursion.activation(z)
    moved = moved if outer is None else outer.apply(moved)
    if not near(recursion.residual(h, layers, 0.5), moved * float(DEPTH) ** -0.5, 1e-12):
        yield "is_plain is True, but the residual is not L^-exponent V σ(W h + b) by the sides of its weights"
