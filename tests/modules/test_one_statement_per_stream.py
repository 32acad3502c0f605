"""A report says one thing about how a stream grows and turns: the lines of streams, branches and findings."""

import dataclasses

import pytest
from families import FAMILIES
from one_statement import disagreements
from stacks import Res1, vectors

import deeplimit as dl

FAST = ("llama", "bert", "nanochat", "t5", "resnet-plain")
DEPTHS = (2, 4, 8)


@pytest.mark.thirdparty
@pytest.mark.usefixtures("model_libraries", "one_thread")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.nightly) for name in FAMILIES]
)
def test_a_family_gets_one_statement_per_stream(name):
    family = FAMILIES[name]
    report = dl.check_depth(family.factory, DEPTHS, batch=family.batch(), expected=0.5)
    assert list(disagreements(report)) == []


@pytest.mark.parametrize(
    ("stream", "branch"),
    [
        ("identity", "grows with depth"),
        ("finite clock", "explosion"),
        ("logarithmic clock (pre-norm)", "no limit (each layer turns the state as far at any depth)"),
        ("forgets its input (post-norm)", "grows with depth"),
        ("explosion", "neural-SDE-like"),
    ],
)
def test_two_statements_that_disagree_are_seen(stream, branch):
    right = dl.check_depth(Res1, DEPTHS, batch=vectors())
    assert list(disagreements(right)) == []
    wrong = dataclasses.replace(
        right,
        streams=tuple(dataclasses.replace(one, meaning=stream) for one in right.streams),
        branches=tuple(dataclasses.replace(one, meaning=branch) for one in right.branches),
    )
    assert len(list(disagreements(wrong))) == len(right.branches)
