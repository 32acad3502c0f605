"""Ctrl-C ends a command at once, with the code that shells expect; a result is printed before it is kept."""

import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from deeplimit import cli

LONG = {
    "compare": ["--width", "256", "--paths", "1000000"],
    "phase": ["--width", "120", "--depth", "10000"],
    "stability": ["--width", "128", "--depths", "100,10000", "--draws", "100000"],
}


def test_an_interrupt_gives_the_exit_code_of_shells(monkeypatch):
    def interrupted(*_, **__):
        stopped = KeyboardInterrupt()
        stopped.add_note("3 of 7 blocks")
        raise stopped

    monkeypatch.setattr("deeplimit.judge.convergence.compare", interrupted)
    found = CliRunner().invoke(cli.app, ["compare", "--quiet"])
    assert found.exit_code == cli.INTERRUPTED == 130
    assert "3 of 7 blocks" in found.output


@pytest.mark.nightly
@pytest.mark.parametrize("command", LONG)
def test_a_command_ends_at_once_with_exit_code_130(command):
    """Blocks of seconds are under way; the bound is ten times what the page promises."""
    program = (  # jobs in the background of a shell ignore the signal, and so would what they start
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " import deeplimit, torch; from deeplimit.cli import command_line; deeplimit.compare;"
        " sys.argv = ['deeplimit', *sys.argv[1:]]; print('begun', flush=True); command_line()"
    )
    run = [sys.executable, "-c", program, command, *LONG[command]]
    with subprocess.Popen(run, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            os.read(process.stdout.fileno(), 1)
            time.sleep(4.0)  # blocks have begun, or nearly: in both cases it must end
            process.send_signal(signal.SIGINT)
            started = time.perf_counter()
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert time.perf_counter() - started < 20
    assert process.returncode == 130


def test_an_error_that_nobody_expected_is_one_line(monkeypatch):
    def broken(*_, **__):
        raise KeyError("inside")

    monkeypatch.setattr("deeplimit.judge.convergence.compare", broken)
    found = CliRunner().invoke(cli.app, ["compare", "--quiet"])
    assert found.exit_code == 2
    assert found.output.strip() == "Error: KeyError: 'inside' (--traceback shows where it comes from)"
    shown = CliRunner().invoke(cli.app, ["compare", "--quiet", "--traceback"])
    assert isinstance(shown.exception, KeyError)


def test_what_an_error_quotes_is_not_obeyed_by_a_terminal():
    found = CliRunner().invoke(cli.app, ["compare", "--network", "\x1b[31mred", "--quiet"])
    assert found.exit_code == 2
    assert "\x1b" not in found.output
