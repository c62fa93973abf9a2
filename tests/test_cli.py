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
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", interrupted)
    assert call(monkeypatch, "demo") == 130


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_where_the_folder_should_be(monkeypatch, tmp_path, out):
    (tmp_path / "file").write_text("mine")
    message = call(monkeypatch, "demo", "--out", str(tmp_path / out))
    assert message.startswith("everyo demo: ")
    assert repr(str(tmp_path / out)) in message
    assert "--out" in message
    assert "Errno" not in message
    assert " at: " not in message
    assert (tmp_path / "file").read_text() == "mine"


INTERRUPTED = """
import signal, sys
sys.argv = ["everyo", "--version"]

class Interrupting:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
{ignored}
import everyo_command
everyo_command.main()
"""


@pytest.mark.parametrize("name", ["numpy", "everyo.ops", "typer"])
def test_ctrl_c_while_packages_are_imported(name):
    code = INTERRUPTED.format(name=name, ignored="")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_an_ignored_interrupt_stays_ignored():
    code = INTERRUPTED.format(name="numpy", ignored="signal.signal(signal.SIGINT, signal.SIG_IGN)")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"everyo {eo.__version__}\n", "")


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    message = call(monkeypatch, "demo")
    assert message.startswith("everyo demo: packages are missing: matplotlib, rich")
    assert message.endswith("pip install -e '.[train]' in EveryO's folder")  # no source line of another's
    monkeypatch.setitem(sys.modules, "typer", None)
    assert call(monkeypatch, "--version").endswith("pip install -e '.[cli]' in EveryO's folder")


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, everyo.cli;"
        "print(sorted({'typer', 'rich', 'sklearn', 'matplotlib', 'safetensors', 'scipy'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
