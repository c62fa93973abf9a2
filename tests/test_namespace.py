"""What `everyo` offers: public names and nothing else."""

import importlib
import types

import everyo as eo
from everyo import ops
from everyo.core import registry
from everyo.ops import later

MODULES = {
    "autograd", "errors", "fft", "implicit", "io", "linalg", "nn", "optim", "random",
    "scipy_compat", "special", "testing",
}  # fmt: skip


def test_every_name_that_dir_shows_is_public_and_there():
    names = [name for name in dir(eo) if not name.startswith("__")]
    assert [name for name in names if name.startswith("_")] == []
    modules = {name for name in names if isinstance(getattr(eo, name), types.ModuleType)}
    assert modules == MODULES
    for name in ("Tensor", "add", "grad", "tree_map", "sparse_hessian", "float32", "ShapeError"):
        assert name in names


def test_files_of_the_calculus_are_no_attributes():
    for name in ("arithmetic", "shape", "families", "indexing", "statistics"):
        assert not hasattr(eo, name)
        assert name not in ops.__all__
    assert callable(eo.einsum)
    assert callable(eo.embedding)
    assert "add" in ops.__all__
    assert len(set(ops.__all__)) == len(ops.__all__)


def test_operations_that_load_later_are_the_public_ones_of_their_modules():
    for module, names in later.TOP_LEVEL.items():
        loaded = importlib.import_module(module)
        assert sorted(loaded.__all__) == sorted(names)
        assert all(getattr(eo, name) is getattr(loaded, name) for name in names)
        assert set(names) <= set(dir(eo)) - set(ops.__all__)


def test_a_primitive_that_is_defined_later_is_found_by_name(monkeypatch):
    defined = []
    monkeypatch.setattr(registry, "_later", [lambda: defined.append(registry.get_primitive("exp"))])
    assert registry.primitives()["exp"] is defined[0]
    assert registry.get_primitive("exp") is registry.op.exp
    assert len(defined) == 1, "one that is there does not load the others"
