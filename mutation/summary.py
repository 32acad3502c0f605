"""How many of the sampled mutants are killed, at first and by now, with exact binomial intervals."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from scipy import stats

EQUIVALENT = Path(__file__).with_name("survivors.toml")


def interval(killed: int, judged: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share."""
    half = (1 - confidence) / 2
    low = stats.beta.ppf(half, killed, judged - killed + 1) if killed else 0.0
    high = stats.beta.isf(half, killed + 1, judged - killed) if killed < judged else 1.0
    return float(low), float(high)


def equivalent() -> dict[str, str]:
    """Return the mutants that change no behaviour, with reasons."""
    with EQUIVALENT.open("rb") as file:
        return {row["mutant"]: row["why"] for row in tomllib.load(file).get("equivalent", ())}


def table(results: Path, chosen: Mapping[str, Sequence[str]]) -> str:
    """Return a table of Markdown, a row per room, and the survivors below it."""
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    first = {row["key"]: bool(row["killed"]) for row in reversed(rows)}
    now = {row["key"]: bool(row["killed"]) for row in rows}
    alike = {key for key in equivalent() if not now.get(key, True)}
    found = ["| room | sampled | killed at first | killed now | equivalent | share of the others |"]
    found.append("|---|---|---|---|---|---|")
    done = {room: [key for key in keys if key in now] for room, keys in chosen.items()}
    everything = [key for keys in done.values() for key in keys]
    for room, of_room in (*done.items(), ("all", everything)):
        if of_room:
            before, killed = sum(first[key] for key in of_room), sum(now[key] for key in of_room)
            same = sum(key in alike for key in of_room)
            low, high = interval(killed, len(of_room) - same)
            share = f"{killed / max(len(of_room) - same, 1):.0%} ({low:.0%} to {high:.0%})"
            found.append(f"| {room} | {len(of_room)} | {before} | {killed} | {same} | {share} |")
    alive = [key for key in everything if not now[key] and key not in alike]
    return "\n".join([*found, *(["", "Alive:", *alive] if alive else [])])
