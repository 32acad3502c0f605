"""Adaptive sampling: growing samples until a verdict stands or a budget of seconds is spent."""

from deeplimit.statistics.interim.adaptive_sampling import AdaptiveSampling
from deeplimit.statistics.interim.analyses import InterimAnalysis, RequiredSampleSize
from deeplimit.statistics.interim.sample_sizes import Asks, SampleSizeRequest, Size
from deeplimit.statistics.interim.sequence import Study, carry_out

__all__ = [
    "Asks",
    "AdaptiveSampling",
    "InterimAnalysis",
    "RequiredSampleSize",
    "Size",
    "Study",
    "SampleSizeRequest",
    "carry_out",
]
