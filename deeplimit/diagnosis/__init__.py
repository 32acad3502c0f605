"""Trained weights as functions of depth: how smooth, how noisy, and which limit they point to.

`stacks` holds one weight of all layers; `layer_gram` reduces it to products of layers, which is all that
most statistics here need. Of networks at several depths `norms` measures each, `slopes` fits over depths,
`hypotheses` judges, and `sweep_report` is the result.
"""

from deeplimit.diagnosis.diagnose import diagnose
from deeplimit.diagnosis.sweep_report import DepthDiagnosis

__all__ = ["DepthDiagnosis", "diagnose"]
