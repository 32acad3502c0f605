"""Options of the command line follow the public functions: no argument is forgotten, no default drifts."""

import contextlib
import inspect

import pytest
import typer

import deeplimit as dl
from deeplimit import cli
from deeplimit.cli import (
    convergence,
    diagnosis,
    figures,
    modules,
    options,
    signal,
    solvers,
    training,
    trajectories,
)
from deeplimit.cli.shared import NAMES, Run
from deeplimit.common.depths_as_text import parse_depths
from deeplimit.papers.figures import run_demo

COMMANDS = {
    "compare": (convergence.compare, dl.compare),
    "compare_laws": (convergence.compare_laws, dl.compare_laws),
    "validate": (convergence.validate, dl.validate),
    "demo": (figures.demo, run_demo),
    "simulate": (trajectories.simulate, dl.simulate),
    "check_solver": (solvers.check_solver, dl.check_solver),
    "stability": (signal.stability, dl.stability),
    "phase": (signal.phase, dl.phase_diagram),
    "reproduce": (figures.reproduce, dl.reproduce),
    "check": (modules.check, dl.check_depth),
    "check_training": (modules.check_training, dl.check_training),
    "train": (training.train, dl.train),
    "diagnose": (diagnosis.diagnose, dl.diagnose),
}
SHARED = {"seed": "seed", "device": "device", "workers": "workers", "store": "store"}
BY_ANOTHER_NAME = {
    "executor": "dask",
    "progress": "quiet",
    "resume": "json",
    "folder": "out",
    "figure": "figures",
    "weights": "files",
}
NO_TEXT = {
    "resnet": "made of --network, --width, --weights and others",
    "what": "made of --network and others, or --equation",
    "x": "a tensor",
    ("check_solver", "equation"): "it comes with --problem",
    "functions": "functions of states",
    "same_network": "needs x",
    ("train", "validation"): "a command's data have a test set",
    ("train", "callback"): "a function of the user's",
    ("train", "stop"): "made of --stop-loss and --patience",
    ("train", "ends"): "chosen by the shapes of the data",
    "on_row": "a function: the command prints rows",
    "on_report": "a function: the command prints reports",
    ("diagnose", "batch"): "the command reads files, which hold no module to run",
    ("diagnose", "null"): "a function that builds a model",
    ("diagnose", "blocks"): "the command reads files, which hold no module to run",
}
"""Arguments that no option can give, and why."""
OTHER_DEFAULTS = {
    ("check", "device"): "modules stay where the factory puts them; --device cpu means just that",
    ("demo", "folder"): "the command has a folder to write into",
    ("phase", "network"): "the function leaves its factory to the caller",
    ("check", "factory"): "an argument without a default, here and there",
    ("check_training", "device"): "modules stay where the factory puts them; --device cpu means just that",
    ("train", "network"): "the function has no network of its own",
    ("train", "depths"): "the function has no depths of its own",
    ("train", "data"): "the function has no data of its own",
    ("train", "optimizer"): "a word; Adam(0.01) is the function's, too",
    ("train", "initial"): "a word; FromWeightLaws is the function's, too",
    ("train", "tied"): "no option given is None",
    ("train", "nonnegative"): "no option given is None",
    ("train", "fixed"): "no option given is None",
    ("reproduce", "figure"): "several figures may be named",
}


def signatures(command):
    made, function = COMMANDS[command]
    return inspect.signature(made).parameters, inspect.signature(function).parameters


def read(name, value):
    """Return an option's text as the function takes it."""
    if name in ("hurst", "exponents") and isinstance(value, str):
        return options.parse_numbers(value, name)
    if name == "depths" and value is not None:
        return options.depths_or_auto(value)
    return parse_depths(value) if name == "steps" and value is not None else value


def test_every_command_that_takes_time_is_held_here():
    registered = {command.callback.__name__: command.callback for command in cli.app.registered_commands}
    assert set(registered) == set(COMMANDS) | {"runs"}
    assert all(registered[name] is made for name, (made, _) in COMMANDS.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_of_the_function_has_an_option(command):
    here, there = signatures(command)
    missing = [
        name
        for name in there
        if name not in here
        and BY_ANOTHER_NAME.get(name) not in here
        and not {name, (command, name)} & NO_TEXT.keys()
    ]
    assert missing == (["progress"] if command == "validate" else []), "the rows of validate are its progress"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_default_of_an_option_is_the_functions(command):
    here, there = signatures(command)
    for name in here.keys() & there.keys():
        if (command, name) in OTHER_DEFAULTS:
            continue
        wanted = there[name].default
        given = read(name, here[name].default)
        lists = ("depths", "steps", "hurst", "exponents")
        if name in lists and wanted is not None and wanted != "auto":
            assert given == pytest.approx([*wanted], abs=1e-3), name
        elif not (wanted is inspect.Parameter.empty and name == "width"):
            assert given == wanted, name


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_given_to_an_option_reaches_the_function(command, monkeypatch):
    """The functions are replaced, and told which of their arguments came from the command line."""
    made, function = COMMANDS[command]
    here, there = signatures(command)
    told = {}
    for room in ("judge.convergence", "judge.in_law", "signal", "papers.scoreboard", "papers.figures"):
        name = function.__name__
        module = __import__(f"deeplimit.{room}", fromlist=[name])
        if getattr(module, name, None) is function:
            monkeypatch.setattr(module, name, lambda *given, **named: told.update(seen(there, given, named)))
    monkeypatch.setattr(
        dl, function.__name__, lambda *given, **named: told.update(seen(there, given, named)), raising=False
    )
    values = {name: parameter.default for name, parameter in here.items()}
    changed = {name: value * 0.9 for name, value in values.items() if type(value) is float and name in there}
    changed |= {name: value + 1 for name, value in values.items() if type(value) is int and name in there}
    required = {"optimizer": "json:dumps"} if command == "check_training" else {}
    required |= {"factory": "json:dumps", "figures": ["marion-fig6"], "files": ["8=a.safetensors"]}
    if command == "check_solver":
        required = {"scheme": "heun"}
    with contextlib.suppress(typer.Exit, AttributeError):  # what was replaced returns no report to print
        made(**values | changed | {name: required[name] for name in required if name in here})
    assert changed
    assert {name: told[name] for name in changed} == changed


def seen(there, given, named):
    return dict(zip(there, given, strict=False)) | named


def test_shared_options_have_the_defaults_of_measure():
    measure = inspect.signature(dl.measure).parameters
    for name in ("workers", "store"):
        assert getattr(Run, name) == measure[name].default
    assert set(NAMES) >= {*SHARED, "dask", "quiet", "json", "plot"}
    assert inspect.signature(dl.SmoothGaussian).parameters["length_scale"].default == 0.1
