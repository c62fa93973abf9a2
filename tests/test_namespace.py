"""What `everyo` offers: public names and nothing else."""

import types

import everyo as eo
from everyo import ops

MODULES = {
    "autograd", "backends", "errors", "implicit", "io", "nn", "optim", "random", "scipy_compat", "testing",
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
