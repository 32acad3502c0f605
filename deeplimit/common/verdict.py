"""The words of every verdict in one enumeration of texts, so that they compare with plain words."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The conclusion of a report, in words; the report also gives the reason.

    Members are texts: `report.verdict == "converges"` and `f"{report.verdict}"` read as they would without
    the enumeration.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Verdict.CONVERGES == "converges", dl.Verdict("same law").is_good
        (True, True)
    """

    CONVERGES = "converges"
    DOES_NOT_CONVERGE = "does not converge"
    SAME_LAW = "same law"
    ANOTHER_LAW = "another law"
    IDENTITY = "identity"
    STABLE = "stable"
    EXPLOSION = "explosion"
    AS_EXPECTED = "as expected"
    NOT_AS_EXPECTED = "not as expected"
    MEASURED = "measured"
    AGREES = "agrees"
    DISAGREES = "disagrees"
    CAUGHT = "caught"
    NOT_CAUGHT = "not caught"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "NOT reproduced"
    LINEAR_ODE = "linear-ode"
    NEURAL_ODE = "neural-ode"
    SDE = "sde"
    SPARSE = "sparse"
    NO_TREND = "no trend"
    COPIES = "copies"
    INDEPENDENT = "independent"
    COMMON_TREND = "common trend"
    SMOOTH_TREND = "smooth trend"
    ROUGH = "rough"
    CANNOT_TELL = "cannot tell"

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def is_good(self) -> bool | None:
        """True for what was hoped for, False for its contrary, None where nothing can be said."""
        return None if self is Verdict.CANNOT_TELL else self not in _BAD


_BAD = {
    Verdict.DOES_NOT_CONVERGE,
    Verdict.ANOTHER_LAW,
    Verdict.IDENTITY,
    Verdict.EXPLOSION,
    Verdict.NOT_AS_EXPECTED,
    Verdict.DISAGREES,
    Verdict.NOT_CAUGHT,
    Verdict.NOT_REPRODUCED,
}
