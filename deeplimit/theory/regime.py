"""What a theorem says of a network: what becomes of it as its depth grows, and how its signal grows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deeplimit.theory.hypotheses import Hypothesis, Truth


@dataclass(frozen=True)
class Regime:
    """What becomes of a network as its depth grows.

    Attributes:
        name: "sde", "ode", "linear-ode", "young", "identity", "explosion", or "no theorem"; a registered row
            may use another name.
        theorem: The statement that says so, or None.
        rate: Order r in e_L ~ L**-r on the layer grid, or None where no order is known. Special weights may
            cancel the first term of an error, and only those have a steeper order.
        convergence: "pathwise" (on the same noise), "in law", or None.
        explanation: Why, in sentences.
        closest: The nearest setting that has a limit; empty where this one has.
        corrections: Powers of 1/L by which further terms of the error are smaller than its first; products of
            such terms are terms again.
        second_orders: Powers among them of an independent source of error, which may be larger than the first
            at small depth.
        interfere: Whether those sources may correlate with the first; if not, only their squares add.
        hides: Whether a second source may be many times the first at every depth that can be run. Errors
            that fall nearly as fast as the second then do not reveal the order.
        hypotheses: The statement's assumptions held against this network: none of them fails where it is
            named. `checked` and `not_checked` are their sentences.
        citations: Keys or BibTeX entries of the publications that the statement comes from.
        rate_is_bound: Whether `rate` is only a lower bound of the order: every steeper order is in accord
            with the statement.
        scheme_rate: Order of the limit's own scheme on the network's layers.
        gap: Order and further terms of the distance between the network and that scheme, as another regime;
            None where the network is the scheme, or nothing is known.
    """

    name: str
    theorem: str | None
    rate: float | None
    convergence: str | None
    explanation: str
    closest: str = ""
    corrections: tuple[float, ...] = (1.0,)
    second_orders: tuple[float, ...] = ()
    interfere: bool = False
    hides: bool = False
    hypotheses: tuple[Hypothesis, ...] = ()
    citations: tuple[str, ...] = ()
    rate_is_bound: bool = False
    scheme_rate: float = 0.5
    gap: Regime | None = None

    @property
    def checked(self) -> tuple[str, ...]:
        """Assumptions of the statement that were checked and hold, as sentences."""
        return tuple(each.why for each in self.hypotheses if each.truth is Truth.HOLDS)

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Assumptions that are not known to hold, and what nobody has stated of the weights, as sentences."""
        return tuple(each.why for each in self.hypotheses if each.truth is Truth.UNKNOWN)

    def under(self, *hypotheses: Hypothesis) -> Regime:
        """Return the same with further assumptions."""
        return replace(self, hypotheses=(*self.hypotheses, *hypotheses))

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.explanation}"]
        if self.theorem is not None:
            least = "at least " if self.rate_is_bound else ""
            rate = "" if self.rate is None else f"; order {least}{self.rate:g} in 1/L"
            lines.append(f"  by {self.theorem}{rate}")
        lines += [f"  checked: {sentence}" for sentence in self.checked]
        lines += [f"  not checked: {sentence}" for sentence in self.not_checked]
        if self.closest:
            lines.append(f"  closest: {self.closest}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # what IPython and notebooks show
        printer.text(str(self))


@dataclass(frozen=True)
class Growth:
    """What is known of |h_L - h_0|²/|h_0|² as the depth L grows; None where nothing is known.

    Attributes:
        critical: Residual exponent between explosion and identity.
        predicted: γ in |h_L - h_0|²/|h_0|² ~ L^γ (log(1 + ...) ~ L^γ where it explodes exponentially).
        vanishes_beyond: Largest residual exponent at which the change is known not to vanish.
        faster: Power of 1/L by which the incoherent part of a change is smaller than the coherent one; None
            where there is only one part, too.
    """

    critical: float | None = None
    predicted: float | None = None
    vanishes_beyond: float | None = None
    faster: float | None = None
