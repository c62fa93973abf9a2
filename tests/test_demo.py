"""The demo: its data, its check of itself, its files, the same numbers for the same seed, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import everyo as eo
from everyo import nn
from everyo.demo import data, plots, run
from everyo.demo.model import DigitReader
from everyo.demo.train import Config, check_gradients, cosine, measure

FILES = ["curves.png", "metrics.json", "misclassified.png", "weights.safetensors"]
TINY = Config(epochs=1, channels=2, hidden=8, batch_size=256)


@pytest.fixture(scope="module")
def digits():
    return data.load()


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "seconds"}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def assert_whole(folder, config, files=FILES):
    """All files are there and nothing else; the weights fit the network and give the accuracy noted."""
    assert sorted(os.listdir(folder)) == files
    for name in files:
        if name.endswith(".png"):
            assert (folder / name).read_bytes().startswith(b"\x89PNG")
    model = DigitReader(config.channels, config.hidden)
    model.load_state_dict(eo.io.load_safetensors(folder / "weights.safetensors"))
    assert measure(model, data.load()[1]).accuracy == metrics_of(folder)["held_out_accuracy"]


# ---- data and network


def test_the_hold_out_is_fixed_stratified_and_apart(digits):
    train, held_out = digits
    assert (len(train.labels), len(held_out.labels)) == (1437, 360)
    assert train.images.shape == (1437, 1, 8, 8)
    assert 0 == train.images.min() < train.images.max() == 1
    shares = np.bincount(held_out.labels.numpy()) / np.bincount(train.labels.numpy())
    assert np.ptp(shares) < 0.02
    again = data.load()[1]
    np.testing.assert_array_equal(again.images.numpy(), held_out.images.numpy())


def test_shifts_move_each_image_by_up_to_a_pixel(digits):
    examples = digits[0].take(slice(40))
    shifted = examples.shifted(eo.random.Generator(0))
    assert shifted.labels is examples.labels
    padded = np.pad(examples.images.numpy()[:, 0], ((0, 0), (1, 1), (1, 1)))
    moves = set()
    for image, original in zip(shifted.images.numpy()[:, 0], padded):
        found = [
            (i, j)
            for i in range(3)
            for j in range(3)
            if np.array_equal(image, original[i : i + 8, j : j + 8])
        ]
        assert found
        moves.update(found)
    assert len(moves) == 9


def test_the_network_checks_its_gradients(digits, monkeypatch):
    examples = digits[0].take(slice(2))
    assert check_gradients(examples) == 406
    wrong = lambda self, x: eo.relu(x.detach()) + 0.5 * (x - x.detach())  # noqa: E731
    monkeypatch.setattr(nn.ReLU, "forward", wrong)
    with pytest.raises(eo.testing.GradientCheckError):
        check_gradients(examples)


def test_the_learning_rate_falls_to_zero():
    assert [cosine(2.0, progress) for progress in (0, 0.5, 1)] == pytest.approx([2.0, 1.0, 0.0])


# ---- runs


def test_the_same_seed_gives_the_same_numbers(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(run, "check_gradients", lambda examples: 0)
    results = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        config = TINY._replace(seed=seed)
        assert run.run(config, tmp_path / name, quiet=True) == 0
        assert_whole(tmp_path / name, config, FILES if name == "a" else FILES[1::2])
        monkeypatch.setattr(run._Run, "draw", lambda self: None)  # the pictures take longest
        results.append(without_times(metrics_of(tmp_path / name)))
    first, second, other = results
    assert first == second
    assert first["finished"]
    assert first["epochs"] != other["epochs"]
    assert first["config"] == TINY._asdict()
    assert first["seed"] == 0
    assert first["epochs"][-1]["held_out_accuracy"] == first["held_out_accuracy"]
    assert set(first["versions"]) >= {"everyo", "python", "numpy"}
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]
    assert capfd.readouterr() == ("", "")


def test_a_few_epochs_come_close_to_the_target(tmp_path, capsys):
    assert run.run(Config(epochs=8), tmp_path) == 0
    metrics = metrics_of(tmp_path)
    assert metrics["held_out_accuracy"] > 0.96
    assert metrics["gradients_checked"] == 406
    printed = capsys.readouterr().out
    assert "Gradients checked" in printed
    assert f"Held-out accuracy: {metrics['held_out_accuracy']:.1%}" in printed


@pytest.mark.parametrize("complete_epochs", [0, 1])
def test_ctrl_c_keeps_what_was_learned(tmp_path, monkeypatch, capsys, complete_epochs):
    epochs = []

    def interrupted(*arguments):
        *others, after_batch = arguments

        def stop(loss, accuracy):
            after_batch(loss, accuracy)
            raise KeyboardInterrupt

        if len(epochs) == complete_epochs:
            return train_epoch(*others, stop)
        epochs.append(1)
        return train_epoch(*arguments)

    train_epoch = run.train_epoch
    monkeypatch.setattr(run, "train_epoch", interrupted)
    monkeypatch.setattr(run, "check_gradients", lambda examples: 0)
    (tmp_path / "curves.png").write_text("of an earlier run")
    assert run.run(TINY._replace(epochs=3), tmp_path) == 130
    assert_whole(tmp_path, TINY, FILES if complete_epochs else FILES[1:])
    metrics = metrics_of(tmp_path)
    assert not metrics["finished"]
    assert len(metrics["epochs"]) == complete_epochs
    assert "Interrupted" in capsys.readouterr().out


def test_ctrl_c_before_the_training_leaves_an_earlier_run_alone(tmp_path, monkeypatch, capsys):
    def interrupted(examples):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "check_gradients", interrupted)
    for name in FILES:
        (tmp_path / name).write_text("of an earlier run")
    assert run.run(TINY, tmp_path) == 130
    assert {(tmp_path / name).read_text() for name in FILES} == {"of an earlier run"}
    assert "nothing was written" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_a_real_ctrl_c(tmp_path):
    command = "from everyo.cli import main; main()"
    arguments = ["demo", "--epochs", "1000", "--out", str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-c", command, *arguments], stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 90
        while not (tmp_path / "metrics.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"Interrupted" in output
    assert_whole(tmp_path, Config())
    assert not metrics_of(tmp_path)["finished"]


def test_wrong_arguments_and_missing_packages(tmp_path, monkeypatch):
    with pytest.raises(eo.ArgumentError, match="epochs >= 1"):
        run.run(Config(epochs=0), tmp_path)
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(eo.UnsupportedOperationError, match="scikit-learn") as caught:
        run.run(TINY, tmp_path)
    assert "pip install -e '.[train]' in EveryO's folder" in str(caught.value)


# ---- pictures


@pytest.mark.parametrize("wrong", [0, 1, 7, 40])
def test_pictures_for_any_number_of_mistakes(tmp_path, wrong):
    labels = np.arange(50) % 10
    read = np.where(np.arange(50) < wrong, (labels + 1) % 10, labels)
    probabilities = np.full((50, 10), 0.05)
    probabilities[np.arange(50), read] = 0.55
    plots.plot_misclassified(np.zeros((50, 8, 8)), labels, probabilities, tmp_path / "m.png")
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
