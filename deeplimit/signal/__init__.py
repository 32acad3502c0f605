"""How a network propagates signal and gradient at initialisation, and whether either explodes or dies.

`products` multiplies by a layer's matrices (drawn whole, or in law through their products with known
vectors); `signal` keeps a state as direction, change and logarithm of its size; `passes` runs all layers
forwards and backwards; `theory` and `bounds` hold what is known of the ratios; `growth` fits how they grow
with the depth; `measure` and `phase` hold what users call.
"""

from deeplimit.signal.measure import stability
from deeplimit.signal.one_signal import OneSignal
from deeplimit.signal.phase import phase_diagram
from deeplimit.signal.phase_report import PhaseDiagram
from deeplimit.signal.report import StabilityReport

__all__ = ["OneSignal", "PhaseDiagram", "StabilityReport", "phase_diagram", "stability"]
