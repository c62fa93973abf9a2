"""Errors speak of what the user wrote: the function or the brackets, the index, and a way out."""

import ast
import pathlib

import numpy as np
import pytest

import everyo as eo


def explained(error):
    """Return the text of an error without the source line, which may hold any word."""
    return str(error.value).partition("\n  at:")[0]


def matrix():
    return eo.tensor(np.arange(6.0).reshape(2, 3))


def write(x, index, value):
    x[index] = value


FAR = eo.tensor([0, 7])

INDEXING = {
    "int": (lambda x: x[5], eo.IndexingError, "getitem", ["x[5]", "index 5", "-n to n - 1"]),
    "too many": (lambda x: x[0, 0, 0], eo.IndexingError, "getitem", ["x[0, 0, 0]", "at most 2"]),
    "array": (lambda x: x[:, FAR], eo.IndexingError, "getitem", ["x[:, int64 (2,)]", "index 7"]),
    "list": (lambda x: x[[0, 7]], eo.IndexingError, "getitem", ["x[int64 (2,)]", "index 7"]),
    "slice": (lambda x: x[1:, None, ..., 9], eo.IndexingError, "getitem", ["x[1:, None, ..., 9]", "index 9"]),
    "step": (lambda x: x[::-1, 9], eo.IndexingError, "getitem", ["x[::-1, 9]"]),
    "arrays": (
        lambda x: x[eo.tensor([0, 1]), eo.tensor([0, 1, 2])],
        eo.IndexingError,
        "getitem",
        ["x[int64 (2,), int64 (3,)]", "broadcast"],
    ),
    "no step": (lambda x: x[:, ::0], eo.ArgumentError, "getitem", ["x[:, ::0]", "step of a slice is zero"]),
    "write no step": (
        lambda x: write(x, slice(None, None, 0), 1.0),
        eo.ArgumentError,
        "setitem",
        ["x[::0] = ...", "step of a slice is zero"],
    ),
    "write int": (lambda x: write(x, 7, 1.0), eo.IndexingError, "setitem", ["x[7] = ...", "index 7"]),
    "write array": (lambda x: write(x, FAR, 1.0), eo.IndexingError, "setitem", ["x[int64 (2,)] = ..."]),
    "write value": (
        lambda x: write(x, 0, eo.ones(4)), eo.ShapeError, "setitem", ["x[0] = ...", "(3,)", "(4,)"]
    ),
    "write columns": (
        lambda x: write(x, (slice(None), eo.tensor([0, 1])), eo.ones((3, 2))),
        eo.ShapeError,
        "setitem",
        ["x[:, int64 (2,)] = ...", "(2, 2)", "(3, 2)"],
    ),
    "write mask": (
        lambda x: write(x, matrix() > 2, eo.ones(2)), eo.ShapeError, "setitem", ["(3,)", "(2,)"]
    ),
    "mask": (lambda x: x[eo.ones(4) > 0], eo.IndexingError, "getitem", ["(2,)", "(4,)", "remedy"]),
    "write with mask": (lambda x: write(x, eo.ones(4) > 0, 1), eo.IndexingError, "setitem", ["(2,)", "(4,)"]),
    "string": (lambda x: x["a"], eo.IndexingError, "getitem", ["'a'"]),
    "float": (lambda x: x[1.5], eo.IndexingError, "getitem", ["1.5"]),
    "write float": (lambda x: write(x, 1.5, 0.0), eo.IndexingError, "setitem", ["1.5"]),
    "take": (lambda x: eo.take(x, FAR, axis=1), eo.IndexingError, "take", ["axis 1", "index 7"]),
    "take flat": (lambda x: eo.take(x, 7), eo.IndexingError, "take", ["7"]),
    "take_along_axis": (
        lambda x: eo.take_along_axis(x, eo.tensor([[7]]), axis=1),
        eo.IndexingError,
        "take_along_axis",
        ["index 7", "axis=1"],
    ),
    "take_along_axis rank": (
        lambda x: eo.take_along_axis(x, FAR, axis=1), eo.ShapeError, "take_along_axis", ["2 axes"]
    ),
    "take_along_axis shape": (
        lambda x: eo.take_along_axis(x, eo.tensor([[0], [0], [0]]), axis=1),
        eo.ShapeError,
        "take_along_axis",
        ["(2, 3)", "(3, 1)"],
    ),
    "put_along_axis": (
        lambda x: eo.put_along_axis(x, eo.tensor([[7], [0]]), 1.0, axis=1),
        eo.IndexingError,
        "put_along_axis",
        ["index 7"],
    ),
    "put_along_axis value": (
        lambda x: eo.put_along_axis(x, eo.tensor([[0], [0]]), eo.ones(4), axis=1),
        eo.ShapeError,
        "put_along_axis",
        ["(2, 1)", "(4,)"],
    ),
    "gather": (lambda x: eo.gather(x, 1, eo.tensor([[7]])), eo.IndexingError, "gather", ["index 7"]),
    "scatter_add": (
        lambda x: eo.scatter_add(x, 1, eo.tensor([[7]]), eo.ones((1, 1))),
        eo.IndexingError,
        "scatter_add",
        ["index 7"],
    ),
    "index_add": (
        lambda x: eo.index_add(x, FAR, eo.ones((2, 3))), eo.IndexingError, "index_add", ["index 7"]
    ),
    "index_add value": (
        lambda x: eo.index_add(x, eo.tensor([0, 1]), eo.ones((5, 3))),
        eo.ShapeError,
        "index_add",
        ["(2, 3)", "(5, 3)"],
    ),
}  # fmt: skip
INTERNALS = ("index_update", "scatter_along_axis", "assemble", "'array'", "'distinct'", "slice(", "help(")


@pytest.mark.parametrize(
    "context",
    [
        lambda f: f(matrix()),
        lambda f: eo.grad(lambda x: (f(x * 1), x.sum())[1])(matrix()),
        lambda f: eo.jvp(lambda x: (f(x * 1), x)[1], (matrix(),), (matrix(),)),
        lambda f: eo.vmap(lambda x: (f(x * 1), x)[1])(eo.stack([matrix(), matrix(), matrix()])),
        lambda f: eo.hessian(lambda x: (f(x * 1), x.sum())[1])(matrix()),
    ],
    ids=["eager", "grad", "jvp", "vmap", "hessian"],
)
@pytest.mark.parametrize("name", INDEXING)
def test_index_errors(name, context):
    f, kind, operation, words = INDEXING[name]
    with pytest.raises(kind) as error:
        context(f)
    text = explained(error)
    assert error.value.operation == operation
    assert error.value.remedy
    assert [word for word in words if word not in text] == []
    assert [word for word in INTERNALS if word in text] == []
    assert "test_error_texts.py" in error.value.line


SHAPES = {
    "stack": (lambda x: eo.stack([x, eo.ones(4)]), ["(2, 3) and (4,)", "one shape"]),
    "concat": (lambda x: eo.concat([x, eo.ones((2, 4))]), ["(2, 3) and (2, 4)", "but axis 0"]),
    "concat ranks": (lambda x: eo.concat([x, eo.ones(4)]), ["(2, 3) and (4,)", "expand_dims"]),
    "broadcast_to": (lambda x: eo.broadcast_to(x, (4,)), ["(2, 3) to (4,)"]),
    "broadcast_to size": (lambda x: eo.broadcast_to(x, (2, 4)), ["(2, 3) to (2, 4)"]),
    "expand": (lambda x: eo.broadcast_arrays(x, eo.ones(4)), ["(2, 3)", "(4,)"]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("inside", [False, True])
def test_shapes_that_do_not_fit(name, inside):
    f, words = SHAPES[name]
    with pytest.raises(eo.ShapeError) as error:
        eo.vmap(lambda x: (f(x), x)[1])(eo.stack([matrix()] * 5)) if inside else f(matrix())
    text = explained(error)
    assert [word for word in words if word not in text] == []
    assert error.value.remedy
    assert "help(" not in text


def test_a_mask_under_vmap_is_called_what_it_is():
    with pytest.raises(eo.UnsupportedOperationError) as error:
        eo.vmap(lambda x: x[x > 1])(matrix())
    assert error.value.operation == "getitem"
    assert "mask" in explained(error)
    assert "eo.where" in error.value.remedy


# ---- parameters that are arrays

SEVERAL = [np.array([True, False]), eo.tensor([True, False]), "yes"]
FLAGS = {
    "sum": lambda x, v: eo.sum(x, axis=0, keepdims=v),
    "std": lambda x, v: eo.std(x, axis=0, keepdims=v),
    "average": lambda x, v: eo.average(x, axis=0, keepdims=v),
    "argmax": lambda x, v: eo.argmax(x, axis=0, keepdims=v),
    "logsumexp": lambda x, v: eo.logsumexp(x, axis=0, keepdims=v),
    "sort": lambda x, v: eo.sort(x, descending=v),
    "argsort": lambda x, v: eo.argsort(x, stable=v),
    "topk": lambda x, v: eo.topk(x, 1, largest=v),
    "linspace": lambda x, v: eo.linspace(0.0, 1.0, 3, endpoint=v),
    "dropout": lambda x, v: eo.dropout(x, training=v),
    "avg_pool2d": lambda x, v: eo.avg_pool2d(x.reshape((1, 1, 2, 3)), 2, count_include_pad=v),
    "astype": lambda x, v: eo.astype(x, eo.float64, copy=v),
    "zeros": lambda x, v: eo.zeros(2, requires_grad=v),
    "integers": lambda x, v: eo.random.Generator(0).integers(0, 3, endpoint=v),
    "grad": lambda x, v: eo.grad(lambda x: (x.sum(), 1), has_aux=v)(x),
    "vjp": lambda x, v: eo.vjp(lambda x: (x.sum(), 1), x, has_aux=v),
    "jvp": lambda x, v: eo.jvp(lambda x: (x.sum(), 1), (x,), (x,), has_aux=v),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name):
    for value in SEVERAL:
        with pytest.raises(eo.DTypeError) as error:
            FLAGS[name](matrix(), value)
        assert "True or False" in explained(error)
        assert error.value.remedy
        assert error.value.operation == name
    for value in (np.array(True), np.bool_(True), eo.tensor(True), 1):
        FLAGS[name](matrix(), value)


INTEGERS = {
    "grad": lambda x, v: eo.grad(lambda x: x.sum(), argnums=v)(x),
    "vmap": lambda x, v: eo.vmap(lambda x: x, in_axes=v)(x),
    "vmap out": lambda x, v: eo.vmap(lambda x: x, out_axes=v)(x),
    "tensordot": lambda x, v: eo.tensordot(x, x, axes=v),
    "sum": lambda x, v: eo.sum(x, axis=v),
    "concat": lambda x, v: eo.concat([x, x], axis=v),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_numpy(name):
    for value in (0, np.int64(0), np.array(0)):
        INTEGERS[name](matrix(), value)
    for value in (np.array([0, 1]), 0.5, "a"):
        with pytest.raises(eo.EveryOError) as error:
            INTEGERS[name](matrix(), value)
        assert error.value.operation == name.split()[0]


@pytest.mark.parametrize(
    ("call", "kind", "operation"),
    [
        (lambda x: eo.scan(lambda c, _: (c, c), 1.0, length="a"), eo.DTypeError, "scan"),
        (lambda x: eo.scan(lambda c, _: (c, c), 1.0, length=np.array([1, 2])), eo.DTypeError, "scan"),
        (lambda x: eo.vmap(lambda x: x, chunk_size=np.array([1, 2]))(x), eo.ArgumentError, "vmap"),
        (lambda x: eo.grad(lambda x: x.sum(), argnames=0)(x), eo.DTypeError, "grad"),
        (lambda x: eo.grad(lambda x: x.sum(), argnames=[0])(x), eo.DTypeError, "grad"),
        (lambda x: eo.fori_loop(0, "a", lambda i, c: c, 1.0), eo.ArgumentError, "fori_loop"),
    ],
)
def test_other_parameters(call, kind, operation):
    with pytest.raises(kind) as error:
        call(matrix())
    assert error.value.operation == operation
    assert error.value.remedy or kind is eo.ArgumentError


# ---- every error in the source


def constructions():
    """Yield place, class and keyword names of each error that the package makes."""
    kinds = {name for name, kind in vars(eo.errors).items() if isinstance(kind, type)}
    root = pathlib.Path(eo.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                yield f"{path.relative_to(root)}:{node.lineno}", node.func.id, {k.arg for k in node.keywords}


def test_every_error_says_what_was_expected_and_what_to_do():
    found = list(constructions())
    assert len(found) > 200
    assert [place for place, _, names in found if not {"operation", "expected"} <= names] == []
    # Of an argument that is out of range, `expected` says what to do.
    silent = [place for place, kind, names in found if kind != "ArgumentError" and "remedy" not in names]
    assert silent == []


X34, AXES = eo.ones((3, 4)), np.array([0, 1])


@pytest.mark.parametrize(
    ("call", "kind", "operation", "words"),
    [
        (lambda: eo.permute_dims(X34, np.array(1)), eo.ShapeError, "permute_dims", "no permutation"),
        (lambda: eo.permute_dims(X34, (0, 5)), eo.IndexingError, "permute_dims", "axis 5 does not exist"),
        (lambda: eo.transpose(X34, np.array(1)), eo.ShapeError, "transpose", "no permutation"),
        (lambda: np.diagonal(X34, 0, AXES, 1), eo.DTypeError, "diagonal", "must be an integer"),
        (lambda: np.trace(X34, 0, 0, AXES), eo.DTypeError, "trace", "must be an integer"),
        (lambda: np.trace(X34, 0, 0, 0), eo.ShapeError, "trace", "rows and columns are the same"),
        (lambda: np.trace(X34, 0, 1, -1), eo.ShapeError, "trace", "axis1=1, axis2=-1"),
        (lambda: np.diagonal(X34, 0, 1, 1), eo.ShapeError, "diagonal", "rows and columns are the same"),
        (lambda: eo.expand_dims(X34, None), eo.DTypeError, "expand_dims", "must be an integer"),
        (lambda: eo.expand_dims(eo.ones((1, 1)), None), eo.DTypeError, "expand_dims", "must be an integer"),
        (lambda: np.var(eo.tensor(1.0), axis=0, where=False), eo.IndexingError, "var", "does not exist"),
        (lambda: np.std(eo.tensor(1.0), axis=0, where=False), eo.IndexingError, "std", "does not exist"),
        (lambda: np.var(X34, keepdims="no", where=X34 > 0), eo.DTypeError, "var", "neither true nor false"),
        (lambda: np.prod(X34, keepdims=AXES), eo.DTypeError, "prod", "neither true nor false"),
        (lambda: np.prod(X34, keepdims="no"), eo.DTypeError, "prod", "neither true nor false"),
        (lambda: np.histogram(X34, "most"), eo.ArgumentError, "histogram", "no such rule"),
    ],
)
def test_arguments_are_refused_by_the_function_that_was_called(call, kind, operation, words):
    with pytest.raises(kind) as error:
        call()
    assert error.value.operation == operation
    assert words in explained(error)


def test_help_is_on_what_there_is():
    """A primitive that has no public name has no help either."""
    from everyo.core.explaining import explain
    from everyo.core.registry import get_primitive

    for name in ("delay", "prod_pull", "matmul", "vector_norm", "cholesky"):
        remedy = explain(get_primitive(name), [], {}, ValueError("misfit")).remedy
        found = remedy.partition("help(eo.")[2].partition(")")[0]
        assert bool(found) is (name not in ("delay", "prod_pull")), remedy
        assert not found or found in (name, f"linalg.{name}")


@pytest.mark.parametrize(
    "name", ["bernoulli", "randint", "standard_normal", "normal", "exponential", "choice"]
)
@pytest.mark.parametrize("size", [-1, (2**40, 2**40)])
def test_an_impossible_size_names_the_distribution_that_was_asked_for(name, size):
    arguments = {"bernoulli": (0.5,), "randint": (0, 5), "choice": (3,)}.get(name, ())
    with pytest.raises(eo.ShapeError) as caught:
        getattr(eo.random, name)(*arguments, size=size)
    assert caught.value.operation == name


@pytest.mark.parametrize(
    ("operation", "parameter", "f"),
    [
        ("roll", "shift", lambda x, n: eo.roll(x, n)),
        ("bincount", "minlength", lambda x, n: eo.bincount(x, minlength=n)),
        ("diff", "n", lambda x, n: eo.diff(x, n=n)),
    ],
)
def test_an_integer_that_differs_in_a_batch_is_named(operation, parameter, f):
    x, n = eo.tensor([[1, 2, 3], [1, 1, 0]]), eo.tensor([1, 2])
    with pytest.raises(eo.UnsupportedOperationError, match=f"{parameter} differs") as caught:
        eo.vmap(f)(x, n)
    assert caught.value.operation == operation
    assert parameter in caught.value.remedy
