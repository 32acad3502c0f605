"""The theorem table: every row in the order in which it is asked, and what is said where none matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from deeplimit.common.validation import NoTheoremError
from deeplimit.driving import Facts, FunctionLaw, WeightLaw, together
from deeplimit.equations import Limit
from deeplimit.layers import FullyConnected, Inner
from deeplimit.theory import (
    attention,
    coloured_noise,
    fractional_weights,
    fully_connected,
    functions_of_time,
    in_law,
    independent_layers,
    isotropic,
    noise_outside,
    offset,
    prenorm,
    shaped,
    shrinking_weights,
    smooth_layers,
)
from deeplimit.theory.gradients import none_known
from deeplimit.theory.growth import known_growth
from deeplimit.theory.theorem import (
    REGISTERED,
    Growth,
    Network,
    Regime,
    Theorem,
    failing,
    is_one_of,
    laws,
    measured_without_theorem,
    refusal,
    refused,
    side,
)

ROWS: tuple[Theorem, ...] = (
    *independent_layers.ROWS,
    *in_law.ROWS,
    *isotropic.ROWS,
    *noise_outside.ROWS,
    *offset.ROWS,
    *smooth_layers.ROWS,
    *fractional_weights.ROWS,
    *shrinking_weights.ROWS,
    *fully_connected.ROWS,
    *prenorm.ROWS,
    *attention.ROWS,
    *shaped.ROWS,
    *coloured_noise.ROWS,
)
"""The library's rows; no two of them match the same network."""

REASONS = (
    attention.why_not,
    shaped.why_not,
    shrinking_weights.why_not,
    isotropic.why_not,
    independent_layers.why_not,
    fractional_weights.why_not,
    smooth_layers.why_not,
    fully_connected.why_not,
    prenorm.why_not,
)
"""What is said of a network that no row matches: the first function that knows a reason is used."""

CLOSEST = (
    "res1, res2, res3 or inner with SmoothGaussian or Trend weights and exponent=1 (Proposition 12), or your"
    " row (Theorem.register)."
)


CLOSEST_OF_NOISE = (
    "res1 with Brownian weights and exponent=0.5 (Proposition 11), or your row (Theorem.register)."
)


@final
@dataclass(frozen=True)
class WithoutFactor:
    """`inner` in the place of a fully connected network with δ = 1: the same recursion, bit for bit."""

    recursion: Inner
    width: int
    weights: tuple[WeightLaw, ...]
    exponent: float

    @property
    def facts(self) -> Facts:
        return together(tuple(law.facts.at(self.width) for law in self.weights))


def simplest(network: Network) -> Network:
    """Return `inner` for a fully connected network whose δ is 1 at every time; else the network itself."""
    if not is_one_of(network, FullyConnected):
        return network
    matrix, delta = network.weights
    if not (isinstance(delta, FunctionLaw) and delta.facts.deterministic):
        return network
    if not functions_of_time.is_one(delta):
        return network
    return WithoutFactor(Inner(network.recursion.activation), network.width, (matrix,), network.exponent)


@dataclass(frozen=True)
class Found:
    """What the table says of a network.

    Attributes:
        row: the first row that matches, users' rows before the library's, and none of whose assumptions
            fails; None where there is none.
        regime: what it says of the network.
        network: the network that the row was asked about: a row of the library is asked about the simplest
            form of a network.
        fallen: what rows that match, but have an assumption that fails, would have said.
    """

    row: Theorem | None
    regime: Regime
    network: Network
    fallen: tuple[Regime, ...] = ()


def find(network: Network) -> Found:
    """Return what the table says of a network; "no theorem" where no row matches, or none whose assumptions
    hold.
    """
    fallen: list[Regime] = []
    simple = simplest(network)
    for row, asked in (*((each.row, network) for each in REGISTERED), *((row, simple) for row in ROWS)):
        if row.matches(asked):
            regime = row.regime(asked)
            if not failing(regime.hypotheses):
                return Found(row, regime, asked, tuple(fallen))
            fallen.append(regime)
    explanation, closest = _fails(fallen[0]) if fallen else _reason(simple)
    closest = f"{closest} {measured_without_theorem(simple)}"
    return Found(None, Regime("no theorem", None, None, None, explanation, closest), network, tuple(fallen))


HOLDING = "the same network where this holds."


def _fails(regime: Regime) -> tuple[str, str]:
    """Return why a statement about this network is not named, and the closest setting that has a limit."""
    why = " ".join(each.why for each in failing(regime.hypotheses))
    return (
        f"{regime.theorem or 'the statement on such networks'} does not apply: {why}",
        regime.closest or HOLDING,
    )


def limit_of(network: Network) -> Limit:
    """Return the limit equation; raise NoTheoremError, saying why, where no row gives one."""
    found = find(network)
    if found.row is None:
        raise refusal(network, *(_fails(found.fallen[0]) if found.fallen else _reason(simplest(network))))
    try:
        return found.row.limit(found.network)
    except NoTheoremError as error:
        raise refusal(network, found.regime.explanation, found.regime.closest or CLOSEST) from error


def gradients_of(network: Network) -> Regime:
    """Return what becomes of gradients by the layers' states, by the row that holds for the network."""
    found = find(network)
    said = None if found.row is None else found.row.gradients(found.network)
    return none_known(found.regime, network) if said is None else said


def growth_of(network: Network) -> Growth:
    """Return what is known of the signal's growth with depth: by a registered row, or by the library."""
    for each in REGISTERED:
        if each.row.matches(network) and (said := each.row.growth(network)) is not None:
            return said
    return known_growth(simplest(network))


def in_law_only(network: Network) -> NoTheoremError:
    """Return the refusal of a network whose limit is known in law only, where the same noise is asked for."""
    regime = find(network).regime
    told = refused(network, regime.explanation, regime.closest)
    return NoTheoremError(f"{told} compare_laws compares the laws of h_L and of the limit instead.")


def _reason(network: Network) -> tuple[str, str]:
    """Return why no row matches, and the closest setting that has a limit."""
    for reason in REASONS:
        if (told := reason(network)) is not None:
            return told
    described = ", ".join(dict.fromkeys(law.describe() for law in network.weights))
    natural = [facts.natural_exponent for facts in laws(network)]
    noisy = all(exponent is not None and side(exponent, 0.5) == 0 for exponent in natural)
    closest = CLOSEST_OF_NOISE if noisy else CLOSEST
    return f"no theorem in the table is about {network.recursion.name} with {described}.", closest
