"""Products of a Brownian matrix without the matrix: their covariance given the vectors, exactly;
degenerate vectors.
"""

import pytest
import torch
from couplings import FAULTS, faulty
from hypothesis import given, settings, strategies as st
from noises import randn

from deeplimit.driving.path import Grid
from deeplimit.simulation.kernels.products import Products

NESTED = [
    Grid((2, 4), (8,)),
    Grid((1, 3, 6)),
    Grid((2, 4, 8), (8,), halved=True),
    Grid((2, 6, 12), (24,), halved=True),
]
CROSSING = [
    Grid((2, 3)),
    Grid((2, 3), (12,)),
    Grid((4, 6, 10), (10,), halved=True),
    Grid((4, 5, 10)),
    Grid((3, 4, 5, 7)),
    Grid((4, 6, 12)),
]
GRIDS = {"nested": NESTED[2], "crossing": Grid((3, 4, 6))}
KINDS = ["any", "any", "reference", "parallel", "last", "zero", "opposite"]


class Script:
    """The vectors of every layer and every fine step, drawn before any product: so that products are
    linear in the normals.
    """

    def __init__(self, grid, width, kinds, seed, inputs=1):
        (chunk,) = grid.chunks()
        self.width, self.inputs = width, inputs
        self.steps = chunk.steps.tolist()
        ends = [
            [*own, coarse] if grid.halved else own
            for own, coarse in zip(chunk.ends.tolist(), chunk.coarse, strict=True)
        ]
        self.ends = [[end for end in own for _ in range(inputs)] for own in ends]
        self.columns = len(self.ends[0])
        self.count = len(self.steps) * (self.columns + inputs)
        draws = iter(randn(self.count, width, seed=seed) * torch.exp(randn(self.count, 1, seed=seed + 1)))
        chosen = iter(kinds * (2 * self.count))
        self.references, self.vectors = [], {}
        last = torch.zeros(width, dtype=torch.float64)
        starting = range(self.columns)
        for k in range(len(self.steps)):
            references = [
                torch.zeros_like(last) if next(chosen) == "zero" else next(draws) for _ in range(inputs)
            ]
            if next(chosen) == "parallel":
                references = [(i + 1.0) * references[0] for i in range(inputs)]
            self.references.append(references)
            for column in starting:
                own, first = next(draws), references[column % inputs]
                last = {
                    "any": own,
                    "reference": first,
                    "parallel": 3.0 * first,
                    "opposite": -0.5 * first,
                    "near": first + 1e-6 * own,
                    "last": last,
                    "zero": torch.zeros_like(own),
                }[next(chosen)]
                self.vectors[k, column] = last
            starting = [column for column, ends in enumerate(self.ends[k]) if ends]

    def run(self, make, normals, paths, dtype):
        """Run products of a class on the script; return them, (outputs, d, P), with their vectors and
        steps.
        """

        def spread(vector):
            return vector.to(dtype)[:, None].expand(-1, paths).contiguous()

        known = make(self.columns, torch.zeros(self.width, paths, dtype=dtype))
        outputs, spans, began = [], [], [0] * self.columns
        starting = range(self.columns)
        for k, step in enumerate(self.steps):
            for column in starting:
                known.hold(column, spread(self.vectors[k, column]))
                began[column] = k
            references = self.references[k]
            outputs += known.pass_over(
                [spread(vector) for vector in references], [normals() for _ in references], step
            )
            spans += [(vector, k, k + 1) for vector in references]
            starting = [column for column, ends in enumerate(self.ends[k]) if ends]
            for column in reversed(starting):
                outputs.append(known.take(column, normals()))
                spans.append((self.vectors[began[column], column], began[column], k + 1))
        return torch.stack(outputs), spans

    def covariances(self, make=Products, dtype=torch.float64):
        """Return the covariance of all products that a class implies, fed unit normals one at a time, and
        the true one.

        Both in units of the vectors' lengths.
        """
        paths = self.count * self.width
        units = iter(torch.eye(paths, dtype=dtype).reshape(-1, self.width, paths))
        outputs, spans = self.run(make, lambda: next(units), paths, dtype)
        linear = outputs.reshape(-1, paths).double()
        true = torch.zeros(len(spans), self.width, len(spans), self.width, dtype=torch.float64)
        for i, (vector, start, end) in enumerate(spans):
            for j, (other, since, until) in enumerate(spans):
                shared = sum(self.steps[max(start, since) : min(end, until)])
                true[i, :, j] = shared * torch.dot(vector, other) * torch.eye(self.width, dtype=torch.float64)
        lengths = torch.stack([vector.norm() for vector, _, _ in spans]).repeat_interleave(self.width)
        scale = torch.outer(*[torch.where(lengths > 0, lengths, 1.0)] * 2)
        return (linear @ linear.T) / scale, true.reshape(scale.shape) / scale


def largest(script, make=Products, dtype=torch.float64):
    implied, true = script.covariances(make, dtype)
    return (implied - true).abs().max().item()


SCRIPTS = {
    "grid": st.sampled_from(NESTED + CROSSING),
    "width": st.integers(1, 3),
    "seed": st.integers(0, 10_000),
    "inputs": st.sampled_from([1, 1, 1, 2]),
}


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=10)
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=12), **SCRIPTS)
def test_products_have_the_covariance_of_a_brownian_matrix_times_the_vectors(
    grid, width, kinds, seed, inputs
):
    """E (ΔB v)(ΔB' w)ᵀ = |overlap| (v·w) I for all products of all columns and references, to rounding: no
    statistics.
    """
    assert largest(Script(grid, width, kinds, seed, inputs)) < 1e-12


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=8)
@given(
    kinds=st.lists(st.sampled_from([*KINDS, "near"]), min_size=1, max_size=8),
    dtype=st.sampled_from(["64", "32"]),
    **SCRIPTS,
)
def test_columns_that_are_all_but_parallel_keep_the_covariance(grid, width, kinds, seed, inputs, dtype):
    """Vectors 1e-6 from the reference: residuals lie close together, and what is left of one may be
    rounding, but not its law.
    """
    script = Script(grid, width, [*kinds, "near"], seed, inputs)
    assert largest(script, dtype=torch.float64 if dtype == "64" else torch.float32) < (
        1e-12 if dtype == "64" else 1e-5
    )


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_fault_of_the_products_shows_in_their_covariance(name, grid):
    assert largest(Script(GRIDS[grid], 2, ["any"], 1), faulty(*FAULTS[name])) > 1e-3


@pytest.mark.parametrize("grid", GRIDS)
def test_without_a_fault_the_same_covariance_is_exact(grid):
    assert largest(Script(GRIDS[grid], 2, ["any"], 1)) < 1e-12


def test_a_second_reference_that_is_not_made_orthogonal_to_the_first_shows():
    fault = faulty(("for direction in before * 2:", "for direction in []:"))
    assert largest(Script(NESTED[0], 3, ["any"], 1, inputs=2)) < 1e-12
    assert largest(Script(NESTED[0], 3, ["any"], 1, inputs=2), fault) > 1e-3


DEPENDENT = [
    (Grid((3, 4, 5, 7)), 2, ["any"], 104021, 1),
    (
        Grid((2, 6, 12), (24,), halved=True),
        2,
        ["opposite", "reference", "near", "near", "last", "last", "near"],
        263264,
        1,
    ),
    (Grid((3, 4, 5, 7)), 2, ["parallel", "opposite", "reference", "near"], 704700, 1),
    (
        Grid((4, 6, 10), (10,), halved=True),
        3,
        ["opposite", "last", "any", "opposite", "zero", "zero", "near", "near"],
        247317,
        2,
    ),
    (Grid((3, 4, 5, 7)), 3, ["any", "reference", "opposite", "last", "reference"], 245411, 2),
]


@pytest.mark.parametrize(
    "script", [*DEPENDENT[:2], *(pytest.param(script, marks=pytest.mark.nightly) for script in DEPENDENT[2:])]
)
def test_residuals_that_depend_on_each_other_but_for_rounding_keep_the_covariance(script):
    """More columns than dimensions: of some residuals others tell all. Bounds on shares alone were 2e-2
    off in float32.
    """
    assert largest(Script(*script)) < 1e-13
    assert largest(Script(*script), dtype=torch.float32) < 1e-5
