"""The benchmarks measure what they say, and report what they find; how long anything takes is asserted
nowhere.
"""

import json

import numpy as np
import pytest
import torch

import deeplimit as dl
from benchmarks import (
    __main__ as command,
    doors,
    initialisation,
    on_device,
    optional,
    peaks,
    report,
    scaling,
    strong_error,
    training,
    with_torchsde,
)
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload


def workload(alternative=10.0, **settings):
    rows = (
        Row("deeplimit", 2.0, "a note", [0.5, 0.25], OURS),
        Row("somebody else", 2.0 * alternative),
        Row("floor: the least there is", 0.5, role=FLOOR),
    )
    return Workload(
        "w9",
        "a setting",
        rows,
        {"paths": 256, "depths": (16, 32), **settings},
        (Target("times as long", 10.0, 5.0),),
    )


def held_against(new, recorded, tmp_path):
    report.save(recorded, tmp_path / "w9.json")
    return report.against_record(new, tmp_path / "w9.json")


@pytest.mark.parametrize(
    ("slower", "flagged"), [(1.0, False), (1.15, False), (1.25, True), (3.0, True), (0.5, False)]
)
def test_a_ratio_that_fell_is_reported_and_its_noise_is_not(slower, flagged, tmp_path):
    lines = held_against(workload(10.0 / slower), workload(10.0), tmp_path)
    assert [line.startswith("REGRESSED") for line in lines] == [True] * flagged
    assert not flagged or ("somebody else" in lines[0] and "from 10 " in lines[0])


def test_runs_of_other_settings_are_not_compared(tmp_path):
    (line,) = held_against(workload(1.0, paths=512), workload(10.0), tmp_path)
    assert not line.startswith("REGRESSED")
    assert "paths 512 here, 256 there" in line


def test_the_json_is_read_back_as_it_was(tmp_path):
    report.save(workload(), tmp_path / "new" / "w9.json")
    kept, machine = report.load(tmp_path / "new" / "w9.json")
    assert kept.rows == workload().rows
    assert kept.targets == workload().targets
    assert kept.settings == report.comparable(workload())
    assert {"cores", "torch", "deeplimit", "date"} <= set(machine)
    document = json.loads((tmp_path / "new" / "w9.json").read_text(encoding="utf-8"))
    assert [row["ratio"] for row in document["rows"]] == [1.0, 10.0, 0.25]
    assert document["targets"][0]["met"] is True
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["w9.json"]


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Target("", 100.0, at_least=100), True),
        (Target("", 99.0, at_least=100), False),
        (Target("", 5.0, at_most=5), True),
        (Target("", 5.1, at_most=5), False),
        (Target("", float("nan"), at_most=5), False),
        (Target("", 3.0, at_least=2, at_most=4), True),
    ],
)
def test_targets_are_met_or_not(target, met):
    assert target.met is met


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a device")
def test_without_a_device_its_workload_is_a_line():
    done = on_device.gpu(quick=True, repeats=1)
    assert done.rows == ()
    assert done.skipped == ("no CUDA device: skipped; its speed has not been measured",)
    assert done.skipped[0] in report.table(done)


def test_the_compiled_kernel_is_switched_off_and_on_again():
    module, line = optional.compiled_kernel()
    if module is None:
        assert line
        return
    with optional.without_compiled_kernel():
        assert not module.ENABLED
        assert optional.compiled_kernel()[0] is None
    assert module.ENABLED


@pytest.mark.nightly
@pytest.mark.nightly
@pytest.mark.parametrize("order", with_torchsde.ORDERS)
@pytest.mark.parametrize("name", ["w1", "theorem_4_4"])
def test_torchsde_measures_the_same_errors(name, order):
    torchsde = pytest.importorskip("torchsde", reason="the alternative that is timed; pip install torchsde")
    setting = with_torchsde.Setting(8, 2000, (8, 16, 32), 64)
    network = {"w1": strong_error.res1, "theorem_4_4": strong_error.inner}[name](setting)
    theirs = {"w1": strong_error.w1_by_torchsde, "theorem_4_4": strong_error.theorem_4_4_by_torchsde}[name]
    with torch.random.fork_rng():  # torchsde draws from the global generator
        torch.manual_seed(0)
        measured = theirs(torchsde, setting, order)
    for coupling in ("projected", "pathwise"):
        ours = strong_error.compared(network, setting, coupling, setting.reference)
        relative, standard = strong_error.agreement(ours, measured)
        assert relative < 0.06
        assert standard < 4
    assert "NOT THE SAME" in strong_error.agreement_in_words(ours, 2 * ours.raw_errors)


def test_the_lean_equations_are_the_library_s_own():
    setting = with_torchsde.Setting(8, 5, (8, 16), 32)
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(5, 8, generator=generator)
    for lean, network, motions in (
        (with_torchsde.NeuralSDE(), strong_error.res1(setting), 64),
        (
            with_torchsde.ScaledSiluSDE(strong_error.MATRIX_VARIANCE, strong_error.BIAS_VARIANCE),
            strong_error.inner(setting),
            72,
        ),
    ):
        limit, v = network.limit(), torch.randn(5, motions, generator=generator)
        torch.testing.assert_close(lean.f(0.0, y), limit.f(0.0, y))
        torch.testing.assert_close(lean.g_prod(0.0, y, v), limit.g_prod(0.0, y, v))


@pytest.mark.parametrize("draw", [initialisation.plain_path, initialisation.looped_path])
def test_plain_fractional_paths_have_the_covariance_of_deeplimit_s(draw):
    steps, hurst = 16, 0.7
    generator = np.random.default_rng(0)
    drawn = np.array([draw(hurst, steps, generator) for _ in range(4000)])
    for lag in (0, 1, 5):
        expected = 0.5 * ((lag + 1) ** 1.4 - 2 * lag**1.4 + abs(lag - 1) ** 1.4)
        products = (drawn[:, : steps - lag] * drawn[:, lag:]).mean(axis=1)
        assert abs(products.mean() - expected) < 5 * products.std() / 4000**0.5


def test_what_is_beyond_proportion_is_seen_through_a_machine_that_speeds_up(monkeypatch):
    """Every run is faster than the one before by a tenth; a large one takes 4 or 6 times as long as a small
    one.
    """
    for costs, expected in ((4.0, 0.9), (6.0, 1.35)):
        clock = [1.0]

        def timed(work, repeats, clock=clock, costs=costs):
            clock[0] *= 0.9
            return clock[0] * (4.0 if work() else costs), None

        monkeypatch.setattr(scaling, "timed", timed)
        *_, ratio = scaling.beyond_proportion(lambda: True, lambda: False, 5)
        assert ratio == pytest.approx(expected)


@pytest.mark.nightly
def test_memory_is_measured_in_a_process_that_forgets_its_parent():
    held = np.ones(2**28)  # 2 GiB, which the child's own peak must not inherit
    _, peak = scaling.measured(8, 16, 8, "projected")
    assert 50 < peak < 2000
    assert held[0] == 1.0


@pytest.mark.nightly
@pytest.mark.parametrize("name", peaks.CALLS)
def test_every_call_whose_peak_is_measured_runs_at_a_small_size(name):
    call, sizes = peaks.CALLS[name]
    _, taken = peaks.measured(call, max(1, sizes[0] // 4))
    assert 1 < taken < 1000


class Given(dl.Initialisation):
    """The weights of a loop over layers, which multiplies from the other side."""

    def __init__(self, loop):
        self.loop = loop

    def draw(self, network, depth, tied, generator):
        return {
            "A": torch.stack([matrix.detach().double().T for matrix in self.loop.matrices]),
            "b": torch.stack([bias.detach().double() for bias in self.loop.biases]),
            "δ": self.loop.delta.detach().double(),
        }


def test_the_loop_over_layers_and_deeplimit_take_the_same_steps():
    depth, steps, rate = 6, 5, 3.0
    loop = training.LoopOverLayers(training.WIDTH, depth)
    found = training.data()
    x, y = found.inputs[: training.BATCH], found.targets[: training.BATCH]
    network = dl.fully_connected(training.WIDTH, "tanh", exponent=0.0)
    same = dl.datasets.Data.of(x, y, test=(x, y))
    how = {"optimizer": dl.SGD(rate), "epochs": steps, "tied": "delta", "nonnegative": "delta"}
    trained = dl.train(network, [depth], same, initial=Given(loop), **how).weights()[depth][0]
    before = loop.delta.item()
    taken = training.steps_of_loop(loop, x, y, rate)
    losses = [next(taken) for _ in range(steps)]
    assert losses[-1] < 0.9 * losses[0]
    assert loop.delta.item() > 2 * before
    for ours, theirs in (
        (trained["A"], torch.stack([matrix.T for matrix in loop.matrices])),
        (trained["b"], torch.stack([*loop.biases])),
        (trained["delta"], loop.delta[0]),
    ):
        np.testing.assert_allclose(np.squeeze(ours), theirs.detach(), rtol=1e-4, atol=1e-7)


@pytest.mark.nightly
def test_a_step_of_training_is_timed_beside_loop_and_floor(monkeypatch):
    monkeypatch.setattr(training, "QUICK_DEPTHS", (4, 8))
    monkeypatch.setattr(training, "QUICK_DEEP", 16)
    done = training.w5(quick=True, repeats=1)
    assert [row.role for row in done.rows] == 2 * ([OURS, OURS] + 2 * ["alternative"] + 2 * [FLOOR]) + [
        OURS,
        OURS,
    ]
    assert all(row.seconds > 0 for row in done.rows)
    assert len(done.targets) == 4
    assert "8 networks one after the other" in report.table(done)


def run_command(monkeypatch, capsys, tmp_path, *arguments):
    monkeypatch.setattr(report, "RECORDED", tmp_path / "recorded")
    monkeypatch.setitem(
        command.WORKLOADS, "w4", lambda quick, repeats: workload(8.0 if quick else 10.0, quick=quick)
    )
    monkeypatch.setattr("sys.argv", ["benchmarks", "w4", "--out", str(tmp_path / "out"), *arguments])
    command.main()
    return capsys.readouterr().out


def test_records_change_only_when_asked_to(monkeypatch, capsys, tmp_path):
    recorded = tmp_path / "recorded" / "w4.json"
    assert "no recorded run" in run_command(monkeypatch, capsys, tmp_path)
    assert (tmp_path / "out" / "w4.json").exists()
    assert not recorded.exists()
    run_command(monkeypatch, capsys, tmp_path, "--record")
    before = recorded.read_bytes()
    assert "nothing regressed" in run_command(monkeypatch, capsys, tmp_path)
    assert "no recorded run (w4-quick.json)" in run_command(monkeypatch, capsys, tmp_path, "--quick")
    assert recorded.read_bytes() == before


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "make",
    [doors.independent, doors.corrected, doors.smooth, doors.fractional],
    ids=lambda make: make.__name__,
)
def test_a_users_loop_measures_the_errors_that_compare_measures(make):
    """Level: 300 paths leave 3 % to either side; 20 % is beyond four standard errors of each."""
    door = make(4, 2.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = door.loop((8, 16, 32), 300)
    expected = dl.compare(door.network, depths=(8, 16, 32), paths=300, workers=1).raw_errors
    assert found == pytest.approx(expected.tolist(), rel=0.2)
    assert 1.3 * np.array(found) != pytest.approx(expected, rel=0.2)
