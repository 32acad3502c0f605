"""What becomes of a network as its depth grows, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Regime:
    """What becomes of a network as its depth grows.

    Attributes:
        name: "sde", "ode", "linear-ode", "young", "identity", "explosion", or "no theorem".
        theorem: The statement that says so, or None.
        rate: The order r in e_L ~ L**-r on the layer grid, or None where there is no pathwise limit.
        convergence: "pathwise" (on the same noise), "in law", or None.
        explanation: Sentences for a person: why, what was assumed, what was not checked.
        closest: The nearest setting that has a pathwise limit; empty where this one has.
        corrections: Powers of 1/L by which further terms of the error are smaller than its first; products of
            such terms are terms again.
        seconds: Those that belong to contributions of their own, which may be larger than the first at small
            depth.
        interfere: Whether those may correlate with the first; if not, only their squares add.
        hides: Whether a second contribution may be many times the first at every depth that can be run, so
            that errors which fall nearly as fast as it does say nothing of the order.
    """

    name: str
    theorem: str | None
    rate: float | None
    convergence: str | None
    explanation: str
    closest: str = ""
    corrections: tuple[float, ...] = (1.0,)
    seconds: tuple[float, ...] = ()
    interfere: bool = False
    hides: bool = False

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.explanation}"]
        if self.theorem is not None:
            rate = "" if self.rate is None else f"; order {self.rate:g} in 1/L"
            lines.append(f"  by {self.theorem}{rate}")
        if self.closest:
            lines.append(f"  closest: {self.closest}")
        return "\n".join(lines)
