"""A row of the theorem table: which networks a statement is about, and what it says of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from deeplimit.common import validation
from deeplimit.common.validation import NoTheoremError
from deeplimit.driving import Facts, WeightLaw
from deeplimit.equations import Limit
from deeplimit.layers import Recursion
from deeplimit.theory.hypotheses import Hypothesis
from deeplimit.theory.regime import Growth, Regime


class Network(Protocol):
    """What a row sees of a network: its recursion, its width, its weight laws and what is known of them."""

    @property
    def recursion(self) -> Recursion: ...

    @property
    def width(self) -> int: ...

    @property
    def weights(self) -> tuple[WeightLaw, ...]: ...

    @property
    def exponent(self) -> float: ...

    @property
    def facts(self) -> Facts: ...


class Theorem(ABC):
    """A row of the theorem table: one statement, the networks it is about, and what it says of them.

    The rows that users registered are asked first, the latest before earlier ones, then those of the library.
    The first row that matches, and none of whose hypotheses fails, is used; other networks have no theorem.
    `matches` compares the exact type of the recursion and the facts that the weight laws state
    (`network.facts`). No theorem is assumed for a subclass. NOT checked: that a registered statement is true;
    `compare` and `compare_laws` measure it.

    Examples:
        >>> import torch, deeplimit as dl
        >>> class Held(dl.Theorem):
        ...     def matches(self, network):
        ...         return network.width == 3 and network.facts.deterministic
        ...     def regime(self, network):
        ...         return dl.Regime("ode", "Theorem 1 of Doe (2026)", 1.0, "pathwise", "weights are fixed.")
        >>> network = dl.res1(3, "tanh", weights=dl.Trend(lambda t: t * torch.eye(3)))
        >>> with dl.Theorem.register(Held()):
        ...     network.regime().theorem
        'Theorem 1 of Doe (2026)'
        >>> network.regime().theorem
        'Proposition 12 of Marion et al. (2025)'
    """

    @abstractmethod
    def matches(self, network: Network) -> bool:
        """Return whether the statement is about this network."""

    @abstractmethod
    def regime(self, network: Network) -> Regime:
        """Return what the statement says of a network that it matches."""

    def limit(self, network: Network) -> Limit:
        """Return the limit equation of a network that the statement matches.

        Raises NoTheoremError where the statement has no equation.
        """
        raise NoTheoremError("the statement gives no limit equation")

    def growth(self, network: Network) -> Growth | None:
        """Return how the signal grows with depth; None where the statement says nothing of it."""
        return None

    def gradients(self, network: Network) -> Regime | None:
        """Return what follows for gradients by the layers' states; None where the statement says nothing."""
        return None

    @staticmethod
    def register(
        row: Theorem | None = None,
        *,
        matches: Callable[[Network], bool] | None = None,
        name: str = "",
        statement: str = "",
        limit: Callable[[Network], Limit] | None = None,
        rate: float | None = None,
        convergence: str | None = "pathwise",
        explanation: str = "",
        corrections: tuple[float, ...] = (1.0,),
        hypotheses: Callable[[Network], tuple[Hypothesis, ...]] | None = None,
        checked: tuple[str, ...] = (),
        not_checked: tuple[str, ...] = (),
        citation: str = "",
        rate_is_bound: bool = False,
    ) -> Registration:
        """Put a row before all others; return what removes it, by `remove()` or at the end of a `with`.

        Args:
            row: A `Theorem`; or None, and the row is made of what follows.
            matches: Function of the network that says whether the statement is about it.
            name: What the network becomes, as `Regime.name`: "ode", "sde", "identity" or another word.
            statement: The theorem as reports name it; `citation` if left out.
            limit: Function of the network that returns the limit equation; None where there is none to pair
                with.
            rate: Order r in e_L ~ L**-r on the layer grid, at least 0; None where it is not known.
            convergence: "pathwise", "in law", or None.
            explanation: Why, in sentences.
            corrections: Powers of 1/L of further terms of the error, as in `Regime`.
            hypotheses: Function of the network that returns a tuple of `Hypothesis`; where one of them
                fails, the statement is not named.
            checked: Assumptions that `matches` checks, as sentences. not_checked: Assumptions that it does
                not.
            citation: Where the statement is from: a BibTeX entry, or a line such as "Doe (2026), Theorem 1".
            rate_is_bound: Whether `rate` is only a lower bound of the order, as in `Regime`.

        Raises:
            TypeError: For a row that is not a `Theorem`, functions that cannot be called, a limit in place of
                a function that returns one, or texts and powers of another kind.
            ValueError: For both a row and `matches`, neither, or a value that `Regime` does not allow.

        NOT checked: that the statement is true.

        Examples:
            >>> import deeplimit as dl
            >>> from deeplimit.layers import Inner
            >>> row = dl.Theorem.register(
            ...     matches=lambda network: type(network.recursion) is Inner and network.exponent == 0.75,
            ...     name="identity", limit=lambda network: dl.Identity(), rate=0.25, citation="Doe (2026)")
            >>> dl.inner(2, "tanh", weights=dl.AR1(0.5), exponent=0.75).regime().rate
            0.25
            >>> row.remove()
            >>> dl.inner(2, "tanh", weights=dl.AR1(0.5), exponent=0.75).regime().name
            'no theorem'
        """
        if (row is None) == (matches is None):
            raise ValueError(
                "register takes either a row (a Theorem) or matches= with name=, limit= and rate=; got"
                f" {'neither' if row is None else 'both'}."
            )
        if row is None:
            _check_texts(name, statement, explanation, citation)
            _check_listed(corrections, checked, not_checked)
            row = _made(
                matches,
                limit,
                hypotheses,
                Regime(
                    name,
                    statement or citation or None,
                    rate,
                    convergence,
                    explanation or f"a registered theorem says so ({statement or citation or 'unnamed'}).",
                    corrections=corrections,
                    hypotheses=(
                        *(Hypothesis.holds(text, text) for text in checked),
                        *(Hypothesis.unknown(text, text) for text in not_checked),
                    ),
                    citations=(citation,) if citation else (),
                    rate_is_bound=rate_is_bound,
                ),
            )
        if not isinstance(row, Theorem):
            raise TypeError(f"row must be a Theorem, made by its own class; got {validation.named(row)}.")
        registration = Registration(row)
        _registered.insert(0, registration)
        return registration


@dataclass(frozen=True, eq=False)
class Registration:
    """A registered row; `remove`, or the end of a `with` block, takes it out of the table again."""

    row: Theorem

    def remove(self) -> None:
        """Take the row out of the table; once removed, doing so again changes nothing."""
        if self in _registered:
            _registered.remove(self)

    def __enter__(self) -> Theorem:
        return self.row

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


_registered: list[Registration] = []


def registered() -> tuple[Theorem, ...]:
    """Return the rows that users registered, the latest first."""
    return tuple(registration.row for registration in _registered)


@dataclass(frozen=True)
class _Given(Theorem):
    """A row made of functions."""

    about: Callable[[Network], bool]
    equation: Callable[[Network], Limit] | None
    assumes: Callable[[Network], tuple[Hypothesis, ...]] | None
    says: Regime

    def matches(self, network: Network) -> bool:
        return bool(self.about(network))

    def regime(self, network: Network) -> Regime:
        return self.says if self.assumes is None else self.says.under(*self._held(network))

    def _held(self, network: Network) -> tuple[Hypothesis, ...]:
        held = self.assumes(network) if self.assumes is not None else ()
        if not isinstance(held, tuple) or not all(isinstance(each, Hypothesis) for each in held):
            raise TypeError(
                "hypotheses must return a tuple of Hypothesis, such as (Hypothesis.unknown('smooth', 'that σ"
                f" is smooth.'),); got {validation.named(held)}."
            )
        return held

    def limit(self, network: Network) -> Limit:
        return super().limit(network) if self.equation is None else self.equation(network)


def _check_texts(name: object, statement: object, explanation: object, citation: object) -> None:
    given = {"name": name, "statement": statement, "explanation": explanation, "citation": citation}
    for argument, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{argument} must be a text; got {validation.named(value)}.")


def _check_listed(corrections: object, checked: object, not_checked: object) -> None:
    for argument, value in {"checked": checked, "not_checked": not_checked}.items():
        if not isinstance(value, tuple) or not all(isinstance(text, str) for text in value):
            raise TypeError(
                f"{argument} must be a tuple of texts, such as ('that paths stay bounded.',); got"
                f" {validation.named(value)}."
            )
    if not isinstance(corrections, tuple) or not corrections:
        raise TypeError(
            "corrections must be a tuple of powers of 1/L, at least one, such as (0.5, 1.0); got"
            f" {validation.named(corrections)}."
        )
    for power in corrections:
        validation.real(power, "every power in corrections", above=0.0, hint="They are powers of 1/L.")


def _made(matches: object, limit: object, hypotheses: object, says: Regime) -> _Given:
    functions = (("matches", matches), ("limit", limit), ("hypotheses", hypotheses))
    for argument, value in functions:
        if not callable(value) and not (argument != "matches" and value is None):
            raise TypeError(f"{argument} must be a function of the network; got {validation.named(value)}.")
    if isinstance(limit, Limit) or (isinstance(limit, type) and issubclass(limit, Limit)):
        kind = limit if isinstance(limit, type) else type(limit)
        raise TypeError(
            f"limit must be a function of the network that returns a limit; got {validation.named(limit)}."
            f" Write limit=lambda network: {kind.__name__}(...)."
        )
    for argument, value in functions:
        if value is not None and not validation.takes(value, 1):
            raise TypeError(
                f"{argument} must take one argument, the network; got {validation.named(value)}. Write"
                f" {argument}=lambda network: ..."
            )
    if not says.name:
        raise ValueError("name must say what the network becomes, such as 'ode'; got ''.")
    if says.rate is not None:
        validation.real(says.rate, "rate", minimum=0.0, hint="it is the order r in e_L ~ L**-r.")
    if not isinstance(says.rate_is_bound, bool):
        raise TypeError(f"rate_is_bound must be True or False; got {validation.named(says.rate_is_bound)}.")
    if says.rate_is_bound and says.rate is None:
        raise ValueError("rate_is_bound=True says that rate is a lower bound, and rate is None; give rate=.")
    if says.convergence not in ("pathwise", "in law", None):
        raise ValueError(f"convergence must be 'pathwise', 'in law' or None; got {says.convergence!r}.")
    if limit is not None and says.convergence is None:
        raise ValueError(
            "convergence must be 'pathwise' or 'in law' where limit= is given; got None, which says that the"
            " network does not tend to it."
        )
    return _Given(matches, limit, hypotheses, says)  # type: ignore[arg-type]  # both were found to be functions
