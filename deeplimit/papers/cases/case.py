"""A known case: a network, its limit with its order, and limits that are wrong in exactly one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from torch import Tensor

from deeplimit.equations import Independent
from deeplimit.networks.residual_network import ResidualNetwork


@final
@dataclass(frozen=True, eq=False, repr=False)
class WrongTwin:
    """A limit that differs from the right one in exactly one way.

    Attributes:
        wrongly: In what the limit is wrong, in a few words.
        limit: The wrong limit.
        equation: The wrong limit in LaTeX.
        reason: Why the network cannot converge to it.
    """

    wrongly: str
    limit: Any
    equation: str
    reason: str

    def __repr__(self) -> str:
        return f"WrongTwin({self.wrongly!r}: {self.equation})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One statement in one setting: what must converge, at which order, and what must not.

    Attributes:
        statement: What is claimed, and by whom; [M] is Marion et al. (2025), [C] Cohen et al. (2021).
        setting: The network in a few words; with `statement` it names the case.
        network: The residual network.
        equation: Its limit in LaTeX, or what happens instead if there is no limit.
        rate: The order of convergence in 1/L; None if the network has no limit.
        source: The theorem or equation that says so.
        wrong: Limits to which the network does not converge; `validate` measures the first one.
        x: Inputs (n, d), used in turn; None for standard normal ones.
        right: The limit, if it is not the one that `network.limit()` gives.
        paths: Paths of a quick `validate`; 0 for a case that `validate` leaves to the tests.
        short: Name of the case in `deeplimit.zoo.pairs`; empty for a case that is not there.
        quantity: What `compare` compares, as its argument of this name.
    """

    statement: str
    setting: str
    network: ResidualNetwork
    equation: str
    rate: float | None
    source: str
    wrong: tuple[WrongTwin, ...]
    x: Tensor | None = None
    right: Any = None
    paths: int = 0
    short: str = ""
    quantity: str = "state"
    in_law: ClassVar[bool] = False
    of_solver: ClassVar[Literal[False]] = False

    def __repr__(self) -> str:
        return f"Case({self.name!r}: {self.network} | {self.equation})"

    @property
    def name(self) -> str:
        """Statement and setting; no other case has the same."""
        return f"{self.statement}: {self.setting}"

    @property
    def limit(self) -> Any:
        """The right limit; raises NoTheoremError if the network has none."""
        return self.network.limit() if self.right is None else self.right

    def pairs(self) -> tuple[Pair, ...]:
        """Return the network with its limit, if it has one, and then with each wrong limit."""
        right = () if self.rate is None else (self._pair(self.short or self.name),)
        return (
            *right,
            *(
                Pair(twin.wrongly, self.network, twin.limit, twin.equation, None, twin.reason)
                for twin in self.wrong
            ),
        )

    def _pair(self, name: str) -> Pair:
        return Pair(name, self.network, self.limit, self.equation, self.rate, self.source)


@final
@dataclass(frozen=True, eq=False, repr=False)
class LawCase:
    """One statement in law in one setting: which law the last state must tend to, and which laws it must not.

    `compare_laws` measures it: nothing is coupled, so there is no order.

    Attributes:
        statement, setting, network, equation, source, x: as in `Case`.
        wrong: Limits whose law is another one; `validate` measures the first one.
        right: The limit, if it is not the one that `network.limit()` gives.
        paths: Draws of a quick `validate`; 0 for a case that `validate` leaves to the tests.
    """

    statement: str
    setting: str
    network: ResidualNetwork
    equation: str
    source: str
    wrong: tuple[WrongTwin, ...]
    x: Tensor | None = None
    right: Any = None
    paths: int = 0
    quantity: ClassVar[str] = "state"
    in_law: ClassVar[bool] = True
    of_solver: ClassVar[Literal[False]] = False

    def __repr__(self) -> str:
        return f"LawCase({self.name!r}: {self.network} | {self.equation})"

    @property
    def name(self) -> str:
        """Statement and setting; no other case has the same."""
        return f"{self.statement}: {self.setting}"

    @property
    def limit(self) -> Any:
        """The right limit."""
        return self.network.limit() if self.right is None else self.right


@final
@dataclass(frozen=True, repr=False)
class Pair:
    """A network, a limit, and what must come of comparing them.

    Attributes:
        name: A few words.
        network: The residual network.
        limit: What it is compared with.
        equation: The limit in LaTeX.
        rate: The order if the limit is right; None if it is wrong.
        source: The theorem of a right limit; of a wrong one, why the network cannot converge to it.
    """

    name: str
    network: ResidualNetwork
    limit: Any
    equation: str
    rate: float | None
    source: str

    def __repr__(self) -> str:
        return f"Pair({self.name!r}: {self.network} | {self.equation} | must be {self.verdict!r})"

    @property
    def verdict(self) -> str:
        """The verdict that `compare` must reach, given enough paths and depths."""
        return "does not converge" if self.rate is None else "converges"


def other_path(limit: Any, equation: str, wrongly: str = "independent noise") -> WrongTwin:
    """Return the limit driven by separate weights: the right law on another path."""
    return WrongTwin(
        wrongly, Independent(limit), equation, "The law is right but the path is another one, at every depth."
    )
