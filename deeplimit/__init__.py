"""deeplimit: residual networks of finite depth, and what they become as the depth goes to infinity."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from deeplimit.version import __version__

if TYPE_CHECKING:
    from deeplimit.convergence import CompareReport as CompareReport
    from deeplimit.convergence import compare as compare
    from deeplimit.experiments import Reproduction as Reproduction
    from deeplimit.experiments import reproduce as reproduce
    from deeplimit.laws import LawReport as LawReport
    from deeplimit.laws import compare_laws as compare_laws
    from deeplimit.limits import Identity as Identity
    from deeplimit.limits import Independent as Independent
    from deeplimit.limits import IsotropicSDE as IsotropicSDE
    from deeplimit.limits import ItoCorrectedSDE as ItoCorrectedSDE
    from deeplimit.limits import LawLimit as LawLimit
    from deeplimit.limits import LinearODE as LinearODE
    from deeplimit.limits import NeuralODE as NeuralODE
    from deeplimit.limits import NeuralSDE as NeuralSDE
    from deeplimit.limits import NeuralYoung as NeuralYoung
    from deeplimit.limits import Regime as Regime
    from deeplimit.modules import Branch as Branch
    from deeplimit.modules import DepthReport as DepthReport
    from deeplimit.modules import Rule as Rule
    from deeplimit.modules import branch_scalars as branch_scalars
    from deeplimit.modules import check_depth as check_depth
    from deeplimit.modules import find_branches as find_branches
    from deeplimit.modules import probe as probe
    from deeplimit.modules import sweep as sweep
    from deeplimit.networks import ResidualNetwork as ResidualNetwork
    from deeplimit.networks import inner as inner
    from deeplimit.networks import modified_res1 as modified_res1
    from deeplimit.networks import res1 as res1
    from deeplimit.networks import res2 as res2
    from deeplimit.networks import res3 as res3
    from deeplimit.processes import IID as IID
    from deeplimit.processes import AuxiliaryDiffusion as AuxiliaryDiffusion
    from deeplimit.processes import Brownian as Brownian
    from deeplimit.processes import FractionalBrownian as FractionalBrownian
    from deeplimit.processes import Ito as Ito
    from deeplimit.processes import Kronecker as Kronecker
    from deeplimit.processes import SmoothGaussian as SmoothGaussian
    from deeplimit.processes import Trend as Trend
    from deeplimit.processes import stochastic_volatility as stochastic_volatility
    from deeplimit.propagation import PhaseDiagram as PhaseDiagram
    from deeplimit.propagation import StabilityReport as StabilityReport
    from deeplimit.propagation import phase_diagram as phase_diagram
    from deeplimit.propagation import stability as stability
    from deeplimit.reports import load_report as load_report
    from deeplimit.scoreboard import Scoreboard as Scoreboard
    from deeplimit.scoreboard import validate as validate
    from deeplimit.validation import NoTheoremError as NoTheoremError


# Names are loaded when first used, so that `deeplimit --help` and `import deeplimit` do not wait for torch.
_HOMES = {
    "convergence": ("CompareReport", "compare"),
    "experiments": ("Reproduction", "reproduce"),
    "laws": ("LawReport", "compare_laws"),
    "limits": (
        "Identity",
        "Independent",
        "IsotropicSDE",
        "ItoCorrectedSDE",
        "LawLimit",
        "LinearODE",
        "NeuralODE",
        "NeuralSDE",
        "NeuralYoung",
        "Regime",
    ),
    "modules": ("Branch", "DepthReport", "Rule", "branch_scalars", "check_depth", "find_branches", "probe", "sweep"),
    "networks": ("ResidualNetwork", "inner", "modified_res1", "res1", "res2", "res3"),
    "processes": (
        "IID",
        "AuxiliaryDiffusion",
        "Brownian",
        "FractionalBrownian",
        "Ito",
        "Kronecker",
        "SmoothGaussian",
        "Trend",
        "stochastic_volatility",
    ),
    "propagation": ("PhaseDiagram", "StabilityReport", "phase_diagram", "stability"),
    "reports": ("load_report",),
    "scoreboard": ("Scoreboard", "validate"),
    "validation": ("NoTheoremError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in ("activations", "init", "testing", "zoo"):
        return importlib.import_module(f"deeplimit.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'deeplimit' has no attribute {name!r}; public names: {', '.join(sorted(_HOME_OF))}")
    value = getattr(importlib.import_module(f"deeplimit.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
