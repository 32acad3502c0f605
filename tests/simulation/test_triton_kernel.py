"""The kernel against float64 oracles, its noise against Philox written again, its law against whole
Gaussian matrices.

Without a CUDA device the kernel is interpreted: the same source, on the CPU, so sizes are small.
"""

import importlib.util
import os
import sys

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import settings, strategies as st

from deeplimit.driving.path import Grid
from deeplimit.simulation.kernels.triton_kernel import Launch, choose_launch, group_size, run_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
if DEVICE == "cpu" and os.environ.setdefault("TRITON_INTERPRET", "1") == "1" and "triton" in sys.modules:
    import triton

    if isinstance(triton.language.sum, triton.JITFunction):
        pytest.skip("Triton was imported before it could be told to interpret", allow_module_level=True)

pytestmark = pytest.mark.card
FUNCTIONS = {"identity": lambda x: x, "relu": lambda x: np.maximum(x, 0.0), "tanh": np.tanh}


@pytest.fixture(autouse=True)
def quiet():
    """The interpreter computes with numpy, which warns of overflow in random words and of NaN in states
    that are.
    """
    with np.errstate(all="ignore"):
        yield


def run(h0, grid, activation, **options):
    h0 = torch.as_tensor(h0, dtype=torch.float32, device=DEVICE)
    if "noise" in options:
        options["noise"] = tuple(
            torch.as_tensor(part, dtype=torch.float32, device=DEVICE) for part in options["noise"]
        )
    scales = options.pop("scales", [h0.shape[1] ** -0.5] * len(grid.depths))
    return run_kernel(h0, grid, activation, scales, **options)


def draw(seed, grid, paths, width):
    generator = np.random.default_rng(seed)
    h0 = generator.standard_normal((paths, width))
    return (
        h0,
        generator.standard_normal((grid.size, paths, width)),
        generator.standard_normal((sum(grid.depths), paths, width)),
    )


def joined(grid):
    chunks = list(grid.chunks())
    return (
        np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("steps", "ends", "common")
    )


def summary(table, common, final):
    """Reduce errors (steps, depths, paths), NaN where no layer ends, to the two arrays that the kernel
    returns.
    """
    if final:
        return table[-1], table[-1]
    return np.nanmax(table, axis=0), np.nanmax(table[common], axis=0)


def of_neighbours(states, final):
    """Reduce the depths' states at common times (times, depths, paths, d) to the kernel's differences."""
    moves = np.diff(states, axis=1)
    sizes = np.linalg.norm(moves, axis=-1)
    last = moves[-1]
    return np.concatenate(
        [sizes[-1] if final else sizes.max(axis=0), (last**2).sum(-1), (last[1:] * last[:-1]).sum(-1)]
    )


def oracle(h0, grid, activation, xi, z, scales=None, final=False):
    """The coupling by Gram-Schmidt on whole functionals of the noise, in float64, path by path.

    A layer of depth j asks for the sum over its steps of ΔB v. What the reference did not reveal of it is
    a functional in R^(steps × d); each end draws z along one more orthonormal direction there. Nothing is
    accumulated or downdated.
    """
    sigma = FUNCTIONS[activation]
    steps, ends, common = joined(grid)
    paths, width = h0.shape
    scales = [width**-0.5] * len(grid.depths) if scales is None else scales
    table = np.full((len(steps), len(grid.depths), paths), np.nan)
    every = np.empty((len(steps), len(grid.depths), paths, width))
    for p in range(paths):
        h, states, basis, event = h0[p], [h0[p]] * len(grid.depths), [], 0
        asked = np.zeros((len(grid.depths), len(steps), width))
        known = np.zeros((len(grid.depths), width))
        for k, dt in enumerate(steps):
            u = sigma(h)
            size = np.linalg.norm(u)
            unit = u / size if size > 0 else u
            h = h + width**-0.5 * np.sqrt(dt) * size * xi[k, p]
            for j, state in enumerate(states):
                v = sigma(state)
                known[j] += np.sqrt(dt) * (unit @ v) * xi[k, p]
                asked[j, k] = np.sqrt(dt) * (v - (unit @ v) * unit)
            for j in reversed(np.flatnonzero(ends[k])):
                functional, product = asked[j].copy(), known[j].copy()
                for direction, along in basis:
                    share = np.sum(direction * asked[j])
                    product += share * along
                    functional -= share * direction
                deviation = np.linalg.norm(functional)
                product += deviation * z[event, p]
                if deviation > 1e-6 * np.linalg.norm(sigma(states[j])) / np.sqrt(grid.depths[j]):
                    basis.append((functional / deviation, z[event, p]))
                event += 1
                states[j] = states[j] + scales[j] * product
                asked[j], known[j] = 0.0, 0.0
                table[k, j, p] = np.linalg.norm(states[j] - h)
            every[k, :, p] = states
    return *summary(table, common, final), of_neighbours(every[common], final)


def philox(counter, key):
    """Philox-4x32-10 as Salmon et al. (2011) write it: four arrays of words and two, to four words (..,
    4).
    """
    counter = [np.asarray(word, dtype=np.uint64) for word in counter]
    key = [int(word) for word in key]
    for _ in range(10):
        low, high = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        counter = [
            (high >> half) ^ counter[1] ^ np.uint64(key[0]),
            high & mask,
            (low >> half) ^ counter[3] ^ np.uint64(key[1]),
            low & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(np.broadcast_arrays(*counter), axis=-1)


def numbers(events, paths, width, stream, seed, first_path=0):
    """The normals (events, paths, width) that a seed stands for, by numpy."""
    group = group_size(width)
    event, path, each = np.meshgrid(
        np.arange(events), first_path + np.arange(paths), np.arange(group), indexing="ij"
    )
    words = philox((event, path, each, np.full_like(event, stream)), (seed & 0xFFFFFFFF, seed >> 32)).astype(
        np.float64
    )
    normals = []
    for pair in (words[..., :2], words[..., 2:]):
        radius = np.sqrt(-2.0 * np.log((pair[..., 0] + 1.0) / 2.0**32))
        bits = pair[..., 1].astype(np.uint64)
        angle = (bits >> np.uint64(2)) / 2.0**30 * np.pi / 2 - np.pi / 4
        cosine = np.where(bits & np.uint64(2), -np.cos(angle), np.cos(angle))
        swapped = (bits & np.uint64(1)).astype(bool)
        normals += [
            radius * np.where(swapped, np.sin(angle), cosine),
            radius * np.where(swapped, cosine, np.sin(angle)),
        ]
    return np.concatenate(normals, axis=-1)[..., :width]


def assert_close(result, expected, tolerance=2e-4):
    found = (result.errors, result.common, result.differences)
    for got, wanted in zip(found, expected, strict=False):
        np.testing.assert_allclose(got.cpu().numpy(), wanted, rtol=tolerance, atol=tolerance)


DEPTHS = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(
    lambda depths: tuple(sorted(depths))
)


@settings(max_examples=3)
@hypothesis.given(
    depths=DEPTHS,
    extra=st.sampled_from([(), (7,), (12,)]),
    halved=st.booleans(),
    width=st.sampled_from([1, 2, 3, 5, 6, 9]),
    paths=st.integers(1, 5),
    activation=st.sampled_from(sorted(FUNCTIONS)),
    final=st.booleans(),
    launch=st.sampled_from([None, Launch(1, 2, 1), Launch(2, 4, 1), Launch(8, 4, 1)]),
    seed=st.integers(0, 2**20),
)
def test_given_noise_gives_what_gram_schmidt_gives(
    depths, extra, halved, width, paths, activation, final, launch, seed
):
    grid = Grid(depths, extra, halved)
    h0, xi, z = draw(seed, grid, paths, width)
    scales = [0.7 * depth**0.1 * width**-0.5 for depth in depths]
    several = len(depths) > 1
    given = {"scales": scales, "final": final, "consecutive": several, "launch": launch}
    result = run(h0, grid, activation, noise=(xi, z), **given)
    expected = oracle(h0, grid, activation, xi, z, scales, final)
    assert_close(result, expected if several else expected[:2])
    assert (result.differences is not None) == several
    assert bool(result.finite.all())


def test_sizes_of_differences_are_the_largest_over_common_times():
    grid = Grid((4, 8), (16,))
    h0, xi, z = draw(5, grid, 8, 3)
    largest, last = (oracle(h0, grid, "tanh", xi, z, final=final) for final in (False, True))
    assert np.max(largest[2][0] - last[2][0]) > 0.01  # for some path
    assert_close(run(h0, grid, "tanh", noise=(xi, z), consecutive=True), largest)


@pytest.mark.parametrize("size", [1e-3, 30.0])
def test_tanh_is_right_far_out_and_close_in(size):
    grid = Grid((2, 4), (8,))
    h0, xi, z = draw(11, grid, 3, 4)
    errors, common, _ = oracle(size * h0, grid, "tanh", xi, z)
    unit = min(1.0, size)
    result = run(size * h0, grid, "tanh", noise=(xi, z))
    np.testing.assert_allclose(result.errors.cpu().numpy() / unit, errors / unit, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(result.common.cpu().numpy() / unit, common / unit, rtol=2e-4, atol=2e-4)


def test_philox_gives_its_authors_numbers():
    digits = 0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0
    cases = [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (digits[:4], digits[4:], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ]
    for counter, key, expected in cases:
        assert philox(counter, key).tolist() == expected


@pytest.mark.parametrize(
    ("width", "launch", "seed", "first_path"),
    [
        (3, None, 2**63 + 12345, 2**31 - 10),
        (3, Launch(1, 4, 1), 7, 1),
        pytest.param(7, Launch(2, 2, 1), 7, 1, marks=pytest.mark.nightly),
        pytest.param(10, Launch(16, 2, 1), 2**40, 0, marks=pytest.mark.nightly),
        pytest.param(10, Launch(2, 16, 1), 9, 0, marks=pytest.mark.nightly),  # several groups in a lane
        pytest.param(10, Launch(1, 32, 1), 9, 0, marks=pytest.mark.nightly),
        pytest.param(1, Launch(1, 4, 1), 0, 0, marks=pytest.mark.nightly),
    ],
)
def test_drawn_noise_is_philox_at_event_path_and_coordinate(width, launch, seed, first_path):
    grid, paths = Grid((2, 3), (4,)), 3
    h0, _, _ = draw(1, grid, paths, width)
    drawn = run(h0, grid, "tanh", seed=seed, first_path=first_path, launch=launch)
    noise = (
        numbers(grid.size, paths, width, 0, seed, first_path),
        numbers(sum(grid.depths), paths, width, 1, seed, first_path),
    )
    given = run(h0, grid, "tanh", noise=noise, launch=launch)
    assert_close(drawn, (given.errors.cpu(), given.common.cpu()), 1e-4)
    other = run(h0, grid, "tanh", seed=seed ^ (1 << 40), first_path=first_path, launch=launch)
    assert not torch.allclose(other.errors, drawn.errors, rtol=1e-2)


@pytest.mark.parametrize("width", [3, pytest.param(10, marks=pytest.mark.nightly)])
def test_a_path_is_the_same_in_every_block_and_among_any_others(width):
    grid, paths = Grid((2, 3)), 7
    h0, _, _ = draw(2, grid, paths, width)
    whole = run(h0, grid, "tanh", seed=9)
    lanes = choose_launch(width, 2, paths, interpreted=DEVICE == "cpu").lanes
    assert torch.equal(run(h0, grid, "tanh", seed=9, launch=Launch(lanes, 8, 1)).errors, whole.errors)
    part = run(h0[3:7], grid, "tanh", seed=9, first_path=3)
    assert torch.equal(part.errors, whole.errors[:, 3:7])
    assert torch.equal(part.common, whole.common[:, 3:7])
    other = run(h0, grid, "tanh", seed=9, launch=Launch(2, 8, 4))
    assert_close(other, (whole.errors.cpu(), whole.common.cpu()), 1e-4)


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_in_one_dimension_the_reference_reveals_everything(activation):
    grid, paths = Grid((2, 3, 6), (12,)), 4
    h0, xi, z = draw(3, grid, paths, 1)
    h0 = np.abs(h0)
    result = run(h0, grid, activation, noise=(xi, z))
    other = run(h0, grid, activation, noise=(xi, 5 * z + 1))
    assert_close(result, (other.errors.cpu(), other.common.cpu()), 1e-5)
    sigma = FUNCTIONS[activation]
    steps, ends, common = joined(grid)
    h, states, table = h0[:, 0], [h0[:, 0]] * 3, np.full((grid.size, 3, paths), np.nan)
    sums = np.zeros((3, paths))
    for k, dt in enumerate(steps):
        # e ξ √dt is what the matrix, a number here, adds; the layer's product is the sum of these times
        # σ(h).
        increment = np.sqrt(dt) * np.sign(sigma(h)) * xi[k, :, 0]
        h = h + sigma(h) * increment
        sums += increment
        for j in np.flatnonzero(ends[k]):
            states[j] = states[j] + sigma(states[j]) * sums[j]
            sums[j] = 0.0
            table[k, j] = np.abs(states[j] - h)
    assert_close(result, summary(table, common, False), 1e-5)


def test_a_reference_that_stands_still_gives_no_nan():
    grid = Grid((2, 4), (8,))
    h0, xi, z = draw(4, grid, 3, 5)
    h0[0] = -np.abs(h0[0])
    h0[1] = 0.0
    result = run(h0, grid, "relu", noise=(xi, z))
    assert bool(result.finite.all())
    assert bool(result.errors.isfinite().all())
    assert float(result.errors[:, :2].abs().max()) == 0.0
    assert float(result.errors[:, 2].min()) > 0.0


@pytest.mark.parametrize(("activation", "bad"), [("identity", 1e38), ("relu", np.inf), ("tanh", np.nan)])
def test_a_path_that_is_not_finite_leaves_the_others_alone(activation, bad):
    grid = Grid((2, 3))
    h0, xi, z = draw(6, grid, 4, 5)
    good = run(h0, grid, activation, noise=(xi, z))
    h0[2, 1] = bad
    result = run(h0, grid, activation, noise=(xi, z))
    others = [0, 1, 3]
    assert torch.equal(result.errors[:, others], good.errors[:, others])
    assert torch.equal(result.common[:, others], good.common[:, others])
    assert result.finite[others].all()
    assert not result.finite[2]
    assert not result.errors[:, 2].isfinite().any()


def test_errors_that_were_not_finite_once_stay_so():
    """A layer overflows, the reference does not."""
    grid = Grid((2, 4), (8,))
    h0, xi, z = draw(8, grid, 2, 3)
    result = run(h0, grid, "identity", noise=(xi, z), scales=[1e30, 3**-0.5])
    assert result.finite.all()
    assert not result.errors[0].isfinite().any()
    assert result.errors[1].isfinite().all()


H0, XI, Z = (torch.as_tensor(part, dtype=torch.float32) for part in draw(0, Grid((2, 4)), 3, 2))


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"h0": H0.double()}, TypeError, "float32"),
        ({"h0": H0[0]}, TypeError, "shape"),
        ({"activation": "sin"}, ValueError, "identity, relu, tanh"),
        ({"scales": [1.0]}, ValueError, "2 depths"),
        ({"seed": None}, ValueError, "exactly one"),
        ({"noise": (XI, Z)}, ValueError, "exactly one"),
        ({"seed": -1}, ValueError, "seed"),
        ({"first_path": 2**31 - 3}, ValueError, "numbered"),
        ({"seed": None, "noise": (XI, Z[1:])}, ValueError, "noise"),
        ({"grid": Grid((4, 2))}, ValueError, "ascend"),
        ({"grid": Grid((4,)), "scales": [1.0], "consecutive": True}, ValueError, "two depths"),
        ({"grid": Grid(tuple(range(1, 32))), "scales": [1.0] * 31}, ValueError, "at most 30"),
    ],
)
def test_calls_that_do_not_fit_are_refused(changed, kind, words):
    right = {"h0": H0, "grid": Grid((2, 4)), "activation": "tanh", "scales": [1.0, 1.0], "seed": 0}
    with pytest.raises(kind, match=words):
        run_kernel(**(right | changed))


@pytest.mark.parametrize(
    ("width", "depths", "lanes"),
    [
        (4, 5, 1),
        (8, 5, 2),
        (16, 5, 4),
        (40, 5, 8),
        (40, 7, 8),
        (64, 5, 16),
        (64, 10, 16),
        (128, 5, 32),
        (256, 5, 32),
    ],
)
def test_a_size_that_was_timed_gets_its_fastest_launch_without_spills(width, depths, lanes):
    assert choose_launch(width, depths, 8192) == Launch(lanes, 32 // lanes, 1)


def test_without_triton_the_call_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(ImportError, match=r"pip install 'deeplimit\[gpu\]'"):
        run_kernel(torch.ones(2, 2), Grid((2,)), "tanh", [1.0], seed=0)
