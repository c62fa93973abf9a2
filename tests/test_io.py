"""Files of tensors: round trips, atomic writes, damaged files, a missing package."""

import json
import os
import sys

import numpy as np
import pytest

import everyo as eo
from everyo.io.atomic import replacing


def test_round_trip_of_dtypes_shapes_and_layouts(tmp_path):
    path = tmp_path / "t.safetensors"
    tensors = {
        name: eo.asarray(np.arange(6).reshape(2, 3).astype(name))
        for name in ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64")
    }
    tensors["0-d"] = eo.tensor(1.5)
    tensors["empty"] = eo.zeros((0, 3))
    tensors["transposed"] = eo.asarray(np.arange(6.0).reshape(2, 3).T)
    tensors["reversed"] = eo.asarray(np.arange(6.0)[::-2])
    tensors["expanded"] = eo.asarray(np.broadcast_to(np.arange(2.0), (3, 2)))
    tensors["leaf"] = eo.ones(2, requires_grad=True)
    tensors["array"] = np.arange(3.0)
    tensors["big-endian"] = np.arange(3, dtype=">i4")
    eo.io.save_safetensors(tensors, path, metadata={"made by": "a test"})
    loaded = eo.io.load_safetensors(path)
    assert sorted(loaded) == sorted(tensors)
    for name, value in tensors.items():
        expected = value.detach().numpy() if isinstance(value, eo.Tensor) else value
        np.testing.assert_array_equal(loaded[name].numpy(), expected)
        assert loaded[name].dtype == expected.dtype.newbyteorder("=")
        assert not loaded[name].requires_grad


def test_a_module_goes_through_a_file(tmp_path):
    model, twin = eo.nn.Linear(3, 2), eo.nn.Linear(3, 2)
    eo.io.save_safetensors(model.state_dict(), tmp_path / "w.safetensors")
    twin.load_state_dict(eo.io.load_safetensors(tmp_path / "w.safetensors"))
    assert twin.weight.tolist() == model.weight.tolist()
    eo.optim.SGD(twin.parameters()).step()


def _interrupted(path):
    with replacing(path) as temporary:
        temporary.write_text("half of it")
        raise KeyboardInterrupt


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "w.safetensors"
    eo.io.save_safetensors({"a": eo.ones(1)}, path)
    with pytest.raises(eo.SerializationError, match="complex128"):
        eo.io.save_safetensors({"a": eo.tensor([1j], dtype=eo.complex128)}, path)
    with pytest.raises(KeyboardInterrupt):
        _interrupted(path)
    assert eo.io.load_safetensors(path)["a"].tolist() == [1.0]
    assert os.listdir(tmp_path) == ["w.safetensors"]


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:-1], lambda b: b + b"x", lambda b: b"\xff" * 99]
)
def test_a_damaged_file_is_reported(tmp_path, damage):
    path = tmp_path / "w.safetensors"
    eo.io.save_safetensors({"a": eo.ones(3)}, path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(eo.SerializationError, match=r"w\.safetensors"):
        eo.io.load_safetensors(path)


def test_wrong_arguments(tmp_path):
    with pytest.raises(FileNotFoundError):
        eo.io.load_safetensors(tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError):
        eo.io.save_safetensors({"a": eo.ones(1)}, tmp_path / "none" / "w.safetensors")
    for tensors in ([eo.ones(1)], {1: eo.ones(1)}, {"__metadata__": eo.ones(1)}):
        with pytest.raises(eo.DTypeError, match="names"):
            eo.io.save_safetensors(tensors, tmp_path / "w.safetensors")
    with pytest.raises(eo.SerializationError, match="metadata"):
        eo.io.save_safetensors({"a": eo.ones(1)}, tmp_path / "w.safetensors", metadata={"n": 1})
    assert os.listdir(tmp_path) == []


def test_a_missing_package_is_named_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(eo.SerializationError, match=r"pip install -e '.\[train\]'"):
        eo.io.load_safetensors(tmp_path / "w.safetensors")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "BF16"])
def test_dtypes_that_numpy_lacks_are_an_error_of_the_file(tmp_path, dtype):
    size = 2 if dtype == "BF16" else 1
    header = json.dumps({"a": {"dtype": dtype, "shape": [2], "data_offsets": [0, 2 * size]}}).encode()
    path = tmp_path / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2 * size))
    with pytest.raises(eo.SerializationError, match="a dtype that NumPy lacks"):
        eo.io.load_safetensors(path)


@pytest.mark.parametrize("value", [{"weight": eo.ones(2)}, None, "text"])
def test_what_is_no_tensor_is_named(value, tmp_path):
    with pytest.raises(eo.errors.DTypeError, match="under 'model'"):
        eo.io.save_safetensors({"w": eo.ones(2), "model": value}, tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []
