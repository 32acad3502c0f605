"""Right networks and networks with one planted fault: under which rule each must pass or be caught, and what
must be named.
"""

from __future__ import annotations

from depth_faulty_gains import GAIN_BUGS, REST
from depth_faulty_scales import DEEPNORM_BUGS, GPT_BUGS, MULTIPLIER_BUGS, NANO_BUGS, OTHER_RULES
from depth_right_cases import RIGHT

CASES = [*RIGHT, *GPT_BUGS, *OTHER_RULES, *MULTIPLIER_BUGS, *NANO_BUGS, *DEEPNORM_BUGS, *GAIN_BUGS, *REST]
