"""Which mutants there are, and a sample of them that stays the same while other lines change."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOMS = (
    "statistics",
    "driving",
    "layers",
    "equations",
    "theory",
    "networks",
    "simulation",
    "signal",
    "judge",
    "trained",
    "modules",
)
NOT_RUN = re.compile("triton_")
"""Files that nothing runs without a graphics card."""
_ARITHMETIC = "(Add|Sub|Mul|Div|Pow)"
_ORDER = "(Eq|NotEq|Lt|LtE|Gt|GtE)"
_SENSIBLE = re.compile(
    f"ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_{_ARITHMETIC}"
    "|ReplaceBinaryOperator_(BitAnd_BitOr|BitOr_BitAnd)"
    f"|ReplaceComparisonOperator_({_ORDER}_{_ORDER}|Is_IsNot|IsNot_Is)"
    "|ReplaceUnaryOperator_Delete_(USub|Not)"
    "|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd"
    "|ReplaceBreakWithContinue|ReplaceContinueWithBreak|ExceptionReplacer|NumberReplacer"
    "|RemoveDecorator|ZeroIterationForLoop"
)
"""Operators whose mutants can be right: a shift of a float is a TypeError in any test that runs it."""
_STATIC = {"final", "override", "overload", "abstractmethod", "runtime_checkable"}
_ASSERTED = {"slots", "strict"}
"""Arguments that change no result of a right program."""

Span = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Mutant:
    """One change of one place.

    Attributes:
        file: path below the package.
        line: line number, from 1.
        statement: first and last line of the statement around it, without its body; (0, 0) where that runs as
            the module is imported.
        before, after: changed lines, without indentation.
        operator, occurrence: cosmic-ray's name of the change.
        copy: number of the same change in equal lines above.
    """

    file: str
    line: int
    statement: tuple[int, int]
    before: str
    after: str
    operator: str
    occurrence: int
    copy: int = 0

    @property
    def room(self) -> str:
        return self.file.split("/")[0]

    @property
    def key(self) -> str:
        """Name of the mutant, which stays when other lines change."""
        return f"{self.file}: {self.before} -> {self.after}" + f" ({self.copy})" * bool(self.copy)


def sample(package: Path, room: str, size: int, seed: int) -> list[Mutant]:
    """Return `size` mutants of a room: places with equal chances, and one change of each.

    Places are in the order of a digest of text and seed, so that a larger sample continues a smaller one.
    """
    places: list[tuple[str, str, Span, list[tuple[str, int]], int]] = []
    for path in sorted((package / room).rglob("*.py")):
        if not NOT_RUN.search(path.name):
            places += _places(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8"), seed)
    found: list[Mutant] = []
    for digest, file, span, changes, copy in sorted(places):
        source = (package / file).read_text(encoding="utf-8")
        for name, occurrence in sorted(changes, key=lambda change: _digest(digest, *change)):
            if len(found) < size and (difference := _difference(source, name, occurrence)) is not None:
                line = span[0][0]
                around = _statements(source).get(line, (0, 0))
                found.append(Mutant(file, line, around, *difference, name, occurrence, copy))
                break
    return found


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def _places(file: str, source: str, seed: int) -> Iterator[tuple[str, str, Span, list[tuple[str, int]], int]]:
    """Yield each place of a file: a digest, the file, where, its changes, how many equal ones are above."""
    found: dict[Span, list[tuple[str, int]]] = defaultdict(list)
    lines, nodes, skipped = source.splitlines(), list(ast_nodes(get_ast(source))), _skipped(source)
    for name in operator_names():
        if _SENSIBLE.fullmatch(name.split("/")[1]):
            operator = get_operator(name)()
            spans = (span for node in nodes for span in operator.mutation_positions(node))
            for occurrence, (start, end) in enumerate(spans):
                is_marker = re.match(r"[*/],", lines[start[0] - 1][start[1] :])  # of arguments by name
                if not is_marker and not any(first <= start and end <= last for first, last in skipped):
                    found[start, end].append((name, occurrence))
    seen: dict[tuple[str, int, int], int] = defaultdict(int)
    for (start, end), changes in sorted(found.items()):
        place = (lines[start[0] - 1], start[1], end[1])
        yield _digest(seed, file, *place, seen[place]), file, (start, end), changes, seen[place]
        seen[place] += 1


def _difference(source: str, name: str, occurrence: int) -> tuple[str, str] | None:
    """Return the changed lines before and after, or None where the change is none or no Python."""
    mutated = mutate_code(source, get_operator(name)(), occurrence)
    try:
        if mutated is None or ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source)):
            return None
    except SyntaxError:
        return None
    before, after = source.splitlines(), mutated.splitlines()
    first = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    last = next(i for i, (a, b) in enumerate(zip(before[::-1], after[::-1], strict=False)) if a != b)
    changed = (" ".join(map(str.strip, text[first : len(text) - last])) for text in (before, after))
    return next(changed), next(changed)


def _span(node: ast.AST, lines: list[str]) -> Span:
    """Return where a node begins and ends, in characters as cosmic-ray counts them."""

    def at(row: int, offset: int) -> tuple[int, int]:
        return row, len(lines[row - 1].encode()[:offset].decode())

    return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _skipped(source: str) -> list[Span]:
    """Return what no behaviour shows: annotations, words of messages, marks for type checkers."""
    nodes: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr():
                nodes.append(node)
            case ast.AnnAssign() | ast.arg() if node.annotation is not None:
                nodes.append(node.annotation)
            case ast.FunctionDef() if node.returns is not None:
                nodes.append(node.returns)
            case ast.keyword() if node.arg in _ASSERTED:
                nodes.append(node)
            case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
                nodes.append(node)
        for decorator in getattr(node, "decorator_list", ()):
            if ast.unparse(decorator).split(".")[-1] in _STATIC:
                nodes.append(decorator)
    lines = source.splitlines()
    spans = (_span(node, lines) for node in nodes)
    # A decorator begins with its @, and ends with the end of its line.
    return [
        ((first[0], max(first[1] - 1, 0)), (last[0] + (lines[first[0] - 1].lstrip()[0] == "@"), last[1]))
        for first, last in spans
    ]


def _statements(source: str) -> dict[int, tuple[int, int]]:
    """Return first and last line of the innermost statement at each line of a function, bodies left out."""
    around: dict[int, tuple[int, int]] = {}
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    for node in (inner for function in functions for part in function.body for inner in ast.walk(part)):
        if isinstance(node, ast.stmt):  # from the outside in
            last = node.end_lineno or node.lineno
            if body := getattr(node, "body", None) or getattr(node, "cases", None):
                first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
                last = max(first.lineno - 1, node.lineno)
            around |= {line: (node.lineno, last) for line in range(node.lineno, last + 1)}
    return around
