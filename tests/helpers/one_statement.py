"""What a depth report says about one residual stream, from its fields: whether two statements disagree."""

from __future__ import annotations

from collections.abc import Iterator

from deeplimit.modules.depth_check.meaning import ADAPTER
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.stream_meaning import DAMPED, EXPLOSIONS, OUTGROWS

STILL, FINITE, GROWS, TURNS, EXPLODES = "still", "finite", "grows", "turns", "explodes"
OF_A_BRANCH = {
    "identity (branches are zero at the start)": STILL,
    "identity": STILL,
    "neural-ODE-like (the identity while layers are independent)": STILL,
    "neural-SDE-like": FINITE,
    "neural-ODE-like": FINITE,
    "between SDE and ODE": FINITE,
    "grows with depth": GROWS,
    "no limit (each layer turns the state as far at any depth)": TURNS,
    "explosion": EXPLODES,
    # Nothing is said:
    ADAPTER: "",
    "as many at every depth": "",
    "no exponent (zero at some depths)": "",
    "cannot tell": "",
}
OF_A_STREAM = {
    "identity": STILL,
    "finite clock": FINITE,
    "logarithmic clock (pre-norm)": GROWS,
    "grows with depth": GROWS,
    OUTGROWS: GROWS,
    "forgets its input (post-norm)": TURNS,
    DAMPED: TURNS,
    **dict.fromkeys(EXPLOSIONS, EXPLODES),
    "keeps its input (earlier states are added)": "",
    "cannot tell (earlier states are added)": "",
    "one depth": "",
}
# What may be said about a branch beside what is said about its stream: small branches beside larger ones.
TOGETHER = {
    STILL: {STILL},
    FINITE: {STILL, FINITE},
    GROWS: {STILL, FINITE, GROWS},
    TURNS: {STILL, FINITE, TURNS},
    EXPLODES: {STILL, GROWS, EXPLODES},
}


def disagreements(report: DepthReport) -> Iterator[tuple[str, str, str]]:
    """Yield the stream, the statement and another one that does not go with it."""
    for stream in report.streams:
        name, said = f"stream {stream.stream + 1}", OF_A_STREAM[stream.meaning]
        kinds = {kind.kind: kind for kind in report.branches if kind.stream == stream.stream}
        for kind in kinds.values():
            own = OF_A_BRANCH[kind.meaning]
            if said and own and own not in TOGETHER[said]:
                yield name, stream.meaning, f"{kind.kind}: {kind.meaning}"
        growths = [
            finding for finding in report.findings if finding.branch in kinds and finding.about == "growth"
        ]
        for finding in growths:
            if said not in (GROWS, EXPLODES):
                yield name, stream.meaning, finding.message
        for finding in growths[1:]:
            yield name, growths[0].message, finding.message
