"""What a row of the theorem table is: the networks that a statement is about, its assumptions, what it says.

Assumptions are held against one network: each holds, fails, or is not known. One that fails forbids the row;
those that are not known are said wherever the row is named, and a measurement that contradicts the row names
them before it blames the limit. Questions that several rows ask of a network are at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol, Self

from deeplimit.common import validation
from deeplimit.common.validation import NoTheoremError
from deeplimit.driving import Dependence, Facts, WeightLaw
from deeplimit.equations import Limit
from deeplimit.layers import Inner, ModuleBlocks, Recursion, Res1, Res2, Res3
from deeplimit.layers.activations import steepening
from deeplimit.theory.orders import SAME


class Truth(StrEnum):
    """What is known of an assumption."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Hypothesis:
    """One assumption of a statement, held against one network.

    `Hypothesis.holds`, `Hypothesis.fails` and `Hypothesis.unknown` make one.

    Attributes:
        name: What is assumed, in a few words, the same for every network.
        truth: Whether it holds, fails, or is not known.
        why: What was found, or what would have to be known, as a sentence.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Hypothesis.fails("width at least 9", "the width is 4.").truth.value
        'fails'
    """

    name: str
    truth: Truth
    why: str

    @classmethod
    def holds(cls, name: str, why: str) -> Self:
        """Return an assumption that was checked, and holds."""
        return cls(name, Truth.HOLDS, why)

    @classmethod
    def fails(cls, name: str, why: str) -> Self:
        """Return an assumption that was checked, and does not hold."""
        return cls(name, Truth.FAILS, why)

    @classmethod
    def unknown(cls, name: str, why: str) -> Self:
        """Return an assumption that nobody has stated or checked."""
        return cls(name, Truth.UNKNOWN, why)


def failing(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """Return those that fail."""
    return tuple(each for each in hypotheses if each.truth is Truth.FAILS)


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
        is_series: Whether these terms are a series in one small number with coefficients of order 1, so that
            each is smaller than the first by its own power.
        hides: Whether a second source may be many times the first at every depth that can be run. Errors
            that fall nearly as fast as the second then do not reveal the order.
        hypotheses: The statement's assumptions held against this network: none of them fails where it is
            named. `checked` and `not_checked` are their sentences.
        citations: Keys or BibTeX entries of the publications that the statement comes from.
        rate_is_bound: Whether `rate` is only a lower bound of the order: every steeper order is in accord
            with the statement.
        moments: Whether errors may have moments. Where they have none, convergence is in probability.
        scheme_rate: Order of the limit's own scheme on the network's layers.
        scheme_corrections: Powers of 1/L by which further terms of its error are smaller.
        scheme_second_orders: Powers among them of an independent source, as in `second_orders`.
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
    moments: bool = True
    is_series: bool = False
    scheme_rate: float = 0.5
    scheme_corrections: tuple[float, ...] = (1.0,)
    scheme_second_orders: tuple[float, ...] = ()
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
            checked: Assumptions that `matches` checks, as sentences.
            not_checked: Assumptions that it does not.
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
        REGISTERED.insert(0, registration)
        return registration


@dataclass(frozen=True, eq=False)
class Registration:
    """A registered row; `remove`, or the end of a `with` block, takes it out of the table again."""

    row: Theorem

    def remove(self) -> None:
        """Take the row out of the table; once removed, doing so again changes nothing."""
        if self in REGISTERED:
            REGISTERED.remove(self)

    def __enter__(self) -> Theorem:
        return self.row

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


REGISTERED: list[Registration] = []
"""What users registered, the latest first."""


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


MARION = "of Marion et al. (2025)"
COHEN = "of Cohen et al. (2021)"
MARION_KEY, COHEN_KEY, HU_KEY = "marion2025", "cohen2021", "hu2016"

PAPERS: tuple[type[Recursion], ...] = (Res1, Res2, Res3, Inner)
"""The recursions of Marion et al. (2025), Table 1 and Remark 2: h + L^-exponent V σ(W h + b), V or W left
out.
"""

OUTER: dict[type[Recursion], int] = {Res1: 0, Res2: 0, Res3: 0}
INNER: dict[type[Recursion], int] = {Res2: 1, Res3: 1, Inner: 0}
"""Which weight multiplies outside σ, and which inside, by the exact type of the recursion."""


def is_one_of(network: Network, *kinds: type[Recursion]) -> bool:
    """Return whether the recursion is exactly of one of these types, and has as many weights as it reads."""
    kind = type(network.recursion)
    return kind in kinds and len(network.weights) == len(kind.weights)


def sides(network: Network) -> tuple[Facts | None, Facts | None]:
    """Return what is known of the weight outside σ and of the one inside; None where there is none.

    The network must be of one of the papers' recursions.
    """
    kind, facts = type(network.recursion), laws(network)
    outer, inner = OUTER.get(kind), INNER.get(kind)
    return None if outer is None else facts[outer], None if inner is None else facts[inner]


def laws(network: Network) -> tuple[Facts, ...]:
    """Return what is known of each weight law, at the network's width."""
    return tuple(law.facts.at(network.width) for law in network.weights)


def are_independent(facts: Facts) -> bool:
    """Return whether layers are independent of each other, with entries as (A1) of Marion et al. (2025) asks.

    Entries of unit variance whose independence is stated, or was tested on draws and not refuted.
    """
    entries = facts.independent_entries is True or (facts.independent_entries is None and bool(facts.tested))
    return facts.dependence == Dependence.INDEPENDENT and facts.unit_variance and entries and not facts.found


def layers_are_independent(network: Network) -> bool:
    """Return whether `are_independent` holds of every weight."""
    return all(are_independent(facts) for facts in laws(network))


def layers_are_functions(network: Network) -> bool:
    """Return whether layers are values of functions of time whose Hölder exponent is stated."""
    return all(facts.dependence == Dependence.SMOOTH and facts.holder is not None for facts in laws(network))


def side(exponent: float, critical: float) -> int:
    """Return 0 where two exponents are equal, 1 where the first is larger and -1 where it is smaller.

    The one comparison of exponents: sums such as 0.1 + 0.6 carry round-off of a few units in the last place,
    and no two exponents that mean different things are as close as SAME.
    """
    if abs(exponent - critical) <= SAME * max(1.0, abs(exponent), abs(critical)):
        return 0
    return 1 if exponent > critical else -1


def of_the_weights(network: Network) -> tuple[Hypothesis, ...]:
    """Return what was tested of the weight laws, and what nobody has stated of them."""
    facts = network.facts
    return (
        *(Hypothesis.holds("weights as stated", text) for text in facts.tested),
        *(Hypothesis.unknown("weights as stated", f"not known: {text}.") for text in facts.not_known),
    )


def reservations(network: Network) -> list[str]:
    """Return what every report on this network must say of its weights: what is unknown, or was refuted."""
    facts = network.facts
    notes = []
    if facts.found:
        notes.append(f"the sampler's draws are not independent: {'; '.join(facts.found)}.")
    if facts.not_known:
        notes.append(f"not known of the weights: {'; '.join(facts.not_known)}.")
    return notes


def lipschitz(network: Network) -> Hypothesis:
    """Return whether σ is Lipschitz, which nearly every statement asks."""
    activation, name = network.recursion.activation, "σ is Lipschitz"
    if activation.lipschitz is not None:
        return Hypothesis.holds(name, f"{activation.name} is Lipschitz.")
    if (steep := steepening(activation)) is not None:
        return Hypothesis.fails(name, f"{activation.name} is not Lipschitz: {steep}.")
    return Hypothesis.unknown(
        name, f"that {activation.name} is Lipschitz (it was probed: neither jumps nor slopes that grow)."
    )


def refused(network: Network, explanation: str, closest: str) -> str:
    """Return the refusal of a network without a limit on its noise: why, and the closest that has one."""
    facts = network.facts
    if isinstance(network.recursion, ModuleBlocks):  # nothing that has a limit is near what is not known
        return f"cannot pair {network.weights[0].describe()} with a limit because {explanation}"
    if facts.weight_exponent is not None:
        activation, beta = network.recursion.activation.name, facts.weight_exponent
        exponents = f"σ = {activation}, α = {network.exponent:g}, β = {beta:g}"
    else:
        described = ", ".join(dict.fromkeys(law.describe() for law in network.weights))
        exponents = f"{described}, exponent {network.exponent:g}"
    return f"cannot pair {network.recursion.name} ({exponents}) with a limit because {explanation}" + (
        f" Closest: {closest}" if closest else ""
    )


def refusal(network: Network, explanation: str, closest: str) -> NoTheoremError:
    """Return the refusal of a network without a limit on its noise, with what can be done instead."""
    return NoTheoremError(f"{refused(network, explanation, closest)} {measured_without_theorem(network)}")


def measured_without_theorem(network: Network) -> str:
    """Return which functions measure a limit that the user gives, without any theorem."""
    if isinstance(network.recursion, ModuleBlocks):
        return "identify(factory, x) measures which exponent and which limit these blocks have."
    independent = all(facts.dependence == Dependence.INDEPENDENT for facts in laws(network))
    in_law = "; compare_laws(resnet, limit) takes a LawLimit or a torchsde object, too" if independent else ""
    return f"Your limit needs no theorem: compare(resnet, limit) measures it path by path{in_law}."
