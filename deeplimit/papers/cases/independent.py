"""Independent layers: the neural SDE, the identity, and exponents at which there is no limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from deeplimit.driving import SmoothGaussian
from deeplimit.equations import Independent, NeuralSDE
from deeplimit.networks.residual_network import ResidualNetwork, res1
from deeplimit.papers.cases.case import Case, WrongTwin, other_path
from deeplimit.papers.cases.trends import WIDTH
from deeplimit.papers.cases.wrong_limits import AlteredSDE, stratonovich_drift, tanh_derivative

PROPOSITION_11, COROLLARY_5 = "[M] Prop. 11", "[M] Cor. 5"
_SOURCE_11, _SOURCE_5 = "Marion et al. (2025), Prop. 11", "Marion et al. (2025), Cor. 5"
NEURAL_SDE = r"dH = d^{-1/2}\,dB\,\sigma(H)"


def sde_of(network: ResidualNetwork) -> NeuralSDE:
    """Return the neural SDE that is the limit of this network."""
    return cast(NeuralSDE, network.limit())


def _too_large(sde: NeuralSDE) -> WrongTwin:
    return WrongTwin(
        "diffusion 10 % too large",
        AlteredSDE(sde, diffusion_scale=1.1),
        r"dH = 1.1\,d^{-1/2}\,dB\,\sigma(H)",
        "A constant factor 1.1 stays at every depth.",
    )


def cases(width: int = WIDTH) -> Iterator[Case]:
    """Yield the cases with independent Gaussian layers; `width` is that of the cases `zoo.pairs` shows."""
    for d, activation in ((16, "tanh"), (16, "softplus"), (4, "sin")):
        network = res1(d, activation)
        yield Case(
            PROPOSITION_11,
            f"res-1, {activation}, d = {d}",
            network,
            NEURAL_SDE,
            0.5,
            _SOURCE_11,
            (other_path(sde_of(network), NEURAL_SDE),),
            paths=1000,
        )
    network = res1(6, "tanh")
    wrong = (_too_large(sde_of(network)),)
    yield Case(PROPOSITION_11, "res-1, tanh, d = 6", network, NEURAL_SDE, 0.5, _SOURCE_11, wrong, paths=1000)
    network = res1(width, "tanh")
    short = "res-1, Gaussian"
    yield Case(PROPOSITION_11, short, network, NEURAL_SDE, 0.5, _SOURCE_11, _wrong_sdes(network), short=short)
    yield _too_small_a_branch(width)
    yield from _explosions()


def _wrong_sdes(network: ResidualNetwork) -> tuple[WrongTwin, ...]:
    sde = sde_of(network)
    return (
        other_path(sde, NEURAL_SDE),
        WrongTwin(
            "transposed noise",
            AlteredSDE(sde, transpose=True),
            r"dH = d^{-1/2}\,dB^\top\sigma(H)",
            "The transpose has the same law but is another path, at every depth.",
        ),
        _too_large(sde),
        WrongTwin(
            "Stratonovich for Itô",
            AlteredSDE(sde, drift=stratonovich_drift(sde, tanh_derivative)),
            r"dH = d^{-1/2}\,dB\circ\sigma(H)",
            "Stratonovich's reading adds the drift ½σσ'/d, which stays at every depth.",
        ),
        WrongTwin(
            "ODE for the SDE network",
            Independent(res1(network.width, "tanh", weights=SmoothGaussian(0.2)).limit()),
            r"dH = V_t\,\sigma(H)\,dt",
            "The weights are independent from layer to layer, and no function of time.",
        ),
    )


def _too_small_a_branch(width: int) -> Case:
    network = res1(width, "tanh", exponent=0.8)
    kept = WrongTwin(
        "SDE for a branch that vanishes",
        sde_of(res1(width, "tanh")),
        NEURAL_SDE,
        "At β = 0.8 the sum of all updates shrinks as L^-0.3, and no diffusion is left.",
    )
    short = "too small a branch"
    return Case(COROLLARY_5, short, network, "dH = 0", 0.3, _SOURCE_5, (kept,), short=short)


def _explosions() -> Iterator[Case]:
    """Yield networks that have no limit; linear ones of width 9, for which Corollary 5 is proved."""
    for exponent in (0.45, 0.4):
        expected = WrongTwin(
            f"SDE of β = 1/2 at β = {exponent:g}",
            sde_of(res1(9, "identity")),
            r"dH = d^{-1/2}\,dB\,H",
            f"E‖h_L‖² = (1 + L^-{2 * exponent:.1f})^L E‖h_0‖², which grows as exp(L^{1 - 2 * exponent:.1f}).",
        )
        yield Case(
            COROLLARY_5,
            f"res-1, identity, d = 9, β = {exponent:g}: explosion",
            res1(9, "identity", exponent=exponent),
            r"E\,\|h_L\|^2 \to \infty",
            None,
            _SOURCE_5,
            (expected,),
        )
