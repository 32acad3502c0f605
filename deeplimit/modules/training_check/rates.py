"""Learning rates, epsilons and weight decays over depths: which power of the depth each follows, exactly."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deeplimit.modules.training_check.findings import TrainingFinding, goes, listed, power, times
from deeplimit.modules.training_check.rule import TrainingRule
from deeplimit.modules.training_check.settings import Settings

EXACT = 1e-3
"""Relative difference below which two settings are one; powers of the depth differ by far more."""
SETTINGS = {
    "rate": ("learning rate", "lr"),
    "epsilon": ("epsilon", "eps"),
    "decay": ("weight decay", "weight_decay"),
}


@dataclass(frozen=True)
class ParameterScaling:
    """The settings of one parameter of every layer, at each depth.

    Attributes:
        parameter: name, with * for the layer.
        role: "hidden weight", "hidden bias or gain", or "outside" (embeddings, last normalisation, head).
        depths: depths whose networks have it.
        rates, epsilons, decays: settings at these depths; nan where the optimizer has none.
    """

    parameter: str
    role: str
    depths: tuple[int, ...]
    rates: tuple[float, ...]
    epsilons: tuple[float, ...]
    decays: tuple[float, ...]

    def values(self, setting: str) -> tuple[float, ...]:
        """Return the values of "rate", "epsilon" or "decay"."""
        found: tuple[float, ...] = {"rate": self.rates, "epsilon": self.epsilons, "decay": self.decays}[
            setting
        ]
        return found


def parameter_scalings(
    depths: Sequence[int], settings: Sequence[Sequence[Settings]]
) -> tuple[ParameterScaling, ...]:
    """Return the settings of every parameter over depths, layers of one parameter taken together."""
    families = _families(settings)
    scalings = []
    for family, members in families.items():
        present = [place for place, group in enumerate(members) if group]
        first = members[present[-1]][0]
        hidden = any(each.inside for group in members for each in group) or "*" in family
        role = ("hidden weight" if first.weight else "hidden bias or gain") if hidden else "outside"
        scalings.append(
            ParameterScaling(
                family,
                role,
                tuple(depths[place] for place in present),
                tuple(_usual([each.rate for each in members[place]]) for place in present),
                tuple(_usual([each.epsilon for each in members[place]]) for place in present),
                tuple(_usual([each.decay for each in members[place]]) for place in present),
            )
        )
    return tuple(scalings)


def against_rule(
    depths: Sequence[int], settings: Sequence[Sequence[Settings]], optimizer: str, rule: TrainingRule
) -> list[TrainingFinding]:
    """Return what departs from the rule: layers unlike others, powers of the depth, what does not train."""
    found = list(_idle(depths, settings))
    found += _unlike(depths, settings)
    alike: dict[tuple[str, float | None, str], list[str]] = {}
    scalings = parameter_scalings(depths, settings)
    found += _mixed(scalings, optimizer, rule)
    for scaling in scalings:
        for setting, accepted in _accepted(scaling.role, optimizer, rule).items():
            said = _departure(scaling, setting, accepted, rule)
            if said is not None:
                factor, message = said
                alike.setdefault((setting, factor, message), []).append(scaling.parameter)
    found += [
        TrainingFinding(SETTINGS[setting][0], tuple(names), factor, message)
        for (setting, factor, message), names in alike.items()
    ]
    return found


def _accepted(role: str, optimizer: str, rule: TrainingRule) -> dict[str, tuple[float, ...]]:
    """Return the powers of the depth that each setting may follow, the usual one first."""
    rate = rule.rate(optimizer)
    if rate is None:
        return {}
    if role == "outside":
        # Gradients there do not depend on depth; CompleteP's published code scales all groups nonetheless.
        return {"rate": (0.0,), "epsilon": (0.0, -rule.exponent), "decay": (0.0,)}
    return {"rate": (rate,), "epsilon": (-rule.exponent,), "decay": (0.0,)}


def _mixed(
    scalings: Sequence[ParameterScaling], optimizer: str, rule: TrainingRule
) -> Iterator[TrainingFinding]:
    """Yield a finding if parameters outside of branches follow different powers that are accepted."""
    by_power: dict[float, list[ParameterScaling]] = {}
    for scaling in scalings:
        if scaling.role != "outside":
            continue
        followed = [
            exponent
            for exponent in _accepted(scaling.role, optimizer, rule).get("epsilon", ())
            if _follows(scaling, "epsilon", exponent)
        ]
        if len(followed) == 1:
            by_power.setdefault(followed[0], []).append(scaling)
    if len(by_power) < 2:
        return
    (most, usual), (least, odd) = sorted(by_power.items(), key=lambda item: (-len(item[1]), -item[0]))
    last, others = odd[0].depths[-1], listed([each.parameter for each in usual])
    right = odd[0].epsilons[0] * (last / odd[0].depths[0]) ** most
    factor = odd[0].epsilons[-1] / right
    yield TrainingFinding(
        "epsilon",
        tuple(each.parameter for each in odd),
        factor,
        f"epsilon {goes(least)}, but that of {others} {goes(most)}. Outside of branches {rule.name} accepts"
        f" either, for all parameters alike: set eps={right:.4g} at depth {last}.",
    )


def _follows(scaling: ParameterScaling, setting: str, exponent: float) -> bool:
    """Whether a setting follows a power of the depth exactly, from its value at the smallest depth."""
    values = scaling.values(setting)
    return all(
        math.isclose(value, values[0] * (depth / scaling.depths[0]) ** exponent, rel_tol=EXACT)
        for depth, value in zip(scaling.depths, values, strict=True)
    )


def _departure(
    scaling: ParameterScaling, setting: str, accepted: Sequence[float], rule: TrainingRule
) -> tuple[float | None, str] | None:
    """Return the factor by which a setting departs from all `accepted` powers, and a sentence; or None."""
    values = scaling.values(setting)
    first, last = scaling.depths[0], scaling.depths[-1]
    if len(values) < 2 or any(math.isnan(value) for value in values):
        return None
    if any(_follows(scaling, setting, exponent) for exponent in accepted):
        return None
    ratios = [depth / first for depth in scaling.depths]
    words, key = SETTINGS[setting]
    right = values[0] * ratios[-1] ** accepted[0]
    law = "" if accepted[0] == 0 else f" = {values[0]:.4g} * (depth / {first}) ** {accepted[0]:g}"
    fix = f"set {key}={right:.4g} at depth {last}{law}" if right > 0 else f"set one {key} for all depths"
    start = (
        f"{words} {values[0]:.4g} at depth {first}, {values[-1]:.4g} at depth {last}; {rule.name} asks for"
    )
    if not (values[0] > 0 and values[-1] > 0):
        return None, f"{start} {power(accepted[0])}: {fix}."
    if math.isclose(values[-1], right, rel_tol=EXACT):
        worst = next(
            place
            for place, ratio in enumerate(ratios)
            if not math.isclose(values[place], values[0] * ratio ** accepted[0], rel_tol=EXACT)
        )
        factor = values[worst] / (values[0] * ratios[worst] ** accepted[0])
        return factor, (
            f"{words} {values[worst]:.4g} at depth {scaling.depths[worst]} is {times(factor)}: {rule.name}"
            f" asks for {power(accepted[0])}, as between depths {first} and {last}."
        )
    factor = values[-1] / right
    return factor, f"{start} {power(accepted[0])}: {times(factor)}; {fix}."


def _unlike(depths: Sequence[int], settings: Sequence[Sequence[Settings]]) -> Iterator[TrainingFinding]:
    """Yield layers whose settings are not those of most layers of the same parameter."""
    for family, members in _families(settings).items():
        for setting, (words, key) in SETTINGS.items():
            for depth, group in reversed([*zip(depths, members, strict=True)]):
                usual = _usual([getattr(each, setting) for each in group])
                odd = [each for each in group if not _same(getattr(each, setting), usual)]
                if not odd or 2 * len(odd) >= len(group):
                    continue
                value = getattr(odd[0], setting)
                factor = value / usual if usual > 0 and value > 0 else None
                how = "" if factor is None else f", {times(factor)}"
                yield TrainingFinding(
                    words,
                    tuple(each.name for each in odd),
                    factor,
                    f"{words} {value:.4g} at depth {depth}, where the other layers of {family} have"
                    f" {usual:.4g}{how}; set {key}={usual:.4g}.",
                )
                break


def _idle(depths: Sequence[int], settings: Sequence[Sequence[Settings]]) -> Iterator[TrainingFinding]:
    """Yield parameters that require a gradient and are in no group, or have a learning rate of 0."""
    names = {}
    for depth, group in zip(depths, settings, strict=True):
        for each in group:
            if each.trains and each.rate == 0:
                names[each.name] = depth
    if names:
        yield TrainingFinding(
            "learning rate",
            tuple(names),
            None,
            "in no parameter group, or at learning rate 0, so that it does not train; add it to a group, or"
            " set requires_grad=False if it is meant to stay.",
        )


def _families(settings: Sequence[Sequence[Settings]]) -> dict[str, list[list[Settings]]]:
    """Return the parameters of each depth by their name, with * for the numbers that deepen."""
    shapes: dict[str, list[list[list[str]]]] = {}
    for place, group in enumerate(settings):
        for each in group:
            pieces = re.split(r"(\d+)", each.name)
            key = "*".join(pieces[::2])
            shapes.setdefault(key, [[] for _ in settings])[place].append(pieces[1::2])
    deepening = {
        key: [
            len({len({numbers[at] for numbers in group}) for group in groups}) > 1
            for at in range(len(max(groups, key=len)[0]))
        ]
        for key, groups in shapes.items()
    }
    families: dict[str, list[list[Settings]]] = {}
    for place, group in enumerate(settings):
        for each in group:
            pieces = re.split(r"(\d+)", each.name)
            stars = deepening["*".join(pieces[::2])]
            for at, star in enumerate(stars):
                pieces[2 * at + 1] = "*" if star else pieces[2 * at + 1]
            families.setdefault("".join(pieces), [[] for _ in settings])[place].append(each)
    return families


def _usual(values: Sequence[float]) -> float:
    """Return the most frequent value; values that are one but for round-off count together."""
    if not values:
        return math.nan
    rounded = Counter(f"{value:.4g}" for value in values)
    most = rounded.most_common(1)[0][0]
    return next(value for value in values if f"{value:.4g}" == most)


def _same(value: float, other: float) -> bool:
    return (math.isnan(value) and math.isnan(other)) or math.isclose(value, other, rel_tol=EXACT)
