"""Docstrings as the built reference reads them: every example is a block of code."""

import inspect

import griffe
import pytest

import deeplimit as dl

PACKAGE = griffe.load(
    "deeplimit",
    search_paths=["."],
    try_relative_path=False,
    resolve_aliases=False,
    extensions=griffe.load_extensions("docs/signatures.py"),
)


def documented(thing):
    """Yield everything in the package that has a docstring with an example in it."""
    if thing.docstring is not None and ">>>" in thing.docstring.value:
        yield thing
    for member in thing.members.values():
        if not member.is_alias:
            yield from documented(member)


EXAMPLES = list(documented(PACKAGE))


def test_the_package_has_examples_to_read():
    assert len(EXAMPLES) > 40


@pytest.mark.parametrize("thing", EXAMPLES, ids=lambda thing: thing.path)
def test_every_example_of_a_docstring_is_read_as_code(thing):
    sections = thing.docstring.parse("google", warnings=False)
    code = "\n".join(
        text
        for section in sections
        if section.kind is griffe.DocstringSectionKind.examples
        for kind, text in section.value
        if kind is griffe.DocstringSectionKind.examples
    )
    assert code.count(">>>") == thing.docstring.value.count(">>>")


def test_no_section_of_a_docstring_is_read_as_a_quotation():
    def walk(thing):
        yield thing
        for member in thing.members.values():
            if not member.is_alias:
                yield from walk(member)

    quoted = [
        f"{thing.path}: {section.title}"
        for thing in walk(PACKAGE)
        if thing.docstring is not None
        for section in thing.docstring.parse("google", warnings=False)
        if section.kind is griffe.DocstringSectionKind.admonition
    ]
    assert quoted == []


def test_a_signature_shows_the_value_of_a_default_that_the_code_names():
    for name, module in (("compare", "convergence.comparison"), ("stability", "signal.measure")):
        shown = PACKAGE[f"{module}.{name}"].parameters["depths"].default
        assert shown == repr(inspect.signature(getattr(dl, name)).parameters["depths"].default)
