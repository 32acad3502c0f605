"""The line of code that sets right what a finding names, at any depth where the names allow it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deeplimit.modules.depth_check.part_rules import Names, power_in_code
from deeplimit.modules.depth_check.scaling import BranchScaling

IN_FORWARD = "in forward: "
"""Begins a line that belongs into the model's forward, where no parameter can set it right."""
IN_INIT = "in __init__: "
"""Begins a line about one parameter of all layers, beside which no list says how many there are."""
FOUND, DEPTH = "found", "depth"
"""What code calls the parameters of all layers, and the number of layers where it cannot count them."""
COUNTED = "  # depth: the number of layers"
"""Says so."""
ADD_GATE = f"{IN_FORWARD}x = x + gate(condition) * branch(x)  # gate: a Linear, weight and bias zero"
"""Adds a gate that is made of a condition."""
EXACT = 1e-4
"""Relative error of factors of numbers that are read from the forward."""
SOME: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("i == {n} - 1", lambda i, n: i == n - 1),
    ("i == 0", lambda i, n: i == 0),
    ("2 * i >= {n}", lambda i, n: 2 * i >= n),
    ("2 * i < {n}", lambda i, n: 2 * i < n),
    ("i % 2", lambda i, n: i % 2 == 1),
    ("i % 2 == 0", lambda i, n: i % 2 == 0),
    ("i < {n} - 1", lambda i, n: i < n - 1),
    ("i > 0", lambda i, n: i > 0),
)
"""Which layers i of n: what authors forget or treat apart. Others are listed by the number of layers."""
ROUND = 0.02
"""Relative error up to which factors are read as a power of the depth in quarters."""


Places = Sequence[Sequence[int]]
"""Of layers, at each depth, or at the deepest alone; none for all layers."""


@dataclass(frozen=True)
class Fixes:
    """Lines of code about one kind of branch.

    Attributes:
        scaling: The kind.
        layers: Numbers of such branches at each depth.
        depths: The depths.
        totals: Numbers of branches of all kinds.
    """

    scaling: BranchScaling
    layers: Sequence[int]
    depths: Sequence[int]
    totals: Sequence[int]

    @classmethod
    def of(cls, scaling: BranchScaling, depths: Sequence[int], totals: Sequence[int]) -> Fixes:
        """Return the lines about a kind of branch, measured at these depths."""
        multiplier = next(part for part in scaling.parts if part.role == "multiplier")
        return cls(scaling, [len(sizes) for sizes in multiplier.layers], depths, totals)

    @property
    def projection(self) -> str:
        """The name of the branch's output projection."""
        return next((part.name for part in self.scaling.parts if part.role == "output"), "")

    def initialise(self, parameter: str, std: float, scale: str) -> str:
        """Return the line that draws a weight again, with this standard deviation times `scale`."""
        header, path = self._each(parameter)
        size = f"{std:.4g}" if scale == "1" else f"{std:.4g} * {scale}"
        return self._placed(parameter, f"{header}torch.nn.init.normal_({path}, std={size})", size)

    def fill(self, parameter: str, value: str) -> str:
        """Return the line that sets all entries of a parameter."""
        header, path = self._each(parameter)
        if value == "0":
            return f"{header}torch.nn.init.zeros_({path})"
        return self._placed(parameter, f"{header}torch.nn.init.constant_({path}, {value})", value)

    def zero_module(self, parameter: str) -> str:
        """Return the line that makes a layer's weight and bias zero."""
        header, path = self._each(parameter.rpartition(".")[0], module=True)
        return f"{header}[torch.nn.init.zeros_(p) for p in {path}.parameters()]"

    def multiply(
        self, parameter: str, factors: Sequence[float], places: Places = (), stated: bool = False
    ) -> str:
        """Return the line that multiplies a parameter, in all or some layers, by a factor per depth."""
        header, path = self._each(parameter, places)
        drawn = any(part.name == parameter and part.role != "gain" for part in self.scaling.parts)
        factor = self.power(parameter, factors, stated, drawn)
        return self._placed(parameter, f"{header}{path}.data.mul_({factor})", factor)

    def multiply_output(self, factors: Sequence[float], places: Places = (), stated: bool = False) -> str:
        """Return the line that multiplies what the branch's projection returns, in all or some layers."""
        factor = self.power(self.projection, factors, stated, drawn=False)
        if not self._loops(self.scaling.hooked):
            which = f"  # in layers {list(places[-1])} of {self.layers[-1]}" if places else ""
            return in_forward(f"x = x + {factor} * branch(x){which}")
        header, path = self._each(self.scaling.hooked, places, module=True)
        return f"{header}{self._hook(path, factor)}"

    def multiply_each(self, parameter: str, factor: str) -> str:
        """Return the line that multiplies a parameter, or else the projection's output, by code in i."""
        if parameter:
            header, path = self._each(parameter)
            return f"{header}{path}.data.mul_({factor})"
        if not self._loops(self.scaling.hooked):
            return in_forward(f"x = x + {factor} * branch(x)  # in layer i")
        header, path = self._each(self.scaling.hooked, module=True)
        return f"{header}{self._hook(path, factor)}"

    def _hook(self, path: str, factor: str) -> str:
        """Return the code that multiplies what a module returns by a factor, which is computed at once."""
        hook = f"lambda module, given, out, factor={factor}: {self._times('factor')}"
        return f"{path}.register_forward_hook({hook})"

    def _times(self, factor: str) -> str:
        """Return the code of an output times a factor; attention returns its weights, too."""
        if self.scaling.hooked == self.projection.rpartition(".")[0]:
            return f"out * {factor}"
        return f"(out[0] * {factor}, *out[1:]) if isinstance(out, tuple) else out * {factor}"

    def _loops(self, name: str) -> bool:
        """Whether a line may loop over what has this name: code cannot count layers that are one module."""
        return bool(name) and not self._is_shared(name)

    def third(self, line: str, parameter: str, place: int) -> str:
        """Return a line about a parameter as one about a third of its rows."""
        path = self._each(parameter)[1]
        return line.replace(f"({path}", f"({path}.data.chunk(3)[{place}]")

    def add_gain(self, value: str) -> str:
        """Return the line that gives the branch's projection a gain."""
        header, path = self._each(self.scaling.hooked or self.projection.rpartition(".")[0], module=True)
        made = f'{path}.register_parameter("gain", torch.nn.Parameter(torch.tensor({value})))'
        hook = f"{path}.register_forward_hook(lambda module, given, out: {self._times('module.gain')})"
        return f"{header}{made}; {hook}"

    def pass_on(self, size: float, code: str = "1") -> str:
        """Return the line that sums as `code` asks for the skip, which is of this size so far."""
        if code != "1":
            return in_forward(f"x = {code} * x + branch(x)")
        return f"{IN_FORWARD}x = x + branch(x)  # without the factor {size:.4g} on x"

    def names(self, parameter: str) -> Names:
        """Return what numbers of layers and branches, and the layer's, are called beside a parameter."""
        stack = self._stack(parameter)
        layers = DEPTH if self._is_shared(parameter) else f"len({stack or FOUND})"
        per_layer = {total / count for total, count in zip(self.totals, self.layers, strict=True)}
        ratio = per_layer.pop() if len(per_layer) == 1 else 0.5  # not whole: code states the total instead
        experts = round(1 / ratio)
        if ratio == 1:
            branches = layers
        elif ratio < 1 and 1 / ratio == experts:  # of one sum, which counts once
            branches = f"{layers} // {experts}"
        else:
            branches = f"{int(ratio)} * {layers}" if ratio == int(ratio) else str(self.totals[-1])
        return Names(layers, branches, "i + 1")

    def power(self, parameter: str, factors: Sequence[float], stated: bool = True, drawn: bool = True) -> str:
        """Return factors, one per depth, as a power of the number of branches, or looked up by the depth.

        Unless a size is `stated`, any constant will do. Factors of weights that are `drawn` are rough.
        """
        last = factors[-1]
        if not stated and (recounted := self._recounted(parameter, factors)):
            return recounted
        if len(factors) > 1 and self.totals[-1] != self.totals[0]:
            steps = math.log(factors[0] / last) / math.log(self.totals[-1] / self.totals[0])
            exponent = round(4 * steps) / 4
            constants = [factor * total**exponent for factor, total in zip(factors, self.totals, strict=True)]
            near = max(constants) / min(constants) - 1 < (0.1 if drawn and not exponent else ROUND)
            names = self.names(parameter)
            branches = names.branches
            if not near and len(factors) == len(self.layers):
                known = zip(self.layers, factors, strict=True)
                return (
                    f"{{{', '.join(f'{layers}: {factor:.4g}' for layers, factor in known)}}}[{names.layers}]"
                )
            if near and not branches.isdigit():
                constant = math.exp(sum(map(math.log, constants)) / len(constants))
                free = abs(constant - 1) < 5 * ROUND or (exponent and not stated)
                return power_in_code(1.0 if free else constant, branches, exponent)
        return f"{last:.4g}"

    def _recounted(self, parameter: str, factors: Sequence[float]) -> str:
        """Return what turns a power of L + 1, say, into one of the number L of layers; "" if nothing does."""
        layers = self.names(parameter).layers
        for shift, power in ((shift, power) for shift in (-2, -1, 1, 2) for power in (0.5, 1.0)):
            if len(factors) < max(len(self.layers), 2) or min(self.layers) + shift <= 0:
                continue
            wanted = [(1 + shift / count) ** power for count in self.layers]
            constants = [factor / want for factor, want in zip(factors, wanted, strict=True)]
            if max(constants) - min(constants) < EXACT * min(constants):
                ratio = f"(1 {'-' if shift < 0 else '+'} {abs(shift)} / {layers})"
                return ratio if power == 1 else f"{ratio} ** {power:g}"
        return ""

    def _is_shared(self, name: str) -> bool:
        """Whether several layers share what has this name, in turn or all, or have a part of it each."""
        return self.layers[-1] > 1 and ("*" not in name or 0 < self.scaling.distinct < self.layers[-1])

    def _placed(self, parameter: str, line: str, size: str) -> str:
        """Return a line about a parameter; where its size asks for the depth, as one of an initialiser."""
        if not self._is_shared(parameter) or DEPTH not in size:
            return line
        return f"{IN_INIT}{line.replace('model.', 'self.')}{COUNTED}"

    def _stack(self, name: str) -> str | None:
        """Return the expression of the list that holds the layers, if it holds these alone."""
        before, star, after = name.partition(".*")
        numbers = self.scaling.numbers
        if not star or "*" in before + after or after[:1] not in ("", ".") or not _plain(before + after):
            return None
        return _path(before) if tuple(numbers) == tuple(range(self.layers[-1])) else None

    def _each(self, name: str, places: Places = (), module: bool = False) -> tuple[str, str]:
        """Return the head of a loop over the layers, or over some at each depth, and what stands in it."""
        if "*" not in name and _plain(name):
            return "", _path(name)
        stack = self._stack(name)
        which = self._which(places, f"len({stack or 'found'})") if places else ""
        if stack is not None:
            every = f"range(len({stack}))"
            return f"for i in {f'[i for i in {every} if {which}]' if which else every}: ", _path(name)
        every = "model.named_modules()" if module else "model.named_parameters()"
        found = f'[p for n, p in {every} if __import__("re").fullmatch({pattern(name)}, n)]'
        if which:
            some = f"[(i, p) for i, p in enumerate(found) if {which}]"
            return f"for i, p in {some} if (found := {found}) else []: ", "p"
        return f"for i, p in enumerate(found := {found}): ", "p"

    def _which(self, places: Places, count: str) -> str:
        """Return the condition on a layer's number i that holds in these places at each depth."""
        if len(places) == len(self.layers) > 1:
            for code, holds in SOME:
                wanted = [tuple(i for i in range(n) if holds(i, n)) for n in self.layers]
                if wanted == [tuple(chosen) for chosen in places]:
                    return code.format(n=count)
        counts = self.layers[len(self.layers) - len(places) :]
        listed = [f"{n}: {_listed(chosen)}" for n, chosen in zip(counts, places, strict=True) if chosen]
        return f"i in {{{', '.join(listed)}}}.get({count}, ())"


def in_forward(line: str) -> str:
    """Return a line for the forward, where no list of parameters counts the layers."""
    counted = line.replace(f"len({FOUND})", DEPTH)
    return f"{IN_FORWARD}{counted}{COUNTED if counted != line or f' {DEPTH} **' in line else ''}"


def expression(*names: str) -> str:
    """Return the regular expression that names match, with any number for *."""
    return "|".join(re.escape(name).replace(r"\*", r"\d+") for name in names)


def pattern(*names: str) -> str:
    """Return the code of a pattern that names match, with any number for *, whatever else is in them.

    Examples:
        >>> print(pattern("h.*.up", "h.*.down"))
        r"h\\.\\d+\\.up|h\\.\\d+\\.down"
    """
    text = expression(*names)
    return f'r"{text}"' if text.isprintable() and '"' not in text else ascii(text)


def _listed(places: Sequence[int]) -> str:
    run = len(places) > 1 and list(places) == list(range(places[0], places[-1] + 1))
    return f"range({places[0]}, {places[-1] + 1})" if run else f"{list(places)}"


def _plain(name: str) -> bool:
    """Whether a dotted name can be written in code."""
    return all(piece.isidentifier() or piece.isdigit() or piece == "*" for piece in name.split(".") if piece)


def _path(name: str) -> str:
    """Return the code of a dotted name.

    Examples:
        >>> _path("blocks.*.mlp.2.weight")
        'model.blocks[i].mlp[2].weight'
    """
    return "model" + "".join(
        "[i]" if piece == "*" else f"[{piece}]" if piece.isdigit() else f".{piece}"
        for piece in name.split(".")
        if piece
    )
