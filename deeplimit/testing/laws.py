"""The contract of a weight law, checked on one instance: its paths, and its facts against draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.driving import (
    Channel,
    ChannelKind,
    Dependence,
    Facts,
    Shape,
    WeightLaw,
    check_depths,
    draw_layers,
    functions_of,
    layers_in_law,
    motions_of,
)
from deeplimit.driving.law import FINITE_VARIANCE
from deeplimit.testing.contract import SEED, hold, near, record, same, stream, watched, words
from deeplimit.testing.draws import (
    continuity,
    draws,
    heavy_tailed_sizes,
    looks_gaussian,
    natural,
    refutes_unit_variance,
)
from deeplimit.testing.walks import Walk, walk, walked_twice

SUMMED = 512
"""Depth at which layers are summed: their ends then weigh less than the 5 % that a response may be off."""


@by_default
@torch.no_grad()  # as in `compare`, where paths lend their buffers: what a law keeps of one must be a copy
def check_law(law: WeightLaw, *, width: int = 3, depths: Sequence[int] = (4, 8, 16)) -> None:
    """Check an instance of your `deeplimit.WeightLaw` against the contract of all weight laws.

    Checked, at the shapes (), (d,) and (d, d) that `law.check` accepts: a frozen record with a hash;
    layers of the right shape, dtype, scale and number; the same path from the same seed and after
    `rewind`; nothing global touched; coarse layers that belong to fine ones as the stated dependence says;
    the channels: how many motions and functions a path has, that Brownian motions are normal, that
    increments have unit variance and do not remember those before, and what layers add up to; and the stated
    facts against 4,096 draws, at the level 1e-6 each: mean, variance, symmetry, Gaussianity, independence of
    layers and of entries, Hurst and Hölder index, natural exponent; without a variance, the layer exponent
    by medians. `moments` below 4 make the test of the variance milder. NOT checked: `sub_gaussian`,
    `atoms`, `moments` above 2, and what is not stated.

    Args:
        law: The weight law.
        width: d, for laws that are made for one width.
        depths: Numbers of layers that divide each other; recorded ones for weights that are recorded.

    Raises:
        TypeError: For an argument that is no weight law.
        AssertionError: Naming what the law breaks.

    Examples:
        >>> import deeplimit as dl
        >>> dl.testing.check_law(dl.AR1(0.5))
    """
    if not isinstance(law, WeightLaw):
        raise TypeError(f"law must be a deeplimit.WeightLaw, got {validation.named(law)}.")
    levels, d = validation.depths(depths), validation.integer(width, "width", minimum=1)
    hold(law, (partial(record, law), partial(_says, law, d)))
    shapes = [shape for shape in ((), (d,), (d, d)) if _accepts(law, shape)]
    if not shapes:
        raise AssertionError(
            f"{type(law).__name__}: check() refuses the shapes (), ({d},) and ({d}, {d}); pass width= if the"
            " law is made for another."
        )
    for shape in shapes:
        hold(
            law,
            (
                partial(_stated, law, shape),
                partial(_has, law, shape, levels),
                partial(_states, law, shape, levels),
                partial(_layers, law, shape, levels),
                partial(_same_again, law, shape, levels, d),
                partial(_all_at_once, law, shape, levels),
                partial(_coarse, law, shape, levels, d),
            ),
        )
    largest = shapes[-1]
    hold(
        law,
        (
            partial(draws, law, largest, levels[:2], d),
            partial(_motions, law, largest, levels),
            partial(_adds_up, law, largest, d),
            partial(continuity, law, largest, d),
            partial(heavy_tailed_sizes, law, largest, d),
            partial(natural, law, largest, d),
        ),
    )


def _accepts(law: WeightLaw, shape: Shape) -> bool:
    try:
        law.check(shape)
    except (TypeError, ValueError):
        return False
    return True


def _says(law: WeightLaw, width: int) -> Iterator[str]:
    """Facts and words."""
    yield from words(law.describe(), "describe()")
    for name, facts in (("facts", law.facts), (f"facts.at({width})", law.facts.at(width))):
        if not isinstance(facts, Facts):
            yield f"{name} must be a Facts, got {facts!r}"
        elif facts != law.facts.at(width) and name != "facts":
            yield f"{name} differs from one call to the next"
        elif not isinstance(facts.dependence, Dependence):
            yield f"{name}: dependence must be a Dependence, got {facts.dependence!r}"


def _has(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> Iterator[str]:
    """The depths that were asked for."""
    try:
        check_depths(law, shape, depths)
    except ValueError as error:
        yield f"it has no layers at the depths {[*depths]} ({error}); pass depths= that it has"


def _layers(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> Iterator[str]:
    """Shapes, dtypes, scales and numbers of layers."""
    for dtype in (torch.float32, torch.float64):
        with watched() as touched:
            found = walk(law, shape, depths, 5, dtype=dtype)
        yield from touched
        for depth, layers in zip(depths, found.layers, strict=True):
            for layer in layers:
                name = f"a layer of depth {depth} in shape {shape}"
                if layer.depth != depth:
                    yield f"{name} says that it is of depth {layer.depth}"
                scale = math.pow(depth, law.layer_exponent) * law.entry_scale(shape)
                if not math.isclose(layer.scale(), scale, rel_tol=1e-12):
                    yield (
                        f"{name} has the scale {layer.scale():.6g} instead of depth**layer_exponent *"
                        f" entry_scale(shape) = {scale:.6g}"
                    )
                for part, value, wanted in (
                    ("values", layer.values, shape),
                    ("bias", layer.bias, shape[:1]),
                ):
                    yield from _is_part(f"{part} of {name}", value, wanted, dtype)
                if layer.bias is not None and not law.facts.biased:
                    yield f"{name} has a bias, but facts do not state biased"


def _is_part(name: str, value: Tensor | None, shape: Shape, dtype: torch.dtype) -> Iterator[str]:
    if value is None:
        return
    if tuple(value.shape) not in ((5, *shape), (1, *shape)):
        yield f"{name} must have shape {(5, *shape)} for 5 paths, or {(1, *shape)}; got {tuple(value.shape)}"
    if value.dtype != dtype:
        yield f"{name} must have the dtype {dtype} that was asked for, got {value.dtype}"
    if value.device.type != "cpu":
        yield f"{name} must be on the generator's device, cpu, got {value.device}"
    if not bool(torch.isfinite(value).all()):
        yield f"{name} must be finite"


def _same_again(law: WeightLaw, shape: Shape, depths: tuple[int, ...], width: int) -> Iterator[str]:
    """Rewinding, and seeds."""
    first, rewound = walked_twice(law, shape, depths, 5)
    again, other = walk(law, shape, depths, 5), walk(law, shape, depths, 5, seed=SEED + 1)
    deterministic = law.facts.at(width).deterministic
    for j in range(len(depths)):
        for of in (Walk.values, Walk.biases):
            here = of(first, j)
            if not same(here, of(rewound, j)):
                yield f"rewind() does not bring the same layers again (shape {shape})"
            if not same(here, of(again, j)):
                yield f"two paths from the same seed differ (shape {shape})"
            if deterministic and not same(here, of(other, j)):
                yield f"facts state deterministic, but another seed gives other layers (shape {shape})"
            if deterministic and here is not None and not bool((here == here[:, :1]).all()):
                yield f"facts state deterministic, but the paths of one block differ (shape {shape})"
    if not _same_motion(first, rewound):
        yield f"rewind() does not bring the same Brownian increments again (shape {shape})"


def _same_motion(a: Walk, b: Walk) -> bool:
    return len(a.brownian) == len(b.brownian) and all(map(same, a.brownian, b.brownian))


def _all_at_once(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> Iterator[str]:
    """draw_layers and layers_in_law."""
    depth = depths[0]
    with watched() as touched:
        drawn = draw_layers(law, depth, shape, 5, stream(), torch.float64)
        singly = list(layers_in_law(law, depth, shape, 5, stream(), torch.float64))
    yield from touched
    wanted = tuple((depth, paths, *shape) for paths in (5, 1))
    if drawn.matrices is not None and tuple(drawn.matrices.shape) not in wanted:
        yield f"draw_layers must give {wanted[0]}, got {tuple(drawn.matrices.shape)}"
    if len(singly) != depth:
        yield f"layers_in_law must yield {depth} layers at depth {depth}, got {len(singly)}"
    if law.facts.deterministic:
        values = walk(law, shape, (depth,), 5).values(0)
        if values is not None and drawn.matrices is not None:
            # What draw_layers multiplies by its own scale is what a path multiplies by its layer's.
            scale = math.pow(depth, law.layer_exponent) * law.entry_scale(shape)
            if not near(drawn.matrices[:, :1] * drawn.scale, values[:, :1] * scale, 1e-12):
                yield "draw_layers gives other layers than the path"


def _coarse(law: WeightLaw, shape: Shape, depths: tuple[int, ...], width: int) -> Iterator[str]:
    """Coarse layers against fine ones."""
    facts, noisy = law.facts.at(width), motions_of(law.channels(shape)) > 0
    found = walk(law, shape, depths, 5)
    for j, coarse in enumerate(depths):
        for i, fine in enumerate(depths):
            ours, theirs = found.values(j), found.values(i)
            if fine <= coarse or fine % coarse or ours is None or theirs is None:
                continue
            many = fine // coarse
            where = f"layers of depth {coarse} against those of depth {fine} (shape {shape})"
            if facts.dependence in (Dependence.INDEPENDENT, Dependence.FRACTIONAL):
                sums = theirs.reshape(coarse, many, *theirs.shape[1:]).sum(dim=1)
                if not near(ours, sums, 1e-10):
                    yield f"coarse layers must be the sums of the fine increments inside them: {where}"
            if facts.dependence == Dependence.SMOOTH and not near(ours, theirs[many - 1 :: many], 1e-10):
                yield f"a function of time must have one value at one time, whatever the depth: {where}"
            if facts.dependence == Dependence.SHRINKING and not noisy and facts.weight_exponent:
                grown = ours * float(many) ** -facts.weight_exponent
                if not near(grown, theirs[::many], 1e-10):
                    yield f"layers must shrink like L^-{facts.weight_exponent:g}: {where}"


def _stated(law: WeightLaw, shape: Shape) -> Iterator[str]:
    """Channels."""
    channels = law.channels(shape)
    if not isinstance(channels, tuple) or not all(isinstance(each, Channel) for each in channels):
        yield f"channels({shape}) must be a tuple of Channel, got {channels!r}"
    elif channels != law.channels(shape):
        yield f"channels({shape}) differ from one call to the next"


def _states(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> Iterator[str]:
    """How many motions and functions of time a path has."""
    channels = law.channels(shape)
    if all(each.kind is ChannelKind.UNSTATED for each in channels):
        return
    found, motions = walk(law, shape, depths, 5), motions_of(channels)
    if motions and not found.brownian:
        yield f"channels({shape}) state {motions} Brownian channels, but path.brownian is None"
    elif not motions and found.brownian:
        yield f"channels({shape}) state no Brownian channels, but the path has Brownian increments"
    elif motions and tuple(found.brownian[0].shape) != (5, motions):
        size = tuple(found.brownian[0].shape)
        yield f"path.brownian must have shape (paths, motions) = {(5, motions)}, got {size}"
    stated, sampled = len(functions_of(channels)), found.functions
    if stated != sampled:
        yield f"channels({shape}) state {stated} functions of time, but path.functions has {sampled}"


def _motions(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> Iterator[str]:
    """The increments of each channel, as far as its kind and its moments say something of them."""
    depth = depths[-1]
    driving = [channel for channel in law.channels(shape) if channel.drives_brownian_motion]
    if not driving:
        return
    increments = walk(law, shape, depths, 2048).motion(depth) * math.sqrt(depth)  # (L, P, motions)
    parts = torch.split(increments, [each.motions for each in driving], 2)
    for channel, part in zip(driving, parts, strict=True):
        squares = part.square().mean(dim=(0, 2), dtype=torch.float64)
        spread, error = float(squares.mean()), float(squares.std()) / math.sqrt(len(squares))
        # Six standard errors; heavy tails that are not stated excuse themselves up to a quarter.
        off = abs(spread - 1.0) > min(max(0.05, 6.0 * error), 0.25)
        if FINITE_VARIANCE < channel.moments < 4.0:
            off = refutes_unit_variance(part.transpose(0, 1), channel.moments)
        if off:
            yield f"increments of {channel} over a time t must have variance t; seen {spread:.3g} t"
        if abs(float((part[1:] * part[:-1]).mean())) > 6.0 / math.sqrt(part[1:].numel()):
            yield f"increments of {channel} must be independent of those before"
        if channel.kind is ChannelKind.BROWNIAN and not looks_gaussian(part.transpose(0, 1)):
            yield f"increments of {channel} must be normal; state INCREMENTS for other laws"


def _adds_up(law: WeightLaw, shape: Shape, width: int) -> Iterator[str]:
    """What layers add up to, against the response and the memory of the only channel."""
    depth, (channel, *others) = SUMMED, law.channels(shape)
    if others or channel.shape != shape or not channel.drives_brownian_motion or channel.response is None:
        return
    facts, response, memory = law.facts.at(width), channel.response, channel.memory
    if memory is not None and facts.unit_variance and abs(response**2 - 1 - 2 * memory) > 1e-3 * response**2:
        yield (
            f"{channel} states response {response:.4g} and memory {memory:.4g}, but layers of variance 1 add"
            f" up to a motion of variance 1 + 2 memory = {1 + 2 * memory:.4g} (Green and Kubo)"
        )
    found = walk(law, shape, (depth,), 256)
    values, motion = found.values(0), found.motion(depth).sum(dim=0)
    if values is None:
        return
    sums = values.sum(dim=0).reshape(motion.shape) * float(depth) ** (law.layer_exponent - 0.5)
    seen = float((sums * motion).mean() / motion.square().mean())
    left = float((sums - seen * motion).square().mean())
    # Layers at both ends of the depth add up to less than the others, by a share of 1/depth or so.
    if abs(seen - response) > 0.05 * abs(response) + 6.0 * math.sqrt(left / motion.numel()):
        yield f"{channel} states response {response:.4g}, but layers add up to {seen:.4g} times the motion"
    elif left > 0.05 * (1.0 + response**2):
        yield f"{channel} states a response, but layers add up to more than a multiple of the motion"
