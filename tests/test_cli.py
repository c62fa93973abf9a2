"""The `everyo` command: options, messages, exit codes, and what it does not import."""

import inspect
import subprocess
import sys

import pytest

import everyo as eo
from everyo import cli
from everyo.demo import run
from everyo.demo.train import Config


def call(monkeypatch, *arguments):
    """Run the command; return its exit code (a message where it ended with one)."""
    monkeypatch.setattr(sys, "argv", ["everyo", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


def test_version_and_help(monkeypatch, capsys):
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"everyo {eo.__version__}\n"
    assert call(monkeypatch, "demo", "--help") == 0
    printed = capsys.readouterr().out
    for option in ("--epochs", "--seed", "--out", "--quiet"):
        assert option in printed


def test_python_m_everyo_is_the_command():
    result = subprocess.run([sys.executable, "-m", "everyo", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"everyo {eo.__version__}\n")


def test_options_reach_the_demo(monkeypatch):
    out = inspect.signature(run.run).parameters["out"].default
    seen = []
    monkeypatch.setattr(run, "run", lambda *arguments: seen.append(arguments) or 0)
    assert call(monkeypatch, "demo") == 0
    assert call(monkeypatch, "demo", "--epochs", "3", "--seed", "5", "--out", "there", "--quiet") == 0
    assert seen == [
        (Config(), out, False),
        (Config(epochs=3, seed=5), "there", True),
    ]


@pytest.mark.parametrize("arguments", [("demo", "--epochs", "0"), ("demo", "--seed", "x"), ("nothing",)])
def test_wrong_arguments_end_with_2(monkeypatch, arguments):
    assert call(monkeypatch, *arguments) == 2


def test_errors_end_with_a_message_and_ctrl_c_with_130(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    assert "everyo demo: " in call(monkeypatch, "demo", "--out", str(tmp_path / "file"))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", interrupted)
    assert call(monkeypatch, "demo") == 130


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    message = call(monkeypatch, "demo")
    assert message.startswith("everyo demo: packages are missing: matplotlib, rich")
    assert message.endswith("pip install 'everyo[train]'")  # and no source line of somebody else's
    monkeypatch.setitem(sys.modules, "typer", None)
    assert call(monkeypatch, "--version").endswith("pip install 'everyo[cli]'")


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, everyo.cli;"
        "print(sorted({'typer', 'rich', 'sklearn', 'matplotlib', 'safetensors', 'scipy'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
