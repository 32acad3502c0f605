"""Settings in which the noise can be drawn through its products, runs that keep their states, and faulty
products.
"""

import dataclasses
import inspect
from dataclasses import dataclass
from typing import ClassVar

import torch
from hypothesis import strategies as st
from noises import randn, random_psd

import deeplimit as dl
from deeplimit.layers import Res1
from deeplimit.simulation import make_task, pathwise
from deeplimit.simulation.kernels import products, projected
from deeplimit.simulation.moments import ErrorAccumulator

CPU = torch.device("cpu")


def turning(h):
    """A user's σ that changes fast, so that the vectors of coarse layers are far from the reference's; slope
    1, curvature 0.
    """
    return torch.sin(2.0 * h) / 2.0


@dataclass(frozen=True)
class Setting:
    """A network, a limit and how they are compared."""

    network: dl.ResidualNetwork
    limit: object
    depths: tuple[int, ...]
    norm: str = "sup"
    reference: int | None = None
    same_network: bool = False

    def task(self, coupling, paths, seed, dtype=torch.float64):
        """Return the task of one block that holds all paths, each starting at one of three inputs."""
        task = make_task(
            self.network,
            self.limit,
            randn(3, self.network.width, seed=7),
            depths=self.depths,
            reference=self.reference,
            norm=self.norm,
            p=2.0,
            paths=paths,
            seed=seed,
            device=CPU,
            dtype=dtype,
            tolerance=None,
            coupling=coupling,
            same_network=self.same_network,
        )
        return dataclasses.replace(task, block_size=paths)


class Recorder(ErrorAccumulator):
    """An accumulator that keeps the states at the times that all depths share, and itself."""

    made: ClassVar = []

    def __init__(self, task, h0):
        super().__init__(task, h0)
        self.kept = [[] for _ in range(2 * len(task.grid.depths) + 2)]
        Recorder.made.append(self)

    def at(self, limit, coarse, is_common):
        super().at(limit, coarse, is_common)
        if is_common:
            self.kept[0].append(limit)
            if coarse is not None:
                self.kept[1].append(coarse)

    def layer(self, j, state, scheme=None):
        super().layer(j, state, scheme)
        if self.is_common:
            self.kept[2 + j].append(state)
            if scheme is not None:
                self.kept[2 + len(self.kept) // 2 - 1 + j].append(scheme)

    def states(self):
        """Return the limit's states (P, n) and the others' (P, m): at an inner time that all depths share,
        and at the end.
        """
        limit, *others = ([states[(len(states) - 1) // 2], states[-1]] for states in self.kept if states)
        return torch.cat(limit, dim=1), torch.cat([state for states in others for state in states], dim=1)


def all_recorded(task):
    """Run the one block of a task, as its coupling says, and return a recorder for each input that goes
    through a network.
    """
    module = {"pathwise": pathwise, "projected": projected}[task.coupling]
    Recorder.made.clear()
    module.run_block(task, 0, accumulator=Recorder)
    return list(Recorder.made)


def run_recorded(task):
    """Return the recorder of a task whose paths have one input each."""
    (recorder,) = all_recorded(task)
    return recorder


def faulty(*changes):
    """Return `Products` with lines replaced, each of which must occur once."""
    source = inspect.getsource(products.Products)
    for line, other in changes:
        assert source.count(line) == 1, (
            f"the fault no longer fits: {line!r} occurs {source.count(line)} times"
        )
        source = source.replace(line, other)
    namespace = dict(vars(products))
    exec(source, namespace)
    return namespace["Products"]


# What is left out or put wrong in `Products`, line by line.
REDUCTION = "self.overlap.sub_(share[:, :, None] * share[:, None])"
SHARES = "share[:, :, None] * share[:, None]"
FAULTS = {
    "the other columns are told nothing": [
        ("self.known.addcmul_(share.T[:, None], normals)", "share = torch.zeros_like(share)")
    ],
    "the others' known parts do not move": [("self.known.addcmul_(share.T[:, None], normals)", "pass")],
    "residuals are not drawn": [
        ("torch.addcmul(self.known[column], normals, deviation)", "self.known[column].clone()")
    ],
    "what is left of the others is not reduced": [
        (REDUCTION, f"self.overlap.sub_({SHARES} - torch.diag_embed(share.square()))"),
    ],
    "the others' overlaps are not updated": [
        (REDUCTION, "self.overlap.sub_(torch.diag_embed(share.square()))")
    ],
    "the reference tells nothing": [("self.known.addcmul_(along, fresh, value=root)", "pass")],
    "time in place of its root": [("root = math.sqrt(step)", "root = step")],
    "a layer remembers what the last one was told": [("self.known[column] = 0.0", "pass")],
    "overlaps are not weighted by time": [
        (
            "self.overlap.baddbmm_(residual, residual.mT, alpha=step)",
            "self.overlap.baddbmm_(residual, residual.mT)",
        )
    ],
    "the reference's part is drawn twice": [
        (
            "value=-1.0)\n        residual = residual.permute",
            "value=0.0)\n        residual = residual.permute",
        )
    ],
}


def push(width):
    """A trend that turns with time, with biases."""
    a, c, b = randn(width, width, seed=21), randn(width, width, seed=22), randn(width, seed=23)
    size = 0.7 / width**0.5
    return dl.Trend(lambda t: size * (a + t * c), lambda t: 0.4 * (1.0 - 2.0 * t) * b)


def matrix_covariance(kind, width):
    if kind == "number":
        return 0.6 / width
    if kind == "entries":
        return (
            0.3
            / width
            * torch.outer(randn(width, seed=31).square() + 0.2, randn(width, seed=32).square() + 0.2)
        )
    return dl.Kronecker(random_psd(width, 33), random_psd(width, 34) / width)


def vector_covariance(kind, width):
    if kind == "matrix":
        return 0.3 * random_psd(width, 35)
    return {"none": None, "number": 0.2, "entries": 0.1 + 0.2 * randn(width, seed=36).abs()}[kind]


def neural_sde(activation, width):
    return dl.NeuralSDE(Res1(dl.activations.resolve(activation)), (dl.Brownian(),), width)


DEPTHS = st.sampled_from([(2, 4, 8), (4, 6, 10), (2, 3, 7), (3, 6, 12), (4, 6, 12), (2, 5, 8, 10)])
NORMS = st.sampled_from(["sup", "final", "sup-continuous"])


@st.composite
def res1_settings(draw):
    width, activation = draw(st.integers(2, 9)), draw(st.sampled_from(["tanh", "relu", turning, "identity"]))
    law = draw(st.sampled_from([dl.Brownian(), dl.IID("gaussian")]))
    chosen = draw(st.sampled_from(["own", "own", "another's", "identity", "independent", "of other noise"]))
    network = dl.res1(width, activation, weights=law, exponent=1.0 if chosen == "identity" else 0.5)
    limit = {
        "own": network.limit,
        "another's": lambda: neural_sde("silu", width),
        "identity": dl.Identity,
        "independent": lambda: dl.Independent(network.limit()),
        "of other noise": lambda: dl.ItoCorrectedSDE(
            dl.Ito(A=matrix_covariance("kronecker", width)), None, width
        ),
    }[chosen]()
    return Setting(
        network, limit, draw(DEPTHS), draw(NORMS), same_network=draw(st.sampled_from([False, False, True]))
    )


@st.composite
def inner_settings(draw):
    width = draw(st.integers(2, 9))
    matrix = draw(st.sampled_from(["number", "entries", "kronecker"]))
    vector = draw(st.sampled_from(["none", "number", "entries", "matrix"]))
    noise = dl.Ito(A=matrix_covariance(matrix, width), b=vector_covariance(vector, width))
    trend = draw(st.sampled_from([None, push(width), dl.SmoothGaussian(0.5)]))
    chosen = draw(st.sampled_from(["own", "own", "another's", "of other noise", "independent", "linear"]))
    exponents = (
        (0.5, 0.5) if chosen == "linear" and trend is not None else (0.0, draw(st.sampled_from([1.0, 1.5])))
    )
    activation = draw(st.sampled_from(["tanh", "scaled_softplus", turning]))
    network = dl.inner(width, activation, trend=trend, noise=noise, alpha=exponents[0], beta=exponents[1])
    limit = network.limit()
    if chosen == "another's" and vector == "none":
        limit = neural_sde("tanh", width)
    elif chosen == "another's":
        limit = dl.inner(width, "scaled_softplus", trend=push(width), noise=noise).limit()
    elif chosen == "of other noise":
        other = dl.Ito(A=matrix_covariance("entries", width), b=None if vector == "none" else 0.1)
        limit = dataclasses.replace(network.limit(), noise=other)
    elif chosen == "independent":
        limit = dl.Independent(limit)
    return Setting(
        network, limit, draw(DEPTHS), draw(NORMS), same_network=draw(st.sampled_from([False, False, True]))
    )
