"""Brownian increments with their space-time Lévy areas: their law, at every depth of one path."""

import pytest
import torch

from deeplimit.driving import SpaceTimeBrownian
from deeplimit.driving.path import Grid

PATHS = 40_000


def areas(depths, seed=0):
    """Return ΔB and U = ∫ (B_s - B_a) ds of every layer of every depth, (L, P) each."""
    grid, law = Grid(depths), SpaceTimeBrownian()
    path = law.path((2,), grid, PATHS, torch.Generator().manual_seed(seed), torch.float64)
    found = {depth: ([], []) for depth in depths}
    for chunk in grid.chunks():
        path.begin(chunk)
        for index, ends in enumerate(chunk.ends.tolist()):
            path.advance(index)
            for j in reversed(range(len(depths))):
                if ends[j]:
                    moved, integral = path.layer(j).values.clone().T
                    found[depths[j]][0].append(moved)
                    found[depths[j]][1].append(float(chunk.times[index]) * moved - integral)
    return {depth: tuple(torch.stack(each) for each in pair) for depth, pair in found.items()}


@pytest.mark.statistical
def test_areas_have_the_variance_and_the_covariance_of_brownian_motion():
    """E U² = h³/3 and E U ΔB = h²/2, within 5 standard errors of 40,000 paths."""
    for depth, (moved, area) in areas((2, 4)).items():
        h = 1.0 / depth
        for values, expected in ((area**2, h**3 / 3), (area * moved, h**2 / 2), (moved**2, h)):
            error = values.std(dim=1) / PATHS**0.5
            assert ((values.mean(dim=1) - expected).abs() < 5 * error).all()


def test_areas_of_coarse_layers_are_those_of_the_fine_ones():
    """U over two steps is U_1 + U_2 + h ΔB_1."""
    found = areas((2, 4), seed=1)
    (_, coarse), (moved, fine) = found[2], found[4]
    torch.testing.assert_close(coarse, fine[0::2] + fine[1::2] + 0.25 * moved[0::2])


def test_a_path_is_read_again_to_the_last_bit():
    path = SpaceTimeBrownian().path((4,), Grid((2,)), 3, torch.Generator().manual_seed(0), torch.float32)
    runs = []
    for _ in range(2):
        (chunk,) = Grid((2,)).chunks()
        path.begin(chunk)
        path.advance(0)
        runs.append((path.brownian.clone(), path.layer(0).values.clone()))
        path.rewind()
    assert all(torch.equal(*pair) for pair in zip(*runs, strict=True))
    assert runs[0][0].shape == (3, 2)
