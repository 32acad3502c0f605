"""Shared by all tests: derandomised property tests, every device present, one core per worker."""

import doctest
import importlib.util
import os

# Workers share the cores: threads inside an operation would wait for each other, busily. Libraries read this
# when they are loaded, and so do the processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

pytest_plugins = ["cpu_times", "thinned", "pytester"]

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]  # the device fixture holds no state
settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=25, database=None, suppress_health_check=SLOW
)
settings.register_profile("explore", deadline=None, max_examples=200, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Triton reads this as it is imported, which may be long before the tests of the kernel, by torch or by a
# library on top of it.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def pytest_collection_modifyitems(items):
    """What takes a device runs on a card, too: `make gpu` chooses it by this marker."""
    for item in items:
        if "device" in getattr(item, "fixturenames", ()):
            item.add_marker("card")


OPTIONAL = ("mlxtend", "numba", "pandas", "sklearn", "timm", "transformers")


def _skip_for_want_of_an_extra(cause):
    if isinstance(cause, ImportError) and not all(map(importlib.util.find_spec, OPTIONAL)):
        pytest.skip(f"an extra is not installed: {cause}", allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Where extras are not installed, a test that imports one is skipped; where all are, it fails."""
    try:
        return (yield)
    except (ImportError, doctest.UnexpectedException) as error:
        _skip_for_want_of_an_extra(error.exc_info[1] if hasattr(error, "exc_info") else error)
        raise


class _Module(pytest.Module):
    """A file of tests, which is skipped where it imports an extra that is not installed."""

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            _skip_for_want_of_an_extra(error.__cause__)
            raise


def pytest_pycollect_makemodule(module_path, parent):
    return _Module.from_parent(parent, path=module_path)


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """No test, and so no library call in one, may move the global generator or leave the thread count
    changed.
    """
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    yield
    assert torch.equal(torch.get_rng_state(), before), "the global random state was touched"
    assert torch.get_num_threads() == threads, "the thread count was left changed"


@pytest.fixture
def one_thread():
    """As in `compare`: threads inside small operations cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
