"""Which exponent and which limit has a stack of torch blocks? Measured updates become a named limit.

`reading` finds the blocks of a built module and runs them. `measure` turns updates at one depth into
moments. `scaling` combines depths, `in_law` draws the measured limit and compares it with the network.
`verdict` decides, `wording` phrases, `report` holds the result, `identify` is what users call.
"""

from deeplimit.judge.block_limit.identify import identify
from deeplimit.judge.block_limit.report import IdentifiedLimit

__all__ = ["IdentifiedLimit", "identify"]
