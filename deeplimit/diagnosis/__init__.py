"""Trained weights as functions of depth: how smooth, how noisy, and which limit they point to.

`stacks` holds one weight of all layers; `layer_gram` reduces it to products of layers, which is all that
most statistics here need. Of networks at several depths `norms` measures each, `slopes` fits over depths,
`hypotheses` judges, and `sweep_report` is the result. `fitted_limit` puts such networks beside the ODE that
the deepest one suggests.
"""

from deeplimit.diagnosis.diagnose import diagnose
from deeplimit.diagnosis.fitted_limit import FittedLimit, fitted_limit
from deeplimit.diagnosis.sweep_report import DepthDiagnosis

__all__ = ["DepthDiagnosis", "FittedLimit", "diagnose", "fitted_limit"]
