"""Functions that are made of others: their errors name the function that was called."""

import numpy as np
import pytest

import everyo as eo

X = eo.tensor(np.arange(9.0).reshape(3, 3))
V = eo.tensor([1.0, 2.0, 3.0])
NONE = eo.zeros((0,))
TEXT = "a"
HALF = V.astype(eo.float16)
CALLS = {
    "tile": [lambda: eo.tile(X, -1), lambda: eo.tile(X, 1.5), lambda: eo.tile(X, TEXT)],
    "ptp": [lambda: eo.ptp(NONE), lambda: eo.ptp(TEXT), lambda: eo.ptp(eo.tensor([True]))],
    "geomspace": [
        lambda: eo.geomspace(1, 2, num=-1),
        lambda: eo.geomspace(1, 2, num=1.5),
        lambda: eo.geomspace(eo.ones(2), eo.ones(3)),
        lambda: eo.geomspace(eo.ones(2), 3.0, axis=5),
        lambda: eo.geomspace(1, 2, endpoint=TEXT),
    ],
    "logspace": [
        lambda: eo.logspace(TEXT, 1),
        lambda: eo.logspace(1, 2, num=-1),
        lambda: eo.logspace(1, 2, base=TEXT),
    ],
    "linspace": [lambda: eo.linspace(V, eo.ones(2)), lambda: eo.linspace(V, 1.0, axis=5)],
    "hsplit": [lambda: eo.hsplit(X, 2)],
    "vsplit": [lambda: eo.vsplit(X, 2)],
    "array_split": [lambda: eo.array_split(X, 2, axis=5)],
    "append": [lambda: eo.append(X, V, axis=0), lambda: eo.append(X, X, axis=7)],
    "column_stack": [lambda: eo.column_stack([V, eo.ones(2)])],
    "dstack": [lambda: eo.dstack([V, eo.ones(2)])],
    "vstack": [lambda: eo.vstack([V, eo.ones(2)])],
    "hstack": [lambda: eo.hstack([X, eo.ones((2, 2))])],
    "diagonal": [lambda: eo.diagonal(X, axis1=7), lambda: eo.diagonal(X, axis1=0, axis2=0)],
    "insert": [lambda: eo.insert(X, 0, eo.ones(2), axis=0)],
    "delete": [lambda: eo.delete(TEXT, 0)],
    "nansum": [lambda: eo.nansum(V, axis=3)],
    "nanargmax": [lambda: eo.nanargmax(V, axis=3)],
    "nancumsum": [lambda: eo.nancumsum(V, axis=3)],
    "choose": [lambda: eo.choose([0, 1], [V, eo.ones(2)])],
    "expand_dims": [lambda: eo.expand_dims(TEXT, 0)],
    "tensorsolve": [lambda: eo.linalg.tensorsolve(eo.zeros((3, 3)), V)],
    "matrix_power": [lambda: eo.linalg.matrix_power(eo.zeros((3, 3)), -1)],
    "multi_dot": [lambda: eo.linalg.multi_dot([X, eo.ones(2)])],
    "matvec": [lambda: eo.matvec(X, eo.ones(2))],
    "norm": [lambda: eo.linalg.norm(V, ord=TEXT)],
    "trapezoid": [lambda: eo.trapezoid(V, dx=TEXT)],
    "trim_zeros": [lambda: eo.trim_zeros(eo.tensor(1.0))],
    "masked_fill": [lambda: eo.masked_fill(V, eo.ones(2) > 0, 1.0)],
    "diff": [lambda: eo.diff(X, prepend=V)],
    "polyfit": [lambda: eo.polyfit(HALF, V, 1), lambda: eo.polyfit(V, HALF, 1)],
    "roots": [lambda: eo.roots(HALF)],
    "poly": [lambda: eo.poly(eo.ones((2, 2), dtype=eo.float16))],
    "piecewise": [
        lambda: eo.vmap(lambda x: eo.piecewise(x, [x < 0, x > 0], [eo.abs, eo.sqrt]))(X),
        lambda: eo.compile(lambda x: eo.piecewise(x, [x < 0, x > 0], [eo.abs, eo.sqrt]))(X),
    ],
}


@pytest.mark.parametrize(
    ("name", "i"), [(name, i) for name, calls in CALLS.items() for i in range(len(calls))]
)
def test_the_error_names_the_function_that_was_called(name, i):
    with pytest.raises(eo.EveryOError) as error:
        CALLS[name][i]()
    assert error.value.operation == name
    assert str(error.value).startswith(f"{name}: ")
    assert "test_names_in_errors" in error.value.line


@pytest.mark.parametrize("name", ["insert", "delete"])
@pytest.mark.parametrize(
    "positions",
    [lambda i: i, lambda i: [i, 0], lambda i: eo.stack([i, i]), lambda i: [i == 0, i == 0, i > 0]],
    ids=["one", "list", "tensor", "mask"],
)
@pytest.mark.parametrize(
    ("way", "kind"), [(eo.vmap, eo.UnsupportedOperationError), (eo.compile, eo.CompileError)]
)
def test_positions_that_are_computed_are_refused(name, positions, way, kind):
    def change(i):
        return eo.insert(V, positions(i), 9.0) if name == "insert" else eo.delete(V, positions(i))

    with pytest.raises(kind, match="positions must be known") as error:
        way(change)(eo.tensor([0, 1]) if way is eo.vmap else eo.tensor(1))
    assert error.value.operation == name
    assert "test_names_in_errors" in error.value.line


def test_half_precision_is_named_as_it_was_given():
    for call in (lambda: eo.polyfit(V, HALF, 1), lambda: eo.roots(HALF), lambda: np.roots(HALF)):
        with pytest.raises(eo.DTypeError, match=r"half precision(.|\n)*inputs: +float16 \(3,\)"):
            call()


def test_a_piecewise_function_is_told_to_be_where():
    f = lambda x: eo.piecewise(x, [x < 0, x >= 0], [lambda v: -v, eo.sqrt])  # noqa: E731
    for way, kind in ((eo.vmap, eo.UnsupportedOperationError), (eo.compile, eo.CompileError)):
        with pytest.raises(kind, match=r"^piecewise: (.|\n)*use eo\.where\(condition, f\(x\), g\(x\)\)"):
            way(f)(X)
    with pytest.raises(eo.ShapeError, match=r"^matmul: "):  # of the user's own
        eo.piecewise(V, [V > 0], [lambda v: v @ eo.ones(5)])


def test_positions_from_outside_are_known():
    places, first = eo.tensor([0, 2]), eo.tensor(0)
    assert eo.vmap(lambda v: eo.delete(v, places))(X).tolist() == np.delete(X.numpy(), [0, 2], 1).tolist()
    assert eo.compile(lambda v: eo.insert(v, places, 9.0))(V).tolist() == [9.0, 1.0, 2.0, 9.0, 3.0]
    assert eo.compile(lambda v: eo.delete(v, [first, 1]))(V).tolist() == [3.0]
