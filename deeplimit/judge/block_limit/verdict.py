"""Which limit measured updates have: a list of rules, the first that holds decides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit.common import verdict
from deeplimit.common.verdict import BlockLimitVerdict
from deeplimit.judge.block_limit.in_law import Beside
from deeplimit.judge.block_limit.measure import AtDepth
from deeplimit.judge.block_limit.scaling import Power

SEEN = 5.0
"""Standard errors by which a mean must exceed 0 to count as a drift; chance does so once in 10^6."""
SUSPECTED = 1.5
"""The same from which a mean is drawn with the limit, though not yet counted."""
SHARE = 0.02
"""A drift whose square is below this share of the fluctuations' moves no feature by a tenth of its spread."""
ONE_LAYER = 0.25
"""Share of one layer in the variance of all, in the deepest network, above which the sum is no diffusion:
the limit then has a jump (multiplier 1/(i+1) gives 0.6 at any depth)."""
JUMPS = -0.6
"""Exponent of the concentration above which few layers carry the sum at any depth: -1 for a diffusion (by
Lindeberg's condition it must fall), 0 for a sum of jumps."""
HEAVY = 0.12
"""Share of one update among all squares that updates with a variance do not reach: of a thousand squares of
normal vectors the largest is 1 %; of 1.8-stable ones it is a quarter."""
CREEPS, STEADY = 0.03, 0.7
"""Power of the depth by which a diffusion's sum of independent updates may change: exponents of .46 and
.54 instead of .5 leave .04. Layers that differ over depth leave as much at depths 4 to 16, and half of it at
twice the depth; a wrong exponent leaves the same."""
ISOTROPIC = 1.1
"""Largest anisotropy statistic that is read as a multiple of the identity; its error is about 2 %."""
SMOOTH = 0.7
"""Exponent of the alignment from which layers are read as values of a smooth function; independent ones have
0, smooth ones 1, fractional noise 2H - 1."""
MEMORY = 0.2
"""Least power of the alignment between the first two depths of layers that remember a few others; it falls to
less than half of that at the last two. A share of the depth that layers remember has one power."""
ALIKE = 0.05
"""Correlation of layers that remember each other, at some distance in the deepest network: the alignment then
grows by 15 % or more, which takes correlations of .075 together. Independent layers come to .01."""
TOGETHER = 0.1
"""Layers are not independent whose sum varies more or less than theirs by this, in logarithms, and by `SEEN`
standard errors, all depths together. The ratio is 1 + 2 Σρ_k, of correlations ρ_k at distance k: a drift that
sums at one state do not show grows with Σρ_k. AR(1) of 0.05 has 0.1."""
ALMOST_EQUAL = 0.9
"""Correlation of neighbours from which a limit follows single layers; below it, what they have in common."""
UNDONE = -0.15
"""Correlation of neighbouring layers below which they undo each other, unless the alignment falls, as for
fractional noise. What is left, σ'σ summed over pairs, is a drift that sums at one state do not show."""
REMEMBERED = -0.3
"""Exponent of the alignment from which it falls: fractional noise has 2H - 1, and correlation -0.19 where
this is -0.3."""
REJECTED = 1e-3
"""Adjusted p-value below which the network's law is not the measured limit's."""
RUNAWAY = 3.0
"""Factor over all depths by which a state that explodes moves further; the last is then also the largest."""
GROWN = 1.2
"""Factor over all depths by which a state that is not held at one size grows at least."""
CLOSE = 0.3
"""Largest relative distance of the deepest network from the ODE through its layers."""
FALLS = -0.35
"""Largest exponent of that distance: 1 for smooth layers, 1/2 where independent fluctuations vanish."""
FIXED = 0.05
"""Share of the updates' squares that is the same in all networks, and rough over layers, from which layers
were drawn once for all of them. Smooth layers have less: .008 at 8 layers, .0009 at 16. Whether drawn once or
alternating, they say nothing about a law."""
CLEAR = 8.0
"""Standard errors above 0 from which that share is seen: 12,000 sets of 16 networks with 4 to 16 independent
layers of width 1 to 3 came to 6.6, and 16 equal networks have 11."""


@dataclass(frozen=True)
class Evidence:
    """What a name rests on.

    Attributes:
        taken: moments at every depth.
        size, noise, alignment, displacement, growth: powers of the depth; None where a value is zero.
        drift: power of the mean of the sum of all updates; None where it is not seen at every depth.
        concentration: power of the sum of squared shares of layers.
        ode: power of the distance to the ODE through the layers, and ode_distance: that of the deepest.
        beside: the comparison in law; None where no limit was drawn.
        lost: share of networks whose states were not finite.
    """

    taken: tuple[AtDepth, ...]
    size: Power | None
    noise: Power | None
    alignment: Power | None
    drift: Power | None
    displacement: Power | None
    growth: Power | None
    concentration: Power | None
    ode: Power | None
    ode_distance: float
    beside: Beside | None
    lost: float

    @property
    def deepest(self) -> AtDepth:
        return self.taken[-1]

    @property
    def varies(self) -> bool:
        """Whether networks of one depth differ in their updates at all."""
        return float(self.deepest.spreads.mean()) > 1e-12 * max(self.deepest.drift, 0.0)

    @property
    def has_drift(self) -> bool:
        """Whether the mean of the sum of all updates is seen, and not negligible beside the fluctuations."""
        one = self.deepest
        return one.drift > SEEN * one.drift_noise and one.drift > SHARE * float(one.spreads.mean())

    @property
    def may_drift(self) -> bool:
        """Whether the limit is drawn with a mean: one that is not there costs time alone."""
        return self.deepest.drift > SUSPECTED * self.deepest.drift_noise

    @property
    def is_independent(self) -> bool:
        return self.alignment is not None and self.alignment.is_flat

    @property
    def is_smooth(self) -> bool:
        return self.alignment is not None and self.alignment.exponent > SMOOTH

    @property
    def is_fixed(self) -> bool:
        """Whether neighbouring layers surely differ in the same way in every network."""
        one = self.deepest
        return one.fixed > max(FIXED, CLEAR * one.fixed_error)

    @property
    def together(self) -> float:
        """How many times as much as if layers were independent their sum varies, at all depths together."""
        return math.exp(self._together()[0])

    @property
    def depends_on_others(self) -> bool:
        """Whether layers surely are not independent, however the variance of their sum scales."""
        log, error = self._together()
        return abs(log) > max(TOGETHER, SEEN * error)

    def _together(self) -> tuple[float, float]:
        """Return the logarithm of that ratio, each depth with a weight by its error, and its error."""
        ratios = [one.spreads / max(float(one.apart.mean()), 1e-300) for one in self.taken]
        kept = [each for each in ratios if len(each) > 1 and float(each.mean()) > 0]
        logs = np.log([each.mean() for each in kept])
        errors = np.array([each.std(ddof=1) / math.sqrt(len(each)) / each.mean() for each in kept])
        if not kept or not (errors > 0).all():
            return 0.0, math.inf
        weights = errors**-2 / (errors**-2).sum()
        return float(weights @ logs), float((errors**-2).sum() ** -0.5)

    @property
    def undoes_neighbours(self) -> bool:
        """Whether neighbouring layers cancel, over short distances and not as fractional noise does."""
        falls = (
            self.alignment is not None and self.alignment.high < 0 and self.alignment.exponent < REMEMBERED
        )
        return self.varies and min(self.deepest.correlations[:1], default=0.0) < UNDONE and not falls

    @property
    def has_jumps(self) -> bool:
        """Whether the layers that carry the sum do not become more with depth."""
        found = self.concentration
        return found is not None and found.exponent > JUMPS and found.low > -1

    @property
    def remembers_few_layers(self) -> bool:
        """Whether the sum grows because layers are alike over a few layers, which end within the depth."""
        if self.noise is None or self.alignment is None or len(self.taken) < 3:
            return False
        if max(self.deepest.correlations, default=0.0) < ALIKE:
            return False
        ratios = [float(one.spreads.mean() / max(one.apart.mean(), 1e-300)) for one in self.taken]
        steps = np.diff(np.log(ratios)) / np.diff(np.log([one.blocks for one in self.taken]))
        explained = abs(self.noise.exponent - self.alignment.exponent / 2) < 0.1
        return explained and steps[0] > MEMORY and steps[-1] < steps[0] / 2

    @property
    def noise_stays(self) -> bool:
        return self.varies and self.noise is not None and self.noise.is_flat and not self.noise_creeps

    @property
    def noise_creeps(self) -> bool:
        """Whether independent layers' sum surely changes with depth, and as fast between the deepest two.

        A sum over layers that differ is one over steps, whose error falls with depth; a wrong exponent stays.
        Squares of single updates say it with a fifth of the error of those of their sum.
        """
        if self.size is None or not self.is_independent or len(self.taken) < 3:
            return False
        low, high = self.size.low + 0.5, self.size.high + 0.5
        if low <= CREEPS and high >= -CREEPS:
            return False
        logs = np.log([float(one.apart.mean()) for one in self.taken]) / 2
        slopes = np.diff(logs) / np.diff(np.log([one.blocks for one in self.taken]))
        onwards = slopes * math.copysign(1.0, low + high)
        return bool(onwards[-1] > max(CREEPS, STEADY * onwards[0]))

    @property
    def noise_falls(self) -> bool:
        return not self.varies or (self.noise is not None and self.noise.falls)

    @property
    def drift_stays(self) -> bool:
        return self.has_drift and self.drift is not None and self.drift.is_flat

    @property
    def drift_falls(self) -> bool:
        return not self.has_drift or (self.drift is not None and self.drift.falls)

    @property
    def sum_rises(self) -> bool:
        """Whether the sum of all updates at one state grows with depth."""
        noise = self.varies and self.noise is not None and self.noise.rises
        return noise or (self.has_drift and self.drift is not None and self.drift.rises)

    @property
    def state_rises(self) -> bool:
        """Whether the network's state itself moves further the deeper it is, and grows."""
        moved, grown = (
            [float(value.mean()) for value in row]
            for row in zip(*((one.displacement, one.growth) for one in self.taken), strict=True)
        )
        runs_away = moved == sorted(moved) and moved[-1] > RUNAWAY * moved[0]  # no power of the depth
        rises = runs_away or (self.displacement is not None and self.displacement.rises)
        return rises and grown[-1] > max(GROWN * grown[0], 1.5)

    @property
    def state_moves_as_far(self) -> bool:
        moved = self.displacement
        # Where a normalisation's first layer moves it most, 32 networks leave powers of up to 1/2 open.
        return moved is not None and (abs(moved.exponent) < 0.25 or not (moved.falls or moved.rises))

    @property
    def is_rejected(self) -> bool:
        return self.beside is not None and bool((self.beside.p_values < REJECTED).any())

    @property
    def follows_ode(self) -> bool:
        """Whether the network approaches the ODE through its layers."""
        falls = self.ode is None or self.ode.exponent < FALLS
        return self.ode_distance < 1e-5 or (falls and self.ode_distance < CLOSE)


def may_diffuse(e: Evidence) -> bool:
    """Whether a diffusion is what the powers of the depth allow, so that its law is worth drawing."""
    if e.lost > 0 or len(e.taken) < 2 or e.sum_rises or e.state_rises or not e.is_independent:
        return False
    one = e.deepest
    return (
        e.noise_stays
        and not e.depends_on_others
        and not e.has_jumps
        and one.largest_update <= HEAVY
        and one.largest_layer <= ONE_LAYER
    )


def limit(e: Evidence) -> verdict.RuleByRule[BlockLimitVerdict]:
    """Yield the rules on the limit of a stack of blocks."""
    code = BlockLimitVerdict
    # A state that no number holds: only explosion does that, where the sum at one state says so, too.
    yield code.EXPLOSION, "overflows", e.lost > 0.5 and (e.sum_rises or not e.taken)
    yield code.CANNOT_TELL, "is_not_finite", e.lost > 0
    still = all(float(one.squares.mean()) == 0 for one in e.taken)
    yield code.IDENTITY, "nothing_moves", still
    # Moments mean nothing where one update carries them.
    yield code.NONE, "has_heavy_tails", e.varies and e.deepest.largest_update > HEAVY
    yield code.CANNOT_TELL, "remembers_few_layers", e.varies and e.remembers_few_layers
    yield code.EXPLOSION, "grows", e.sum_rises and e.state_rises
    yield code.CANNOT_TELL, "layers_are_fixed", e.is_fixed
    yield code.CANNOT_TELL, "neighbours_undo_each_other", e.undoes_neighbours
    # The parts grow, the whole does not: each layer turns or contracts the state as far at any depth.
    yield code.NONE, "turns_as_far_at_any_depth", e.sum_rises
    yield code.NONE, "grows_in_spite_of_its_parts", e.state_rises
    vanish = e.noise_falls and e.drift_falls
    yield code.IDENTITY, "vanishes", vanish and e.displacement is not None and e.displacement.falls
    yield code.CANNOT_TELL, "parts_and_whole_disagree", vanish or not e.state_moves_as_far
    yield code.NEURAL_ODE, "has_a_drift_alone", e.drift_stays and e.noise_falls and e.follows_ode
    one_field = e.noise_stays and e.is_smooth
    yield code.NEURAL_ODE, "has_smooth_layers", one_field and e.follows_ode
    yield code.NONE, "is_far_from_its_ode", one_field
    diffuses = e.noise_stays  # with or without a drift, whose size the comparison in law judges
    yield code.NONE, "has_one_large_layer", diffuses and e.deepest.largest_layer > ONE_LAYER
    yield code.NONE, "has_jumps", diffuses and e.has_jumps
    diffuses = diffuses and e.is_independent
    # Dependence that does not grow with depth has its own drift, or a random field beside the noise.
    yield code.NONE, "layers_depend_on_others", diffuses and e.depends_on_others
    # What was drawn from the measured coefficients is not what the network is.
    yield code.NONE, "law_is_another_one", diffuses and e.is_rejected
    is_drawn = e.beside is not None
    even = e.deepest.anisotropy < ISOTROPIC
    yield code.ISOTROPIC_SDE, "has_isotropic_noise", diffuses and is_drawn and even
    yield code.NEURAL_SDE, "has_directed_noise", diffuses and is_drawn
    correlated = e.noise_stays and e.alignment is not None and e.alignment.rises
    yield code.NONE, "has_correlated_layers", correlated
    # Nearly those of a diffusion, and not quite: at some depth the sum has grown too large, or vanished.
    yield code.CANNOT_TELL, "has_another_exponent", e.noise_creeps
    yield code.CANNOT_TELL, "is_not_resolved", True
