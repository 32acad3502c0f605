"""Networks that are trained for a few steps are what they were, with every optimizer, loss, end and stop."""

import functools

import kept_numbers
import numpy as np
import pytest
import torch

import deeplimit as dl

same = functools.partial(kept_numbers.same_report, "training", tolerance=1e-3)
DATA = dl.datasets.synthetic_system(width=3, count=12, test=6)
CLASSES = dl.datasets.Data.of(DATA.inputs, (DATA.inputs.sum(dim=1) > 0).long())
NETWORK = dl.fully_connected(3, "tanh", exponent=0.0)


def trained(network=NETWORK, depths=(2, 4), data=DATA, **how):
    return dl.train(network, list(depths), data, **{"epochs": 3, "batch": 5, "progress": False} | how)


def image_data():
    stream = torch.Generator().manual_seed(0)
    return dl.datasets.Data.of(torch.randn(8, 1, 5, 4, generator=stream), torch.arange(8) % 3)


def halved(outputs, targets):
    return 0.5 * (outputs - targets).abs().mean(dim=1)


RUNS = {
    "usual": lambda: trained(),
    "SGD": lambda: trained(optimizer=dl.SGD(0.1, momentum=0.9, weight_decay=0.01), repeats=2),
    "Adam": lambda: trained(optimizer=dl.Adam(0.02, weight_decay=0.1), seed=3),
    "AdamW": lambda: trained(optimizer=dl.AdamW(0.02, weight_decay=0.1), batch=None),
    "clipped": lambda: trained(clip=0.05, optimizer=dl.SGD(0.5)),
    "tied": lambda: trained(tied="delta", nonnegative="delta", initial=dl.SmallGaussian()),
    "fixed": lambda: trained(fixed="b", depths=(3,), checkpointing=True),
    "classes": lambda: trained(
        data=CLASSES, ends=dl.LinearEnds(3, 2), validation=(DATA.inputs[:4], torch.arange(4) % 2)
    ),
    "one-hot": lambda: trained(
        data=dl.datasets.Data.of(
            DATA.inputs, torch.nn.functional.one_hot(torch.arange(len(DATA.inputs)) % 3).float()
        )
    ),
    "own loss": lambda: trained(loss=halved, dtype=torch.float64),
    "stopped": lambda: trained(stop=dl.Stop(loss=0.5), epochs=6),
    "no longer improving": lambda: trained(stop=dl.Stop(patience=1), epochs=6, optimizer=dl.SGD(3.0)),
    "diverges": lambda: trained(optimizer=dl.SGD(1e6), epochs=4),
    "res-1": lambda: trained(dl.res1(3, "tanh"), checkpointing=True),
    "res-2": lambda: trained(dl.res2(3, "relu"), depths=(2, 5)),
    "inner": lambda: trained(dl.inner(3, "gelu", exponent=0.5), tied=()),
    "images": lambda: trained(dl.convolutional(2, size=(5, 4), exponent=0.5), data=image_data(), epochs=2),
    "shortcuts": lambda: trained(
        dl.convolutional(2, size=(5, 4), shortcut=True, exponent=0.5),
        data=image_data(),
        epochs=2,
        checkpointing=True,
    ),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore")
def test_trained_networks_stay(name):
    report = RUNS[name]()
    same(name, report, with_picture=name in ("usual", "SGD", "classes", "diverges"))
    found = {}
    for (depth, repeat), one in report.networks.networks.items():
        sizes = {
            key: (float(np.linalg.norm(value)), value.ravel()[:3]) for key, value in one.parameters.items()
        }
        found[f"{depth}, {repeat}"] = [sizes, one.losses, one.test_loss, str(one.ending)]
    kept_numbers.check("training", f"networks: {name}", found, 1e-3)
    if name in ("usual", "images", "tied"):
        depth = int(report.depths[-1])
        outputs = report.outputs(DATA.inputs[:3] if name != "images" else image_data().inputs[:2], depth, 0)
        kept_numbers.check("training", f"outputs: {name}", outputs, 1e-3)


def test_data_stay():
    digits = dl.datasets.digits()
    found = [
        (each.name, each.inputs.shape, each.inputs.sum(), each.targets.double().sum(), each.classes)
        for each in (DATA, digits)
    ]
    kept_numbers.check("training", "data", found, 1e-4)
