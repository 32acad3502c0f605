"""`dl.check_solver`: documented orders are found, and each solver's twin that is wrong in one way is
named."""

import dataclasses
import itertools
import logging
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torchsde
from listed_rules import rule_names
from refusals import assert_refused, row
from scipy.linalg import hadamard

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.common.randomness import Purpose
from deeplimit.judge.solver import runs, solver_check, verdict, wording
from deeplimit.judge.solver.shared_path import draw

PROBLEMS = dl.testing.PROBLEMS
GBM = PROBLEMS["geometric Brownian motion"]
OU = PROBLEMS["Ornstein-Uhlenbeck"]
CIRCLE = PROBLEMS["circle"]
AREA = PROBLEMS["Lévy area"]
SHORT = (8, 16, 32, 64, 128)
LEVEL = 1e-5
WRONG = ("not the documented order", "not the limit")


def check(problem, scheme, **given):
    return dl.check_solver(scheme, problem.equation, problem.x, **({"steps": SHORT} | given))


@pytest.mark.parametrize(
    ("name", "scheme", "order"),
    [
        ("geometric Brownian motion", dl.EulerMaruyama(), 0.5),
        ("geometric Brownian motion", dl.Milstein(), 1.0),
        ("geometric Brownian motion", "milstein", 1.0),
        ("geometric Brownian motion", dl.TorchSDE("srk"), 1.5),
        ("Ornstein-Uhlenbeck", "euler", 1.0),
        ("circle", dl.Heun(), 1.0),
        ("circle", "log_ode", 1.0),
        ("circle", "midpoint", 1.0),
        ("stochastic volatility", "euler", 0.5),
        ("oscillator", "rk4", 4.0),
        ("oscillator", dl.RK4(), 4.0),
        ("oscillator", "heun3", 3.0),
    ],
)
def test_a_scheme_has_its_documented_order_and_the_right_limit(name, scheme, order):
    report = check(PROBLEMS[name], scheme)
    assert (report.verdict, report.documented) == ("documented order", order)
    assert report.rate_interval[0] <= order <= report.rate_interval[1]
    assert order - 0.5 < report.rate_interval[0]
    assert report.distances[-1] < 3 * (report.remaining + report.reference_error)


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, fault) for name, problem in PROBLEMS.items() for fault in problem.faults if problem is not AREA],
)
def test_every_planted_fault_is_named(name, fault):
    wrong = PROBLEMS[name].faults[fault]
    problem = PROBLEMS[name]
    report = dl.check_solver(wrong.solver, problem.equation, problem.x, order=wrong.documented)
    assert report.verdict in WRONG


def test_a_fault_of_the_limit_and_one_of_the_order_are_told_apart():
    wrong = GBM.faults["Milstein without -dt"]
    limit = check(GBM, wrong.solver, order=1.0)
    assert (limit.verdict, limit.rule) == ("not the limit", "stays_apart")
    assert limit.rate_interval[0] < 1.0 < limit.rate_interval[1]  # its order is right
    order = check(GBM, dl.EulerMaruyama(), order=1.0)
    assert (order.verdict, order.rule) == ("not the documented order", "falls_more_slowly")
    assert order.floor_upper < 0.5  # its limit is right


def test_areas_make_order_1_of_noise_that_does_not_commute():
    right = check(AREA, AREA.solvers["Milstein with Lévy areas"], order=1.0)
    assert right.verdict == "documented order"


def test_without_areas_order_1_is_not_reached():
    wrong = check(AREA, AREA.faults["Lévy area left out"].solver, order=1.0, paths=1024)
    assert wrong.verdict == "not the documented order"


def test_torchsdes_milstein_is_found_wrong_for_scalar_noise_that_turns():
    """It multiplies by the transposed Jacobian, which is the Jacobian only in one dimension or if
    symmetric."""
    report = check(CIRCLE, "milstein")
    assert (report.verdict, report.rule) == ("not the limit", "distance_levels_off")
    assert check(CIRCLE, dl.Milstein()).verdict == "documented order"


def test_a_fine_reference_and_differences_alone_agree_with_the_exact_solution():
    found = {
        kind: check(GBM, dl.Milstein(), reference=kind, steps=SHORT[:4]) for kind in ("exact", "fine", "none")
    }
    assert {report.verdict for report in found.values()} == {"documented order"}
    assert math.isnan(found["none"].distances[-1])
    ratio = found["fine"].distances / found["exact"].distances
    assert ratio == pytest.approx(1.0, abs=0.1)
    assert found["exact"].reference_error < 1e-10 < found["fine"].reference_error


def test_a_fine_reference_finds_another_limit():
    wrong = GBM.faults["Milstein without -dt"].solver
    assert check(GBM, wrong, order=1.0, reference="fine", steps=SHORT[:4]).verdict == "not the limit"
    assert check(GBM, wrong, order=1.0, reference="none", steps=SHORT[:4]).verdict == "documented order"


def test_the_order_is_that_of_distances_where_a_solution_is_known_and_reached():
    exact, fine = (check(GBM, dl.Milstein(), reference=kind, paths=256) for kind in ("exact", "none"))
    assert (exact.source, fine.source) == ("distances", "differences")
    width = [np.diff(report.rate_interval)[0] for report in (exact, fine)]
    assert width[0] < 0.8 * width[1]
    assert len(exact.local_slopes) == len(fine.local_slopes) + 1 == len(SHORT) - 1
    wrong = check(GBM, GBM.faults["Milstein without -dt"].solver, paths=256)
    assert wrong.source == "differences"  # distances would tell the order 0


@pytest.mark.parametrize("method", ["torchsde:milstein", "milstein"])
def test_a_method_may_be_named_with_its_package(method):
    problem = GBM
    report = dl.check_solver(method, problem.equation, problem.x, steps=(8, 16, 32), paths=64)
    assert report.documented == 1.0


def test_a_package_of_other_equations_and_a_whole_solver_are_refused():
    problem = GBM
    with pytest.raises(ValueError, match="scheme must be one of"):
        dl.check_solver("torchsde:sdk", GBM.equation, GBM.x)
    with pytest.raises(ValueError, match="scheme 'torchdiffeq:rk4'"):
        dl.check_solver("torchdiffeq:rk4", problem.equation, problem.x)
    with pytest.raises(TypeError, match="scheme must be the name of a method of torchsde"):
        dl.check_solver(torchsde.sdeint, problem.equation, problem.x)


def test_a_callable_without_a_documented_order_is_measured():
    def solver(equation, x, brownian, times):
        for start, end in itertools.pairwise(times):
            x = x + equation.f(start, x) * (end - start) + equation.g_prod(start, x, brownian(start, end))
        return x

    report = check(GBM, solver)
    assert (report.verdict, report.documented) == ("measured", None)
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    redrawn = check(GBM, GBM.faults["noise redrawn"].solver, paths=512)
    assert (redrawn.verdict, redrawn.rule) == ("not the limit", "distance_does_not_fall")


def test_a_solver_of_a_higher_order_than_documented_is_faster():
    report = check(GBM, dl.Milstein(), order=0.5)
    assert (report.verdict, report.rule) == ("faster than documented", "falls_faster")


def test_the_exact_solution_has_no_error_and_a_constant_one_another_limit():
    assert check(GBM, dl.Exact()).rule == "equals_the_solution"
    stays = check(GBM, lambda equation, x, brownian, times: x, order=1.0)
    assert (stays.verdict, stays.rule) == ("not the limit", "does_not_move")
    assert check(GBM, dl.Exact(), kind="weak").rule == "equals_the_means"
    constant = check(GBM, dl.EulerMaruyama(), kind="weak", functions={"0": lambda h: 0 * h[:, 0]})
    assert (constant.verdict, constant.rule) == ("cannot tell", "functions_are_constant")
    weak = check(GBM, lambda equation, x, brownian, times: x, order=1.0, kind="weak")
    assert (weak.verdict, weak.rule) == ("not the limit", "means_stay_apart")


def test_wide_equations_are_run_in_small_blocks_without_areas():
    width = 12
    wide = dl.SDE(lambda t, h: -h, lambda t, h, dB: torch.einsum("pij,pj->pi", dB, h.tanh()) / width)
    plan = runs.Plan(runs.resolve("euler", wide), wide, SHORT, torch.ones(1, width), "none", 0)
    assert plan.motions == width**2
    assert not plan.areas
    assert (
        plan.block * plan.intervals * plan.motions * 2 <= runs.NUMBERS < runs.BLOCK * 256 * plan.motions * 2
    )
    problem = dl.testing.Problem(wide, torch.ones(1, width), {}, "")
    assert check(problem, dl.EulerMaruyama(), paths=64, reference="none").paths == 64


def test_paths_that_are_lost_are_said():
    def loses(equation, x, brownian, times):
        moved = dl.EulerMaruyama().step(equation, 0.0, 1.0, x, brownian(0.0, 1.0))
        return torch.where(moved > 2.5, math.inf, moved)

    report = check(GBM, loses, paths=64)
    assert (report.verdict, report.rule) == ("cannot tell", "paths_are_lost")
    assert 0 < report.lost < 64


@pytest.mark.nightly
def test_torchsde_objects_and_plain_functions_are_equations():
    class Growth(torch.nn.Module):
        sde_type, noise_type = "ito", "diagonal"

        def f(self, t, y):
            return 0.5 * y

        def g(self, t, y):
            return 0.3 * y

    x = torch.ones(1, 1)
    assert dl.Milstein().strong_order(Growth()) == 1.0
    assert dl.TorchSDE("srk").strong_order(Growth()) == 1.5
    assert dl.check_solver("milstein", Growth(), x, steps=SHORT).verdict == "documented order"
    found = dl.check_solver("midpoint", lambda t, h: -h, x, steps=SHORT)
    assert (found.verdict, found.documented) == ("documented order", 2.0)
    assert dl.RK4().strong_order(lambda t, h: -h) == 4.0


def test_every_rule_has_a_sentence_and_every_sentence_a_rule():
    assert set(rule_names(verdict.order)) == set(wording.ORDER)
    assert set(rule_names(verdict.strong, verdict.weak)) == set(wording.SOLVER)
    assert rule_names(verdict.order_caveats) == [*wording.ORDER_CAVEATS]
    assert rule_names(verdict.solver_caveats) == [*wording.SOLVER_CAVEATS]


def runge_kutta(dtype, returned=None):
    """The usual scheme of order 4 for dh = -1000 h or another field, in arithmetic of this type."""

    def solver(equation, x, brownian, times):
        x = x.to(dtype)
        for start, end in itertools.pairwise(times.to(dtype)):
            length = end - start
            first = equation.field(start, x)
            second = equation.field(start + length / 2, x + length / 2 * first)
            third = equation.field(start + length / 2, x + length / 2 * second)
            fourth = equation.field(end, x + length * third)
            x += length / 6 * (first + 2 * second + 2 * third + fourth)  # in place, as solvers are written
        return x.to(returned or dtype)

    return solver


START = torch.linspace(0.5, 1.5, 8, dtype=torch.float64)[:, None]
DECAYS = dl.ODE(lambda t, h: -h + torch.sin(h) / 4)


def test_a_solver_may_write_into_its_states():
    report = dl.check_solver(runge_kutta(torch.float64), DECAYS, START, steps=SHORT, order=4)
    assert report.verdict == "documented order"


@pytest.mark.parametrize("returned", [torch.float32, torch.float64])
def test_round_off_of_float32_is_not_another_limit(returned):
    report = dl.check_solver(runge_kutta(torch.float32, returned), DECAYS, START, steps=SHORT, order=4)
    known = returned == torch.float32  # by the type of what is returned
    assert report.rule == ("equals_the_solution" if known else "may_be_float32")


@pytest.mark.parametrize("seed", range(4))
def test_errors_of_tiny_noise_that_fall_are_no_round_off(seed):
    """Euler-Maruyama at order 1/2: distances of 1e-9 fall by factors of about 0.71."""
    tiny = dl.SDE(lambda t, h: 0 * h, lambda t, h, dB: 1e-5 * (1e3 * h).sin() * dB, noise="diagonal")
    report = dl.check_solver("euler", tiny, START[:1], steps=SHORT, paths=128, seed=seed)
    assert report.distances[-1] < 1e-8
    assert report.rule == "has_its_order"


@pytest.mark.parametrize("steps", [(2, 4, 8, 16), SHORT])
def test_steps_that_are_too_long_for_a_stiff_equation_are_no_other_limit(steps):
    report = dl.check_solver("rk4", dl.ODE(lambda t, h: -1000 * h), START, steps=steps)
    assert (report.verdict, report.rule) == ("cannot tell", "steps_are_too_long")
    wrong = dl.check_solver(
        lambda equation, x, brownian, times: x * 9.0 ** (len(times) - 1), DECAYS, START, steps=SHORT, order=1
    )
    assert wrong.verdict == "not the limit"  # its states grow, but no step is too long


def test_an_exact_solver_is_not_told_to_give_the_solution_that_it_has():
    equation = dl.ODE(lambda t, h: torch.ones_like(h), solution=lambda t, h: h + t)
    assert not dl.check_solver("rk4", equation, START).caveats


@pytest.mark.parametrize(
    ("rate", "said"), [(0.40, True), (0.48, False), (0.6, False), (0.7, True), (math.nan, False)]
)
def test_an_order_outside_of_its_slopes_has_a_word(rate, said):
    quiet = {"reference_error": 0.0, "distances": [1.0], "functions": (), "medians": False, "random": False}
    usual = {"reference": "fine steps", "rule": "", "local_slopes": (0.632, 0.497, math.nan)}
    report = SimpleNamespace(**quiet, **usual, paths=400, rate=rate, source="differences")
    assert dict(verdict.solver_caveats(report))["order_is_of_a_part"] is said


def test_the_path_is_the_same_at_every_level_and_areas_add_up():
    brownian = draw(16, 4, (50, 3), True, 0, 0, Purpose.SOLVER_PATHS)
    whole, first, second = brownian(0.25, 0.75), brownian(0.25, 0.5), brownian(0.5, 0.75)
    assert torch.allclose(whole, first + second)
    _, area = brownian(0.25, 0.75, return_U=True)
    (a, left), (b, right) = brownian(0.25, 0.5, return_U=True), brownian(0.5, 0.75, return_U=True)
    assert torch.allclose(area, left + right + 0.25 * a)
    (_, whole), (_, left), (_, right) = (
        brownian(s, t, return_A=True) for s, t in ((0.25, 0.75), (0.25, 0.5), (0.5, 0.75))
    )
    chen = 0.5 * (a.unsqueeze(2) * b.unsqueeze(1) - b.unsqueeze(2) * a.unsqueeze(1))
    assert torch.allclose(whole, left + right + chen)
    assert torch.allclose(whole, -whole.transpose(1, 2))


@pytest.mark.statistical
@pytest.mark.parametrize("areas", [True, False])
def test_increments_and_areas_have_their_variances(areas):
    """Var B = h, Var U = h³/3, Var A = h²/4, within 5 standard errors: 6e-7 each."""
    paths, h = 20_000, 0.5
    brownian = draw(64, 1, (paths, 2), areas, 3, 0, Purpose.SOLVER_PATHS)
    moved, area, levy = brownian(0.5, 1.0, return_U=True, return_A=True)
    explained = h**2 / 4 if areas else h**2 / 6  # the variance of its mean given the two others
    for values, truth in ((moved[:, 0], h), (area[:, 1], h**3 / 3), (levy[:, 0, 1], explained)):
        squares = values.square()
        error = float(squares.std()) / math.sqrt(paths)
        # A sum over 32 intervals misses what lies within them: 1/32 of the area's variance at most.
        assert abs(float(squares.mean()) - truth) < 5 * error + truth / 32
    assert abs(float((moved[:, 0] * area[:, 0]).mean()) - h**2 / 2) < 5 * h**2 / math.sqrt(paths)


@pytest.mark.statistical
def test_the_area_of_one_grid_interval_is_not_told_by_its_increment():
    """Var U = h³/3, of which h³/12 is independent of B, within 5 standard errors: 6e-7."""
    paths, h = 20_000, 0.5
    brownian = draw(2, 1, (paths, 1), False, 4, 0, Purpose.SOLVER_PATHS)
    moved, area = brownian(0.5, 1.0, return_U=True)
    rest = (area - 0.5 * h * moved).square()
    assert abs(float(rest.mean()) - h**3 / 12) < 5 * float(rest.std()) / math.sqrt(paths)


def test_times_between_those_of_the_grid_are_refused_with_what_to_do():
    def thirds(equation, x, brownian, times):
        return x + brownian(0.0, float(times[1]) / 3)

    def halves(equation, x, brownian, times):
        for start, end in itertools.pairwise(times.tolist()):
            middle = (start + end) / 2
            for s, t in ((start, middle), (middle, end)):
                x = x + equation.f(s, x) * (t - s) + equation.g_prod(s, x, brownian(s, t))
        return x

    assert check(GBM, halves, order=0.5).verdict == "documented order"
    with pytest.raises(ValueError, match="brownian is known at multiples of 1/256"):
        check(GBM, thirds)


def test_torchsde_itself_takes_the_path():
    brownian = draw(32, 1, (10, 1), False, 0, 0, Purpose.SOLVER_PATHS)
    times = torch.linspace(0, 1, 17, dtype=torch.float64)
    x = torch.ones(10, 1, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):  # it tries g_prod on random numbers
        states = torchsde.sdeint(GBM.equation, x, times, bm=brownian, method="euler", dt=1 / 16)
    ours = x
    for start, end in itertools.pairwise(times.tolist()):
        ours = dl.EulerMaruyama().step(GBM.equation, start, end - start, ours, brownian(start, end))
    assert torch.allclose(states[-1], ours)


def test_a_seed_decides_everything_and_more_paths_keep_the_first():
    first, again, other = (check(GBM, dl.Milstein(), seed=seed, paths=256) for seed in (1, 1, 2))
    assert first.rate == again.rate != other.rate
    before = torch.get_rng_state()
    check(GBM, "milstein", paths=64)
    assert torch.equal(before, torch.get_rng_state())


def test_steps_that_do_not_double_are_taken():
    report = check(GBM, dl.Milstein(), steps=(10, 20, 30, 60, 120))
    assert report.verdict == "documented order"


def linear(h):
    return h[:, 0]


def square(h):
    return h[:, 0].square()


@pytest.mark.parametrize(
    ("scheme", "order"), [(dl.EulerMaruyama(), 1.0), (dl.Milstein(), 1.0), ("milstein", 1.0)]
)
def test_a_weak_order_of_1_is_found(scheme, order):
    report = check(GBM, scheme, kind="weak", functions={"square": square}, paths=4096, order=order)
    assert report.verdict == "documented order"
    (found,) = report.functions
    assert found.rate_interval[0] < order < found.rate_interval[1]
    assert found.gap < found.allowed
    assert len(report.resolvable) == len(SHORT) - 1


QUIET = dl.testing.Problem(
    dl.SDE(
        lambda t, h: 0.5 * h,
        lambda t, h, dB: 0.2 * h * dB,
        noise="diagonal",
        solution=lambda t, h0, B: h0 * ((0.5 - 0.02) * t + 0.2 * B).exp(),
    ),
    torch.ones(1, 1),
    {},
    "",
)


def second_order(equation, x, brownian, times):
    """The simplified weak Taylor scheme of order 2 for geometric Brownian motion (Kloeden & Platen, 14.2)."""
    a, b = 0.5, 0.2
    for start, end in itertools.pairwise(times.tolist()):
        h, dB = end - start, brownian(start, end)
        x = x * (1 + a * h + b * dB + 0.5 * b * b * (dB**2 - h) + a * b * dB * h + 0.5 * a * a * h * h)
    return x


def test_a_weak_order_of_2_is_found_and_claimed_for_euler_it_is_not():
    given = {"kind": "weak", "functions": {"square": square}, "steps": (2, 4, 8, 16, 32), "order": 2.0}
    right = check(QUIET, second_order, paths=8192, **given)
    assert right.verdict == "documented order"
    assert right.rate_interval[0] < 2.0 < right.rate_interval[1]
    wrong = check(QUIET, dl.EulerMaruyama(), paths=8192, **given)
    assert wrong.verdict == "not the documented order"


@pytest.mark.nightly
def test_a_solver_of_order_2_is_not_blamed_for_its_references_weak_error():
    """The reference has order 1: its weak error is several times what the solver's noise and steps leave."""
    unknown = dl.testing.Problem(dataclasses.replace(QUIET.equation, solution=None), QUIET.x, {}, "")
    given = {"kind": "weak", "functions": {"square": square}, "steps": (2, 4, 8, 16, 32), "order": 2.0}
    report = check(unknown, second_order, paths=2048, **given)
    assert report.verdict == "documented order"
    assert report.functions[0].allowed < 0.01

    def farther(equation, x, brownian, times):
        return 1.05 * second_order(equation, x, brownian, times)

    assert check(unknown, farther, paths=512, **given).verdict == "not the limit"


@pytest.mark.nightly
def test_a_weak_error_that_does_not_fall_yet_says_nothing():
    """E cos h turns with h = e² and deviations of several radians: its slopes are -0.5, 0.7, 0.9."""
    drift, noise = 2.0, 0.2
    fast = dl.testing.Problem(
        dl.SDE(lambda t, h: drift * h, lambda t, h, dB: noise * h * dB, noise="diagonal"),
        torch.ones(1, 1),
        {},
        "",
    )
    given = {"kind": "weak", "paths": 4096, "order": 1.0, "reference": "none"}
    cosine = check(fast, dl.EulerMaruyama(), functions={"cosine": lambda h: h[:, 0].cos()}, **given)
    assert (cosine.verdict, cosine.rule) == ("cannot tell", "weak_error_is_noise")
    (slow,) = check(fast, dl.EulerMaruyama(), functions=[square], **given).functions
    assert slow.resolved
    assert slow.rate_interval[0] < 1.0 < slow.rate_interval[1]


def test_a_weak_limit_that_is_another_one_is_named_by_its_function():
    wrong = GBM.faults["Milstein without -dt"].solver
    report = check(GBM, wrong, kind="weak", functions=[linear, square], paths=1024, order=1.0)
    assert (report.verdict, report.rule) == ("not the limit", "means_stay_apart")
    assert all(each.gap > each.allowed for each in report.functions)


def test_a_weak_error_that_is_noise_is_said_to_be_noise():
    report = check(GBM, GBM.faults["noise redrawn"].solver, kind="weak", order=1.0, paths=512)
    assert (report.verdict, report.rule) == ("cannot tell", "weak_error_is_noise")


@pytest.mark.parametrize(("mean", "paths"), [(0.0, 8192), (10.0, 4096)])
def test_a_pilot_whose_means_are_noise_asks_for_as_many_paths_as_its_errors(mean, paths):
    """A mean of 0 counts as two of its errors, so that weights of 1, 1/8 and 1/64 give the slope."""
    plan = SimpleNamespace(steps=(8, 16, 32, 64))
    columns = hadamard(16)[:, 1:4] + mean
    changes = (columns * 2.0 ** np.array([0.0, -0.5, -1.0]))[:, :, None]
    weights, octaves = 8.0 ** -np.arange(3.0), np.arange(3.0)
    spread = weights @ (octaves - np.average(octaves, weights=weights)) ** 2
    asked = 4 / (spread * math.log(2) ** 2) / solver_check.WANTED**2
    assert mean > 0 or paths - 4096 < asked < paths
    assert solver_check._paths_for(plan, changes, 2.0) == paths


def test_what_the_paths_resolve_is_logged_before_the_run(caplog):
    with caplog.at_level(logging.INFO, logger="deeplimit"):
        report = check(GBM, dl.Milstein(), kind="weak", paths=512, steps=(4, 8, 16))
    assert len(caplog.records) == 1
    assert report.resolvable[0] > report.resolvable[-1] > 0


@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_reports_keep_the_contract(kind):
    dl.testing.check_report(check(CIRCLE, dl.Heun(), kind=kind, paths=256, steps=(4, 8, 16)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_scaled_equation_has_drift_and_noise_times_the_factors(name):
    given, scaled, x = PROBLEMS[name].equation, PROBLEMS[name].scaled(0.5, 2.0), PROBLEMS[name].x + 0.5
    if isinstance(given, dl.ODE):
        assert scaled.field(0.0, x).tolist() == (0.5 * given.field(0.0, x)).tolist()
        return
    noise = torch.ones(len(x), given.noise_size(x))
    assert scaled.f(0.0, x).tolist() == (0.5 * given.f(0.0, x)).tolist()
    assert scaled.g_prod(0.0, x, noise).tolist() == (2.0 * given.g_prod(0.0, x, noise)).tolist()


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("geometric Brownian motion", "milstein"), ("circle", "log_ode"), ("oscillator", "rk4")],
)
def test_a_scaled_equation_has_its_own_exact_solution(name, scheme):
    problem = dataclasses.replace(PROBLEMS[name], equation=PROBLEMS[name].scaled(0.6, 1.3))
    assert check(problem, scheme, paths=256, reference="exact").verdict == "documented order"


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_solutions_and_moments_of_a_problem_agree_with_its_equation(name):
    """Means of a fine run within 5 standard errors, 6e-7 each, and the weak error of 64 steps."""
    problem = PROBLEMS[name]
    if not problem.moments:
        return
    brownian = draw(
        64, 1, (4096, int(problem.equation.noise_size(problem.x) or 1)), False, 5, 0, Purpose.SOLVER_PATHS
    )
    h = problem.x.double().expand(4096, -1)
    for start, end in itertools.pairwise(np.linspace(0, 1, 65)):
        h = dl.Heun().step(problem.equation, start, end - start, h, brownian(start, end))
    for function, mean in problem.moments:
        values = function(h)
        error = float(values.std()) / 64
        assert abs(float(values.mean()) - mean) < 5 * error + 0.01 * abs(mean)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        row("scheme", lambda: check(GBM, 3), TypeError, "scheme", "3"),
        row("a class", lambda: check(GBM, dl.Milstein), TypeError, "scheme", "Milstein"),
        row("method", lambda: check(GBM, "rk4"), ValueError, "scheme", "'rk4'"),
        row("ODE method", lambda: check(PROBLEMS["oscillator"], "srk"), ValueError, "scheme", "'srk'"),
        row("noise", lambda: check(AREA, "srk"), ValueError, "'srk'", "general"),
        row("SDE only", lambda: dl.TorchSDE("srk").strong_order(dl.ODE(lambda t, h: h)), ValueError, "'srk'"),
        row("no equation", lambda: dl.Milstein().strong_order(3), TypeError, "equation", "3"),
        row("x", lambda: dl.check_solver("euler", GBM.equation, None), TypeError, "x", "None"),
        row("steps", lambda: check(GBM, "euler", steps=(16, 32)), ValueError, "steps", "[16, 32]"),
        row(
            "grid",
            lambda: check(GBM, "euler", steps=(997, 1009, 1013)),
            ValueError,
            "steps",
            "[997, 1009, 1013]",
        ),
        row("paths", lambda: check(GBM, "euler", paths=3), ValueError, "paths", "8", "3"),
        row("kind", lambda: check(GBM, "euler", kind="both"), ValueError, "kind", "'both'"),
        row("order", lambda: check(GBM, "euler", order=0), ValueError, "order", "0"),
        row(
            "functions", lambda: check(GBM, "euler", functions=[square]), ValueError, "functions", "'strong'"
        ),
        row("none", lambda: check(GBM, "euler", kind="weak", functions=[]), ValueError, "functions"),
        row("reference", lambda: check(OU, "euler", reference="exact"), ValueError, "reference", "solution="),
        row("weak ODE", lambda: check(PROBLEMS["oscillator"], "rk4", kind="weak"), ValueError, "kind", "ODE"),
        row("shape", lambda: check(GBM, lambda e, x, b, t: x[:5]), ValueError, "scheme", "(5, 1)"),
        row("tensor", lambda: check(GBM, lambda e, x, b, t: 1.0), TypeError, "scheme", "1.0"),
        row("integers", lambda: check(GBM, lambda e, x, b, t: x.long()), TypeError, "scheme", "int64"),
        row(
            "one number",
            lambda: check(GBM, "euler", kind="weak", functions=[lambda h: h], steps=(2, 4, 8)),
            ValueError,
            "functions[0]",
            "(512,)",
        ),
    ],
)
def test_bad_calls_are_refused_by_the_argument(call, error, named):
    assert_refused(call, error, *named)


def test_the_smallest_error_is_the_median_at_the_finest_level():
    kept = np.array([[9.0, 3.0, 1.0], [8.0, 4.0, 0.5], [7.0, 5.0, 0.25]])
    smallest = verdict.OrderEvidence.smallest.fget
    assert smallest(SimpleNamespace(kept=kept)) == 0.5
    assert smallest(SimpleNamespace(kept=kept[:0])) == 0.0


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, False), (1.1, True)])
def test_a_few_paths_that_make_up_mean_squares_are_no_other_limit(factor, wrong):
    """Geometric noise of size 3: mean squares of distances were held against medians of differences."""

    def solution(t, h0, B):
        return h0 * (-4.5 * factor * t + 3 * B).exp()

    equation = dl.SDE(lambda t, h: 0 * h, lambda t, h, dB: 3 * h * dB, noise="diagonal", solution=solution)
    said = [
        dl.check_solver(dl.Milstein(), equation, torch.ones(1, 1), paths=512, seed=seed).verdict
        for seed in range(3)
    ]
    assert said.count("not the limit") >= 2 if wrong else "not the limit" not in said


def test_slopes_that_rise_towards_a_singularity_accuse_no_solver():
    """h' = h² from 0.95 is singular at 1.05: slopes of Euler's method are -0.2, 0.04, 0.3 at first."""
    equation = dl.ODE(lambda t, h: h * h, solution=lambda t, h0: h0 / (1 - t * h0))
    start = torch.full((1, 1), 0.95, dtype=torch.float64)
    assert dl.check_solver("euler", equation, start).rule == "slopes_keep_rising"
    fine = dl.check_solver("euler", equation, start, steps=[1024 * 2**k for k in range(5)])
    assert fine.verdict in ("documented order", "cannot tell")


def _fast(t, h0):
    at_once = (1e4 * torch.cos(t) + 100 * torch.sin(t)) / 10001
    return at_once + (h0 - 1e4 / 10001) * torch.exp(-100 * t)


FAST = dl.ODE(lambda t, h: -100 * (h - torch.cos(t)), solution=_fast)  # Euler's is stable from 50 steps on
DOUBLING = tuple(16 * 2**k for k in range(7))


@pytest.mark.parametrize("scheme", ["euler", "rk4"])
def test_steps_that_are_unstable_leave_no_order_where_too_few_are_left(scheme):
    """States of 1e25 at 16 steps once made changes of 1e-3 at 256 round-off."""
    report = dl.check_solver(scheme, FAST, START[:1])
    assert (report.verdict, report.rule) == ("cannot tell", "few_steps_are_stable")
    assert math.isnan(report.rate)
    assert "reference_is_coarse" not in report.caveats or report.reference_error < 1e-2


@pytest.mark.parametrize(("scheme", "order"), [("midpoint", 2), ("heun3", 3), ("rk4", 4)])
@pytest.mark.parametrize("steps", [DOUBLING[2:], DOUBLING[3:]])
def test_steps_that_resolve_a_fast_equation_late_show_the_order(scheme, order, steps):
    """Local slopes of the midpoint rule fall from 5.8 to 2.2; at depths beyond 64 they hide a part 1/L²."""
    report = dl.check_solver(scheme, FAST, START[:1], steps=steps)
    low, high = report.rate_interval
    assert low < order < high
    assert report.verdict == "documented order"
    claimed = dl.check_solver(scheme, FAST, START[:1], steps=steps, order=order + 1.0)
    assert claimed.verdict in ("not the documented order", "cannot tell")
    assert high < order + 0.75
    unstable_at_first = dl.check_solver(scheme, FAST, START[:1], steps=DOUBLING)
    assert unstable_at_first.verdict in ("documented order", "cannot tell")


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "rk4"])
def test_a_right_side_that_jumps_has_no_order_to_judge_a_solver_by(scheme):
    """Euler's method meets 1 until t = 1/3 and -1 after it: errors go down in pairs of steps."""
    jump = dl.ODE(lambda t, h: torch.where(t < 1 / 3, 1.0, -1.0) * torch.ones_like(h))
    report = dl.check_solver(scheme, jump, START[:1])
    assert (report.verdict, report.rule) == ("cannot tell", "equation_jumps")
    smooth = dl.ODE(lambda t, h: torch.cos(3 * t) * torch.ones_like(h))
    assert dl.check_solver("euler", smooth, START[:1], order=2).verdict == "not the documented order"


def test_a_diffusion_without_a_derivative_has_no_milstein_correction():
    sign = dl.SDE(lambda t, h: -h, lambda t, h, dB: 0.1 * (1 + h.sign()) * dB, noise="diagonal")
    report = dl.check_solver("euler", sign, START[:1], steps=SHORT, paths=64)
    assert math.isfinite(report.distances[-1])


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "rk4"])
def test_a_kink_of_the_right_side_makes_no_solver_tend_to_another_limit(scheme):
    """Each state meets the kink elsewhere within a step: slopes of rk4 are 2.8, 2.8, 4.3."""
    kink = dl.ODE(lambda t, h: 1 - 2 * (h - 0.37).abs())
    rows = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    report = dl.check_solver(scheme, kink, rows)
    assert report.verdict in ("documented order", "cannot tell")
    wrong = dl.ODE(lambda t, h: 1 - 2 * (h - 0.37).abs() + 0.01)
    solver = runs.resolve(scheme, wrong).run
    other = dl.check_solver(lambda e, x, b, times: solver(wrong, x, b, times), kink, rows, order=1)
    assert other.verdict == "not the limit"


def test_a_second_weak_analysis_decides_where_the_first_cannot(monkeypatch):
    drifting = GBM.scaled(1.0, 1.0)
    problem = dataclasses.replace(GBM, equation=drifting)
    given = {"kind": "weak", "steps": (2, 4, 8, 16, 32), "functions": [linear]}
    monkeypatch.setattr(runs, "LARGE_BLOCK", 16)
    monkeypatch.setattr(solver_check, "_paths_for", lambda *given: 16)
    monkeypatch.setattr(solver_check, "MOST", 16)
    few = check(problem, dl.EulerMaruyama(), **given)
    assert (few.verdict, few.paths, few.confidence) == ("cannot tell", 16, 0.95)
    monkeypatch.setattr(solver_check, "MOST", 2**12)
    monkeypatch.setattr(solver_check, "MORE", 256)
    many = check(problem, dl.EulerMaruyama(), **given)
    assert (many.verdict, many.paths, many.confidence) == ("documented order", 2**12, 0.99)


@pytest.mark.parametrize(("factor", "word"), [(1.0, "cannot tell"), (1.2, "not the limit")])
def test_a_jump_of_the_equation_that_steps_see_late_is_no_other_limit(factor, word):
    def volatility(t):
        return 0.3 + 0.7 * (t > 1 / 3)

    def milstein(equation, x, brownian, times):
        for start, end in itertools.pairwise(times):
            size, moved = volatility(start), brownian(start, end)
            x = x - x * (end - start) + size * x * moved + size**2 * x * (moved**2 - (end - start)) / 2
        return x

    equation = dl.SDE(lambda t, h: -h, lambda t, h, dB: factor * volatility(t) * h * dB, noise="diagonal")
    report = dl.check_solver(milstein, equation, torch.ones(4, 1), order=0.5, paths=512)
    assert report.verdict == word


@pytest.mark.parametrize("seed", range(3))
def test_steps_that_are_left_out_do_not_move_the_size_of_corrections(seed):
    """Slopes 1.77, 1.27, 1.12 of the stiff problem: anchored at 32 its intervals were [0.5, 1.6]."""
    stiff = PROBLEMS["stiff"]
    report = dl.check_solver("milstein", stiff.scaled(1.8, 1.0), stiff.x, seed=seed)
    assert report.verdict == "documented order"
    assert report.rate_interval[1] - report.rate_interval[0] < 0.4


@pytest.mark.parametrize(("factor", "expected"), [(1.08, "not the limit"), (1.0, "documented order")])
def test_noise_that_a_drift_hides_is_looked_at_with_more_steps(factor, expected, monkeypatch):
    """Errors of the drift fall like 1/L; those of noise that is 8 % too large lie below up to 64 steps."""
    monkeypatch.setattr(solver_check, "STEPS", (8, 16, 32, 64))
    monkeypatch.setattr(solver_check, "AUTO", (200, 400))
    right = dl.SDE(lambda t, h: -h, lambda t, h, dB: 0.15 * h.cos() * dB, noise="diagonal")

    def solver(equation, x, brownian, times):
        for s, t in itertools.pairwise(times):
            x = x - x * (t - s) + factor * 0.15 * x.cos() * brownian(s, t)
        return x

    asked = {"steps": (8, 16, 32, 64), "order": 0.5}
    assert dl.check_solver(solver, right, torch.ones(1, 1), **asked).verdict == expected
    if factor > 1:  # a number of paths asks for one analysis
        fixed = dl.check_solver(solver, right, torch.ones(1, 1), paths=200, **asked)
        assert (fixed.verdict, fixed.rule) == ("cannot tell", "limit_is_open")


def taylor(order):
    """Return the solver of dh = A h dt by its expansion up to this order."""

    def solver(equation, x, brownian, times):
        for s, t in itertools.pairwise(times):
            total = term = x
            for k in range(1, order + 1):
                term = (t - s) / k * equation.field(s, term)
                total = total + term
            x = total
        return x

    return solver


@pytest.mark.parametrize("order", [4, 5])
def test_a_high_order_that_reaches_the_references_error_is_no_float32(order):
    problem = PROBLEMS["oscillator"]
    fine = dataclasses.replace(problem.equation, solution=None)
    report = dl.check_solver(taylor(order), fine, problem.x, order=float(order))
    assert report.verdict == "documented order"
    assert report.rate_interval[0] < order < report.rate_interval[1]


def test_a_module_of_float32_is_solved_in_float64_and_left_as_it_is():
    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            with seeded(0):
                self.linear = torch.nn.Linear(2, 2)

        def forward(self, t, h):
            return torch.tanh(self.linear(h))

    field = Field()
    report = dl.check_solver("rk4", field, torch.ones(3, 2))
    assert (report.verdict, report.documented) == ("documented order", 4.0)
    assert field.linear.weight.dtype == torch.float32


def blowing_up(equation, x, brownian, times):
    for before, after in itertools.pairwise(times):
        x = x + (after - before) * (x - x**3) + 2**0.5 * brownian(before, after)
    return x


@pytest.mark.parametrize(
    ("steps", "advised"), [((2, 4, 8, 16, 32), "steps=(8, 16, 32, 64, 128)"), ((8, 16, 32), "paths=2048")]
)
def test_where_a_scheme_blows_up_on_a_few_paths_finer_steps_are_advised(steps, advised):
    """Euler's scheme for h - h^3: at 4 steps one path of some thousands makes up the mean of the square."""
    equation = dl.SDE(drift=lambda t, h: h - h**3, diffusion=lambda t, h, dB: 2**0.5 * dB, noise="additive")
    report = dl.check_solver(
        blowing_up,
        equation,
        0.5 * torch.ones(1, 1, dtype=torch.float64),
        order=1,
        kind="weak",
        steps=steps,
        functions={"square": lambda h: h[:, 0] ** 2},
        paths=4096 if steps[0] == 2 else 512,
    )
    assert report.verdict == "cannot tell"
    assert advised in report.headline
