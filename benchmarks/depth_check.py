"""A depth check of a transformer of tens of millions of parameters, beside what it cannot do without."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

import deeplimit as dl
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, timed_in_turn
from deeplimit.common.global_state import seeded


def transformer(width: int, depth: int) -> nn.Module:
    """Return a pre-norm encoder of torch's own with embeddings of 8192 tokens."""
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, norm_first=True, batch_first=True, dropout=0.0
    )
    encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(8192, width), encoder, nn.Linear(width, 8192))


def check(*, quick: bool, repeats: int) -> Workload:
    """Time `check_depth` at four depths, and what it rests on: building the modules, one forward and one
    backward of each.
    """
    width, depths = (256, (2, 4, 6, 8)) if quick else (512, (4, 8, 16, 24))
    batch = torch.randint(0, 8192, (2, 64), generator=torch.Generator().manual_seed(0))

    def build_and_train() -> int:
        parameters = 0
        for depth in depths:
            with seeded(0):
                model = transformer(width, depth)
            model(batch).sum().backward()
            parameters = sum(parameter.numel() for parameter in model.parameters())
        return parameters

    (ours, report), (floor, parameters) = timed_in_turn(
        [lambda: dl.check_depth(partial(transformer, width), depths, batch=batch), build_and_train], repeats
    )
    rows = (
        Row("deeplimit.check_depth", ours, f"{len(report.branches)} kinds of branches found", role=OURS),
        Row("floor: building, one forward and one backward at each depth", floor, role=FLOOR),
    )
    setting = (
        f"pre-norm encoder, width {width}, depths {', '.join(map(str, depths))}, up to {parameters / 1e6:.0f}"
        " M parameters"
    )
    targets = (Target("seconds of the check", ours, at_most=60.0),)
    return Workload("check", setting, rows, {"width": width, "depths": depths}, targets)
