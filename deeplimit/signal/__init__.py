"""How a network propagates signal and gradient at initialisation, and whether either explodes or dies.

`measure` and `phase` hold what users call. `task` says what is measured, block by block. `products`
multiplies by a layer's matrices (drawn whole, or in law through their products with known vectors);
`scaled_state` keeps a state as direction, change and logarithm of its size; `passes` runs all layers forwards
and backwards, `general_pass` those of other recursions. `bounds`, `radial_law` and `layer_time` hold what is
known of the ratios. `growth_fit` fits how they grow with the depth, and `growth_verdict` decides.
"""

from deeplimit.signal.measure import stability
from deeplimit.signal.one_signal import OneSignal
from deeplimit.signal.phase import phase_diagram
from deeplimit.signal.phase_report import PhaseDiagram
from deeplimit.signal.report import StabilityReport

__all__ = ["OneSignal", "PhaseDiagram", "StabilityReport", "phase_diagram", "stability"]
