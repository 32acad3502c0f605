"""Blocks over threads and executors: results in the order of the blocks, forgotten once they are taken."""

import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from deeplimit.ground.workers import map_blocks

CPU = torch.device("cpu")


class Result:
    def __init__(self, block):
        self.block = block


def late_first(task, block, tick=None):
    """Finish the earlier blocks last."""
    time.sleep(0.02 * (task - block))
    return Result(block)


@pytest.mark.parametrize("own", [True, False])
def test_results_come_in_the_order_of_the_blocks_whichever_ends_first(own):
    with ThreadPoolExecutor(4) as pool:
        results = map_blocks(late_first, 4, 4, CPU, workers=4, executor=None if own else pool)
        assert [result.block for result in results] == [0, 1, 2, 3]


def test_a_result_that_was_taken_is_not_held():
    results = map_blocks(lambda task, block, tick: Result(block), 3, 3, CPU, workers=1)
    first = weakref.ref(next(results))
    next(results)
    gc.collect()
    assert first() is None
    results.close()


def test_an_error_in_a_block_is_raised_and_the_rest_is_given_up():
    def work(task, block, tick):
        if block == 1:
            raise ValueError("block 1")
        return block

    results = map_blocks(work, None, 50, CPU, workers=1)
    assert next(results) == 0
    with pytest.raises(ValueError, match="block 1"):
        list(results)
