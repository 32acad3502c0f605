"""Tensors that are cut into parts and put together again are followed to where they are whole."""

import pytest
import torch

from deeplimit.modules.trace.recording import place
from deeplimit.modules.trace.slices import same_elsewhere


def some(*shape):
    """A tensor that something made, so that it has a place in the graph."""
    return torch.ones(*shape, requires_grad=True) * 1


PARTS = {
    "from the start": (lambda joined: joined[:, :2], 0),
    "to the end": (lambda joined: joined[:, 2:5], 1),
    "from behind": (lambda joined: joined[:, -3:], 1),
    "up to behind": (lambda joined: joined[:, :-3], 0),
    "narrow": (lambda joined: joined.narrow(1, 2, 3), 1),
    "in sizes, the first": (lambda joined: joined.split([2, 3], 1)[0], 0),
    "in sizes, the second": (lambda joined: joined.split([2, 3], 1)[1], 1),
    "every second": (lambda joined: joined[:, 0:2:2], None),
    "too long": (lambda joined: joined[:, :3], None),
    "in the middle": (lambda joined: joined[:, 1:3], None),
    "of another axis": (lambda joined: joined[:2], None),
    "in other sizes": (lambda joined: joined.split([3, 2], 1)[1], None),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_concatenation_is_the_tensor_that_was_put_there(name):
    cut, which = PARTS[name]
    tensors = [some(5, 2), some(5, 3)]
    found = same_elsewhere(place(cut(torch.cat(tensors, 1))))
    assert found == (None if which is None else place(tensors[which]))


def test_parts_of_equal_length_and_entries_of_a_stack_are_found_too():
    first, second = some(5, 2), some(5, 2)
    joined, stacked = torch.cat([first, second], 1), torch.stack([first, second], 1)
    for found in (joined.chunk(2, 1)[1], stacked.unbind(1)[1], stacked.select(1, -1), stacked[:, 1]):
        assert same_elsewhere(place(found)) == place(second)
    assert same_elsewhere(place(joined.chunk(2, 1)[0])) == place(first)
    assert same_elsewhere(place(stacked[1])) is None


WHOLE = {
    "slices": (lambda x: [x[:, :2], x[:, 2:]], True),
    "sizes": (lambda x: x.split([1, 4], 1), True),
    "chunks": (lambda x: x.chunk(2, 1), True),
    "the other way round": (lambda x: [x[:, 2:], x[:, :2]], False),
    "not all": (lambda x: [x[:, :2], x[:, 2:4]], False),
    "one twice": (lambda x: [x[:, :2], x[:, :3]], False),
    "of two tensors": (lambda x: [x[:, :2], (2 * x)[:, 2:]], False),
    "one changed": (lambda x: [x[:, :2], 2 * x[:, 2:]], False),
}


@pytest.mark.parametrize("name", WHOLE)
def test_all_parts_of_a_tensor_in_their_order_are_the_tensor(name):
    cut, same = WHOLE[name]
    x = some(4, 5)
    assert same_elsewhere(place(torch.cat(list(cut(x)), 1))) == (place(x) if same else None)
    assert same_elsewhere(place(x)) is None
