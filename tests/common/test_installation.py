"""A torchvision that does not fit the installed torch is explained where it stops a user's code."""

import sys

import pytest
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common.installation import advice

FAILING = """
def factory(depth):
    try:
        raise RuntimeError("operator torchvision::nms does not exist")
    except RuntimeError as error:
        raise ModuleNotFoundError("Could not import module 'GPT2LMHeadModel'.") from error
"""


def test_a_factory_that_torchvision_stops_gets_a_note_on_what_to_install():
    namespace = {}
    exec(FAILING, namespace)
    with pytest.raises(ModuleNotFoundError) as caught:
        dl.check_depth(namespace["factory"], [2, 4])
    assert any("pip install --force-reinstall torch torchvision" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("line", ["", "factory(1)\n"])
def test_the_command_says_what_to_install(line, tmp_path, monkeypatch):
    (tmp_path / "stopped_by_torchvision.py").write_text(FAILING + line)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "stopped_by_torchvision", raising=False)
    result = CliRunner().invoke(
        app, ["check", "stopped_by_torchvision:factory", "--depths", "2,4", "--quiet"]
    )
    assert result.exit_code == 2
    assert "pip install --force-reinstall torch torchvision" in " ".join(result.output.split())


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), ImportError("No module named 'timm'")])
def test_other_errors_get_no_advice(error):
    assert advice(error) is None
