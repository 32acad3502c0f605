"""Memory is bounded by the block size: not by the depth, not by the number of paths."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import deeplimit as dl
depth, paths, width, law = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
weights = dl.Brownian() if law == "brownian" else dl.SmoothGaussian()
dl.compare(dl.res1(width, "tanh", weights=weights), depths=[depth // 2, depth], paths=paths, workers=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_mib(depth, paths, width, law="brownian"):
    arguments = [sys.executable, "-c", PROGRAM, str(depth), str(paths), str(width), law]
    return float(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("law", ["brownian", "smooth"])
def test_peak_memory_does_not_grow_with_depth(law):
    shallow, deep = peak_mib(64, 8, 40, law), peak_mib(8192, 8, 40, law)
    assert deep < shallow + 60


def test_peak_memory_does_not_grow_with_the_number_of_paths():
    few, many = peak_mib(8, 10_000, 2), peak_mib(8, 1_000_000, 2)
    assert many < few + 60


def test_width_40_at_great_depth_stays_below_a_gigabyte():
    """Depth 2^17, whose reference has 2^18 steps; half a minute."""
    assert peak_mib(2**17, 4, 40) < 1024
