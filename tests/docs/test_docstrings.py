"""Docstrings as the built reference reads them: every example is a block of code."""

import inspect
import re

import griffe
import pytest

import deeplimit as dl


@pytest.fixture(scope="module")
def package():
    return griffe.load(
        "deeplimit",
        search_paths=["."],
        try_relative_path=False,
        resolve_aliases=False,
        extensions=griffe.load_extensions("docs/signatures.py"),
    )


def documented(thing):
    """Yield everything in the package that has a docstring, with its sections."""
    if thing.docstring is not None:
        yield thing, thing.docstring.parse("google", warnings=False)
    for member in thing.members.values():
        if not member.is_alias:
            yield from documented(member)


def test_every_example_is_read_as_code_and_nothing_as_a_quotation(package):
    wrong, examples = [], 0
    for thing, sections in documented(package):
        code = "\n".join(
            text
            for section in sections
            if section.kind is griffe.DocstringSectionKind.examples
            for kind, text in section.value
            if kind is griffe.DocstringSectionKind.examples
        )
        examples += code.count(">>>") > 0
        if code.count(">>>") != thing.docstring.value.count(">>>") or any(
            section.kind is griffe.DocstringSectionKind.admonition for section in sections
        ):
            wrong.append(thing.path)
    assert wrong == []
    assert examples > 40


def test_a_signature_shows_the_value_of_a_default_that_the_code_names(package):
    for name, module in (("compare", "judge.convergence.comparison"), ("stability", "signal.measure")):
        shown = package[f"{module}.{name}"].parameters["depths"].default
        assert shown == repr(inspect.signature(getattr(dl, name)).parameters["depths"].default)


def test_a_page_shows_the_function_and_not_the_module_of_its_name(package):
    """The pages of `identify`, `recommend` and nine more began with constants of their modules."""
    wrong = {}
    for place, held in (("", dl), ("datasets.", dl.datasets)):
        for name in held.__all__:
            if inspect.isfunction(getattr(held, name)):
                shown = package[f"{place}{name}"]
                shown = shown.final_target if shown.is_alias else shown
                if not shown.is_function:
                    wrong[f"{place}{name}"] = shown.path
    assert wrong == {}


def test_every_parameter_has_an_entry_of_its_own(package):
    """None stands in the text of its neighbour, where the reference would not show it as a parameter."""
    swallowed, entries = [], 0
    for thing, sections in documented(package):
        names = {each.name for each in getattr(thing, "parameters", None) or ()} | set(thing.members)
        for section in sections:
            if section.kind not in (
                griffe.DocstringSectionKind.parameters,
                griffe.DocstringSectionKind.attributes,
            ):
                continue
            for entry in section.value:
                entries += 1
                inside = re.findall(r"[.;)] (\w+(?:, \w+)*): \S", entry.description.replace("\n", " "))
                lost = [name for found in inside for name in found.split(", ") if name in names]
                if lost or "," in entry.name:
                    swallowed.append((thing.path, entry.name, lost))
    assert entries > 1000
    assert swallowed == []
