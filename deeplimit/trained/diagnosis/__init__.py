"""Trained weights as functions of depth: how smooth, how noisy, and which limit they point to.

`stacks` holds one weight of all layers; `layer_gram` reduces it to products of layers, which is all that
most statistics here need. Of networks at several depths `norms` measures each, `slopes` fits over depths,
`hypotheses` judges, and `sweep_report` is the result. `fitted_limit` puts such networks beside the ODE that
the deepest one suggests. Of one network `invariants` and `branch_functions` are what can be compared over
depth, and `network_report` is the result. `depth_controls` replaces layers and evaluates the
network. `study` trains networks with the user's loop and keeps what `measured` says of each; `study_power`
says what it can decide.
"""

from deeplimit.trained.diagnosis.depth_controls import depth_controls
from deeplimit.trained.diagnosis.depth_controls_report import DepthControls
from deeplimit.trained.diagnosis.diagnose import diagnose
from deeplimit.trained.diagnosis.fitted_limit import FittedLimit, fitted_limit
from deeplimit.trained.diagnosis.network_report import NetworkDiagnosis
from deeplimit.trained.diagnosis.study import study
from deeplimit.trained.diagnosis.study_power import StudyPower, study_power
from deeplimit.trained.diagnosis.study_report import StudyReport
from deeplimit.trained.diagnosis.sweep_report import DepthDiagnosis

__all__ = [
    "DepthControls",
    "DepthDiagnosis",
    "FittedLimit",
    "NetworkDiagnosis",
    "StudyPower",
    "StudyReport",
    "depth_controls",
    "diagnose",
    "fitted_limit",
    "study",
    "study_power",
]
