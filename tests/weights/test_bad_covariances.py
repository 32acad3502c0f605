"""Covariances of a wrong shape, sign or symmetry are refused, however they are given; so is what is no
covariance.
"""

from __future__ import annotations

import pytest
import torch
from refusals import (
    BOTH,
    EYE,
    INF,
    NAN,
    NOISE,
    ONES,
    PUSHED,
    RANDOM,
    TREND,
    WIDE,
    assert_refused,
    auxiliary,
    covariance,
    net,
    row,
    volatile,
)

import deeplimit as dl

SKEW = torch.tensor([[1.0, 0.5], [-0.5, 1.0]])
ROW_OF_A = (
    r"must be a number, entrywise variances \(d, d\), Kronecker\(R, C\) or a tensor \(d, d, d, d\) with d ="
    r" {}.*; got shape {}\.$"
)
ROW_OF_B = (
    r"must be a number, entrywise variances \(d,\), or a covariance matrix \(d, d\) with d = {}.*; got shape"
    r" {}\.$"
)
SQUARE = torch.eye(4).reshape(2, 2, 2, 2)
P3 = (
    r"one for each of P = 3 paths \(a leading dimension\), as the auxiliary diffusion makes it random; got"
    r" shape "
)
COVARIANCES = [
    ("A (3,)", lambda: dl.Ito(A=torch.ones(3)), ROW_OF_A.format(3, r"\(3,\)")),
    ("A (2, 3)", lambda: dl.Ito(A=torch.ones(2, 3)), ROW_OF_A.format(3, r"\(2, 3\)")),
    ("A (2, 2, 2)", lambda: dl.Ito(A=torch.ones(2, 2, 2)), ROW_OF_A.format(2, r"\(2, 2, 2\)")),
    ("A (2, 2, 2, 3)", lambda: dl.Ito(A=torch.ones(2, 2, 2, 3)), ROW_OF_A.format(3, r"\(2, 2, 2, 3\)")),
    ("A empty", lambda: dl.Ito(A=torch.zeros(0, 0)), ROW_OF_A.format(1, r"\(0, 0\)")),
    ("A of width 3", lambda: net(A=WIDE), ROW_OF_A.format(2, r"\(3, 3\)")),
    (
        "A a tensor of width 2 in width 3",
        lambda: net(width=3, A=SQUARE),
        ROW_OF_A.format(3, r"\(2, 2, 2, 2\)"),
    ),
    ("A (d², d²)", lambda: net(A=torch.eye(4)), ROW_OF_A.format(2, r"\(4, 4\)")),
    (
        "A of t, width 3",
        lambda: net(A=lambda t: WIDE),
        r"^Ito's A at t = 0 " + ROW_OF_A.format(2, r"\(3, 3\)"),
    ),
    (
        "A of width 3 at 1/2",
        lambda: net(A=lambda t: WIDE if t == 0.5 else EYE),
        r"^Ito's A at t = 0\.5 must be .*\(3, 3\)",
    ),
    (
        "A one a path, nothing random",
        lambda: net(A=torch.ones(5, 2, 2)),
        ROW_OF_A.format("[25]", r"\(5, 2, 2\)"),
    ),
    ("b (2, 3)", lambda: dl.Ito(b=torch.ones(2, 3)), ROW_OF_B.format(3, r"\(2, 3\)")),
    ("b (2, 2, 2)", lambda: dl.Ito(b=torch.ones(2, 2, 2)), ROW_OF_B.format(2, r"\(2, 2, 2\)")),
    ("b of width 3", lambda: net(b=[0.1, 0.1, 0.1]), ROW_OF_B.format(2, r"\(3,\)")),
    ("b a matrix of width 3", lambda: net(b=WIDE), ROW_OF_B.format(2, r"\(3, 3\)")),
    ("b one of width 1", lambda: net(b=[0.1]), ROW_OF_B.format(2, r"\(1,\)")),
    ("b empty", lambda: dl.Ito(b=[]), ROW_OF_B.format(1, r"\(0,\)")),
    (
        "cross a number",
        lambda: net(cross=0.1),
        r"^Ito's cross must be a tensor \(d, d, d\) with d = 2; got shape \(\)\.$",
    ),
    (
        "cross a matrix",
        lambda: net(cross=EYE),
        r"^Ito's cross must be a tensor \(d, d, d\) with d = 2; got shape \(2, 2\)\.$",
    ),
    (
        "cross of width 3",
        lambda: net(cross=torch.zeros(3, 3, 3)),
        r"^Ito's cross must be .* d = 2; got shape \(3, 3, 3\)\.$",
    ),
    (
        "cross without A",
        lambda: dl.Ito(b=0.1, cross=torch.zeros(2, 2, 2)),
        r"^Ito's cross .*so A and b must both be given",
    ),
    (
        "cross without b",
        lambda: dl.Ito(A=0.1, cross=torch.zeros(2, 2, 2)),
        r"^Ito's cross .*so A and b must both be given",
    ),
    (
        "nothing",
        lambda: dl.Ito(),
        r"^Ito needs noise: give the covariance A of W\^A, b of W\^b, or both, such as Ito\(",
    ),
    ("drift alone", lambda: dl.Ito(drift=TREND), r"^Ito needs noise"),
    (
        "drift of no A",
        lambda: dl.Ito(b=0.1, drift=TREND),
        r"has an A, but there is no W\^A.*\(A=0\.0 for none\)",
    ),
    (
        "drift of no b",
        lambda: dl.Ito(A=0.1, drift=PUSHED),
        r"has a b, but there is no W\^b.*\(b=0\.0 for none\)",
    ),
    (
        "A negative",
        lambda: dl.Ito(A=-0.05),
        r"^Ito's A is a variance a unit of time and must not be negative, got -0\.05",
    ),
    ("b negative", lambda: dl.Ito(b=-1), r"^Ito's b is a variance .* must not be negative, got -1"),
    ("A an entry negative", lambda: dl.Ito(A=SKEW), r"^Ito's A .*must not be negative, got -0\.5"),
    ("b an entry negative", lambda: dl.Ito(b=[0.1, -0.2]), r"^Ito's b .*must not be negative, got -0\.2"),
    (
        "A negative at 1/2",
        lambda: net(A=lambda t: -1.0 if t == 0.5 else 1.0),
        r"^Ito's A at t = 0\.5 .*must not be negative",
    ),
    (
        "b NaN at 1/2",
        lambda: net(b=lambda t: NAN if t == 0.5 else 1.0),
        r"^Ito's b at t = 0\.5 must be finite, got nan",
    ),
    (
        "A inf at 1",
        lambda: net(A=lambda t: INF if t == 1.0 else EYE),
        r"^Ito's A at t = 1 must be finite, got inf",
    ),
    (
        "b asymmetric",
        lambda: dl.Ito(b=SKEW),
        r"^Ito's b must be symmetric, but differs from its transpose by 1; use \(S \+ S\.T\)/2",
    ),
    (
        "b indefinite",
        lambda: dl.Ito(b=BOTH),
        r"^Ito's b must be positive semidefinite, but has the eigenvalue -1; S @ S\.T is",
    ),
    (
        "A asymmetric",
        lambda: dl.Ito(A=torch.rand(2, 2, 2, 2, generator=torch.Generator())),
        r"^Ito's A, read as .*symmetric",
    ),
    (
        "A indefinite",
        lambda: dl.Ito(A=-SQUARE),
        r"^Ito's A, read as a \(d², d²\) matrix, must be positive semidefinite.*-1",
    ),
    (
        "b asymmetric at 1/2",
        lambda: net(b=lambda t: SKEW if t == 0.5 else EYE),
        r"^Ito's b at t = 0\.5 must be symmetric",
    ),
    (
        "A indefinite at 1/2",
        lambda: net(A=lambda t: (0.4 - t) * SQUARE),
        r"^Ito's A at t = 0\.5, read as .*semidefinite.*-0\.1;",
    ),
    (
        "cross too large",
        lambda: net(A=1.0, b=1.0, cross=torch.ones(2, 2, 2)),
        (
            r"^the joint covariance of A and b with Ito's cross must be positive semidefinite, but has the"
            r" eigenvalue -"
        ),
    ),
    (
        "cross too large at 1/2",
        lambda: net(A=1.0, b=1.0, cross=lambda t: torch.ones(2, 2, 2) * (t == 0.5)),
        r"^the joint covariance of A and b with Ito's cross at t = 0\.5 must be positive semidefinite",
    ),
    (
        "Kronecker, R a number",
        lambda: dl.Kronecker(1.0, EYE),
        r"^Kronecker's R must be a square matrix \(d, d\), got shape \(\)",
    ),
    (
        "Kronecker, C a vector",
        lambda: dl.Kronecker(EYE, ONES),
        r"^Kronecker's C must be a square matrix .*\(2,\)",
    ),
    (
        "Kronecker, R not square",
        lambda: dl.Kronecker(torch.ones(2, 3), EYE),
        r"^Kronecker's R must be a square .*\(2, 3\)",
    ),
    (
        "Kronecker, R empty",
        lambda: dl.Kronecker(torch.zeros(0, 0), EYE),
        r"^Kronecker's R must be a square .*\(0, 0\)",
    ),
    (
        "Kronecker, R (1, 1, 2, 2)",
        lambda: dl.Kronecker(EYE[None, None], EYE),
        r"^Kronecker's R .*\(1, 1, 2, 2\)",
    ),
    (
        "Kronecker, two widths",
        lambda: dl.Kronecker(WIDE, EYE),
        r"R and C must have the same width, got 3 and 2",
    ),
    ("Kronecker, R asymmetric", lambda: dl.Kronecker(SKEW, EYE), r"^Kronecker's R must be symmetric"),
    (
        "Kronecker, C indefinite",
        lambda: dl.Kronecker(EYE, BOTH),
        r"^Kronecker's C must be positive semidefinite",
    ),
    (
        "Kronecker, R negative",
        lambda: dl.Kronecker(-EYE, -EYE),
        r"^Kronecker's R must be positive semidefinite",
    ),
    (
        "Kronecker, paths differ",
        lambda: dl.Kronecker(EYE.expand(3, 2, 2), EYE.expand(4, 2, 2)),
        r"R and C must be of as many paths, got 3 and 4",
    ),
    (
        "Kronecker of width 3",
        lambda: net(A=dl.Kronecker(WIDE, WIDE)),
        r"^Ito's A: Kronecker's R must be \(2, 2\); got \(3, 3\)",
    ),
    (
        "Kronecker a path, nothing random",
        lambda: net(A=dl.Kronecker(EYE.expand(3, 2, 2), EYE)),
        r"^Ito's A: Kronecker's R must be \(2, 2\); got \(3, 2, 2\)",
    ),
    (
        "Kronecker of another P",
        lambda: net(A=lambda t, v: dl.Kronecker(EYE, EYE.expand(9, 2, 2)), auxiliary=auxiliary()),
        r"^Ito's A at t = 0: Kronecker's C must be \(2, 2\) or \(3, 2, 2\), one a path; got \(9, 2, 2\)",
    ),
    (
        "Kronecker indefinite at 1/2",
        lambda: net(A=lambda t: dl.Kronecker(BOTH if t == 0.5 else EYE, EYE)),
        (
            r"^Ito's A must be defined .*at t = 0\.5 it raised ValueError: Kronecker's R must be positive"
            r" semidefinite"
        ),
    ),
    ("P missing", lambda: net(A=lambda t, v: 0.1, auxiliary=auxiliary()), P3 + r"\(\)\.$"),
    ("P missing, entries", lambda: net(A=lambda t, v: EYE, auxiliary=auxiliary()), P3 + r"\(2, 2\)\.$"),
    ("another P", lambda: net(b=lambda t, v: torch.ones(9), auxiliary=auxiliary()), P3 + r"\(9,\)\.$"),
    (
        "P twice",
        lambda: net(A=lambda t, v: torch.ones(3, 3, 2, 2), auxiliary=auxiliary()),
        P3 + r"\(3, 2, 2\) a path\.$",
    ),
    ("P last", lambda: net(b=lambda t, v: torch.ones(2, 3), auxiliary=auxiliary()), P3 + r"\(2, 3\)\.$"),
    (
        "a covariance of width 3 that is taken for one of 3 paths",
        lambda: net(width=3, b=lambda t, v: WIDE, auxiliary=auxiliary()),
        r"one for each of P = 4 paths.*got shape \(3, 3\)",
    ),
    (
        "cross without P",
        lambda: net(cross=lambda t, v: torch.zeros(2, 2, 2), auxiliary=auxiliary()),
        r"^Ito's cross at t = 0 must be a tensor \(d, d, d\) with d = 2, " + P3 + r"\(2, 2, 2\)\.$",
    ),
    (
        "NaN of (t, v) at 1/2",
        lambda: net(A=lambda t, v: covariance(t, v) / (t != 0.5), auxiliary=auxiliary()),
        r"^Ito's A at t = 0\.5 must be finite, but holds NaN or infinity",
    ),
    (
        "a negative variance of (t, v)",
        lambda: net(b=lambda t, v: v[:, 0] - 0.1, auxiliary=auxiliary()),
        r"^Ito's b at t = 0 is a variance .*must not be negative, got -0\.1",
    ),
    ("leverage 2", lambda: auxiliary(leverage=2), r"^leverage must be at most 1, got 2; it is a correlation"),
    (
        "leverage -1.1",
        lambda: auxiliary(leverage=-1.1),
        r"^leverage must be at least -1, got -1\.1\. It is a correlation",
    ),
    (
        "leverage of 0.7 in percent",
        lambda: dl.stochastic_volatility(A=0.1, leverage=-70),
        r"^leverage must be at least -1, got -70",
    ),
    (
        "leverage on too few motions",
        lambda: net(width=1, A=None, auxiliary=auxiliary(start=[0.0, 0.0], leverage=0.5)),
        r"^leverage needs a Brownian motion .*each of v's 2 dimensions; there are 1\. Use leverage=0",
    ),
    (
        "start (2, 2)",
        lambda: auxiliary(start=EYE),
        r"^the auxiliary start must be a number or of shape \(m,\), got \(2, 2\)",
    ),
    (
        "start empty",
        lambda: auxiliary(start=[]),
        r"^the auxiliary start must be a number or of shape \(m,\), got \(0,\)",
    ),
    (
        "the auxiliary drift transposed, as many dimensions as the usual probe has paths",
        lambda: net(auxiliary=auxiliary(drift=lambda t, v: v.mT, start=[0.0] * 3)),
        r"^the auxiliary drift at t = 0 must have shape \(4, 3\), got \(3, 4\)",
    ),
    ("stochastic_volatility of nothing", lambda: dl.stochastic_volatility(), r"^Ito needs noise"),
    (
        "stochastic_volatility negative",
        lambda: volatile(A=-1.0),
        r"^Ito's A at t = 0 .*must not be negative, got -1",
    ),
    (
        "stochastic_volatility of width 3",
        lambda: volatile(A=WIDE),
        r"^Ito's A .*with d = 2.*got shape \(3, 3\) a path\.$",
    ),
    (
        "stochastic_volatility, b of width 3",
        lambda: volatile(b=WIDE),
        r"^Ito's b .*with d = 2.*got shape \(3, 3\) a path\.$",
    ),
    (
        "stochastic_volatility, b indefinite",
        lambda: volatile(b=BOTH),
        r"^Ito's b at t = 0 must be positive semidefinite",
    ),
    (
        "stochastic_volatility of a random Kronecker",
        lambda: dl.stochastic_volatility(A=dl.Kronecker(EYE.expand(3, 2, 2), EYE)),
        r"^A must be constant here, but its Kronecker\(R, C\) differs from path to path",
    ),
    (
        "mean_reversion -1",
        lambda: dl.stochastic_volatility(A=0.1, mean_reversion=-1),
        r"^mean_reversion must be at least 0, got -1",
    ),
    (
        "volatility -1",
        lambda: dl.stochastic_volatility(A=0.1, volatility=-1),
        r"^volatility must be at least 0, got -1",
    ),
]

KIND = {
    "A of b's kind": (
        lambda: dl.Ito(b=dl.Kronecker(EYE, EYE)),
        r"^Ito's b must be a number, an array or a tensor; got .*Kronecker",
    ),
    "cross a Kronecker": (
        lambda: net(cross=dl.Kronecker(EYE, EYE)),
        r"^Ito's cross must be .* tensor; got .*Kronecker",
    ),
    "A the class Kronecker": (
        lambda: dl.Ito(A=dl.Kronecker),
        r"^Ito's A is the class Kronecker; give an object",
    ),
    "A a Trend": (lambda: dl.Ito(A=TREND), r"^Ito's A must be a number, an array or a tensor; got .*Trend"),
    "A None of t": (lambda: net(A=lambda t: None), r"^Ito's A at t = 0 must be .*got None of type NoneType"),
    "Kronecker of None": (lambda: dl.Kronecker(None, EYE), r"^Kronecker's R must be .*got None"),
    "Kronecker without C": (lambda: dl.Kronecker(EYE), r"missing 1 required positional argument: 'C'"),
    "Kronecker of t": (
        lambda: dl.Kronecker(lambda t: EYE, EYE),
        r"^Kronecker's R must be .*of type function",
    ),
    "A of no argument": (
        lambda: net(A=lambda: 0.1),
        r"^Ito's A must be a function of t alone.*raised: .*takes 0 positional",
    ),
    "A of (t, v), no v": (
        lambda: net(A=lambda t, v: 0.1),
        r"^Ito's A must be a function of t alone \(of \(t, v\) with an auxil",
    ),
    "A of t, with v": (
        lambda: net(A=lambda t: 0.1, auxiliary=auxiliary()),
        r"^Ito's A must be a function of \(t, v\), v \(P, m\)",
    ),
    "A a module": (
        lambda: net(A=torch.nn.ReLU()),
        r"^Ito's A must be a function of t alone.*at t = 0 it raised",
    ),
    "cross of (t, v), no v": (
        lambda: net(cross=lambda t, v: 0.1),
        r"^Ito's cross must be a function of t alone",
    ),
    "drift a function": (
        lambda: dl.Ito(A=0.1, drift=lambda t: EYE),
        r"^Ito's drift must be a Trend\(A, b\).*type function",
    ),
    "drift a tensor": (
        lambda: dl.Ito(A=0.1, drift=EYE),
        r"^Ito's drift must be a Trend\(A, b\).*Tensor of shape \(2, 2\)",
    ),
    "drift the class": (
        lambda: dl.Ito(A=0.1, drift=dl.Trend),
        r"^Ito's drift must be .*the class Trend, not an object",
    ),
    "drift smooth": (
        lambda: dl.Ito(A=0.1, drift=dl.SmoothGaussian()),
        r"^Ito's drift must be a Trend.*SmoothGaussian",
    ),
    "drift of t, with v": (
        lambda: net(drift=TREND, **RANDOM),
        r"^the A of Ito's drift must be a function of \(t, v\)",
    ),
    "auxiliary a function": (
        lambda: dl.Ito(A=0.1, auxiliary=max),
        r"^Ito's auxiliary must be an AuxiliaryDiffusion, got <built",
    ),
    "auxiliary the class": (
        lambda: dl.Ito(A=0.1, auxiliary=dl.AuxiliaryDiffusion),
        r"^Ito's auxiliary must be .*the class Aux",
    ),
    "auxiliary an Ito": (lambda: dl.Ito(A=0.1, auxiliary=NOISE), r"^Ito's auxiliary must be .*got Ito\("),
    "auxiliary of nothing": (
        lambda: dl.AuxiliaryDiffusion(),
        r"missing 2 required positional arguments: 'drift' and 'diffusion'",
    ),
    "start None": (lambda: auxiliary(start=None), r"^the auxiliary start must be .*got None"),
    "leverage None": (lambda: auxiliary(leverage=None), r"^leverage must be a number, got None"),
    "holder None": (lambda: dl.Trend(TREND.A, holder=None), r"^holder must be a number, got None"),
    "Trend of None": (
        lambda: dl.Trend(None),
        r"^A must be a function of time, such as lambda t: tensor; got None",
    ),
    "volatile A a function": (
        lambda: dl.stochastic_volatility(A=lambda t: 0.1),
        r"^A must be constant here, got .*; give Ito",
    ),
    "volatile b a Kronecker": (
        lambda: dl.stochastic_volatility(b=dl.Kronecker(EYE, EYE)),
        r"^b must be .*got .*Kronecker",
    ),
    "Ito, sigma=": (lambda: dl.Ito(sigma=0.1), r"unexpected keyword argument 'sigma'"),
    "volatile, speed=": (
        lambda: dl.stochastic_volatility(A=0.1, speed=1),
        r"unexpected keyword argument 'speed'",
    ),
    "Trend, hölder=": (lambda: dl.Trend(TREND.A, hoelder=1), r"unexpected keyword argument 'hoelder'"),
}


TABLE = [
    *(row(name, call, ValueError, message) for name, call, message in COVARIANCES),
    *(row(name, call, TypeError, message) for name, (call, message) in KIND.items()),
]


@pytest.mark.parametrize(("call", "error", "message"), TABLE)
def test_bad_covariances_are_refused_in_words(call, error, message):
    assert_refused(call, error, message)
