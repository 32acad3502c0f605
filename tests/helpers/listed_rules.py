"""The rules that a generator of them yields, read from its source: without evidence, and none is left out."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator


def listed_rules(rules: Callable) -> Iterator[tuple[str, str]]:
    """Yield the code, as it is written, and the name of each rule in order; caveats have the code ""."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(rules)))
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Yield | ast.YieldFrom)]
    for node in sorted(asked, key=lambda node: node.lineno):
        if isinstance(node, ast.YieldFrom):
            yield from listed_rules(rules.__globals__[node.value.func.id])
            continue
        *code, name, _ = node.value.elts
        yield ast.unparse(code[0]) if code else "", ast.literal_eval(name)


def rule_names(*rules: Callable) -> list[str]:
    """Return the names of the rules of these questions, in order."""
    return [name for each in rules for _, name in listed_rules(each)]


def undecided_rules(*rules: Callable) -> set[str]:
    """Return the names of those that lead to "cannot tell"."""
    return {name for each in rules for code, name in listed_rules(each) if code.endswith("CANNOT_TELL")}
