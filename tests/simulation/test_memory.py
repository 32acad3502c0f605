"""Memory is bounded by the block size: not by the depth, not by the number of paths."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"),
]
PROGRAM = """
import sys
import deeplimit as dl
law, coupling = sys.argv[1:3]
weights = dl.Brownian() if law == "brownian" else dl.SmoothGaussian()
for run in sys.argv[3:]:
    depth, paths, width = map(int, run.split(","))
    network = dl.res1(width, "tanh", weights=weights)
    dl.compare(network, depths=[depth // 2, depth], paths=paths, workers=1, coupling=coupling)
    # ru_maxrss would begin at the parent's peak, and hide what lies below it.
    with open("/proc/self/status") as status:
        print(next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")))
"""


def peaks_in_mib(*runs, law="brownian", coupling="auto"):
    """Return the peak memory after each of some runs (depth, paths, width) in one new process."""
    arguments = [sys.executable, "-c", PROGRAM, law, coupling, *(",".join(map(str, run)) for run in runs)]
    # What is freed goes back at once: glibc's adapting thresholds moved the peak of one run by up to 80 MiB.
    at_once = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**20))
    printed = subprocess.run(
        arguments, capture_output=True, text=True, check=True, env=os.environ | at_once
    ).stdout
    return [float(line) for line in printed.split()]


# Both runs are large enough to load the compiled loops, where there are any. The shallow one fills a block.
@pytest.mark.parametrize(
    ("law", "coupling"), [("brownian", "pathwise"), ("brownian", "projected"), ("smooth", "auto")]
)
def test_peak_memory_does_not_grow_with_depth(law, coupling):
    (shallow,), (deep,) = (
        peaks_in_mib(run, law=law, coupling=coupling) for run in ((512, 200, 40), (16384, 25, 40))
    )
    assert deep < shallow + 60


@pytest.mark.parametrize("coupling", ["pathwise", "projected"])
def test_peak_memory_does_not_grow_with_the_number_of_paths(coupling):
    few, many = peaks_in_mib((4, 100_000, 8), (4, 1_000_000, 8), coupling=coupling)
    assert many < few + 60


def test_width_40_at_great_depth_stays_below_a_gigabyte():
    """Depth 2^17, whose reference has 2^18 steps; half a minute."""
    (peak,) = peaks_in_mib((2**17, 4, 40))
    assert peak < 1024
