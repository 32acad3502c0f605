"""Whether learning rates carry over to more layers: a few steps of training at several depths, judged.

`one_network` trains and measures; `replay` gives branches the stream of the untrained network; `rates` judges
the optimizer's settings, `scaling` and `judgement` what was measured.
"""

from deeplimit.modules.training_check.check import check_training
from deeplimit.modules.training_check.report import TrainingCheckReport

__all__ = ["TrainingCheckReport", "check_training"]
