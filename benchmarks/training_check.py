"""A training check of a small transformer, beside the loop with hooks that a coordinate check is."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

import deeplimit as dl
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, timed_in_turn
from deeplimit.common.global_state import seeded

WIDTH, STEPS, SEEDS = 64, 4, 4


def transformer(depth: int) -> nn.Module:
    """Return a pre-norm encoder of torch's own that reads and writes vectors."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, norm_first=True, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, depth, nn.LayerNorm(WIDTH), enable_nested_tensor=False)


def adam(model: nn.Module, depth: int) -> torch.optim.Optimizer:
    """Return Adam at one learning rate for all depths, so low that the check need not lower it."""
    return torch.optim.Adam(model.parameters(), lr=1e-4)


def check_train(*, quick: bool, repeats: int) -> Workload:
    """Time `check_training`, the same trainings in a loop with hooks on every block, and without them."""
    depths = (4, 8, 16) if quick else (4, 8, 16, 32, 64)
    inputs, target = torch.randn(2, 4, 32, WIDTH, generator=torch.Generator().manual_seed(0))

    def loss(output: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(output, target)

    def ours() -> dl.TrainingCheckReport:
        return dl.check_training(transformer, depths, optimizer=adam, batch=inputs, loss=loss, seeds=SEEDS)

    def loop(*, hooked: bool) -> list[float]:
        sizes: list[float] = []
        for depth in depths:
            for seed in range(SEEDS):
                with seeded(seed):
                    model = transformer(depth)
                if hooked:
                    for block in model.layers:
                        block.register_forward_hook(
                            lambda module, given, output: sizes.append(output.abs().mean().item())
                        )
                optimizer = adam(model, depth)
                for _ in range(STEPS):
                    optimizer.zero_grad()
                    loss(model(inputs)).backward()
                    optimizer.step()
                if hooked:
                    model(inputs)
        return sizes

    (seconds, report), (plain, sizes), (floor, _) = timed_in_turn(
        [ours, lambda: loop(hooked=True), lambda: loop(hooked=False)], repeats
    )
    rows = (
        Row("deeplimit.check_training", seconds, f"{len(report.branches)} kinds of branches", role=OURS),
        Row(
            "loop with a hook on every block, as in a coordinate check",
            plain,
            f"{len(sizes)} sizes of states, nothing judged",
        ),
        Row("floor: building and training alone", floor, role=FLOOR),
    )
    setting = (
        f"pre-norm encoder, width {WIDTH}, depths {', '.join(map(str, depths))}, {SEEDS} seeds, {STEPS} steps"
    )
    targets = (Target("seconds of the check", seconds, at_most=60.0),)
    return Workload("check-train", setting, rows, {"width": WIDTH, "depths": depths}, targets)
