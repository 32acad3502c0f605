"""Memory is bounded by the block size: not by the depth, not by the number of paths."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)
PROGRAM = """
import sys
import deeplimit as dl
depth, paths, width = map(int, sys.argv[1:4])
law, coupling = sys.argv[4:6]
weights = dl.Brownian() if law == "brownian" else dl.SmoothGaussian()
network = dl.res1(width, "tanh", weights=weights)
dl.compare(network, depths=[depth // 2, depth], paths=paths, workers=1, coupling=coupling)
# ru_maxrss would begin at the parent's peak, and hide what lies below it.
with open("/proc/self/status") as status:
    print(next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")))
"""


def peak_mib(depth, paths, width, law="brownian", coupling="auto"):
    arguments = [sys.executable, "-c", PROGRAM, str(depth), str(paths), str(width), law, coupling]
    return float(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


# Both runs are large enough to load the compiled loops, where there are any.
@pytest.mark.parametrize(
    ("law", "coupling"), [("brownian", "pathwise"), ("brownian", "projected"), ("smooth", "auto")]
)
def test_peak_memory_does_not_grow_with_depth(law, coupling):
    shallow, deep = peak_mib(512, 800, 40, law, coupling), peak_mib(16384, 25, 40, law, coupling)
    assert deep < shallow + 60


@pytest.mark.parametrize("coupling", ["pathwise", "projected"])
def test_peak_memory_does_not_grow_with_the_number_of_paths(coupling):
    few, many = peak_mib(8, 100_000, 8, "brownian", coupling), peak_mib(8, 1_000_000, 8, "brownian", coupling)
    assert many < few + 60


def test_width_40_at_great_depth_stays_below_a_gigabyte():
    """Depth 2^17, whose reference has 2^18 steps; half a minute."""
    assert peak_mib(2**17, 4, 40) < 1024
