"""The table of conventions: EveryO answers what it says, in every dtype, shape, layout and transformation."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import everyo as eo

TOOL = pathlib.Path(__file__).parents[1] / "tools" / "conventions.py"
spec = importlib.util.spec_from_file_location("conventions", TOOL)
conventions = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conventions)

ALL = conventions.load()["rows"]
BEHAVIOURS = conventions.load()["behaviours"]
ROWS = [row for row in ALL if row["grads"] != "ShapeError"]
REAL = [row for row in ROWS if "dtype" not in row]
RTOL = {"float16": 4e-3, "float32": 1e-6, "complex64": 1e-6, "float64": 1e-13, "complex128": 1e-13}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # log(0) and 0 / 0 warn, as in NumPy


def rows(*holds, among=ROWS):
    """Return the rows that hold for something, as parameters."""
    chosen = [row for row in among if set(holds) <= set(row.get("holds", ()))]
    return pytest.mark.parametrize("row", chosen, ids=[row["id"] for row in chosen])


def in_dtypes(*dtypes, holds=None, among=ROWS):
    """Return the rows with each of the dtypes that they hold for, as parameters."""
    pairs = [
        pytest.param(row, dtype, id=f"{row['id']}-{dtype}")
        for row in among
        for dtype in dtypes
        if holds is None or holds in row.get("holds", ())
        if np.dtype(dtype).kind == np.dtype(row.get("dtype", "float64")).kind
        or "complex" in row.get("holds", ())
    ]
    return pytest.mark.parametrize(("row", "dtype"), pairs)


def evaluate(expr, operands):
    return eval(expr, {"np": eo, **operands})  # our own data


def slopes(total, leaves, create_graph=False):
    """Return the gradients of the real part; zeros for what it does not depend on."""
    found = eo.autograd.grad(eo.real(total), leaves, create_graph=create_graph, allow_unused=True)
    return [eo.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]


def answers(expr, operands, names, order=1):
    """Return the value of an expression and the gradients of its sum, or of the sum of its gradient."""
    tensors = {k: eo.from_numpy(v) for k, v in operands.items()}
    leaves = [tensors[k].requires_grad_() for k in names]
    value = evaluate(expr, tensors)
    gradients = slopes(eo.sum(value), leaves, order > 1)
    if order > 1:
        gradients = slopes(sum(map(eo.sum, gradients)), leaves)
    return value.detach().numpy(), [g.detach().numpy() for g in gradients]


def expected(row, dtype="float64"):
    """Return the value, or None, and the gradients that a row promises, as arrays."""
    given = row.get("dtype", "float64")
    value = None if "value" not in row else conventions.numbers(row["value"], given)
    grads = row["grads"]
    return value, None if grads is None else [conventions.numbers(g, given) for g in grads]


def cast(operands, dtype):
    return {k: v if v.dtype.kind == "i" else v.astype(dtype) for k, v in operands.items()}


def agree(found, wanted, dtype):
    """Compare values and gradients; where a complex one has NaN or infinities, by the real parts."""
    for f, w in zip(
        [found[0], *(found[1] if wanted[1] is not None else ())], [wanted[0], *(wanted[1] or ())], strict=True
    ):
        if w is None:
            continue
        assert f.shape == w.shape
        exact = f.dtype.kind == "c" and np.isfinite(w).all()
        f, w = (f, w) if exact or w.dtype.kind == "c" else (np.real(f), np.real(w))
        np.testing.assert_allclose(f, w, rtol=RTOL[str(dtype)], atol=RTOL[str(dtype)] * 1e-3)


def tiled(row, lead):
    """Return the operands and answers of a row with more axes in front, along which they repeat."""
    operands = {k: np.array(np.broadcast_to(v, lead + v.shape)) for k, v in conventions.point(row).items()}
    value, grads = expected(row)
    value = None if value is None else np.broadcast_to(value, lead + value.shape)
    return operands, (value, grads and [np.broadcast_to(g, lead + g.shape) for g in grads])


# ---- the rows as they stand


@rows()
def test_a_row(row):
    found = answers(row["expr"], conventions.point(row), conventions.wrt(row), row.get("order", 1))
    agree(found, expected(row), row.get("dtype", "float64"))


def test_a_row_that_is_an_error():
    refused = [row for row in ALL if row["grads"] == "ShapeError"]
    assert [row["id"] for row in refused] == ["empty-max"]
    for row in refused:
        with pytest.raises(eo.ShapeError):
            answers(row["expr"], conventions.point(row), conventions.wrt(row))


# LAPACK has none of them in half precision.
DECOMPOSITIONS = ("linalg.det", "linalg.slogdet", "linalg.eig", "linalg.svd", "linalg.cholesky", "'nuc'")


@in_dtypes("float16", "float32", "complex64", "complex128")
def test_a_row_in_other_dtypes(row, dtype):
    if dtype == "float16" and any(name in row["expr"] for name in DECOMPOSITIONS):
        with pytest.raises(eo.DTypeError):
            answers(row["expr"], cast(conventions.point(row), dtype), conventions.wrt(row))
        return
    operands = cast(conventions.point(row), dtype)
    found = answers(row["expr"], operands, conventions.wrt(row), row.get("order", 1))
    assert {g.dtype for g in found[1]} == {np.dtype(dtype)}
    agree(found, expected(row), dtype)


@rows(
    among=[r for r in REAL if r.get("order", 1) == 1 and r["grads"] and "reverse" not in r.get("holds", ())]
)
def test_a_row_in_forward_mode(row):
    operands, names = conventions.point(row), conventions.wrt(row)
    fixed = {k: eo.tensor(v) for k, v in operands.items()}

    def summed(*moved):
        return eo.sum(evaluate(row["expr"], {**fixed, **dict(zip(names, moved, strict=True))}))

    for k, gradient in enumerate(expected(row)[1]):
        for index in np.ndindex(gradient.shape):
            tangents = [np.zeros(operands[name].shape) for name in names]
            tangents[k][index] = 1.0
            _, tangent = eo.jvp(summed, [fixed[name] for name in names], [eo.tensor(t) for t in tangents])
            np.testing.assert_allclose(tangent.numpy(), gradient[index], rtol=1e-13, atol=1e-16)


def derivative(f, row, argnums=0):
    """Return the gradient of a function as a function, or that of the sum of its gradient."""
    if row.get("order", 1) == 1:
        return eo.grad(f, argnums)
    return eo.grad(lambda *args: eo.sum(eo.grad(f)(*args)), argnums)


@rows(among=[row for row in REAL if row["grads"] is not None and "eager" not in row.get("holds", ())])
def test_a_row_in_a_compiled_function(row):
    names, operands = conventions.wrt(row), conventions.point(row)
    fixed = {k: eo.tensor(v) for k, v in operands.items()}

    def summed(*moved):
        return eo.sum(evaluate(row["expr"], {**fixed, **dict(zip(names, moved, strict=True))}))

    gradients = derivative(summed, row, argnums=tuple(range(len(names))))
    found = eo.compile(gradients)(*(fixed[name] for name in names))
    agree((None, [g.numpy() for g in found]), (None, expected(row)[1]), "float64")


# ---- shapes and layouts


def in_layout(array, layout):
    """Return an array with the same elements that lies otherwise in memory."""
    if not array.ndim:
        return array
    if layout == "strided":
        base = np.full([2 * n for n in array.shape], 7, array.dtype)
        view = base[tuple(slice(None, None, 2) for _ in array.shape)]
    elif layout == "reversed":
        view = np.empty_like(array, order="C")[(slice(None, None, -1),) * array.ndim]
    else:
        view = np.empty(array.shape[::-1], array.dtype).T
    view[...] = array
    return view


def test_tensors_keep_these_layouts():
    x = np.arange(6.0).reshape(2, 3)
    strides = {
        layout: eo.from_numpy(in_layout(x, layout)).numpy().strides
        for layout in ("strided", "reversed", "transposed")
    }
    assert strides == {"strided": (96, 16), "reversed": (-24, -8), "transposed": (8, 16)}


@pytest.mark.parametrize("layout", ["strided", "reversed", "transposed"])
@rows()
def test_a_row_of_other_layouts(row, layout):
    operands = {k: in_layout(v, layout) for k, v in conventions.point(row).items()}
    found = answers(row["expr"], operands, conventions.wrt(row), row.get("order", 1))
    agree(found, expected(row), row.get("dtype", "float64"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lead", [(2,), (3, 2)])
@pytest.mark.parametrize("layout", ["strided", "reversed", "transposed"])
@rows("elementwise", among=REAL)
def test_elementwise_rows_along_more_axes(row, lead, layout, dtype):
    operands, wanted = tiled(row, lead)
    operands = {k: in_layout(v.astype(dtype), layout) for k, v in operands.items()}
    if "x" in row.get("holds", ()):
        operands.update({k: v.astype(dtype) for k, v in conventions.point(row).items() if k != "x"})
    agree(answers(row["expr"], operands, conventions.wrt(row), row.get("order", 1)), wanted, dtype)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3, 1)])
@in_dtypes("float16", "float32", "float64", "complex64", "complex128", holds="elementwise", among=REAL)
def test_elementwise_rows_of_nothing(row, shape, dtype):
    operands = {k: np.zeros(shape, dtype) for k in row["point"]}
    if "x" in row["holds"]:
        operands.update({k: v.astype(dtype) for k, v in conventions.point(row).items() if k != "x"})
    value, gradients = answers(row["expr"], operands, conventions.wrt(row), row.get("order", 1))
    assert value.shape == shape
    assert [(g.shape, g.dtype) for g in gradients] == [(shape, np.dtype(dtype))] * len(gradients)


@rows("elementwise", among=REAL)
def test_elementwise_rows_of_0_d_tensors(row):
    operands, (value, grads) = conventions.point(row), expected(row)
    for i in range(len(operands[conventions.wrt(row)[0]])):
        one = {k: v if "x" in row["holds"] and k != "x" else v[i, ...] for k, v in operands.items()}
        found = answers(row["expr"], one, conventions.wrt(row), row.get("order", 1))
        agree(found, (None if value is None else value[i], grads and [g[i] for g in grads]), "float64")


ELEMENTWISE = [row for row in REAL if "elementwise" in row.get("holds", ()) and "x" not in row["holds"]]


@st.composite
def laid_out(draw, array):
    """Return an array with the same elements, its axes in any order in memory and in any direction."""
    order = draw(st.permutations(range(array.ndim)))
    steps = draw(st.tuples(*[st.sampled_from([1, 2, -1, -2])] * array.ndim))
    base = np.full([abs(s) * array.shape[i] for i, s in zip(order, steps, strict=True)], 7, array.dtype)
    view = base[(..., *(slice(None, None, s) for s in steps))].transpose(np.argsort(order).astype(int))
    view[...] = array
    return view


@given(data=st.data())
def test_elementwise_rows_anywhere(data):
    row = data.draw(st.sampled_from(ELEMENTWISE))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    operands, (value, grads) = conventions.point(row), expected(row)
    places = data.draw(
        hnp.arrays(
            np.int64,
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
            elements=st.integers(0, len(next(iter(operands.values()))) - 1),
        )
    )
    given_ = {k: data.draw(laid_out(np.asarray(v[places], dtype))) for k, v in operands.items()}
    wanted = (None if value is None else value[places], grads and [g[places] for g in grads])
    agree(answers(row["expr"], given_, conventions.wrt(row), row.get("order", 1)), wanted, dtype)


BATCHED = [row for row in REAL if "batched" in row]


@pytest.mark.parametrize("lead", [(0,), (2,), (2, 0), (3, 2)])
@in_dtypes("float32", "float64", "complex64", "complex128", among=BATCHED)
def test_rows_of_batches(row, lead, dtype):
    operands, wanted = tiled(row, lead)
    shape = (*lead, *np.shape(conventions.numbers(row["value"], dtype))) if "value" in row else None
    for layout in ("strided", "reversed", "transposed"):
        laid = {k: in_layout(v.astype(dtype), layout) for k, v in operands.items()}
        found = answers(row["batched"], laid, conventions.wrt(row), row.get("order", 1))
        assert shape is None or found[0].shape == shape
        assert {g.dtype for g in found[1]} == {np.dtype(dtype)}
        agree(found, wanted, dtype)


@rows(among=[row for row in BATCHED if row["grads"]])
def test_rows_under_vmap(row):
    gradient = derivative(lambda x: eo.sum(evaluate(row["expr"], {"x": x})), row)
    x = conventions.point(row)["x"]
    found = eo.vmap(gradient)(eo.tensor(np.stack([x, x, x])))
    (wanted,) = expected(row)[1]
    agree((None, [found.numpy()]), (None, [np.stack([wanted] * 3)]), "float64")


# ---- the table itself


@pytest.mark.parametrize("row", BEHAVIOURS, ids=[row["id"] for row in BEHAVIOURS])
def test_a_behaviour(row):
    assert conventions.answer(row["code"]["everyo"], {"eo": eo}) == row["answer"]


@pytest.mark.parametrize("row", [*ALL, *BEHAVIOURS], ids=[row["id"] for row in [*ALL, *BEHAVIOURS]])
def test_a_difference_is_explained(row):
    assert set(row["peers"]) == set(conventions.PEERS)
    different = [peer for peer in conventions.PEERS if conventions.differs(row, peer)]
    assert bool(different) == bool(row.get("why")), different


def test_rows_are_named_once_and_asked_of_named_versions():
    data = conventions.load()
    assert len({row["id"] for row in [*ALL, *BEHAVIOURS]}) == len(ALL) + len(BEHAVIOURS)
    assert set(data["versions"]) == set(conventions.PEERS)


def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, str(TOOL), "--check"], check=False)
    assert done.returncode == 0, "run python tools/conventions.py"
