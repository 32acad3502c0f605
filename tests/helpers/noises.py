"""Random noises with their covariances written out index by index, and scores of increments against them.

What the increments must be is written out here again, from the definitions in `Ito`'s docstring. Every
statistical test holds at level 1e-5: z-scores are compared with the quantile divided among all comparisons of
all examples.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from hypothesis import assume, strategies as st
from scipy import stats

import deeplimit as dl

LEVEL = 1e-5
EXAMPLES = 600  # the most that a hypothesis profile asks of one test here: the level is divided among so many
MATRIX_KINDS = ("number", "entries", "kronecker", "tensor")
DEPENDENCES = ("constant", "time", "random")
VECTOR_KINDS = ("number", "entries", "matrix")


def quantile(comparisons):
    """The z-score that none of so many comparisons, in each of EXAMPLES examples, exceeds but with
    probability LEVEL.
    """
    return stats.norm.isf(LEVEL / 2 / comparisons / EXAMPLES)


def randn(*shape, seed=0, device="cpu"):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(device)


def random_psd(size, seed):
    """A covariance with correlations of all signs; of half the full rank now and then."""
    root = randn(size, size if seed % 3 else (size + 1) // 2, seed=seed)
    return root @ root.T / root.shape[1]


def random_matrix_covariance(kind, d, seed):
    if kind == "number":
        return 0.1 + randn(1, seed=seed).abs().item()
    if kind == "entries":
        return 0.1 + randn(d, d, seed=seed).abs()
    if kind == "kronecker":
        return dl.Kronecker(random_psd(d, seed), random_psd(d, seed + 1))
    return random_psd(d * d, seed).reshape(d, d, d, d)


def random_vector_covariance(kind, d, seed):
    if kind == "number":
        return 0.1 + randn(1, seed=seed).abs().item()
    return 0.1 + randn(d, seed=seed).abs() if kind == "entries" else random_psd(d, seed)


def dense_matrix(value, d):
    """Σ^A_ijkl = Cov(dW_ij, dW_kl)/dt (d, d, d, d), index by index."""
    dense = torch.zeros(d, d, d, d, dtype=torch.float64)
    for i, j, k, m in product(range(d), repeat=4):
        if isinstance(value, dl.Kronecker):
            dense[i, j, k, m] = value.R[i, k] * value.C[j, m]
        elif isinstance(value, float):
            dense[i, j, k, m] = value * (i == k) * (j == m)
        else:
            dense[i, j, k, m] = value[i, j] * (i == k) * (j == m) if value.ndim == 2 else value[i, j, k, m]
    return dense


def dense_vector(value, d):
    """Σ^b (d, d)."""
    full = torch.as_tensor(value, dtype=torch.float64)
    return full if full.ndim == 2 else torch.diag(full.expand(d))


def root_of(matrix):
    """The symmetric square root of a covariance."""
    values, vectors = np.linalg.eigh(matrix.numpy())
    return torch.from_numpy(vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def q_by_hand(matrix, vector, cross, x):
    """Σ_jk x_j x_k Σ^A_ijik + Σ^b_ii + 2 Σ_j x_j Σ^cross_iji for one state x (d,), sum by sum."""
    d = len(x)
    q = torch.zeros(d, dtype=torch.float64)
    for i in range(d):
        q[i] += 0.0 if vector is None else vector[i, i]
        for j in range(d):
            q[i] += 0.0 if cross is None else 2 * x[j] * cross[i, j, i]
            for k in range(d):
                q[i] += 0.0 if matrix is None else x[j] * x[k] * matrix[i, j, i, k]
    return q


def times(value, factor):
    """A covariance times a number, or times one number a path (P,)."""
    if value is None or isinstance(factor, float):
        if isinstance(value, dl.Kronecker):
            return dl.Kronecker(factor * value.R, value.C)
        return None if value is None else factor * value
    if isinstance(value, dl.Kronecker):
        return dl.Kronecker(factor[:, None, None] * value.R, value.C)
    value = torch.as_tensor(value, dtype=torch.float64)
    return factor[(..., *[None] * value.ndim)] * value


def clock(t, v=None):
    """The factor of a rate that depends on time."""
    return 0.5 + 2.0 * t


def weather(t, v):
    """The factor of a random rate; of time too, so that a time read at the wrong end shows."""
    return (0.5 + t) / (1.0 + torch.exp(-v.double().cpu().sum(dim=1)))


@dataclass(frozen=True)
class Case:
    """A noise and, written out, its covariances: those at factor 1 and the power of the factor in each."""

    width: int
    noise: dl.Ito
    matrix: torch.Tensor | None
    vector: torch.Tensor | None
    cross: torch.Tensor | None
    factor: object
    vector_power: float

    def factors(self, t, v):
        """The factors of Σ^A, Σ^b and the cross-covariance, each (P,) or (1,)."""
        one = torch.as_tensor(self.factor(t, v), dtype=torch.float64).reshape(-1)
        return one, one**self.vector_power, one ** ((1.0 + self.vector_power) / 2)

    def parts(self, t, v=None):
        """Σ^A, Σ^b and the cross-covariance at a time, with a leading dimension P (1 if not random); zero if
        missing.
        """
        d = self.width
        zeros = (torch.zeros(d, d, d, d), torch.zeros(d, d), torch.zeros(d, d, d))
        given_parts = (self.matrix, self.vector, self.cross)
        both = [
            zero.double() if part is None else part for part, zero in zip(given_parts, zeros, strict=True)
        ]
        return [
            factor[(..., *[None] * part.ndim)] * part
            for factor, part in zip(self.factors(t, v), both, strict=True)
        ]

    def joint(self, t, v=None):
        """The covariance rate of all entries of W^A, row by row, and then of W^b: (P or 1, n, n); of those
        there are.
        """
        matrix, vector, cross = self.parts(t, v)
        a, c = matrix.flatten(-4, -3).flatten(-2), cross.flatten(-3, -2)
        both = torch.cat([torch.cat([a, c], dim=-1), torch.cat([c.mT, vector], dim=-1)], dim=-2)
        d = self.width
        kept = [*range(d * d)] * (self.matrix is not None) + [*range(d * d, d * d + d)] * (
            self.vector is not None
        )
        return both[:, kept][:, :, kept]

    def q(self, t, x, v=None):
        """Q (P or 1, d) at one state x (d,)."""
        unit = [
            q_by_hand(self.matrix, None, None, x),
            q_by_hand(None, self.vector, None, x),
            q_by_hand(None, None, self.cross, x),
        ]
        return sum(factor[:, None] * part for factor, part in zip(self.factors(t, v), unit, strict=True))


def random_case(width, matrix_kind, vector_kind, mixed, dependence, seed):
    """A noise with random covariances of these kinds; `mixed` is the size of W^A's correlation with W^b, 0
    for no cross.
    """
    assume(matrix_kind is not None or vector_kind is not None)
    assume(mixed == 0.0 or (matrix_kind is not None and vector_kind is not None))
    d = width
    a = None if matrix_kind is None else random_matrix_covariance(matrix_kind, d, seed)
    b = None if vector_kind is None else random_vector_covariance(vector_kind, d, seed + 2)
    matrix, vector = None if a is None else dense_matrix(a, d), None if b is None else dense_vector(b, d)
    cross = None
    if mixed:
        turn = randn(d * d, d, seed=seed + 3)
        turn = (
            mixed * turn / torch.linalg.matrix_norm(turn, ord=2)
        )  # a contraction, so that the joint covariance is PSD
        cross = (root_of(matrix.reshape(d * d, d * d)) @ turn @ root_of(vector)).reshape(d, d, d)
    factor = {"constant": lambda t, v: 1.0, "time": clock, "random": weather}[dependence]
    power = 0.0 if seed % 2 else 1.0  # a constant b beside an A that is not, in every other example

    def function(value, exponent):
        if value is None or dependence == "constant" or exponent == 0.0:
            return value
        if dependence == "time":
            return lambda t: times(value, float(factor(t, None)) ** exponent)
        return lambda t, v: times(value, factor(t, v) ** exponent)

    auxiliary = None
    if dependence == "random":
        motions = (0 if a is None else d * d) + (0 if b is None else d)
        start = [-0.5, 0.5][: min(1 + seed % 2, motions)]
        auxiliary = dl.AuxiliaryDiffusion(
            lambda t, v: 1.0 - v, lambda t, v: 2.0 + t + 0.2 * v, start, leverage=-0.8
        )
    noise = dl.Ito(
        A=function(a, 1.0),
        b=function(b, power),
        cross=function(cross, (1.0 + power) / 2),
        auxiliary=auxiliary,
    )
    return Case(d, noise, matrix, vector, cross, factor, power)


CASES = {
    "width": st.integers(1, 4),
    "matrix_kind": st.sampled_from([None, *MATRIX_KINDS]),
    "vector_kind": st.sampled_from([None, *VECTOR_KINDS]),
    "mixed": st.sampled_from([0.0, 0.0, 0.6, 0.95]),
    "seed": st.integers(0, 2**31),
}


def flat(step):
    """All entries of the increments of W^A, row by row, and then of W^b, of those there are: (P, n), float64
    on the CPU.
    """
    parts = [] if step.matrix is None else [step.matrix.flatten(1)]
    return torch.cat(parts + ([] if step.bias is None else [step.bias]), dim=1).double().cpu()


def increments_at_x(step, x):
    """ΔW^A x + ΔW^b (P, d) for one state x (d,)."""
    matrix = 0.0 if step.matrix is None else (step.matrix.double().cpu() * x).sum(dim=2)
    return matrix + (0.0 if step.bias is None else step.bias.double().cpu())


def score_of_squares(values, step, q):
    """The largest |z| of the mean squares of Gaussian increments (P, d) against rates q (P or 1, d), whose
    own error is √2 q.
    """
    excess = values.square() / step - q
    return (excess.sum(dim=0) / (2 * q.square()).expand_as(excess).sum(dim=0).sqrt()).abs().max().item()


def mixed_up(a, b):
    """Cov(dW^A_ij, dW^b_k)/dt, with nothing symmetric in it, for independent entries of variances a and b."""
    turn = torch.tensor([[0.9, 0.1], [-0.2, 0.3], [0.1, -0.6], [0.0, 0.4]], dtype=torch.float64)
    assert torch.linalg.matrix_norm(turn, ord=2) < 1
    return (a * b) ** 0.5 * turn.reshape(2, 2, 2)


TURN, PUSH = randn(2, 2, seed=1), randn(2, seed=2)
DRIFT = dl.Trend(lambda t: (1.0 + t) * TURN, lambda t: (2.0 - t) * PUSH)
