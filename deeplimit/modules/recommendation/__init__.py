"""What makes a module trainable at a depth: an exponent, a line of code that was run, learning rates.

`measured` holds sizes of signal and gradient at one depth, `scaling_line` writes and runs lines of code,
`recommend` is what users call, `report` holds the result and `wording` its sentences.
"""

from deeplimit.modules.recommendation.recommend import recommend
from deeplimit.modules.recommendation.report import Recommendation

__all__ = ["Recommendation", "recommend"]
