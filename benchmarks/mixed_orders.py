"""How often the interval of the order covers the derived one where contributions of several orders mix
(docs/statistics.md).

python -m benchmarks.mixed_orders [networks a row]: random trends and activations under Theorems 4.3 and 4.4.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

import deeplimit as dl

WIDTH = 4
DEPTHS = [16, 32, 64, 128, 256, 512]
ACTIVATIONS = ("tanh", "sin", "scaled_silu", "scaled_softplus", "erf")
ROWS = (
    ("Theorem 4.3, α from 0.2 to 0.8", "linear", 0.25),
    ("Theorem 4.4, ODE, α from 0.2 to 0.8", "vanishing", 0.25),
    ("Theorem 4.4, SDE, no trend", "noise", 0.25),
    ("Theorem 4.4, SDE, β = 1", "diffusive", 0.25),
    ("Theorem 4.4, SDE, β from 1.2 to 2", "fading", 0.25),
    ("Theorem 4.4, SDE, β = 1, strong trend", "diffusive", 0.4),
    ("Theorem 4.4, SDE, β = 1, very strong trend", "diffusive", 0.7),
    ("Theorem 4.3, very strong trend", "linear", 0.7),
)


def network(kind: str, size: float, seed: int) -> dl.ResidualNetwork:
    """Return a random network: entries of Ā and b̄ of this size that turn with time."""
    draws, choice = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    matrices = [size * torch.randn(WIDTH, WIDTH, generator=draws) for _ in range(3)]
    vectors = [size * torch.randn(WIDTH, generator=draws) for _ in range(2)]
    trend = dl.Trend(
        lambda t: matrices[0] + matrices[1] * np.sin(3 * t) + matrices[2] * t * t,
        lambda t: vectors[0] + vectors[1] * np.cos(2 * t),
    )
    activation, noise = ACTIVATIONS[seed % len(ACTIVATIONS)], dl.Ito(A=0.02, b=0.1)
    alpha = float(choice.choice([0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8]))
    beta = float(choice.choice([1.2, 1.3, 1.4, 1.5, 1.75, 2.0]))
    if kind == "linear":
        return dl.inner(WIDTH, activation, trend=trend, alpha=alpha, beta=1 - alpha)
    if kind == "vanishing":
        return dl.inner(WIDTH, activation, trend=trend, noise=noise, alpha=alpha, beta=1 - alpha)
    if kind == "noise":
        return dl.inner(WIDTH, activation, noise=noise)
    return dl.inner(
        WIDTH, activation, trend=trend, noise=noise, alpha=0.0, beta=1.0 if kind == "diffusive" else beta
    )


def measure(job: tuple[str, float, int]) -> tuple[float, float, float, str]:
    """Return predicted order, interval and verdict of one network."""
    kind, size, seed = job
    paths = 100 if kind == "linear" else 500
    report = dl.compare(network(kind, size, seed), depths=DEPTHS, paths=paths, seed=seed, workers=1)
    return report.predicted_rate, *report.rate_interval, report.verdict


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(
        "| setting | an order is given | covered (95 %) | median width | converges | cannot tell | does not"
        " converge |"
    )
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(2) as pool:
        for name, kind, size in ROWS:
            results = list(pool.map(measure, [(kind, size, seed) for seed in range(count)], chunksize=5))
            given = [
                (low <= order <= high, high - low) for order, low, high, _ in results if np.isfinite(low)
            ]
            covered, widths = zip(*given, strict=True)
            verdicts = Counter(verdict for *_, verdict in results)
            told = " | ".join(
                str(verdicts[name]) for name in ("converges", "cannot tell", "does not converge")
            )
            print(
                f"| {name} | {len(given)} of {count} | {np.mean(covered):.2f} | {np.median(widths):.3f} |"
                f" {told} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
