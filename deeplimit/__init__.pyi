"""The public names and where they live, for type checkers and for the package, which loads them lazily."""

from . import (
    activations as activations,
    datasets as datasets,
    init as init,
    testing as testing,
    zoo as zoo,
)
from .common.load_report import load_report as load_report
from .common.measurement import Measurement as Measurement, measure as measure
from .common.report import Report as Report
from .common.several_reports import plot as plot, table as table
from .common.store import Store as Store
from .common.validation import NoTheoremError as NoTheoremError
from .common.verdict import Verdict as Verdict
from .driving import (
    AR1 as AR1,
    IID as IID,
    AuxiliaryDiffusion as AuxiliaryDiffusion,
    Brownian as Brownian,
    Channel as Channel,
    ChannelKind as ChannelKind,
    Dependence as Dependence,
    Facts as Facts,
    FractionalBrownian as FractionalBrownian,
    FunctionLaw as FunctionLaw,
    HiddenUnits as HiddenUnits,
    IndependentLaw as IndependentLaw,
    Ito as Ito,
    Kronecker as Kronecker,
    Layer as Layer,
    MovingAverage as MovingAverage,
    Path as Path,
    Recorded as Recorded,
    SampledFunction as SampledFunction,
    SmoothGaussian as SmoothGaussian,
    Trend as Trend,
    TrendAndNoise as TrendAndNoise,
    WeightLaw as WeightLaw,
    stochastic_volatility as stochastic_volatility,
)
from .equations import (
    ODE as ODE,
    RK4 as RK4,
    SDE as SDE,
    AttentionSDE as AttentionSDE,
    AveragedODE as AveragedODE,
    ColouredSDE as ColouredSDE,
    CovarianceSDE as CovarianceSDE,
    Drive as Drive,
    EulerMaruyama as EulerMaruyama,
    Exact as Exact,
    Heun as Heun,
    Identity as Identity,
    Independent as Independent,
    IsotropicSDE as IsotropicSDE,
    ItoCorrectedSDE as ItoCorrectedSDE,
    LawLimit as LawLimit,
    Limit as Limit,
    LinearODE as LinearODE,
    Milstein as Milstein,
    MixedSDE as MixedSDE,
    NeuralODE as NeuralODE,
    NeuralSDE as NeuralSDE,
    NeuralYoung as NeuralYoung,
    Noise as Noise,
    ODELimit as ODELimit,
    RadialSDE as RadialSDE,
    Scheme as Scheme,
    SDELimit as SDELimit,
    Sharing as Sharing,
    Solver as Solver,
    TorchSDE as TorchSDE,
)
from .judge.block_limit import IdentifiedLimit as IdentifiedLimit, identify as identify
from .judge.convergence import CompareReport as CompareReport, compare as compare
from .judge.in_law import LawReport as LawReport, OneDraw as OneDraw, compare_laws as compare_laws
from .judge.solver import (
    OrderReport as OrderReport,
    SolverReport as SolverReport,
    WorkReport as WorkReport,
    check_solver as check_solver,
    order as order,
    work_precision as work_precision,
)
from .layers import (
    Attention as Attention,
    Convolutional as Convolutional,
    ConvolutionalWithShortcut as ConvolutionalWithShortcut,
    Formula as Formula,
    FullyConnected as FullyConnected,
    Inner as Inner,
    ModifiedRes1 as ModifiedRes1,
    PreNorm as PreNorm,
    Recursion as Recursion,
    Res1 as Res1,
    Res2 as Res2,
    Res3 as Res3,
    ShapedMLP as ShapedMLP,
    Side as Side,
    TwoLayer as TwoLayer,
    Weight as Weight,
)
from .modules.depth_check import (
    DepthReport as DepthReport,
    Rule as Rule,
    branch_scalars as branch_scalars,
    check_depth as check_depth,
    probe as probe,
    sweep as sweep,
)
from .modules.recommendation import Recommendation as Recommendation, recommend as recommend
from .modules.trace import Branch as Branch, find_branches as find_branches
from .modules.training_check import (
    TrainingCheckReport as TrainingCheckReport,
    check_training as check_training,
)
from .networks.architectures import (
    attention as attention,
    convolutional as convolutional,
    fully_connected as fully_connected,
    shaped_mlp as shaped_mlp,
)
from .networks.residual_network import (
    ResidualNetwork as ResidualNetwork,
    inner as inner,
    modified_res1 as modified_res1,
    module_network as module_network,
    res1 as res1,
    res2 as res2,
    res3 as res3,
)
from .networks.scheme_network import scheme_network as scheme_network
from .papers.figures import Reproduction as Reproduction, reproduce as reproduce
from .papers.scoreboard import Scoreboard as Scoreboard, validate as validate
from .signal import (
    OneSignal as OneSignal,
    PhaseDiagram as PhaseDiagram,
    StabilityReport as StabilityReport,
    phase_diagram as phase_diagram,
    stability as stability,
)
from .simulation import Statistic as Statistic
from .simulation.one_path import OnePath as OnePath
from .simulation.simulate import simulate as simulate
from .simulation.summaries import Summary as Summary
from .simulation.trajectories import Trajectories as Trajectories
from .theory import (
    CorrelationClock as CorrelationClock,
    Hypothesis as Hypothesis,
    Regime as Regime,
    Theorem as Theorem,
)
from .trained.diagnosis import (
    DepthControls as DepthControls,
    DepthDiagnosis as DepthDiagnosis,
    FittedLimit as FittedLimit,
    NetworkDiagnosis as NetworkDiagnosis,
    StudyPower as StudyPower,
    StudyReport as StudyReport,
    depth_controls as depth_controls,
    diagnose as diagnose,
    fitted_limit as fitted_limit,
    study as study,
    study_power as study_power,
)
from .trained.training import (
    SGD as SGD,
    Adam as Adam,
    AdamW as AdamW,
    DirectEnds as DirectEnds,
    Ends as Ends,
    FromWeightLaws as FromWeightLaws,
    Initialisation as Initialisation,
    LinearEnds as LinearEnds,
    Optimizer as Optimizer,
    PooledEnds as PooledEnds,
    SmallGaussian as SmallGaussian,
    Stop as Stop,
    TrainingPoint as TrainingPoint,
    TrainingReport as TrainingReport,
    train as train,
)
from .version import __version__ as __version__
