"""What a finding says, and how: parameter, factor, and the words that every finding is made of."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deeplimit.common.report import one_line
from deeplimit.modules.depth_check.fixes import IN_FORWARD
from deeplimit.modules.depth_check.scaling import BranchScaling, PartScaling
from deeplimit.modules.trace.naming import wildcard

ALIKE = 6
"""As many findings that say the same are told one by one."""
# A factor closer to one than this is not reported; published rules differ by more.
FACTOR = 1.1


ABOUT = {
    "exponent": "A branch falls with depth by another exponent than expected.",
    "layers": "Some layers of a branch do not scale as the others do.",
    "copies": "Layers are alike where independent ones are expected.",
    "few layers": "A few layers make up the updates, as many at every depth.",
    "profile": "A part is a function of the layer's number, not of the depth.",
    "dropout": "Dropout on the skip loses the state in training.",
    "weight": "A weight's standard deviation is not what the rule asks for.",
    "gain": "A gain is missing, or not what the rule asks for.",
    "gate": "A gate is missing, or not what the rule asks for.",
    "multiplier": "A number that multiplies a branch is not what the rule asks for.",
    "skip": "The skip does not pass the state on as it should.",
    "growth": "The state of a residual stream grows more than its branches say.",
    "zero start": "A branch does not start at zero where it should.",
}
"""What findings are about, by the word that programs read, with a sentence for those who see it alone."""
ROLES = {"output": "weight", "inner": "weight", "entry": "multiplier"}
"""Of parts, where the word is not the role itself."""


@dataclass(frozen=True)
class Finding:
    """One departure from what was expected.

    Attributes:
        branch: Kind of residual branch.
        parameter: Name of the parameter, with * for the layer.
        factor: How many times too large it is in the deepest network, or where it is worst if it is right
            there; None if no factor says it (a parameter that should be zero is not, a branch lacks a part).
        message: What was measured, what is expected, and by how much they differ.
        layers: Numbers of the layers that depart from it, where not all do.
        fix: Line of code that sets it right in `model`; "" if none does.
        about: What departs, one of `ABOUT`; "" in files of earlier versions.
    """

    branch: str
    parameter: str
    factor: float | None
    message: str
    layers: tuple[int, ...] = ()
    fix: str = ""
    about: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameter alone, as a finding about training may name several."""
        return (self.parameter,)

    def __str__(self) -> str:
        return f"{self.parameter}: {self.message}"


def once(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings of which a line that multiplies is one's alone: two kinds may have the same one."""
    lines = set[str]()
    told: list[Finding] = []
    for finding in findings:
        again = finding.fix in lines and "mul_" in finding.fix
        told.append(replace(finding, fix="") if again else finding)
        lines.add(finding.fix)
    return tuple(told)


def grouped(findings: Sequence[Finding]) -> list[str]:
    """Return findings as text: the line that sets each right below it, and like ones told once.

    Findings are alike if they say the same but for numbers and their names, where more than `ALIKE` do. What
    is said of a parameter that branches share is said once.
    """
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.branch, _without_numbers(finding.message)), []).append(finding)
    told, said, lines = [], set[str](), set[str]()
    for group in alike.values():
        if len(group) > ALIKE:
            names = list(dict.fromkeys(finding.parameter for finding in group))
            one_list = len({re.sub(r"\d+", "*", name) for name in names}) == 1
            listed = f"{names[0]} ... {names[-1]}" if one_list else ", ".join(names)
            name = (
                f"{wildcard(names[0], names) if one_list else 'parameters'} ({len(names)} of them: {listed})"
            )
            told.append(one_line(f"{name}: {group[0].message[:-1]}, the first of them."))
        for finding in group:
            if len(group) <= ALIKE and str(finding) not in said:
                told.append(one_line(str(finding)))  # names of modules may hold ends of lines
            said.add(str(finding))
            # A line about a parameter that branches share is run once.
            again = finding.fix in lines and not (len(group) <= ALIKE and finding.fix.startswith(IN_FORWARD))
            if finding.fix and not again:
                told[-1] += f"\n  fix: {finding.fix}"
            lines.add(finding.fix)
    return told


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", text)


def part_that_should_scale(scaling: BranchScaling) -> PartScaling:
    """Return the part that a depth scaling would be in: the gain or multiplier if there is one, else the
    output projection.
    """
    gains = [part for part in scaling.parts if part.role == "gain"]
    multiplier = next(part for part in scaling.parts if part.role == "multiplier")
    scaled = [part for part in (*gains, multiplier) if any(abs(size - 1) > 1e-6 for size in part.sizes)]
    if scaled or gains:
        return (scaled or gains)[0]
    return next((part for part in scaling.parts if part.role == "output"), multiplier)


def biases_of(scaling: BranchScaling) -> list[PartScaling]:
    """Return the biases at the end of a kind of branch that are not zero."""
    return [part for part in scaling.parts if part.role == "bias"]


def part_name(part: PartScaling, scaling: BranchScaling) -> str:
    """Return what a part is called: a parameter by its name, a number by the branch that it scales."""
    return f"{part.name} of {scaling.kind}" if part.role in ("multiplier", "skip", "entry") else part.name


def times(factor: float) -> str:
    """Return a factor in words.

    Examples:
        >>> times(4.9), times(0.5), times(1.04), times(234567.0)
        ('4.9 times too large for', '2 times too small for', '1.04 times too large for', '230,000 times too \
large for')
    """
    if factor >= 1:
        return f"{number(factor)} times too large for"
    return f"{number(1 / factor)} times too small for" if factor > 0 else "zero instead of"


def number(value: float) -> str:
    """Return a factor of at least one with two digits, and more where it is next to one.

    Examples:
        >>> number(1.004), number(1.4142), number(1200.0), number(3e12), number(math.inf)
        ('1.004', '1.4', '1,200', '3e12', 'infinitely many')
    """
    if not math.isfinite(value):
        return "infinitely many"
    if value >= 1e9:
        return f"{value:.1e}".replace(".0e", "e").replace("e+", "e")
    if value >= 100:
        return f"{float(f'{value:.2g}'):,.0f}"
    return next(text for digits in range(2, 18) if (text := f"{value:.{digits}g}") != "1" or digits == 17)


def power_of_depth(exponent: float) -> str:
    """Return how a size depends on depth, in words.

    Examples:
        >>> power_of_depth(0.5), power_of_depth(-0.5), power_of_depth(-0.004)
        ('falls like depth^-0.50', 'grows like depth^0.50', 'does not depend on depth')
    """
    if abs(exponent) < 0.005:
        return "does not depend on depth"
    return f"falls like depth^-{exponent:.2f}" if exponent > 0 else f"grows like depth^{-exponent:.2f}"


def spread_among_layers(part: PartScaling) -> str:
    """Return a remark on layers of one network whose sizes differ."""
    return f"; its layers differ by up to {number(part.spread)} times" if part.spread > FACTOR**2 else ""


def layers_in_words(layers: Sequence[int]) -> str:
    """Return the numbers of layers, neighbours taken together.

    Examples:
        >>> layers_in_words([6, 7, 8, 11]), layers_in_words([3])
        ('layers 6-8, 11', 'layer 3')
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    told = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    return f"layer{'s' if len(layers) > 1 else ''} {told}"
