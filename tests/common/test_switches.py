"""Global switches of torch and numpy move no bit of a result, and stay as they were."""

import contextlib
import copy
import inspect
import threading

import numpy as np
import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common.global_state import by_default
from deeplimit.simulation.trajectories import Trajectories

BATCH = torch.linspace(-1.0, 1.0, 80).reshape(2, 5, 8)
SYSTEM = dl.datasets.synthetic_system(width=4, count=70, test=9)
ERRORS = np.exp(np.random.default_rng(0).normal(size=(50, 3))) * np.array([1.0, 0.5, 0.25])


def stack(depth):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return torch.nn.TransformerEncoder(layer, depth)


with torch.random.fork_rng():
    torch.manual_seed(0)
    MODEL, LAYERS = stack(4), torch.randn(16, 4, 4)


def initialised():
    with torch.inference_mode(False), torch.device("cpu"):
        model = copy.deepcopy(MODEL)
    dl.init.residual_(model, batch=BATCH, seed=1)
    return [parameter.detach() for name, parameter in model.named_parameters() if "linear2" in name]


def adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


COMPARED = {"depths": [2, 3, 8], "paths": 60, "seed": 3}
ITO = dl.Ito(A=0.2, b=0.1)
OWN = dl.inner(4, "gelu", noise=ITO)
REPORT = dl.compare(dl.res1(2, "tanh"), **COMPARED)
FUNCTIONS = {
    "compare": lambda: dl.compare(dl.res1(8, "tanh"), **COMPARED),
    "compare, ODE": lambda: dl.compare(dl.res1(4, "tanh", weights=dl.SmoothGaussian(0.3)), **COMPARED),
    "compare, Young": lambda: dl.compare(
        dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)), depths=[2, 4], paths=60
    ),
    "compare, Itô": lambda: dl.compare(dl.inner(4, "tanh", noise=dl.Ito(A=0.1, b=0.2)), **COMPARED),
    "compare, trend": lambda: dl.compare(
        dl.inner(2, "tanh", trend=dl.Trend(lambda t: t * torch.eye(2)), noise=dl.Ito(A=0.1)), **COMPARED
    ),
    "compare_laws": lambda: dl.compare_laws(dl.res3(4), depths=[2, 4, 8], draws=200),
    "stability": lambda: dl.stability(dl.res3(8), [5, 9, 40], draws=20),
    "phase_diagram": lambda: dl.phase_diagram(
        dl.res3, 4, 20, hurst=[0.3, 0.7], exponents=[0.0, 0.5, 1.0], draws=2, inputs=2
    ),
    "simulate": lambda: dl.simulate(dl.res2(4, "relu"), depths=[4, 8], paths=5, keep_weights=True),
    "train": lambda: dl.train(
        dl.inner(4, "tanh", weights=dl.SmoothGaussian()), [4, 9], SYSTEM, repeats=2, epochs=2
    ),
    "check_depth": lambda: dl.check_depth(stack, [2, 3, 5], batch=BATCH),
    "check_training": lambda: dl.check_training(
        stack, [2, 3], optimizer=adam, batch=BATCH, steps=(1,), seeds=2
    ),
    "probe": lambda: dl.probe(MODEL, BATCH),
    "diagnose": lambda: dl.diagnose({"A": LAYERS}),
    "order": lambda: dl.order(ERRORS, [8, 16, 32]),
    "init.residual_": initialised,
    "datasets": lambda: [dl.datasets.synthetic_system(width=4, count=9, test=2).inputs],
    # Memory that nobody wrote may still hold one of these.
    "datasets, own": lambda: [dl.datasets.Data.of(k * ERRORS, k * ERRORS, test=9).inputs for k in (1, 2, 3)],
    "Ito": lambda: [ITO.Q(0.3, BATCH[0]), ITO.quadratic_variation(1.0, width=3).A],
    "regime": lambda: [str(OWN.regime()), OWN.limit().equation],
    "path": lambda: REPORT.path(3),
}  # fmt: skip
"""A small call of what computes; those of modules build them under the switch, too."""


@contextlib.contextmanager
def moved(set_to, value, back):
    set_to(value)
    try:
        yield
    finally:
        set_to(back)


SWITCHES = {
    "device meta": lambda: moved(torch.set_default_device, "meta", None),
    "device cpu": lambda: moved(torch.set_default_device, "cpu", None),
    "float64": lambda: moved(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": lambda: moved(torch.use_deterministic_algorithms, True, False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "seterr": lambda: np.errstate(all="raise"),
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
}


def state():
    """Return all switches."""
    return (
        torch.get_default_device(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
        torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), np.geterr(),
        torch.is_inference_mode_enabled(), torch.is_grad_enabled(),
    )  # fmt: skip


def content(value):
    """Return what is compared of a result: every number, no time."""
    if isinstance(value, Trajectories):
        weights = [each for held in value.weights.values() for each in held.values()]
        return content([*value.states.values(), value.limit_states, *weights])
    if isinstance(value, dl.Report):
        return content(value.to_dict())
    if isinstance(value, dict):
        timed = ("seconds", "budget", "provenance", "measurement", "advice")
        return {key: content(item) for key, item in value.items() if key not in timed}
    if isinstance(value, (list, tuple)):
        return [*map(content, value)]
    return value.numpy().tobytes() if isinstance(value, torch.Tensor) else str(value)


SLOW = ("diagnose",)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in SLOW)) for name in FUNCTIONS]
)
def test_no_switch_moves_a_bit_or_is_moved(name):
    right, before = content(FUNCTIONS[name]()), state()
    for switch, turned in SWITCHES.items():
        with turned():
            inside = state()
            found = FUNCTIONS[name]()
            assert state() == inside, switch
        assert content(found) == right, switch
        assert state() == before, switch


@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_are_put_back_after_an_error(switch):
    def broken(depth):
        raise KeyboardInterrupt if depth == 3 else ZeroDivisionError

    with SWITCHES[switch]():
        inside = state()
        with pytest.raises(ZeroDivisionError):
            dl.check_depth(broken, [2, 4, 8], batch=BATCH)
        with pytest.raises(KeyboardInterrupt):
            dl.check_depth(broken, [3, 4, 8], batch=BATCH)
        assert_refused(lambda: dl.compare(dl.res1(4), depths=[4], paths=4), ValueError, "depths")
        assert state() == inside


def test_two_threads_put_the_precision_back_when_the_last_is_done():
    entered, leave = threading.Event(), threading.Event()

    @by_default
    def waiting():
        entered.set()
        leave.wait(10.0)
        return torch.get_default_dtype()

    @by_default
    def short():
        return torch.get_default_dtype()

    found = []
    with SWITCHES["float64"]():
        thread = threading.Thread(target=lambda: found.append(waiting()))
        thread.start()
        assert entered.wait(10.0)
        assert short() == torch.float32
        leave.set()
        thread.join()
        assert torch.get_default_dtype() == torch.float64
    assert found == [torch.float32]


def test_every_public_function_runs_by_default():
    functions = {name: value for name in dl.__all__ if inspect.isfunction(value := getattr(dl, name))}
    functions |= {f"init.{name}": getattr(dl.init, name) for name in dl.init.__all__}
    functions |= {f"testing.{name}": getattr(dl.testing, name) for name in dl.testing.__all__}
    plain = [
        name
        for name, value in functions.items()
        if inspect.isfunction(value) and not hasattr(value, "__wrapped__")
    ]
    assert plain == []


def test_a_model_made_in_inference_mode_is_refused_by_name():
    with torch.inference_mode(), torch.random.fork_rng():
        model = stack(2)
    assert_refused(lambda: dl.probe(model, BATCH), ValueError, "inference mode")
