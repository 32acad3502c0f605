"""Which rule decides is what it was, for evidence on either side of every boundary, of every judge."""

import dataclasses
import functools
import math
from types import SimpleNamespace

import kept_numbers
import numpy as np
import pytest

from deeplimit.common.verdict import ConvergenceVerdict, Judgement, judge
from deeplimit.judge.block_limit import scaling, verdict as of_blocks
from deeplimit.judge.block_limit.in_law import Beside
from deeplimit.judge.block_limit.measure import AtDepth
from deeplimit.judge.block_limit.scaling import Power
from deeplimit.judge.convergence import verdict as of_errors
from deeplimit.judge.in_law import verdict as of_laws
from deeplimit.judge.solver import verdict as of_solvers
from deeplimit.statistics.consecutive import Coherence, Order
from deeplimit.statistics.differences import Remainder
from deeplimit.statistics.power_law import Floor, StudentMixture
from deeplimit.statistics.solver_errors import WeakOrder

same = functools.partial(kept_numbers.check, "rules")
NONE, INF = math.nan, math.inf
FLOORS = [Floor(*each) for each in [(0.0, 0.0, 0.01, 0.0), (0.1, 0.01, 0.2, 0.04), (0.3, 0.05, 0.6, 0.2)]]
FLOORS += [Floor(0.7, 0.5, 0.9, 0.995), Floor(0.9, 0.8, 1.0, 0.9995)]


def samples(values, count, *, usual=0.75, seed=0):
    """Yield what varies: every field by itself, then several at once, most of them at their first value."""
    first = {name: choices[0] for name, choices in values.items()}
    for name, choices in values.items():
        yield from (first | {name: choice} for choice in choices[1:])
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield {
            name: choices[0] if rng.random() < usual else choices[rng.integers(len(choices))]
            for name, choices in values.items()
        }


def decided(rules, evidence):
    found = judge(rules, evidence)
    return f"{found.code}: {found.rule}"


def settled(uncertain=False, slopes=(0.5, 0.5), low=0.4, deepest=0.01):
    orders = StudentMixture(np.ones(1), np.array([low + 0.1]), np.array([0.05]), 1e6)
    return Order(
        orders, np.array(slopes), np.zeros(2), Coherence.STEADY, False, 0.5, uncertain, 3, deepest, 0.5
    )


STRONG = {
    "order": [settled(), None, settled(uncertain=True), settled(slopes=(0.5, -0.1)), settled(low=0.01)],
    "interval": [(0.45, 0.55), (-0.1, 0.1), (0.3, 0.45), (0.6, 0.7), (-0.1, 0.3), (NONE, NONE), (0.0, 0.6)],
    "sure": [(0.3, 0.6), (0.2, 0.45), (0.55, 0.8), (0.0, 0.5)],
    "distance": [0.01, 0.0, 1e-9, 0.04, 0.1, 0.5, NONE],
    "lost": [0, 1],
    "moves": [True, False],
    "documented": [0.5, None, 1.0, 0.25],
    "reference_error": [1e-6, 0.01, 0.1],
    "floor": [FLOORS[0], None, *FLOORS[1:]],
    "falls": [(0.5, 0.6), (0.2, 0.4), (0.2, 0.6), (0.3, 0.3), (INF, INF)],
}


def test_rules_on_solvers_path_by_path_stay():
    found = [of_solvers.StrongEvidence(**each) for each in samples(STRONG, 250)]
    remaining = [evidence.remaining for evidence in found[:10]]
    same("strong", ([decided(of_solvers.strong, evidence) for evidence in found], remaining))


def weak(low=0.8, high=1.2, sure=1.3, resolved=True):
    return WeakOrder(1.0, low, high, sure, resolved)


WEAK = {
    "orders": [
        (weak(), weak()),
        (weak(), weak(resolved=False)),
        (weak(resolved=False), weak(resolved=False)),
        (weak(0.0, 0.5, 0.6), weak()),
        (weak(0.5, 0.9, 1.1), weak()),
        (weak(1.5, 2.0, 2.5), weak(1.1, 2.0, 2.5)),
        (weak(1.5, 2.0, 2.5), weak()),
        (weak(0.0, 2.0, 2.5), weak(0.0)),
    ],
    "lost": [0, 2],
    "moves": [True, False],
    "documented": [1.0, None, 2.0],
    "gaps": [(0.0, 0.1), (0.3, 0.1), (0.1, 0.3), (NONE, NONE)],
    "allowed": [(0.2, 0.2), (0.1, 0.1), (NONE, NONE)],
}


def test_rules_on_means_of_solvers_stay():
    same("weak", [decided(of_solvers.weak, of_solvers.WeakEvidence(**each)) for each in samples(WEAK, 150)])


ROWS = np.array(
    [[0.5, 0.3, 0.2], [0.4, 0.2, 0.1], [0.3, 0.2, 0.1], [0.2, 0.1, 0.1], [0.4, 0.2, 0.1], [0.5] * 3]
)
STEADY, SLOWING = np.full(4, 0.6), np.array([0.96, 0.92, 0.85, 0.73])
ORDERS = {
    "errors": [ROWS, ROWS * NONE, ROWS * 0.0],
    "kept": [ROWS, ROWS[:5], ROWS[:0], ROWS * 1e-13],
    "steps": [np.array([8, 16, 32]), np.array([8, 16])],
    "levels": [3, 2, 0],
    "single": [False, True],
    "resolution": [1e-16, 1e-3],
    "fit": [
        None,
        *(
            SimpleNamespace(floor=floor, uncertain=uncertain, slopes=slopes, slope_errors=np.zeros(4))
            for floor in FLOORS
            for uncertain in (False, True)
            for slopes in (STEADY, SLOWING)
        ),
    ],
    "interval": [(0.5, 0.7), (-0.1, 0.1), (0.0, 0.5), (-0.1, 0.4)],
}


def test_rules_on_errors_that_somebody_has_stay():
    found = [of_solvers.OrderEvidence(**each) for each in samples(ORDERS, 200)]
    same("order", [decided(of_solvers.order, evidence) for evidence in found])


@pytest.mark.parametrize(("epsilons", "rule"), [(999.5, "level_off_near_round_off"), (1000.5, "level_off")])
def test_errors_of_fewer_than_a_thousand_epsilons_may_be_round_off(epsilons, rule):
    usual = {name: choices[0] for name, choices in ORDERS.items()}
    fit = SimpleNamespace(floor=FLOORS[3], uncertain=False, slopes=STEADY, slope_errors=np.zeros(4))
    given = {"kept": np.full((6, 3), epsilons * 1e-16), "resolution": 1e-16, "fit": fit}
    assert decided(of_solvers.order, of_solvers.OrderEvidence(**usual | given)).endswith(f": {rule}")


REPORTS = {
    "vanished": [0, 2, 50],
    "paths": [100, 50, 2, 99],
    "levels": [5, 0, 3],
    "steps": [range(5)],
    "kurtosis": [3.0, 100.0, 101.0],
    "average": ["means", "medians", "single"],
    "smallest": [1.0, 0.0, 1e-14],
    "resolution": [1e-16, 1e-12],
    "reference_error": [0.0, 0.4],
    "distances": [(2.0, 1.0)],
    "functions": [(), (SimpleNamespace(resolved=True), SimpleNamespace(resolved=False))],
    "medians": [False, True],
    "local_slopes": [(0.5, 0.6), (), (NONE, 0.6), (0.58, 0.7)],
    "rate": [0.55, 0.64, 0.66, 0.4, NONE],
    "random": [True, False],
}


def test_caveats_of_solvers_stay():
    usual = {"reference": "fine steps", "errors": array(4.0, 2.0, 1.0), "local_slope_errors": array(0.0)}
    usual |= {"rule": "has_its_order", "source": "differences", "left_out": 0}
    reports = [SimpleNamespace(**each, **usual) for each in samples(REPORTS, 60)]
    of = (of_solvers.order_caveats, of_solvers.solver_caveats)
    same("caveats", [[name for name, holds in caveats(each) if holds] for each in reports for caveats in of])


ERRORS = {
    "depths": [5, 2, 3],
    "interval": [(0.45, 0.55), (-0.1, 0.04), (-0.2, 0.2), (0.0, 0.3), (0.01, 0.1), (NONE, NONE)],
    "sure_upper": [0.6, 0.4, NONE],
    "floor": FLOORS,
    "last_slope": [0.5, 0.01, 0.1, 0.3, -0.2, -0.01],
    "last_slope_error": [0.01, 0.0, 0.1],
    "previous_slope": [0.5, -0.5, -0.1, 0.01, NONE],
    "fallen": [1.0, 0.0, -0.5, 0.01],
    "fallen_error": [0.01, 0.2],
    "rate": [0.5],
    "reach": [0.0, 0.09, 0.2, NONE],
    "order": [0.5, None, 0.1, 1.0],
    "kurtosis": [3.0, 200.0],
    "count": [500, 12],
    "interfere": [False, True],
    "hidden": [False, True],
    "deepest": [0.1, 1e-9],
    "resolution": [0.0, 0.04],
    "levels": [of_errors.Levels(), of_errors.Levels().shared(0.25)],
    "flat": [0.05, 0.25],
    "negligible": [0.02, 0.2],
    "remainder": [None, Remainder(0.5, 0.01), Remainder(0.01, 0.001), Remainder(0.5, 0.2)],
    "apart": [0.0, 2.9, 3.1],
    "is_scheme": [False, True],
    "is_uncertain": [False, True],
    "is_settling": [True, False],
}


def test_rules_on_errors_of_networks_stay():
    early = {name: ERRORS[name][:1] for name in ("depths", "is_scheme", "apart", "is_uncertain", "reach")}
    given = [*samples(ERRORS, 400, usual=0.8), *samples(ERRORS | early, 400, usual=0.5, seed=1)]
    found = [of_errors.Evidence(**each) for each in given]
    told = []
    for evidence in found:
        judgement = judge(of_errors.rules, evidence)
        gives = of_errors.gives_an_order(evidence, judgement)
        told.append(f"{judgement.code}: {judgement.rule}" + ", an order" * gives)
    same("errors", (told, dataclasses.astuple(of_errors.Levels().shared(0.25))))


def test_of_several_parts_the_worst_decides():
    three = [Judgement(code, "", None) for code in ConvergenceVerdict]
    same("together", [str(of_errors.together([a, b]).code) for a in three for b in three])


def array(*values):
    return np.array(values, dtype=float)


BEFORE = {
    "depths": [(8, 16, 32), (8, 16, 32, 64)],
    "paths": [100, 9, 10, 12],
    "errors": [
        array(0.5, 0.2, 0.1),
        array(0.0, 0.0, 0.0),
        array(1e-8, 1e-8, 1e-8),
        array(0.5, 0.1, 1e-9),
        array(0.05, 0.1, 1e-9),
        array(INF, INF, INF),
    ],
    "diverged": [np.array([0, 0, 0]), np.array([0, 0, 1]), np.array([0, 20, 90]), np.array([90, 90, 90])],
    "limit_lost": [0, 1],
    "resolution": [1e-12, 1e-7, 0.5, 1e-3, 0.02],
    "vanishes": [False, True],
    "kurtosis": [3.0, 51.0],
}


def test_rules_before_any_fit_stay():
    found = [of_errors.Measured(**each) for each in samples(BEFORE, 200)]
    same(
        "before", [decided(functools.partial(_or_goes_on, of_errors.failed_preconditions), e) for e in found]
    )


def _or_goes_on(rules, evidence):
    yield from rules(evidence)
    yield "fitted", "goes_on", True


NUMBERS = {
    "depths": [(16, 64)],
    "errors": [array(0.4, 0.2), array(0.4, 0.1), array(0.0, 0.2), array(INF, 0.2), array(1e-3, 1e-4)],
    "kurtosis": [array(3.0, 3.0), array(101.0, 3.0), array()],
    "diverged": [np.array([0, 0]), np.array([0, 1])],
    "limit_lost": [0, 1],
    "paths": [512, 99, 100],
    "exact": [False, True],
    "rate": [0.5, NONE, 0.15],
    "interval": [(0.4, 0.6), (0.7, 0.8), (0.1, 0.2)],
    "predicted": [0.5, None, 1.0],
    "is_bound": [False, True],
    "contradicts": [False, True],
    "drift": [0.0, 0.04, 0.06, 0.5],
    "drift_error": [0.01, 0.03],
    "reference_error": [0.0, 0.011, 0.009],
    "rounding": [0.0, 0.011, 0.009],
    "swollen": [False, True],
    "narrow": [False],
    "medians": [False, True],
}


def test_caveats_of_comparisons_stay():
    found = [of_errors.Numbers(**each) for each in samples(NUMBERS, 150)]
    told = [[name for name, holds in of_errors.caveats(each) if holds] for each in found]
    same("caveats of comparisons", (told, [(each.steepness, each.smallest) for each in found[:12]]))


def rows(*first, other=(0.3, 0.1, 0.01, 0.0)):
    return np.array([first, other])


LAWS = {
    "names": [("a", "b")],
    "depths": [np.array([16, 32, 64, 128]), np.array([4, 8, 16, 32]), np.array([32, 40, 48, 56])],
    "differences": [
        rows(0.4, 0.2, 0.1, 0.05),
        rows(0.5, 0.5, 0.5, 0.5),
        rows(0.1, 0.2, 0.3, 0.45),
        rows(-0.1, 0.2, 0.4, 0.5),
        rows(0.9, 0.7, 0.5, 0.41),
    ],
    "errors": [np.full((2, 4), 0.01), np.full((2, 4), 0.1)],
    "floors": [array(0.0, 0.01), array(0.5, 0.0), array(-0.5, 0.0), array(0.2, 0.01), array(0.4, 0.35)],
    "margins": [array(0.05, 0.05), array(0.15, 0.15), array(0.005, 0.005)],
    "fits": [np.array([True, True]), np.array([False, True])],
    "multiple": [3.0, 1.0],
    "distances": [np.array([[0.4, 0.2, 0.1, 0.1]]), np.array([[0.4, 0.2, 0.1, 0.25]])],
    "rejected": [np.array([[True, True, True, True]]), np.array([[True, False, False, False]])],
    "statistics": [("energy",)],
    "tolerance": [0.1, 0.3, 0.02],
    "lost": [0, 1],
    "rounding": [0.0, 0.05, 0.2],
}


def test_rules_on_laws_stay():
    found = [of_laws.Evidence(**each) for each in samples(LAWS, 300)]
    same("laws", [f"{decided(of_laws.rules, each)}, {each.farthest}" for each in found])


def depth(blocks, **given):
    usual = {
        "blocks": blocks,
        "squares": array(1.0, 1.1) / blocks,
        "spreads": array(1.0, 1.2),
        "apart": array(1.0, 1.1),
        "drift": 0.0,
        "drift_error": 0.01,
        "drift_noise": 0.01,
        "lags": (1, 2),
        "correlations": (0.01, 0.0),
        "largest_layer": 0.1,
        "largest_update": 0.05,
        "concentration": array(1.0, 1.1) / blocks,
        "anisotropy": 1.0,
        "fixed": 0.0,
        "fixed_error": 0.01,
        "displacement": array(1.0, 1.1),
        "growth": array(1.2, 1.3),
        "turned": array(0.5, 0.6),
        "inputs_start": 0.0,
        "inputs_end": 0.1,
    }
    return AtDepth(**(usual | given))


def taken(**given):
    return (depth(4), depth(8), depth(16, **given))


FLAT, RISES, FALLS, OPEN = (
    Power(0.0, -0.1, 0.1),
    Power(0.5, 0.4, 0.6),
    Power(-0.5, -0.6, -0.4),
    Power(0.2, -0.3, 0.5),
)
REMEMBERS = tuple(
    depth(n, spreads=array(s, s), correlations=(0.1,)) for n, s in ((4, 1.0), (8, 1.3), (16, 1.4))
)
REMEMBERS_SHARE = tuple(
    depth(n, spreads=array(s, s), correlations=(0.1,)) for n, s in ((4, 1.0), (8, 1.3), (16, 1.7))
)
BLOCKS = {
    "taken": [
        taken(),
        taken(spreads=array(0.0, 0.0)),
        taken(drift=0.5),
        taken(drift=0.02),
        taken(largest_update=0.2),
        taken(largest_layer=0.3),
        taken(anisotropy=1.2),
        taken(displacement=array(9.0, 9.0), growth=array(9.0, 9.0)),
        taken(displacement=array(9.0, 9.0), growth=array(1.4, 1.4)),
        tuple(depth(n, squares=array(0.0, 0.0)) for n in (4, 8)),
        REMEMBERS,
        REMEMBERS_SHARE,
    ],
    "size": [FLAT],
    "noise": [FLAT, RISES, FALLS, OPEN, None, Power(0.1, 0.0, 0.2)],
    "alignment": [FLAT, RISES, Power(1.0, 0.9, 1.1), None, OPEN, Power(0.2, 0.1, 0.3)],
    "drift": [None, FLAT, RISES, FALLS],
    "displacement": [FLAT, RISES, FALLS, None, OPEN],
    "growth": [FLAT],
    "concentration": [Power(-1.0, -1.1, -0.9), Power(-0.5, -0.6, -0.4), Power(-0.5, -1.2, 0.2), None],
    "ode": [FALLS, None, FLAT],
    "ode_distance": [0.1, 1e-6, 0.4],
    "beside": [Beside(("a",), array(0.1), array(0.5)), None, Beside(("a",), array(0.5), array(1e-4))],
    "lost": [0.0, 0.3, 0.7],
}


def test_rules_on_stacks_of_blocks_stay():
    found = [of_blocks.Evidence(**each) for each in samples(BLOCKS, 400)]
    told = [f"{decided(of_blocks.limit, e)}, {of_blocks.may_diffuse(e)}" for e in found]
    same("blocks", told)


@pytest.mark.parametrize("moved", [0.1, 1.0, 10.0])
def test_a_state_runs_away_that_moves_more_than_three_times_as_far_whatever_its_size(moved):
    for times, runs_away in ((2.0, False), (4.0, True)):
        blocks = tuple(
            depth(n, displacement=array(far, far), growth=array(size, size))
            for n, far, size in ((4, moved, 1.0), (8, moved * times, 3.0))
        )
        usual = {name: choices[0] for name, choices in BLOCKS.items()}
        assert of_blocks.Evidence(**usual | {"taken": blocks}).state_rises is runs_away


@pytest.mark.parametrize("blocks", [(4, 8), (4, 8, 16, 32)])
def test_powers_of_the_number_of_blocks_stay(blocks):
    n = np.array(blocks)
    means = {"power": n**-0.6, "bent": n**-0.6 + 0.2, "grows": 0.1 * n, "lost": n * NONE, "vanishes": n * 0.0}
    found = {
        name: [
            scaling.power_of(blocks, values, relative * np.abs(values), confidence, root=root)
            for relative in (1e-4, 0.1)
            for confidence in (0.8, 0.99)
            for root in (True, False)
        ]
        for name, values in means.items()
    }
    powers = [(each.is_flat, each.rises, each.falls) for each in (FLAT, RISES, FALLS, OPEN, *_close_ones())]
    same(f"powers of {len(blocks)}", (found, powers))


def _close_ones():
    ends = ((-0.26, 0.2), (-0.2, 0.26), (0.02, 0.2), (0.04, 0.2), (-0.2, -0.02), (-0.2, -0.04))
    return [Power(rate, *each) for rate in (-0.11, -0.09, 0.09, 0.11) for each in ends]
