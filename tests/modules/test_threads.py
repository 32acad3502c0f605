"""Several threads may measure one module: the numbers are those of one, and nothing is moved afterwards."""

import random
import threading

import numpy as np
import torch

import deeplimit as dl

BATCH = torch.linspace(-1.0, 1.0, 80).reshape(2, 5, 8)


def stack(depth):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return torch.nn.TransformerEncoder(layer, depth)


with torch.random.fork_rng():
    torch.manual_seed(0)
    MODEL = stack(2)


def state():
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in MODEL.modules()]
    flags = [(each.requires_grad, each.grad is None) for each in MODEL.parameters()]
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state()),
        hooks,
        flags,
        MODEL.training,
    )


def content(report):
    return str(
        {key: value for key, value in report.to_dict().items() if key not in ("provenance", "seconds")}
    )


def test_threads_that_measure_one_module_get_the_numbers_of_one():
    calls = [
        lambda: content(dl.probe(MODEL, BATCH)),
        lambda: str(dl.find_branches(MODEL, BATCH)),
        lambda: content(dl.check_depth(stack, [2, 3], batch=BATCH)),
    ]
    right, before = [call() for call in calls], state()
    found, errors = [[] for _ in calls], []

    def work(place):
        try:
            for _ in range(1 + (place % 3 == 0)):
                found[place % 3].append(calls[place % 3]())
        except Exception as error:  # noqa: BLE001  # it would be lost in the thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [set(each) for each in found] == [{one} for one in right]
    assert state() == before
