"""The noise itself: sampled increments of every kind of covariance against Q, drifts, random volatility, sums over layers.

What the increments must be is written out here again, index by index, from the definitions in `Ito`'s docstring. Every
statistical test holds at level 1e-5: z-scores are compared with the quantile divided among all comparisons of all examples.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from test_identities import walk

import deeplimit as dl
from deeplimit.coupling.grid import Grid
from deeplimit.coupling.readers import HypothesisReader, make_reader
from deeplimit.processes import TrendAndNoise

LEVEL = 1e-5
EXAMPLES = 600  # the most that a hypothesis profile asks of one test here: the level is divided among so many
MATRIX_KINDS = ("number", "entries", "kronecker", "tensor")
DEPENDENCES = ("constant", "time", "random")
VECTOR_KINDS = ("number", "entries", "matrix")


@pytest.fixture(autouse=True)
def one_thread():
    """As in `compare`: threads inside small operations cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def quantile(comparisons):
    """The z-score that none of so many comparisons, in each of EXAMPLES examples, exceeds but with probability LEVEL."""
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
        """Σ^A, Σ^b and the cross-covariance at a time, with a leading dimension P (1 if not random); zero if missing."""
        d = self.width
        zeros = (torch.zeros(d, d, d, d), torch.zeros(d, d), torch.zeros(d, d, d))
        given_parts = (self.matrix, self.vector, self.cross)
        both = [zero.double() if part is None else part for part, zero in zip(given_parts, zeros, strict=True)]
        return [factor[(..., *[None] * part.ndim)] * part for factor, part in zip(self.factors(t, v), both, strict=True)]

    def joint(self, t, v=None):
        """The covariance rate of all entries of W^A, row by row, and then of W^b: (P or 1, n, n); of those there are."""
        matrix, vector, cross = self.parts(t, v)
        a, c = matrix.flatten(-4, -3).flatten(-2), cross.flatten(-3, -2)
        both = torch.cat([torch.cat([a, c], dim=-1), torch.cat([c.mT, vector], dim=-1)], dim=-2)
        d = self.width
        kept = [*range(d * d)] * (self.matrix is not None) + [*range(d * d, d * d + d)] * (self.vector is not None)
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
    """A noise with random covariances of these kinds; `mixed` is the size of W^A's correlation with W^b, 0 for no cross."""
    assume(matrix_kind is not None or vector_kind is not None)
    assume(mixed == 0.0 or (matrix_kind is not None and vector_kind is not None))
    d = width
    a = None if matrix_kind is None else random_matrix_covariance(matrix_kind, d, seed)
    b = None if vector_kind is None else random_vector_covariance(vector_kind, d, seed + 2)
    matrix, vector = None if a is None else dense_matrix(a, d), None if b is None else dense_vector(b, d)
    cross = None
    if mixed:
        turn = randn(d * d, d, seed=seed + 3)
        turn = mixed * turn / torch.linalg.matrix_norm(turn, ord=2)  # a contraction, so that the joint covariance is PSD
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
        auxiliary = dl.AuxiliaryDiffusion(lambda t, v: 1.0 - v, lambda t, v: 2.0 + t + 0.2 * v, start, leverage=-0.8)
    noise = dl.Ito(A=function(a, 1.0), b=function(b, power), cross=function(cross, (1.0 + power) / 2), auxiliary=auxiliary)
    return Case(d, noise, matrix, vector, cross, factor, power)


CASES = {
    "width": st.integers(1, 4),
    "matrix_kind": st.sampled_from([None, *MATRIX_KINDS]),
    "vector_kind": st.sampled_from([None, *VECTOR_KINDS]),
    "mixed": st.sampled_from([0.0, 0.0, 0.6, 0.95]),
    "seed": st.integers(0, 2**31),
}


def flat(step):
    """All entries of the increments of W^A, row by row, and then of W^b, of those there are: (P, n), float64 on the CPU."""
    parts = [] if step.matrix is None else [step.matrix.flatten(1)]
    return torch.cat(parts + ([] if step.bias is None else [step.bias]), dim=1).double().cpu()


def increments_at_x(step, x):
    """ΔW^A x + ΔW^b (P, d) for one state x (d,)."""
    matrix = 0.0 if step.matrix is None else (step.matrix.double().cpu() * x).sum(dim=2)
    return matrix + (0.0 if step.bias is None else step.bias.double().cpu())


def score_of_squares(values, step, q):
    """The largest |z| of the mean squares of Gaussian increments (P, d) against rates q (P or 1, d), whose own error is √2 q."""
    excess = values.square() / step - q
    return (excess.sum(dim=0) / (2 * q.square()).expand_as(excess).sum(dim=0).sqrt()).abs().max().item()


def score_of_products(values, step, covariance):
    """The largest |z| of all mean products of increments (P, n) against covariance rates (P or 1, n, n), by Isserlis' formula."""
    paths = len(values)
    products = torch.einsum("pi,pj->ij", values, values) / step / paths
    variances = torch.diagonal(covariance, dim1=-2, dim2=-1)
    spread = ((variances.unsqueeze(-1) * variances.unsqueeze(-2) + covariance.square()).mean(dim=0) / paths).sqrt()
    off = (products - covariance.mean(dim=0)).abs()
    return (off / spread).max().item()


@pytest.mark.parametrize("dependence", DEPENDENCES)
@given(**CASES, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_sampled_increments_have_the_covariance_and_q_that_the_noise_says(device, dependence, dtype, **drawn):
    """Level 1e-5 over all entries and examples. The second step: v has moved, and time is not 0."""
    case = random_case(dependence=dependence, **drawn)
    paths = 2500 if case.noise.auxiliary is not None else 20_000
    path = case.noise.start(case.width, paths, torch.Generator(device).manual_seed(drawn["seed"]), dtype)
    path.step(0.0, 0.3)
    v = None if path.v is None else path.v.double().cpu().clone()
    step = path.step(0.3, 0.4)
    x = randn(case.width, seed=drawn["seed"] + 9)
    q = case.noise.Q(0.3, x.expand(1 if v is None else paths, -1), v)
    torch.testing.assert_close(q, case.q(0.3, x, v), rtol=1e-9, atol=1e-12)
    assert score_of_squares(increments_at_x(step, x), 0.4, q) < quantile(case.width)
    values, covariance = flat(step), case.joint(0.3, v)
    assert score_of_products(values, 0.4, covariance) < quantile(values.shape[1] ** 2)


@pytest.mark.parametrize("dependence", DEPENDENCES)
@given(**CASES)
def test_increments_are_symmetric_roots_of_the_covariance_times_the_brownian_motions(dependence, **drawn):
    """The contract that lets a user drive the limit: B^A row by row, then B^b, then v's; rates and drifts at the step's start."""
    case = random_case(dependence=dependence, **drawn)
    motions = case.noise.motions(case.width)
    path = case.noise.start(case.width, 3, torch.Generator().manual_seed(0), torch.float64)
    for index, (time, step) in enumerate(((0.0, 0.25), (0.25, 0.5), (0.75, 0.25))):
        v = None if path.v is None else path.v.clone()
        brownian = step**0.5 * randn(3, motions, seed=drawn["seed"] + index)
        moved = path.move(time, step, brownian)
        joint = case.joint(time, v)
        own = brownian[:, : joint.shape[-1]]
        expected = torch.stack([root_of(joint[p % len(joint)]) @ own[p] for p in range(3)])
        # Roots of singular covariances are known to half the digits only.
        torch.testing.assert_close(flat(moved), expected, rtol=1e-6, atol=1e-6)
        for mine, theirs in zip(moved.rate.dense(), case.parts(time, v), strict=True):
            if mine is not None:
                torch.testing.assert_close(mine.expand(3, *theirs.shape[1:]), theirs.expand(3, *theirs.shape[1:]))


@pytest.mark.parametrize("width", [2, 3, 4])
def test_rows_and_columns_exchanged_are_caught_by_the_same_score(width):
    """The twin: ΔW = C^½ Z R^½ has another Q; a test that cannot tell would prove nothing."""
    R, C = random_psd(width, 1) + torch.diag(torch.arange(width).double()), random_psd(width, 5)
    x = randn(width, seed=3)
    right, wrong = (dl.Ito(A=dl.Kronecker(*pair), b=0.2) for pair in ((R, C), (C, R)))
    step = right.start(width, 20_000, torch.Generator().manual_seed(0), torch.float64).step(0.0, 0.1)
    values = increments_at_x(step, x)
    assert score_of_squares(values, 0.1, right.Q(0.0, x[None])) < quantile(width)
    assert score_of_squares(values, 0.1, wrong.Q(0.0, x[None])) > 3 * quantile(width)


def test_a_cross_covariance_transposed_or_left_out_is_caught_by_the_same_score():
    noise = dl.Ito(A=1.0, b=0.5, cross=(cross := _cross(1.0, 0.5)))
    x = torch.tensor([1.0, -0.5], dtype=torch.float64)
    step = noise.start(2, 20_000, torch.Generator().manual_seed(0), torch.float64).step(0.0, 0.1)
    values = increments_at_x(step, x)
    assert score_of_squares(values, 0.1, noise.Q(0.0, x[None])) < quantile(2)
    for twin in (dl.Ito(A=1.0, b=0.5), dl.Ito(A=1.0, b=0.5, cross=cross.transpose(0, 1).contiguous())):
        assert score_of_squares(values, 0.1, twin.Q(0.0, x[None])) > 3 * quantile(2)


def _cross(a, b):
    """Cov(dW^A_ij, dW^b_k)/dt, with nothing symmetric in it, for independent entries of variances a and b."""
    turn = torch.tensor([[0.9, 0.1], [-0.2, 0.3], [0.1, -0.6], [0.0, 0.4]], dtype=torch.float64)
    assert torch.linalg.matrix_norm(turn, ord=2) < 1
    return (a * b) ** 0.5 * turn.reshape(2, 2, 2)


@given(width=st.integers(1, 4), kind=st.sampled_from(MATRIX_KINDS), seed=st.integers(0, 2**31))
def test_every_form_of_one_covariance_has_the_same_q(width, kind, seed):
    """A structure and the full tensor that equals it; x scaled; sums of covariances; coordinates renamed."""
    a, x = random_matrix_covariance(kind, width, seed), randn(5, width, seed=seed + 7)
    dense = dense_matrix(a, width)
    q = dl.Ito(A=a).Q(0.5, x)
    torch.testing.assert_close(q, dl.Ito(A=dense).Q(0.5, x))
    torch.testing.assert_close(q, torch.stack([q_by_hand(dense, None, None, state) for state in x]))
    torch.testing.assert_close(dl.Ito(A=a).Q(0.5, -3.0 * x), 9.0 * q)
    torch.testing.assert_close(dl.Ito(A=times(a, 4.0)).Q(0.5, x), 4.0 * q)
    torch.testing.assert_close(dl.Ito(A=a, b=0.7).Q(0.5, x), q + 0.7)
    other = random_psd(width**2, seed + 8).reshape((width,) * 4)
    torch.testing.assert_close(dl.Ito(A=dense + other).Q(0.5, x), q + dl.Ito(A=other).Q(0.5, x))
    order = torch.randperm(width, generator=torch.Generator().manual_seed(seed))
    renamed = dense[order][:, order][:, :, order][:, :, :, order]
    torch.testing.assert_close(dl.Ito(A=renamed).Q(0.5, x[:, order]), q[:, order])
    if isinstance(a, dl.Kronecker):  # only the product R ⊗ C matters
        torch.testing.assert_close(dl.Ito(A=dl.Kronecker(2.0 * a.R, a.C / 2.0)).Q(0.5, x), q)


def test_q_where_it_can_be_done_in_the_head():
    """Rows have variances R_ii: the first unit moves four times as much as the second; columns weigh the state's entries."""
    noise = dl.Ito(A=dl.Kronecker(torch.diag(torch.tensor([4.0, 1.0])), torch.diag(torch.tensor([1.0, 0.0]))), b=[0.5, 0.0])
    q = noise.Q(0.0, torch.tensor([[3.0, 100.0]]))
    torch.testing.assert_close(q, torch.tensor([[36.5, 9.0]], dtype=torch.float64))
    entries = dl.Ito(A=torch.tensor([[1.0, 2.0], [0.0, 3.0]])).Q(0.0, torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(entries, torch.tensor([[9.0, 12.0]], dtype=torch.float64))
    opposed = torch.zeros(1, 1, 1) - 1.0  # W^b = -W^A: nothing moves where x = 1, everything twice where x = -1
    q = dl.Ito(A=1.0, b=1.0, cross=opposed).Q(0.0, torch.tensor([[1.0], [-1.0]]))
    torch.testing.assert_close(q, torch.tensor([[0.0], [4.0]], dtype=torch.float64))


def wave(t):
    return 1.0 + 0.5 * math.sin(5.0 * t)


def wave_until(t):
    """∫_0^t wave."""
    return t + 0.1 * (1.0 - math.cos(5.0 * t))


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_quadratic_variation_is_the_integral_of_the_rates(t):
    """Against integrals known in closed form."""
    R, C, b, cross = random_psd(2, 1), random_psd(2, 4), random_psd(2, 7), _cross(1.0, 0.5)
    total = dl.Ito(A=lambda s: dl.Kronecker(wave(s) * R, C), b=lambda s: s**3 * b).quadratic_variation(t)
    torch.testing.assert_close(total.A, wave_until(t) * dense_matrix(dl.Kronecker(R, C), 2))
    torch.testing.assert_close(total.b, t**4 / 4 * b)
    assert total.cross is None
    total = dl.Ito(A=2.0, b=lambda s: 0.5 + s, cross=lambda s: s**2 * cross).quadratic_variation(t)
    torch.testing.assert_close(total.A, t * dense_matrix(2.0, 2))
    torch.testing.assert_close(total.b, (t / 2 + t**2 / 2) * torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(total.cross, t**3 / 3 * cross)
    constant = dl.Ito(b=random_psd(3, 2)).quadratic_variation(t)
    torch.testing.assert_close(constant.b, t * random_psd(3, 2))
    assert constant.A is None


def test_quadratic_variation_needs_a_width_or_a_shape_and_a_rate_that_is_not_random():
    numbers = dl.Ito(A=0.5, b=lambda t: t)
    assert numbers.quadratic_variation(width=5).A.shape == (5, 5, 5, 5)
    with pytest.raises(ValueError, match="quadratic_variation\\(t, width=4\\)"):
        numbers.quadratic_variation()
    with pytest.raises(ValueError, match="random"):
        dl.stochastic_volatility(A=0.5).quadratic_variation(width=2)


def test_quadratic_variation_is_what_squares_along_paths_add_up_to():
    """Level 1e-5: realised covariations of 40 paths of 2,000 steps, whose rates change elevenfold on the way."""
    steps, paths, t = 2000, 40, 0.8
    R, C, b, cross = random_psd(2, 1) + 0.2, random_psd(2, 4), random_psd(2, 7), _cross(1.0, 0.5)
    separate = dl.Ito(A=lambda s: dl.Kronecker((0.1 + s) * R, C), b=lambda s: math.exp(-s) * b)
    covarying = dl.Ito(A=lambda s: 1.0 + s, b=0.5, cross=lambda s: s * cross)
    for noise, width in ((separate, 2), (covarying, 2)):
        path = noise.start(width, paths, torch.Generator().manual_seed(4), torch.float64)
        realised, spread = 0.0, 0.0
        for k in range(steps):
            values = flat(path.step(t * k / steps, t / steps))
            products = torch.einsum("pi,pj->pij", values, values)
            realised, spread = realised + products.mean(dim=0), spread + products.square().mean(dim=0) / paths
        total = noise.quadratic_variation(t)
        a, b_part = total.A.reshape(4, 4), total.b
        mixed = torch.zeros(4, 2).double() if total.cross is None else total.cross.reshape(4, 2)
        expected = torch.cat([torch.cat([a, mixed], dim=1), torch.cat([mixed.T, b_part], dim=1)])
        assert ((realised - expected).abs() / spread.sqrt()).max() < stats.norm.isf(LEVEL / 2 / 36 / 2)


TURN, PUSH = randn(2, 2, seed=1), randn(2, seed=2)
DRIFT = dl.Trend(lambda t: (1.0 + t) * TURN, lambda t: (2.0 - t) * PUSH)


def test_without_noise_increments_are_the_drift_at_the_steps_start_times_the_step():
    for noise in (dl.Ito(A=0.3, b=0.2, drift=DRIFT), dl.Ito(A=0.3, b=lambda t: t, cross=torch.zeros(2, 2, 2), drift=DRIFT)):
        path = noise.start(2, 3, torch.Generator(), torch.float64)
        moved = path.move(0.5, 0.25, torch.zeros(3, 6, dtype=torch.float64))
        torch.testing.assert_close(moved.matrix, (1.5 * 0.25 * TURN).expand(3, 2, 2))
        torch.testing.assert_close(moved.bias, (1.5 * 0.25 * PUSH).expand(3, 2))
    alone = dl.Ito(A=0.3, b=0.2, drift=dl.Trend(DRIFT.A)).start(2, 3, torch.Generator(), torch.float64)
    moved = alone.move(0.5, 0.25, torch.zeros(3, 6, dtype=torch.float64))
    torch.testing.assert_close(moved.matrix, (1.5 * 0.25 * TURN).expand(3, 2, 2))
    assert not moved.bias.any()


def test_random_drifts_read_the_auxiliary_diffusion_at_the_steps_start():
    v = dl.AuxiliaryDiffusion(lambda t, v: 1.0 - v, lambda t, v: torch.ones_like(v), start=0.5)
    drift = dl.Trend(lambda t, v: v[:, :, None] * (1.0 + t) * TURN, lambda t, v: v * PUSH)
    path = dl.Ito(A=0.3, b=0.2, drift=drift, auxiliary=v).start(2, 3, torch.Generator(), torch.float64)
    brownian = torch.zeros(3, 7, dtype=torch.float64)
    brownian[:, 6] = torch.tensor([0.0, 1.0, -2.0])
    first = path.move(0.0, 0.5, brownian)
    torch.testing.assert_close(first.bias, (0.5 * 0.5 * PUSH).expand(3, 2))
    torch.testing.assert_close(path.v, torch.tensor([[0.75], [1.75], [-1.25]], dtype=torch.float64))
    second = path.move(0.5, 0.25, torch.zeros(3, 7, dtype=torch.float64))
    for p, now in enumerate((0.75, 1.75, -1.25)):
        torch.testing.assert_close(second.matrix[p], now * 1.5 * 0.25 * TURN)
        torch.testing.assert_close(second.bias[p], now * 0.25 * PUSH)


def test_drift_is_the_mean_of_the_increments(device):
    """Level 1e-5; without the drift, or with another time's, the same scores are far outside."""
    paths, step = 20_000, 0.25
    noise = dl.Ito(A=0.3, b=0.2, drift=DRIFT)
    path = noise.start(2, paths, torch.Generator(device).manual_seed(2), torch.float64)
    means = flat(path.step(0.5, step)).mean(dim=0)
    spread = (torch.tensor([0.3] * 4 + [0.2] * 2, dtype=torch.float64) * step / paths).sqrt()
    limit = stats.norm.isf(LEVEL / 2 / 6)

    def score(t):
        drift = torch.cat([(1.0 + t) * TURN.flatten(), (2.0 - t) * PUSH])
        return ((means - drift * step).abs() / spread).max()

    assert score(0.5) < limit
    assert score(1.0) > 3 * limit
    assert (means.abs() / spread).max() > 3 * limit


@given(
    size=st.integers(1, 3),
    leverage=st.sampled_from([-1.0, -0.7, 0.0, 0.4]),
    step=st.sampled_from([0.01, 0.5]),
    seed=st.integers(0, 99),
)
def test_leverage_is_the_correlation_of_v_with_the_weights_own_motions(size, leverage, step, seed):
    """Level 1e-5. Z_i leans on B_i, the i-th motion of the weights, and on no other; it is a Brownian motion itself."""
    paths = 20_000
    v = dl.AuxiliaryDiffusion(lambda t, v: 3.0 * torch.ones_like(v), lambda t, v: (1.0 + t) * (2.0 + v), 0.5, leverage)
    v = dl.AuxiliaryDiffusion(v.drift, v.diffusion, [0.5] * size, leverage)
    path = dl.Ito(A=lambda t, v: 0.1 + v[:, 0] ** 2, auxiliary=v).start(
        2, paths, torch.Generator().manual_seed(seed), torch.float64
    )
    moved = path.step(1.0, step)
    z = (path.v - 0.5 - 3.0 * step) / (2.0 * 2.5)  # dv = 3 dt + 2 · 2.5 dZ
    everything = torch.cat([z, moved.brownian[:, :4]], dim=1)
    expected = torch.eye(size + 4, dtype=torch.float64)
    for i in range(size):
        expected[i, size + i] = expected[size + i, i] = leverage
    assert score_of_products(everything, step, expected[None]) < quantile((size + 4) ** 2)


def test_v_is_an_ornstein_uhlenbeck_process_and_its_factor_lies_between_0_and_2():
    """Level 1e-5: at t = 1 by the law of its Euler scheme (which 200 steps bring within 1 % of the diffusion's)."""
    steps, paths, speed, size = 200, 4000, 2.0, 1.5
    noise = dl.stochastic_volatility(A=0.3, mean_reversion=speed, volatility=size)
    path = noise.start(1, paths, torch.Generator().manual_seed(0), torch.float64)
    for k in range(steps):
        path.step(k / steps, 1 / steps)
    variance = size**2 / steps * sum((1 - speed / steps) ** (2 * j) for j in range(steps))
    assert variance == pytest.approx(size**2 / (2 * speed) * (1 - math.exp(-2 * speed)), rel=0.01)
    v = path.v[:, 0].numpy()
    limit = stats.norm.isf(LEVEL / 2 / 3)
    assert abs(v.mean()) < limit * (variance / paths) ** 0.5
    assert abs((v**2).mean() / variance - 1) < limit * (2 / paths) ** 0.5
    assert stats.kstest(v, stats.norm(scale=variance**0.5).cdf).pvalue > LEVEL / 3
    assert not path.noise.auxiliary.initial(3).any()


@pytest.mark.parametrize("kind", MATRIX_KINDS)
def test_the_volatility_factor_multiplies_every_kind_of_covariance(kind):
    a, b = random_matrix_covariance(kind, 2, 1), random_psd(2, 5)
    noise = dl.stochastic_volatility(A=a, b=b)
    v = torch.tensor([[-30.0], [-1.0], [0.0], [math.log(3.0)], [30.0]], dtype=torch.float64)
    x = randn(2, seed=3).expand(5, -1)
    factors = noise.Q(0.3, x, v) / dl.Ito(A=a, b=b).Q(0.3, x)
    expected = torch.tensor([0.0, 2 / (1 + math.e), 1.0, 1.5, 2.0], dtype=torch.float64)
    torch.testing.assert_close(factors, expected[:, None].expand(5, 2), rtol=1e-9, atol=1e-9)
    assert factors.min() > 0.0
    assert factors.max() < 2.0
    assert noise.auxiliary.leverage == -0.7


depth_lists = st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)


@given(
    depths=depth_lists,
    kind=st.sampled_from(["A", "b", "both", "random"]),
    beta=st.sampled_from([0.0, 0.7, 1.0]),
    seed=st.integers(0, 99),
)
def test_layers_are_the_sums_of_the_increments_they_span_plus_the_trend_at_their_start(depths, kind, beta, seed):
    """At every depth at once, whether depths divide each other or not; the trend is read at k/L and at no other time."""
    noise = {
        "A": dl.Ito(A=0.3),
        "b": dl.Ito(b=0.2),
        "both": dl.Ito(A=lambda t: 0.1 + t, b=random_psd(2, 3), drift=DRIFT),
        "random": dl.stochastic_volatility(A=0.3, b=0.2),
    }[kind]
    asked = []

    def matrix(t):
        asked.append(t)
        return (1.0 + t) * TURN

    law = TrendAndNoise(dl.Trend(matrix, lambda t: (2.0 - t) * PUSH), noise, beta)
    reader = make_reader(law, depths, 2, 3, torch.Generator().manual_seed(seed), torch.float64)
    assert isinstance(reader, HypothesisReader)
    sums = [[torch.zeros(3, 2, 2).double(), torch.zeros(3, 2).double()] for _ in depths]
    layers = [0] * len(depths)
    grid = Grid(depths, (2 * depths[-1],))
    for chunk in grid.chunks():
        reader.begin(chunk)
        for index in range(len(chunk.steps)):
            reader.step(index)
            for total in sums:
                total[0] += 0.0 if reader.along.matrix is None else reader.along.matrix
                total[1] += 0.0 if reader.along.bias is None else reader.along.bias
            for j in reversed(range(len(depths))):
                if chunk.ends[index, j]:
                    depth, start = depths[j], layers[j] / depths[j]
                    layer = reader.layer(j)
                    trend = depth**-beta * (1.0 + start) * TURN, depth**-beta * (2.0 - start) * PUSH
                    for mine, summed, own in zip((layer.matrix, layer.bias), sums[j], trend, strict=True):
                        torch.testing.assert_close(mine.expand_as(summed), summed + own, rtol=1e-12, atol=1e-12)
                    assert layer.depth == depth
                    sums[j] = [torch.zeros_like(part) for part in sums[j]]
                    layers[j] += 1
    assert layers == list(depths)
    assert max(asked) < 1.0


def test_a_network_of_three_layers_by_hand():
    """h + L^-α σ(L^-β (Ā(k/L) h + b̄(k/L))), k = 0, 1, 2, beside a depth that 3 does not divide; then with noise."""
    x = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    network = dl.inner(2, "tanh", trend=dl.Trend(DRIFT.A, DRIFT.b), alpha=0.3, beta=0.7)
    _, states, _ = walk(network, [3, 7], x=x, paths=1)
    h = x[0]
    for k in range(3):
        h = h + 3**-0.3 * torch.tanh(3**-0.7 * ((1.0 + k / 3) * TURN @ h + (2.0 - k / 3) * PUSH))
        torch.testing.assert_close(states[3][k + 1][0], h, rtol=1e-13, atol=1e-13)
    noisy = dl.inner(2, "scaled_silu", trend=DRIFT, noise=(noise := dl.Ito(A=random_matrix_covariance("kronecker", 2, 1), b=0.2)))
    _, states, _ = walk(noisy, [3], x=x, paths=1, reference=12, seed=5)
    from deeplimit.randomness import Purpose, generator

    path = noise.start(2, 1, generator(5, Purpose.NETWORK_WEIGHTS, 0, 0), torch.float64)
    steps = [path.step(k / 12, 1 / 12) for k in range(12)]
    h = x[0]
    for k in range(3):
        matrix, bias = (sum(getattr(step, part)[0] for step in steps[4 * k : 4 * k + 4]) for part in ("matrix", "bias"))
        inside = (matrix + (1.0 + k / 3) / 3 * TURN) @ h + bias + (2.0 - k / 3) / 3 * PUSH
        h = h + 2 * inside * torch.sigmoid(inside)
        torch.testing.assert_close(states[3][k + 1][0], h, rtol=1e-12, atol=1e-12)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_the_same_seed_draws_the_same_noise_and_another_seed_another(device, seed):
    noise = dl.stochastic_volatility(A=0.3, b=0.2)
    draws = [
        flat(noise.start(2, 4, torch.Generator(device).manual_seed(given_seed), torch.float64).step(0.0, 0.1))
        for given_seed in (seed, seed, seed + 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
