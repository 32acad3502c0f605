"""A training set is frozen, checked and known by its numbers; what does not fit together is refused."""

import pickle

import numpy as np
import pytest
import torch
from refusals import INF, NAN, assert_refused, row

from deeplimit.common import specification
from deeplimit.trained.datasets import Data

X = torch.arange(12.0).reshape(6, 2)
Y = X.sum(dim=1, keepdim=True)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def data(name="sums", inputs=X, targets=Y, test_inputs=X[:2], test_targets=Y[:2], **more):
    return Data(name, inputs, targets, test_inputs, test_targets, **more)


def labelled(**changes):
    return data(**({"targets": LABELS, "test_targets": LABELS[:2], "classes": 3} | changes))


@pytest.mark.parametrize(
    ("call", "kind", "names"),
    [
        row("no name", lambda: data(name=""), TypeError, "name", "''"),
        row("a list", lambda: data(inputs=[[1.0]]), TypeError, "inputs", "[[1.0]]"),
        row("doubles", lambda: data(inputs=X.double()), TypeError, "inputs", "torch.float64"),
        row("doubles", lambda: data(test_targets=Y.double()), TypeError, "test_targets", "torch.float64"),
        row("labels without classes", lambda: data(targets=LABELS), TypeError, "targets", "torch.int64"),
        row("classes without labels", lambda: data(classes=3), TypeError, "targets", "torch.float32"),
        row("one class", lambda: labelled(classes=1), ValueError, "classes", "1"),
        row("a label too large", lambda: labelled(classes=2), ValueError, "targets", "2"),
        row("a label below 0", lambda: labelled(targets=LABELS - 1), ValueError, "targets", "-1"),
        row("one axis", lambda: data(inputs=X[:, 0]), ValueError, "inputs", "(6,)"),
        row("targets of one axis", lambda: data(targets=Y[:, 0]), ValueError, "targets", "(6,)"),
        row("labels of two axes", lambda: labelled(targets=LABELS[:, None]), ValueError, "targets", "(6, 1)"),
        row("no rows", lambda: data(test_inputs=X[:0]), ValueError, "test_inputs", "(0, 2)"),
        row("NaN", lambda: data(inputs=torch.full((6, 2), NAN)), ValueError, "inputs", "NaN"),
        row("infinity", lambda: data(test_targets=torch.full((2, 1), INF)), ValueError, "test_targets"),
        row("other rows", lambda: data(targets=Y[:5]), ValueError, "targets", "5", "6"),
        row("other test rows", lambda: data(test_targets=Y[:3]), ValueError, "test_targets", "3", "2"),
        row("other shape", lambda: data(test_inputs=Y[:2]), ValueError, "test_inputs", "(2,)", "(1,)"),
        row("other outputs", lambda: data(test_targets=X[:2]), ValueError, "test_targets", "(1,)", "(2,)"),
        row("a text", lambda: data(citations="me"), TypeError, "citations", "'me'"),
        row("of a list", lambda: Data.of([1.0], Y), TypeError, "x", "[1.0]"),
        row("of texts", lambda: Data.of(np.array(["a"]), Y), TypeError, "x", "<U1"),
        row("of complex numbers", lambda: Data.of(X, Y + 1j), TypeError, "y", "complex64"),
        row("of other rows", lambda: Data.of(X, Y[:5]), ValueError, "y", "(5, 1)", "(6, 2)"),
        row("of a triple", lambda: Data.of(X, Y, test=(X, Y, Y)), ValueError, "test", "3"),
        row("of a share", lambda: Data.of(X, Y, test=0.5), TypeError, "test", "0.5"),
        row("of all rows", lambda: Data.of(X, Y, test=6), ValueError, "test", "5", "6"),
        row("of no rows", lambda: Data.of(X, Y, test=0), ValueError, "test", "0"),
        row("of one row", lambda: Data.of(X[:1], Y[:1]), ValueError, "test"),
        row("of large numbers", lambda: Data.of(X.double() * 1e300, Y), ValueError, "inputs", "float32"),
        row("a seed below 0", lambda: Data.of(X, Y, seed=-1), ValueError, "seed", "-1"),
    ],
)
def test_what_does_not_fit_together_is_refused(call, kind, names):
    assert_refused(call, kind, *names)


def test_changing_a_tensor_afterwards_changes_nothing():
    x = X.clone()
    found = data(inputs=x)
    x.zero_()
    assert torch.equal(found.inputs, X)


def test_nothing_can_be_assigned():
    assert (data().shape, data().outputs, labelled().outputs) == ((2,), 1, 3)
    with pytest.raises(AttributeError):
        data().inputs = X


def test_every_number_the_kind_of_targets_and_the_split_enter_the_content():
    changed = X.clone()
    changed[5, 1] += 1e-6
    others = [
        data(inputs=changed),
        data(targets=changed[:, 1:]),
        data(test_inputs=changed[4:]),
        data(test_targets=Y[1:3]),
        data(test_inputs=X[:3], test_targets=Y[:3]),
        data(inputs=X[:, :, None], test_inputs=X[:2, :, None]),
        labelled(),
        labelled(classes=4),
    ]
    assert len({each.content for each in (data(), *others)}) == 9
    assert all(each != data() for each in others)


def test_equal_numbers_are_equal_data_whatever_they_are_called():
    assert data(name="a") == data(name="b", citations=("me",))
    assert len({data(name="a"), data(name="b")}) == 1
    assert data() != X


def test_the_content_of_these_numbers_never_changes():
    assert data().content.startswith("4f67144947c163ce")


def test_a_store_knows_data_by_their_content():
    described = specification.describe(data(name="a"), "data")
    assert described == specification.describe(data(name="b"), "data")
    assert data().content in specification.text(described)


def test_data_reach_other_processes_whole():
    sent = pickle.loads(pickle.dumps(labelled()))  # noqa: S301
    assert sent == labelled()
    assert sent.classes == 3


def test_a_fifth_of_the_rows_is_set_aside_and_pairs_stay_together():
    x = torch.arange(100.0)[:, None]
    found = Data.of(x, 2 * x)
    assert (len(found.inputs), len(found.test_inputs)) == (80, 20)
    assert torch.equal(found.targets, 2 * found.inputs)
    assert torch.equal(found.test_targets, 2 * found.test_inputs)
    assert torch.equal(torch.cat([found.inputs, found.test_inputs]).sort(dim=0).values, x)
    assert Data.of(x, 2 * x) == found
    assert Data.of(x, 2 * x, seed=1) != found


def test_a_split_leaves_the_global_generators_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    Data.of(X, Y)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8"])
def test_arrays_of_any_real_type_give_the_same_data(dtype):
    held = (X[:2].numpy(), LABELS[:2].numpy())
    found = Data.of(X.numpy().astype(dtype)[::-1][::-1], LABELS.numpy().astype("uint8"), test=held)
    assert found == labelled()


def test_labels_of_the_test_set_count_among_the_classes():
    assert Data.of(X, LABELS, test=(X, LABELS + 4)).classes == 7
    assert Data.of(X, LABELS, test=2, classes=10).classes == 10
    assert Data.of(X, 0 * LABELS, test=2).classes == 2
