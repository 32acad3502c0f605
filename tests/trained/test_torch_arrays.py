"""The lines that run on a GPU, run on tensors of a CPU: the same numbers as numpy's, to round-off."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary

DIGITS = dl.datasets.digits()
SMALL = dl.datasets.Data.of(DIGITS.inputs[:60], DIGITS.targets[:60], test=10)
IMAGES = dl.datasets.Data.of(DIGITS.inputs[:40].reshape(-1, 1, 8, 8), DIGITS.targets[:40], test=10)
SYSTEM = dl.datasets.synthetic_system(width=4, count=50, test=9)
CASES = {
    "fully connected": (
        dl.fully_connected(4, "tanh", exponent=0.0),
        SYSTEM,
        dict(tied="delta", nonnegative="delta", initial=dl.SmallGaussian(), stop=dl.Stop(loss=0.2)),
    ),
    "res1": (dl.res1(5, "relu", exponent=0.5), SMALL, dict(optimizer=dl.SGD(0.01, momentum=0.9))),
    "res2": (dl.res2(5, "gelu", exponent=0.5), SMALL, dict(optimizer=dl.AdamW(0.01, weight_decay=0.1))),
    "inner": (dl.inner(5, "identity", exponent=1.0), SMALL, dict(checkpointing=True)),
    "a loss, a clip and validation": (
        dl.res1(5, "tanh", exponent=0.5),
        SMALL,
        dict(loss=torch.nn.CrossEntropyLoss(label_smoothing=0.1), clip=0.3, callback=lambda at: at.loss < 0.1)
        | dict(validation=(SMALL.test_inputs, SMALL.test_targets)),
    ),
    "convolutional": (dl.convolutional(3, size=(8, 8), shortcut=True, exponent=0.5), IMAGES, {}),
    "by automatic differentiation": (
        dl.ResidualNetwork(dl.ModifiedRes1("tanh"), 5, dl.IID("gaussian"), 0.7),
        SMALL,
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_tensors_give_the_numbers_of_numpy(case, monkeypatch):
    network, data, settings = CASES[case]
    how = dict(repeats=3, epochs=3, batch=16, dtype=torch.float64, **settings)
    by_numpy = dl.train(network, [5], data, **how)
    monkeypatch.setattr(ArrayLibrary, "on_cpu", property(lambda self: False))
    by_torch = dl.train(network, [5], data, **how)
    np.testing.assert_allclose(by_torch.histories, by_numpy.histories, rtol=1e-9)
    np.testing.assert_allclose(by_torch.test_losses, by_numpy.test_losses, rtol=1e-9)
    assert by_torch.endings == by_numpy.endings
    if "validation" in settings:
        found, wanted = by_torch.validation_histories, by_numpy.validation_histories
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_a_device_trains_as_a_cpu_does(device):
    network, data, settings = CASES["fully connected"]
    how = dict(repeats=2, epochs=2, dtype=torch.float64, **settings)
    there, here = dl.train(network, [5], data, device=device, **how), dl.train(network, [5], data, **how)
    np.testing.assert_allclose(there.histories, here.histories, rtol=1e-9)
