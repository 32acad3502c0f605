"""Pre-norm networks: independent layers lead to a neural SDE, smooth ones to a neural ODE."""

from __future__ import annotations

from collections.abc import Iterator

from deeplimit.driving import IID, SmoothGaussian
from deeplimit.equations import NeuralODE
from deeplimit.layers import PreNorm, Res1, activations
from deeplimit.networks.residual_network import ResidualNetwork, res1
from deeplimit.papers.cases.case import Case, LawCase, WrongTwin, other_path

STATEMENT, _SOURCE = "pre-norm", "derived on the page Pre-norm"
SDE = r"dH = d^{-1/2}\,dB\,\sigma(N(H))"
ODE = r"dH = V_t\,\sigma(N(H))\,dt"
TANH = activations.resolve("tanh")
LEFT_OUT = "A layer reads the state at norm √d, and the state's own norm is another one."


def cases() -> Iterator[Case]:
    """Yield pre-norm networks with limits that leave the norm out, or read another path."""
    network = ResidualNetwork(PreNorm(TANH), width=16)
    wrong: tuple[WrongTwin, ...] = (
        WrongTwin("N left out", res1(16, "tanh").limit(), r"dH = d^{-1/2}\,dB\,\sigma(H)", LEFT_OUT),
        other_path(network.limit(), SDE),
    )
    yield Case(STATEMENT, "tanh, RMS norm, d = 16", network, SDE, 0.5, _SOURCE, wrong, paths=1000)
    smooth = (SmoothGaussian(0.5),)
    network = ResidualNetwork(PreNorm(TANH, "layer"), 6, smooth)
    wrong = (WrongTwin("N left out", NeuralODE(Res1(TANH), smooth, 6), r"dH = V_t\,\sigma(H)\,dt", LEFT_OUT),)
    yield Case(STATEMENT, "tanh, layer norm, smooth weights", network, ODE, 1.0, _SOURCE, wrong, paths=100)


def law_cases() -> Iterator[LawCase]:
    """Yield a pre-norm network whose layers are signs."""
    network = ResidualNetwork(PreNorm(TANH), 4, (IID("rademacher"),))
    left_out = WrongTwin("N left out", res1(4, "tanh").limit(), r"dH = d^{-1/2}\,dB\,\sigma(H)", LEFT_OUT)
    source = f"{_SOURCE}, with Donsker's invariance principle"
    yield LawCase(
        f"{STATEMENT}, in law", "tanh, RMS norm, d = 4, Rademacher", network, SDE, source, (left_out,)
    )
